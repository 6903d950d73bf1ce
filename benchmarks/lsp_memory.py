"""What memory the language server takes while a document is edited again and again.

    python benchmarks/lsp_memory.py [--edits 5000] [--lines 100] [--every 1000] [TREE [FILE]]

Without TREE the file is made of the training script of an example, repeated up to the number of lines, in a tree with
its launchers. With TREE and FILE a file of a real tree is edited (in memory). Each edit adds or takes a statement at a
place that moves through the file, and is followed by a request to hover, so that every single text is checked.
The figures are the server's resident memory. Needs Linux and the packages of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from lsp_latency import made
from lsprotocol import types
from pygls.lsp.client import LanguageClient


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--edits", type=int, default=5000)
    parser.add_argument("--every", type=int, default=1000, help="edits between two figures")
    parser.add_argument("--lines", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = args.tree.absolute() if args.tree else made(Path(folder), args.lines)
        asyncio.run(measure(tree, tree / (args.file or "train.py"), args.edits, args.every))


async def measure(tree: Path, file: Path, edits: int, every: int) -> None:
    """Edit ``file`` and print the memory from time to time."""
    client = LanguageClient("benchmark", "1")
    found = 0

    def published(params: types.PublishDiagnosticsParams) -> None:
        nonlocal found
        found = len(params.diagnostics)

    client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)
    await client.start_io(sys.executable, "-m", "gpulint", "lsp")
    folders = [types.WorkspaceFolder(tree.as_uri(), tree.name)]
    await client.initialize_async(
        types.InitializeParams(capabilities=types.ClientCapabilities(), workspace_folders=folders)
    )
    client.initialized(types.InitializedParams())
    text = file.read_text()
    document = types.TextDocumentItem(file.as_uri(), "python", 0, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    started, lines = time.monotonic(), text.count("\n")
    for number in range(edits + 1):
        await client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(document.uri), types.Position(0, 0))
        )
        if number % every == 0:
            seconds = time.monotonic() - started
            print(f"{number:6} edits: {_resident(client):6.1f} MB, {found} diagnostics, {seconds:.0f} s")
        client.text_document_did_change(_edit(document.uri, number, lines))
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()


def _edit(uri: str, number: int, lines: int) -> types.DidChangeTextDocumentParams:
    """Add a line, and in the next edit take it away again."""
    line = (number // 2 * 37) % max(lines, 1)
    start, end = types.Position(line, 0), types.Position(line + number % 2, 0)
    change = types.TextDocumentContentChangePartial(
        range=types.Range(start, end), text="" if number % 2 else f"# {number}\n"
    )
    identifier = types.VersionedTextDocumentIdentifier(number + 1, uri)
    return types.DidChangeTextDocumentParams(identifier, [change])


def _resident(client: LanguageClient) -> float:
    """Resident memory of the server in MB."""
    assert client._server is not None
    status = Path(f"/proc/{client._server.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1000


if __name__ == "__main__":
    main()
