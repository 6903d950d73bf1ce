"""Launches: which programs a script starts, how often on each node, with which arguments and environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpulint.documents.shell import ArgWord, Command, Script
from gpulint.documents.shell.nested import SHELLS, carried_word, is_elsewhere
from gpulint.documents.shell.wrappers import unwrap
from gpulint.launch.command_environment import Environment, Layered
from gpulint.launch.launchers import Level, base_name, is_launcher, is_python, step
from gpulint.launch.node_processes import processes_per_node
from gpulint.launch.process_counts import ProcessCount
from gpulint.launch.working_directory import below_unknown, plain_path, working_dir
from gpulint.records import dataclass, field
from gpulint.source import Span

__all__ = ["Launch", "Level", "ProcessCount", "innermost", "launch", "launches"]

_MAX_LEVELS = 10
_PYTHON_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_TOOLS = frozenset(
    (
        "hostname echo nvidia-smi rocm-smi ls cat mkdir cp mv rm date true sleep printenv pwd lscpu df du tar unzip "
        "rsync wget curl pip pip3 git"
    ).split()
)
"""What launchers are also used for, without a program of the user's own."""
_SUBMITTERS = frozenset({"sbatch", "qsub", "bsub"})


@dataclass(frozen=True)
class Launch:
    """One program (or nested shell script) that a command starts.

    ``launcher`` is the innermost one that starts processes (``torchrun``, ``srun``), else ``python``; ``shell`` for a
    script run by a shell or its path, ``source`` for one read into this shell, ``sbatch`` for one submitted as another
    job. ``levels`` are all of them, outermost first (``srun`` around ``torchrun``), runners such as ``uv`` and
    ``docker`` included.
    """

    command: Command
    launcher: str
    program: str | None
    """Path as written, expanded (``<somewhere>/src/train.py`` where only its end is known); None when unknown or when a
    module, ``-c`` code or nothing is run."""
    module: str | None
    args: tuple[ArgWord, ...]
    processes_per_node: ProcessCount | None
    """Product over the levels; None when no level says (a default configuration, the scheduler's own setting)."""
    nodes: ProcessCount | None
    env: Mapping[str, ArgWord]
    """Variables that the script sets for it, those of enclosing scripts included."""
    working_dir: str | None
    """Relative to where the script starts (``.``), or from ``<script-dir>``/``<start-dir>``; None when unknown."""
    levels: tuple[Level, ...] = ()
    program_word: ArgWord | None = None
    """The word that names the program or module."""
    uncalled: bool = False
    """It stands in a function that the script never calls."""
    code: ArgWord | None = None
    """The text of ``python -c``."""
    options: Mapping[str, ArgWord] = field(default_factory=dict)
    """Options of the innermost launcher; names without leading dashes, ``_`` as ``-``."""

    @property
    def span(self) -> Span:
        return self.command.span

    @property
    def trains(self) -> bool:
        """Whether the launcher is for programs that compute on GPUs (``torchrun``), whatever this one is."""
        return any(level.row.training and level.launcher == self.launcher for level in self.levels)

    @property
    def distributed(self) -> bool:
        """Whether it goes through a launcher that starts processes."""
        return any(level.row.distributed for level in self.levels)

    @property
    def in_sets(self) -> bool:
        """Whether its processes share the GPUs of sets of resources (``jsrun``)."""
        return any(level.row.per_set is not None and level.launcher == self.launcher for level in self.levels)

    @property
    def one_set(self) -> tuple[ProcessCount, ProcessCount] | None:
        """Processes and GPUs of each such set, if the command says how many GPUs it has. No set sees those of
        another."""
        return next((level.one_set for level in self.levels if level.launcher == self.launcher), None)

    @property
    def submitted(self) -> bool:
        """Whether it runs on other machines (``ray job submit``, ``sbatch``)."""
        return self.launcher == "sbatch" or any(level.row.submits for level in self.levels)

    @property
    def gpus(self) -> ProcessCount | None:
        """GPUs per node that a launcher in the command asks for itself (``srun --gres=gpu:4``)."""
        return next((level.gpus for level in reversed(self.levels) if level.gpus is not None), None)


