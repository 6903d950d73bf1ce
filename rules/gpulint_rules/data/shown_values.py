"""Values that the program shows to people in every step: printed, in the text of a progress bar, or in the curves of an
experiment tracker."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.path_conditions import is_ending
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

_SHOWS = frozenset("print pprint set_postfix set_postfix_str set_description set_description_str writerow echo".split())
_TRACKS = frozenset(
    "add_scalar add_scalars add_image add_images add_figure add_histogram log_metric log_metrics log_scalar log_image "
    "log_images scalar_summary report".split()
)
_DRAWS = frozenset("image images line text heatmap scatter bar histogram plot".split())
"""Methods of a server that draws (visdom)."""
_SERVER = regex.compile(r"(^|_)(vis|viz|visdom|visuali[sz]er|plotter)$", re.IGNORECASE)
_TRACKER = regex.compile(r"(^|_)(wandb|run|experiment|accelerator|fabric|tracker|neptune|logger)$")
"""Receivers whose ``log`` takes the values of a step."""
_ADDS = frozenset({"append", "update", "add"})
_BAR = regex.compile(r"(^|_)(tqdm|[pk]?bar|progress(_?bar)?|stdout|stderr)$")
"""Receivers whose ``write`` or ``update`` shows what it is given."""
_LOGGER = regex.compile(r"(^|_)(log|logger|logging)$", re.IGNORECASE)
"""Receivers whose ``info`` writes a line."""
MAX_NAMES = 3
"""Names that a value goes through on its way to the text, at most."""
WHOLE = -1
"""Stands for all parts of a value."""


def is_shown(project: Project, module: ModuleIndex, node: ast.expr, context: LoopContext) -> bool:
    """Return whether each step shows the value of ``node``, directly or by names of its function, or of the loop that
    gets it from there."""
    loop = context.loop.node
    if _reaches_text(project, module, node, loop) or _feeds_bar(project, module, node, context):
        return True
    part = WHOLE
    for site in reversed(context.calls):
        returned = _returned_part(module, node, part)
        if not isinstance(site.node, ast.Call) or returned is None:
            return False
        part = returned
        module, node = site.module, site.node
        if _reaches_text(project, module, node, loop, part):
            return True
    return False


def _feeds_bar(project: Project, module: ModuleIndex, node: ast.expr, context: LoopContext) -> bool:
    """Return whether a value is added to a sum, a list or a meter whose state each step of the loop shows:
    ``losses.update(loss.item()); bar.set_postfix(loss=losses.avg)``."""
    loop = context.loop.node
    if context.calls or loop not in module.syntax.ancestors(node):
        return False
    names = {name for part in followed(module, node) if (name := _collector(module, part))}
    uses = (use for name in names for use in module.uses.get(name, ()) if isinstance(use, ast.expr))
    inside = (use for use in uses if loop in module.syntax.ancestors(use))
    parts = (part for use in inside for part in (followed(module, use) if _is_loaded(use) else (use,)))
    return any(loop in module.syntax.ancestors(part) and _is_in_text(project, module, part) for part in parts)


def _is_loaded(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def is_shown_itself(project: Project, module: ModuleIndex, tensor: ast.expr | None, loop: ast.AST) -> bool:
    """Return whether each step shows a tensor that it also reads: ``total += loss.item(); print(f"{loss:.3f}")``."""
    return any(
        _is_bare(module, use) and loop in module.syntax.ancestors(use) and _is_in_text(project, module, use)
        for use in same_values(module, tensor)
    )


def same_values(module: ModuleIndex, tensor: ast.expr | None) -> Iterator[ast.Name]:
    """Yield the uses of a variable that hold what it holds in ``tensor``, in the same function."""
    if not isinstance(tensor, ast.Name):
        return
    home, function = module.scope(tensor).lookup(tensor.id), module.function(tensor)
    held = reaching(module, home, tensor)
    for use in module.uses.get(tensor.id, ()):
        same = isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load) and module.function(use) is function
        if same and reaching(module, home, use) == held:
            yield use


def _is_bare(module: ModuleIndex, use: ast.expr) -> bool:
    """Return whether a text is made of the value itself, nothing that is computed of it."""
    for up in module.syntax.ancestors(use):
        match up:
            case ast.FormattedValue() | ast.JoinedStr() | ast.Tuple() | ast.List() | ast.Dict() | ast.keyword():
                continue
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str())):
                continue
            case ast.Call(func=ast.Attribute(attr="format")):
                continue
        return isinstance(up, ast.Call) and use is not up.func and _shows(up)
    return False


def _collector(module: ModuleIndex, node: ast.expr) -> str:
    """The variable of the sum, table, list or meter to which the statement of a value adds it; empty without one."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    owner: ast.expr | None = None
    match statement:
        case ast.AugAssign(op=ast.Add(), target=target):
            owner = target
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=base, attr=name))) if name in _ADDS:
            owner = base
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    return owner.id if isinstance(owner, ast.Name) else ""


