"""Jupyter notebooks: code cells as one Python module, shell cells and escapes as scripts."""

from __future__ import annotations

import json
from bisect import bisect_right
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.documents.base import Document
from gpulint.documents.conflicts import UNRESOLVED, conflict_line
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint.source import Fragment, SourceText, Span

if TYPE_CHECKING:
    from gpulint.documents.ipython import CellCode
    from gpulint.documents.python import PythonModule
    from gpulint.documents.shell import Script
    from gpulint.documents.tasks import Task

_PYTHON_KERNELS = ("python", "ipython", "pyspark", "conda-", "xpython")
_SHOWN_ERRORS = 3
MAX_OUTPUT, MAX_OUTPUTS = 20_000, 500
"""Characters at each end of an output that are kept, and outputs: progress bars write megabytes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell; ``index`` counts all cells of the notebook from 0."""

    index: int
    kind: str
    source: SourceText


class NotebookSource:
    """The Python of all code cells put together, and the way back to the cells. Lines correspond one to one."""

    def __init__(self, parts: list[tuple[int, str]]) -> None:
        """``parts``: (cell index, Python text) in order."""
        self.cells = [cell for cell, _ in parts]
        self.text = "".join(text + "\n" for _, text in parts)
        self._source = SourceText(self.text)
        self._parts = [text for _, text in parts]
        self._first_lines: list[int] = []
        line = 1
        for _, text in parts:
            self._first_lines.append(line)
            line += len(SourceText(text + "\n").line_starts) - 1

    def span(self, start: int, end: int) -> Span:
        """Span, within its cell, of the characters ``start:end`` of ``text``."""
        line, column = self._source.position(start)
        end_line, end_column = self._source.position(end)
        index = max(bisect_right(self._first_lines, line) - 1, 0)
        if not self.cells:
            return Span(line, column, end_line, end_column)
        shift = self._first_lines[index] - 1
        return Span(line - shift, column, end_line - shift, end_column, self.cells[index])

    def parts(self, cells: list[Cell]) -> list[tuple[int, Fragment]]:
        """Return where the Python of each cell begins in ``text``, and that Python with its way back to the cell."""
        found, start = list[tuple[int, Fragment]](), 0
        for cell, text in zip(cells, self._parts, strict=True):
            lines = zip(SourceText(text).line_starts, cell.source.line_starts, strict=False)
            found.append((start, Fragment(text, cell.source, tuple(lines), cell.index)))
            start += len(text) + 1
        return found


