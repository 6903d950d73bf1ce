"""Values in host memory that come out of containers, functions and libraries: what a tokenizer or an environment
returns, rows of a list of copies, fields that are annotated as arrays."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import default_of
from gpulint.documents.python import walk
from gpulint.libraries import Models
from gpulint.libraries.names import matches, words
from gpulint.libraries.operations import HostResult
from gpulint.placement.added_items import added_to
from gpulint.placement.devices import Devices
from gpulint.placement.expressions import looped_over
from gpulint.placement.host_batches import is_batch_on_host
from gpulint.placement.host_results import is_given_as_array, leaves_gpu, makes_tensor
from gpulint.placement.record_fields import given_field
from gpulint.placement.table_entries import TableEntries
from gpulint.query import cyclic
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.own_callbacks import own_calls
from gpulint.values.bound_parts import bound_part
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, FunctionNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_ON_HOST = regex.compile(r"['\"]?((np\.|numpy\.|npt\.)?(ndarray|NDArray)|float|int|bool|[Ll]ist\[(float|int)\])['\"]?")
"""Annotations of fields that hold nothing on a GPU."""
_MOVES = frozenset({"to", "cuda", "type", "pin_memory"})
_COPIES = frozenset({"cpu", "numpy", "item", "tolist"})
_CONTAINERS = frozenset({"tuple", "list", "dict", "sorted", "reversed", "zip", "max", "min", "sum", "abs"})
_LITERALS = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp)
_OF_MODELS = ("torch.nn.utils.", "torch.nn.modules.", "torch.optim.", "torch.autograd.", "torch.distributed.")
MAX_PATH = 3
"""How deep an element of an unpacked value is followed."""


class _Known:
    """The rows of what returns values in host memory."""

    def __init__(self, models: Models) -> None:
        rows: tuple[HostResult, ...] = models.rows("host-result")
        self._rows = rows
        self._unless = frozenset(name for row in rows for name in row.unless)
        self.calls = tuple(name for row in rows for name in row.calls)
        self.packages = frozenset(name.partition(".")[0] for name in self.calls)
        self.words = words(self.calls)

    def beside(self, packages: frozenset[str]) -> tuple[str, ...]:
        """Return the patterns that count in a module that imports packages."""
        if self._unless.isdisjoint(packages):
            return self.calls
        return tuple(name for row in self._rows if packages.isdisjoint(row.unless) for name in row.calls)


class HostValues:
    """Values in host memory in one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._known = project.models.derived(_Known)

    def holds(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether all that a value is made of is in host memory."""
        return self._is_host(module, node, ())

    @cyclic(False)
    def _is_host(self, module: ModuleIndex, node: ast.expr, path: tuple[int, ...]) -> bool:
        if isinstance(node, ast.Constant) or is_given_as_array(module, node):
            return True
        if isinstance(node, ast.Name | ast.Call) and is_batch_on_host(self._project, module, node):
            return True
        match node:
            case ast.Name(id=name):
                bindings = reaching(module, module.scope(node).lookup(name), node)
                return bool(bindings) and all(self._is_bound(module, name, one, path) for one in bindings)
            case ast.Attribute(value=base):
                known = self._is_field(module, node) or self._is_kept(module, node) or self._is_given(module, node)
                return known or self._is_host(module, base, ())
            case ast.Subscript(value=base, slice=ast.Constant(value=int(index))):
                return self._is_host(module, base, (index, *path)[:MAX_PATH])
            case ast.Subscript(value=base):
                return self._is_entry(module, node, path) or self._is_host(module, base, ())
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if path and -len(parts) <= path[0] < len(parts):
                return self._is_host(module, parts[path[0]], path[1:])
            case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
                if self._is_host(module, left, ()) and self._is_host(module, right, ()):
                    return True
                return self._is_of_tokens(module, left) or self._is_of_tokens(module, right)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
                return bool(parts) and all(self._is_host(module, part, path) for part in parts)
            case ast.UnaryOp(operand=inner) | ast.NamedExpr(value=inner):
                return self._is_host(module, inner, path)
            case ast.IfExp(body=one, orelse=other):
                return self._is_host(module, one, path) and self._is_host(module, other, path)
            case ast.GeneratorExp(elt=part) | ast.ListComp(elt=part) | ast.DictComp(value=part):
                return self._is_host(module, part, path[1:])
            case ast.Call():
                return self._is_result(module, node, path)
        return False

    def _is_bound(self, module: ModuleIndex, name: str, binding: Binding, path: tuple[int, ...]) -> bool:
        """Return whether what a name is bound to is in host memory."""
        value = binding.value
        if binding.kind is BindingKind.PARAMETER:
            return self._is_passed(module, name, binding, path)
        if value is None:
            return False
        if binding.kind is BindingKind.ASSIGN:
            display = bound_part(binding) or value
            added = added_to(module, name) if isinstance(display, _LITERALS) else ()
            if added is None:
                return False
            if added:
                parts = [*added, *_parts(display)]
                return all(self._is_host(module, part, ()) for part in parts)
            return self._is_host(module, value, (*binding.path, *path)[:MAX_PATH])
        if binding.kind is not BindingKind.LOOP:
            return False
        match value:
            case ast.Call(func=ast.Name(id="range")):
                return True
            case ast.Call(func=ast.Name(id="enumerate")) if binding.path[:1] == (0,):
                return True
            case ast.Call(func=ast.Attribute(value=table, attr="items"), args=[]) if binding.path[:1] == (1,):
                return self._is_host(module, table, ())
            case ast.Call(func=ast.Attribute(value=table, attr="values"), args=[]):
                return self._is_host(module, table, ())
        paths = (binding.path[:length] for length in range(len(binding.path), -1, -1))
        rows = next((found for one in paths if (found := looped_over(value, one)) is not None), None)
        if rows is None:
            return False
        yielded = self._yielded(module, rows) if isinstance(rows, ast.Call) else []
        return self._is_host(module, rows, ()) or (
            bool(yielded) and all(self._is_host(where, one, path) for where, one in yielded)
        )

    def _is_entry(self, module: ModuleIndex, node: ast.Subscript, path: tuple[int, ...]) -> bool:
        """Return whether all that a dictionary holds under a key is in host memory, and not only constants."""
        held = self._project.fact(TableEntries).under(module, node)
        origins = (ref for one in held for ref in self._project.fact(Resolver).points_to(one.module, one.node))
        return not all(isinstance(ref.node, ast.Constant) for ref in origins) and all(
            isinstance(one.node, ast.expr) and self._is_host(one.module, one.node, path) for one in held
        )

    def _is_passed(self, module: ModuleIndex, name: str, binding: Binding, path: tuple[int, ...]) -> bool:
        """Return whether all calls of a function hand over a value in host memory, or leave it to a constant."""
        function = binding.scope.node
        if not isinstance(function, FUNCTIONS):
            return False
        sites = self._project.fact(Resolver).call_sites(module, function) or own_calls(self._project, module, function)
        calls = [(one.module, one.node) for one in sites if isinstance(one.node, ast.Call)]
        given = [(where, argument_of(function, call, name)) for where, call in calls]
        default = default_of(function.args, name)
        return bool(given) and all(
            self._is_host(where, value, path) if value is not None else isinstance(default, ast.Constant)
            for where, value in given
        )

    def _yielded(self, module: ModuleIndex, call: ast.Call) -> list[tuple[ModuleIndex, ast.expr]]:
        """The values that the generators of the tree yield which a call makes."""
        return [
            (one.module, part.value)
            for one in self._project.fact(Resolver).callees(module, call)
            if isinstance(one.node, ast.FunctionDef)
            for part in walk(one.node)
            if isinstance(part, ast.Yield) and part.value is not None
        ]

    def _is_kept(self, module: ModuleIndex, node: ast.Attribute) -> bool:
        """Return whether the methods of a class, which is no module and sets its attributes by name, give one of them
        only values in host memory (``self.last = loss.to("cpu", non_blocking=True)``), and not only constants."""
        owner = module.class_of(node) if isinstance(node.value, ast.Name) and node.value.id == "self" else None
        stores = module.attributes.get((owner, node.attr), []) if owner is not None else []
        values = [(one.value, one.path) for one in stores if one.value is not None]
        if owner is None or not values or all(isinstance(bound_part(one), ast.Constant) for one in stores):
            return False
        bases = self._project.fact(Resolver).base_names(module, owner)
        if any(name.endswith("Module") for name in bases) or any(
            (isinstance(part, ast.Name) and part.id in ("setattr", "vars")) or last_name(part) == "__dict__"
            for part in walk(owner)
            if isinstance(part, ast.Name | ast.Attribute)
        ):
            return False
        return len(values) == len(stores) and all(self._is_host(module, value, path) for value, path in values)

    def _is_field(self, module: ModuleIndex, node: ast.Attribute) -> bool:
        """Return whether an attribute is a field that its class annotates as an array of NumPy or a number."""
        resolver = self._project.fact(Resolver)
        origins = [(ref.module, ref.node) for ref in resolver.points_to(module, node.value)]
        made = [(where, one) for where, one in origins if isinstance(one, ast.Call)]
        owners = [owner for where, one in made for _, owner in resolver.classes_of(where, one)]
        return (
            bool(owners)
            and len(made) == len(origins)
            and all(
                any(
                    isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and field.target.id == node.attr
                    and _ON_HOST.fullmatch(ast.unparse(field.annotation)) is not None
                    for field in owner.body
                )
                for owner in owners
            )
        )

    def _is_given(self, module: ModuleIndex, node: ast.Attribute) -> bool:
        """Return whether an attribute is a field of named tuples or data classes, all of which get a value in host
        memory for it."""
        resolver = self._project.fact(Resolver)
        origins = [(ref.module, ref.node) for ref in resolver.points_to(module, node.value) if not ref.path]
        given = [
            (where, given_field(owner, made, node.attr))
            for where, made in origins
            if isinstance(made, ast.Call)
            for _, owner in resolver.classes_of(where, made)
        ]
        return len(given) == len(origins) > 0 and all(
            value is not None and self._is_host(where, value, ()) for where, value in given
        )

    def _is_result(self, module: ModuleIndex, call: ast.Call, path: tuple[int, ...]) -> bool:
        """Return whether a call copies to the host, computes there, or is known to return what is there."""
        func, name = call.func, last_name(call.func)
        if name in _COPIES or leaves_gpu(self._project, module, call):
            return True
        if name in _MOVES or any(keyword.arg == "device" for keyword in call.keywords):
            if not isinstance(func, ast.Attribute) or not self._project.fact(Devices).only_converts(module, call):
                return False
            return self._is_host(module, func.value, path)
        resolver = self._project.fact(Resolver)
        if self._is_known(module, call) or _makes_tokens(module, call):
            return True
        if isinstance(func, ast.Name) and func.id in ("float", "int", "bool", "len"):
            return True
        if isinstance(func, ast.Name) and func.id == "map" and call.args:
            made = resolver.points_to(module, call.args[0])
            values = [(one.module, value) for one in made for value in self._returned(one.node)]
            return bool(values) and all(self._is_host(where, value, path[1:]) for where, value in values)
        if isinstance(func, ast.Name) and func.id in _CONTAINERS and call.args:
            return all(self._is_host(module, part, path) for part in call.args)
        names = resolver.names(module, func)
        if any(one.startswith("torch.") for one in names):
            of_models = any(one.startswith(_OF_MODELS) for one in names)
            if makes_tensor(self._project, module, call):
                return True
            given = [part for part in call.args if not isinstance(part, ast.Constant)]
            return bool(given) and not of_models and all(self._is_host(module, part, ()) for part in given)
        if isinstance(func, ast.Attribute) and self._is_host(module, func.value, ()):
            return True
        called = resolver.callees(module, call) or self._project.fact(TableEntries).methods(call)
        returned = [(one.module, value) for one in called for value in self._returned(one.node)]
        return bool(returned) and all(self._is_host(where, value, path) for where, value in returned)

    @cyclic(False)
    def _is_of_tokens(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether a value is a tensor that a tokenizer made, or a part of it: computed with another one it stays
        in host memory, as one on the GPU would raise an error."""
        match node:
            case ast.Subscript(value=base) | ast.Attribute(value=base):
                return self._is_of_tokens(module, base)
            case ast.Name(id=name):
                bindings = reaching(module, module.scope(node).lookup(name), node)
                made = [one.value for one in bindings if one.kind is BindingKind.ASSIGN and one.value is not None]
                return len(made) == len(bindings) > 0 and all(self._is_of_tokens(module, one) for one in made)
            case ast.Call():
                return _makes_tokens(module, node)
        return False

    def _returned(self, function: ast.AST) -> list[ast.expr]:
        """The values that a function returns, unless its decorators may return others."""
        if isinstance(function, ast.Lambda):
            return [function.body]
        if not isinstance(function, FUNCTIONS) or _is_replaced(function):
            return []
        return self._project.fact(Resolver).returns(function)

    def _is_known(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether a row tells of a function, or of what made the object that is called or whose method is, that
        its results are in host memory."""
        resolver, known = self._project.fact(Resolver), self._known.beside(module.packages)
        if matches(known, resolver.call_names(module, call)):
            return True
        made = list(resolver.points_to(module, call.func))
        made += resolver.points_to(module, call.func.value) if isinstance(call.func, ast.Attribute) else ()
        return any(
            isinstance(one.node, ast.Call)
            and one.node is not call
            and matches(self._known.beside(one.module.packages), resolver.call_names(one.module, one.node))
            for one in made
        )


def _makes_tokens(module: ModuleIndex, call: ast.Call) -> bool:
    """``tokens = tokenizer(texts, return_tensors="pt")``, unless the table is moved in place later."""
    if all(keyword.arg != "return_tensors" for keyword in call.keywords):
        return False
    match module.syntax.parents.get(call):
        case ast.Assign(targets=[ast.Name(id=name)]):
            home = module.function(call)
            uses = (use for use in module.uses.get(name, ()) if module.function(use) is home)
            ups = [module.syntax.parents.get(use) for use in uses]
            return not any(
                (isinstance(up, ast.Attribute) and up.attr in _MOVES) or _puts_moved(module, up) for up in ups
            )
    return True


def _puts_moved(module: ModuleIndex, part: ast.AST | None) -> bool:
    """``tokens[key] = tokens[key].to(device)``"""
    statement = module.syntax.parents.get(part) if isinstance(part, ast.Subscript) else None
    if not isinstance(statement, ast.Assign) or part not in statement.targets:
        return False
    return any(isinstance(one, ast.Call) and last_name(one.func) in _MOVES for one in walk(statement.value))


def _parts(table: ast.expr) -> list[ast.expr]:
    match table:
        case ast.List(elts=parts) | ast.Dict(values=parts):
            return parts
    return [table]


def _is_replaced(function: FunctionNode) -> bool:
    """Return whether a decorator may return something else than the function does."""
    kept = {"staticmethod", "classmethod", "property", "no_grad", "inference_mode", "override", "torch", "njit", "jit"}
    return any(last_name(one.func if isinstance(one, ast.Call) else one) not in kept for one in function.decorator_list)
