"""Layers and parameters that a model makes and its ``forward`` never reads: they get no gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.gpu_samples import kept_attributes
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

_ENTRIES = ("forward", "training_step")
_TRAINED = regex.compile(
    r"torch\.nn\.(?:\w+\.)*(?:Linear|Bilinear|(?:Lazy)?Conv\w+|BatchNorm\w+|LayerNorm|GroupNorm|Embedding\w*|LSTM|GRU|RNN"
    r"|\w+Cell|MultiheadAttention|Transformer\w*|Parameter|PReLU)"
)
"""Classes of PyTorch that hold parameters of their own; others, such as activations, hold none."""
_ALL = frozenset({
    "children", "modules", "named_children", "named_modules", "parameters", "named_parameters", "_modules", "__dict__",
    "_parameters", "state_dict", "__getattr__",
})  # fmt: skip
"""Attributes of a model that stand for any of its layers."""


def unread_layer(project: Project, path: Path, model: ast.expr | None) -> str:
    """Return a layer or parameter of a program's model (``Encoder.fc``) that no method which ``forward`` calls reads;
    empty if all are read, or if the classes of the model are unknown."""
    module = project.module_at(path)
    if module is None:
        return ""
    roots = tuple(project.fact(Resolver).classes_of(module, model)) if model is not None else ()
    owners = _owners(project, path, tuple(owner for _, owner in roots))
    read = frozenset(name for where, owner in owners for name in _read_of_others(project, where, owner))
    for where, owner in owners:
        for name in _unread(project, where, owner):
            if name not in read:
                return f"{owner.name}.{name}"
    return ""


@query
def _owners(project: Project, path: Path, roots: tuple[ast.ClassDef, ...]) -> list[tuple[ModuleIndex, ast.ClassDef]]:
    """The classes with a ``forward`` that the model's classes name, or else those that the program does."""
    homes, todo = dict[str, list[tuple[ModuleIndex, ast.AST]]](), list[ast.AST](roots)
    modules = project.fact(MultiGpuUse).of(path).modules
    for module in modules:
        if module.path == path and not roots:
            todo.append(module.syntax.tree)
        for node in module.syntax.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                homes.setdefault(node.name, []).append((module, node))
    defined = {module.path.stem: [one.name for one in module.syntax.tree.body if isinstance(one, ast.FunctionDef)]
               for module in modules}  # fmt: skip
    named, found = set[str](), list[tuple[ModuleIndex, ast.ClassDef]]()
    found += [(module, root) for module in modules for root in roots if root in set(module.syntax.tree.body)]
    while todo:
        for name in _mentioned(todo.pop(), defined) - named:
            named.add(name)
            todo += [node for _, node in homes.get(name, [])]
            found += [(module, node) for module, node in homes.get(name, []) if isinstance(node, ast.ClassDef)]
    resolver = project.fact(Resolver)
    return [
        (module, owner)
        for module, owner in dict.fromkeys(found)
        if any(getattr(part, "name", "") in _ENTRIES for _, one in resolver.mro(module, owner) for part in one.body)
    ]


def _mentioned(node: ast.AST, defined: dict[str, list[str]]) -> set[str]:
    """The names in a part of a program, and all functions of a module in which it looks one up by name
    (``models.__dict__[name]``)."""
    found = set[str]()
    for part in walk(node):
        match part:
            case (
                ast.Attribute(value=ast.Name(id=home) | ast.Attribute(attr=home), attr="__dict__")
                | ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=home), *_])
            ):
                found.update(defined.get(home, []))
        if isinstance(part, ast.Name | ast.Attribute):
            found.add(last_name(part))
    return found


