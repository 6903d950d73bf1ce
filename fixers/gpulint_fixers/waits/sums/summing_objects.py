"""Objects of classes that only add up what they are handed: ``meters["loss"].update(loss.item(), n)``.

The class holds the sums on the GPU, and reads them in the methods that return them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import has_operator, walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import LOOPS, ModuleIndex, last_name
from gpulint_fixers.waits.device_reads import reads_of
from gpulint_fixers.waits.double_precision import has_doubles, in_single
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.lists.device_lists import kept_value
from gpulint_fixers.waits.lists.device_tables import methods_read
from gpulint_fixers.waits.logs.log_intervals import logged_seldom
from gpulint_fixers.waits.sums.device_sums import exactness, is_number
from gpulint_fixers.waits.sums.host_rounds import apart
from gpulint_fixers.waits.sums.object_sums import Sum, used

_UNKNOWN = Declined("what the object does with the number is unknown")
_HIDES = ("setattr", "getattr", "__dict__", "vars(", "__slots__")
_OF_TENSORS = frozenset("item cpu detach numpy tolist to backward double float".split())
_METHODS = (ast.FunctionDef,)


@dataclass(frozen=True, slots=True)
class _Adder:
    """A method that adds to sums of its object, and the class."""

    module: ModuleIndex
    owner: ast.ClassDef
    method: ast.FunctionDef

    @property
    def value(self) -> str:
        """The parameter that is added."""
        return self.method.args.args[1].arg


def added_by_object(project: Project, found: HostWait, call: ast.Call) -> Fix | Declined:
    """Hand the object a tensor, and let its class read the sums where it returns them."""
    module = found.module
    assert isinstance(call.func, ast.Attribute)
    adder = _adder(project, module, call.func)
    reads = reads_of(project, found)
    if adder is None:
        return _UNKNOWN
    if isinstance(reads, Declined):
        return reads
    if len(reads) != 1 or not call.args or not any(part is reads[0].whole for part in walk(call.args[0])):
        return _UNKNOWN
    if (mixed := apart(project, module, reads)) is not None:
        return mixed
    if isinstance(exact := exactness(project, module, call.args[0], reads), Declined):
        return exact
    edits = _class_edits(project, adder)
    if isinstance(edits, Declined):
        return edits
    if (line := _used_in_loop(project, found, adder, call.func.value)) is not None:
        return Declined(f"line {line} uses the object in every step as well")
    counts = call.args[0] is reads[0].whole and is_integer(module, reads[0].tensor)
    doubles = has_doubles(project, module)
    suffix = "" if counts else ".detach().double()" if doubles else kept_value(reads[0].tensor)
    reasons = [*exact.reasons, *_rounding(adder)]
    if not doubles and not counts:
        reasons.append(in_single(project, module))
    description = f"let `{adder.owner.name}` add up on the GPU, and read the sums where it returns them"
    made = (reads[0].replaced(module, suffix), *edits)
    return Fix("; ".join([description, *reasons]), Safety.UNSAFE, tuple(dict.fromkeys(made)))


def _adder(project: Project, module: ModuleIndex, func: ast.Attribute) -> _Adder | None:
    """The method that a call reaches, if it is the same for all objects that the receiver may be."""
    owners = set(_classes(project, module, func.value))
    if len(owners) != 1:
        return None
    where, owner = owners.pop()
    if owner is None or owner.bases or any(isinstance(up, _METHODS) for up in where.syntax.ancestors(owner)):
        return None
    method = next((part for part in owner.body if isinstance(part, _METHODS) and part.name == func.attr), None)
    if method is None or method.decorator_list or len(method.args.args) < 2 or method.args.vararg or method.args.kwarg:
        return None
    return _Adder(where, owner, method)


def _classes(
    project: Project, module: ModuleIndex, node: ast.expr
) -> Iterator[tuple[ModuleIndex, ast.ClassDef] | tuple[ModuleIndex, None]]:
    """The classes of what a receiver may be: a variable, or an entry of a table that holds nothing else; None for
    anything unknown."""
    resolver = project.fact(Resolver)
    table = isinstance(node, ast.Subscript)
    for ref in resolver.points_to(module, node.value if isinstance(node, ast.Subscript) else node):
        made: list[ast.expr] = []
        match ref.node:
            case ast.Call(func=func, args=[ast.Name() as kind], keywords=[]) if (
                table and last_name(func) == "defaultdict"
            ):
                known = [one for one in resolver.points_to(ref.module, kind) if isinstance(one.node, ast.ClassDef)]
                yield from ((one.module, one.node) for one in known if isinstance(one.node, ast.ClassDef))
                if known:
                    continue
            case ast.DictComp(value=value) | ast.ListComp(elt=value) if table:
                made = [value]
            case ast.Dict(values=values) | ast.List(elts=values) if table:
                made = values
            case ast.Call() if not table:
                made = [ref.node]
        owners = [owner for one in made if isinstance(one, ast.Call) for owner in resolver.classes_of(ref.module, one)]
        if not made or len(owners) != len(made):
            yield ref.module, None
        yield from owners


@query
def _class_edits(project: Project, adder: _Adder) -> tuple[Edit, ...] | Declined:
    """The edits after which the sums of a class may be tensors."""
    module, owner = adder.module, adder.owner
    if any(word in module.syntax.text(owner) for word in _HIDES) or project.word_index.subclasses(owner.name.encode()):
        return _UNKNOWN
    held = _held(adder)
    if not held:
        return _UNKNOWN
    edits, inside = [*_unconverted(adder)], set(walk(adder.method))
    if not _gets_numbers(project, adder):
        return Declined(f"`{owner.name}.{adder.method.name}` gets tensors elsewhere")
    for name in sorted(held):
        kept = Sum(module, owner, name, False)
        if not _starts_as_number(kept, inside) or _is_read_elsewhere(project, kept):
            return Declined(f"other code uses `.{name}` as well, or it does not start as a number")
        for use in kept.uses():
            made = [] if use in inside else used(project, kept, use, counts=False)
            if isinstance(made, Declined):
                return made
            edits += made
    return tuple(edits)


def _held(adder: _Adder) -> set[str] | None:
    """The attributes that hold what the method adds up; None if it does more than that."""
    held, names = set[str](), {arg.arg for arg in adder.method.args.args[1:]}
    for statement in adder.method.body * 2:
        match statement:
            case ast.Expr(value=ast.Constant()):
                continue
            case (
                ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=target)], value=value)
                | ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=target), op=ast.Add(), value=value)
            ) if _is_arithmetic(value, names):
                of = {part.attr for part in walk(value) if isinstance(part, ast.Attribute)}
                if of & held or any(isinstance(part, ast.Name) and part.id == adder.value for part in walk(value)):
                    held.add(target)
            case _:
                return None
    return held


def _is_arithmetic(value: ast.expr, names: set[str]) -> bool:
    match value:
        case ast.Constant(value=int() | float()):
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(value=ast.Name(id="self")):
            return True
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), left=left, right=right):
            return _is_arithmetic(left, names) and _is_arithmetic(right, names)
        case ast.Call(func=ast.Name(id="float" | "int"), args=[ast.Name(id=name)], keywords=[]):
            return name in names
    return False


def _unconverted(adder: _Adder) -> Iterator[Edit]:
    """``self.total += float(value)``, which would read each value again."""
    for part in walk(adder.method):
        match part:
            case ast.Call(func=ast.Name(id="float" | "int"), args=[ast.Name(id=name)]) if name == adder.value:
                yield Edit(adder.module.path, adder.module.syntax.span(part), name)


def _starts_as_number(kept: Sum, inside: set[ast.AST]) -> bool:
    """Return whether a class sets a sum to numbers alone, apart from adding to it."""
    starts = 0
    for part in walk(kept.owner):
        match part:
            case ast.Assign(targets=targets, value=value) if part not in inside:
                of = [one for target in targets for one in walk(target)]
            case ast.AnnAssign(target=target, value=ast.expr() as value) if part not in inside:
                of = [*walk(target)]
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) if name == kept.name and part not in inside:
                if not isinstance(kept.module.syntax.parents.get(part), ast.Assign | ast.AnnAssign):
                    return False
                continue
            case _:
                continue
        if any(isinstance(one, ast.Name | ast.Attribute) and last_name(one) == kept.name for one in of):
            if not is_number(value):
                return False
            starts += 1
    return starts > 0


def _is_read_elsewhere(project: Project, kept: Sum) -> bool:
    """Return whether other code may use the sum itself, or what a method returns of it as a tensor."""
    inside, resolver = set(walk(kept.owner)), project.fact(Resolver)
    for path in project.word_index.mentioning(kept.name.encode()):
        module = project.module_at(path)
        for node in module.syntax.of(ast.Attribute) if module is not None else ():
            assert module is not None
            if node.attr != kept.name or node in inside:
                continue
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                continue
            owners = resolver.classes_of(module, node.value)
            if not owners or any(owner is kept.owner for _, owner in owners):
                return True
    return False


def _gets_numbers(project: Project, adder: _Adder) -> bool:
    """Return whether nothing hands objects of the class a tensor, whose methods the caller may use later."""
    tensors = project.fact(TensorLocations)
    for path in project.word_index.mentioning(adder.owner.name.encode()):
        module = project.module_at(path)
        for call in module.calls_by_name.get(adder.method.name, ()) if module is not None else ():
            assert module is not None
            if not isinstance(call.func, ast.Attribute) or not call.args or isinstance(call.args[0], ast.Dict):
                continue
            owners = {owner for _, owner in _classes(project, module, call.func.value)}
            if owners and None not in owners and adder.owner not in owners:
                continue
            if not _is_read(module, call.args[0]) and tensors.is_tensor(module, call.args[0]):
                return False
            if isinstance(call.args[0], ast.Starred):
                return False
    getters = {part.name for part in adder.owner.body if isinstance(part, _METHODS)}
    return not any(
        isinstance(node.value, ast.Call | ast.Attribute)
        and last_name(node.value.func if isinstance(node.value, ast.Call) else node.value) in getters
        for path in project.word_index.mentioning(adder.owner.name.encode())
        if (module := project.module_at(path)) is not None
        for node in module.syntax.of(ast.Attribute)
        if node.attr in _OF_TENSORS
    )


def _is_read(module: ModuleIndex, value: ast.expr) -> bool:
    """``loss.item()``, ``float(loss)``"""
    return isinstance(value, ast.Call) and last_name(value.func) in ("item", "float", "int")


def _used_in_loop(project: Project, found: HostWait, adder: _Adder, receiver: ast.expr) -> int | None:
    """The line of a loop that reads the object, or passes it on, in every step."""
    root = receiver.value if isinstance(receiver, ast.Subscript) else receiver
    name, loop, module = ast.unparse(root), found.context.loop.node, found.context.loop.module
    if isinstance(loop, LOOPS) and isinstance(root, ast.Attribute) and methods_read(module, loop, root):
        return loop.lineno
    for node in module.named.get(name, ()):
        function = module.function(node)
        if function is not None and function is not module.function(loop) and _is_same(module, node, loop):
            return node.lineno
    others = {part.name for part in adder.owner.body if isinstance(part, _METHODS)} - {adder.method.name, "reset"}
    for part in walk(loop):
        if isinstance(part, ast.Attribute) and part.attr in others and not logged_seldom(project, module, part):
            return part.lineno
        if not isinstance(part, ast.Name | ast.Attribute) or ast.unparse(part) != name:
            continue
        up = module.syntax.parents.get(part)
        up = module.syntax.parents.get(up) if isinstance(up, ast.Subscript) and up.value is part else up
        if isinstance(up, ast.Attribute) and up.attr in (adder.method.name, "reset"):
            continue
        if not logged_seldom(project, module, part):
            return part.lineno
    return None


def _is_same(module: ModuleIndex, node: ast.Name, loop: ast.AST) -> bool:
    """Return whether a name of another function is the variable that the loop sees."""
    return module.scope(node).lookup(node.id) is module.scope(loop).lookup(node.id)


def _rounding(adder: _Adder) -> list[str]:
    """Return what the class computes on the GPU other than sums."""
    divides = has_operator(adder.method, ast.Div)
    return ["GPUs divide by multiplying with the reciprocal, which may round the last digit differently"] * divides
