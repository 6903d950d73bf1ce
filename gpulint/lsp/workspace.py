"""What findings come from: one workspace for each folder, kept up to date with its files and the editor's texts.

Everything here runs on the worker thread. A workspace reads what ``gpulint scan`` of its folder would read, through the
same code, and lays the texts of open documents over it, so that both find the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gpulint import engine, fixing
from gpulint.baseline import Baseline
from gpulint.cli import narrowing
from gpulint.cli.inputs import Inputs, add_arguments, add_settings, gather
from gpulint.config import ConfigError
from gpulint.failures import Stop
from gpulint.launch.job_index import job_documents
from gpulint.project import Project
from gpulint.report import Report
from gpulint.rule import Rule
from gpulint.workspace.kept_syntax import track_syntax

Stamp = tuple[int, int, int]
IsStale = Callable[[], bool]


class Superseded(Stop):
    """The texts have changed, so that the answer is no longer needed; raised between two rules."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigError(message)


class Workspace:
    """The project of one folder. With ``alone`` it is that single file, of no project, which need not exist."""

    def __init__(self, folder: Path, options: Sequence[str], alone: Path | None = None) -> None:
        """``options`` are those of ``gpulint scan``, made from the editor's settings."""
        self.folder = folder
        self.alone = alone
        self.error = ""
        """Why the settings cannot be used; the last ones that could be, or none, then count."""
        self._options = list(options)
        self._texts: dict[Path, bytes] = {}
        self._stamps: dict[Path, Stamp | None] = {}
        self._baseline: Baseline | None = None
        self._inputs = self._read(None)
        self._listed = frozenset(self._inputs.found.files)
        self._project = self._inputs.project
        track_syntax(self._project)
        self._stamp(self._project.files)

    @property
    def project(self) -> Project:
        """The files as they are now, open documents as the editor shows them."""
        return self._project

    @property
    def view(self) -> Project:
        """The same for another thread, and as they were once they have changed."""
        view = self._project.successor(())
        view.module_indexes.clear()  # these go on with the texts of later
        return view

    @property
    def inputs(self) -> Inputs:
        return self._inputs

    def refresh(self) -> None:
        """Look at the disk again: settings, the list of files, and which of them changed."""
        self._inputs = self._read(self._inputs)
        self._listed = frozenset(self._inputs.found.files)
        changed = {path for path, stamp in self._stamps.items() if path not in self._texts and stamp != _stamp_of(path)}
        fresh = self._inputs.project
        if fresh.root == self._project.root:
            self._project = self._project.successor(changed, self._with_texts(fresh.files), fresh.config)
        else:  # modules have other names below another root
            self._project = fresh.successor((), self._with_texts(fresh.files))
            for path, data in self._texts.items():
                self._project.provide(path, data)
        track_syntax(self._project)
        self._stamps = {path: stamp for path, stamp in self._stamps.items() if path not in changed}
        self._stamp(self._project.files)

    def show(self, texts: Mapping[Path, bytes]) -> None:
        """Lay the texts of open documents over the files; what is not among them any more is read from disk again.

        Texts of files that are not in the folder do not count.
        """
        texts = {path: text for path, text in texts.items() if self._holds(path)}
        paths = texts.keys() | self._texts.keys()
        changed = {path for path in paths if texts.get(path) != self._texts.get(path)}
        if not changed:
            return
        self._texts = dict(texts)
        files = self._with_texts(self._inputs.project.files)
        if files == self._project.files and all(map(self._stays, changed)):
            self._project.revise({path: texts.get(path) for path in changed})
            return
        self._project = self._project.successor(changed, files)
        for path in changed & texts.keys():
            self._project.provide(path, texts[path])
        track_syntax(self._project)

    def _stays(self, path: Path) -> bool:
        """Return whether there is such a file before and after its text changes."""
        return self._project.is_file(path) and (path in self._texts or path.is_file())

    def recover(self) -> None:
        """Start afresh with all that spans files, as some of it may be half done."""
        self._project = self._project.successor(self._texts, self._with_texts(self._inputs.project.files))
        for path, data in self._texts.items():
            self._project.provide(path, data)
        self.refresh()

    def reports(self, path: Path) -> bool:
        """Return whether a scan of the folder would report on a file. One that was not saved yet counts as listed."""
        return path in self._listed or path == self.alone or (path in self._texts and not os.path.lexists(path))

    def check(self, paths: Iterable[Path], stop: IsStale = lambda: False) -> Report:
        """Findings, with their fixes, of some of the files.

        Raises:
            Superseded: ``stop`` said so between two rules.
        """
        report = engine.run(
            self._project,
            [path for path in paths if self.reports(path)],
            [_stoppable(rule, stop) for rule in self._inputs.rules],
            fixers=self._inputs.plugins.fixers,
            report_unused_ignores=self._inputs.unused_ignores,
        )
        self._stamp(self._project.loaded_files)
        if self._baseline is not None:
            report.results = self._baseline.split(report.results, self._project).new
        return report

    def jobs(self, stop: IsStale = lambda: False) -> Report:
        """The GPU jobs of the folder, and the findings in all their files.

        Raises:
            Superseded: ``stop`` said so between two rules.
        """
        run = engine.Run(self._project, ())
        jobs = [job for path in job_documents(self._project) for job in run.summaries(path, Report())]
        return self.check(dict.fromkeys(path for job in jobs for path in (job.place.path, *job.files)), stop)

    def fixed(self, path: Path) -> Project:
        """The project after all safe fixes of one file's findings that change no other file."""
        return fixing.fix(
            self._project,
            [path] if self.reports(path) else [],
            self._inputs.rules,
            self._inputs.plugins.fixers,
            refusal=lambda other: None if other == path else "it would change other files",
        ).project

    def _read(self, before: Inputs | None) -> Inputs:
        parser = _Parser()
        add_arguments(parser)
        add_settings(parser)
        paths, data = ([self.folder], None) if self.alone is None else ([self.alone], b"")
        try:
            args = parser.parse_args(self._options)
            args.config = args.config and self.folder / args.config.expanduser()
            found = gather(args, paths, data)
            self._baseline = narrowing.load(None, found) if self.alone is None else None
            self.error = ""
            return found
        except ConfigError as error:
            self.error = str(error)
        return before or gather(parser.parse_args(["--isolated"]), paths, data)

    def _holds(self, path: Path) -> bool:
        return path.is_relative_to(self.folder) if self.alone is None else path == self.alone

    def _with_texts(self, files: Sequence[Path]) -> tuple[Path, ...]:
        new = [path for path in self._texts if path not in self._listed and not os.path.lexists(path)]
        return tuple(sorted({*files, *new}, key=lambda path: path.parts)) if new else tuple(files)

    def _stamp(self, paths: Iterable[Path]) -> None:
        """Note how files look on disk before (or, for those that a fact asked for, just after) they are read."""
        for path in paths:
            if path not in self._stamps:
                self._stamps[path] = _stamp_of(path)


