"""From a finding and what its rule says of the cost to its impact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.assessment.amounts import Batch, as_stored, batch_of, in_words, sample_seconds
from gpulint.assessment.assumptions import assumed
from gpulint.assessment.circumstances import circumstances
from gpulint.assessment.constants import Kind, figure, kind, middle, table
from gpulint.assessment.frequency import Frequency, frequency
from gpulint.assessment.jobs import most_gpus
from gpulint.assessment.kept_graphs import small_graphs
from gpulint.assessment.large_models import has_large_model
from gpulint.assessment.requirements import light_names
from gpulint.assessment.step_lengths import long_step, long_step_of
from gpulint.assessment.subject import Subject
from gpulint.finding import Severity
from gpulint.impact import SELDOM, Cost, Impact, Level, Range
from gpulint.records import dataclass
from gpulint.workload.converted_samples import MANY_ROWS, makes_each_row
from gpulint.workload.item_work import ItemWork, ItemWorks

if TYPE_CHECKING:
    from gpulint.finding import Finding
    from gpulint.project import Project

_BY_SEVERITY = {Severity.ERROR: Level.HIGH, Severity.WARNING: Level.MEDIUM, Severity.INFO: Level.LOW}
"""The level of findings whose rules say nothing of their cost."""

_BESIDE_STEPS = frozenset({"host-wait", "needed-wait", "host-tensor"})
"""Costs of some time in each step, whatever its length."""


_WITHOUT_WORK = frozenset({"idle-gpus"})
"""Costs of all the time of a job, where nothing tells how long that is."""

_IN_PROCESS = "data-parallel"
"""What concerns the GPUs that one process sees: those of its node."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What is lost each time: seconds, or a share of the time of what it happens in; in words if anything is known."""

    seconds: Range | None
    share: Range | None
    phrase: str = ""
    sure: bool = True
    """Whether the code establishes it; what is estimated makes no finding high."""


def assess(finding: Finding, project: Project) -> Impact:
    """The impact of a finding."""
    cost = finding.cost if finding.cost is not None else finding.rule.cost
    subject = Subject(finding, project, cost)
    parts: list[str] = []
    in_process = cost is not None and cost.kind == _IN_PROCESS
    named = frozenset([(finding.path, finding.span), *((place.path, place.span) for place in finding.related)])
    gpus = None if subject.is_in_no_job else most_gpus(project, subject.path, in_process, named)
    if cost is None:
        level, often, loss = _BY_SEVERITY[finding.severity], None, Loss(None, None)
    else:
        row = kind(cost.kind)
        often = frequency(subject, row)
        loss = _loss(subject, cost, row)
        supposed = cost.assumed or assumed(subject, often, gpus)
        long = _long(subject, cost, row, often)
        level = _level(loss, often, gpus, row, bool(long)) if not supposed else Level.LOW
        brief = _brief(subject, loss, often) if level > Level.LOW else ""
        short = _short_job(subject, cost, often, gpus) if level is Level.HIGH else ""
        level = Level.LOW if brief else Level.MEDIUM if short else level
        parts += [part for part in (often.phrase, loss.phrase, long, supposed, brief, short) if part]
    if gpus is not None:
        parts.append("1 GPU" if gpus == 1 else f"{gpus} GPUs")
    lowered = list(circumstances(subject)) if level > Level.LOW else []
    for row_ in lowered:
        level = Level(max(Level.LOW, level - row_.levels))
    level = level if loss.sure else min(level, Level.MEDIUM)
    parts += [row_.phrase for row_ in lowered[:2]]
    if cost is not None and kind(cost.kind).seldom and level > Level.LOW:
        level = Level.LOW
        parts.append(SELDOM)
    if finding.severity is Severity.INFO:
        in_step = often is not None and often.per == "step"
        level = Level(max(Level.LOW, level - 1)) if in_step else min(level, Level.MEDIUM)
    hours = _hours(cost, _within_limit(subject, loss), often, gpus)
    own = cost.own if cost is not None else 0
    small = cost is not None and kind(cost.kind).small
    return Impact(level, ", ".join(parts), _share(cost, often), hours, own, small)


