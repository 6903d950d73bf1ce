"""Data sets whose samples depend on what earlier ones have changed: each worker would go on with a copy of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.placement.host_to_device import HostToDevice
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.workspace.module_index import ModuleIndex

_FILES = frozenset({"open", "h5py.File", "zipfile.ZipFile", "tarfile.open", "tables.open_file"})
"""Calls whose result cannot be shared by processes: they move one position in the file."""
_CLIENTS = frozenset({
    "boto3.client", "boto3.resource", "minio.Minio", "pymongo.MongoClient", "redis.Redis", "redis.StrictRedis",
    "redis.from_url", "sqlite3.connect", "psycopg2.connect", "psycopg.connect", "pymysql.connect", "MySQLdb.connect",
    "requests.Session", "requests.session",
})  # fmt: skip
"""Calls whose result holds connections, which processes may not share."""


def shared_state(project: Project, loader: Loader) -> str:
    """Return why several workers would give other samples than one process; empty where nothing says so."""
    resolver = project.fact(Resolver)
    for source in project.fact(HostToDevice).sources(loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            if reason := _of_class(project, where, owner):
                return reason
    return ""


def _of_class(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> str:
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    if (get := methods.get("__getitem__")) is None:
        return ""
    opened = dict(_opened(project, module, methods.get("__init__")))
    for method in _reached(methods, get):
        for part in walk(method):
            match part:
                case ast.Call(func=ast.Name(id="next"), args=[ast.Attribute(value=ast.Name(id="self"), attr=name), *_]):
                    return (
                        f"each sample takes the next of `self.{name}`, of which each worker would have its own copy "
                        "that starts at the first"
                    )
                case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                    return f"each sample changes `self.{name}`, of which each worker would have its own copy"
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()) if name in opened:
                    return f"`self.{name}` is {opened[name]} forked workers would share"
    return ""


def _reached(methods: dict[str, ast.FunctionDef], first: ast.FunctionDef) -> list[ast.FunctionDef]:
    """A method, and those of the class that it calls on ``self``."""
    found = [first]
    for method in found:
        for part in walk(method):
            match part:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if (
                    called := methods.get(name)
                ) is not None and called not in found:
                    found.append(called)
    return found


def _opened(project: Project, module: ModuleIndex, init: ast.FunctionDef | None) -> Iterator[tuple[str, str]]:
    """The attributes that hold files and clients which exist before the workers do, and what workers would share."""
    resolver = project.fact(Resolver)
    for part in walk(init) if init is not None else ():
        match part:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=made):
                if isinstance(made, ast.Call) and resolver.call_names(module, made) & _FILES:
                    yield name, "an open file, whose position"
                elif any(
                    isinstance(ref.node, ast.Call) and resolver.call_names(ref.module, ref.node) & _CLIENTS
                    for ref in resolver.points_to(module, made)
                ):
                    yield name, "a client of the parent process, whose connections"
