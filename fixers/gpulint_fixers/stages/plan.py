"""Which pieces of a batch script can run before the job, and what of the script they need."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpulint.documents import Document
from gpulint.documents.shell import Command
from gpulint.launch.local_copies import LOCAL
from gpulint.launch.transfer_commands import install_tool, words_of
from gpulint.libraries import Models
from gpulint.records import dataclass, field
from gpulint.source import Span
from gpulint_fixers.stages.announcements import announcements
from gpulint_fixers.stages.kinds import Role, changes_system, differs, handles_files, role, stays
from gpulint_fixers.stages.pieces import Piece, pieces

_VARIES = re.compile(r"(?:\$\(|`)\s*(?:date|mktemp|uuidgen|hostname)\b|\$RANDOM|\$\$")
_ASKS_GPU = re.compile(r"nvidia-smi|rocm-smi|cuda\.is_available|CUDA_VISIBLE_DEVICES|device_count|lspci")
_ONLY_FOR_GPUS = re.compile(
    r"NCCL_|MASTER_|(?:PY)?TORCH_|CUDA_(?:VISIBLE|LAUNCH|DEVICE)|OMP_|WANDB_|GLOO_|WORLD_SIZE|(?:LOCAL_|NODE_)?RANK|FI_"
    r"|UCX_|XLA_|TF_|(?:NUM_)?GPUS?|NPROC|(?:HF_HUB|TRANSFORMERS|HF_DATASETS)_OFFLINE|RDZV_|PYTHON(?:UNBUF|FAULT)"
)
"""Variables for the program on the GPUs, which installs and downloads do not read."""


_KEPT = re.compile(
    r"(?:!\s*-[def]|-[def])\s+[^\n;]*\n?[^;]*;?\s*then[^#]*?\b(?:venv|virtualenv|(?:conda|mamba)\s+(?:env\s+)?create)\b"
)
"""``if [ ! -d env ]; then python -m venv env``"""


@dataclass
class Plan:
    """What moves, what both stages need, and why the rest stays."""

    moved: list[Piece] = field(default_factory=list)
    context: list[Piece] = field(default_factory=list)
    """Pieces that stay, and that the stage before the job runs as well."""
    before: list[Piece] = field(default_factory=list)
    """Context of the program itself, as far as a step before it could need it."""
    program: Piece | None = None
    """The first piece that computes."""
    installs: bool = False
    """Whether the script installs packages in what moves."""
    reasons: dict[Span, str] = field(default_factory=dict)
    """Why a step does not move, by its place."""

    def has(self, span: Span) -> bool:
        """Return whether the piece with the command at ``span`` moves."""
        return any(piece.first <= span.line <= piece.last for piece in self.moved)


def plan(document: Document, models: Models, steps: frozenset[Span], *, hands_on: bool = False) -> Plan | str:
    """Return how to split a script, or why it cannot be. ``steps`` are the places of what should run before.

    With ``hands_on`` the system brings folders from one stage to the other, those on a node's own disk as well.
    """
    found = pieces(document)
    if found is None:
        return "some lines of the script could not be attributed to a command"
    made = Plan()
    context, helpers, held = list[Piece](), list[Piece](), ""
    own_system = any(changes_system(command) for piece in found for command in piece.commands)
    for at, piece in enumerate(found):
        kind, reason = _kind(piece, models, steps)
        ends = kind is Role.HELPER and any(one.name == "exit" for one in piece.commands)
        if kind is Role.CONTEXT or (ends and not (_handles(piece) and _closes(made, helpers, found, at))):
            context.append(piece)  # a test that ends the script is one for both
        elif kind is Role.HELPER:
            if _closes(made, helpers, found, at):
                made.moved.append(piece)
            else:
                helpers.append(piece)
        elif kind is Role.STEP:
            installs = any(install_tool(models, command) for command in piece.commands)
            if own_system and installs:
                reason = reason or "the job also installs system packages on its node; put both into an image"
            if installs and any(_KEPT.search(other.text) for other in found[: at + 1]):
                reason = "the environment is made once and kept, so that later runs find the packages"
            else:
                reason = held or reason or _shared(piece, found[at + 1 :]) or ""
                reason = reason or _unseen(piece, context, local=hands_on) or ""
            if reason:
                made.reasons.update((command.span, reason) for command in piece.commands)
                held = held or f"a step before it stays in the job: {reason}"
                continue
            made.moved += [helper for helper in helpers if _concerns(helper, piece)]
            helpers = []
            made.moved.append(piece)
        elif kind is Role.OTHER:
            made.reasons.update((command.span, reason or "it computes") for command in piece.commands)
            name = next((command.name for command in piece.commands if command.name), "a command")
            held = held or f"`{name}` runs before it, and may make what it needs"
            made.program = made.program or piece
    _keep_installs_together(made, found, models)
    made.moved = sorted([*made.moved, *announcements(made.moved, found)], key=lambda piece: piece.first)
    made.installs = any(_installs(models, command) for piece in made.moved for command in piece.commands)
    made.context = _needed(made.moved, context)
    made.context += _made_folders(made, found)
    if made.program is not None:
        made.before = _needed([made.program], context, for_text=False)
    return made


def _keep_installs_together(made: Plan, found: Sequence[Piece], models: Models) -> None:
    """Leave all installs of a script in it, and what comes after them, if one of them stays: packages that are
    installed in another order, or in two jobs, may not fit each other."""
    made.moved.sort(key=lambda piece: piece.first)
    installs = [piece for piece in found if any(_installs(models, command) for command in piece.commands)]
    moved = [piece for piece in installs if piece in made.moved]
    staying = next((piece for piece in installs if piece not in made.moved), None)
    if not moved or staying is None:
        return
    reason = f"line {staying.first} also installs packages, and stays in the job"
    for piece in made.moved:
        if piece.first >= moved[0].first:
            made.reasons.update((command.span, reason) for command in piece.commands)
    made.moved = [piece for piece in made.moved if piece.first < moved[0].first]


def _installs(models: Models, command: Command) -> bool:
    """Return whether a command installs packages in any case, and not only where they are missing."""
    return bool(install_tool(models, command)) and not command.conditional


def _made_folders(made: Plan, found: Sequence[Piece]) -> list[Piece]:
    """The pieces that make the folders to which both stages change (``mkdir -p "$WORK"`` before ``cd "$WORK"``)."""
    entered = {
        word.raw
        for piece in made.context
        for command in piece.commands
        if command.name in ("cd", "pushd")
        for word in command.words[1:2]
    }
    return [
        piece
        for piece in found
        if piece not in made.moved
        and piece not in made.context
        and all(command.name == "mkdir" for command in piece.commands)
        and any(word.raw in entered for command in piece.commands for word in command.words[1:])
    ]


def _kind(piece: Piece, models: Models, steps: frozenset[Span]) -> tuple[Role, str]:
    """Return what a piece is as a whole, and why it cannot move if it holds a step."""
    if piece.functions:
        return Role.SHOWS, ""
    if any(words_of(command) in (("source",), (".",), ("conda",), ("module",)) for command in piece.commands):
        return Role.OTHER, "the script is a template"
    roles = [role(command, models, steps) for command in piece.commands]
    ends = {command.name for command in piece.commands if command.name == "exit"}
    sets = [one for one, command in zip(roles, piece.commands, strict=True) if command.name not in ends]
    if Role.CONTEXT in sets and ends and all(one in (Role.CONTEXT, Role.SHOWS) for one in sets):
        return Role.CONTEXT, ""  # settings without which the script ends: ``if [ -f env.sh ]; then source env.sh``
    if not roles or all(one in (Role.CONTEXT, Role.SHOWS) for one in roles):
        changes = piece.assignments or Role.CONTEXT in roles
        return (Role.CONTEXT if changes else Role.SHOWS), ""
    if Role.STEP not in roles:
        plain = all(one in (Role.HELPER, Role.SHOWS) for one in roles) and not piece.assignments
        return (Role.HELPER if plain else Role.OTHER), ""
    for command in piece.commands:
        if reason := stays(command, _as_written(piece, command.span)):
            return Role.STEP, reason
    if any(command.conditional for command in piece.commands) and _ASKS_GPU.search(piece.text):
        return Role.STEP, "its condition asks for the GPU"
    if Role.OTHER in roles:
        other = piece.commands[roles.index(Role.OTHER)]
        return Role.OTHER if other.name else Role.STEP, f"it shares a block with `{other.name}`"
    if Role.CONTEXT in roles and not _returns(piece):
        return Role.STEP, "the same lines also change the folder or the environment for what follows"
    return Role.STEP, ""


def _as_written(piece: Piece, span: Span) -> str:
    source = piece.source
    return source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]


def _returns(piece: Piece) -> bool:
    """Return whether lines that change the folder do so in a subshell, or come back (``cd data && ... && cd ..``)."""
    depth = 0
    for command in piece.commands:
        if command.in_subshell or command.name not in ("cd", "pushd", "popd", "source", ".", "export", "set", "conda"):
            continue
        words = [word.text for word in command.argv[1:]]
        if (
            command.name in ("cd", "pushd")
            and len(words) == 1
            and re.fullmatch(r"[\w-][\w.-]*/?", words[0])
            and words != ["-"]
        ):
            depth += 1
        elif command.name == "popd" or (command.name == "cd" and words in (["-"], [".."])):
            depth -= 1
        else:
            return False
    return depth == 0


def _shared(piece: Piece, later: Sequence[Piece]) -> str | None:
    """A variable that a step sets and something after it reads."""
    for item in piece.assignments:
        if not item.prefix and any(after.uses(item.name) for after in later):
            return f"it sets `{item.name}`, which the job uses later"
    return None


def _unseen(piece: Piece, context: Sequence[Piece], *, local: bool = False) -> str | None:
    """Return why another job could not do the step, or this one not see what it did."""
    needed = _needed([piece], context)
    for part in (piece, *needed):
        if name := differs(part.text):
            return f"it depends on `{name}`, which is another one in another job"
        if part is not piece and _VARIES.search(part.text):
            return f"it depends on line {part.first}, which is another value in every run"
    if local:
        return None
    for command in (command for part in (piece, *needed) for command in part.commands):
        values = [word.text for word in command.argv[1:]] + [
            redirect.target.raw for redirect in command.redirects if redirect.target is not None
        ]
        if own := next((value for value in values if LOCAL.search(value) and not _is_shared(value)), None):
            return f"`{own[:60]}` is on the node that runs the job"
    for name in (item.name for part in (piece, *needed) for item in part.assignments):
        if LOCAL.search(name):
            return f"`{name}` is on the node that runs the job"
    return None


def _is_shared(value: str) -> bool:
    """``/usr/local`` and the name of a file."""
    return value.startswith("/dev/null") or "://" in value or "/usr/local" in value


def _closes(made: Plan, helpers: Sequence[Piece], found: Sequence[Piece], at: int) -> bool:
    """Return whether a file command comes right after a step that moves (``unzip`` after ``wget``)."""
    return bool(made.moved and not helpers and found[at - 1] is made.moved[-1] and not _unseen(found[at], ()))


def _handles(piece: Piece) -> bool:
    """Return whether a piece that may end the script does something with files (``tar xf a.tar || exit 1``)."""
    return any(handles_files(command.name) for command in piece.commands)


def _concerns(helper: Piece, step: Piece) -> bool:
    """Return whether a file command before a step is about the same folders or files, or an environment to install
    into."""
    if any(word in helper.text for word in ("venv", "virtualenv", "clone")):
        return True
    if re.search(r"\bpip", helper.text):
        return re.search(r"\bpip", step.text) is not None
    names = {
        part
        for command in helper.commands
        for word in command.argv[1:]
        for part in re.findall(r"[\w.-]{3,}", f"{word.word.raw} {word.text}")
    }
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", _expanded(step)) for name in names)


def _expanded(piece: Piece) -> str:
    return " ".join([piece.text, *(word.text for command in piece.commands for word in command.argv)])


def _needed(moved: Sequence[Piece], context: Sequence[Piece], *, for_text: bool = True) -> list[Piece]:
    """The context that pieces need: folders, modules and environments, and the variables that they read.

    Without ``for_text`` what the pieces themselves read does not count.
    """
    if not moved:
        return []
    last = max(piece.first for piece in moved)
    wanted, kept = [*(moved if for_text else ())], list[Piece]()
    for piece in reversed([piece for piece in context if piece.first < last]):
        names = [item.name for item in piece.assignments]
        exported = any(item.exported for item in piece.assignments)
        used = any(later.uses(name) for later in wanted for name in names)
        for_gpus = bool(names) and all(_ONLY_FOR_GPUS.match(name) for name in names)
        if used or ((exported or not names) and not for_gpus and not _only_exports(piece, wanted)):
            wanted.append(piece)
            kept.append(piece)
    return kept[::-1]


def _only_exports(piece: Piece, wanted: Sequence[Piece]) -> bool:
    """``export NAME`` of a variable for the GPUs, and settings of the shell's limits."""
    for command in piece.commands:
        if command.name == "export" and command.words[1:]:
            names = [re.split("=", word.raw)[0] for word in command.words[1:]]
            if not all(_ONLY_FOR_GPUS.match(name) for name in names):
                return False
        elif command.name not in ("ulimit", "umask", "echo", "printf", "date", "nvidia-smi"):
            return False
    return True