def _reaches_text(project: Project, module: ModuleIndex, node: ast.expr, loop: ast.AST, part: int = WHOLE) -> bool:
    """Return whether a text holds the value; one after the loop that ``node`` is in shows none of the step."""
    inside = loop in module.syntax.ancestors(node)
    return any(
        _is_in_text(project, module, use)
        for use in followed(module, node, part, tables=True)
        if not inside or loop in module.syntax.ancestors(use)
    )


def _returned_part(module: ModuleIndex, node: ast.expr, part: int) -> int | None:
    """The place, in the tuple that its function returns, of a value (of one part of it) or of a name that it is given;
    ``WHOLE`` where it is all that is returned, None where it is not returned."""
    for use in followed(module, node, part, tables=True):
        for up in module.syntax.ancestors(use):
            match up:
                case ast.Return(value=ast.Tuple(elts=parts)):
                    return next((at for at, one in enumerate(parts) if _is_within(module, use, one)), WHOLE)
                case ast.Return(value=value):
                    return part if use is value and use is node else WHOLE
                case ast.stmt():
                    break
    return None


def followed(module: ModuleIndex, node: ast.expr, at: int = WHOLE, tables: bool = False) -> Iterator[ast.expr]:
    """Yield an expression, and the uses of the names that its value is given, below it in the same function; with
    ``at`` those of one part of the tuple that it is, with ``tables`` those of a table that it is an entry of."""
    todo, seen = [node], set[str]()
    while todo:
        part = todo.pop()
        yield part
        if len(seen) >= MAX_NAMES:
            continue
        table, key = _entry(module, part) if tables else ("", None)
        for name in (_names(module, part, at if part is node else WHOLE) | {table}) - seen - {""}:
            seen.add(name)
            todo += [
                use
                for use in module.uses.get(name, ())
                if isinstance(use, ast.expr)
                and use.lineno >= part.lineno
                and module.function(use) is module.function(part)
                and (name != table or _may_be_entry(module, use, key))
            ]


def _entry(module: ModuleIndex, node: ast.expr) -> tuple[str, object]:
    """The variable and the key of ``losses["total"] = loss.item()``; an empty name for anything else."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key))], value=value):
            return (name, key) if _is_within(module, node, value) else ("", None)
    return "", None


def reads_of_entry(module: ModuleIndex, node: ast.expr) -> Iterator[ast.expr]:
    """Yield what reads, further down, the entry of a table that a value is stored as: ``logs["loss"]`` after
    ``logs["loss"] = loss.item()``."""
    name, key = _entry(module, node)
    for use in module.uses.get(name, ()) if name else ():
        match module.syntax.parents.get(use):
            case ast.Subscript(slice=ast.Constant(value=other), ctx=ast.Load()) as entry if other == key:
                if entry.lineno > node.lineno:
                    yield entry


def _may_be_entry(module: ModuleIndex, use: ast.expr, key: object) -> bool:
    match up := module.syntax.parents.get(use):
        case ast.Subscript(slice=ast.Constant(value=other), ctx=ast.Load()) if up.value is use:
            return other == key
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            return False
    return True


def _names(module: ModuleIndex, node: ast.expr, at: int) -> set[str]:
    """The variables that the statement of an expression gives its value to; not sums, which more is added to."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=parts)], value=value) if value is node and 0 <= at < len(parts):
            return {part.id for part in walk(parts[at]) if isinstance(part, ast.Name)}
        case ast.Assign(targets=[target], value=value) if _is_within(module, node, value):
            return {part.id for part in walk(target) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _is_within(module: ModuleIndex, node: ast.expr, value: ast.expr) -> bool:
    return node is value or value in module.syntax.ancestors(node)


def _is_in_text(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        if (isinstance(up, ast.Call) and below is not up.func and _shows(up)) or _sets_text(up):
            guards = project.fact(Guards)
            return not (
                guards.is_periodic(module, up)
                or guards.is_debugging(module, up)
                or guards.is_before_loop_exit(module, up)
                or guards.is_error_path(module, up)
                or is_ending(module, up)
            )
        if isinstance(up, (ast.stmt, *FUNCTIONS)):
            return False
        below = up
    return False


def _sets_text(node: ast.AST) -> bool:
    """``bar.suffix = ...``"""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=owner, attr="suffix" | "desc" | "postfix")]):
            return _BAR.search(last_name(owner)) is not None
    return False


def draws(call: ast.Call) -> bool:
    """Return whether a call hands a picture to a server that shows it: ``vis.image(sample.cpu())``."""
    named = last_name(call.func) in _DRAWS and isinstance(call.func, ast.Attribute)
    return named and _SERVER.search(last_name(call.func.value)) is not None  # type: ignore[attr-defined]


def _shows(call: ast.Call) -> bool:
    name = last_name(call.func)
    if name in ("write", "update") and isinstance(call.func, ast.Attribute):
        return _BAR.search(last_name(call.func.value)) is not None
    if draws(call):
        return True
    if name == "log" and isinstance(call.func, ast.Attribute):
        return _TRACKER.search(last_name(call.func.value)) is not None
    if name == "info" and isinstance(call.func, ast.Attribute):
        return _LOGGER.search(last_name(call.func.value)) is not None
    return name in _SHOWS or name in _TRACKS
