"""The verdict on jobs whose waste is known: which cause, how much, in which words, with which finding."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from gpulint_probe.analysis import Program, StaticFinding, analyse, read_program
from gpulint_probe.analysis.cause import Cause
from gpulint_probe.analysis.explanations import CODES, REFUTED_BY
from gpulint_probe.analysis.pauses import Rhythm, rhythm
from gpulint_probe.analysis.verdict import Loss, worth_naming
from gpulint_probe.recording import Mark, Recording

from tests.probe.synthetic import SAVE, START, WORK, Phase, record

CHECKPOINT = StaticFinding("GPU211", "blocking-checkpoint", "warning", "train.py", 140, "saves synchronously", "", "")
LOADER = StaticFinding("GPU303", "single-process-loading", "warning", "data.py", 7, "loads in one process", "", "")


def verdict(recording: Recording, *findings: StaticFinding) -> tuple[Loss, ...]:
    return worth_naming(analyse(recording, Program(findings=findings)).losses)


def causes(recording: Recording) -> list[Cause]:
    return [loss.cause for loss in verdict(recording)]


def test_checkpoint_pauses_are_one_sentence_with_length_period_place_and_rule() -> None:
    (loss,) = verdict(record([WORK, SAVE] * 8), LOADER, CHECKPOINT)
    assert loss.sentence == (
        "57% of GPU time lost in 96 s pauses every 168 s: train.py:140: saves synchronously (GPU211)"
    )
    assert loss.reasons == ("disk writes of 200 MB/s during these pauses, little between them",)
    assert not loss.certain
    assert loss.share == pytest.approx(96 / 168)
    (loss,) = verdict(record([WORK, SAVE] * 8), LOADER)
    assert loss.sentence == "57% of GPU time lost in 96 s pauses every 168 s, for checkpoints (likely)"


def test_the_log_makes_a_checkpoint_certain() -> None:
    silent = replace(SAVE, disk_write=0.0, mark=("checkpoint", "Saving model to /mnt/blob/epoch-3.pt"))
    (loss,) = verdict(record([WORK, silent] * 4))
    assert (loss.cause, loss.certain) == (Cause.CHECKPOINT, True)
    assert "Saving model to /mnt/blob/epoch-3.pt" in loss.reasons[0]


def test_pauses_without_any_trace_have_no_cause_but_show_what_could_explain_them() -> None:
    silent = replace(SAVE, disk_write=0.0)
    (loss,) = verdict(record([WORK, silent] * 4 + [WORK]), CHECKPOINT)
    assert loss.cause is Cause.PAUSES
    assert loss.sentence.startswith("52% of GPU time lost in 96 s pauses every 168 s, cause not seen: train.py:140")


def test_irregular_pauses_have_no_period() -> None:
    lengths = [20, 150, 45, 400, 90, 30, 600, 75]
    phases = [part for seconds in lengths for part in (Phase(seconds, 0.9), replace(SAVE, seconds=40))]
    (loss,) = verdict(record([*phases, WORK]))
    assert loss.rhythm is not None
    assert (loss.rhythm.count, loss.rhythm.length_s, loss.rhythm.period_s) == (8, 40, None)
    assert "8 pauses of 40 s" in loss.sentence


def test_pauses_longer_than_the_time_between_their_starts_have_no_period() -> None:
    """Two short ones and a long one: the median length is more than the median distance."""
    found = rhythm([(0.0, 1.0), (1.8, 4.2), (4.0, 8.0)])
    assert found is not None
    assert (found.count, found.length_s, found.period_s) == (3, pytest.approx(2.4), None)
    found = rhythm([(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)])
    assert found == Rhythm(3, 1.0, 2.0)


def test_pauses_of_all_gpus_count_for_each_gpu_but_are_one_rhythm() -> None:
    (loss,) = verdict(record([WORK, SAVE] * 5, [WORK, SAVE] * 5))
    assert loss.gpus == (0, 1)
    assert loss.rhythm is not None
    assert loss.rhythm.count == 5
    assert loss.gpu_seconds == pytest.approx(2 * 5 * 96)
    assert loss.share == pytest.approx(96 / 168)


def test_a_gpu_that_is_never_used_is_named() -> None:
    busy, unused = [Phase(300, 0.95)], [Phase(300, 0.0, 0.0)]
    (loss,) = verdict(record(busy, busy, unused, busy))
    assert loss.sentence == "25% of GPU time lost on 1 GPU that did nothing (GPU 2)"


def test_start_up_is_split_by_what_the_log_says() -> None:
    idle = Phase(40, 0.0, 0.0)
    recording = record([idle, idle, idle, Phase(380, 0.9)])
    recording.marks = [
        Mark(START + 40, "install", "Collecting torch"),
        Mark(START + 70, "install", "Installing collected packages"),
        Mark(START + 80, "download", "Downloading model.safetensors"),
    ]
    found = {loss.cause: loss.gpu_seconds for loss in verdict(recording)}
    assert found == {
        Cause.START: pytest.approx(40 + 10), Cause.INSTALL: pytest.approx(30), Cause.DOWNLOAD: pytest.approx(40),
    }  # fmt: skip


def test_a_blip_of_activity_does_not_end_the_start_up() -> None:
    found = verdict(record([Phase(60, 0.0), Phase(2, 0.05), Phase(60, 0.0), Phase(600, 0.9)]))
    assert [(loss.cause, round(loss.seconds)) for loss in found] == [(Cause.START, 122)]


def test_a_job_that_works_in_bursts_has_begun_with_the_first_one() -> None:
    bursts = [Phase(2, 0.9), Phase(3, 0.0)] * 60
    assert causes(record([*bursts, Phase(20, 0.9)])) == [Cause.INPUT]


def test_short_waits_of_unknown_cause_are_counted() -> None:
    (loss,) = verdict(record([*[Phase(9, 0.9), Phase(1, 0.0)] * 30, Phase(9, 0.9)]))
    assert loss.sentence == "10% of GPU time lost in 1 s pauses every 10 s, cause not seen"


def test_idle_time_after_the_last_work_is_a_tail() -> None:
    (loss,) = verdict(record([Phase(300, 0.9), Phase(100, 0.0)]))
    assert loss.sentence == "25% of GPU time lost in 100 s after the last work on the GPU"


def test_the_last_checkpoint_is_no_tail_but_a_long_wait_after_it_is() -> None:
    assert causes(record([WORK, SAVE] * 4)) == [Cause.CHECKPOINT]
    assert causes(record([*[WORK, SAVE] * 4, replace(SAVE, seconds=600)])) == [Cause.TAIL, Cause.CHECKPOINT]


def test_evaluation_is_told_by_the_log_paused_or_slow() -> None:
    slow = Phase(60, 0.2, mark=("eval", "Evaluating"))
    train = Phase(240, 0.95, mark=("epoch", "Epoch 1"))
    (loss,) = verdict(record([train, slow] * 4))
    assert loss.cause is Cause.EVALUATION
    assert loss.sentence.startswith("16% of GPU time lost in 60 s evaluation pauses every 300 s")
    assert causes(record([train, replace(slow, activity=0.0)] * 4)) == [Cause.EVALUATION]


def test_a_pause_that_saves_and_then_evaluates_is_cut_where_the_log_says_so() -> None:
    epoch = [
        Phase(200, 0.95, mark=("epoch", "Epoch")),
        Phase(40, 0.0, mark=("checkpoint", "Saving")),
        Phase(60, 0.2, mark=("eval", "Evaluating")),
    ]
    found = {loss.cause: loss for loss in verdict(record([*epoch * 4, Phase(50, 0.0)]))}
    assert found[Cause.CHECKPOINT].gpu_seconds == pytest.approx(4 * 40)
    assert found[Cause.EVALUATION].gpu_seconds == pytest.approx(4 * 60 * 0.8)
    assert found[Cause.TAIL].gpu_seconds == pytest.approx(50)
    assert "40 s pauses every 300 s" in found[Cause.CHECKPOINT].sentence
    assert "60 s evaluation pauses every 300 s" in found[Cause.EVALUATION].sentence


def test_a_line_after_the_save_tells_of_the_pause_before_it() -> None:
    recording = record([WORK, replace(SAVE, disk_write=0.0)] * 4)
    recording.marks = [Mark(START + n * 168 + 167, "checkpoint", "Saved model.pt") for n in range(4)]
    recording.marks += [Mark(START + n * 168 + 168, "eval", "Evaluating") for n in range(3)]
    assert verdict(recording)[0].cause is Cause.CHECKPOINT
    assert verdict(recording)[0].gpu_seconds == pytest.approx(4 * 96)


def test_busy_cores_and_a_waiting_gpu_are_input() -> None:
    (loss,) = verdict(record([Phase(300, 0.25, cpu=0.97)]), CHECKPOINT, LOADER)
    assert loss.sentence == "75% of GPU time lost waiting for input (likely): data.py:7: loads in one process (GPU303)"
    assert loss.reasons == ("the job's CPU cores are 97% busy while the GPU waits",)


def test_few_busy_loader_processes_on_many_cores_are_input_too() -> None:
    recording = record([Phase(300, 0.25, cpu=0.28)])  # 4.5 of 16 cores; 5 processes
    (loss,) = verdict(recording)
    assert (loss.cause, loss.reasons) == (
        Cause.INPUT, ("the job's 5 processes keep 4.5 cores busy while the GPU waits",)
    )  # fmt: skip
    recording.host_samples = [replace(sample, processes=2) for sample in recording.host_samples]
    assert causes(recording) == [Cause.SMALL_BATCH]


def test_bursts_of_work_with_waits_between_are_input() -> None:
    assert causes(record([Phase(2, 0.9), Phase(3, 0.0)] * 60)) == [Cause.INPUT]


def test_much_pcie_traffic_at_low_activity_is_transfer() -> None:
    assert causes(record([Phase(300, 0.25, pcie=6e9)])) == [Cause.TRANSFER]


def test_steadily_low_activity_with_free_memory_is_a_small_batch_and_with_full_memory_is_not() -> None:
    assert causes(record([Phase(300, 0.25, memory=0.3)])) == [Cause.SMALL_BATCH]
    assert causes(record([Phase(300, 0.25, memory=0.9)])) == [Cause.LOW]


def test_a_busy_job_is_blamed_for_nothing() -> None:
    noise = random.Random(4)
    assert verdict(record([Phase(1, noise.uniform(0.75, 0.95)) for _ in range(600)])) == ()


def test_a_new_level_is_no_drop_for_ever() -> None:
    analysis = analyse(record([Phase(300, 0.95), Phase(600, 0.45)]))
    assert analysis.gpus[0].pattern_seconds["low plateau"] == pytest.approx(600, abs=30)


def test_a_drop_is_told_against_the_local_level() -> None:
    analysis = analyse(record([Phase(100, 0.9), Phase(10, 0.3), Phase(100, 0.9)]))
    assert analysis.gpus[0].pattern_seconds == {"busy": 200, "sudden drop": 10}
    noise = random.Random(1)
    uneven: Sequence[Phase] = [Phase(1, noise.uniform(0.55, 1.0)) for _ in range(300)]
    assert analyse(record(uneven)).gpus[0].pattern_seconds == {"busy": 300}


def test_unseen_time_between_two_pauses_is_not_lost() -> None:
    recording = record([Phase(100, 0.9), Phase(10, 0.0), Phase(100, unseen=True), Phase(10, 0.0), Phase(100, 0.9)])
    assert sum(loss.gpu_seconds for loss in verdict(recording)) == pytest.approx(20, abs=3)


# -- the program behind a recording ------------------------------------------------------------------------------------

TRAIN = """\
import torch
from torch.utils.data import DataLoader
from model import build

