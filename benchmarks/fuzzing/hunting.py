"""From a tree that fails to the smallest input, or pair of inputs, that does."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from fuzzing.corpus import Input
from fuzzing.sandbox import Sandbox
from fuzzing.scanning import Failure, write

T = TypeVar("T")
TRIES = 400
"""Most scans that making one failure small may take."""
MOST_PARTS = 400
"""Lines, tokens or characters of a file; more are not tried one by one."""
_PARTS = (re.compile(rb"[^\n]*\n|[^\n]+"), re.compile(rb"\w+|\s+|[^\w\s]+"), re.compile(rb"(?s)."))


def reduced(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A part of ``items`` that still fails and does so no longer without any single one (delta debugging)."""
    left, pieces = list(items), 2
    while len(left) > 1:
        size = -(-len(left) // pieces)
        for start in range(0, len(left), size):
            part, rest = left[start : start + size], left[:start] + left[start + size :]
            if pieces == 2 and fails(part):
                left = part
                break
            if rest and fails(rest):
                left, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if pieces >= len(left):
                break
            pieces = min(pieces * 2, len(left))
            continue
        pieces = min(pieces, len(left))
    return left


@dataclass
class Hunter:
    """Writes each distinct failure, made small, below ``output``; failures that are known are only counted."""

    sandbox: Sandbox
    output: Path
    command: str
    """What gives an input again, with a place for its number."""

    def hunt(
        self, inputs: Sequence[Input], number: int, failures: Sequence[Failure]
    ) -> Iterator[tuple[Failure, list[Input]]]:
        """Each failure of a tree with the inputs that bring it.

        The rest is scanned again without the inputs to blame, as one failure may hide another.
        """
        left = [*inputs]
        while failures:
            before = len(left)
            for failure in {failure.title: failure for failure in failures}.values():
                blamed = self.blame(left, number, failure)
                if self.is_new(failure):
                    self.save(failure, number, blamed)
                yield failure, blamed
                inputs = [item for item in inputs if item not in blamed]
            left = [*inputs]
            if len(left) == before or not left:
                return
            failures = self.sandbox.one(left, number)

    def blame(self, inputs: Sequence[Input], number: int, failure: Failure) -> list[Input]:
        """The fewest inputs that bring a failure; all of them if it does not show again."""
        if failure.owner is not None and self.shows(suspect := [inputs[failure.owner]], number, failure):
            return suspect
        if not self.shows([*inputs], number, failure):
            return [*inputs]
        return reduced(inputs, lambda part: self.shows(part, number, failure))

    def shows(self, inputs: list[Input], number: int, failure: Failure) -> bool:
        """Do some inputs bring a failure, for all that can be told the same?"""
        found = self.sandbox.one(inputs, number)
        if failure.kind in ("time", "memory", "lost findings"):
            return any(other.kind == failure.kind for other in found)
        return any(other.title == failure.title for other in found)

    def folder(self, failure: Failure) -> Path:
        slug = re.sub(r"\W+", "-", failure.title).strip("-")[:80].lower()
        return self.output / f"{slug}-{hashlib.blake2b(failure.title.encode(), digest_size=3).hexdigest()}"

    def is_new(self, failure: Failure) -> bool:
        """Has no process, nor an earlier run, met the failure?"""
        try:
            self.folder(failure).mkdir(parents=True)
        except FileExistsError:
            return False
        return True

    def save(self, failure: Failure, number: int, inputs: list[Input]) -> None:
        """Write a failure, the inputs that brought it and the same made small."""
        folder = self.folder(failure)
        lines = [failure.title, f"kind: {failure.kind}"]
        for item in inputs:
            again = self.command.format(index=item.index)
            lines += [
                f"input {item.index} ({item.kind}; {', '.join(item.mutations)}) of {item.origin}",
                f"again: {again}",
            ]
        (folder / "failure.txt").write_text("\n".join([*lines, "", failure.detail]), errors="backslashreplace")
        for place, item in enumerate(inputs):
            write(item, folder / "input" / str(place))
        if len(inputs) <= 2:
            for place, item in enumerate(self.small(inputs, number, failure)):
                write(item, folder / "small" / str(place))

    def small(self, inputs: list[Input], number: int, failure: Failure) -> list[Input]:
        """The inputs without the files, lines, tokens and characters that the failure does not need."""
        tries = 0

        def fails(tried: list[Input]) -> bool:
            nonlocal tries
            tries += 1
            return tries <= TRIES and self.shows(tried, number, failure)

        for place in range(len(inputs)):
            inputs = self.fewer_files(inputs, place, fails)
            if failure.kind not in ("time", "memory"):  # what takes 10 s each time, and would shrink to just under it
                for name in inputs[place].files:
                    for pattern in _PARTS:
                        inputs = self.fewer_parts(inputs, place, name, pattern, fails)
        return inputs

    def fewer_files(self, inputs: list[Input], place: int, fails: Callable[[list[Input]], bool]) -> list[Input]:
        item = inputs[place]

        def with_files(names: list[bytes]) -> list[Input]:
            kept = replace(item, files={name: item.files[name] for name in names})
            return [*inputs[:place], kept, *inputs[place + 1 :]]

        return with_files(reduced([*item.files], lambda names: fails(with_files(names))))

    def fewer_parts(
        self,
        inputs: list[Input],
        place: int,
        name: bytes,
        pattern: re.Pattern[bytes],
        fails: Callable[[list[Input]], bool],
    ) -> list[Input]:
        item = inputs[place]
        parts = pattern.findall(item.files[name])

        def with_parts(parts: list[bytes]) -> list[Input]:
            kept = replace(item, files={**item.files, name: b"".join(parts)})
            return [*inputs[:place], kept, *inputs[place + 1 :]]

        if len(parts) > MOST_PARTS:
            return inputs
        return with_parts(reduced(parts, lambda parts: fails(with_parts(parts))))