def innermost(command: Command, env: Mapping[str, str] | None = None) -> tuple[ArgWord, ...]:
    """Return what runs in the end: the words without wrappers, launchers and containers (``srun``, ``docker run
    IMAGE``)."""
    argv, models = command.argv if env is None else command.script.argv(command, env), command.script.models
    for _ in range(_MAX_LEVELS):
        unwrapped = unwrap(argv).argv
        stage = step(models, unwrapped, unwrapped[0].span) if unwrapped and not is_python(unwrapped[0]) else None
        if stage is None or not stage[1]:
            return unwrapped
        argv = stage[1]
    return argv


def launches(script: Script, env: Mapping[str, str] | None = None) -> tuple[Launch, ...]:
    """All launches of a script in order, those of ``bash -c '...'`` within it included."""
    return tuple(_launches(script, env, (), {}, "."))


def launch(command: Command, env: Mapping[str, str] | None = None) -> Launch | None:
    """Return what one command starts, or None when it starts no program that could train."""
    return _launch(command, env, (), {}, ".")


def _launches(
    script: Script,
    env: Mapping[str, str] | None,
    levels: tuple[Level, ...],
    outer_env: Mapping[str, ArgWord],
    base: str | None,
) -> list[Launch]:
    found = list[Launch]()
    for command in script.commands:
        own = _launch(command, env, levels, outer_env, base)
        holds_script = own is None or (own.launcher == "shell" and own.program is None) or _hands_over(command)
        inner = script.nested(command) if holds_script else None
        if inner is None:
            found += [own] if own is not None else []
            continue
        if own is None:
            around = {} if is_elsewhere(command) else Layered({}, Environment(command, env), outer_env)
            found += _launches(inner, env, levels, around, base)
            continue
        nested = _launches(inner, env, own.levels, own.env, own.working_dir)
        found += [replace(one, uncalled=one.uncalled or own.uncalled) for one in nested]
    return found


def _hands_over(command: Command) -> bool:
    """Return whether a script is one word of the command that another host's or container's shell gets."""
    return carried_word(command) is not None


def _launch(
    command: Command,
    env: Mapping[str, str] | None,
    levels: tuple[Level, ...],
    outer_env: Mapping[str, ArgWord],
    base: str | None,
) -> Launch | None:
    script = command.script
    argv = script.argv(command, env)
    variables: dict[str, ArgWord] = {}
    depth, inherited = 0, len(levels)
    while depth < _MAX_LEVELS:
        depth += 1
        unwrapped = unwrap(argv)
        argv = unwrapped.argv
        if len(argv) > 1 and argv[0].hole and is_launcher(script.models, argv[1]):
            argv = argv[1:]  # ``$PROFILER python train.py``: whatever it is, what follows is run
        if unwrapped.env:
            variables |= dict(unwrapped.env)
        if not argv:
            break
        stage = step(script.models, argv, command.span)
        if stage is None:
            break
        levels, argv = (*levels, stage[0]), stage[1]
    target = _target(argv, levels, inherited)
    if target is None:
        return None
    return Launch(
        command=command,
        launcher=target.launcher,
        program=_path(target),
        module=target.word.value if target.word is not None and target.kind == "module" else None,
        args=target.args,
        processes_per_node=processes_per_node(levels, script, command.span),
        nodes=next((level.nodes for level in levels if level.nodes is not None), None),
        env=Layered(variables, Environment(command, env), outer_env),
        working_dir=working_dir(command, env, base),
        levels=levels,
        program_word=target.word,
        uncalled=is_uncalled(command),
        code=target.word if target.kind == "code" else None,
        options=levels[-1].options if levels else {},
    )


def _path(target: _Target) -> str | None:
    if target.word is None or target.kind != "path":
        return None
    value = target.word.value
    return plain_path(value) if value is not None else below_unknown(target.word)