def _loss(subject: Subject, cost: Cost, row: Kind) -> Loss:
    """Return what is lost each time."""
    if cost.seconds is not None or cost.share is not None:
        return Loss(cost.seconds, cost.share, cost.basis or row.what)
    if row.bandwidth or row.by_sample:
        return _of_batch(subject, cost, row)
    if cost.kind == "graph-kept" and (told := small_graphs(subject)):
        return Loss(None, kind("small-graph-kept").share, told)
    items = light_names(subject.project, subject.path, cost.items) if row.named == "packages" else cost.items
    if items and (found := row.by_name(items)) is not None:
        return Loss(found[0], None, found[1])
    times = cost.amount if cost.amount is not None and row.unit else 1.0
    if row.divides:
        assert row.share is not None
        low, high = row.share
        size = max(times, 1.0) if cost.amount is not None else float(figure("assumed", "batch"))
        return Loss(None, (low / size, high / size), cost.basis or f"{row.what} of {size:g}")
    seconds = (row.seconds[0] * times, row.seconds[1] * times) if row.seconds is not None else None
    share = row.share
    phrase = f"{times:g} {row.unit}" if row.unit and times > 1 else row.what
    return Loss(seconds, share, cost.basis or phrase)


def _within_limit(subject: Subject, loss: Loss) -> Loss:
    """Return a loss that is no longer than the time limits of the jobs that have it, where all have one."""
    limits = _limits(subject)
    if loss.seconds is None or not limits:
        return loss
    low, high = loss.seconds
    return Loss((min(low, max(limits)), min(high, max(limits))), loss.share, loss.phrase, loss.sure)


def _limits(subject: Subject) -> list[int]:
    """The time limits in seconds of all jobs that have a finding; none if one of them states none."""
    limits = [job.task.resources.seconds for job in subject.jobs]
    known = [limit for limit in limits if limit is not None]
    return known if len(known) == len(limits) else []


def _of_batch(subject: Subject, cost: Cost, row: Kind) -> Loss:
    """Time of a batch: its bytes by a bandwidth, or its samples by the time of one."""
    batch: Batch = batch_of(subject, cost.loader)
    if row.by_sample:
        return _of_samples(subject, cost, batch)
    if cost.loader is not None:
        batch = as_stored(subject.project.fact(ItemWorks).of(cost.loader), batch)
    size = batch.bytes if cost.amount is None else cost.amount * batch.size
    low, high = figure("bandwidth", row.bandwidth)
    told = batch.phrase  # no size is told that rests on an assumed sample
    if cost.amount is not None:
        told = f"{'' if batch.stated else 'about '}{in_words(size)}"
    elif batch.sample is not None:
        told = f"{'' if batch.sample.whole else 'at least '}{in_words(size)}"
    where = "from pageable memory" if row.bandwidth == "pageable" else "in a blocking copy"
    phrase = f"{told} {where}" + (f" ({cost.basis})" if cost.basis else "")
    return Loss((size / high, size / low), None, phrase, batch.sample is not None)


def _of_samples(subject: Subject, cost: Cost, batch: Batch) -> Loss:
    """Time of the work that is seen for the samples of a batch."""
    told = batch.phrase if batch.is_known else "loading"
    if cost.loader is None:
        kinds = (batch.kind, "resample") if batch.kind == "image" else (batch.kind,)
        if batch.kind not in table()["sample_seconds"]:
            kinds = ("transform",)
        low, high = sample_seconds(ItemWork(kinds, True), batch)
        told = cost.basis or f"{told} in the training process"
        return Loss((low * batch.size, high * batch.size), None, told, not _has_large_model(subject))
    work = subject.project.fact(ItemWorks).of(cost.loader)
    low, high = sample_seconds(work, batch)
    if not work.kinds and batch.size >= MANY_ROWS and makes_each_row(subject.project, cost.loader):
        low, high = figure("sample_seconds", "row")
        told = f"{told} in the training process (a tensor for each row)"
        return Loss((low * batch.size, high * batch.size), None, cost.basis or told, False)
    said = work.phrase or ("nothing but look-ups is seen" if work.known else "what a sample costs is unknown")
    phrase = f"{told} in the training process ({said})"
    return Loss((low * batch.size, high * batch.size), None, cost.basis or phrase)


