"""Documents that the editor has open: plain files, and notebooks whose cells are texts of their own."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lsprotocol import types

from gpulint.documents.base import Unreadable, decode
from gpulint.lsp.positions import Positions
from gpulint.records import dataclass, field
from gpulint.rule import Kind
from gpulint.source import SourceText


@dataclass
class Buffer:
    """One text that the editor shows, a file or a cell.

    pygls has such a thing too, but its lines also end at form feeds and other characters where no editor ends them.
    """

    uri: str
    version: int
    source: SourceText
    language: str = ""

    @classmethod
    def of(cls, item: types.TextDocumentItem) -> Buffer:
        return cls(item.uri, item.version, SourceText(item.text), item.language_id)

    def change(
        self, changes: Iterable[types.TextDocumentContentChangeEvent], version: int, positions: Positions
    ) -> None:
        """Apply the editor's changes, each to the outcome of the one before."""
        for change in changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                start = positions.offset(self.source, change.range.start)
                end = max(start, positions.offset(self.source, change.range.end))
                self.source = SourceText(self.source.text[:start] + change.text + self.source.text[end:])
            else:
                self.source = SourceText(change.text)
        self.version = version


@dataclass
class OpenFile:
    """A document that is one text. ``revision`` counts the server's changes and says which results are stale."""

    path: Path
    buffer: Buffer
    revision: int = 0

    @property
    def uri(self) -> str:
        return self.buffer.uri

    @property
    def version(self) -> int:
        return self.buffer.version

    @property
    def buffers(self) -> list[Buffer]:
        return [self.buffer]

    def content(self) -> bytes:
        """The text as the file would hold it."""
        return encoded(self.buffer.source.text)


@dataclass
class OpenNotebook:
    """A notebook that is synchronised cell by cell; ``cells`` holds all of them, in order."""

    path: Path
    uri: str
    version: int
    cells: list[tuple[types.NotebookCell, Buffer]] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    revision: int = 0

    @classmethod
    def of(cls, path: Path, params: types.DidOpenNotebookDocumentParams) -> OpenNotebook:
        notebook = params.notebook_document
        texts = {item.uri: Buffer.of(item) for item in params.cell_text_documents}
        cells = [(cell, texts.get(cell.document) or _empty(cell)) for cell in notebook.cells]
        return cls(path, notebook.uri, notebook.version, cells, _plain(notebook.metadata))

    @property
    def buffers(self) -> list[Buffer]:
        return [buffer for _, buffer in self.cells]

    def change(self, params: types.DidChangeNotebookDocumentParams, positions: Positions) -> None:
        """Apply changes of metadata, of the list of cells and of their texts."""
        self.version = params.notebook_document.version
        if params.change.metadata is not None:
            self.metadata = _plain(params.change.metadata)
        changes = params.change.cells
        if changes is None:
            return
        if changes.structure is not None:
            self._restructure(changes.structure)
        for item in changes.data or ():
            self.cells = [(item if item.document == cell.document else cell, buffer) for cell, buffer in self.cells]
        texts = {buffer.uri: buffer for buffer in self.buffers}
        for change in changes.text_content or ():
            if (buffer := texts.get(change.document.uri)) is not None:
                buffer.change(change.changes, change.document.version, positions)

    def _restructure(self, structure: types.NotebookDocumentCellChangeStructure) -> None:
        array = structure.array
        # A moved cell is taken out and put in again without being opened anew.
        texts = {buffer.uri: buffer for buffer in self.buffers}
        texts |= {item.uri: Buffer.of(item) for item in structure.did_open or ()}
        new = [(cell, texts.get(cell.document) or _empty(cell)) for cell in array.cells or ()]
        self.cells[array.start : array.start + array.delete_count] = new

    def content(self) -> bytes:
        """The notebook as its file would hold it, as far as gpulint reads that."""
        cells = [
            {"cell_type": _cell_type(cell, buffer), "metadata": {}, "source": buffer.source.text}
            for cell, buffer in self.cells
        ]
        return json.dumps({"cells": cells, "metadata": self.metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


OpenDocument = OpenFile | OpenNotebook


def encoded(text: str) -> bytes:
    """Bytes that gpulint reads back as ``text``, whatever encoding a comment in it declares."""
    data = text.encode("utf-8", "replace")
    try:
        return data if decode(data, Kind.PYTHON)[0] == text else codecs.BOM_UTF8 + data
    except Unreadable:
        return data


def _empty(cell: types.NotebookCell) -> Buffer:
    return Buffer(cell.document, 0, SourceText(""))


def _cell_type(cell: types.NotebookCell, buffer: Buffer) -> str:
    if cell.kind is types.NotebookCellKind.Markup:
        return "markdown"
    # A cell in another language is no Python, but for %%bash cells, which editors may show as what they hold.
    is_code = buffer.language in ("", "python") or buffer.source.text.startswith("%%")
    return "code" if is_code else "raw"


def _plain(metadata: Any) -> dict[str, Any]:
    """A notebook's metadata; VS Code nests the file's own below ``metadata``."""
    if not isinstance(metadata, dict):
        return {}
    inner = metadata.get("metadata")
    return metadata | inner if isinstance(inner, dict) else metadata
