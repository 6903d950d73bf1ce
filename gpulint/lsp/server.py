"""The server: what the editor tells becomes texts to check, and what was found becomes diagnostics.

Everything here runs on the event loop. A change restarts a short wait; then one worker thread checks the documents that
changed, and after them the other open ones, on which the change may tell. A newer change stops it, and an answer to an
older text is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from gpulint import __version__
from gpulint.discover import absolute
from gpulint.lsp import settings
from gpulint.lsp.actions import Abilities
from gpulint.lsp.buffers import OpenDocument
from gpulint.lsp.checking import Answer, Checker
from gpulint.lsp.diagnostics import Checked, diagnostics
from gpulint.lsp.places import Places
from gpulint.lsp.positions import Positions
from gpulint.lsp.protocol import Protocol
from gpulint.lsp.workspace import Superseded

DELAY = 0.2
"""Seconds without a change before a check starts."""
NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(
            notebook=types.NotebookDocumentFilterNotebookType(notebook_type="jupyter-notebook")
        )
    ]
)
_SUFFIXES = {"python": ".py", "shellscript": ".sh", "sh": ".sh", "yaml": ".yaml", "dockerfile": ".dockerfile"}
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Server(LanguageServer):
    """The state of one session."""

    def __init__(self) -> None:
        super().__init__("gpulint", __version__, notebook_document_sync=NOTEBOOKS, protocol_cls=Protocol)
        self.settings = settings.Settings()
        self.initial: Any = None
        """Settings that the editor sent at the start."""
        self.abilities = Abilities()
        self.positions = Positions()
        self.opened: dict[Path, OpenDocument] = {}
        self.checked: dict[Path, Checked] = {}
        self.asked_to_shut_down = False
        self._folders: list[Path] = []
        self._checker = Checker()
        self._worker = ThreadPoolExecutor(1, "check")
        self._contents: dict[Path, bytes] = {}
        self._revision = 0
        self._urgent: set[Path] = set()
        self._later: set[Path] = set()
        self._refresh = False
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._due = 0.0
        self._waiting: list[asyncio.Future[bool]] = []
        self._published: dict[Path, set[str]] = {}
        self._told: set[str] = set()
        self._checking: asyncio.Task[None] | None = None

    # -- what the editor tells -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to check what is opened."""
        self._checking = asyncio.get_running_loop().create_task(self._check_forever())

    def stop(self) -> None:
        """Give up what is being checked."""
        self._revision += 1
        if self._checking is not None:
            self._checking.cancel()

    def configure(self, *, folders: Iterable[Path] | None = None, given: Any = None) -> None:
        """Take over workspace folders or settings; all that is open is checked again."""
        if folders is not None:
            self._folders = [absolute(folder) for folder in folders]
        if given is not None:
            read = settings.read(given)
            self.tell(read.complaints)
            if read == self.settings and folders is None:
                return
            self.settings = read
        self.checked.clear()  # what is found may stay the same and still be shown differently
        self._worker.submit(self._checker.workspaces.configure, tuple(self._folders), self.settings.options)
        self.touch()

    @property
    def folders(self) -> list[Path]:
        return self._folders

    def open(self, document: OpenDocument) -> None:
        """Check a document from now on."""
        self.opened[document.path] = document
        self.touch(document, refresh=True)

    def touch(self, *documents: OpenDocument, refresh: bool = False) -> None:
        """Check ``documents``, which have changed, then all others; with ``refresh`` look at the disk again first."""
        self._revision += 1
        for document in documents:
            document.revision = self._revision
            self._contents[document.path] = document.content()
            self._urgent.add(document.path)
        self._later |= self.opened.keys()
        self._refresh |= refresh
        self._due = asyncio.get_running_loop().time() + DELAY
        self._wake.set()

    def close(self, path: Path) -> None:
        """Stop to check a document; from now on its file counts."""
        if self.opened.pop(path, None) is None:
            return
        self._contents.pop(path, None)
        self._urgent.discard(path)
        self._later.discard(path)
        self.checked.pop(path, None)
        for uri in self._published.pop(path, ()):
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        self.touch(refresh=True)

    def tell(self, messages: Iterable[str], kind: types.MessageType = types.MessageType.Warning) -> None:
        """Show messages, each once."""
        for message in messages:
            if message not in self._told:
                self._told.add(message)
                self.window_show_message(types.ShowMessageParams(kind, f"gpulint: {message}"))

    # -- what the editor asks ------------------------------------------------------------------------------------------

    def find(self, uri: str) -> OpenDocument | None:
        """The open document of a file's or cell's URI."""
        document = self.opened.get(path_of(uri))
        if document is not None and any(uri == buffer.uri for buffer in document.buffers):
            return document
        return next((item for item in self.opened.values() if any(uri == text.uri for text in item.buffers)), None)

    async def fresh(self, path: Path) -> Checked | None:
        """What was found in a document as it is now, checking it first if need be; None once it is closed."""
        while (document := self.opened.get(path)) is not None:
            found = self.checked.get(path)
            if found is not None and found.revision == document.revision:
                return found
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            self._hurry.set()
            if not await waiting:
                return None
        return None

    def places(self, checked: Checked) -> Places:
        """Places in the documents as the editor shows them."""
        return Places(checked.project, self.opened, self.positions)

    async def on_worker(self, work: Callable[[], T]) -> T:
        """Do what needs a workspace."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    async def fix_all(self, path: Path) -> dict[int | None, str]:
        """The document with all safe fixes done: new texts by cell, only those that differ."""
        contents = dict(self._contents)
        return await self.on_worker(lambda: self._checker.fix_all(contents, path))

    # -- checking ------------------------------------------------------------------------------------------------------

    async def _check_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            while not self._hurry.is_set() and (rest := self._due - loop.time()) > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), rest)
            self._wake.clear()
            self._hurry.clear()
            try:
                await self._check_all()
            except Exception as error:
                _log.exception("checking failed")
                self.tell([f"internal error: {type(error).__name__}: {error}"], types.MessageType.Error)
                self._urgent.clear()
                self._later.clear()
                self._answer_waiting(False)

    async def _check_all(self) -> None:
        """Check what is due until nothing is, or until a newer change says to wait again."""
        while paths := (self._urgent or self._later) & self.opened.keys():
            revision, contents, refresh = self._revision, dict(self._contents), self._refresh
            self._refresh = False

            def work(
                paths: set[Path] = paths, revision: int = revision, refresh: bool = refresh, contents: Any = contents
            ) -> Answer:
                return self._checker.check(contents, paths, refresh=refresh, stop=lambda: self._revision != revision)

            try:
                answer = await self.on_worker(work)
            except Superseded:
                return
            if self._revision != revision:
                return
            self._urgent -= paths
            self._later -= paths
            self._take(paths, answer)

    def _take(self, paths: set[Path], answer: Answer) -> None:
        """Show what a check found."""
        self._told &= answer.complaints | set(self.settings.complaints)
        self.tell(sorted(answer.complaints), types.MessageType.Error)
        for error in answer.errors:
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, error))
        for path in paths:
            document = self.opened[path]
            before = self.checked.get(path)
            self.checked[path] = answer.checked(path, document.revision)
            if before is None or before.shows != self.checked[path].shows:
                self._publish(document)
        self._answer_waiting(True)

    def _answer_waiting(self, checked: bool) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(checked)

    def _publish(self, document: OpenDocument) -> None:
        checked = self.checked[document.path]
        by_uri: dict[str, list[types.Diagnostic]] = {buffer.uri: [] for buffer in document.buffers}
        found = diagnostics(
            document.path,
            checked,
            self.places(checked),
            related=self.abilities.related,
            syntax_errors=self.settings.syntax_errors,
        )
        for uri, item in found:
            by_uri.setdefault(uri, []).append(item)
        versions = {buffer.uri: buffer.version for buffer in document.buffers}
        for uri in self._published.get(document.path, set()) - by_uri.keys():
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        for uri, items in by_uri.items():
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, items, versions.get(uri)))
        self._published[document.path] = set(by_uri)


def path_of(uri: str, language: str = "") -> Path:
    """The file of a URI; a document in no file gets a path that cannot exist, with the suffix of its language."""
    path = to_fs_path(uri)
    if path and "\0" not in path:
        return absolute(Path(path))
    name = "".join(char if char.isalnum() else "_" for char in uri)
    return Path("/untitled", name[-80:] + _SUFFIXES.get(language, ""))


def serve() -> int:
    """Talk to the editor on standard input and output; the exit code."""
    from gpulint.lsp import handlers

    gc.enable()  # this command lives long, unlike all others
    # What a plugin prints must not come between the messages, so standard output becomes standard error for all others.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server = Server()
    handlers.register(server)
    server.start_io(sys.stdin.buffer, output)
    return 0 if server.asked_to_shut_down else 1
