"""Inputs that nobody would write: does every one of them leave gpulint, and the files beside it, unharmed?

    python benchmarks/fuzz.py mutate [--count 1000000] [--seed N] [--processes 2] [--start N] [--docs FILE] [TREE...]
    python benchmarks/fuzz.py programs [--count 5000] ...
    python benchmarks/fuzz.py coverage --reader shell [--minutes 10] ...

*mutate* changes small jobs that work (the cases of all specs, ``examples/``, files of the trees given): bytes, tokens,
lines, indentation, encoding, names. *programs* writes Python programs from the language's grammar (hypothesmith), with
imports, loaders and loops around them so that rules look at them. *coverage* lets atheris search each reader for
inputs that reach new code.

Inputs are scanned 40 at a time as one tree, beside a job whose findings must stay what they are, with all rules and
fixers, a report in one of the formats, and for every twentieth tree all rounds of ``gpulint fix``. It is a failure if
anything raises, takes more than 10 s of CPU time or 500 MB, changes the findings of the job beside it, or puts a
control character into a report. A tree that fails is bisected to the input, or pair, that is to blame; that is shrunk
and written below ``--output`` with the command that gives it again, once for each distinct place.

An input depends on the seed, its number and the corpus alone, so a run that was stopped goes on with ``--start``.
POSIX only.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fuzzing import coverage
from fuzzing.corpus import Input, corpus
from fuzzing.hunting import Hunter
from fuzzing.mutations import Mutator
from fuzzing.programs import Programs
from fuzzing.sandbox import Limits, Sandbox
from fuzzing.scanning import Scanner
from pages import put

TREE, BATCH = 40, 200
"""Inputs in one tree, and in one process."""
KINDS = ("internal error", "exception", "time", "memory", "lost findings", "output")
Source = Callable[[int], Input]


@dataclass
class Tally:
    """Counts of a run; inputs by kind of file and by mutation, failures by kind of file and kind of failure."""

    inputs: Counter[str] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_title: Counter[str] = field(default_factory=Counter)
    findings: int = 0
    problems: int = 0
    cpu_s: float = 0

    def add(self, other: Tally) -> None:
        self.inputs += other.inputs
        self.mutations += other.mutations
        self.failures += other.failures
        self.by_title += other.by_title
        self.findings += other.findings
        self.problems += other.problems
        self.cpu_s += other.cpu_s

    def rows(self) -> Iterator[str]:
        """Lines of Markdown tables."""
        yield f"| file | inputs | {' | '.join(KINDS)} |"
        yield "|---|---:" + "|---:" * len(KINDS) + "|"
        for kind, count in self.inputs.most_common():
            yield f"| {kind} | {count:,} | {' | '.join(f'{self.failures[kind, failure]:,}' for failure in KINDS)} |"
        sums = [sum(count for (_, kind), count in self.failures.items() if kind == failure) for failure in KINDS]
        yield f"| all | {self.inputs.total():,} | {' | '.join(f'{count:,}' for count in sums)} |"
        yield ""
        yield f"{self.findings:,} findings and {self.problems:,} messages about broken files were reported."
        yield ""
        if self.mutations:
            yield "| mutation | inputs |"
            yield "|---|---:|"
            yield from (f"| {name.replace('_', ' ')} | {count:,} |" for name, count in sorted(self.mutations.items()))
            yield ""


def batch(source: Source, numbers: Sequence[int], sandbox: Sandbox, hunter: Hunter) -> Tally:
    """Scan some inputs and hunt down what fails."""
    tally = Tally()
    trees = []
    apart: list[Input] = []
    together: list[Input] = []
    for number in numbers:
        item = source(number)
        tally.inputs[item.kind] += 1
        tally.mutations.update(item.mutations)
        (apart if item.has_settings else together).append(item)
    for start in range(0, len(together), TREE):
        trees.append((together[start : start + TREE], together[start].index // TREE))
    trees += [([item], item.index) for item in apart]
    for (inputs, number), scanned in zip(trees, sandbox.many(trees), strict=True):
        tally.findings += scanned.findings
        tally.problems += scanned.problems
        for failure, blamed in hunter.hunt(inputs, number, scanned.failures):
            tally.failures[blamed[0].kind, failure.kind] += 1
            tally.by_title[failure.title] += 1
    return tally


def lane(
    source: Source, batches: Sequence[range], pipe: Connection, output: Path, command: str, limits: Limits
) -> None:
    """One process's share of the batches."""
    # Ctrl-C reaches all processes; the first of them ends the others, so that each removes what it has written.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="gpulint-fuzz-") as folder:
        sandbox = Sandbox(Scanner(Path(folder) / "tree"), limits)
        hunter = Hunter(sandbox, output, command)
        for numbers in batches:
            before = cpu_s()
            tally = batch(source, numbers, sandbox, hunter)
            tally.cpu_s = cpu_s() - before
            pipe.send(tally)
    pipe.close()


