"""What ``gpulint fix --apply`` does to whole trees: run on copies, checked with tools that are not gpulint's.

    python benchmarks/fix_checkouts.py TREE... [--diffs FOLDER] [--sample 15] [--processes 2] [--keep FOLDER]
        [--impact medium]

For safe fixes, and then on a fresh copy with ``--unsafe-fixes``: files changed, files that could be compiled (Python),
parsed (YAML, notebooks) or checked (``bash -n``) before and no longer can, keywords that a call now gets twice (it
compiles, and raises TypeError), comments lost, changes to a notebook outside
of its sources, and files that a second run would change again. Prints Markdown tables. ``--diffs`` keeps the diffs,
``--sample`` names random fixes of each kind to read, and ``--keep`` goes on where an earlier call was stopped; a folder
holds the outcomes of one ``--impact``.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import json
import pickle
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml

MODES = {"safe": (), "safe and unsafe": ("--unsafe-fixes",)}


@dataclass
class Outcome:
    """Counts of one tree in one mode."""

    tree: str
    changed: int = 0
    fixes: int = 0
    broken: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    comments_lost: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    again: int = 0
    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By (code, state)."""
    dropped: list[str] = field(default_factory=list)
    places: list[tuple[str, str]] = field(default_factory=list)
    """What was repaired: the safety of the fix, and tree, path, line and rule."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--diffs", type=Path)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--impact", default="medium")
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    def outcome(case: tuple[str, Path]) -> Outcome:
        mode, tree = case
        kept = args.keep / f"{tree.name}.{mode}.pickle" if args.keep else None
        if kept is not None and kept.exists():
            found: Outcome = pickle.loads(kept.read_bytes())
            return found
        diffs = args.diffs / mode.replace(" ", "-") if args.diffs else None
        found = measure(tree, (*MODES[mode], "--impact", args.impact), diffs)
        print(f"{tree.name}: {mode}: {found.fixes} fixes", file=sys.stderr, flush=True)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(pickle.dumps(found))
        return found

    cases = list(product(MODES, args.trees))
    with ThreadPoolExecutor(args.processes) as pool:
        outcomes = dict(zip(cases, pool.map(outcome, cases), strict=True))
    for mode in MODES:
        ours = [outcomes[mode, tree] for tree in args.trees]
        print(f"\n## {mode}\n\n{table(ours)}\n{by_rule(ours)}")
    for safety, mode in zip(("safe", "unsafe"), MODES, strict=True):
        places = sorted(place for tree in args.trees for kind, place in outcomes[mode, tree].places if kind == safety)
        chosen = random.Random(args.seed).sample(places, min(args.sample, len(places)))
        print(f"{len(places)} {safety} fixes", *(f"- {place}" for place in chosen), sep="\n")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} CPU seconds", file=sys.stderr)


def measure(tree: Path, options: tuple[str, ...], diffs: Path | None) -> Outcome:
    """Fix a copy of ``tree`` with the options of ``gpulint fix``, and look at the result."""
    outcome = Outcome(tree.name.replace("+", "/"))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / tree.name
        shutil.copytree(tree, copy, symlinks=True, ignore_dangling_symlinks=True)
        found = json.loads(
            gpulint(copy, "--apply", "--allow-dirty", "--allow-no-vcs", "--output-format", "json", *options).stdout
        )
        for finding in found:
            outcome.states[finding["code"], finding["state"]] += 1
            outcome.fixes += finding["applied"]
            place = f"{finding['path']}:{finding['line']}: {finding['code']}"
            if finding["state"] == "dropped":
                outcome.dropped.append(f"{place}: {finding['reason']}")
            if finding["applied"]:
                outcome.places.append((finding["fix"]["safety"], f"{outcome.tree} {place}"))
        fixes = [finding["fix"] for finding in found if finding["applied"]]
        paths = sorted({part["path"] for fix in fixes for part in (*fix["edits"], *fix["files"])})
        for name in paths:
            compare(name, tree / name, copy / name, outcome)
        again = gpulint(copy, "--diff", *options)
        outcome.again = again.stdout.count(b"\n+++ ") + again.stdout.startswith(b"+++ ")
        if diffs is not None and paths:
            diffs.mkdir(parents=True, exist_ok=True)
            text = "".join(difference(name, tree / name, copy / name) for name in paths)
            (diffs / f"{tree.name}.diff").write_text(text, "utf-8")
    return outcome


def difference(name: str, before: Path, after: Path) -> str:
    """What was changed in one file."""
    texts = [path.read_text("utf-8", "replace").splitlines(True) if path.exists() else [] for path in (before, after)]
    return "".join(difflib.unified_diff(texts[0], texts[1], f"a/{name}", f"b/{name}", n=10))


def gpulint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in ``folder``; what it says besides its output goes through."""
    command = [sys.executable, "-m", "gpulint", "fix", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    for line in done.stderr.decode("utf-8", "replace").splitlines():
        if "internal error" in line or "Traceback" in line or "is not fixed" in line:
            print(f"{folder.name}: {line}", file=sys.stderr)
    return done


def compare(name: str, before: Path, after: Path, outcome: Outcome) -> None:
    """Note what is worse in one file; a file that a fix brought has nothing to compare with."""
    old, new = before.read_bytes() if before.exists() else b"", after.read_bytes()
    outcome.changed += old != new
    if before.exists() and readable(before, old) and not readable(after, new):
        outcome.broken.append(name)
    if after.suffix == ".py" and name not in outcome.broken:
        outcome.twice += [f"{name}: {place}" for place in (passed_twice(new) - passed_twice(old)).elements()]
    if after.suffix == ".ipynb" and without_sources(json.loads(old)) != without_sources(json.loads(new)):
        outcome.outside.append(name)
    lost = comments(after.suffix, old) - comments(after.suffix, new)
    outcome.comments_lost += [f"{name}: {comment}" for comment in lost.elements()]


def readable(path: Path, data: bytes) -> bool:
    """Can the tools that will read the file read it?"""
    try:
        match path.suffix:
            case ".py":
                compile(data, str(path), "exec", dont_inherit=True)
            case ".ipynb":
                json.loads(data)
            case ".yaml" | ".yml":
                list(yaml.compose_all(data))
            case ".sh" | ".sbatch" | ".slurm" | "":
                return subprocess.run(["bash", "-n"], input=data, capture_output=True, check=False).returncode == 0
    except (SyntaxError, ValueError, yaml.YAMLError):
        return False
    return True


def passed_twice(data: bytes) -> Counter[str]:
    """Keywords that a call names and gets once more from a mapping (``f(**options, key=1)``), where
    dictionaries of that name in the same function or at the top of the module show it."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return Counter()
    twice = Counter[str]()
    outer = _held(tree)
    for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))):
        held = {**outer, **_held(scope)}
        for call in (node for node in _own(scope) if isinstance(node, ast.Call)):
            names = [one.value.id for one in call.keywords if one.arg is None and isinstance(one.value, ast.Name)]
            keys = set[str]().union(*(_keys(held, name) for name in names))
            twice.update(f"{one.arg} in {ast.unparse(call.func)}" for one in call.keywords if one.arg in keys)
    return twice


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a module or function, not those of functions in it."""
    for part in ast.iter_child_nodes(scope):
        yield part
        if not isinstance(part, _FUNCTIONS):
            yield from _own(part)


def _held(scope: ast.AST) -> dict[str, list[ast.AST]]:
    """Return what the variables of a module or function hold, and what updates them."""
    held: dict[str, list[ast.AST]] = {}
    for node in _own(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            held.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            held.setdefault(ast.unparse(node.func.value), []).extend(node.args)
    return held


def _keys(held: dict[str, list[ast.AST]], name: str, depth: int = 0) -> set[str]:
    """Return the keys of the dictionaries that a variable may hold."""
    found = {
        str(key.value)
        for value in held.get(name, [])
        for part in ast.walk(value)
        if isinstance(part, ast.Dict)
        for key in part.keys
        if isinstance(key, ast.Constant)
    }
    others = [value.id for value in held.get(name, []) if isinstance(value, ast.Name)]
    return found.union(*(_keys(held, other, depth + 1) for other in others if depth < 5))


def comments(suffix: str, data: bytes) -> Counter[str]:
    """Comments of Python code; elsewhere the parts of lines from ``#`` on."""
    if suffix == ".py":
        try:
            tokens = list(tokenize.tokenize(io.BytesIO(data).readline))
            return Counter(token.string.strip() for token in tokens if token.type == tokenize.COMMENT)
        except (tokenize.TokenError, SyntaxError):
            return Counter()
    if suffix == ".ipynb":
        sources = ["".join(cell.get("source", cell.get("input", ""))) for cell in cells(json.loads(data or b"{}"))]
        data = "\n".join(sources).encode("utf-8", "surrogatepass")
    return Counter(
        b"#".join(line.split(b"#")[1:]).decode("utf-8", "replace").strip() for line in data.splitlines() if b"#" in line
    )


def cells(content: dict[str, Any]) -> list[dict[str, Any]]:
    """All cells of a notebook of any format."""
    sheets = content.get("worksheets", [])
    return [cell for holder in (content, *sheets) for cell in holder.get("cells", [])]


def without_sources(content: dict[str, Any]) -> dict[str, Any]:
    """A notebook without what a fix may change."""
    for cell in cells(content):
        cell.pop("source", None)
        cell.pop("input", None)
    return content


def table(outcomes: list[Outcome]) -> str:
    """One line per tree, and the sum."""
    lines = [
        "| tree | fixes | files changed | no longer readable | keyword passed twice | comments lost"
        " | notebooks changed elsewhere | files a second run changes | dropped |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = [
        (
            one.fixes,
            one.changed,
            *map(len, (one.broken, one.twice, one.comments_lost, one.outside)),
            one.again,
            len(one.dropped),
        )
        for one in outcomes
    ]
    for one, row in zip(outcomes, rows, strict=True):
        lines.append(f"| {one.tree} | {' | '.join(map(str, row))} |")
    lines.append(f"| all | {' | '.join(str(sum(column)) for column in zip(*rows, strict=True))} |")
    notes = [
        f"- {one.tree}: {what}: {place}"
        for one in outcomes
        for what, places in (
            ("no longer readable", one.broken),
            ("keyword passed twice", one.twice),
            ("comment lost", one.comments_lost),
            ("changed elsewhere", one.outside),
            ("dropped", one.dropped),
        )
        for place in places
    ]
    return "\n".join([*lines, "", *notes, ""])


def by_rule(outcomes: list[Outcome]) -> str:
    """Findings repaired and left, by rule."""
    states = sum((outcome.states for outcome in outcomes), Counter[tuple[str, str]]())
    columns = ["applied", "unsafe", "declined", "dropped", "advice", "unfixable"]
    lines = [f"| rule | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for code in sorted({code for code, _ in states}):
        lines.append(f"| {code} | {' | '.join(str(states[code, column]) for column in columns)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
