"""What is left of a tree when ``gpulint fix --apply`` is killed at a random moment, again and again.

    python benchmarks/kill_fix.py [TREE] [--kills 500] [--seed 0] [--files 200]

The tree (by default ``--files`` programs, and job scripts whose repair brings a new file each) is copied. One run that
nobody disturbs says what every file becomes. Then each run gets SIGKILL, SIGTERM or SIGINT: one in four at any moment,
the others while it writes. After each, every file must hold the old or the new content, and nothing else may be there;
what SIGKILL leaves must be gone after the next run, which must also finish the work. Prints counts, and exits 1 if
anything was lost or left. Runs are forked from this process and, but for one in twenty and those after a kill, take the
repairs that were worked out once, since only what is written differs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gpulint import fixing
from gpulint.cli import main as gpulint
from gpulint.outcomes import Fixed

COMMAND = ("fix", "--apply", "--unsafe-fixes", "--allow-dirty", "--isolated", "-q", "--select", "GPU301,GPU302,GPU401")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
PROGRAM = """import torch
from torch.utils.data import DataLoader

loader = DataLoader(data, batch_size=256, num_workers=8)
model = torch.nn.Linear(3, 3).cuda()
for images, labels in loader:
    images = images.cuda()
    model(images).sum().backward()
"""
JOB = "#!/bin/bash\n#SBATCH --gres=gpu:1\npip install timm==1.0.9\npython 0.py\n"

Contents = dict[str, bytes]


def main() -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kill-fix-") as folder:
        tree = Path(folder) / "tree"
        if args.tree is not None:
            shutil.copytree(args.tree, tree, symlinks=True)
        else:
            for number in range(args.files):
                inner = tree / f"folder{number // 20}"
                inner.mkdir(parents=True, exist_ok=True)
                (inner / f"{number % 20}.py").write_text(PROGRAM)
                if number % 20 == 0:
                    (inner / "job.sh").write_text(JOB)
        return Kills(tree, random.Random(args.seed)).run(args.kills)


def repairs(tree: Path) -> Fixed:
    """What ``COMMAND`` would write."""
    found: list[Fixed] = []
    fix = fixing.fix

    def noting(*arguments: Any, **options: Any) -> Fixed:
        found.append(fix(*arguments, **options))
        return found[0]

    fixing.fix = noting
    os.chdir(tree)
    gpulint([word for word in COMMAND if word not in ("--apply", "--allow-dirty")] + ["--output-format", "json"])
    fixing.fix = fix
    return found[0]


def start(tree: Path, known: Fixed | None = None) -> int:
    """Begin a run on ``tree``, for which the repairs may be ``known``; the number of its process."""
    process = os.fork()
    if process == 0:
        os.chdir(tree)
        if known is not None:
            fixing.fix = lambda *arguments, **options: known
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        try:
            os._exit(gpulint(COMMAND))
        finally:
            os._exit(3)
    return process


def ended(process: int) -> bool:
    """Has a run ended? It can still be waited for."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait(process: int) -> int:
    """The exit code of a run, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


class Kills:
    """Runs on one tree."""

    def __init__(self, tree: Path, chance: random.Random) -> None:
        self.tree, self.chance = tree, chance
        self.old = contents(tree)
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
            self.repairs = repairs(tree)
        started = time.monotonic()
        wait(start(tree))
        self.seconds = time.monotonic() - started
        self.new = contents(tree)
        self.changed = [name for name in self.new if self.new[name] != self.old.get(name)]
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.restore()

    def restore(self) -> None:
        """Let the tree be what it was."""
        now = contents(self.tree)
        for name in now.keys() - self.old.keys():
            (self.tree / name).unlink()
        for name, data in self.old.items():
            if now.get(name) != data:
                (self.tree / name).write_bytes(data)

    def run(self, kills: int) -> int:
        """Kill so many runs; 1 if something was wrong."""
        for number in range(kills):
            which = self.chance.choice(SIGNALS)
            known = None if number % 20 == 0 else self.repairs
            code = self.kill(which, known, writing=self.chance.random() < 0.75)
            self.check(number, which, code)
        print(f"{len(self.old)} files, of which {len(self.changed)} change or are new; {kills} runs:")
        for name, count in sorted(self.counts.items()):
            print(f"{count:6} {name}")
        print(f"{len(self.failures):6} failures", *self.failures[:20], sep="\n")
        return 1 if self.failures else 0

    def kill(self, which: signal.Signals, known: Fixed | None, *, writing: bool) -> int:
        """One run, which gets a signal; its exit code."""
        process = start(self.tree, known)
        if writing:
            first = self.tree / self.changed[0]
            before = self.old.get(self.changed[0])
            while not ended(process) and (first.read_bytes() if first.exists() else None) == before:
                time.sleep(0.001)
            time.sleep(self.chance.random() * self.writing_seconds)
        else:
            time.sleep(self.chance.random() * (self.seconds if known is None else 2 * self.writing_seconds))
        os.kill(process, which)
        return wait(process)

    @property
    def writing_seconds(self) -> float:
        """About how long a run writes."""
        return 0.004 * len(self.changed)

    def check(self, number: int, which: signal.Signals, code: int) -> None:
        """Compare the tree with what it may be, and bring it back to what it was."""
        now = contents(self.tree)
        left = [name for name in now if name not in self.old and name not in self.new]
        wrong = [name for name in self.old if now.get(name) not in (self.old[name], self.new[name])]
        wrong += [name for name in now.keys() & (self.new.keys() - self.old.keys()) if now[name] != self.new[name]]
        done = sum(now.get(name) == self.new[name] for name in self.changed)
        moment = (
            "before it wrote" if not done else "after the last file" if done == len(self.changed) else "while it wrote"
        )
        self.counts[f"{which.name} {moment}" if code < 0 or code == 130 else f"{which.name} came after the end"] += 1
        self.failures += [f"run {number}, {which.name}: {name} is neither old nor new" for name in wrong]
        if left and which is not signal.SIGKILL:
            self.failures.append(f"run {number}, {which.name}: left {left}")
        if left:
            self.counts["SIGKILL left a temporary file, which the next run had to remove"] += 1
            wait(start(self.tree))
            if contents(self.tree) != self.new:
                self.failures.append(f"run {number}: the next run did not finish the work or left something")
        self.restore()


def contents(tree: Path) -> Contents:
    """Every file below a folder."""
    return {str(path.relative_to(tree)): path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()}


if __name__ == "__main__":
    sys.exit(main())
