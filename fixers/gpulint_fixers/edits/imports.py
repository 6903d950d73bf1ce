"""Edits that import what a repair needs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from gpulint.fix import Declined, Edit
from gpulint.launch.job_index import JobIndex
from gpulint.project import Project
from gpulint.workspace.module_index import Binding, ModuleIndex
from gpulint.workspace.word_index import word_of
from gpulint_fixers.edits.statements import insert_above, insert_below, remove_statement


def drop_import(module: ModuleIndex, used: ast.expr, also: Iterable[ast.expr] = ()) -> tuple[Edit, ...]:
    """Remove the ``import name``, or ``from package import name``, at the top of a module that nothing but an
    expression, which a fix removes, needs, and others that it removes as well."""
    root, *roots = map(_root, (used, *also))
    if not isinstance(root, ast.Name) or module.syntax.span(root).cell is not None:
        return ()
    bound = module.top.bindings.get(root.id, [])
    named = [node for node in module.named.get(root.id, ()) if node is not root and node not in roots]
    if len(bound) != 1 or named or root.id in module.strings or "__all__" in module.top.bindings:
        return ()
    importing = [
        node
        for node in module.syntax.tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and [(one.name, one.asname) for one in node.names] == [(root.id, None)]
    ]
    if not importing:
        return _drop_one(module, root.id)
    edit = remove_statement(module.syntax, importing[0])
    if edit is None or edit.text or edit.span.column > 1:
        return ()
    source, span = module.syntax.source, edit.span
    alone = not source.line(span.line - 1).strip() and not source.line(span.end_line).strip()
    return (Edit(edit.path, replace(span, end_line=span.end_line + 1), ""),) if alone else (edit,)


def _root(used: ast.expr) -> ast.expr:
    while isinstance(used, ast.Attribute):
        used = used.value
    return used


def drop_local_import(module: ModuleIndex, used: ast.Name) -> tuple[Edit, ...]:
    """Remove the ``import name`` of a function that nothing there but a name, which a fix removes, needs; its block has
    to keep another statement."""
    match module.scope(used).lookup(used.id):
        case [Binding(node=ast.Import() | ast.ImportFrom() as node, scope=scope) as bound] if scope is not module.top:
            pass
        case _:
            return ()
    edit, place = remove_statement(module.syntax, node), module.syntax.place(node)
    if [(one.name, one.asname) for one in node.names] != [(used.id, None)] or edit is None or place is None:
        return ()
    others = [one for one in module.named.get(used.id, ()) if one is not used]
    if edit.text or edit.span.end_column > 1 or any(bound in module.scope(one).lookup(used.id) for one in others):
        return ()
    block = getattr(module.syntax.parents[node], place[0])
    around = {node, used, *module.syntax.ancestors(used)}
    return (edit,) if any(one not in around for one in block) else ()


def _drop_one(module: ModuleIndex, name: str) -> tuple[Edit, ...]:
    """Remove a name from an import of several on one line."""
    syntax = module.syntax
    for node in syntax.tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom) or node.lineno != node.end_lineno:
            continue
        at = next((at for at, one in enumerate(node.names) if (one.name, one.asname) == (name, None)), None)
        if at is None or len(node.names) == 1:
            continue
        start, end = syntax.offsets(node.names[at])
        if at + 1 < len(node.names):
            end = syntax.offsets(node.names[at + 1])[0]
        else:
            start = syntax.offsets(node.names[at - 1])[1]
        return (Edit(syntax.path, syntax.span_at(start, end), ""),)
    return ()


def import_torch(module: ModuleIndex) -> tuple[Edit, ...] | None:
    """``import torch`` above the first of ``import torch.nn as nn`` and the like, unless the module has it; None if
    there is no such line, or the name is in use."""
    bound = module.top.bindings.get("torch", [])
    if any(binding.target == "torch" for binding in bound):
        return ()
    if bound or "torch" in module.named:
        return None
    for node in module.syntax.tree.body:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        if any(name.partition(".")[0] == "torch" for name in names):
            edit = (
                None if module.syntax.span(node).cell is not None else insert_above(module.syntax, node, "import torch")
            )
            return None if edit is None else (edit,)
    return None


def import_partial(module: ModuleIndex) -> tuple[str, tuple[Edit, ...]] | None:
    """Return how a module names ``functools.partial``, with its import where it has none; None if it gets none."""
    for name, bindings in module.top.bindings.items():
        targets = {binding.target for binding in bindings}
        if targets == {"functools.partial"} or targets == {"functools"}:
            return (name if targets == {"functools.partial"} else f"{name}.partial"), ()
    leading = list(
        takewhile(
            lambda node: isinstance(node, ast.Import | ast.ImportFrom) or _stays_first(node), module.syntax.tree.body
        )
    )
    imports = [node for node in leading if not _stays_first(node)]
    if not imports or "partial" in module.named or "partial" in module.top.bindings:
        return None
    own = list(takewhile(_is_standard, imports))
    later = (node for node in own if isinstance(node, ast.ImportFrom) and (node.module or "") > "functools")
    line = "from functools import partial"
    if (below := next(later, None)) is not None:
        edit = insert_above(module.syntax, below, line)
    elif own:
        edit = insert_below(module.syntax, own[-1], line)
    else:
        edit = insert_above(module.syntax, imports[0], f"{line}\n")
    return None if edit is None else ("partial", (edit,))


def import_module(module: ModuleIndex, package: str) -> tuple[str, tuple[Edit, ...]] | None:
    """Return how a module names a package, with ``import package`` among its imports where it has none; None if it
    gets none."""
    for name, bindings in module.top.bindings.items():
        if {binding.target for binding in bindings} == {package} and "." not in name:
            return name, ()
    syntax = module.syntax
    if package in module.named or package in module.top.bindings or not syntax.tree.body:
        return None
    leading = takewhile(
        lambda node: isinstance(node, ast.Import | ast.ImportFrom) or _stays_first(node), syntax.tree.body
    )
    imports = [node for node in leading if isinstance(node, ast.Import | ast.ImportFrom) and not _stays_first(node)]
    own = list(takewhile(_is_standard, imports))
    if not imports or syntax.span(imports[0]).cell is not None:
        return None
    line, standard = f"import {package}", package in sys.stdlib_module_names
    if standard and not own:
        edit = insert_above(syntax, imports[0], f"{line}\n")
    else:
        block = own if standard else imports[len(own) :]
        later = (node for node in block if isinstance(node, ast.ImportFrom) or node.names[0].name > package)
        below = next(later, None)
        edit = insert_below(syntax, imports[-1], line) if below is None else insert_above(syntax, below, line)
        if below is None and standard:
            edit = insert_below(syntax, own[-1], line)
    return None if edit is None else (package, (edit,))


def _is_standard(node: ast.stmt) -> bool:
    """Return whether an import is of Python's own library."""
    names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
    return bool(names) and all(name.partition(".")[0] in sys.stdlib_module_names for name in names)