def _has_large_model(subject: Subject) -> bool:
    """Return whether the steps of a module take so long that work for their samples may be little beside them."""
    return subject.module is not None and has_large_model(subject.project, subject.module)


def _long(subject: Subject, cost: Cost, row: Kind, often: Frequency) -> str:
    """Return why the steps that a finding slows are long; empty if nothing tells, or where it costs a share."""
    if often.per != "step":
        return ""
    if row.by_sample and cost.loader is not None:
        return long_step_of(subject.project, cost.loader)
    return long_step(subject) if cost.kind in _BESIDE_STEPS else ""


def _brief(subject: Subject, loss: Loss, often: Frequency) -> str:
    """Return why what happens once per run takes nearly nothing of it, by the time limits of all jobs that run it;
    empty where it may take more."""
    limits = _limits(subject) if often.per == "run" else []
    if loss.seconds is None or not limits:
        return ""
    shortest = min(limits)
    if loss.seconds[1] > shortest * figure("levels", "brief_share"):
        return ""
    return f"seconds of {shortest / 3600:.0f} hours"


def _short_job(subject: Subject, cost: Cost, often: Frequency, gpus: int | None) -> str:
    """Return how long GPUs without work are held at most, where the time limits of all their jobs leave less than what
    a pause of high impact takes; empty otherwise."""
    limits = _limits(subject) if often.per == "run" and cost.kind in _WITHOUT_WORK else []
    if not limits or cost.seconds is not None or cost.share is not None:
        return ""
    longest = max(limits)
    if longest * (gpus or figure("assumed", "gpus")) >= figure("levels", "high_gpu_seconds"):
        return ""
    return f"at most {longest / 60:.0f} min by the time limit"


def _level(loss: Loss, often: Frequency, gpus: int | None, row: Kind, long: bool) -> Level:
    """The level of the loss that is expected, in ``long`` steps or those of usual length."""
    if often.per == "run" and loss.seconds is not None:
        if middle(loss.seconds) < row.medium_seconds:
            return Level.LOW
        lost = middle(loss.seconds) * (gpus or figure("assumed", "gpus"))
        least = row.medium_gpu_seconds or figure("levels", "medium_gpu_seconds")
        return _graded(lost, least, figure("levels", "high_gpu_seconds"))
    if loss.share is not None:
        share = middle(loss.share)
    elif loss.seconds is not None:
        seconds = middle(loss.seconds)
        step = "long_step_seconds" if long else "step_seconds"
        whole = figure("assumed", "epoch_seconds" if often.per == "epoch" else step)
        share = seconds / (seconds + whole)
    else:
        return Level.LOW
    if often.per == "evaluation":
        if row.in_training:
            return Level.LOW
        share *= middle(figure("assumed", "evaluation_share"))
    least_share = row.medium_share or figure("levels", "medium_share")
    return _graded(share / often.every, least_share, row.high_share or figure("levels", "high_share"))


def _graded(value: float, medium: float, high: float) -> Level:
    return Level.HIGH if value >= high else Level.MEDIUM if value >= medium else Level.LOW


def _share(cost: Cost | None, often: Frequency | None) -> Range | None:
    """The share of the job's GPU time, where the rule states it."""
    if cost is None or cost.share is None or often is None or often.per == "evaluation":
        return None
    low, high = cost.share
    return round(low / often.every, 4), round(high / often.every, 4)


def _hours(cost: Cost | None, loss: Loss, often: Frequency | None, gpus: int | None) -> Range | None:
    """GPU-hours per run, where names or the rule tell the seconds, and the job its GPUs."""
    if cost is None or often is None or often.per != "run" or gpus is None or loss.seconds is None:
        return None
    if cost.seconds is None and not (cost.items and kind(cost.kind).by_name(cost.items)):
        return None
    low, high = loss.seconds
    return round(low * gpus / 3600, 4), round(high * gpus / 3600, 4)
