"""What one keystroke costs the language server, beside parsing the same file.

    python benchmarks/lsp_latency.py [--lines 1000] [--keystrokes 30] [TREE [FILE]]

Without TREE the file is made of the training script of an example, repeated up to the number of lines, in a tree with
its launchers. With TREE and FILE a file of a real tree is edited (in memory). Each kind of edit is measured by itself,
from the same text on: spaces at the ends of lines; and comments, words in strings, statements, annotations of
parameters, constants of the module and imports, typed character by character at places that move through the file,
every other one deleted again. Texts that cannot be parsed cost little, so their number is printed, and the median of
the others too.

CPU time is of the whole process, from the changed text to the LSP diagnostics, after the first analysis. After every
ten keystrokes comes a pause, in which the server collects garbage; that is printed by itself.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lsprotocol.types import Position, Range, TextDocumentContentChangePartial, TextDocumentItem

from gpulint.lsp.buffers import Buffer, OpenFile
from gpulint.lsp.checking import Checker
from gpulint.lsp.diagnostics import diagnostics
from gpulint.lsp.places import Places
from gpulint.lsp.positions import Positions

STATEMENTS = ("batches = len(loader)", "loss_value = loss.item()", "name = 'run'", "print(epoch)")
Place = tuple[int, int]
"""A line, counted from 1, and the column after which text is added."""
Edits = Iterator[TextDocumentContentChangePartial]
EXAMPLE = Path(__file__).parents[1] / "examples/half-the-gpus/wasteful"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--keystrokes", type=int, default=60)
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
    print(f"{file.name}: {text.count(chr(10))} lines, {found} diagnostics; first analysis {first * 1000:.0f} ms of CPU")
    for edits in KINDS:
        document = OpenFile(file, Buffer.of(TextDocumentItem(file.as_uri(), "python", 1, text)))
        answer(checker, document, positions)
        spent: list[float] = []
        parsing: list[float] = []
        broken: list[bool] = []
        pauses: list[float] = []
        for change in itertools.islice(edits(document), keystrokes):
            started = time.process_time()
            document.buffer.change([change], len(spent) + 2, positions)
            answer(checker, document, positions)
            spent.append(time.process_time() - started)
            if len(spent) % 10 == 0:
                started = time.process_time()
                checker.garbage.collect_young()
                pauses.append(time.process_time() - started)
            started = time.process_time()
            try:
                ast.parse(document.buffer.source.text)
            except SyntaxError:
                broken.append(True)
                continue
            broken.append(False)
            parsing.append(time.process_time() - started)
        if not parsing:
            print(f"{edits.__name__}: no place for them")
            continue
        middle, parse = statistics.median(spent), statistics.median(parsing)
        whole = statistics.median(cost for cost, is_broken in zip(spent, broken, strict=True) if not is_broken)
        print(
            f"{edits.__name__}: median {middle * 1000:.1f} ms, highest {max(spent) * 1000:.1f} ms of CPU; of the"
            f" {broken.count(False)} of {len(broken)} texts that can be parsed {whole * 1000:.1f} ms,"
            f" {whole / parse:.1f} times ast.parse of the same file ({parse * 1000:.1f} ms);"
            f" collecting garbage in a pause {statistics.median(pauses or [0.0]) * 1000:.0f} ms"
        )


def spaces(document: OpenFile) -> Edits:
    """Spaces at the ends of lines."""
    for number in itertools.count():
        lines = document.buffer.source.text.split("\n")
        line = (number * 37) % max(len(lines) - 1, 1)
        yield changed(line, len(lines[line]), 0, " ")


def comments(document: OpenFile) -> Edits:
    """Comments at the ends of assignments in functions."""
    return typed(document, assigned, itertools.repeat("  # of a batch"))


def strings(document: OpenFile) -> Edits:
    """Words in strings."""
    return typed(document, in_strings, itertools.repeat("some words"))


def statements(document: OpenFile) -> Edits:
    """Statements on lines of their own, below assignments in functions."""
    return typed(document, assigned, (f"\n{statement}" for statement in itertools.cycle(STATEMENTS)))


def signatures(document: OpenFile) -> Edits:
    """Annotations of parameters."""
    return typed(document, parameters, itertools.repeat(": Batch"))


def constants(document: OpenFile) -> Edits:
    """Constants of the module, below its last import."""
    texts = (f"\nSIZE_{number} = 100" for number in itertools.count())
    return typed(document, lambda tree: imported(tree)[-1:], texts)


def imports(document: OpenFile) -> Edits:
    """Imports of the module."""
    return typed(document, imported, itertools.repeat("\nimport wandb"))


KINDS = (spaces, comments, strings, statements, signatures, constants, imports)


def typed(document: OpenFile, find: Callable[[ast.Module], list[Place]], texts: Iterable[str]) -> Edits:
    """The characters of texts, each at one of some places, and every other text deleted again."""
    for number, text in enumerate(texts):
        places = find(ast.parse(document.buffer.source.text))
        if not places:
            return
        line, column = places[(number * 37) % len(places)]
        if text.startswith("\n"):  # an editor indents the new line by itself
            indent = re.match("[ \t]*", document.buffer.source.line(line))[0]  # type: ignore[index]
            yield changed(line - 1, column, 0, f"\n{indent}")
            line, column, text = line + 1, len(indent), text[1:]
        for at, character in enumerate(text, column):
            yield changed(line - 1, at, 0, character)
        for at in range(column + len(text) - 1, column - 1, -1) if number % 2 else ():
            yield changed(line - 1, at, 1, "")


def assigned(tree: ast.Module) -> list[Place]:
    """The ends of assignments in functions."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [end_of(node) for function in functions for node in ast.walk(function) if isinstance(node, ast.Assign)]


def in_strings(tree: ast.Module) -> list[Place]:
    """The first characters of strings of one line."""
    return [
        (node.value.lineno, node.value.col_offset + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr | ast.Assign | ast.keyword)
        and isinstance(node.value, ast.Constant)
        and type(node.value.value) is str
        and node.value.lineno == node.value.end_lineno
    ]


def parameters(tree: ast.Module) -> list[Place]:
    """The ends of parameters without an annotation."""
    return [
        end_of(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) and node.annotation is None and node.arg != "self"
    ]


def imported(tree: ast.Module) -> list[Place]:
    """The ends of imports."""
    return [end_of(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]


def end_of(node: ast.stmt | ast.arg) -> Place:
    """The end of a node."""
    return node.end_lineno or 0, node.end_col_offset or 0


def changed(line: int, column: int, deleted: int, text: str) -> TextDocumentContentChangePartial:
    """A change of one place in a line of ASCII."""
    return TextDocumentContentChangePartial(
        range=Range(Position(line, column), Position(line, column + deleted)), text=text
    )


def answer(checker: Checker, document: OpenFile, positions: Positions) -> int:
    """Check the document as it is and make its diagnostics; how many."""
    path = document.path
    found = checker.check({path: document.content()}, [path], stop=lambda: False).checked(path, 0)
    places = Places(found.project, {path: document}, positions)
    return len(list(diagnostics(path, found, places, related=True, syntax_errors=True)))


if __name__ == "__main__":
    main()
