"""Tensors that are on the host because what they are computed from is: methods of the tree copy their results there
(``return features.cpu()``), whichever class the object is of."""

from __future__ import annotations

import ast
import re
from itertools import chain
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.host_results import copies_to_host, makes_array_on_host
from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import accepts, argument_of
from gpulint.semantic.named_methods import is_of_outside
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_FILES = 60
"""Most files that mention a method and are searched for its implementations."""
MAX_PATH = 3
"""How deep an element of an unpacked value is followed."""
_MOVES = regex.compile(r"(^|_)(to|move|transfer|put|send|copy)(_|$)|device|cpu", re.IGNORECASE)
"""Functions that move what they are given, tensors in containers among it."""
_MODELS = regex.compile(r"(^|_)(model|net|network|encoder|decoder|actor|critic|policy|module)$", re.IGNORECASE)
"""Objects that may move what they are given to several GPUs."""
_TO_HOST = regex.compile(r"(^|_)(to_?)?cpu$", re.IGNORECASE)
_NAMES_HOST = regex.compile(
    r"(^|_)(to|as|2)_?(cpu|host|numpy|np|ndarrays?|arrays?|python|scalars?|floats?)$", re.IGNORECASE
)
"""Functions that copy what they are given, containers among it, to the host."""
_LEAVES = frozenset({"to", "cuda", "item", "numpy", "tolist", "size", "dim", "numel", "astype"})
"""Methods whose result is elsewhere, or no tensor."""
_OF_TENSORS = frozenset("mean sum max min norm std var abs log exp sqrt detach clone float long view reshape".split())
"""Methods of tensors, which a method of the tree may have the name of."""


class HostOutputs:
    """Tensors on the host in one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    def holds(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether a value is computed from a tensor that a method has copied to the host, or that is made there:
        operands of PyTorch are in one place."""
        return self._computed(module, node, ())

    @cyclic(False)
    def _computed(self, module: ModuleIndex, node: ast.expr, path: tuple[int, ...]) -> bool:
        match node:
            case ast.Call():
                return self._is_result(module, node, path)
            case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
                return self._computed(module, left, ()) or self._computed(module, right, ())
            case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
                return self._computed(module, inner, path)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                if path:
                    known = -len(parts) <= path[0] < len(parts)
                    return known and self._computed(module, parts[path[0]], path[1:])
                return bool(parts) and all(self._computed(module, part, ()) for part in parts)
            case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
                return self._computed(module, element, ())
            case ast.Name(id=name):
                bindings = reaching(module, module.scope(node).lookup(name), node)
                return bool(bindings) and all(self._is_bound(module, name, one, path) for one in bindings)
            case ast.Attribute():
                origins = self._project.fact(Resolver).points_to(module, node, path)
                values = [(ref.module, ref.node, ref.path) for ref in origins if isinstance(ref.node, ast.Call)]
                return bool(origins) and len(values) == len(origins) and all(self._computed(*value) for value in values)
        return False

    def _is_bound(self, module: ModuleIndex, name: str, binding: Binding, path: tuple[int, ...]) -> bool:
        """Return whether what a name is bound to is computed on the host."""
        if binding.kind is BindingKind.ASSIGN and binding.value is not None:
            return self._computed(module, binding.value, (*binding.path, *path)[:MAX_PATH])
        if binding.kind is BindingKind.LOOP and isinstance(binding.value, ast.Tuple | ast.List):
            return not binding.path and self._computed(module, binding.value, ())
        function = binding.scope.node
        if binding.kind is not BindingKind.PARAMETER or not isinstance(function, FUNCTIONS):
            return False
        sites = self._project.fact(Resolver).call_sites(module, function)
        passed = [
            (one.module, argument_of(function, one.node, name)) for one in sites if isinstance(one.node, ast.Call)
        ]
        return bool(passed) and all(value is not None and self._computed(where, value, path) for where, value in passed)

    def _is_result(self, module: ModuleIndex, call: ast.Call, path: tuple[int, ...]) -> bool:
        """Return whether a call returns a copy on the host, or computes with one."""
        if (name := last_name(call.func)) in _LEAVES:
            return False
        if makes_array_on_host(self._project, module, call) or self.returns_copies(module, call, path):
            return True
        callees = self._project.fact(Resolver).callees(module, call)
        if callees and _NAMES_HOST.search(name) and all(map(_copies, callees)):
            return True
        if not any(map(_moves, callees or self._named(module, call))) and not _MODELS.search(name):
            parts = [*call.args, *(keyword.value for keyword in call.keywords)]
            parts += [call.func.value] if isinstance(call.func, ast.Attribute) else []
            if any(self._computed(module, part, ()) for part in parts):
                return True
        returned = [
            (one.module, value)
            for one in callees
            if isinstance(one.node, ast.FunctionDef)
            for value in self._project.fact(Resolver).returns(one.node)
        ]
        return bool(returned) and all(self._computed(where, value, path) for where, value in returned)

    @cyclic(False)
    def returns_copies(self, module: ModuleIndex, call: ast.Call, path: tuple[int, ...]) -> bool:
        """Return whether each function that a call may reach returns a copy in host memory, at ``path`` of what it
        returns: those of the object's class or, where that is unknown, all methods of that name."""
        callees = self._project.fact(Resolver).callees(module, call)
        if not callees:
            callees = [one for one in self._named(module, call) if accepts(one.node, call)]
        found = [
            (one.module, value)
            for one in callees
            if isinstance(one.node, ast.FunctionDef)
            for value in self._project.fact(Resolver).returns(one.node)
        ]
        if len(callees) != sum(isinstance(one.node, ast.FunctionDef) for one in callees):
            return False
        fitting = [(where, _element(value, path)) for where, value in found]
        known = [(where, value) for where, value in fitting if value is not None]
        return bool(known) and all(self._is_copy(where, value) for where, value in known)

    def _named(self, module: ModuleIndex, call: ast.Call) -> tuple[NodeRef, ...]:
        """The methods that a call may mean by its name; none where the object is of a library's class."""
        return () if is_of_outside(self._project, module, call) else self._implementations(*_called(call))

    @query
    def _implementations(self, name: str, owner: str) -> tuple[NodeRef, ...]:
        """The methods of a name that return something, of classes whose names end like the object's if it is called
        itself; none if one of them can't be read or there are too many."""
        if not name or name in _OF_TENSORS:
            return ()
        word = word_of(name)
        paths = [path for path in self._project.word_index.mentioning(word) if not self._project.is_test(path)]
        if len(paths) > MAX_FILES or not any(self._project.word_index.holds(path, b"cpu") for path in paths):
            return ()
        modules = [module for module in map(self._project.module_at, paths) if module is not None]
        methods = chain.from_iterable(_methods(module, name, owner) for module in modules)
        returns = self._project.fact(Resolver).returns
        return tuple(ref for ref in methods if isinstance(ref.node, FUNCTIONS) and returns(ref.node))

    @cyclic(False)
    def _is_copy(self, module: ModuleIndex, node: ast.expr) -> bool:
        """``x.cpu()``, ``move_to((x, y), device="cpu")``, and names bound to that"""
        match node:
            case ast.Tuple(elts=parts):
                return bool(parts) and all(self._is_copy(module, part) for part in parts)
            case ast.Call(func=ast.Attribute(attr="cpu"), args=[]):
                return True
            case ast.Call(func=func):
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                return (
                    copies_to_host(node)
                    or _moves_to_host(node, last_name(func))
                    or (bool(given) and all(self._is_copy(module, part) for part in given))
                )
            case ast.Name(id=name):
                bindings = reaching(module, module.scope(node).lookup(name), node)
                return bool(bindings) and all(
                    one.kind is BindingKind.ASSIGN
                    and isinstance(one.value, ast.Call)
                    and self._is_copy(module, one.value)
                    for one in bindings
                )
        return False