def cpu_s() -> float:
    """CPU seconds of this process and of its children so far."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def run(args: argparse.Namespace, source: Source, command: str) -> Tally:
    """All batches, in several processes; prints how it goes."""
    stop = args.start + args.count
    batches = [range(start, min(start + BATCH, stop)) for start in range(args.start, stop, BATCH)]
    context = multiprocessing.get_context("fork")
    shares = [batches[share :: args.processes] for share in range(min(args.processes, len(batches)))]
    pipes, processes = [], []
    for share in shares:
        reading, writing = context.Pipe(duplex=False)
        limits = Limits(args.seconds, args.megabytes * 1_000_000)
        process = context.Process(target=lane, args=(source, share, writing, args.output, command, limits))
        process.start()
        writing.close()
        pipes.append(reading)
        processes.append(process)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tally, started, said = Tally(), time.monotonic(), 0.0
    left = {pipe: [numbers.start for numbers in share] for pipe, share in zip(pipes, shares, strict=True)}
    try:
        while pipes:
            for pipe in wait(pipes):
                try:
                    tally.add(pipe.recv())
                    left[pipe].pop(0)
                except EOFError:
                    pipes.remove(pipe)
            if (now := time.monotonic()) - said > 20:
                said = now
                print(progress(tally, now - started), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        for process in processes:
            process.terminate()
        print(
            f"stopped; go on with --start {min(start for starts in left.values() for start in starts)}", file=sys.stderr
        )
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a process of the run failed")
    print(progress(tally, time.monotonic() - started), file=sys.stderr)
    return tally


def progress(tally: Tally, seconds: float) -> str:
    count = tally.inputs.total()
    failures = ", ".join(f"{n} {kind}" for kind, n in sums(tally).items()) or "no failures"
    speed = f"{count / max(seconds, 0.1):.0f}/s, {count / max(tally.cpu_s, 0.1):.0f} per CPU second"
    return f"{count:,} inputs in {seconds:.0f} s ({speed}): {failures}"


def sums(tally: Tally) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, kind), count in tally.failures.items():
        found[kind] += count
    return found


def add_common(parser: argparse.ArgumentParser, count: int) -> None:
    parser.add_argument("--count", type=int, default=count, metavar="N", help=f"inputs (default {count:,})")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first input (default 0)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="default 2")
    parser.add_argument("--output", type=Path, default=Path("fuzz-failures"), metavar="FOLDER", help="for what fails")
    parser.add_argument("--seconds", type=float, default=10, metavar="S", help="CPU time of a tree (default 10)")
    parser.add_argument("--megabytes", type=int, default=500, metavar="MB", help="memory of a tree (default 500)")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="put the counts into this page")


def main() -> int:
    parser = argparse.ArgumentParser(description="Scan what nobody would write.")
    commands = parser.add_subparsers(dest="command", required=True)
    mutate = commands.add_parser("mutate", help="change jobs that work")
    mutate.add_argument("trees", nargs="*", type=Path, metavar="TREE", help="trees whose small files are changed too")
    add_common(mutate, 1_000_000)
    add_common(commands.add_parser("programs", help="write Python programs (needs hypothesmith)"), 5_000)
    search = commands.add_parser("coverage", help="search one reader for inputs that reach new code (needs atheris)")
    search.add_argument("--reader", choices=coverage.FILES, required=True)
    search.add_argument("--minutes", type=float, default=10, metavar="N", help="how long to search (default 10)")
    add_common(search, 1_000_000)
    args = parser.parse_args()
    started = time.monotonic()
    tally = {"mutate": mutated, "programs": programs, "coverage": searched}[args.command](args)
    minutes = (time.monotonic() - started) / 60
    # A run that was stopped has fewer than were asked for.
    span = f"{tally.inputs.total():,} inputs from {args.start:,} on, " if args.command != "coverage" else ""
    processes = f"{args.processes} process" + "es" * (args.processes != 1)
    lines = [*tally.rows(), f"Seed {args.seed}, {span}{minutes:.1f} minutes with {processes}."]
    print("\n".join(lines))
    for title, count in tally.by_title.most_common():
        print(f"{count:6} {title}")
    if args.docs is not None:
        put(args.docs, f"fuzz.py {args.command}", lines)
    return 1 if tally.failures else 0


def again(args: argparse.Namespace, *words: str) -> str:
    """The command that runs one input, with a place for its number."""
    fixed = f"python benchmarks/fuzz.py {args.command} --seed {args.seed} --start {{index}} --count 1 --processes 1"
    return " ".join([fixed, *words])


def mutated(args: argparse.Namespace) -> Tally:
    """``fuzz.py mutate``"""
    trees = [tree.resolve() for tree in args.trees]
    return run(args, Mutator(corpus(trees), args.seed).input, again(args, *map(str, trees)))


def programs(args: argparse.Namespace) -> Tally:
    """``fuzz.py programs``"""
    return run(args, Programs(args.seed).input, again(args))


def searched(args: argparse.Namespace) -> Tally:
    """``fuzz.py coverage``"""
    with tempfile.TemporaryDirectory(prefix="gpulint-fuzz-") as name:
        folder = Path(name)
        tried = coverage.explore(args.reader, int(args.minutes * 60), args.seed, corpus(), folder)
        inputs = coverage.found(args.reader, folder)
        print(
            f"{tried:,} inputs tried; the {len(inputs):,} that failed or reached new code are scanned", file=sys.stderr
        )
        args.start, args.count = 0, len(inputs)
        return run(args, inputs.__getitem__, "no command: the input itself is kept")


if __name__ == "__main__":
    sys.exit(main())
