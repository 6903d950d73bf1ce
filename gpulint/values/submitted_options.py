"""Options that notebooks give to programs of the tree: ``!python train.py --model_id ID`` in a cell.

They tell what a program runs with, but they are no jobs: what they hold is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.notebook import NotebookDocument
from gpulint.finding import Place
from gpulint.launch.option_parser import passed_option
from gpulint.launch.path_resolution import PathResolver
from gpulint.launch.program_launches import launches
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.values.constants import Constants
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.documents.shell import ArgWord
    from gpulint.project import Project

_CELL_RUNS = regex.compile(rb"[!%][^\n]{0,300}\.py\b|%%(bash|sh|script|!)")
"""A notebook without it starts no program from a cell."""
_INTERPOLATED = regex.compile(r"\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_NO_PROGRAM = frozenset({"sbatch", "source", "shell"})
_SET = "set by what submits it"

PassedValues = Sequence[tuple[str, Place]]


@dataclass(frozen=True, eq=False)
class Submission:
    """What one place passes for a program's options."""

    origin: Path
    """The notebook or program that submits."""
    option: Callable[[tuple[str, ...]], PassedValues]
    """As :meth:`gpulint.launch.job.Launched.option`, but what is unknown counts as not given: defaults are like it."""
    first: str | None = None
    """The first argument, if it is known."""


class SubmittedOptions:
    """Submissions in one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    def of(self, program: Path) -> tuple[Submission, ...]:
        """Return how notebooks and submitting programs start a program, or those that import this module for its
        options."""
        own = self._by_program().get(program)
        if own is not None or not self._by_program():
            return tuple(own or ())
        return self._inherited(program)

    @query
    def _inherited(self, program: Path) -> tuple[Submission, ...]:
        """Return what is passed to the programs that import a module."""
        stem = word_of((program.parent if program.name == "__init__.py" else program).stem)
        users = [path for path in self._by_program() if self._project.word_index.holds(path, stem)]
        users = [path for path in users if program in self._project.imported(path)]
        return tuple(item for path in users for item in self._by_program()[path])

    @query
    def _by_program(self) -> dict[Path, list[Submission]]:
        found: dict[Path, list[Submission]] = {}
        for path in sorted(self._project.notebooks()):
            with self._project.containing(path, "submitted jobs"):
                for program, submission in self._in_file(path):
                    found.setdefault(program, []).append(submission)
        return found

    def _in_file(self, path: Path) -> Iterator[tuple[Path, Submission]]:
        data = self._project.data(path)
        if _CELL_RUNS.search(data) is None or self._project.is_test(path):
            return
        document = self._project.document(path)
        if isinstance(document, NotebookDocument):
            yield from self._cells(document)

    @cached_property
    def _locator(self) -> PathResolver:
        return PathResolver(self._project)

    # -- cells ---------------------------------------------------------------------------------------------------------

    def _cells(self, notebook: NotebookDocument) -> Iterator[tuple[Path, Submission]]:
        for script in notebook.scripts:
            for launch in launches(script) if ".py" in script.fragment.text else ():
                if launch.program is None or launch.launcher in _NO_PROGRAM:
                    continue
                found = self._locator.locate(launch.program, launch.working_dir, notebook.path, None)
                if found is not None:
                    first = launch.args[0].value if launch.args else None
                    yield found[0], Submission(notebook.path, partial(self._of_cell, notebook, launch.args), first)

    def _of_cell(self, notebook: NotebookDocument, args: tuple[ArgWord, ...], flags: tuple[str, ...]) -> PassedValues:
        return [
            (written, Place(notebook.path, word.span, _SET))
            for text, word in passed_option(args, flags)
            if (written := self._interpolated(notebook, word.text if text is None else text, text)) is not None
        ]

    def _interpolated(self, notebook: NotebookDocument, written: str, text: str | None) -> str | None:
        """An argument with the notebook's own variable put in (``{model_id}``, ``$model_id``)."""
        match = _INTERPOLATED.search(written)
        module = self._project.module(notebook) if match is not None else None
        if match is None or module is None:
            return text
        name = match[1] or match[2]
        known = [
            self._project.fact(Constants).of(module, binding.value, binding.path)
            for binding in module.top.bindings.get(name, [])
            if binding.value is not None
        ]
        if len(known) != 1 or not known[0].complete or len(known[0].values) != 1:
            return None
        return written[: match.start()] + str(known[0].values[0].value) + written[match.end() :]