class Workspaces:
    """The workspaces of one editor, made when a document of theirs is opened."""

    def __init__(self) -> None:
        self.folders: tuple[Path, ...] = ()
        self.options: tuple[str, ...] = ()
        self._made: dict[Path, Workspace] = {}

    def __iter__(self) -> Iterator[Workspace]:
        return iter(self._made.values())

    def configure(self, folders: Iterable[Path], options: Sequence[str]) -> None:
        """Folders that the editor has open, and the options that its settings ask for."""
        wanted = tuple(folders), tuple(options)
        if wanted != (self.folders, self.options):
            self._made.clear()
            self.folders, self.options = wanted

    def of_folders(self) -> list[Workspace]:
        """The workspaces of the editor's folders, without those within another one."""
        outer = [
            folder
            for folder in self.folders
            if not any(folder.is_relative_to(one) for one in self.folders if one != folder)
        ]
        return [self.of(folder / "any") for folder in dict.fromkeys(outer) if _is_bounded(folder)]

    def of(self, path: Path) -> Workspace:
        """The workspace of a file.

        That is the innermost folder of the editor around it; for a file outside of all of them the project that it is
        in, else the file alone.
        """
        from gpulint.discover import is_project, project_root

        around = [folder for folder in self.folders if path.is_relative_to(folder) and _is_bounded(folder)]
        folder = max(around, key=lambda folder: len(folder.parts)) if around else project_root([path])
        alone = None if around or (is_project(folder) and _is_bounded(folder)) else path
        key = alone or folder
        if key not in self._made:
            self._made[key] = Workspace(folder, self.options, alone)
        return self._made[key]


def _is_bounded(folder: Path) -> bool:
    """Nobody means all of a home directory or disk as one project, and reading it would take minutes."""
    return folder != Path.home() and folder.parent != folder and os.path.isdir(folder)  # noqa: PTH112 - never raises


def _stoppable(rule: Rule, stop: IsStale) -> Rule:
    """``rule`` with a look at ``stop`` before each of its checks."""

    def check(subject: object, project: Project) -> object:
        if stop():
            raise Superseded
        return rule.check(subject, project)

    return dataclasses.replace(rule, check=check)  # type: ignore[arg-type]


def _stamp_of(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