def _moves(function: NodeRef) -> bool:
    """Return whether a function may move what it is given."""
    return not isinstance(function.node, FUNCTIONS) or any(
        isinstance(part, ast.Call) and last_name(part.func) in ("to", "cuda") for part in walk(function.node)
    )


def _copies(function: NodeRef) -> bool:
    """Return whether a function copies something to the host."""
    return isinstance(function.node, FUNCTIONS) and any(
        isinstance(part, ast.Call)
        and (last_name(part.func) in ("cpu", "numpy", "item", "tolist") or copies_to_host(part))
        for part in walk(function.node)
    )


def _moves_to_host(call: ast.Call, name: str) -> bool:
    """``buffer_to(x, device="cpu")``, ``move_to(x, "cpu")``, ``tensors_to_cpu(x)``"""
    if name == "to" or not call.args:
        return False
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    named = any(isinstance(one, ast.Constant) and one.value == "cpu" for one in given)
    return (named and _MOVES.search(name) is not None) or _TO_HOST.search(name) is not None


def _called(call: ast.Call) -> tuple[str, str]:
    """The method that a call names and, for an object that is called itself, the object's name."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return "__call__", name
        case ast.Attribute(attr=name):
            return name, ""
        case ast.Name(id=name):
            return "__call__", name
    return "", ""


def _methods(module: ModuleIndex, name: str, owner: str) -> list[NodeRef]:
    ending = owner.strip("_").replace("_", "").lower()
    found = list[NodeRef]()
    for function in module.functions:
        home = module.syntax.parents.get(function)
        if function.name == name and isinstance(home, ast.ClassDef) and home.name.lower().endswith(ending):
            found.append(NodeRef(module, function))
    return found


def _element(value: ast.expr, path: tuple[int, ...]) -> ast.expr | None:
    """The part of a returned value that is unpacked; None if it has no such part."""
    for index in path:
        if not isinstance(value, ast.Tuple):
            return value
        if not -len(value.elts) <= index < len(value.elts):
            return None
        value = value.elts[index]
    return value