class NotebookDocument(Document):
    """An ``.ipynb`` file of format 3, 4 or 5."""

    kind = Kind.NOTEBOOK

    def __init__(self, path: Path, text: str, encoding: str = "utf-8") -> None:
        super().__init__(path, text, encoding)
        self._content = self._load()

    def _load(self) -> dict[str, Any]:
        if not self.source.text.strip():
            return {}  # a new one, in which nothing was written yet
        try:
            content = _parsed(self.source.text)
        except json.JSONDecodeError as error:
            if (line := conflict_line(self.source.text)) is not None:
                self.problem(UNRESOLVED, line, 1)
            else:
                self.problem(f"broken notebook: {error.msg}", error.lineno, error.colno)
        except RecursionError:
            self.problem("broken notebook: nested too deeply")
        else:
            if isinstance(content, dict):
                return content
            self.problem("broken notebook: not a JSON object", 1, 1)
        return {}

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, whatever their kind."""
        cells: list[Cell] = []
        for item in self._raw_cells():
            raw = item.get("source", item.get("input", "")) if isinstance(item, dict) else ""
            lines = raw if isinstance(raw, list) else [raw]
            kind = str(item.get("cell_type", "")) if isinstance(item, dict) else ""
            text = "".join(line for line in lines if isinstance(line, str))
            cells.append(Cell(len(cells), kind, SourceText(text)))
        return tuple(cells)

    @cached_property
    def outputs(self) -> tuple[tuple[int, str], ...]:
        """Text that cells have shown when they ran last, with the index of the cell; no tracebacks, which show code."""
        shown = (
            (index, text)
            for index, item in enumerate(self._raw_cells())
            if isinstance(item, dict) and isinstance(outputs := item.get("outputs"), list)
            for output in outputs
            if isinstance(output, dict) and (text := _shown(output))
        )
        return tuple(islice(shown, MAX_OUTPUTS))

    def cell_source(self, cell: int | None) -> SourceText:
        return self.source if cell is None else self.cells[cell].source

    def _raw_cells(self) -> list[Any]:
        """Cells of format 4 and 5, or of format 3's worksheets."""
        sheets = self._content.get("worksheets")
        holders = sheets if isinstance(sheets, list) and "cells" not in self._content else [self._content]
        found: list[Any] = []
        for holder in holders:
            cells = holder.get("cells") if isinstance(holder, dict) else None
            found += cells if isinstance(cells, list) else []
        return found

    @property
    def _metadata(self) -> dict[str, Any]:
        metadata = self._content.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def asks_for_gpu(self) -> bool:
        """Whether the notebook requests a GPU from Colab or Kaggle."""
        metadata = self._metadata
        colab, kaggle = (held if isinstance(held := metadata.get(key), dict) else {} for key in ("colab", "kaggle"))
        return (
            metadata.get("accelerator") == "GPU"
            or bool(colab.get("gpuType"))
            or kaggle.get("isGpuEnabled") is True
            or str(kaggle.get("accelerator", "")).startswith(("nvidia", "gpu"))
        )

    @property
    def language(self) -> str:
        """Language of the kernel in lower case, ``python`` where the notebook does not say."""
        metadata = self._metadata
        for section, key in (("language_info", "name"), ("kernelspec", "language"), ("kernelspec", "name")):
            holder = metadata.get(section)
            name = holder.get(key) if isinstance(holder, dict) else None
            if isinstance(name, str) and name:
                return "python" if name.lower().startswith(_PYTHON_KERNELS) else name.lower()
        return "python"

    @cached_property
    def _code(self) -> tuple[tuple[Cell, CellCode], ...]:
        from gpulint.documents.ipython import read_cell

        if self.language != "python":
            return ()
        return tuple((cell, read_cell(cell.source, cell.index)) for cell in self.cells if cell.kind == "code")

    @cached_property
    def python_source(self) -> NotebookSource:
        """Python of all code cells; broken cells are empty lines."""
        return NotebookSource([(cell.index, code.python) for cell, code in self._code])

    @property
    def code_lines(self) -> list[str]:
        """The lines of all code cells, as they are written."""
        return [line for cell in self.cells if cell.kind == "code" for line in cell.source.text.splitlines()]

    @property
    def broken_cells(self) -> list[Cell]:
        """The code cells that are no Python."""
        return [cell for cell, code in self._code if code.error]

    def read_python(self) -> PythonModule | None:
        from gpulint.documents.python import PythonModule

        broken = [(cell, code.error) for cell, code in self._code if code.error]
        for cell, error in broken[:_SHOWN_ERRORS]:
            if (line := conflict_line(cell.source.text)) is not None:
                self.problem(f"cell {cell.index}, line {line}: {UNRESOLVED}", line, 1, cell=cell.index)
                continue
            self.problem(
                f"cell {cell.index}, line {error.lineno or 1}: syntax error: {error.msg}",
                error.lineno,
                error.offset,
                cell=cell.index,
            )
        if len(broken) > _SHOWN_ERRORS:
            self.problem(f"{len(broken) - _SHOWN_ERRORS} more cells with syntax errors")
        source = self.python_source
        if not source.text.strip():
            return None
        try:
            return PythonModule(self.path, source.text, source.span)
        except SyntaxError as error:
            place = source.span(*[SourceText(source.text).offset(error.lineno or 1, error.offset or 1)] * 2)
            message = f"cell {place.cell}, line {place.line}: syntax error: {error.msg}"
            self.problem(message, place.line, place.column, cell=place.cell)
            return None

    def read_scripts(self) -> tuple[Script, ...]:
        """One script per ``%%bash`` cell, ``!`` line and installing magic, in order."""
        from gpulint.documents.shell import parse_script

        return tuple(parse_script(fragment) for _, code in self._code for fragment in code.shell)

    def read_tasks(self) -> tuple[Task, ...]:
        """The session of a notebook that asks for a GPU, and the jobs that calls in its cells describe."""
        return (*self._session(), *self._submitted())

    def _submitted(self) -> list[Task]:
        from gpulint.documents.calls import CallRows

        if not self.models.derived(CallRows).may_read(self.python_source.text) or self.python is None:
            return []
        from gpulint.documents.calls import reader

        return reader.read(self.python, self.python_source.parts([cell for cell, _ in self._code]), self.models)

    def _session(self) -> tuple[Task, ...]:
        """The session of a notebook that asks for a GPU, with the commands that its cells run."""
        from gpulint.documents.tasks import Count, Resources, Task

        if not self.asks_for_gpu or not self.scripts:
            return ()
        place = self.scripts[0].fragment
        span = place.span(0, len(place.text.rstrip()))
        gpus = Count(1, span, "the notebook's GPU")
        held = Resources(gpus=gpus)
        return (Task(self.path.name, span, "session", held, self.scripts, system="notebook"),)


def _shown(output: dict[str, Any]) -> str:
    """Return the text of an output: what was printed, the value of the last line, or the message of an error."""
    data = output.get("data")
    raw = output.get("text") or (data.get("text/plain") if isinstance(data, dict) else None) or output.get("evalue")
    parts = raw if isinstance(raw, list) else [raw]
    text = "".join(part for part in parts if isinstance(part, str))
    return text if len(text) <= 2 * MAX_OUTPUT else f"{text[:MAX_OUTPUT]}\n{text[-MAX_OUTPUT:]}"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of thousands of digits, which Python refuses to convert
        return json.loads(text, parse_int=float)
