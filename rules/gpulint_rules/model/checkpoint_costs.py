"""What a checkpoint costs that training waits for, and how often a framework writes one."""

from __future__ import annotations

from gpulint.impact import Cost
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.transfers.checkpoint_intervals import TimedInterval
from gpulint.transfers.checkpoint_times import SECONDS_OF_ADAPTER, may_be_large, trains_adapter
from gpulint.transfers.checkpoints import Save
from gpulint.transfers.storage import Location
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import NodeRef

DEFAULT_STEPS = 500
"""Steps between two checkpoints of a Hugging Face trainer that is told nothing.
https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments
"""


@dataclass(frozen=True, slots=True)
class Interval:
    """One write in ``every`` steps or epochs."""

    per: str
    every: float


def cost_of(project: Project, at: NodeRef, save: Save, location: Location, often: Interval | None) -> Cost:
    """Return the cost by what is assumed of checkpoints."""
    adapter = save.interval is not None and trains_adapter(project, save.call.module)
    large = location.is_remote or save.is_callback or may_be_large(project, save, at)
    return Cost(
        "remote-checkpoint" if location.is_remote else "local-checkpoint",
        seconds=SECONDS_OF_ADAPTER if adapter and location.is_remote else None,
        per=often.per if often is not None else "",
        every=often.every if often is not None else 1,
        done_at=save.call if at.node is not save.node else None,
        basis="the checkpoint of an adapter over the network" if adapter and location.is_remote else "",
        assumed="" if large else "assuming a large checkpoint",
    )


def timed_cost(timed: TimedInterval, at: NodeRef, save: Save) -> Cost:
    """Return the cost by the times in the settings."""
    steps, seconds = timed.stated.steps, timed.times.checkpoint
    share = timed.times.share(steps) * steps  # of one step, in one of so many
    basis = f"{seconds:g} s for each checkpoint (`checkpoint-times`)"
    done_at = save.call if at.node is not save.node else None
    return Cost("timed-checkpoint", share=(share, share), per="step", every=steps, done_at=done_at, basis=basis)


def interval_of(project: Project, save: Save) -> Interval | None:
    """Return how often a framework saves by settings that say so; None if the code around the place tells it."""
    arguments = project.fact(Arguments)
    strategy, steps = save.interval or ("", "")
    if save.is_callback and not arguments.of(save.call.module, save.node, "every_n_train_steps").is_absent:
        given = arguments.value(save.call.module, save.node, "every_n_train_steps").constants
        return Interval("step", max((one for one in given if isinstance(one, int) and one), default=DEFAULT_STEPS))
    if not strategy:
        return None
    if arguments.value(save.call.module, save.node, strategy).every(lambda value: value == "epoch"):
        epochs = arguments.value(save.call.module, save.node, "num_train_epochs")
        return Interval("run" if epochs.every(lambda value: value == 1) else "epoch", 1)
    known = arguments.value(save.call.module, save.node, steps).constants
    return Interval(
        "step", max((one for one in known if isinstance(one, int | float) and one >= 1), default=DEFAULT_STEPS)
    )
