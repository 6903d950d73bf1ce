"""A longer interval between checkpoints: the user's times make the number, and nothing else changes with it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from gpulint.finding import Finding
from gpulint.fix import Declined

MakeJob = Callable[..., Any]

TIMES = {"mtbf-hours": 200.0, "checkpoint-seconds": 45.0, "step-seconds": 0.8}
LOOP = """\
import torch

for epoch in range(90):
    for batch_idx, batch in enumerate(loader):
        model(batch.cuda()).backward()
        optimizer.step()
        step += 1
        if TEST:
            BEFORE
        torch.save(model.state_dict(), "model.pt")
"""
SETTINGS = "from transformers import TrainingArguments\nsteps = 200\nTrainingArguments({})\n"


def timed(job: MakeJob, text: str, **times: float) -> Any:
    made = job({"train.py": text})
    made.config = dataclasses.replace(made.config, checkpoint_times={"train.py": {**TIMES, **times}})
    return made


def saved(test: str, before: str = "") -> str:
    """The loop, which saves where a test holds, or after it has skipped the rest of a round."""
    text = LOOP.replace("TEST", test).replace("BEFORE", before or "print('saving')")
    return text if before == "continue" else text.replace("        torch", "            torch")


def help_of(made: Any) -> str:
    (found,) = [result.finding for result in made.scan("GPU211")]
    assert isinstance(found, Finding)
    return found.help or ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (saved("step % 500 == 0", "evaluate(model)"), "`evaluate` runs at the same interval"),
        (saved("step % 500", "continue"), "the rest of the loop's round"),
        (saved("(batch_idx + 1) % 500 == 0"), "the count starts anew"),
        (saved("step % every == 0").replace("for epoch", "every = 500\nfor epoch"), "for checkpoints alone"),
        (saved("step % save_eval_steps == 0").replace("for epoch", "save_eval_steps = 500\nfor epoch"), "alone"),
        (saved("step % (5 * 100) == 0"), "for checkpoints alone"),
        (SETTINGS.format("'out', save_steps=steps, eval_steps=steps"), "for checkpoints alone"),
        (SETTINGS.format("'out'"), "`save_steps=10000`"),
        (SETTINGS.format("'out', save_steps=500, load_best_model_at_end=True"), "the best of the checkpoints"),
        (
            saved("step % save_every == 0")
            .replace("for epoch", "save_every = 500\nfor epoch")
            .replace("        if ", "        if step % save_every == 0:\n            evaluate(model)\n        if "),
            "line 9 also asks for the interval",
        ),
    ],
)
def test_a_number_that_is_for_more_is_left_alone(job: MakeJob, text: str, reason: str) -> None:
    made = timed(job, text)
    assert "10,000" in help_of(made) or "10000" in help_of(made)
    assert reason in made.refusal("GPU211")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("save_interval = 500  # every 500 steps", "save_interval = 10000  # every 10000 steps"),
        ("save_interval = 1_000  # steps", "save_interval = 10_000  # steps"),
        ("save_interval = 500  # 500 steps are 7 minutes", "save_interval = 10000  # 500 steps are 7 minutes"),
    ],
)
def test_a_comment_on_the_number_follows_it(job: MakeJob, before: str, after: str) -> None:
    made = timed(job, saved("step % save_interval == 0").replace("for epoch", f"{before}\nfor epoch"))
    made.repair("GPU211")
    assert f"\n{after}\n" in made.text("train.py")


def test_an_interval_of_a_dictionary_is_named_by_its_key(job: MakeJob) -> None:
    text = saved('step % config["ckpt_interval"] == 0').replace(
        "for epoch", 'config = {"ckpt_interval": 500}\nfor epoch'
    )
    made = timed(job, text)
    made.repair("GPU211")
    assert '{"ckpt_interval": 10000}' in made.text("train.py")


CALLBACKS = """\
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint

