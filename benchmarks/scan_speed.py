"""Cost of gpulint beside that of parsing the same code with ``ast``, and beside other linters.

    python benchmarks/scan_speed.py [--runs N] [--script FILE] [--peer NAME=COMMAND]... [--growth] [--docs FILE] TREE...

Each tree (a folder that is already on disk; nothing is fetched) is measured ``N`` times (default 3), in turns:

* *parse*: a fresh interpreter calls ``ast.parse`` on every ``.py`` file of the tree that gpulint discovers;
* *cold*: ``python -m gpulint scan --no-cache`` over the tree, start of the interpreter included;
* *cold, 2 processes*: the same with ``--jobs 2``;
* *warm*: the same with a cache that an earlier scan has filled;
* each peer's command, with the tree appended.

Printed per tree: medians of CPU time (user and system), wall time and peak resident memory, and the ratio of the CPU
time to that of parsing. Then the same for a single script and for ``gpulint --version`` beside a bare interpreter, for
an edit of one file held by a language server (*keystroke*), and with ``--growth`` for generated trees of rising size.
At the end what was measured is compared with the targets. ``--docs`` writes the tables into a page between its marks.

Wall time means little on a busy machine; CPU time and the ratio hold. POSIX only (``os.wait4`` counts a child's costs).
"""

from __future__ import annotations

import argparse
import atexit
import functools
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pages import put

_PARSE = """
import ast, sys, warnings
warnings.simplefilter("ignore")
for path in sys.stdin.read().split("\\0"):
    try:
        with open(path, "rb") as file:
            ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        pass
"""
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes that ``ru_maxrss`` counts in."""
_COLD = [sys.executable, "-m", "gpulint", "scan"]
_SCAN = [*_COLD, "--jobs", "1"]
_TRAINER = """\
import torch
from torch.utils.data import DataLoader
from library.module_0 import layer_0

def train(model, data):
    loader = DataLoader(data, batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for batch in loader:
            loss = model(layer_0(batch.cuda())).sum()
            loss.backward()
            optimizer.step()
            print(loss.item())
"""
_MODULE = """\
import torch
from torch import nn
{imports}

class Block{n}(nn.Module):
    def __init__(self, width={n}):
        super().__init__()
        self.first, self.second = nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x):
        return layer_{n}(self.second(torch.relu(self.first(x))))

def layer_{n}(x):
    return x.reshape(-1).float() * {n}
"""
"""Library code; every module imports the one before it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process: CPU and wall time in seconds, peak resident memory in bytes."""

    cpu_s: float
    wall_s: float
    peak: float


@dataclass(frozen=True, slots=True)
class Target:
    """The most that something may cost."""

    what: str
    most: float
    unit: str = ""


LARGE = 1_000
"""Python files from which a tree counts as large."""
COLD = Target("cold scan, CPU of parsing", 3.5, "x")
COLD_LARGE = Target(f"cold scan of a tree of {LARGE:,} Python files or more, CPU of parsing", 4.0, "x")
PEAK_LARGE = Target("peak memory of that scan", 900, " MB")
WARM = Target("warm scan, CPU of parsing", 0.15, "x")
WORKERS = Target("wall time of a cold scan by two processes, of that by one", 0.65, "x")
SCRIPT = Target("cold scan of one script, CPU", 0.15, " s")
VERSION = Target("gpulint --version, CPU of bare Python", 1.5, "x")
KEYSTROKE = Target("keystroke, CPU", 50, " ms")
FILES = Target("scan of 100,000 generated files, CPU", 25, " s")
FILES_PEAK = Target("peak memory of that scan", 400, " MB")
reached: dict[Target, list[tuple[str, float]]] = {}
"""What was measured, and where."""


def note(target: Target, where: str, value: float) -> None:
    """Keep a figure for the table of targets."""
    reached.setdefault(target, []).append((where, value))


def summary() -> Iterator[str]:
    """The table of targets, as far as they were measured."""
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    yield f"Measured on {date.today():%Y-%m-%d}: {machine}."
    yield ""
    yield "| target | at most | measured | where |"
    yield "|---|---:|---:|---|"
    for target, found in reached.items():
        for where, value in found:
            missed = "" if value <= target.most else " (missed)"
            yield f"| {target.what} | {target.most:g}{target.unit} | {value:.3g}{target.unit}{missed} | {where} |"
    yield ""


@functools.cache
def installed() -> dict[str, str]:
    """An environment in which gpulint's bytecode is kept, as it is once a package is installed.

    Else PYTHONDONTWRITEBYTECODE, which containers often set, would have every run compile gpulint's own source.
    """
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = folder.name
    with tempfile.TemporaryDirectory() as tree:
        (Path(tree) / "train.py").write_text(_TRAINER)
        subprocess.run([*_SCAN, "--no-cache", tree], env=environment, stdout=subprocess.DEVNULL, check=False)
    return environment


def measure(command: Sequence[str], stdin: bytes = b"") -> Cost:
    """Run a command to its end; raises RuntimeError if it fails otherwise than by finding something."""
    environment = installed()
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * _PEAK_UNIT)


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure by itself."""
    return Cost(
        statistics.median(cost.cpu_s for cost in costs),
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.peak for cost in costs),
    )


