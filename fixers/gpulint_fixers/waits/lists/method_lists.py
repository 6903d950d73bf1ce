"""Lists that a method appends to which the training loop of its class calls: ``self.losses.append(loss.item())``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.project import Project
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex
from gpulint_fixers.edits.statements import insert_after
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.device_reads import reads_of, uses_other_library
from gpulint_fixers.waits.lists.device_lists import appends_number
from gpulint_fixers.waits.lists.device_tables import appended, starts_as_list
from gpulint_fixers.waits.lists.joined_lists import joined_later
from gpulint_fixers.waits.lists.list_reads import counts
from gpulint_fixers.waits.sums.object_sums import kept_in_object

_UNKNOWN = Declined("the value is stored in an object or a table in every step")


def kept_by_object(project: Project, found: HostWait, statement: ast.stmt) -> Fix | Declined:
    """Keep what a method adds to a sum or to a list of its object on the GPU."""
    summed = kept_in_object(project, found)
    if isinstance(summed, Fix):
        return summed
    return joined_later(project, found, statement) or _listed(project, found, statement)


def _listed(project: Project, found: HostWait, statement: ast.stmt) -> Fix | Declined:
    """Keep tensors in the list of the object, and make numbers of them below each loop that calls the method."""
    module, owner = found.module, found.module.class_of(statement)
    target = _list_of(statement)
    if owner is None or target is None or any(sync.kind is not SyncKind.READ for sync in found.syncs):
        return _UNKNOWN
    if predates_device_argument(module) or uses_other_library(module):
        return Declined("the module does not say whether this is a tensor of PyTorch")
    table, key = (target.value, target.slice) if isinstance(target, ast.Subscript) else (target, None)
    assert isinstance(table, ast.Attribute) and (key is None or isinstance(key, ast.Constant))
    if not starts_as_list(module, ast.unparse(table), key):
        return Declined(f"`{ast.unparse(target)}` does not start as an empty list in this module")
    loops = _loops(project, module, statement, owner)
    if not loops or found.context.loop.node not in loops:
        return Declined("loops of other classes call the method as well")
    steps = _in_steps(owner, loops)
    if any(_reads(module, use, steps, statement) for use in _uses(owner, table.attr)) or _is_handed_over(steps):
        return Declined(f"`{ast.unparse(table)}` is read in the loop")
    if _is_inherited(project, owner, table.attr):
        return Declined(f"a class that inherits `{owner.name}` uses `{ast.unparse(table)}` as well")
    reads = reads_of(project, found)
    value = appended(project, module, statement, reads) if not isinstance(reads, Declined) else reads
    if isinstance(value, Declined):
        return value
    text, edits = module.syntax.text(target), [*value[0]]
    for loop in loops:
        below = insert_after(module, loop, f"{text}[:] = map(float, {text})")
        if below is None or loop.orelse or any(isinstance(part, ast.Return) for part in walk(loop)):
            return Declined("the loop may end before the list is converted")
        edits.append(below)
    description = "; ".join(["keep the values on the GPU and read them after the loop", *value[1]])
    return Fix(description, Safety.UNSAFE, tuple(edits))


def _list_of(statement: ast.stmt) -> ast.Attribute | ast.Subscript | None:
    """``self.losses`` or ``self.losses["loss"]``, to which a statement appends."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=target), args=[_], keywords=[])):
            pass
        case _:
            return None
    match target:
        case ast.Attribute(value=ast.Name(id="self")):
            return target
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), slice=ast.Constant()):
            return target
    return None


def _loops(project: Project, module: ModuleIndex, statement: ast.stmt, owner: ast.ClassDef) -> list[LoopNode]:
    """The loops that call the method; none if one of them is of another class."""
    found = list[LoopNode]()
    for context in project.fact(LoopContexts).enclosing_loops(module, statement):
        loop = context.loop.node
        if not isinstance(loop, LOOPS) or context.loop.module is not module or module.class_of(loop) is not owner:
            return []
        found.append(loop)
    return found


def _in_steps(owner: ast.ClassDef, loops: list[LoopNode]) -> list[ast.AST]:
    """The loops, and the methods that they call, also through others."""
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    found, todo = list[ast.AST](), list[ast.AST](loops)
    while todo:
        found.append(region := todo.pop())
        for part in walk(region):
            match part:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in methods and methods[name] not in [
                    *found,
                    *todo,
                ]:
                    todo.append(methods[name])
    return found


def _uses(owner: ast.ClassDef, name: str) -> Iterator[ast.Attribute]:
    for part in walk(owner):
        if isinstance(part, ast.Attribute) and part.attr == name:
            yield part


def _reads(module: ModuleIndex, use: ast.Attribute, steps: list[ast.AST], own: ast.stmt) -> bool:
    """Return whether a use in a step is more than to append a number or to count."""
    around = [*module.syntax.ancestors(use)]
    if not any(region in around for region in steps):
        return False
    statement = next(up for up in around if isinstance(up, ast.stmt))
    entry = module.syntax.parents.get(use)
    top = entry if isinstance(entry, ast.Subscript) and entry.value is use else use
    is_append = _list_of(statement) is top and (statement is own or appends_number(module, statement))
    return not is_append and not counts(module.syntax.parents.get(top))


def _is_handed_over(steps: list[ast.AST]) -> bool:
    """Return whether a step gives the object itself to other code."""
    return any(
        isinstance(given, ast.Name) and given.id == "self"
        for region in steps
        for part in walk(region)
        if isinstance(part, ast.Call)
        for given in (*part.args, *(keyword.value for keyword in part.keywords))
    )


def _is_inherited(project: Project, owner: ast.ClassDef, name: str) -> bool:
    """Return whether a class that inherits this one uses the list."""
    return any(
        any(owner.name in ast.unparse(base) for base in subclass.bases) and any(True for _ in _uses(subclass, name))
        for path in project.word_index.mentioning(name.encode())
        if (module := project.module_at(path)) is not None
        for subclass in module.syntax.of(ast.ClassDef)
    )
