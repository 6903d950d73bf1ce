"""What several processes found about one tree as the rows of one snapshot (see :mod:`gpulint.traces`)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gpulint.codec import Plain


class Merged:
    """The rows of several processes, of which some rest on answers that another one has found."""

    def __init__(self, parts: Sequence[Plain], inputs: Sequence[Sequence[int | None]], rows: list[Plain]) -> None:
        """``inputs`` are the numbers of each part's inputs, None of one that is another by now; rows go to ``rows``."""
        self._parts, self._inputs, self._rows = parts, inputs, rows
        self._numbers: dict[tuple[int, int], int | None] = {}
        taken = {json.dumps(row) for part in parts for row in part if len(row) == 2}
        names = {json.loads(text)[0] for text in taken}
        self._found = {
            text: (number, place)
            for number, part in enumerate(parts)
            for place, row in enumerate(part)
            if len(row) > 2 and row[0] in names and (text := json.dumps(row[:2])) in taken
        }

    def add_all(self) -> None:
        """Add the rows, each after those that it rests on."""
        for number, part in enumerate(self._parts):
            for place in range(len(part)):
                self._number((number, place))

    def _number(self, where: tuple[int, int]) -> int | None:
        if where not in self._numbers:
            self._numbers[where] = None
            self._numbers[where] = self._added(where)
        return self._numbers[where]

    def _added(self, where: tuple[int, int]) -> int | None:
        part, place = where
        row = self._parts[part][place]
        if len(row) == 2:
            home = self._found.get(json.dumps(row))
            return self._number(home) if home is not None else None  # its process has died
        name, key, value, read, below = row
        reads = [self._inputs[part][number] for number in read]
        rests = [self._number((part, number)) for number in below]
        if None in reads or None in rests:
            return None  # a file has changed in between
        self._rows.append([name, key, value, reads, rests])
        return len(self._rows) - 1
