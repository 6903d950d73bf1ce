"""Questions that are answered once for a project or a module, however many rules, calls and loops lead to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

Answers = dict[object, dict[object, object]]


class Keeper(Protocol):
    """What answers are kept with, and forgotten with: a project, or the scopes of a module."""

    answers: Answers


K = TypeVar("K", bound=Keeper)
P = ParamSpec("P")
T = TypeVar("T")


def once(question: Callable[Concatenate[K, P], T]) -> Callable[Concatenate[K, P], T]:
    """Keep the answers of a function of a keeper and further hashable arguments."""

    @wraps(question)
    def asked(keeper: K, /, *args: P.args, **kwargs: P.kwargs) -> T:
        assert not kwargs
        answers = keeper.answers.get(question)
        if answers is None:
            answers = keeper.answers[question] = {}
        if args not in answers:
            answers[args] = question(keeper, *args, **kwargs)
        return answers[args]  # type: ignore[return-value]

    return asked
