"""Tasks of the calls in a Python file or notebook that describe jobs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.documents.calls import CallRows, functions
from gpulint.documents.calls.names import Names
from gpulint.documents.calls.origins import Origins
from gpulint.documents.calls.trees import FUNCTION, Trees
from gpulint.documents.specs import formats
from gpulint.documents.specs.lookup import Found, first
from gpulint.documents.yamltree import Node

if TYPE_CHECKING:
    from gpulint.documents.python import PythonModule
    from gpulint.documents.tasks import Task
    from gpulint.libraries import Models
    from gpulint.libraries.jobs import Format
    from gpulint.source import Fragment

MAX_JOBS = 300
"""Jobs of one file, at most."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def read(module: PythonModule, parts: Sequence[tuple[int, Fragment]], models: Models) -> list[Task]:
    """Tasks of a module whose text is made of ``parts`` (see :class:`Origins`)."""
    reader = _Reader(module, Origins(module, parts), models.derived(CallRows))
    jobs: list[functions.Job] = []
    for row, root in islice(reader.jobs(), MAX_JOBS):
        document = first(Found(root), row.document) if row.document is not None else None
        if row.document is None or document is not None:
            jobs.append((row, root, formats.read(row, root if document is None else document.node)))
    return list(functions.with_commands(jobs, reader.names, reader.trees))


class _Reader:
    """Finds the calls of one file that rows are for."""

    def __init__(self, module: PythonModule, origins: Origins, rows: CallRows) -> None:
        self.module, self.rows = module, rows
        self.names = Names(module)
        self.trees = Trees(self.names, origins)

    def jobs(self) -> Iterator[tuple[Format, Node]]:
        """Rows, each with the tree of the arguments of a call and of the methods of its object."""
        for call in self.module.of(ast.Call):
            if _last_name(call.func) in self.rows.names and (row := self._row(call.func)) is not None:
                root = self.trees.call(call, row.signature)
                if root is not None:
                    yield from ((row, tree) for tree in self._with_methods(row, call, root))

    def _row(self, called: ast.expr) -> Format | None:
        return self.rows.row(self.names.qualified(called) or f"?.{_last_name(called)}")

    def _with_methods(self, row: Format, call: ast.Call, root: Node) -> Iterator[Node]:
        """The call's tree with what its object's methods add, for each method call that starts a job."""
        children = list(root.children)
        up = self.module.parents.get(call)
        if isinstance(up, _DEFINITIONS):
            children += self.trees.reference(call, FUNCTION, up)
        uses = [use for use in self._uses(call) if use[0] in (*row.sets, *row.starts)]
        started = [use for use in uses if use[0] in row.starts]
        for start in started if row.starts else (None,):
            before = [use for use in uses if start is None or use[1].lineno <= start[1].lineno]
            settings = self._settings([use for use in before if use[0] in row.sets])
            last = None if start is None else self.trees.call(start[1])
            if settings is None or (start is not None and last is None):
                return
            more = [] if start is None or last is None else self.trees.pair(start[1], start[0], last.children)
            yield Node(root.origin, "map", root.start, root.end, children=[*children, *settings, *more])

    def _settings(self, uses: list[tuple[str, ast.Call]]) -> list[Node] | None:
        """Arguments of methods, under the name of each; None if some are unknown."""
        arguments: dict[str, tuple[ast.Call, list[Node]]] = {}
        for name, used in uses:
            given = self.trees.call(used)
            if given is None:
                return None
            arguments.setdefault(name, (used, []))[1].extend(given.children)
        return [node for name, (used, given) in arguments.items() for node in self.trees.pair(used, name, given)]

    def _uses(self, call: ast.Call) -> Iterator[tuple[str, ast.Call]]:
        """Method calls of the object that a call makes, in a chain or by the name that it is assigned to."""
        last: ast.Call = call
        while (method := self._method(last)) is not None:
            yield method
            last = method[1]
        statement = self.module.parents.get(last)
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        for target in targets:
            for use in self.names.uses(target) if isinstance(target, ast.Name) else ():
                assert isinstance(use.value, ast.Name)
                called = self.module.parents.get(use)
                if isinstance(called, ast.Call) and called.func is use and self.names.meaning(use.value) is last:
                    yield use.attr, called

    def _method(self, call: ast.Call) -> tuple[str, ast.Call] | None:
        """The method that is called of what a call returns."""
        attribute = self.module.parents.get(call)
        called = self.module.parents.get(attribute) if isinstance(attribute, ast.Attribute) else None
        if isinstance(called, ast.Call) and called.func is attribute and isinstance(attribute, ast.Attribute):
            return attribute.attr, called
        return None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