def import_sibling(project: Project, module: ModuleIndex, sibling: str, name: str) -> tuple[Edit, ...] | Declined:
    """``from sibling import name`` below the leading imports, the way that modules of this folder are imported here."""
    if any(binding.target.endswith(f"{sibling}.{name}") for binding in module.top.bindings.get(name, [])):
        return ()
    if name in module.top.bindings:
        return Declined(f"the name {name!r} is already in use")
    package = _package(project, module)
    if isinstance(package, Declined):
        return package
    home = f"{package}{sibling}" if package in ("", ".") else f"{package}.{sibling}"
    syntax = module.syntax
    last = None
    for node in syntax.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            last = node
        elif not _stays_first(node):
            break
    if last is None:
        return Declined("the module has no import at the top to add another one below")
    edit = insert_below(syntax, last, f"from {home} import {name}")
    return (
        (edit,) if edit is not None else Declined("the last import at the top shares its line with another statement")
    )


def _package(project: Project, module: ModuleIndex) -> str | Declined:
    """Return the prefix with which a module beside this one is imported: "." or a package's name, "" for a script."""
    if any(binding.target.startswith(".") for binding in module.imports):
        return "."
    path = module.path
    prefixes = {prefix for importer in _importers(project, path) for prefix in _prefixes(project, importer, path)}
    is_program = bool(project.fact(JobIndex).launches_of(path)) or "__main__" in module.syntax.source.text
    if is_program or not prefixes:
        prefixes |= {""} if is_program or not project.exists(path.parent / "__init__.py") else {"."}
    if len(prefixes) > 1:
        return Declined("the module is imported under several names, so the name of a module beside it is ambiguous")
    return prefixes.pop()


def _importers(project: Project, path: Path) -> list[ModuleIndex]:
    mentions = project.word_index.mentioning(word_of(path.stem))
    found = [project.module_at(other) for other in mentions if other != path and path in project.imported(other)]
    return [module for module in found if module is not None]


def _prefixes(project: Project, importer: ModuleIndex, path: Path) -> set[str]:
    """The packages by which a module names the one at ``path``."""
    found = set()
    for binding in importer.imports:
        target = binding.target.removesuffix(".*")
        if target.startswith("."):
            if project.module_path(project.absolute(target, importer.path), importer.path) == path:
                found.add(".")
            continue
        for name in (target, target.rpartition(".")[0]):
            if name and project.module_path(name, importer.path) == path:
                found.add(name.rpartition(".")[0])
    return found


def _stays_first(node: ast.stmt) -> bool:
    """Docstrings and ``from __future__`` imports come before everything else."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
