"""What a program does with what it reads from the GPU: decide, size something, compute on the host, or only keep it."""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from typing import Literal

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, dotted, last_name
from gpulint_rules.data.shown_values import reads_of_entry

Use = Literal["decides", "sizes", "indexes", "computes", "handled", "added", "listed", "stored", "kept"]
_SIZED = frozenset(
    """range zeros ones empty full arange narrow split view reshape expand repeat rand randn randint randperm
    topk bincount one_hot multinomial pack_padded_sequence""".split()
)
"""Calls whose arguments are counts or sizes."""
_COLLECTS = frozenset({"append", "extend", "update", "add", "log", "print", "format", "add_scalar", "array", "asarray"})
"""Calls that only keep or show what they are given."""
_LISTS = frozenset({"append", "extend"})
_ADDS = frozenset({"update", "add", *_LISTS})
_KINDS = frozenset({"isinstance", "is_tensor", "hasattr"})
"""Calls that ask what a value is, for which the host need not know it."""
_OF_TYPE = frozenset({"dtype", "shape", "ndim", "device", "requires_grad"})
"""Attributes that the host knows without the values."""
_SIZES = frozenset({"size", "num_samples", "num_classes", "minlength", "total_length"})
_OPTIONS = frozenset({"lr", "momentum", "weight_decay", "betas", "eps"})
"""Options of an optimizer."""
_COUNT = regex.compile(r"^(n|num|max|total)_(?!loss|acc|correct|err|score)|(_|^)(len|length|lengths|size|count)$")
_UPDATES = regex.compile(r"^(batch_)?update|^set_|priorit", re.IGNORECASE)
_DRAWS = regex.compile(r"sample|^get_batch|^next_batch|^draw", re.IGNORECASE)
"""Methods of what a loop trains on: priorities go in, samples come out."""
_LOSS = regex.compile(r"loss|err", re.IGNORECASE)


def use_of_read(module: ModuleIndex, node: ast.expr) -> Use:
    """Return how the value of ``node``, directly or by the name that it is given, is used in its function."""
    use = _use(module, node)
    if use != "kept":
        return use
    if _is_option(module, node):
        return "decides"
    if _is_returned_test(module, node):
        return "decides"
    if _shifts_index(module, node):
        return "sizes"
    around = next((up for up in module.syntax.ancestors(node) if isinstance(up, (*LOOPS, *FUNCTIONS))), None)
    if _is_copied(node) and _weighs_samples(module, node, around):
        return "stored"
    if is_whole_copy(module, node) and _is_argument(module, node):
        return "computes"
    if any(_use(module, part) == "decides" for part in reads_of_entry(module, node) if _is_below(module, part, around)):
        return "decides"
    whole = is_whole_copy(module, node)
    if whole and _is_stored_back(module, node, around):
        return "stored"
    added, seen, names = _added(module, node), set[str](), _names_of(module, node)
    while names - seen:
        seen |= names
        reads = [
            part for name in sorted(names) for part in module.uses.get(name, ()) if _is_below(module, part, around)
        ]
        uses = [_use(module, part) for part in reads]
        if found := next((use for use in ("decides", "sizes", "indexes") if use in uses), None):
            return found
        if whole and any(_is_stored_back(module, part, around) for part in reads):
            return "stored"
        if whole and any(_is_worked_on(module, part) for part in reads):
            return "handled"
        added = added or next(filter(None, (_added(module, part) for part in reads)), None)
        names = {name for part in reads for name in _names_of(module, part)}
    return added or "kept"


def _is_below(module: ModuleIndex, node: ast.AST, around: ast.AST | None) -> bool:
    return around is None or around in module.syntax.ancestors(node)


def _is_option(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether an optimizer gets the value as an option: ``group["lr"] = 0.1 / (1 + loss.item())``."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    match statement:
        case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=key))]):
            return key in _OPTIONS
    return False


