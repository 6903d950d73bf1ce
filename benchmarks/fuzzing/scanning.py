"""One tree of several inputs, read, linked, checked, repaired and reported as ``gpulint`` does, and what went wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import traceback
import xml.etree.ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fuzzing.corpus import ROOT, Input, canary
from gpulint import diffs, engine, fixing, plugins
from gpulint.config import Config, ConfigError, load
from gpulint.discover import discover
from gpulint.project import Project
from gpulint.report import InternalError, Report
from gpulint.reporters import FORMATS, Context, render

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
FIX_EVERY = 20
"""Every twentieth tree goes through the rounds of ``gpulint fix`` as well."""


class OverLimit(KeyboardInterrupt):
    """The tree took more CPU time than it may; code that catches all that a plugin raises lets this one through."""


@dataclass(frozen=True)
class Failure:
    """Something that no input may bring about."""

    kind: str
    """``internal error``, ``exception``, ``time``, ``memory``, ``lost findings`` or ``output``."""
    title: str
    """The same for all failures of one cause, as far as that can be told."""
    detail: str = ""
    owner: int | None = None
    """Place in the tree of the input that it was met in, if known."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Scanned:
    """What a tree's scan gave."""

    findings: int
    problems: int
    failures: list[Failure]


class Scanner:
    """Scans trees in ``folder``, which is emptied each time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plugins = plugins.load()
        self.canary = canary()
        self.expected: list[tuple[str, int, str]] = []
        alone = self.scan([], 0)
        if alone.failures or not self.found:
            raise SystemExit(f"the job that every tree holds fails by itself: {alone.failures}")
        self.expected = self.found

    def scan(self, inputs: Sequence[Input], number: int) -> Scanned:
        """Scan ``inputs`` as one tree; ``number`` chooses the format of the report and whether fixes are applied."""
        self.write(inputs)
        failures: list[Failure] = []
        report = Report()
        try:
            report = self.run(number, failures, with_settings=any(item.has_settings for item in inputs))
        except OverLimit as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            trace = "".join(traceback.format_tb(error.__traceback__))
            owner = self.owner(read_last(error.__traceback__))
            failures.append(Failure("time", f"time limit in {place(trace)}", trace[-4000:], owner))
        except Exception as error:
            title = f"{type(error).__name__} in {place(traceback.format_exc())}"
            failures.append(Failure("exception", title, traceback.format_exc()[-4000:]))
        failures += [self.internal(error) for error in report.errors]
        return Scanned(len(report.results), len(report.problems), failures)

    def write(self, inputs: Sequence[Input]) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for number, item in enumerate(inputs):
            # The settings of a tree count where its root is.
            write(item, self.folder if item.has_settings else self.folder / f"{number:03}")
        write(self.canary, self.folder / "canary")

    def run(self, number: int, failures: list[Failure], *, with_settings: bool) -> Report:
        root, config = self.folder, Config(base=self.folder)
        if with_settings:
            with contextlib.suppress(ConfigError):
                config = load(root)
        found = discover([root], config, root)
        project = Project(root, found.files, config)
        rules = self.plugins.rules
        if number % FIX_EVERY == 0:
            fixed = fixing.fix(project, found.files, rules, self.plugins.fixers, unsafe=True)
            report = fixed.report
            for change in fixed.changes:
                diffs.unified(change, root)
        else:
            report = engine.run(project, found.files, rules, fixers=self.plugins.fixers, report_unused_ignores=True)
        report.problems += found.problems
        self.found = [
            (result.finding.rule.code, result.finding.span.line, result.finding.message)
            for result in report.results
            if result.finding.path.parent == root / "canary"
        ]
        if self.expected and not with_settings and number % FIX_EVERY and self.found != self.expected:
            lost = [code for code, _, _ in self.expected if code not in {code for code, _, _ in self.found}]
            failures.append(Failure("lost findings", f"findings beside it: without {', '.join(lost) or 'none'}"))
        name = FORMATS[number % len(FORMATS)]
        if trouble := unfit(name, render(name, report, Context(project, rules, root))):
            failures.append(Failure("output", trouble))
        return report

    def internal(self, error: InternalError) -> Failure:
        kind = error.error.partition(":")[0]
        title = f"{kind} in {place(error.trace)}"
        return Failure("internal error", title, f"{error.where}: {error.error}\n{error.trace}", self.owner(error.path))

    def owner(self, path: Path | None) -> int | None:
        """Place in the tree of the input that a file belongs to."""
        if path is None or not path.is_relative_to(self.folder) or path == self.folder:
            return None
        first = path.relative_to(self.folder).parts[0]
        return int(first) if re.fullmatch(r"\d{3}", first) else None


def write(item: Input, folder: Path) -> None:
    """An input's files; a name that the file system refuses becomes a shorter one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in item.files.items():
        path = folder / os.fsdecode(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError:
            (folder / "refused.py").write_bytes(data)


def unfit(name: str, text: str) -> str:
    """Why a report is none that its readers can take; empty if there is no reason."""
    text.encode("utf-8", "surrogateescape")
    if name in ("json", "sarif", "gitlab", "rdjson"):
        json.loads(text)
    elif name == "junit":
        xml.etree.ElementTree.fromstring(text)
    if found := _CONTROL.search(text):
        return f"control character {found.group()!r} in format {name}"
    return ""


def place(trace: str) -> str:
    """``file:function`` of gpulint's own code that a traceback ends in; of a recursion what it goes round in."""
    frames = [
        f"{Path(path).relative_to(ROOT).as_posix()}:{function}"
        for path, _, function in _FRAME.findall(trace)
        if path.startswith(str(ROOT)) and "/benchmarks/" not in path and "/.venv/" not in path
    ]
    return _most_common(frames)


def read_last(trace: TracebackType | None) -> Path | None:
    """The file that the innermost function with a path or a document for an argument was about."""
    found = None
    while trace is not None:
        for name in ("path", "document", "unit"):
            value = trace.tb_frame.f_locals.get(name)
            value = getattr(value, "path", value)
            found = value if isinstance(value, Path) else found
        trace = trace.tb_next
    return found


def _most_common(frames: list[str]) -> str:
    if not frames:
        return "code that is not gpulint's"
    frame, count = Counter(frames).most_common(1)[0]
    return f"{frame} (recursion)" if count > 5 else frames[-1]