@dataclass(frozen=True, slots=True)
class _Target:
    launcher: str
    kind: str
    word: ArgWord | None
    args: tuple[ArgWord, ...]


def _target(argv: tuple[ArgWord, ...], levels: tuple[Level, ...], inherited: int) -> _Target | None:
    """Return what runs inside the launchers."""
    counting = [level.launcher for level in levels if level.row.distributed]
    inner = counting[-1] if counting else None
    if not argv:
        return _Target(inner, "path", None, ()) if inner and levels[inherited:] else None
    name, first = base_name(argv[0]), argv[0]
    if levels and levels[-1].python and not is_python(first) and name not in SHELLS:
        return _module_or_path(levels[-1], argv, inner or "python")
    if is_python(first) or _interprets(argv):
        return _python(argv[1:], inner or "python")
    if name in SHELLS:
        return _shell(argv[1:])
    if name in ("source", "."):
        return _Target("source", "path", argv[1], argv[2:]) if len(argv) > 1 else None
    if name in _SUBMITTERS:
        at = next(
            (
                i
                for i, word in enumerate(argv[1:], 1)
                if word.text.endswith((".sh", ".sbatch", ".slurm", ".pbs", ".lsf"))
            ),
            None,
        )
        return _Target("sbatch", "path", argv[at], argv[at + 1 :]) if at is not None else None
    if name.endswith(".py") and ("/" in (first.value or "") or levels):
        return _Target(inner or "python", "path", first, argv[1:])
    if name.endswith((".sh", ".bash")) and "/" in (first.value or ""):
        return _Target("shell", "path", first, argv[1:])
    if levels[inherited:] and name not in _TOOLS:
        return _Target(inner or levels[-1].launcher, "path", first, argv[1:])
    return None


def _interprets(argv: tuple[ArgWord, ...]) -> bool:
    """``"$RUNNER" train.py``, where the quotes show that the unknown part is one word."""
    return not argv[0].known and not argv[0].hole and len(argv) > 1 and argv[1].text.endswith(".py")


def _module_or_path(level: Level, argv: tuple[ArgWord, ...], launcher: str) -> _Target:
    return _Target(launcher, "module" if level.module else "path", argv[0], argv[1:])


def _python(argv: tuple[ArgWord, ...], launcher: str) -> _Target | None:
    at = 0
    while at < len(argv):
        text = argv[at].text
        if text.startswith("-m"):
            glued = len(text) > 2
            word = argv[at].after(2) if glued else argv[at + 1] if at + 1 < len(argv) else None
            return _Target(launcher, "module", word, argv[at + (1 if glued else 2) :])
        if (
            text.startswith("-")
            and not text.startswith("--")
            and "c" in text[1:]
            and text.isascii()
            and text[1:].isalpha()
        ):
            word = argv[at + 1] if at + 1 < len(argv) else None
            return _Target(launcher, "code", word, argv[at + 2 :])
        if text == "-":
            return _Target(launcher, "stdin", None, argv[at + 1 :])
        if text.startswith("-"):
            at += 2 if text in _PYTHON_VALUED else 1
            continue
        if argv[at].hole and any(word.text.endswith(".py") for word in argv[at + 1 :]):
            at += 1
            continue
        return _Target(launcher, "path", argv[at], argv[at + 1 :])
    return _Target(launcher, "stdin", None, ())


def _shell(argv: tuple[ArgWord, ...]) -> _Target:
    for at, word in enumerate(argv):
        if word.text.startswith("-") and not word.text.startswith("--") and "c" in word.text:
            return _Target("shell", "script", None, argv[at + 2 :])
        if not word.text.startswith(("-", "+")) and word.text not in ("pipefail", "errexit"):
            return _Target("shell", "path", word, argv[at + 1 :])
    return _Target("shell", "script", None, ())


def is_uncalled(command: Command) -> bool:
    """Return whether nothing in the script can call the function that the command stands in."""
    function, script = command.in_function, command.script
    if function is None or script.calls(function):
        return False
    return script.named_words is not None and function not in script.named_words