callbacks = [
    ModelCheckpoint("/mnt/nfs/all", every_n_train_steps=OTHER, save_top_k=-1),
    ModelCheckpoint("/mnt/nfs/newest", every_n_train_steps=1000, save_top_k=1),
]
Trainer(callbacks=callbacks).fit(model)
"""


@pytest.mark.parametrize(("other", "changed"), [(10_000, False), (20_000, True)])
def test_two_callbacks_do_not_come_to_write_together(job: MakeJob, other: int, changed: bool) -> None:
    made = timed(job, CALLBACKS.replace("OTHER", str(other)))
    reasons = [result.fix.reason for result in made.scan("GPU211") if isinstance(result.fix, Declined)]
    assert any("another callback writes one every 10,000 steps" in reason for reason in reasons) is not changed
    made.repair("GPU211")
    assert ("every_n_train_steps=10000, save_top_k=1)" in made.text("train.py")) is changed


@pytest.mark.parametrize("steps", [1, 7, 500, 4999])
def test_no_other_multiple_loses_less_time(job: MakeJob, steps: int) -> None:
    made = timed(job, saved(f"step % {steps} == 0"))
    made.repair("GPU211")
    (written,) = re.findall(r"step % (\d+) == 0", made.text("train.py"))
    assert int(written) % steps == 0

    def lost(every: int) -> float:
        """The time of the checkpoints, and half an interval for each failure."""
        return 45 / (every * 0.8) + every * 0.8 / 2 / (200 * 3600)

    assert lost(int(written)) <= 1.01 * min(lost(steps * times) for times in range(1, 20_000 // steps + 2))


def test_no_checkpoint_at_the_end_is_promised(job: MakeJob) -> None:
    offered = timed(job, saved("step % 500 == 0")).offer("GPU211").description
    assert offered.endswith("a run of fewer steps writes none while it trains")


def test_checkpoints_that_take_too_long_at_any_interval_keep_their_finding(job: MakeJob) -> None:
    made = timed(job, saved("step % 500 == 0"), **{"checkpoint-seconds": 600, "mtbf-hours": 10})
    assert "save every 8,000 steps" in help_of(made)
    assert "9% of the time would still be lost" in made.refusal("GPU211")


@pytest.mark.parametrize("test", ["epoch % 2 == 0", "epoch % 2 == 0 and step % 500 == 0", "step % interval() == 0"])
def test_other_intervals_have_no_number_of_steps(job: MakeJob, test: str) -> None:
    assert "Young-Daly" not in help_of(timed(job, saved(test)))


def test_the_rule_is_not_for_failures_about_as_often_as_checkpoints(job: MakeJob) -> None:
    assert "Young-Daly" not in help_of(timed(job, saved("step % 500 == 0"), **{"mtbf-hours": 0.1}))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("'/mnt/nfs/out'", "`save_total_limit=3`"),
        ("'/mnt/nfs/out', save_total_limit=None", "`save_total_limit=3`"),
        ("'/mnt/nfs/out', save_total_limit=2", ""),
        ("'/mnt/nfs/out', save_strategy='epoch'", ""),
        ("'/mnt/nfs/out', **options", ""),
    ],
)
def test_the_limit_is_named_where_all_checkpoints_stay_on_remote_storage(
    job: MakeJob, settings: str, told: str
) -> None:
    text = help_of(job({"train.py": SETTINGS.format(settings)}))
    assert told in text
    assert ("all checkpoints are kept" in text) is bool(told)


@pytest.mark.parametrize(("kept", "told"), [("-1", True), ("2", False)])
def test_the_limit_of_lightning(job: MakeJob, kept: str, told: bool) -> None:
    text = (
        "from lightning.pytorch import Trainer\nfrom lightning.pytorch.callbacks import ModelCheckpoint\n"
        f"Trainer(callbacks=[ModelCheckpoint('s3://bucket/runs', every_n_train_steps=500, save_top_k={kept})])\n"
    )
    assert ("`save_top_k=3`" in help_of(job({"train.py": text}))) is told