def paired(runs: int, ways: dict[str, Callable[[], Cost]]) -> dict[str, Cost]:
    """Medians of several ways that are measured in turns, so that a slow minute of the machine meets all of them."""
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, way in ways.items():
            found[name].append(way())
    return {name: median(costs) for name, costs in found.items()}


def python_files(tree: Path) -> list[Path]:
    """The ``.py`` files that a scan of ``tree`` covers."""
    from gpulint.config import load
    from gpulint.discover import discover, project_root

    found = discover([tree], load(tree), project_root([tree]))
    return [path for path in found.files if path.suffix == ".py"]


def rows(what: str, costs: dict[str, Cost], base: str) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield f"| {what} | CPU s | of {base} | wall s | peak MiB |"
    yield "|---|---:|---:|---:|---:|"
    for name, cost in costs.items():
        ratio = cost.cpu_s / max(costs[base].cpu_s, 0.001)
        yield f"| {name} | {cost.cpu_s:.2f} | {ratio:.2f} | {cost.wall_s:.2f} | {cost.peak / 2**20:.0f} |"
    yield ""


def tree_costs(tree: Path, runs: int, select: list[str], peers: dict[str, list[str]]) -> Iterator[str]:
    """A tree's table."""
    files = python_files(tree)
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    listing = "\0".join(map(str, files)).encode()
    with tempfile.TemporaryDirectory() as cache:
        scan = [*_SCAN, *select]
        warm = [*scan, "--cache-dir", cache, str(tree)]
        measure(warm)
        ways: dict[str, Callable[[], Cost]] = {
            "parse": lambda: measure([sys.executable, "-c", _PARSE], listing),
            "cold": lambda: measure([*scan, "--no-cache", str(tree)]),
            "cold, 2 processes": lambda: measure([*_COLD, "--jobs", "2", *select, "--no-cache", str(tree)]),
            "warm": lambda: measure(warm),
        }
        for name, command in peers.items():
            ways[name] = lambda command=command: measure([*command, str(tree)])  # type: ignore[misc]
        costs = paired(runs, ways)
    parse, cold = costs["parse"], costs["cold"]
    is_large = len(files) >= LARGE
    note(COLD_LARGE if is_large else COLD, tree.name, cold.cpu_s / parse.cpu_s)
    if is_large:
        note(PEAK_LARGE, tree.name, cold.peak / 1e6)
    note(WARM, tree.name, costs["warm"].cpu_s / parse.cpu_s)
    note(WORKERS, tree.name, costs["cold, 2 processes"].wall_s / cold.wall_s)
    yield from rows(f"{tree.name}: {len(files):,} files, {lines:,} lines", costs, "parse")


