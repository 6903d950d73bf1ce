"""A plan as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from gpulint.counting import counted
from gpulint.escaping import json_escapes, printable
from gpulint_share.planning.advice import Advice, shares_well
from gpulint_share.planning.plan import Course, Plan

_SHOWN = 20
_FOLDED = 4
"""Pairs of one job from which on they are one line."""


def as_json(plan: Plan) -> str:
    """One object; times in seconds."""
    document: dict[str, Any] = {
        "gpus": list(plan.gpus),
        "method": plan.chosen.method,
        "jobs": [job.to_json() for job in plan.jobs],
        "placements": [
            asdict(one) | {"name": plan.jobs[one.job].name, "beside": [plan.jobs[other].name for other in one.beside]}
            for one in plan.chosen.placements
        ],
        "mig": [[part.name for part in parts] for parts in plan.chosen.cut],
        "methods": [_figures(course) for course in plan.others],
        "share_well": {job.name: text for job in plan.jobs if (text := shares_well(job))},
        "do_not_combine": [asdict(one) for one in plan.advice],
        "notes": list(plan.notes),
    }
    return json_escapes(json.dumps(document, indent=1, ensure_ascii=False)) + "\n"


def _figures(course: Course) -> dict[str, Any]:
    return {
        "method": course.method,
        "makespan": course.makespan,
        "mean_waiting": course.mean_waiting,
        "mean_completion": course.mean_completion,
    }


def as_text(plan: Plan) -> Iterator[str]:
    """Lines for people."""
    yield f"{counted(len(plan.jobs), 'job')} on {counted(len(plan.gpus), 'GPU')}: {_named(plan.chosen.method)}\n"
    yield "\n"
    yield f"  {'':10}{'all done':>10}{'mean wait':>11}{'mean done':>11}\n"
    for course in plan.others:
        saved = _saved(course.makespan, plan.exclusive.makespan)
        yield (
            f"  {course.method:10}{_time(course.makespan):>10}{_time(course.mean_waiting):>11}"
            f"{_time(course.mean_completion):>11}{saved}\n"
        )
    yield "\n"
    for number, card in enumerate(plan.gpus):
        parts = plan.chosen.cut[number] if plan.chosen.cut else ()
        cut = f", cut into {' '.join(part.name for part in parts)}" if parts else ""
        yield f"GPU {number} ({card}{cut})\n"
        for one in plan.chosen.placements:
            if number in one.gpus:
                beside = ", ".join(printable(plan.jobs[other].name) for other in one.beside)
                where = f" on {one.part}" if one.part else f" beside {beside}" if beside else ""
                yield f"  {_time(one.start):>8} to {_time(one.end):>8}  {printable(plan.jobs[one.job].name)}{where}\n"
    good = [(job.name, text) for job in plan.jobs if (text := shares_well(job))]
    if good:
        yield "\nShare well\n"
        yield from (printable(f"  {name}: {text}") + "\n" for name, text in good[:_SHOWN])
    if plan.advice:
        yield "\nDo not combine\n"
        folded = list(_folded(plan.advice))
        yield from (printable(f"  {line}") + "\n" for line, _ in folded[:_SHOWN])
        if len(folded) > _SHOWN:
            yield f"  and {sum(count for _, count in folded[_SHOWN:])} more pairs (--output-format json has all)\n"
    for note in plan.notes:
        yield printable(f"Note: {note}") + "\n"


def _folded(advice: Sequence[Advice]) -> Iterator[tuple[str, int]]:
    """A line with its number of pairs for each pair, or for a job with all others that it does not go with."""
    left = list(advice)
    while left:
        ends = Counter((name, one.card) for one in left for name in (one.first, one.second))
        (job, card), count = ends.most_common(1)[0]
        mine = [one for one in left if one.card == card and job in (one.first, one.second)]
        if count < _FOLDED:
            yield from ((f"{one.first} and {one.second} on {one.card}: {one.reason}", 1) for one in left)
            return
        other = mine[0].second if mine[0].first == job else mine[0].first
        yield f"{job} and {count} others on {card}, such as {other}: {mine[0].reason}", count
        left = [one for one in left if one not in mine]


def _named(method: str) -> str:
    return "exclusive GPUs" if method == "exclusive" else f"share by {method}"


def _saved(makespan: float, alone: float) -> str:
    change = makespan / alone - 1 if alone else 0.0
    return f"  {change:+.0%}" if round(change, 2) else ""


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return (
        f"{minutes // 60}:{minutes % 60:02} h" if minutes >= 60 else f"{minutes} min" if minutes else f"{seconds:.0f} s"
    )
