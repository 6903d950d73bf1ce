"""What a shell script holds: commands and assignments in source order, each with the blocks that it stands in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gpulint.documents.shell.words import Word
from gpulint.libraries import BUILT_IN, Models
from gpulint.records import dataclass, field
from gpulint.source import Fragment, Span

if TYPE_CHECKING:
    from gpulint.documents.shell.expand import ArgWord, Expander
    from gpulint.documents.shell.flow import Row, Writes


@dataclass(frozen=True, slots=True)
class Block:
    """Something that a command stands in.

    ``kind`` is ``if``, ``case``, ``and``, ``or``, ``loop``, ``function``, ``pipe``, ``subshell`` or ``substitution``.
    ``key`` names the construct within its script and ``branch`` which arm of it. ``text`` is the condition
    (``[ ! -d data ]``), the loop's header, the case's subject and pattern, or the function's name.
    """

    kind: str
    key: int
    branch: int
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Redirect:
    """``2> file``: ``>`` and the file; ``target`` None for here-documents."""

    operator: str
    target: Word | None


@dataclass(frozen=True, eq=False)
class Command:
    """A simple command. Compound commands appear as the ``blocks`` of the simple ones within them."""

    fragment: Fragment
    start: int
    end: int
    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    heredoc: Fragment | None = None
    blocks: tuple[Block, ...] = ()
    background: bool = False
    negated: bool = False
    links: dict[str, Command] = field(default_factory=dict, repr=False)
    owner: list[Script] = field(default_factory=list, repr=False)

    @cached_property
    def span(self) -> Span:
        """From the first word (or assignment) to the last, line continuations included."""
        if self.words and self.words[-1].fragment is not self.fragment:  # an exec-form list: one fragment a word
            first, last = self.words[0].span, self.words[-1].span
            return Span(first.line, first.column, last.end_line, last.end_column, first.cell)
        return self.fragment.span(self.start, self.end)

    @property
    def script(self) -> Script:
        return self.owner[0]

    @cached_property
    def argv(self) -> tuple[ArgWord, ...]:
        """Words after expansion, as far as the script alone says."""
        return self.script.argv(self)

    @cached_property
    def name(self) -> str:
        """Base name of the program that runs, past ``env``, ``sudo``, ``time`` and their like; "" when unknown."""
        from gpulint.documents.shell.wrappers import unwrap

        inner = unwrap(self.argv).argv
        value = inner[0].value if inner else None
        return (value or "").rstrip("/").rpartition("/")[2]

    @property
    def in_background(self) -> bool:
        """Whether nobody waits for the command, or for the one that runs its script (``srun bash -c '...' &``): it may
        detach itself (``docker run -d``)."""
        from gpulint.documents.shell.wrappers import detaches

        outer = self.script.outer
        return self.background or detaches(self.argv) or (outer is not None and outer.in_background)

    @property
    def in_loop(self) -> bool:
        return any(block.kind == "loop" for block in self.blocks)

    @property
    def in_function(self) -> str | None:
        """Name of the innermost function that holds the command."""
        return next((block.text for block in reversed(self.blocks) if block.kind == "function"), None)

    @property
    def conditions(self) -> tuple[Block, ...]:
        """Tests that decide whether the command runs, outermost first."""
        return tuple(block for block in self.blocks if block.kind in ("if", "case", "and", "or"))

    @property
    def conditional(self) -> bool:
        return bool(self.conditions)

    @property
    def in_subshell(self) -> bool:
        return any(block.kind in ("subshell", "substitution") for block in self.blocks)

    @property
    def in_substitution(self) -> bool:
        return any(block.kind == "substitution" for block in self.blocks)

    @property
    def piped_to(self) -> Command | None:
        """The simple command on the right of the pipe."""
        return self.links.get("to")

    @property
    def piped_from(self) -> Command | None:
        """The simple command on the left of the pipe."""
        return self.links.get("from")


@dataclass(frozen=True, eq=False)
class Assignment:
    """A variable gets a value; neither ``value`` nor ``elements`` is there when it is unknown (``read``, ``((i++))``).

    ``choices`` are the words that a ``for`` loop goes through. ``prefix`` assignments (``A=1 cmd``) hold for that
    command only.
    """

    name: str
    fragment: Fragment
    start: int
    end: int
    value: Word | None = None
    elements: tuple[Word, ...] | None = None
    choices: tuple[Word, ...] | None = None
    append: bool = False
    exported: bool = False
    local: bool = False
    prefix: bool = False
    unset: bool = False
    blocks: tuple[Block, ...] = ()

    @property
    def span(self) -> Span:
        return self.fragment.span(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Directive:
    """``#SBATCH --gres=gpu:4``: ``prefix`` is ``#SBATCH``, ``text`` the rest; ``start`` is where ``text`` begins.

    ``leading`` is False once a command came first: schedulers stop reading there.
    """

    prefix: str
    text: str
    span: Span
    start: int
    leading: bool


@dataclass(frozen=True, slots=True)
class Comment:
    text: str
    span: Span


_CHANGES = frozenset({"cd", "pushd", "popd"})


@dataclass(frozen=True, eq=False)
class Script:
    """A piece of shell, wherever it came from; places are those of the file that holds it."""

    fragment: Fragment
    commands: tuple[Command, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    functions: Mapping[str, Span] = field(default_factory=dict)
    directives: tuple[Directive, ...] = ()
    comments: tuple[Comment, ...] = ()
    shebang: str | None = None
    problems: tuple[tuple[str, int], ...] = ()
    """(message, line) of what could not be read."""
    outer: Command | None = None
    """The command of another script that runs this one (``bash -c '...'``)."""
    cut: int | None = None
    """Offset of the first command that was not read, where there are too many."""
    _expanders: dict[tuple[tuple[str, str], ...], Expander] = field(default_factory=dict, repr=False)
    _latest: list[tuple[Mapping[str, str], Expander]] = field(default_factory=list, repr=False)
    _nested: dict[Command, Script | None] = field(default_factory=dict, repr=False)
    _models: list[Models] = field(default_factory=list, repr=False)
    _writes: dict[str, Writes] = field(default_factory=dict, repr=False)

    def use(self, models: Models) -> None:
        """Read launchers with these rows: those of the document that holds the script."""
        self._models[:] = [models]

    @property
    def models(self) -> Models:
        """The rows that launchers are read with."""
        if self.outer is not None:
            return self.outer.script.models
        return self._models[0] if self._models else BUILT_IN

    def expander(self, env: Mapping[str, str] | None = None) -> Expander:
        """The expander for a given outer environment (positional parameters may be in it: ``{"1": "8"}``).

        Nobody may change an environment that was handed over.
        """
        from gpulint.documents.shell.expand import Expander

        if env and self._latest and self._latest[0][0] is env:
            return self._latest[0][1]
        key = tuple(sorted(env.items())) if env else ()
        if key not in self._expanders:
            self._expanders[key] = Expander(self, dict(key))
        if env:
            self._latest[:] = [(env, self._expanders[key])]
        return self._expanders[key]

    def expand(self, word: Word, at: Command | None = None, env: Mapping[str, str] | None = None) -> str | None:
        """The word's value where ``at`` stands (at the script's end without it), or None when it cannot be known."""
        return self.expander(env).value(word, at)

    def argv(self, command: Command, env: Mapping[str, str] | None = None) -> tuple[ArgWord, ...]:
        """The command's words after expansion: arrays and unquoted variables spliced in, unknown ones kept as holes."""
        return self.expander(env).argv(command)

    def nested(self, command: Command) -> Script | None:
        """The script within ``bash -c '...'`` or a here-document given to a shell, if the command is one of these."""
        from gpulint.documents.shell.nested import nested_script

        if command not in self._nested:
            self._nested[command] = nested_script(command)
        return self._nested[command]

    def walk(self) -> Iterator[Command]:
        """All commands, those of nested scripts right after the command that holds them."""
        for command in self.commands:
            yield command
            inner = self.nested(command)
            if inner is not None:
                yield from inner.walk()

    @cached_property
    def named_words(self) -> frozenset[str] | None:
        """Texts of all words of its commands, None if it runs commands by a name that is not known."""
        found = set[str]()
        for command in self.commands:
            if command.argv and (not command.argv[0].known or command.name == "eval"):
                return None
            found.update(word.text for word in command.argv if word.known)
        return frozenset(found)

    def calls(self, function: str) -> Sequence[Command]:
        """Places that call a function of this script."""
        return self._calls.get(function, ())

    @cached_property
    def assigned(self) -> dict[str, list[Assignment]]:
        """Assignments by the name of the variable, in order."""
        found = dict[str, list[Assignment]]()
        for assignment in self.assignments:
            found.setdefault(assignment.name, []).append(assignment)
        return found

    def writes(self, name: str) -> Writes:
        """The assignments of a variable as :mod:`flow` looks them up."""
        from gpulint.documents.shell.flow import Writes

        if name not in self._writes:
            self._writes[name] = Writes(self.assigned.get(name, ()))
        return self._writes[name]

    def last_call(self, function: str, before: int | None = None) -> int | None:
        """Return where the function is last called (``before`` some offset), None if it is not."""
        starts = self._call_starts.get(function, [])
        number = len(starts) if before is None else bisect_left(starts, before)
        return starts[number - 1] if number else None

    @cached_property
    def _call_starts(self) -> dict[str, list[int]]:
        return {function: [call.start for call in calls] for function, calls in self._calls.items()}

    @cached_property
    def folder_changes(self) -> Row[Command]:
        """``cd``, ``pushd`` and ``popd``, in order."""
        from gpulint.documents.shell.flow import Row

        return Row([command for command in self.commands if command.words[:1] and command.words[0].value in _CHANGES])

    @cached_property
    def exported(self) -> dict[str, int]:
        """Names of exported variables, each with where it is first exported."""
        found = dict[str, int]()
        for command in self.commands:
            for word in command.words[1:] if command.words[:1] and command.words[0].value == "export" else ():
                if word.value and word.value.isidentifier():
                    found.setdefault(word.value, command.start)
        for item in self.assignments:
            if item.exported:
                found[item.name] = min(item.start, found.get(item.name, item.start))
        return found

    @cached_property
    def _calls(self) -> dict[str, list[Command]]:
        found = dict[str, list[Command]]()
        for command in self.commands:
            if (name := command.words[0].value) in self.functions and name is not None:
                found.setdefault(name, []).append(command)
        return found
