"""Uses of a list of tensors that need few of its values, or none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex
from gpulint_fixers.edits.statements import insert_after, is_after_handler_of, is_handler_of

_EACH = regex.compile(r"^\[((?:float|int)\(value\)|value\.item\(\)) for")

_SLICES = regex.compile(r"\w\[-[^\[\]:]+:\]")
"""The last values of a list."""
_LONG = 120
"""Characters of a line that few style guides allow."""


def is_of_list(convert: str) -> bool:
    """Return whether a conversion reads each value of a list, once: the next round of a loop finds it converted."""
    return convert.startswith("[")


def is_of_table(convert: str) -> bool:
    """Return whether a conversion makes a table or tuple of numbers, not one number."""
    return convert.startswith(("{", "tuple("))


def reads_each(convert: str) -> str:
    """Return what makes a number of each value of a list (``float({})``); empty where a conversion does something
    else."""
    found = _EACH.search(convert)
    return found[1].replace("value", "{}") if found is not None else ""


def partial_reads(module: ModuleIndex, nodes: list[ast.Name], convert: str) -> list[Edit] | None:
    """Edits that convert the values that uses of a list take: ``sum(losses[-100:])``, ``losses[-1]``. ``len(losses)``
    needs none. None if a use takes the whole list."""
    number, syntax, edits = reads_each(convert), module.syntax, list[Edit]()
    if not number:
        return None
    function = number.removesuffix("({})") if number.endswith("({})") else ""
    for node in nodes:
        up = syntax.parents.get(node)
        if counts(up) or (isinstance(up, ast.Subscript) and counts(syntax.parents.get(up))):
            continue
        if not isinstance(up, ast.expr) or not re.fullmatch(rf"{node.id}\[.+\]", syntax.text(up), re.DOTALL):
            return None  # it is taken whole, or is in an f-string, whose places are not exact before Python 3.12
        if "\n" in syntax.text(up) and any(isinstance(outer, ast.JoinedStr) for outer in syntax.ancestors(node)):
            return None
        match up:
            case ast.Subscript(slice=ast.Slice(lower=ast.expr() as lower, upper=None), ctx=ast.Load()) if _is_few(
                lower
            ):
                around = f"map({function}, {{}})" if function and _goes_through(syntax.parents.get(up)) else convert
            case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant()), ctx=ast.Load()):
                around = number
            case _:
                return None
        edits += _around(module, up, around)
    return edits


def fit(module: ModuleIndex, edits: list[Edit]) -> bool:
    """Return whether lines stay short with conversions of several values, also where other lists beside it get them as
    well: ``print(mean(losses[-100:]), mean(scores[-100:]))``."""
    source = module.syntax.source
    for edit in edits:
        line = source.line(edit.span.line).rstrip()
        grown = len(edit.text) - (edit.span.end_column - edit.span.column)
        if len(line) + grown * max(1, len(_SLICES.findall(line))) > max(source.width, _LONG):
            return False
    return True


def numbers_below(module: ModuleIndex, loop: LoopNode, name: str, convert: str, reads: list[ast.Name]) -> Edit | None:
    """``losses[:] = map(float, losses)`` after each run of a loop, if nothing ends it before."""
    number = reads_each(convert).removesuffix("({})")
    ended = any(is_handler_of(module, node, loop) or is_after_handler_of(module, node, loop) for node in reads)
    if number not in ("float", "int") or loop.orelse or ended:
        return None
    return insert_after(module, loop, f"{name}[:] = map({number}, {name})")


def _around(module: ModuleIndex, node: ast.expr, convert: str) -> list[Edit]:
    """Convert an expression in its place; one of several lines keeps its text, whose lines may be indented as well."""
    syntax, text = module.syntax, module.syntax.text(node)
    if "\n" not in text:
        return [Edit(syntax.path, syntax.span(node), convert.format(text))]
    before, after = convert.split("{}")
    ends = zip(syntax.offsets(node), (before, after), strict=True)
    return [Edit(syntax.path, syntax.span_at(at, at), part) for at, part in ends]


def _is_few(lower: ast.expr | None) -> bool:
    """``-100``, ``-window``: the last values."""
    return isinstance(lower, ast.UnaryOp) and isinstance(lower.op, ast.USub)


def counts(up: ast.AST | None) -> bool:
    """``len(losses)``, which reads no value."""
    match up:
        case ast.Call(func=ast.Name(id="len"), args=[_], keywords=[]):
            return True
    return False


def _goes_through(up: ast.AST | None) -> bool:
    """``sum(losses[-100:])``, which takes the values one by one."""
    match up:
        case ast.Call(func=ast.Name(id="sum" | "max" | "min"), args=[_], keywords=[]):
            return True
    return False


def loop_of_history(module: ModuleIndex, loop: LoopNode, initial: list[ast.expr]) -> LoopNode:
    """The outermost loop around a loop in which a list keeps what earlier runs of the loop have put into it: all of
    those inside of which it is not made anew."""
    made_in = {up for value in initial for up in module.syntax.ancestors(value) if isinstance(up, LOOPS)}
    found = loop
    for up in module.syntax.ancestors(loop):
        if not isinstance(up, LOOPS):
            continue
        if up in made_in:
            break
        found = up
    return found if not any(node in made_in for node in walk(found)) else loop


def extends(value: ast.AST | None, name: str) -> bool:
    """``losses + [loss.item()]`` and ``labels + y.tolist()``, of which a list of that name is made anew."""
    match value:
        case ast.BinOp(left=ast.Name(id=own), op=ast.Add(), right=ast.List(elts=[_])):
            return own == name
        case ast.BinOp(left=ast.Name(id=own), op=ast.Add(), right=ast.Call(func=ast.Attribute(attr="tolist"))):
            return own == name
    return False


def sets_in_loop(module: ModuleIndex, loop: LoopNode, edits: Iterable[Edit], name: str) -> bool:
    """Return whether edits set a variable anew in the body of a loop."""
    around = module.syntax.span(loop)
    return any(
        edit.span.cell == around.cell
        and around.line < edit.span.line <= around.end_line
        and (not edit.text.startswith("\n") or edit.text.startswith("\n" + " " * around.column))
        and edit.text.lstrip().startswith(f"{name} = ")
        for edit in edits
    )
