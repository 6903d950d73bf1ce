"""What of the findings the editor has been told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lsprotocol.types import Diagnostic, DiagnosticSeverity, Position, PublishDiagnosticsParams, Range

from gpulint.lsp.buffers import OpenDocument
from gpulint.lsp.diagnostics import SOURCE, Checked, diagnostics
from gpulint.lsp.places import Places

_START = Range(Position(0, 0), Position(0, 0))


class Publisher:
    """Sends diagnostics, and takes back those of texts that have none any more."""

    def __init__(self, send: Callable[[PublishDiagnosticsParams], None]) -> None:
        self._send = send
        self._published: dict[Path, set[str]] = {}

    def publish(
        self, document: OpenDocument, checked: Checked, places: Places, *, related: bool, syntax_errors: bool, note: str
    ) -> None:
        """Show what was found in a document, and the ``note`` on it if there is one."""
        by_uri: dict[str, list[Diagnostic]] = {buffer.uri: [] for buffer in document.buffers}
        for uri, item in diagnostics(document.path, checked, places, related=related, syntax_errors=syntax_errors):
            by_uri.setdefault(uri, []).append(item)
        self._show(document, by_uri, note)

    def publish_note(self, document: OpenDocument, note: str) -> None:
        """Show nothing but a note."""
        self._show(document, {buffer.uri: [] for buffer in document.buffers}, note)

    def take_back(self, path: Path) -> None:
        """Remove all diagnostics of a document."""
        for uri in self._published.pop(path, ()):
            self._send(PublishDiagnosticsParams(uri, []))

    def _show(self, document: OpenDocument, by_uri: dict[str, list[Diagnostic]], note: str) -> None:
        if note and by_uri:
            item = Diagnostic(_START, note, severity=DiagnosticSeverity.Information, source=SOURCE, code="not-checked")
            next(iter(by_uri.values())).append(item)
        versions = {buffer.uri: buffer.version for buffer in document.buffers}
        for uri in self._published.get(document.path, set()) - by_uri.keys():
            self._send(PublishDiagnosticsParams(uri, []))
        for uri, items in by_uri.items():
            self._send(PublishDiagnosticsParams(uri, items, versions.get(uri)))
        self._published[document.path] = set(by_uri)
