"""Launchers in commands, as rows describe them: how many processes each starts, and which command it runs."""

from __future__ import annotations

import re

from gpulint import regex
from gpulint.documents.shell.expand import ArgWord
from gpulint.launch.option_parser import LauncherOptions, program_like, read_options
from gpulint.launch.process_counts import ProcessCount, count, implied
from gpulint.libraries import Models
from gpulint.libraries.launchers import Launcher
from gpulint.libraries.names import matches
from gpulint.libraries.numbers import Number, Stated
from gpulint.records import dataclass, field
from gpulint.source import Span


@dataclass(frozen=True)
class Level:
    """One launcher around a program. ``processes`` are per node, None where unsaid (``srun`` without ``-n``)."""

    row: Launcher
    span: Span
    processes: ProcessCount | None = None
    nodes: ProcessCount | None = None
    gpus: ProcessCount | None = None
    """GPUs that the launcher itself requests, per node (``srun --gres=gpu:4``)."""
    total: ProcessCount | None = None
    """Processes over all nodes, where that is what is stated (``mpirun -np 16``)."""
    options: dict[str, ArgWord] = field(default_factory=dict)
    one_set: tuple[ProcessCount, ProcessCount] | None = None
    """Processes and GPUs of each set of resources (``jsrun -a 1 -g 4``)."""

    @property
    def launcher(self) -> str:
        return self.row.launcher

    @property
    def python(self) -> bool:
        """Whether what follows is a script or module of Python."""
        return self.row.runs == "python" and "no-python" not in self.options

    @property
    def module(self) -> bool:
        """Whether what follows is a module (``-m``)."""
        return bool(self.options.keys() & set(self.row.ends))


Step = tuple[Level, tuple[ArgWord, ...]]
_PYTHON = regex.compile(r"(python|pypy|ipython)[\d.]*(\.exe)?$")
_PYTHON_VARIABLE = regex.compile(
    r"\$\{?(\w+_)?PY(THON)?3?(_?(BIN|EXE|CMD|EXECUTABLE|INTERPRETER))?(:?-[^{}]*)?\}?$", re.IGNORECASE
)
"""A variable of unknown value that holds an interpreter, going by its name."""
_WILD = frozenset("*?[")


class Launchers:
    """The rows on launchers, by the program's name."""

    def __init__(self, models: Models) -> None:
        self._named: dict[str, list[Launcher]] = {}
        self._patterns: list[Launcher] = []
        for row in models.rows("launcher"):
            for name in row.programs:
                if _WILD.isdisjoint(name):
                    self._named.setdefault(name, []).append(row)
                else:
                    self._patterns.append(row)

    def _rows(self, name: str) -> list[Launcher]:
        found = self._named.get(name, [])
        return [row for row in self._patterns if matches(row.programs, (name,))] + found if self._patterns else found

    def runs(self, word: ArgWord) -> bool:
        """Return whether the word is Python or the name of a launcher."""
        return is_python(word) or bool(self._rows(base_name(word)))

    def find(self, argv: tuple[ArgWord, ...]) -> tuple[Launcher, int] | None:
        """The launcher at the start of a command, and how many words name it and what it is told to do."""
        for row in self._rows(base_name(argv[0])):
            for verb in row.verbs or ("",):
                parts = verb.split()
                if [word.value for word in argv[1 : len(parts) + 1]] == parts:
                    return row, len(parts) + 1
        return None


def base_name(word: ArgWord) -> str:
    """Name of a program without its folders, of which some may be unknown (``$ENV/bin/python``); "" if it is not
    known."""
    if word.value is not None:
        return word.value.rpartition("/")[2]
    last = max((at for at, atom in enumerate(word.atoms) if not atom.known), default=-1)
    _, slash, name = "".join(atom.text for atom in word.atoms[last + 1 :]).rpartition("/")
    return name if slash else ""


def is_python(word: ArgWord) -> bool:
    """Return whether the word names a Python interpreter, directly or as ``$PYTHON``."""
    return bool(_PYTHON.match(base_name(word))) or (not word.known and bool(_PYTHON_VARIABLE.match(word.text)))


def is_launcher(models: Models, word: ArgWord) -> bool:
    """Return whether the word is Python or the name of a launcher."""
    return models.derived(Launchers).runs(word)


