"""What one keystroke costs the language server, beside parsing the same file.

    python benchmarks/lsp_latency.py [--lines 1000] [--keystrokes 30] [TREE [FILE]]

Without TREE the file is made of the training script of an example, repeated up to the number of lines, in a tree with
its launchers. With TREE and FILE a file of a real tree is edited (in memory). A keystroke adds or takes a character at
a place that moves through the file. CPU time is of the whole process, from the changed text to the LSP diagnostics,
after the first analysis.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from lsprotocol.types import Position, Range, TextDocumentContentChangePartial, TextDocumentItem

from gpulint.lsp.buffers import Buffer, OpenFile
from gpulint.lsp.checking import Checker
from gpulint.lsp.diagnostics import diagnostics
from gpulint.lsp.places import Places
from gpulint.lsp.positions import Positions

EXAMPLE = Path(__file__).parents[1] / "examples/half-the-gpus/wasteful"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--keystrokes", type=int, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = args.tree.absolute() if args.tree else made(Path(folder), args.lines)
        file = tree / args.file if args.file else tree / "train.py"
        measure(tree, file, args.keystrokes)


def made(folder: Path, lines: int) -> Path:
    """A tree whose ``train.py`` has about ``lines`` lines of training loops, models and loaders."""
    shutil.copytree(EXAMPLE, folder / "job")
    path = folder / "job" / "train.py"
    text = path.read_text()
    main_function = text[text.index("def main(") : text.index("if __name__")]
    body, number = text, 0
    while body.count("\n") < lines:
        number += 1
        body += "\n\n" + main_function.replace("def main(", f"def main_{number}(").rstrip() + "\n"
    path.write_text(body)
    return folder / "job"


def measure(tree: Path, file: Path, keystrokes: int) -> None:
    """Edit ``file`` and print what each answer cost."""
    text = file.read_text()
    checker, positions = Checker(), Positions()
    checker.workspaces.configure([tree], [])
    document = OpenFile(file, Buffer.of(TextDocumentItem(file.as_uri(), "python", 1, text)))
    started = time.process_time()
    found = answer(checker, document, positions)
    first = time.process_time() - started
    lines = text.count("\n")
    spent, parsing = [], []
    for number in range(keystrokes):
        line = (number * 37) % max(lines, 1)
        length = len(document.buffer.source.line(line + 1).encode("utf-16-le")) // 2
        place = Position(line, length)
        change = TextDocumentContentChangePartial(range=Range(place, place), text=" ")
        started = time.process_time()
        document.buffer.change([change], number + 2, positions)
        answer(checker, document, positions)
        spent.append(time.process_time() - started)
        started = time.process_time()
        ast.parse(document.buffer.source.text)
        parsing.append(time.process_time() - started)
    middle, parse = statistics.median(spent), statistics.median(parsing)
    print(f"{file.name}: {lines} lines, {found} diagnostics; first analysis {first * 1000:.0f} ms of CPU")
    print(
        f"keystroke: median {middle * 1000:.1f} ms, highest {max(spent) * 1000:.1f} ms of CPU;"
        f" {middle / parse:.1f} times ast.parse of the same file ({parse * 1000:.1f} ms)"
    )


def answer(checker: Checker, document: OpenFile, positions: Positions) -> int:
    """Check the document as it is and make its diagnostics; how many."""
    path = document.path
    found = checker.check({path: document.content()}, [path], stop=lambda: False).checked(path, 0)
    places = Places(found.project, {path: document}, positions)
    return len(list(diagnostics(path, found, places, related=True, syntax_errors=True)))


if __name__ == "__main__":
    main()
