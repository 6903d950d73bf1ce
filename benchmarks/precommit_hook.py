"""Cost of the ``gpulint`` hook beside that of a hook that does nothing.

    python benchmarks/precommit_hook.py [--runs N] [--tree TREE FILE ...]

Makes a scratch repository of five files of ``examples/``, or of a copy of TREE whose FILEs are checked, lets pre-commit
install the hook from this tree (pip needs the package index), and then measures ``pre-commit run`` on the files ``N``
times (default 5), in turns:

* *nothing*: a hook that runs ``true``;
* *gpulint*: the hook, warm.

Printed are medians of wall and CPU time (user and system), the difference, which is what gpulint adds to a commit, and
the ratio of the CPU times. Wall time means little on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    "examples/one-gpu-of-two/wasteful/train.py",
    "examples/one-batch-size/wasteful/train.py",
    "examples/half-the-gpus/wasteful/train.py",
    "examples/debugging-left-on/wasteful/train.py",
    "examples/unpinned-loader/wasteful/train.py",
)
CONFIG = """\
repos:
- repo: {source}
  rev: {rev}
  hooks:
  - id: gpulint
- repo: local
  hooks:
  - {{id: nothing, name: nothing, entry: "true", language: system}}
"""


def call(folder: Path, *command: str) -> str:
    """Output of a command, whatever its exit code: a hook that finds something fails."""
    cache = {"PRE_COMMIT_HOME": str(folder.parent / "cache"), "GPULINT_CACHE_DIR": str(folder.parent / "reports")}
    env = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "PYTHON"))} | cache
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def measure(folder: Path, hook: str, files: Sequence[str]) -> tuple[float, float]:
    """(wall, CPU) seconds of one run of a hook; raises RuntimeError if it did not run."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    said = call(folder, sys.executable, "-m", "pre_commit", "run", hook, "--files", *files)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if not said.rstrip().endswith("Passed") and "- hook id: gpulint\n- exit code: 1\n" not in said:
        raise RuntimeError(said)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def prepare(folder: Path, tree: Path | None) -> None:
    """Make ``folder`` a repository with the hooks and the files to check."""
    source = folder.parent / "gpulint"
    unwanted = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "tests")
    shutil.copytree(ROOT, source, ignore=unwanted)
    if tree is not None:
        shutil.copytree(tree, folder, ignore=unwanted)
    for name in FILES if tree is None else ():
        (folder / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, folder / name)
    commit = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x")
    for repository in (source, folder):
        for command in (("git", "init", "-q"), ("git", "add", "-A"), commit):
            call(repository, *command)
    rev = call(source, "git", "rev-parse", "HEAD").strip()
    (folder / ".pre-commit-config.yaml").write_text(CONFIG.format(source=source.as_uri(), rev=rev))
    call(folder, "git", "add", "-A")


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of the gpulint hook beside a hook that does nothing.")
    parser.add_argument("files", nargs="*", metavar="FILE", default=FILES, help="below TREE")
    parser.add_argument("--tree", type=Path, metavar="TREE", help="a project on this disk; nothing is written to it")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each (default 5)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        prepare(folder, args.tree)
        for hook in ("nothing", "gpulint"):
            measure(folder, hook, args.files)  # installs and warms up
        costs: dict[str, list[tuple[float, float]]] = {"nothing": [], "gpulint": []}
        for _ in range(max(args.runs, 1)):
            for hook, found in costs.items():
                found.append(measure(folder, hook, args.files))
    wall, cpu = (
        {hook: statistics.median(cost[at] for cost in found) for hook, found in costs.items()} for at in (0, 1)
    )
    for hook in costs:
        print(f"{hook:8} wall {wall[hook]:6.2f} s  CPU {cpu[hook]:6.2f} s")
    added_wall, added_cpu = wall["gpulint"] - wall["nothing"], cpu["gpulint"] - cpu["nothing"]
    print(f"added    wall {added_wall:6.2f} s  CPU {added_cpu:6.2f} s  CPU ratio {cpu['gpulint'] / cpu['nothing']:.1f}")


if __name__ == "__main__":
    main()