def _reached(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> list[ast.AST]:
    """``forward``, and the methods of the class and its bases that are named from there on."""
    resolver = project.fact(Resolver)
    found = [ref for name in _ENTRIES if (ref := resolver.method(module, owner, name)) is not None]
    seen = set(_ENTRIES)
    for ref in found:
        for name in _own_names(ref.node):
            if name not in seen and isinstance(called := resolver.method(module, owner, name), NodeRef):
                found.append(called)
            seen.add(name)
    return [ref.node for ref in found]


def _own_names(node: ast.AST) -> Iterator[str]:
    for part in walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            yield part.attr


@query
def _unread(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> list[str]:
    """The attributes with parameters that the constructor or one of a base makes and no method reads."""
    methods = _reached(project, module, owner)
    read = {name for method in methods for name in _own_names(method)}
    if read & _ALL or any(_may_read_any(part) for method in methods for part in walk(method)):
        return []
    found, known = list[str](), set(read)
    for where, one, init in _made(project, module, owner):
        known |= _frozen(init) if init is not None else set()
        found += [
            name
            for name, made in kept_attributes(one)
            if name not in known and _is_trained(project, where, made) and not _is_kept_elsewhere(init, name)
        ]
        known.update(name for name, _ in kept_attributes(one))
    return found


def _made(
    project: Project, module: ModuleIndex, owner: ast.ClassDef
) -> Iterator[tuple[ModuleIndex, ast.ClassDef, ast.FunctionDef | None]]:
    """A class and its bases in the tree, each with its constructor, as far as the constructors call one another."""
    for where, one in project.fact(Resolver).mro(module, owner):
        init = next((part for part in one.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)
        yield where, one, init
        if init is not None and not any(
            isinstance(part, ast.Call) and last_name(part.func) == "__init__" for part in walk(init)
        ):
            return


def _may_read_any(part: ast.AST) -> bool:
    """Return whether a part of a method may read any attribute: ``f(self)``, ``getattr(self, name)``, ``super()``."""
    if not isinstance(part, ast.Call):
        return False
    given = (*part.args, *(keyword.value for keyword in part.keywords))
    return any(isinstance(one, ast.Name) and one.id == "self" for one in given) or last_name(part.func) == "super"


def _frozen(init: ast.AST) -> set[str]:
    """The attributes that a constructor takes out of training, or removes again."""
    removed = (part for part in walk(init) if isinstance(part, ast.Delete))
    return {name for part in walk(init) if "requires_grad" in _text(part) for name in _own_names(part)} | {
        name for part in removed for name in _own_names(part)
    }


def _text(part: ast.AST) -> str:
    return ast.unparse(part) if isinstance(part, ast.Assign | ast.Expr | ast.For) else ""


def _is_kept_elsewhere(init: ast.AST | None, name: str) -> bool:
    """Return whether a constructor puts an attribute into another one: ``self.layers = [self.first, self.second]``."""
    return init is not None and any(
        isinstance(part, ast.Attribute)
        and part.attr == name
        and isinstance(part.ctx, ast.Load)
        and ast.unparse(part.value) == "self"
        for statement in walk(init)
        if isinstance(statement, ast.Assign)
        for part in walk(statement.value)
    )


def _is_trained(project: Project, module: ModuleIndex, made: ast.expr) -> bool:
    """Return whether a value is a layer of PyTorch with parameters, or a sequence of such."""
    if not isinstance(made, ast.Call):
        return any(_is_trained(project, module, part) for part in _branches(made))
    off = keyword_value(made, "requires_grad")
    if off is not None:
        return isinstance(off, ast.Constant) and bool(off.value)
    if last_name(made.func) in ("Sequential", "ModuleList"):
        return any(_is_trained(project, module, part) for part in _elements(made.args))
    return any(_TRAINED.fullmatch(name) for name in project.fact(Resolver).call_names(module, made))


def _branches(made: ast.expr) -> list[ast.expr]:
    return [made.body] if isinstance(made, ast.IfExp) else []


def _elements(given: Iterable[ast.expr]) -> Iterator[ast.expr]:
    for one in given:
        match one:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                yield from parts
            case ast.ListComp(elt=part):
                yield part
            case _:
                yield one


@query
def _read_of_others(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> frozenset[str]:
    """The attributes of other objects that a class reads on its way: ``self.backbone.fc(x)``."""
    return frozenset(
        part.attr
        for method in _reached(project, module, owner)
        for part in walk(method)
        if isinstance(part, ast.Attribute) and not (isinstance(part.value, ast.Name) and part.value.id == "self")
    )
