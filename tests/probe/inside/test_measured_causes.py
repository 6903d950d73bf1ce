"""Verdicts on recordings with stacks: what was measured decides, and what was not seen is said to be so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from gpulint_probe.analysis import Analysis, Program, StaticFinding, analyse
from gpulint_probe.analysis.cause import Cause
from gpulint_probe.analysis.verdict import worth_naming
from gpulint_probe.inside.phases import read_stack
from gpulint_probe.inside.records import Process, Stack, StackCounts
from gpulint_probe.recording import Recording
from gpulint_probe.reporting.page import page

from tests.probe.synthetic import START, Phase, record

FRAMES = {
    "input": ("torch.utils.data.dataloader", "_SingleProcessDataLoaderIter._next_data", ""),
    "backward": ("torch.autograd", "backward", ""),
    "item": ("__main__", "train", "loss.item"),
    "save": ("torch.serialization", "save", ""),
    "host": ("__main__", "metrics", ""),
    "lock": ("__main__", "update", "self.lock.__enter__"),
    "handle": ("__main__", "average", "handle.wait"),
    "reduce": ("torch.distributed.distributed_c10d", "all_reduce", ""),
    "fetch": ("torch.utils.data._utils.worker", "_worker_loop", ""),
    "take": ("queue", "Queue.get", ""),
    "read": ("socket", "SocketIO.readinto", "recv_into"),
}


def stack(number: int, kind: str) -> Stack:
    """Of a program in /job that is in one of the frames above."""
    module, function, call = FRAMES[kind]
    return Stack(
        START, number, [module, "__main__"], [function, "main"], ["/site-packages/x.py", "/job/train.py"], [9, 12], call
    )


def sample(
    recording: Recording, pid: int, kinds: dict[str, int], seconds: int, running: float = 1.0, thread: str = "main"
) -> None:
    """``kinds`` says how many of ten samples a second are in each frame, for so many seconds."""
    recording.cwd = "/job"
    numbers = {kind: number for number, kind in enumerate(FRAMES)}
    known = {stack.id for stack in recording.stacks}
    recording.stacks += [stack(numbers[kind], kind) for kind in kinds if numbers[kind] not in known]
    counts = list(kinds.values())
    ran = [round(running * count) for count in counts]
    columns = [numbers[kind] for kind in kinds], counts, ran, [0] * len(counts)
    recording.stack_counts += [
        StackCounts(START + second + 1, 1.0, pid, thread, *columns, cpu_s=running, lag_s=0.001, delay_s=0.0)
        for second in range(seconds)
    ]


def process(recording: Recording, pid: int, parent: int = 1, rank: int | None = None) -> None:
    recording.processes.append(Process(START, pid, parent, ["python", "train.py"], rank, rank))


def one(phases: Sequence[Phase], kinds: dict[str, int], running: float = 1.0) -> Recording:
    recording = record(phases)
    process(recording, 7)
    sample(recording, 7, kinds, int(sum(phase.seconds for phase in phases)), running)
    return recording


def shares(analysis: Analysis) -> dict[Cause, float]:
    return {loss.cause: round(loss.share, 2) for loss in worth_naming(analysis.losses)}


STARVED = [Phase(100, 0.3, memory=0.2, cpu=1 / 16)]


def test_one_loading_process_on_sixteen_cores_starves_the_gpu_and_its_batches_are_not_small() -> None:
    """An outside review saw this job told that its batches are small (one core of 16 busy, SM activity 30%)."""
    analysis = analyse(one(STARVED, {"input": 8, "backward": 2}))
    first = worth_naming(analysis.losses)[0]
    assert (first.cause, first.certain) == (Cause.INPUT_PROCESS, True)
    assert Cause.SMALL_BATCH not in shares(analysis)
    assert "at train.py:12 in main" in first.sentence
    assert "larger batch" not in page(analysis, width=300)


def test_the_same_job_without_stacks_is_not_told_that_its_batches_are_small_either() -> None:
    recording = record(STARVED)
    recording.host_samples = [replace(of, processes=1) for of in recording.host_samples]
    assert list(shares(analyse(recording))) == [Cause.INPUT_PROCESS]
    busy = {"pid": 7, "tid": 7, "name": "python", "cpu_share": 1.0}
    idle = {"pid": 7, "tid": 8, "name": "tqdm", "cpu_share": 0.1}
    recording = record(STARVED)
    recording.host_samples = [replace(of, threads=[idle, busy], processes=9) for of in recording.host_samples]  # type: ignore[list-item]
    (loss,) = worth_naming(analyse(recording).losses)
    assert loss.cause is Cause.INPUT_PROCESS
    assert "thread 7 (python) keeps one core 100% busy" in loss.reasons[0]
    recording.host_samples = [replace(of, threads=[idle]) for of in recording.host_samples]  # type: ignore[list-item]
    assert list(shares(analyse(recording))) == [Cause.SMALL_BATCH]


def test_several_causes_have_shares_that_add_up_to_the_loss() -> None:
    analysis = analyse(one([Phase(100, 0.2, memory=0.9)], {"input": 4, "host": 2, "backward": 4}))
    assert shares(analysis) == {Cause.INPUT_PROCESS: 0.4, Cause.HOST: 0.2, Cause.LAUNCH: 0.2}
    assert sum(loss.share for loss in analysis.losses) == pytest.approx(0.8)
    assert analysis.used_gpu_seconds == pytest.approx(20)


def test_kernels_that_run_all_the_time_hide_what_the_thread_waits_for() -> None:
    recording = one([Phase(100, 0.3, memory=0.2)], {"input": 6, "item": 4})
    recording.gpu_samples = [replace(of, utilization=1.0) for of in recording.gpu_samples]
    assert list(shares(analyse(recording))) == [Cause.SMALL_BATCH]
    recording.gpu_samples = [replace(of, utilization=0.3) for of in recording.gpu_samples]
    assert next(iter(shares(analyse(recording)))) is Cause.INPUT_PROCESS


def test_loader_processes_that_wait_for_reads_are_limited_by_storage_and_those_that_compute_by_their_number() -> None:
    for kinds, running, cause in (
        ({"fetch": 10}, 1.0, Cause.INPUT_PROCESS), ({"read": 10}, 0.0, Cause.INPUT_STORAGE),
    ):  # fmt: skip
        recording = one([Phase(100, 0.0), Phase(20, 0.9), Phase(100, 0.0), Phase(20, 0.9)], {"input": 10}, 0.0)
        process(recording, 8, parent=7)
        sample(recording, 8, kinds, 240, running)
        # Both are loader processes: their stacks begin in the worker's loop.
        recording.stacks = [
            replace(of, modules=[*of.modules, FRAMES["fetch"][0]], functions=[*of.functions, FRAMES["fetch"][1]],
                    files=[*of.files, ""], lines=[*of.lines, 1])
            if of.modules[0] in (FRAMES["fetch"][0], FRAMES["read"][0]) else of
            for of in recording.stacks
        ]  # fmt: skip
        assert cause in shares(analyse(recording)), cause


def test_a_batch_from_a_queue_is_waited_for_and_the_thread_that_makes_it_is_named() -> None:
    recording = one(STARVED, {"take": 8, "backward": 2}, 0.1)
    sample(recording, 7, {"host": 10}, 100, 0.0, "prefetch")
    first = worth_naming(analyse(recording).losses)[0]
    assert first.cause is Cause.INPUT_PROCESS
    assert "the thread prefetch, at train.py:12 in main, prepared data without a pause" in first.reasons[0]
    recording = one(STARVED, {"take": 8, "backward": 2}, 0.1)
    sample(recording, 7, {"read": 10}, 100, 0.0, "prefetch")
    assert next(iter(shares(analyse(recording)))) is Cause.INPUT_STORAGE


def test_a_generator_makes_batches_unless_it_trains() -> None:
    recording = one(STARVED, {"host": 8, "backward": 2})
    assert next(iter(shares(analyse(recording)))) is Cause.HOST
    made = [replace(of, generators=[1]) if of.functions[0] == "metrics" else of for of in recording.stacks]
    # The generator is a function of its own, not the one that trains.
    recording.stacks = [replace(of, functions=[of.functions[0], "batches"]) if of.generators else of for of in made]
    assert next(iter(shares(analyse(recording)))) is Cause.INPUT_PROCESS
    recording.stacks = [replace(of, generators=[1], functions=[of.functions[0], "train"]) for of in made]
    assert next(iter(shares(analyse(recording)))) is Cause.HOST


def test_a_lock_that_a_computing_thread_holds_is_that_threads_time() -> None:
    recording = one(STARVED, {"lock": 8, "backward": 2}, 0.1)
    assert next(iter(shares(analyse(recording)))) is Cause.HOST
    sample(recording, 7, {"host": 10}, 100, 0.8, "average")
    first = worth_naming(analyse(recording).losses)[0]
    assert first.cause is Cause.THREADS
    assert "other Python threads had 89% of the interpreter's CPU time" in first.reasons[0]


def test_what_a_function_writes_belongs_to_its_checkpoint() -> None:
    recording = one([Phase(100, 0.3, memory=0.9)], {"save": 4, "host": 4, "backward": 2})

    def own(name: str, call: str) -> None:
        recording.stacks = [
            replace(of, functions=[of.functions[0], name], call=call, modules=["json", "__main__"])
            if of.functions[0] == "metrics" else of
            for of in recording.stacks
        ]  # fmt: skip

    own("main", "os.fsync")
    assert Cause.HOST not in shares(analyse(recording))
    own("main", "compute")
    assert Cause.HOST in shares(analyse(recording))
    own("write_table", "file.write")  # a function that saves nothing
    assert Cause.HOST in shares(analyse(recording))


def test_a_control_groups_limit_is_not_a_lack_of_processes() -> None:
    recording = one(STARVED, {"input": 8, "backward": 2})
    recording.host_samples = [replace(of, cpu_limited=0.5) for of in recording.host_samples]
    assert next(iter(shares(analyse(recording)))) is Cause.INPUT_CPU


def test_a_stack_beats_a_line_of_the_log() -> None:
    epoch = [Phase(30, 0.9), Phase(10, 0.0, mark=("checkpoint", "Saving model"))]
    assert list(shares(analyse(one(epoch * 4, {"input": 10}, 0.0)))) != [Cause.CHECKPOINT]
    assert list(shares(analyse(one(epoch * 4, {"save": 10}, 0.0)))) == [Cause.CHECKPOINT]
    assert Cause.CHECKPOINT in shares(analyse(one(epoch * 4, {"host": 10}, 0.0)))


@pytest.mark.parametrize(
    ("slow", "cause"), [("host", Cause.STRAGGLER), ("evaluate", Cause.EVALUATION), ("save", Cause.CHECKPOINT)]
)
def test_a_rank_that_waits_is_told_for_whom_and_why(slow: str, cause: Cause, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FRAMES, "evaluate", ("__main__", "evaluate", ""))
    recording = record([Phase(100, 0.2)], [Phase(100, 0.9)])
    for rank in range(2):
        process(recording, 10 + rank, rank=rank)
    sample(recording, 10, {"reduce": 7, "backward": 3}, 100, 0.0)
    sample(recording, 11, {slow: 7, "backward": 3}, 100)
    analysis = analyse(recording)
    assert next(iter(shares(analysis))) is cause
    assert "rank 1 was in" in analysis.losses[0].reasons[0]


def test_ranks_that_all_wait_are_slowed_by_the_network() -> None:
    recording = record([Phase(100, 0.2)], [Phase(100, 0.2)])
    for rank in range(2):
        process(recording, 10 + rank, rank=rank)
        sample(recording, 10 + rank, {"reduce": 7, "backward": 3}, 100, 0.0)
    assert next(iter(shares(analyse(recording)))) is Cause.COMMUNICATION


def test_handles_of_collectives_are_waited_for_only_where_there_are_ranks() -> None:
    recording = record([Phase(100, 0.2)], [Phase(100, 0.2)])
    for rank in range(2):
        process(recording, 10 + rank, rank=rank)
        sample(recording, 10 + rank, {"handle": 7, "backward": 3}, 100, 0.0)
    assert next(iter(shares(analyse(recording)))) is Cause.COMMUNICATION
    assert Cause.COMMUNICATION not in shares(analyse(one(STARVED, {"handle": 8, "backward": 2}, 0.0)))


def test_lowered_clocks_cost_a_part_of_the_used_time() -> None:
    recording = record([Phase(100, 0.9)])
    recording.gpus = [replace(info, max_clock_mhz=2000.0) for info in recording.gpus]
    recording.gpu_samples = [
        replace(of, clock_mhz=1000.0, throttle_reasons=["sw_thermal"]) for of in recording.gpu_samples
    ]
    analysis = analyse(recording)
    assert shares(analysis) == {Cause.THROTTLED: 0.45}
    assert analysis.used_gpu_seconds == pytest.approx(45)
    assert "1000 MHz, 50% of 2000 MHz: sw thermal" in analysis.losses[0].reasons[0]
    recording.gpu_samples = [replace(of, throttle_reasons=["application_clocks"]) for of in recording.gpu_samples]
    assert shares(analyse(recording)) == {}


def test_programs_of_others_are_named_only_where_the_source_knows_whose_they_are() -> None:
    recording = record([Phase(100, 0.9)])
    theirs = {"pid": 42, "memory_bytes": 3 << 30, "job": False}
    for entry, said in (
        (theirs, True),
        ({"pid": 42, "memory_bytes": 3 << 30}, False),
        ({**theirs, "job": True}, False),
    ):
        recording.gpu_samples = [replace(of, processes=[entry]) for of in recording.gpu_samples]  # type: ignore[list-item]
        assert ("GPU 0 is shared" in page(analyse(recording), width=300)) is said


def finding(code: str) -> StaticFinding:
    return StaticFinding(code, "x", "warning", "train.py", 7, f"says {code}", "", "")


def test_a_measurement_beats_a_static_finding() -> None:
    recording = record([Phase(100, 0.9)], [Phase(100, 0.9)])
    program = Program(findings=(finding("GPU103"), finding("GPU305")))
    analysis = analyse(recording, program)
    assert [(of.finding.code, of.reason) for of in analysis.refuted] == [("GPU103", "2 GPUs were used")]
    assert [of.code for of in analysis.program.findings] == ["GPU305"]
    assert "contradicted: train.py:7: says GPU103 (GPU103): 2 GPUs were used" in page(analysis, width=300)
    idle = record([Phase(100, 0.9)], [Phase(100, 0.0, 0.0)])
    assert analyse(idle, program).refuted == ()


def test_a_loader_with_processes_is_not_a_single_process() -> None:
    recording = one([Phase(100, 0.9)], {"backward": 10})
    (refuted,) = analyse(recording, Program(findings=(finding("GPU303"),))).refuted
    assert refuted.reason == "costs less than 1% of the GPU time of this run"
    process(recording, 8, parent=7)
    sample(recording, 8, {"fetch": 10}, 100)
    (refuted,) = analyse(recording, Program(findings=(finding("GPU303"),))).refuted
    assert refuted.reason == "1 loader process ran"


def test_without_a_gpu_the_report_has_the_time_of_the_threads_and_what_a_gpu_would_measure() -> None:
    recording = one([], {})
    recording.gpus, recording.gpu_samples = [], []
    sample(recording, 7, {"input": 6, "backward": 4}, 50)
    text = page(analyse(recording, Program(findings=(finding("GPU303"),))), width=300)
    assert "60% input (train.py:12 in main), 40% backward (train.py:12 in main)" in text
    assert "in the code: train.py:7: says GPU303 (GPU303); a run on a GPU measures this as “" in text


def test_each_claimed_cause_says_what_would_refute_it() -> None:
    text = page(analyse(one([Phase(100, 0.2, memory=0.9)], {"backward": 10})), width=300)
    assert "would be refuted by" in text


def test_uneven_use_of_gpus_is_named() -> None:
    assert "GPU 1 is used 30%, GPU 0 45%" in page(analyse(record([Phase(100, 0.45)], [Phase(100, 0.3)])), width=300)
    assert "is used" not in page(analyse(record([Phase(100, 0.45)], [Phase(100, 0.4)])), width=300)


def test_unseen_time_is_a_range_and_not_zero() -> None:
    text = page(analyse(record([Phase(60, 0.8), Phase(60, unseen=True)])), width=300)
    assert "Average SM activity: 80% of the time seen (40% to 90% of the whole run)." in text


@pytest.mark.parametrize(
    ("frames", "call", "phase"),
    [
        ([("torch.serialization", "save"), ("__main__", "main")], "", "checkpoint"),
        ([("__main__", "main")], "loss.item", "synchronization"),
        ([("__main__", "main")], "np.mean", "Python code"),
        ([("__main__", "main")], "x.mean", "forward"),
        ([("__main__", "main")], "batch.to", "transfer"),
        ([("torch.nn.modules.linear", "Linear.forward"), ("__main__", "evaluate")], "", "evaluation"),
        ([("torch._inductor.codecache", "compile"), ("__main__", "main")], "", "compilation"),
        ([("torch.nn", "<module>"), ("importlib._bootstrap", "_find_and_load")], "", "imports"),
        ([("selectors", "EpollSelector.select"), ("asyncio.base_events", "run"), ("ipykernel.kernelapp", "start")], "",
         "waiting for a cell"),
        ([("__main__", "train"), ("ipykernel.ipkernel", "do_execute")], "", "Python code"),
        ([("pip._internal.cli", "main")], "", "install"),
        ([("torch.optim.adamw", "AdamW.step")], "", "optimizer"),
        ([("__main__", "evaluate_args")], "", "Python code"),
    ],
)  # fmt: skip
def test_phases_are_read_from_stacks(frames: list[tuple[str, str]], call: str, phase: str) -> None:
    modules, functions = (list(names) for names in zip(*frames, strict=True))
    found = read_stack(Stack(0.0, 0, modules, functions, ["/job/x.py"] * len(frames), [1] * len(frames), call), "/job")
    assert found.phase.name == phase
