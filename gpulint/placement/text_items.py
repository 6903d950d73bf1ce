"""Data sets of texts and numbers, such as prompts, of which a loader makes no tensors worth a copy."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.plain_items import TEXT, PlainItems
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_READS = regex.compile(r"^(open|imread|(default_|pil_|image_)?loader|read_image|load_image|load_img)$")
"""Functions that read the file that they are given the name of."""


def holds_texts(project: Project, source: NodeRef) -> bool:
    """Return whether the class of a data set gives texts, paths and indices as they are: ``{"prompt": self.prompt,
    "index": index}``."""
    if not isinstance(source.node, ast.expr):
        return False
    resolver = project.fact(Resolver)
    owners = resolver.classes_of(source.module, source.node)
    return bool(owners) and all(gives_texts(project, home, owner) for home, owner in owners)


@query
def gives_texts(project: Project, home: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether a class gives texts, paths and numbers as they are."""
    method = project.fact(Resolver).method(home, owner, "__getitem__")
    if method is None or not isinstance(method.node, FUNCTIONS):
        return False
    if _gives_texts(method.node) or _returns_records(method.node):
        return True
    return method.module is home and PlainItems(home, owner).are_all(method.node)


def _gives_texts(function: FunctionNode) -> bool:
    """Return whether a method calls nothing, and all that it gives is text by its name, or its parameter."""
    parts = [part for statement in function.body for part in walk(statement)]
    if any(isinstance(part, ast.Call) for part in parts):
        return False
    parameters = {argument.arg for argument in function.args.args}
    given = [value for part in parts for value in _values(part)]
    return any(_is_text(value) for value in given) and all(
        _is_text(value)
        or (isinstance(value, ast.Name) and value.id in parameters)
        or isinstance(value, ast.Constant | ast.Dict)
        for value in given
    )


def _returns_records(function: FunctionNode) -> bool:
    """Return whether a method returns nothing but numbers of its own and fields of a record that names a file
    (``path, label = self.items[index]``), whatever it makes of the file's content besides."""
    returned = [part.value for part in walk(function) if isinstance(part, ast.Return)]
    stored = Counter(
        part.id for part in walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    )
    read = {part.id for call in walk(function) if _reads_file(call) for part in call.args if isinstance(part, ast.Name)}
    records = {
        name
        for part in walk(function)
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Subscript)
        for target in part.targets
        if isinstance(target, ast.Tuple)
        if (names := {one.id for one in target.elts if isinstance(one, ast.Name)}) & read
        for name in names
        if stored[name] == 1
    }
    fields = [field for value in returned for field in _fields(value)]
    return bool(returned) and all(
        isinstance(field, ast.Constant) or (isinstance(field, ast.Name) and field.id in records) for field in fields
    )


def _reads_file(part: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(part, ast.Call) and bool(_READS.search(last_name(part.func)))


def _fields(value: ast.expr | None) -> list[ast.expr | None]:
    match value:
        case ast.Tuple(elts=fields) | ast.List(elts=fields):
            return list(fields)
        case ast.Dict(values=fields):
            return list(fields)
    return [value]


def _values(part: ast.AST) -> Iterator[ast.expr]:
    """Yield what a statement puts into the sample."""
    match part:
        case ast.Assign(targets=[ast.Subscript()], value=value):
            yield value
        case ast.Dict(values=values) | ast.Tuple(elts=values, ctx=ast.Load()) | ast.List(elts=values, ctx=ast.Load()):
            yield from values
        case ast.Return(value=ast.Attribute() | ast.Subscript() | ast.Constant() as value):
            yield value


def _is_text(node: ast.expr) -> bool:
    """``self.prompts[index]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and bool(TEXT.search(node.attr))
