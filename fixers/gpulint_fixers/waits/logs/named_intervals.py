"""Log intervals that a program has by a name of its own: ``args.print_freq``, ``config.log_interval``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Declined
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.values.counter_names import counts_epochs
from gpulint.workspace.module_index import BindingKind, LoopNode, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

FEW = 5
"""Steps between two lines of a log that are few."""
_LOG = regex.compile(
    r"(^|_)(log|logging|print|display|disp|report)_"
    r"(every|interval|freq|frequency|period|steps|iters)(_n)?(_(steps|iters|iterations|batches))?$|(^|_)log_every_n_steps$",
    re.IGNORECASE,
)
_OTHER = regex.compile(
    r"eval|valid|(^|_)(val|test|save|epochs?|image|img|sample|video|grad|hist|weights?|mem|memory|sec|secs|seconds)(_|$)",
    re.IGNORECASE,
)
_OTHER_PACE = regex.compile(r"eval|valid|save|ckpt|checkpoint|(^|_)(val|test|sample)(_|$)", re.IGNORECASE)
_ACCUMULATES = regex.compile(r"accum|(^|_)(grad|gradient)_acc(_|$)|update_freq", re.IGNORECASE)
_HOLDER = regex.compile(r"conf|cfg|arg|opt$|opts$|options|param|setting|(^|_)hp", re.IGNORECASE)
"""Names of what holds the settings of a program."""


@dataclass(frozen=True, slots=True)
class Named:
    """An interval in the words of the program, and its value where that is known."""

    text: str
    number: int = 0


def is_of_log(name: str) -> bool:
    """Return whether a name says that something is the interval of a log, in steps."""
    return _LOG.search(name) is not None and _OTHER.search(name) is None


def is_of_accumulation(name: str) -> bool:
    """Return whether a name says over how many batches gradients are added up."""
    return _ACCUMULATES.search(name) is not None


def is_of_others(name: str) -> bool:
    """Return whether a name is of the interval of an evaluation or of checkpoints."""
    return _OTHER_PACE.search(name) is not None


def named_interval(project: Project, module: ModuleIndex, loop: LoopNode) -> Named | Declined | None:
    """Return the log interval that a loop has in scope; None without one."""
    found = next(_intervals(project, module, loop), None)
    if found is None or is_of_epochs(project, found.text.rpartition(".")[2]):
        return None
    if 0 < found.number < FEW:
        return Declined(f"`{found.text}` is the program's log interval, and it is {found.number}; raise it")
    return found


def _intervals(project: Project, module: ModuleIndex, loop: LoopNode) -> Iterator[Named]:
    """Yield the intervals that the module tests step numbers by, then fields of settings that nothing reads."""
    for node in _tested(module):
        if _is_visible(module, loop, node):
            known = project.fact(Constants).of(module, node).constants
            numbers = [value for value in known if isinstance(value, int) and not isinstance(value, bool)]
            if len(numbers) == len(known) and all(number > 0 for number in numbers):
                yield Named(module.syntax.text(node), min(numbers, default=0))
    yield from _fields(project, module, loop)


@query
def _tested(module: ModuleIndex) -> tuple[ast.Name | ast.Attribute, ...]:
    """The log intervals by which a module divides a number of steps."""
    return tuple(
        part.right
        for part in module.syntax.of(ast.BinOp)
        if isinstance(part.op, ast.Mod)
        and isinstance(part.right, ast.Name | ast.Attribute)
        and is_of_log(last_name(part.right))
        and not counts_epochs(last_name(part.left))
    )


def _is_visible(module: ModuleIndex, loop: LoopNode, node: ast.Name | ast.Attribute) -> bool:
    """Return whether an expression means the same above a loop, which leaves it alone."""
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    here, there = module.scope(loop).lookup(root.id), module.scope(node).lookup(root.id)
    if root.id == "self":
        return module.class_of(node) is module.class_of(loop) is not None and bool(here)
    both = [one.kind is BindingKind.PARAMETER for one in (*here, *there)]
    if not here or not (here is there or (root is not node and all(both) and _HOLDER.search(root.id))):
        return False
    own = [one.node for one in module.scope(loop).bindings.get(root.id, [])]
    above = all(getattr(one, "lineno", 0) <= loop.lineno for one in own)
    stored = {ast.unparse(part) for part in walk(loop) if isinstance(getattr(part, "ctx", None), ast.Store)}
    return above and not {root.id, ast.unparse(node)} & stored


def _fields(project: Project, module: ModuleIndex, loop: LoopNode) -> Iterator[Named]:
    """Yield ``config.log_interval`` where ``config`` is an object of a class with such a field."""
    scope = module.scope(loop)
    for name, bindings in scope.bindings.items():
        if not _HOLDER.search(name) or any(getattr(one.node, "lineno", 0) > loop.lineno for one in bindings):
            continue
        use = next((one for one in module.uses.get(name, []) if module.scope(one).lookup(name) is bindings), None)
        for _, owner in project.fact(Resolver).classes_of(module, use) if use is not None else ():
            yield from (Named(f"{name}.{field}", number) for field, number in _numbers(owner))


def _numbers(owner: ast.ClassDef) -> Iterator[tuple[str, int]]:
    """Yield the log intervals among the fields of a class."""
    for part in owner.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=field), value=ast.Constant(value=int() as number)):
                if is_of_log(field) and not isinstance(number, bool) and number > 0:
                    yield field, number


@query
def is_of_epochs(project: Project, name: str) -> bool:
    """Return whether the tree counts epochs by an interval of this name: ``epoch % args.log_interval``."""
    return bool(name) and any(
        isinstance(part.op, ast.Mod) and last_name(part.right) == name and counts_epochs(last_name(part.left))
        for path in project.word_index.mentioning(word_of(name))
        if (module := project.module_at(path)) is not None
        for part in module.syntax.of(ast.BinOp)
    )
