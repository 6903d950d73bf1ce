"""What keeps copies on local disk of the remote data that a program reads, by the rows on its libraries."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.names import matches
from gpulint.libraries.samples import DataCache
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.transfers.storage import UNKNOWN, Location, Storage, StorageLocations
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_PIPE = regex.compile(r"^pipe:[^|]*?(?P<address>\b[a-z0-9]+://[^\s'\"]+)")
"""A command whose output is read: ``pipe:aws s3 cp s3://bucket/000.tar -``"""
_CACHES = regex.compile(r"(?:^|::)(simplecache|filecache|blockcache|cached)(::|$)")
"""File systems of fsspec that keep what they read, as they are named and as they begin an address."""
_WRITES = frozenset("wax+")
_LISTS = frozenset({"glob", "sorted", "list"})
"""Functions that list the files of an address, or put them in order."""


class DataCaches:
    """Caches of the calls of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._rows: tuple[DataCache, ...] = project.models.rows("data-cache")

    def of(self, module: ModuleIndex, call: ast.Call) -> DataCache | None:
        """The row on a call that reads an address, or on the file system whose method it is."""
        resolver = self._project.fact(Resolver)
        names = resolver.call_names(module, call)
        found = next((row for row in self._rows if row.by != "wrapper" and matches(row.calls, names)), None)
        if found is not None or not isinstance(call.func, ast.Attribute):
            return found
        made = [
            resolver.call_names(ref.module, ref.node)
            for ref in resolver.points_to(module, call.func.value)
            if isinstance(ref.node, ast.Call)
        ]
        wrappers = (row for row in self._rows if row.by == "wrapper")
        return next((row for row in wrappers if made and all(matches(row.calls, one) for one in made)), None)

    def file_system(self, module: ModuleIndex, call: ast.Call) -> str:
        """The class of an object store's file system whose method a call is; "" if it may be another one's."""
        row = self.of(module, call)
        if row is None or row.by != "wrapper" or not isinstance(call.func, ast.Attribute):
            return ""
        made = self._project.fact(Resolver).points_to(module, call.func.value)
        names = {last_name(ref.node.func) for ref in made if isinstance(ref.node, ast.Call)}
        return min(names) if names and all(name.endswith("FileSystem") for name in names) else ""

    def streams(self, module: ModuleIndex) -> list[tuple[ast.Call, DataCache]]:
        """The calls of a module whose results read a source again in each pass."""
        return [(call, row) for call, row in self.kept(module) if row.streams]

    def remote_folders(self, module: ModuleIndex) -> list[tuple[ast.Call, DataCache, Location]]:
        """The calls of a module that keep what they fetch from elsewhere in a folder on a network's disk."""
        found = []
        for call, row in self.kept(module):
            folder = keyword_value(call, row.argument) if row.argument else None
            source = self.source(call, row)
            if folder is None or source is None or not self.location(module, source).is_remote:
                continue
            where = self._project.fact(StorageLocations).of(module, folder)
            if where.is_remote:
                found.append((call, row, where))
        return found

    def kept(self, module: ModuleIndex) -> list[tuple[ast.Call, DataCache]]:
        """The calls of a module whose results read a source again, or keep it in a folder."""
        rows = [row for row in self._rows if row.streams or row.argument]
        names = {name.rpartition(".")[2] for row in rows for name in row.calls}
        found = [
            (call, self.of(module, call))
            for name in sorted(names & module.calls_by_name.keys())
            for call in module.calls_by_name[name]
        ]
        return [(call, row) for call, row in found if row is not None and (row.streams or row.argument)]

    def reading(self, path: Path, span: Span) -> list[tuple[ModuleIndex, ast.Call, DataCache]]:
        """The calls that stream an address which a launcher's file passes to their program on the lines of a span."""
        starts = [start.start for start in self._project.fact(JobIndex).launches_in(path)]
        programs = [self._project.fact(MultiGpuUse).started(start) for start in starts]
        modules = {module.path: module for program in programs if program is not None for module in program.modules}
        found = []
        for module in modules.values():
            for call, row in self.streams(module):
                source = self.source(call, row)
                known = self._project.fact(Constants).of(module, source).values if source is not None else ()
                places = (value.place for value in known)
                if any(one.path == path and span.line <= one.span.line <= span.end_line for one in places):
                    found.append((module, call, row))
        return found

    def source(self, call: ast.Call, row: DataCache) -> ast.expr | None:
        """The address that a call reads."""
        named = keyword_value(call, row.source) if row.source else None
        first = call.args[0] if call.args and not isinstance(call.args[0], ast.Starred) else None
        return first if named is None and row.by != "default" else named

    def location(self, module: ModuleIndex, source: ast.expr) -> Location:
        """Return where an address leads, or the one that a command of a pipe reads."""
        for value in self._project.fact(Constants).of(module, source).values:
            pipe = _PIPE.match(value.value) if isinstance(value.value, str) else None
            if pipe is not None:
                return Location(Storage.REMOTE, pipe["address"], value.place)
        known = self._project.fact(StorageLocations).of(module, source)
        return known if known.is_remote else self._listed(module, source)

    def _listed(self, module: ModuleIndex, source: ast.expr) -> Location:
        """Return where the files of a list are: ``["gs://..."]``, ``sorted(tf.io.gfile.glob("gs://..."))``"""
        for ref in self._project.fact(Resolver).points_to(module, source):
            match ref.node:
                case ast.Call(func=function, args=[first, *_]) if last_name(function) in _LISTS:
                    return self.location(ref.module, first)
                case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
                    return self.location(ref.module, first)
        return UNKNOWN

    def is_cached(self, module: ModuleIndex, call: ast.Call, row: DataCache) -> bool:
        """Return whether the call, the file system or a job turns the cache on already."""
        folder = keyword_value(call, row.argument) if row.argument else None
        if folder is not None and not self._project.fact(Constants).of(module, folder).every(lambda value: not value):
            return True
        if any(keyword.arg in row.cached for keyword in call.keywords):
            return True
        source = self.source(call, row)
        known = self._project.fact(Constants).of(module, source).values if source is not None else ()
        if source is not None and _CACHES.search(self._project.fact(StorageLocations).of(module, source).text):
            return True
        if any(isinstance(one.value, str) and _CACHES.search(one.value) for one in known):
            return True
        if row.methods_of_result:
            return any(name in one.calls_by_name for one in self.with_users(module) for name in row.methods_of_result)
        if row.by == "wrapper" and isinstance(call.func, ast.Attribute):
            made = self._project.fact(Resolver).points_to(module, call.func.value)
            return any(isinstance(ref.node, ast.Call) and _makes_cache(ref.node, row) for ref in made)
        starts = self._project.fact(JobIndex).launches_of(module.path) if row.variables else ()
        return any(name in start.job.settings for start in starts for name in row.variables)

    def with_users(self, module: ModuleIndex) -> list[ModuleIndex]:
        """A module and those that use it."""
        users = map(self._project.module_at, self._project.fact(GpuPrograms).users(module.path))
        return [module, *(user for user in users if user is not None)]

    def is_drawn(self, module: ModuleIndex, call: ast.Call, row: DataCache) -> bool:
        """Return whether samples are drawn at random, or may be."""
        if not row.drawn:
            return False
        given = self._project.fact(Arguments).of(module, call, row.drawn)
        constants = self._project.fact(Constants)
        off = all(constants.of(ref.module, ref.node).every(lambda value: not value) for ref in given.refs)
        return given.unknown or not off


def _makes_cache(made: ast.Call, row: DataCache) -> bool:
    first = made.args[0] if made.args else None
    named = isinstance(first, ast.Constant) and _CACHES.search(str(first.value)) is not None
    return named or any(keyword.arg in row.cached for keyword in made.keywords)


def writes(call: ast.Call) -> bool:
    """Return whether a call opens a file to write it: ``fs.open(path, "w")``"""
    mode = keyword_value(call, "mode") or (call.args[1] if len(call.args) > 1 else None)
    if not isinstance(mode, ast.Constant) or not isinstance(mode.value, str):
        return False
    return len(mode.value) <= 3 and not _WRITES.isdisjoint(mode.value) and "open" in last_name(call.func).lower()
