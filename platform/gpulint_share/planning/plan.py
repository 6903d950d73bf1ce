"""The plan: for each method a schedule, the best of them, and what not to combine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from gpulint_share.errors import ShareError
from gpulint_share.planning.advice import Advice, against
from gpulint_share.planning.places import Place, Rooms
from gpulint_share.planning.schedule import Placement, Schedule
from gpulint_share.prediction.interference import exposure
from gpulint_share.prediction.slices import Slice, layouts
from gpulint_share.profiles import Profile

EXCLUSIVE = "exclusive"
UNKNOWN_SECONDS = 3600.0
"""Duration of a job of which none is known."""
MOST_JOBS = 2000
"""Jobs of a plan; its cost grows with jobs x waiting jobs."""
_LEAST_SAVED = 0.01
"""A method that saves less of the makespan is not worth its risks."""


@dataclass(frozen=True, slots=True)
class Course:
    """What a method comes to. ``cut`` has the slices of each GPU that is cut by MIG."""

    method: str
    placements: tuple[Placement, ...]
    left: tuple[int, ...]
    makespan: float
    mean_waiting: float
    mean_completion: float
    cut: tuple[tuple[Slice, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The course to take, the one with exclusive GPUs to compare with, and the others that were tried."""

    jobs: tuple[Profile, ...]
    gpus: tuple[str, ...]
    chosen: Course
    exclusive: Course
    others: tuple[Course, ...]
    advice: tuple[Advice, ...]
    notes: tuple[str, ...]


def plan(jobs: Sequence[Profile], gpus: Sequence[str], method: str = "auto") -> Plan:
    """Plan the jobs on these cards.

    Args:
        jobs: Profiles; a job without duration counts as an hour.
        gpus: The card of each GPU.
        method: auto, exclusive, streams, mps or mig.

    Raises:
        ShareError: too many jobs, a card without MIG for mig, or a job that no GPU takes alone.
    """
    if len(jobs) > MOST_JOBS:
        raise ShareError(f"{len(jobs):,} jobs; a plan takes at most {MOST_JOBS:,}, and gpulint share simulate more")
    seconds = [UNKNOWN_SECONDS if job.seconds is None else max(job.seconds.mid, 1.0) for job in jobs]
    notes = _unknown(jobs)
    rooms = Rooms(jobs)
    alone = _course(EXCLUSIVE, rooms, seconds, [Place(number, card, EXCLUSIVE) for number, card in enumerate(gpus)])
    if alone.left:
        name = jobs[alone.left[0]].name
        raise ShareError(f"job {name} does not fit these GPUs: too large, or it needs more of them")
    users = {job.user for job in jobs if job.user}
    if len(users) > 1 and method in ("auto", "mps"):
        notes.append(f"the jobs belong to {len(users)} users, and MPS serves one at a time")
    tried = [alone]
    for name in ("streams", "mps", "mig") if method == "auto" else (method,):
        if name == "mps" and len(users) > 1 and method == "auto":
            continue
        tried += _courses(name, rooms, seconds, gpus)
    best = _best(tried[1:] or tried)
    if method == "auto" and not _gains(best, alone):
        best = alone
        notes.append("sharing gains less than 1%: keep the GPUs exclusive")
    if method == "mig" and len(tried) == 1:
        raise ShareError("no cut of these GPUs by MIG takes all jobs; see --method auto")
    return Plan(tuple(jobs), tuple(gpus), best, alone, _best_of_each(tried), against(jobs, gpus), tuple(notes))


def _best(courses: Sequence[Course]) -> Course:
    """The one with the earliest mean completion among those whose makespan is next to the shortest."""
    shortest = min(course.makespan for course in courses)
    near = [course for course in courses if course.makespan * (1 - _LEAST_SAVED) <= shortest]
    return min(near, key=lambda course: (course.mean_completion, course.makespan))


def _unknown(jobs: Sequence[Profile]) -> list[str]:
    found = []
    for what, names, then in (
        ("duration", [job.name for job in jobs if job.seconds is None], "counted as 1 h"),
        ("memory", [job.name for job in jobs if job.memory_bytes is None], "not shared"),
        ("utilization", [job.name for job in jobs if exposure(job) is None], "not shared"),
    ):
        if names:
            several = f" and {len(names) - 1} more" if len(names) > 1 else ""
            found.append(f"the {what} of {names[0]}{several} is not known: {then}")
    return found


def _gains(course: Course, alone: Course) -> bool:
    most = 1 - _LEAST_SAVED
    return course.makespan < most * alone.makespan or course.mean_completion < most * alone.mean_completion


def _courses(method: str, rooms: Rooms, seconds: Sequence[float], gpus: Sequence[str]) -> Iterator[Course]:
    """The courses of a method that take all jobs; for MIG one for each cut of the cards."""
    if method == EXCLUSIVE:
        return
    if method != "mig":
        yield _course(method, rooms, seconds, [Place(number, card, method) for number, card in enumerate(gpus)])
        return
    for cut in _cuts(gpus):
        places = []
        for number, (card, parts) in enumerate(zip(gpus, cut, strict=True)):
            places += [Place(number, card, "mig", part) for part in parts] or [Place(number, card, EXCLUSIVE)]
        course = _course("mig", rooms, seconds, places)
        if not course.left:
            yield replace(course, cut=cut)


def _cuts(gpus: Sequence[str]) -> Iterator[tuple[tuple[Slice, ...], ...]]:
    """Ways to cut the cards: one layout for those that are cut; none, a quarter, half or all but one stay whole."""
    several = {card: [layout for layout in layouts(card) if len(layout) > 1] for card in set(gpus)}
    able = [number for number, card in enumerate(gpus) if several[card]]
    for whole in sorted({0, len(able) // 4, len(able) // 2, max(0, len(able) - 1)}):
        cut = able[whole:]
        for choice in range(max((len(several[gpus[number]]) for number in cut), default=0)):
            yield tuple(
                several[card][min(choice, len(several[card]) - 1)] if number in cut else ()
                for number, card in enumerate(gpus)
            )


def _course(method: str, rooms: Rooms, seconds: Sequence[float], places: Sequence[Place]) -> Course:
    jobs = rooms.jobs
    done = Schedule(rooms, seconds, places).run()
    placed = sorted(done.placements, key=lambda one: (one.start, one.job))
    waits = [one.start - jobs[one.job].submitted for one in placed]
    ends = [one.end - jobs[one.job].submitted for one in placed]
    return Course(
        method, tuple(placed), tuple(done.left), max((one.end for one in placed), default=0.0),
        fmean(waits) if waits else 0.0, fmean(ends) if ends else 0.0,
    )  # fmt: skip


def _best_of_each(courses: Iterable[Course]) -> tuple[Course, ...]:
    best: dict[str, Course] = {}
    for course in courses:
        known = best.get(course.method)
        if known is None or course.makespan < known.makespan:
            best[course.method] = course
    return tuple(best.values())
