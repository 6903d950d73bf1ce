"""What a log shows of a whole pass of a loop: a sum that nothing else shows is to be shown in the last step as well."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.query import query
from gpulint.training.loader_flow import LoaderFlow
from gpulint.workload.stream_sets import divides_its_stream
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name
from gpulint_fixers.waits.logs.step_numbers import COUNTER

_COUNTS = frozenset({"size", "len", "shape", "numel", "batch_size"})
"""What a count of samples is made of, which is no result."""
_STAYS = regex.compile(r"^(tqdm|trange|track|enumerate)$")
"""What a loop goes through instead of a loader, with as many rounds."""
_SUMS = frozenset({"avg", "average", "mean", "global_avg", "sum", "total"})
"""What a meter has added up."""


def last_step(project: Project, module: ModuleIndex, loop: LoopNode, counter: str, first: int) -> str:
    """Return the condition for the last step of a loop, by a counter that begins anew with each pass; "" where the
    program does not tell how many steps there are."""
    if not isinstance(loop, ast.For):
        return ""
    source, start = _source(module, loop.iter)
    if isinstance(source, ast.Call) and last_name(source.func) == "range" and len(source.args) == 1:
        rounds = source.args[0] if _is_plain(source.args[0]) else None
        count = module.syntax.text(rounds) if rounds is not None else ""
    else:
        count = _length(project, module, source)
    offset = start + first - 1
    if not count or "\n" in count:
        return ""
    if count.isdecimal():
        return f"{counter} == {int(count) + offset}"
    return f"{counter} == {count}" + (f" {'-' if offset < 0 else '+'} {abs(offset)}" if offset else "")


def is_number_of(loop: LoopNode, counter: str, edits: Collection[Edit]) -> bool:
    """Return whether a loop itself numbers its rounds by a variable, perhaps only with edits."""
    if bool(edits) or not isinstance(loop, ast.For):
        return bool(edits)
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    return isinstance(target, ast.Name) and target.id == counter


def _source(module: ModuleIndex, node: ast.expr) -> tuple[ast.expr, int]:
    """Return what is inside of ``enumerate(tqdm(loader), 1)``, and the number of the first round."""
    start = 0
    for _ in range(6):
        if isinstance(node, ast.Name):
            bound = module.scope(node).lookup(node.id)
            made = bound[0].value if len(bound) == 1 and not bound[0].path else None
            if not isinstance(made, ast.Call) or not _STAYS.match(last_name(made.func)):
                break
            node = made
        if not isinstance(node, ast.Call) or not _STAYS.match(last_name(node.func)) or not node.args:
            break
        if last_name(node.func) == "enumerate":
            given = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
            match given:
                case []:
                    pass
                case [ast.Constant(value=int() as number)]:
                    start = number
                case _:
                    break
        node = node.args[0]
    return node, start


def _length(project: Project, module: ModuleIndex, source: ast.expr) -> str:
    """``len(loader)``, where the program asks for it or the loader is known to have a length."""
    if not _is_plain(source):
        return ""
    text = module.syntax.text(source)
    if text in _measured(module):
        return f"len({text})"
    loaders = project.fact(LoaderFlow).loaders_of(module, source)
    known = bool(loaders) and all(divides_its_stream(project, loader) is None for loader in loaders)
    return f"len({text})" if known else ""


def _is_plain(node: ast.expr) -> bool:
    """Return whether a second look at an expression gives the same: a name, an attribute or a number."""
    return all(isinstance(part, ast.Name | ast.Attribute | ast.Constant | ast.expr_context) for part in walk(node))


@query
def _measured(module: ModuleIndex) -> frozenset[str]:
    """Return what a module calls ``len`` with."""
    return frozenset(
        module.syntax.text(call.args[0]) for call in module.calls_by_name.get("len", []) if len(call.args) == 1
    )


def only_shown(module: ModuleIndex, loop: LoopNode, run: Iterable[ast.stmt]) -> tuple[str, bool] | None:
    """Return a sum of a loop that nothing but a log shows, and whether it is divided there by the number of all steps,
    so that only the last one shows the average; None where other code reads what the log shows, too."""
    inside = [part for statement in run for part in walk(statement)]
    sums, found = _sums(module, loop), None
    for part in inside:
        if not isinstance(part, ast.Name) or not isinstance(part.ctx, ast.Load) or part.id not in sums:
            continue
        if not _is_result(module, part) or _is_read_elsewhere(module, loop, part, inside):
            continue
        if _is_divided(module, part):
            return part.id, True
        found = found or (part.id, False)
    return found


@query
def _sums(module: ModuleIndex, loop: LoopNode) -> frozenset[str]:
    """The variables that a loop adds results to, and the meters that it gives them to."""
    found, anew = set[str](), set[str]()
    for part in walk(loop):
        match part:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()):
                anew.add(name)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                if not COUNTER.search(name) and not isinstance(value, ast.Constant) and not _counts(value):
                    found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update"), args=[_, *_]):
                found.add(name)
    return frozenset(found - anew)


def _counts(value: ast.expr) -> bool:
    return any(isinstance(part, ast.Name | ast.Attribute) and last_name(part) in _COUNTS for part in walk(value))


def _is_result(module: ModuleIndex, use: ast.Name) -> bool:
    """Return whether a use is of a sum, or of what a meter has added up (``losses.avg``, not ``bar.update``)."""
    up = module.syntax.parents.get(use)
    return not isinstance(up, ast.Attribute) or up.attr in _SUMS or up.attr == "item"


def _is_read_elsewhere(module: ModuleIndex, loop: LoopNode, use: ast.Name, inside: list[ast.AST]) -> bool:
    """Return whether something besides a log reads a sum."""
    bindings, own = module.scope(use).lookup(use.id), set(inside)
    for node in module.uses.get(use.id, []):
        if node in own or module.scope(node).lookup(node.id) is not bindings:
            continue
        match module.syntax.parents.get(node):
            case ast.Attribute(attr="update" | "reset" | "add" | "append"):
                continue
        return True
    return False


def _is_divided(module: ModuleIndex, use: ast.Name) -> bool:
    """``total / len(loader)``"""
    inner: ast.AST = use
    for up in module.syntax.ancestors(use):
        match up:
            case ast.BinOp(left=left, op=ast.Div(), right=ast.Call(func=ast.Name(id="len"))) if left is inner:
                return True
            case ast.stmt():
                return False
        inner = up
    return False
