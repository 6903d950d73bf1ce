"""Downloads by the clients of clouds' storage (``boto3.client("s3").download_file(...)``)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.libraries.names import matches
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.transfers.download import Download, callee
from gpulint.workspace.module_index import BindingKind, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.libraries.operations import SdkDownload
    from gpulint.project import Project

MAX_STEPS = 12
"""Calls and names between a client and the object that it fetches (``client.bucket(b).blob(n)``)."""


def sdk_download(project: Project, module: ModuleIndex, call: ast.Call, rows: list[SdkDownload]) -> Download | None:
    """The download that a method of a storage client makes, if that is what its receiver comes from."""
    todo, seen = [NodeRef(module, call)], set[ast.AST]()
    while todo and len(seen) < MAX_STEPS:
        ref = todo.pop()
        if ref.node in seen:
            continue
        seen.add(ref.node)
        match ref.node:
            case ast.Call(func=func) as made:
                names = project.fact(Resolver).call_names(ref.module, made)
                row = next((row for row in rows if matches(row.of, names)), None)
                if row is not None:
                    return Download(NodeRef(module, call), callee(call), "", f"from {row.origin}", "data")
                if isinstance(func, ast.Attribute):
                    todo.append(NodeRef(ref.module, func.value))
            case ast.Name() | ast.Attribute() as named:
                todo += project.fact(Resolver).points_to(ref.module, named)
                todo += _drawn_from(ref.module, named) if isinstance(named, ast.Name) else ()
                if isinstance(named, ast.Attribute):
                    todo.append(NodeRef(ref.module, named.value))
    return None


def _drawn_from(module: ModuleIndex, name: ast.Name) -> list[NodeRef]:
    """Return what a loop takes its items from (``for blob in bucket.list_blobs():``)."""
    loops = [binding.node for binding in module.scope(name).lookup(name.id) if binding.kind is BindingKind.LOOP]
    return [NodeRef(module, unwrap_iterable(loop.iter)) for loop in loops if isinstance(loop, ast.For)]