def _is_returned_test(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a function returns what a comparison of the value says (``due = flag.item() > 0; return due``):
    its callers decide by it."""
    compared = False
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Compare(left=ast.expr(), comparators=[ast.Constant(), *_]):
                compared = True
            case ast.Return(value=value):
                return compared and isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call)
            case ast.Assign(targets=[ast.Name(id=name)]) if compared:
                uses = (module.syntax.parents.get(use) for use in module.uses.get(name, ()))
                return any(isinstance(use, ast.Return) and module.function(use) is module.function(up) for use in uses)
            case ast.stmt():
                return False
    return False


def _shifts_index(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is added to where a slice begins or ends, which each round of the loop sets again:
    ``start = 0; start += pad.item(); mask[:start] = 0``."""
    added = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    if not isinstance(added, ast.AugAssign) or not isinstance(added.target, ast.Name):
        return False
    name = added.target.id
    around = next((up for up in module.syntax.ancestors(added) if isinstance(up, (*LOOPS, *FUNCTIONS))), None)
    if around is None:
        return False
    anew = any(
        isinstance(part, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in part.targets)
        for part in walk(around)
    )
    uses = (part for part in module.uses.get(name, ()) if around in module.syntax.ancestors(part))
    return anew and any(_use(module, part) == "sizes" for part in uses)


def is_whole_copy(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a tensor of any size is copied (``preds.cpu()``), not one number of a loss or with ``.item()``."""
    if not _is_copied(node) or _LOSS.search(module.syntax.text(node)):
        return False
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), node)
    return not any(
        isinstance(up, ast.Call) and (last_name(up.func) == "item" or dotted(up.func) in ("float", "int"))
        for up in takewhile(lambda up: up is not statement, module.syntax.ancestors(node))
    )


def _is_stored_back(module: ModuleIndex, node: ast.expr, around: ast.AST | None) -> bool:
    """Return whether a copy goes into a part of what the next rounds of a loop read: ``pool[rows] = x.cpu()``."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr="grad")]):
            return True  # the gradient of a copy of the weights that an optimizer of the host updates
        case ast.Assign(targets=[ast.Subscript(value=base)]) if around is not None:
            text, parents = ast.unparse(base), module.syntax.parents
        case _:
            return False
    return any(
        isinstance(part, ast.Name | ast.Attribute)
        and ast.unparse(part) == text
        and isinstance(part.ctx, ast.Load)
        and not (isinstance(up := parents.get(part), ast.Subscript) and isinstance(up.ctx, ast.Store))
        for part in walk(around)
    )


def _weighs_samples(module: ModuleIndex, node: ast.expr, around: ast.AST | None) -> bool:
    """Return whether a copy goes to an object from which a loop takes its samples:
    ``memory.update_priorities(rows, errors.cpu().numpy())``."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=base, attr=name))) if _UPDATES.search(name):
            text = ast.unparse(base)
        case _:
            return False
    if around is None:
        return False
    return any(
        isinstance(part, ast.Assign)
        and isinstance(part.value, ast.Call)
        and isinstance(part.value.func, ast.Attribute)
        and _DRAWS.search(part.value.func.attr) is not None
        and ast.unparse(part.value.func.value) == text
        for part in walk(around)
    )


def _added(module: ModuleIndex, node: ast.expr) -> Use | None:
    """Return whether a value is added to a sum or a meter (``total += loss.item() * n``), or to a list."""
    below: ast.AST = node
    summed = False
    for up in module.syntax.ancestors(node):
        match up:
            case ast.AugAssign(op=ast.Add(), target=target):
                again = isinstance(target, ast.Name) and any(  # `loss += loss.item()` adds nothing up
                    isinstance(part, ast.Name) and part.id == target.id for part in walk(node)
                )
                return None if again else "added"
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                again = summed and any(isinstance(part, ast.Name) and part.id == name for part in walk(value))
                return "added" if again else None
            case ast.Call(func=function) if below is not function and last_name(function) in _ADDS:
                return "listed" if last_name(function) in _LISTS else "added"
            case ast.BinOp(op=ast.Add()):
                summed = True
            case ast.stmt():
                return None
        below = up
    return None


def _is_worked_on(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a copy is indexed, gone through or given to what computes."""
    up = module.syntax.parents.get(node)
    return (isinstance(up, ast.Subscript) and up.value is node) or _is_argument(module, node)


def _names_of(module: ModuleIndex, node: ast.expr) -> set[str]:
    """The names that a value, or what is computed of it, is given: ``bad = bad or not ok.item()``."""
    below: ast.AST = node
    combined = False
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Tuple() if (target := _parallel(module, up, below)) is not None:
                return {target}  # ``low, high = w.min().item(), w.max().item()``
            case ast.Assign(targets=targets, value=value):
                names = {target.id for target in targets if isinstance(target, ast.Name)}
                # What is added to a sum does not decide what the sum does.
                own = {part.id for part in walk(value) if isinstance(part, ast.Name)} if combined else set[str]()
                return names - own
            case ast.BinOp() | ast.BoolOp():
                combined = True
            case ast.UnaryOp() | ast.Compare() | ast.Attribute():
                pass
            case ast.Subscript(value=value) if value is below:
                pass
            case ast.Call(func=function) if function is below:
                pass
            case ast.IfExp(test=test) if test is not below:
                pass
            case ast.Call(func=ast.Name(id="int" | "float" | "bool" | "max" | "min")):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy" | "math"))):
                pass
            case _:
                return set()
        below = up
    return set()


def _parallel(module: ModuleIndex, values: ast.Tuple, value: ast.AST) -> str | None:
    """The variable that a part of a tuple is given, where as many are set at once."""
    match module.syntax.parents.get(values):
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=given) if given is values:
            if len(targets) == len(values.elts) and not any(isinstance(one, ast.Starred) for one in values.elts):
                target = targets[values.elts.index(value)]  # type: ignore[arg-type]
                return target.id if isinstance(target, ast.Name) else None
    return None


def _is_copied(node: ast.expr) -> bool:
    """Return whether it is a whole tensor (``x.cpu()``), not a number."""
    return isinstance(node, ast.Call) and last_name(node.func) in ("cpu", "numpy", "tolist")


def _is_argument(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether an operation, a loop or a function, other than one that collects, works on the copy or what is
    made of it."""
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Attribute(attr=name) if name in _OF_TYPE:
                return False
            case ast.Call(func=function) if below is not function:
                return last_name(function) not in _COLLECTS
            case ast.BinOp() | ast.Compare() | ast.comprehension() | ast.For():
                return True
            case ast.stmt():
                return False
        below = up
    return False


def _is_count(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a name says that a value is a number of things, or the length of one."""
    return isinstance(node, ast.Name) and bool(_COUNT.search(node.id))


def _keeps(function: ast.expr) -> bool:
    name = last_name(function)
    return name in _COLLECTS or name in ("float", "int", "str", "round", "min", "max") or name.startswith("log")


def _use(module: ModuleIndex, node: ast.expr) -> Use:
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Call(func=function) if last_name(function) in _KINDS:
                return "kept"
            case ast.Attribute(attr=name) if name in _OF_TYPE:
                return "kept"
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                return "decides" if below is test else "kept"
            case ast.Call(func=function) if below is not function and last_name(function) in _SIZED:
                return "sizes"
            case ast.keyword(arg=name) if name in _SIZES:
                return "sizes"
            case ast.Call(func=function) if below is not function and _is_count(module, node) and not _keeps(function):
                return "sizes"
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]) if below is key:
                return "indexes"
            case ast.Subscript(slice=index) if below is index:
                return "sizes" if any(isinstance(part, ast.Slice) for part in walk(index)) else "indexes"
            case ast.stmt():
                return "kept"
        below = up
    return "kept"
