"""Random edits of real trees: a scan that uses what earlier scans found reports the very same as one that does not.

    python benchmarks/incremental.py [--steps N] [--seed N] [--format FORMAT] [--server] TREE...

Each tree is copied. Each step edits the copy (a number, a definition that goes or gets another name, a new name, a file
that goes, comes or is copied, a folder that gets another name, a line of a launcher), scans it with the cache that the
steps before have filled and without one, and compares the two reports byte by byte. Printed per tree: CPU seconds of
the first scan, and of the scans with and without the cache after an edit. The exit code is 1 if a report differs.

With ``--server`` a language server's workspace gets the texts of the edited files as an editor sends them, and its
findings in all files are compared with those of a new workspace.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gpulint.cache.entries import findings_of
from gpulint.lsp.workspace import Workspace

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_DEFINITION = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)
_SHELL = (".sh", ".slurm", ".sbatch", ".yaml", ".yml", ".toml")


def scan(tree: Path, cache: Path | None, form: str) -> tuple[bytes, float]:
    """The report of a tree, and CPU seconds."""
    where = ["--cache-dir", str(cache)] if cache is not None else ["--no-cache"]
    command = [sys.executable, "-m", "gpulint", "scan", "--isolated", "--exit-zero", "--jobs", "1", *where]
    process = subprocess.Popen(
        [*command, "--output-format", form, str(tree)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return text, usage.ru_utime + usage.ru_stime


class Editor:
    """Edits of one tree."""

    def __init__(self, tree: Path, chance: random.Random) -> None:
        self._tree, self._chance = tree, chance
        self.edits: dict[str, Callable[[], str]] = {
            "number": self._number,
            "name": self._new_name,
            "rename": self._rename,
            "delete": self._delete_definition,
            "remove file": self._remove_file,
            "add file": self._add_file,
            "rename folder": self._rename_folder,
            "launcher": self._launcher,
        }

    def edit(self) -> str:
        """Do one of them; what it was."""
        kind = self._chance.choice([*self.edits])
        return f"{kind}: {self.edits[kind]()}"

    def type(self) -> tuple[str, Path]:
        """Do one of them that changes a text alone, or type something; what it was, and the file."""
        kinds = {name: self.edits[name] for name in ("number", "name", "rename", "delete", "launcher")}
        kinds |= dict.fromkeys(("type", "type more"), self._typed)
        kind = self._chance.choice([*kinds])
        name = kinds[kind]()
        return f"{kind}: {name}", self._tree / name

    def _typed(self) -> str:
        def change(text: str) -> str:
            lines = text.splitlines(keepends=True)
            at = self._chance.randrange(len(lines) + 1)
            typed = self._chance.choice(("", "\n", "# note\n", "value = 3\n", "print(loss.item())\n", "(\n", "    "))
            return "".join([*lines[:at], typed, *lines[at + self._chance.randrange(2) :]])

        return self._change(change, ".py")

    def _files(self, *suffixes: str) -> list[Path]:
        found = (path for path in self._tree.rglob("*") if path.suffix in suffixes and path.is_file())
        return sorted(path for path in found if ".git" not in path.parts)

    def _change(self, change: Callable[[str], str], *suffixes: str) -> str:
        files = self._files(*suffixes)
        for path in self._chance.sample(files, min(len(files), 30)):
            text = path.read_text("utf-8", "surrogateescape")
            changed = change(text)
            if changed != text:
                path.write_text(changed, "utf-8", "surrogateescape")
                return str(path.relative_to(self._tree))
        return "nothing"

    def _in_numbers(self, text: str) -> str:
        found = [*_NUMBER.finditer(text)]
        if not found:
            return text
        match = self._chance.choice(found)
        return f"{text[: match.start()]}{self._chance.choice((0, 1, 2, 8, 64))}{text[match.end() :]}"

    def _number(self) -> str:
        return self._change(self._in_numbers, ".py")

    def _new_name(self) -> str:
        name = self._chance.choice(("loader", "train_step", "fresh_name", "DataLoader", "backward"))
        return self._change(lambda text: f"{text}\n\n{name} = None\n", ".py")

    def _rename(self) -> str:
        def change(text: str) -> str:
            found = _DEFINITION.findall(text)
            return re.sub(rf"\b{self._chance.choice(found)}\b", "renamed_thing", text) if found else text

        return self._change(change, ".py")

    def _delete_definition(self) -> str:
        def change(text: str) -> str:
            found = [*_DEFINITION.finditer(text)]
            if not found:
                return text
            match = self._chance.choice(found)
            end = re.compile(r"^\S", re.MULTILINE).search(text, match.end())
            return text[: match.start()] + (text[end.start() :] if end else "")

        return self._change(change, ".py")

    def _remove_file(self) -> str:
        path = self._chance.choice(self._files(".py", *_SHELL))
        path.unlink()
        return str(path.relative_to(self._tree))

    def _add_file(self) -> str:
        source = self._chance.choice(self._files(".py"))
        path = source.with_name(f"added_{self._chance.randrange(1000)}.py")
        shutil.copy(source, path)
        return str(path.relative_to(self._tree))

    def _rename_folder(self) -> str:
        folders = sorted({path.parent for path in self._files(".py")} - {self._tree})
        if not folders:
            return "nothing"
        folder = self._chance.choice(folders)
        folder.rename(folder.with_name(f"moved_{self._chance.randrange(1000)}"))
        return str(folder.relative_to(self._tree))

    def _launcher(self) -> str:
        return self._change(self._in_numbers, *_SHELL)


def check(tree: Path, steps: int, seed: int, form: str) -> bool:
    """Edit a copy of a tree; whether all reports were the same."""
    right = True
    with tempfile.TemporaryDirectory() as folder:
        copy, cache = Path(folder) / tree.name, Path(folder) / "cache"
        shutil.copytree(tree, copy, symlinks=True)
        editor = Editor(copy, random.Random(seed))
        _, first = scan(copy, cache, form)
        spent: list[float] = []
        fresh: list[float] = []
        for step in range(steps):
            edit = editor.edit()
            kept, cpu = scan(copy, cache, form)
            spent.append(cpu)
            expected, cpu = scan(copy, None, form)
            fresh.append(cpu)
            if kept != expected:
                right = False
                print(f"{tree.name}: step {step} ({edit}): the reports differ", flush=True)
    print(
        f"{tree.name}: first scan {first:.2f} s; after an edit {statistics.median(spent):.2f} s (highest"
        f" {max(spent):.2f} s), without cache {statistics.median(fresh):.2f} s",
        flush=True,
    )
    return right


def findings(workspace: Workspace) -> list[str]:
    """All that a workspace finds in its files."""
    report = findings_of(workspace.check(workspace.inputs.found.files))
    return [json.dumps(item) for items in report.values() for item in items]


def check_server(tree: Path, steps: int, seed: int) -> bool:
    """The same for the texts of an editor."""
    right = True
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / tree.name
        shutil.copytree(tree, copy, symlinks=True)
        editor = Editor(copy, random.Random(seed))
        workspace, texts = Workspace(copy, []), dict[Path, bytes]()
        findings(workspace)
        spent: list[float] = []
        fresh: list[float] = []
        for step in range(steps):
            edit, path = editor.type()
            if path.is_file():
                texts[path] = path.read_bytes()
            if step % 5 == 4:
                texts.pop(next(iter(texts)), None)  # it was saved, and is closed
            started = time.process_time()
            workspace.show(texts)
            kept = findings(workspace)
            spent.append(time.process_time() - started)
            started = time.process_time()
            expected = findings(Workspace(copy, []))
            fresh.append(time.process_time() - started)
            if kept != expected:
                right = False
                print(f"{tree.name}: step {step} ({edit}): the findings differ", flush=True)
                print(*difflib.unified_diff(expected, kept, lineterm="", n=0), sep="\n", flush=True)
    print(
        f"{tree.name}: after an edit {statistics.median(spent):.2f} s (highest {max(spent):.2f} s), anew"
        f" {statistics.median(fresh):.2f} s",
        flush=True,
    )
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare scans with and without a cache after random edits.")
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--steps", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--format", default="json", metavar="FORMAT")
    parser.add_argument("--server", action="store_true", help="edit texts that a language server holds")
    args = parser.parse_args()
    if args.server:
        results = [check_server(tree.resolve(), args.steps, args.seed) for tree in args.trees]
        sys.exit(not all(results))
    results = [check(tree.resolve(), args.steps, args.seed, args.format) for tree in args.trees]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