def step(models: Models, argv: tuple[ArgWord, ...], span: Span) -> Step | None:
    """The launcher at the start of ``argv`` and the command that it runs; None if there is none."""
    named = _module(argv) if is_python(argv[0]) else argv
    found = models.derived(Launchers).find(named) if named else None
    if found is None or (found[0].image and named is not argv):
        return None
    row, length = found
    options = options_of(row, named[length:])
    return _level(row, options, span), options.rest[1:] if row.image else options.rest


def options_of(row: Launcher, argv: tuple[ArgWord, ...]) -> LauncherOptions:
    """The launcher's own options at the start of ``argv``, and what follows them."""
    like = program_like if row.other_options == "by-value" else lambda _: False
    return read_options(argv, row, like)


def _module(argv: tuple[ArgWord, ...]) -> tuple[ArgWord, ...]:
    """The module that Python runs, and its arguments (``python -m torch.distributed.launch``); () for anything else."""
    for at, word in enumerate(argv[1:], 1):
        if not word.text.startswith("-"):
            return ()
        if word.text == "-m":
            return argv[at + 1 :]
    return ()


def _level(row: Launcher, options: LauncherOptions, span: Span) -> Level:
    total, nodes = _number(options, row.total), _number(options, row.nodes)
    gpus = next(filter(None, (_number(options, rule) for rule in row.gpus)), None)
    processes = _processes(row, options, span, total, nodes)
    one_set = None
    if row.per_set is not None:
        each = _number(options, row.per_set) or implied(1, span)
        one_set = (each, gpus) if gpus is not None else None
        if processes is not None:
            gpus, processes = processes.times(gpus), processes.times(each)
        elif total is None or total.value != 1:
            gpus = None
        total = total.times(each) if total is not None else None
    return Level(row, span, processes, nodes, gpus, total, options.values, one_set)


def _processes(
    row: Launcher, options: LauncherOptions, span: Span, total: ProcessCount | None, nodes: ProcessCount | None
) -> ProcessCount | None:
    """Processes on each node, without those of a set of resources."""
    stated = next(filter(None, (_number(options, rule) for rule in row.processes)), None)
    if stated is not None:
        fewer = total is not None and total.value is not None and total.value < (stated.value or 0)
        return total if fewer and row.one_node else stated
    if total is not None and nodes is not None:
        return _per_node(total, nodes)
    if total is not None and row.one_node and not _names_nodes(row, options):
        return total
    is_open = options.holes or any(option in options.values for option in row.unless)
    for_each = next((options.values[name] for name in row.for_each_gpu if name in options.values), None)
    if for_each is not None and total is None and not is_open:
        return _number(options, row.devices) or ProcessCount(None, True, for_each.span, for_each.text)
    if not row.default:
        return None
    if is_open:
        return implied(None, span)
    return implied(1, span) if row.default == "one" else ProcessCount(None, True, span, row.launcher, implicit=True)


def _names_nodes(row: Launcher, options: LauncherOptions) -> bool:
    given = (options.values[name] for name in row.elsewhere if name in options.values)
    return any(not (word.value or "").startswith("localhost") for word in given)


def _per_node(total: ProcessCount, nodes: ProcessCount) -> ProcessCount:
    value = None
    if total.value is not None and nodes.value and total.value % nodes.value == 0:
        value = total.value // nodes.value
    return ProcessCount(
        value, total.all_gpus and nodes.value == 1, total.span, total.text, total.from_default, total.implicit
    )


def _number(options: LauncherOptions, rule: Number | None) -> ProcessCount | None:
    """The number that options state; None if none of them is given, or if its value states none."""
    word = options.get(*rule.options) if rule is not None else None
    if rule is None or word is None:
        return None
    if rule.syntax == "number" and not rule.pattern:
        return count(word)
    if word.value is None and rule.entries:
        return None
    found = Stated(None) if word.value is None and rule.pattern else rule.read(word.text)
    return _counted(word, found.number if word.known else None) if found is not None else None


def _counted(word: ArgWord, value: int | None) -> ProcessCount:
    return ProcessCount(value, False, word.span, word.text, word.from_default)
