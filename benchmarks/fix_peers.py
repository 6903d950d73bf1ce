"""What the fixes of other linters do to whole trees, counted by the same checks as ``fix_checkouts.py`` counts ours.

    python benchmarks/fix_peers.py TREE... [--torchfix PATH] [--torch-preflight PATH] [--diffs FOLDER]

Runs each tool that is given, in one process, on a copy of each tree's Python files: files changed, files that no longer
compile, keywords passed twice, comments lost, and files that a second run changes again. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from fix_checkouts import Outcome, compare, difference

TOOLS = {
    "torchfix": ("TorchFix", ("--fix", "-j", "1", ".")),
    "torch_preflight": ("torch-preflight", ("check", "--fix", "-q", "--no-color", "-j", "1", ".")),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--torchfix", type=Path)
    parser.add_argument("--torch-preflight", type=Path)
    parser.add_argument("--diffs", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = "files changed | no longer compile | keyword passed twice | comments lost | changed by a second run"
    print(f"| tool | tree | {columns} | CPU s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    notes = []
    for tree in args.trees:
        for option, (tool, arguments) in TOOLS.items():
            if (path := getattr(args, option)) is None:
                continue
            outcome, seconds = measure(tree, [path.absolute(), *arguments], args.diffs and args.diffs / tool)
            counts = (outcome.changed, *map(len, (outcome.broken, outcome.twice, outcome.comments_lost)), outcome.again)
            print(f"| {tool} | {outcome.tree} | {' | '.join(map(str, counts))} | {seconds:.0f} |", flush=True)
            notes += [f"- {tool}: {outcome.tree}: no longer compiles: {place}" for place in outcome.broken]
            notes += [f"- {tool}: {outcome.tree}: keyword passed twice: {place}" for place in outcome.twice]
            notes += [f"- {tool}: {outcome.tree}: comment lost: {place}" for place in outcome.comments_lost]
    print("", *notes, sep="\n")


def measure(tree: Path, command: list[str | Path], diffs: Path | None) -> tuple[Outcome, float]:
    """Fix a copy of the Python files of ``tree`` and look at the result; also the CPU seconds of the first run."""
    outcome = Outcome(tree.name.replace("+", "/"))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / tree.name
        for path in sorted(tree.rglob("*.py")):
            if path.is_file() and not path.is_symlink():
                target = copy / path.relative_to(tree)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        seconds = run(command, copy)
        once = {path: path.read_bytes() for path in sorted(copy.rglob("*.py"))}
        texts = []
        for path, data in once.items():
            name = str(path.relative_to(copy))
            if data != (tree / name).read_bytes():
                compare(name, tree / name, path, outcome)
                texts.append(difference(name, tree / name, path))
        run(command, copy)
        outcome.again = sum(path.read_bytes() != data for path, data in once.items())
    if diffs is not None and texts:
        diffs.mkdir(parents=True, exist_ok=True)
        (diffs / f"{tree.name}.diff").write_text("".join(texts), "utf-8")
    return outcome, seconds


def run(command: list[str | Path], folder: Path) -> float:
    """CPU seconds of the command; what it crashed with goes through."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if "Traceback" in done.stderr + done.stdout or done.returncode not in (0, 1):
        print(f"{folder.name}: exit code {done.returncode}: {done.stderr[-2000:]}", file=sys.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
