"""Starts the sampler in the processes of a job, and reads what they write while the job runs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpulint_probe.inside.calls import called
from gpulint_probe.inside.records import (
    AllocatorSample,
    InsideEntry,
    Process,
    Stack,
    StackCounts,
    Statement,
    of_program,
)
from gpulint_probe.inside.sources import Source

SHIM = Path(__file__).with_name("shim")
_SHORTEST_WINDOW_S = 0.1
_MOST_BYTES = 4 << 20
"""Of one process's file, in one reading."""
_MOST_FILES = 2000
_MOST_STACKS_OF_WINDOW = 24
_MAIN = "main"


class InsideReader:
    """A folder into which the job's Python processes write, and what was not yet read of it."""

    def __init__(self, interval_s: float) -> None:
        """Raises OSError where no folder can be made."""
        self.folder = Path(tempfile.mkdtemp(prefix="gpulint-inside-"))
        self._window_s = max(_SHORTEST_WINDOW_S, interval_s)
        self._files: dict[str, _File] = {}
        self._stacks: dict[tuple[Any, ...], int] = {}
        self._sources: dict[str, Source] = {}

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The job's environment with the sampler in it."""
        path = environment.get("PYTHONPATH", "")
        return {
            **environment,
            "PYTHONPATH": f"{SHIM}{os.pathsep}{path}" if path else str(SHIM),
            "GPULINT_INSIDE": f"{self._window_s:g} {self.folder}",
        }

    def read(self) -> list[InsideEntry]:
        """Return what was written since the last call."""
        found: list[InsideEntry] = []
        try:
            names = sorted(path.name for path in self.folder.iterdir())[:_MOST_FILES]
        except OSError:
            return found
        for name in names:
            file = self._files.setdefault(name, _File(self.folder / name))
            for line in file.lines():
                found += self._entries(file, line)
        return found

    def close(self) -> None:
        """Delete the folder; processes that still run stop sampling then."""
        gone = self.folder.with_name(f"{self.folder.name}-gone")
        with contextlib.suppress(OSError):
            self.folder.rename(gone)  # a process that starts meanwhile would add a file to what is being deleted
        shutil.rmtree(gone, ignore_errors=True)

    def _entries(self, file: _File, line: dict[str, Any]) -> Iterator[InsideEntry]:
        """Whatever wrote into the folder, a line that is not as it should be is left out."""
        try:
            if "code" in line:
                module, function, path = line["names"]
                code = str(module), str(function), str(path), bool(line.get("generator"))
                file.codes[int(line["code"])] = code
            elif "frames" in line:
                yield from self._stack(file, line)
            elif "counts" in line:
                yield _counts(file, line)
            elif "allocator" in line:
                yield AllocatorSample(
                    float(line["time"]), file.pid, int(line["allocator"]), int(line["retries"]), int(line["ooms"]),
                    int(line["allocated"]), int(line["reserved"]), int(line["inactive"]),
                )  # fmt: skip
            else:
                file.pid, file.time_s = int(line["pid"]), float(line["time"])
                yield Process(
                    file.time_s, file.pid, int(line["parent"]), list(map(str, line["command"])), line["rank"],
                    line["local_rank"],
                )  # fmt: skip
        except (KeyError, TypeError, ValueError, IndexError):
            return

    def _stack(self, file: _File, line: dict[str, Any]) -> Iterator[Stack | Statement]:
        """One number for the same stack in all processes, which is written once; before it, the statements of the
        program's functions in it that are new."""
        names = [file.codes[code] for code, _ in line["frames"]]
        modules, functions, files = ([str(name[index]) for name in names] for index in range(3))
        generators = [index for index, name in enumerate(names) if name[3]]
        lines = [int(at) for _, at in line["frames"]]
        call = called(files[0], line["place"] or [lines[0]])
        key = (*modules, *functions, *files, *lines, call)
        known = self._stacks.get(key)
        file.stacks[int(line["stack"])] = self._stacks.setdefault(key, len(self._stacks))
        if known is None:
            for path, number in zip(files, lines, strict=True):
                if of_program(path):
                    yield from self._sources.setdefault(path, Source(path)).news(number, file.time_s)
            yield Stack(file.time_s, self._stacks[key], modules, functions, files, lines, call, generators)


class _File:
    """What one process wrote."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self.pid = 0
        self.time_s = 0.0
        self.codes: dict[int, tuple[str, str, str, bool]] = {}
        """Module, function and file of code objects, and whether they are generators."""
        self.stacks: dict[int, int] = {}

    def lines(self) -> Iterator[dict[str, Any]]:
        """The complete lines that are new."""
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size <= self._at:
                    return
                file.seek(self._at)
                text = file.read(_MOST_BYTES)
        except OSError:
            return
        whole = text.rpartition(b"\n")[0]
        self._at += len(whole) + 1 if whole else 0
        for line in whole.split(b"\n"):
            try:
                data = json.loads(line)
            except ValueError:
                continue
            if isinstance(data, dict):
                yield data


def _counts(file: _File, line: dict[str, Any]) -> StackCounts:
    counts = sorted(line["counts"], key=lambda entry: -entry[1])[:_MOST_STACKS_OF_WINDOW]
    by_stack: dict[int, list[int]] = {}
    for number, *three in counts:
        total = by_stack.setdefault(file.stacks[number], [0, 0, 0])
        for index, value in enumerate(three):
            total[index] += int(value)
    end = float(line["to"])
    samples, running, disk = [list(column) for column in zip(*by_stack.values(), strict=True)] or [[], [], []]
    order = [
        value for number, at, slept in line.get("order") or () for value in (file.stacks[number], int(at), int(slept))
    ]
    return StackCounts(
        end, max(1e-3, end - float(line["from"])), file.pid, _MAIN if line["main"] else str(line["thread"]),
        list(by_stack), samples, running, disk, line["cpu_s"], line["lag_s"], line["delay_s"],
        order or None,
    )  # fmt: skip