model = build().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(dataset, batch_size=64, shuffle=True)
for epoch in range(10):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), f"/mnt/blob/run/{epoch}.pt")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "model.py").write_text("import torch\n\ndef build():\n    return torch.nn.Linear(4096, 4096)\n")
    (tmp_path / "unrelated.py").write_text(TRAIN)
    return tmp_path


def test_the_verdict_joins_the_findings_of_the_program(tree: Path) -> None:
    recording = record([WORK, SAVE] * 5, command=["python", "-u", "train.py", "--lr", "0.1"], cwd=str(tree))
    analysis = analyse(recording, read_program(recording.command, recording.cwd, 1))
    (loss,) = worth_naming(analysis.losses)
    assert loss.sentence.startswith("57% of GPU time lost in 96 s pauses every 168 s: train.py:13: torch.save ")
    assert loss.sentence.endswith("(GPU211)")
    assert analysis.program.files == ("model.py", "train.py")


@pytest.mark.parametrize(
    "command",
    [
        ["torchrun", "--nproc_per_node", "2", "train.py"],
        ["/usr/bin/python3.11", "train.py"],
        ["bash", "-c", "cd . && python train.py"],
        ["python", "{tree}/train.py"],
    ],
)
def test_programs_are_found_behind_launchers(tree: Path, command: list[str]) -> None:
    program = read_program([word.format(tree=tree) for word in command], str(tree), 2)
    assert "GPU211" in {finding.code for finding in program.findings}