def script_costs(script: Path, runs: int) -> Iterator[str]:
    """Tables of one script, of saying the version and of a keystroke."""
    listing = str(script).encode()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / script.name
        copy.write_bytes(script.read_bytes())
        costs = paired(
            max(runs, 5),
            {
                "parse": lambda: measure([sys.executable, "-c", _PARSE], listing),
                "cold": lambda: measure([*_SCAN, "--no-cache", str(copy)]),
            },
        )
    lines = script.read_bytes().count(b"\n")
    note(SCRIPT, f"{lines:,} lines", costs["cold"].cpu_s)
    yield from rows(f"one script, {lines:,} lines", costs, "parse")
    costs = paired(
        max(runs, 15),
        {
            "bare Python": lambda: measure([sys.executable, "-c", "pass"]),
            "gpulint --version": lambda: measure([sys.executable, "-m", "gpulint", "--version"]),
            "loading plugins": lambda: measure([sys.executable, "-c", "from gpulint import plugins; plugins.load()"]),
        },
    )
    note(VERSION, "", costs["gpulint --version"].cpu_s / costs["bare Python"].cpu_s)
    yield from rows("starting", costs, "bare Python")
    keystroke = keystroke_s(script) * 1000
    note(KEYSTROKE, f"{lines:,} lines", keystroke)
    yield f"A keystroke in the same script, once the server is up: {keystroke:.0f} ms of CPU time."
    yield ""


def keystroke_s(script: Path, edits: int = 15) -> float:
    """CPU seconds from an edited text to its findings, as the language server has it."""
    from gpulint import engine, plugins
    from gpulint.config import Config
    from gpulint.project import Project

    loaded = plugins.load()
    text = script.read_bytes()
    project = Project(script.parent, [script], Config(base=script.parent))
    found = []
    for number in range(edits):
        project = project.successor([script])
        project.provide(script, text + b"# %d\n" % number)
        started = time.process_time()
        engine.run(project, [script], loaded.rules, fixers=loaded.fixers)
        found.append(time.process_time() - started)
    return statistics.median(found)


def growth(sizes: Sequence[int]) -> Iterator[str]:
    """Costs of generated trees of rising size."""
    yield "| generated files | CPU s | ms per file | peak MiB |"
    yield "|---:|---:|---:|---:|"
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        library.mkdir()
        (Path(folder) / "train.py").write_text(_TRAINER)
        made = 0
        for size in sizes:
            for made in range(made, size):  # noqa: B020 - goes on where the last size ended
                imports = f"from library.module_{made - 1} import layer_{made - 1}" if made else ""
                (library / f"module_{made}.py").write_text(_MODULE.format(n=made, imports=imports))
            cost = measure([*_SCAN, "--no-cache", folder])
            yield f"| {size:,} | {cost.cpu_s:.2f} | {1000 * cost.cpu_s / size:.2f} | {cost.peak / 2**20:.0f} |"
            made = size
            if size == 100_000:
                note(FILES, "", cost.cpu_s)
                note(FILES_PEAK, "", cost.peak / 1e6)
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of a scan beside that of parsing the same files.")
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each kind (default 3)")
    parser.add_argument("--select", metavar="RULES", help="rules to run (default: those that run by default)")
    parser.add_argument("--script", type=Path, metavar="FILE", help="a training script to measure by itself")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND", help="another linter")
    parser.add_argument("--growth", action="store_true", help="measure generated trees, up to 100,000 files")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="put the tables into this page")
    args = parser.parse_args()
    peers = {name: shlex.split(command) for name, _, command in (peer.partition("=") for peer in args.peer)}
    select = ["--select", args.select] if args.select else []
    parts: list[Iterator[str]] = [tree_costs(tree.resolve(), max(args.runs, 1), select, peers) for tree in args.trees]
    if args.script is not None:
        parts.append(script_costs(args.script.resolve(), args.runs))
    if args.growth:
        parts.append(growth((100, 1_000, 10_000, 100_000)))
    parts.append(summary())
    lines = []
    for part in parts:
        for line in part:
            print(line, flush=True)
            lines.append(line)
    if args.docs is not None:
        put(args.docs, "scan_speed.py", lines)


if __name__ == "__main__":
    main()