def test_processes_fewer_than_the_gpus_of_the_machine_are_a_finding(tree: Path) -> None:
    command = ["torchrun", "--nproc_per_node", "2", "train.py"]
    found = [item for item in read_program(command, str(tree), 4).findings if item.code == "GPU103"]
    assert [(item.place, ".gpulint" in item.message) for item in found] == [("the command", False)]
    assert "GPU103" not in {item.code for item in read_program(command, str(tree), 2).findings}


def test_settings_of_the_project_hold_for_the_probe_too(tree: Path) -> None:
    (tree / "gpulint.toml").write_text('ignore = ["GPU211"]\n')
    assert "GPU211" not in {item.code for item in read_program(["python", "train.py"], str(tree), 1).findings}
    (tree / "gpulint.toml").write_text("ignore = 7\n")
    assert "ignore" in read_program(["python", "train.py"], str(tree), 1).note


@pytest.mark.parametrize(
    ("command", "cwd", "note"),
    [
        ([], "/", "no command"),
        (["python", "train.py"], "/no/such/folder", "is not here"),
        (["python", "missing.py"], "/", "starts no file that gpulint reads"),
        (["nvidia-smi"], "/", "starts no file that gpulint reads"),
    ],
)
def test_what_cannot_be_read_is_a_note(command: list[str], cwd: str, note: str) -> None:
    program = read_program(command, cwd, 1)
    assert note in program.note
    assert program.findings == ()


def test_all_mapped_rules_exist() -> None:
    from gpulint.plugins import load

    assert {code for codes in CODES.values() for code in codes} <= {rule.code for rule in load().rules}
    assert set(CODES) == set(REFUTED_BY) == set(Cause)
