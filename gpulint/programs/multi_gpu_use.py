"""Whether a program can use a GPU at all, and how it spreads its work over several.

Both are read off the program and the modules of the tree that it imports. Absence counts only where all is known: one
import that nobody has heard of makes the answer unknown.
"""

from __future__ import annotations

import ast
import enum
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.libraries.gpu_libraries import (
    HINT,
    MOVES,
    OPAQUE,
    PLAIN_COMMANDS,
    SECOND_DEVICE,
    Approach,
    Libraries,
)
from gpulint.libraries.names import matches
from gpulint.programs.named_settings import named_settings
from gpulint.programs.parallel_signs import Parallel, own_classes, signs
from gpulint.query import query, query_property
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.index_builder import index_module
from gpulint.workspace.module_index import ModuleIndex, NodeRef
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.launch.job import Job, JobLaunch
    from gpulint.project import Project

MAX_MODULES = 80
"""Most modules that one program is followed through."""


class Use(enum.Enum):
    """Whether GPUs are used."""

    YES = enum.auto()
    NO = enum.auto()
    UNKNOWN = enum.auto()


_TRAINS = regex.compile(r"\.backward\(|\.fit\w*\(|\w*[Tt]rain\w*\(|GradientTape|value_and_grad|\.step\(")
_MAY_SPREAD = regex.compile(f"Trainer|TrainingArguments|{SECOND_DEVICE.pattern}", re.IGNORECASE)
"""What a module with a sign of parallel work has, unless it has one of the names that stand for an approach."""
_SPREADS = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})
"""Device maps that use all GPUs: https://huggingface.co/docs/accelerate/concept_guides/big_model_inference"""
_BY_NAME = regex.compile(r"\b(?:import_module|__import__|instantiate)\(")
_SETTINGS = frozenset({".yaml", ".yml", ".json", ".toml", ".ini", ".cfg"})
_TOLD = re.compile(rb"cuda|\bgpu|\bdevice", re.IGNORECASE)
_OWN = regex.compile(r"^[ \t]*class[ \t]+\w*(?:Trainer|TrainingArguments|Runner)\b", re.MULTILINE)
"""A class of the program's own with the name of one of a framework."""


class Program:
    """One program: its module and those of the tree that it imports, which are parsed when somebody asks."""

    def __init__(
        self, project: Project, main: ModuleIndex | Path | None, paths: tuple[Path, ...], heads: frozenset[str]
    ):
        """``main`` is a module of the tree, or one that stands in a job spec; ``paths`` are what it imports, ``heads``
        the names of foreign packages."""
        self._project, self._imported, self._heads = project, paths, heads
        self._inline = main if isinstance(main, ModuleIndex) else None
        self._path = main.path if isinstance(main, ModuleIndex) else main
        self.db = project.db
        self._libraries = project.models.derived(Libraries)

    @property
    def _main(self) -> ModuleIndex | None:
        if self._inline is not None or self._path is None:
            return self._inline
        return self._project.module_at(self._path)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The modules of the tree that it imports, also through others, the nearest first."""
        return self._imported

    @query_property
    def modules(self) -> tuple[ModuleIndex, ...]:
        """All its modules that can be parsed."""
        found = (self._main, *map(self._project.module_at, self._imported))
        return tuple(module for module in found if module is not None)

    def modules_where(self, test: Callable[[Project, Path], bool]) -> Iterator[ModuleIndex]:
        """The main module and those modules whose files pass a test, one by one; none of the others is parsed."""
        if (main := self._main) is not None:
            yield main
        for path in self._imported:
            if test(self._project, path) and (module := self._project.module_at(path)) is not None:
                yield module

    def mentions(self, pattern: re.Pattern[str]) -> bool:
        """Return whether there is a match in the text of one of its modules."""
        return any(self._matches(path, pattern) for path in self.files)

    def _matches(self, path: Path, pattern: re.Pattern[str]) -> bool:
        if self._inline is not None and self._path == path:
            return pattern.search(self._inline.syntax.source.text) is not None
        return self._project.matches(path, pattern)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of its modules; none if the program is unknown."""
        return (self._path, *self._imported) if self._path is not None else ()

    def text(self, path: Path) -> str:
        """The Python text of one of its modules."""
        if self._inline is not None and self._path == path:
            return self._inline.syntax.source.text
        return self._project.python_text(path)

    def imports_only(self, names: frozenset[str]) -> bool:
        """Return whether all that it imports is of the tree, known to use no GPU, or has one of some names."""
        known = self._libraries.no_gpu | sys.stdlib_module_names | names
        return self._heads <= known and len(self._imported) < MAX_MODULES

    def unread(self, all_unknown: bool) -> tuple[str, ...]:
        """Frameworks from outside of the tree, and ``all_unknown`` packages, which may spread it over GPUs."""
        heads = {head for head in self._heads if "." not in head} - self._libraries.beside - sys.stdlib_module_names
        return tuple(sorted(heads if all_unknown else heads & self._libraries.gpu))

    @query_property
    def use(self) -> Use:
        """YES with an import of a GPU library; NO only where every import is known to do without."""
        if self.libraries:
            return Use.YES
        return Use.NO if self.imports_only(frozenset()) and not self._may_use_gpu(HINT) else Use.UNKNOWN

    @query_property
    def stays_on_cpu(self) -> bool:
        """Whether a program of PyTorch moves nothing to a GPU, and imports nothing else that may use one."""
        return bool(self.libraries) and self.imports_only(self._libraries.if_moved) and not self._may_use_gpu(MOVES)

    def _may_use_gpu(self, signs: re.Pattern[str]) -> bool:
        """Return whether a program has a sign of a GPU, starts something else, or is not known."""
        return self._path is None or self.mentions(signs) or self.mentions(OPAQUE)

    @property
    def libraries(self) -> frozenset[str]:
        """GPU libraries that it imports, by their top-level names."""
        return self._heads & self._libraries.gpu

    def is_told(self, args: Iterable[str]) -> bool:
        """Return whether its arguments name a GPU, or a configuration file for a library that uses one when told to."""
        texts = [*args]
        if any(map(HINT.search, texts)) or self._heads.isdisjoint(self._libraries.if_told):
            return any(map(HINT.search, texts))
        texts += map(self.text, self.files)
        return any(
            path.suffix in _SETTINGS
            and self._project.finds(path, _TOLD)
            and any(regex.compile(rf"\b{re.escape(path.stem)}\b").search(text) for text in texts)
            for path in (*self._project.files, *named_settings(self._project, self._path, texts))
        )

    @query_property
    def parallel(self) -> tuple[Parallel, ...]:
        """All signs of parallel work, also where it is only named: an empty answer is what can be trusted."""
        names = frozenset(map(word_of, self._libraries.approaches))
        return tuple(
            sign
            for path in self.files
            if self._project.word_index.holds_one(path, names) or self._matches(path, _MAY_SPREAD)
            for sign in self._signs(path)
        )

    def _signs(self, path: Path) -> Iterator[Parallel]:
        for sign in signs(self._module(path), path, self.text(path), self._libraries.approaches):
            if sign.approach is not Approach.FRAMEWORK or sign.name not in self._own:
                yield sign

    @query_property
    def _own(self) -> frozenset[str]:
        """Names of its own classes that have those of a framework's, and rest on none."""
        if not any(self._matches(path, _OWN) for path in self.files):
            return frozenset()
        return own_classes(self.modules, self._heads)

    @query_property
    def loads_by_name(self) -> bool:
        """Whether parts of it are imported or built by a name that a configuration gives: more of the tree may run."""
        return self.mentions(_BY_NAME)

    @query_property
    def pinned(self) -> Place | None:
        """Where a device map puts the whole model on one GPU, whatever the hardware is."""
        for module in self.modules_where(lambda project, path: project.word_index.holds(path, b"device_map")):
            for keyword in module.syntax.of(ast.keyword):
                if keyword.arg != "device_map" or any(conditions(module, keyword)):
                    continue
                if all(map(_is_whole, self._project.fact(Resolver).points_to(module, keyword.value))):
                    return Place(module.path, module.syntax.span(keyword), "the whole model goes to one GPU")
        return None

    @query_property
    def spreads_model(self) -> bool:
        """Whether a device map may spread a model over all GPUs that the process sees."""
        resolver = self._project.fact(Resolver)
        for module in self.modules_where(lambda project, path: project.word_index.holds(path, b"device_map")):
            for value in _device_maps(module):
                if any(_is_spread(ref.node) for ref in resolver.points_to(module, value)):
                    return True
        return False

    @query_property
    def trains(self) -> bool:
        """Whether a call in its code says that it trains or fits something."""
        for path in self.files:
            if not self._matches(path, _TRAINS) or (module := self._module(path)) is None:
                continue
            if any(map(_TRAINS.search, (f".{name}(" for name in module.calls_by_name))):
                return True
        return False

    def _module(self, path: Path) -> ModuleIndex | None:
        return self._main if self._path == path else self._project.module_at(path)


class MultiGpuUse:
    """GPU use of the programs of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    @query
    def of(self, path: Path) -> Program:
        """The program in a file of the tree."""
        names = self._project.bound_imports(path)
        return self._program(None, (), path) if names is None else self._program(path, names, path)

    def started(self, start: JobLaunch) -> Program | None:
        """The program that a launch starts, also one whose text a job spec carries; None if it is unknown."""
        if start.program is not None:
            return self.of(start.program)
        if start.module is not None:
            module = index_module(start.module)
            return self._program(module, [binding.target for binding in module.imports], module.path)
        return None

    def uses(self, job: Job) -> Use:
        """Return whether anything that the job starts uses a GPU; NO only if all of it is known to use none."""
        answers: set[Use] = set()
        for start in job.launches:
            program = self.started(start)
            if program is not None:
                use = Use.NO if program.stays_on_cpu else program.use
                told = use is Use.NO and program.is_told(word.text for word in start.launch.args)
                answers.add(Use.UNKNOWN if told else use)
            elif start.script is None and not _is_tool(start):
                answers.add(Use.UNKNOWN)
        for item in job.commands:
            if item.command.name not in PLAIN_COMMANDS and id(item.command) not in job.starters:
                answers.add(Use.UNKNOWN)
        if Use.YES in answers:
            return Use.YES
        return Use.UNKNOWN if Use.UNKNOWN in answers or not job.commands else Use.NO

    def _program(self, main: ModuleIndex | Path | None, names: Iterable[str], home: Path) -> Program:
        if main is None:
            return Program(self._project, None, (), frozenset())
        names = tuple(names)
        inline = self._named(names, home) if isinstance(main, ModuleIndex) else ()
        seen, todo = {home, *inline}, [home, *inline]
        heads = self._foreign(names, home)
        for path in todo:
            if len(todo) > MAX_MODULES:
                break
            if path != home:
                heads |= self._foreign(self._project.imports(path), path)
            more = sorted(self._project.imported(path) - seen)
            seen.update(more)
            todo += more
        return Program(self._project, main, tuple(todo[1:]), frozenset(heads))

    def _named(self, names: Iterable[str], importer: Path) -> tuple[Path, ...]:
        """The modules of the tree that Python within a launcher imports: the file is none that imports anything."""
        found = dict[Path, None]()
        for name in names:
            target = self._project.absolute(name, importer).removesuffix(".*")
            for part in (target, target.rpartition(".")[0]):
                if part and (path := self._project.module_path(part, importer)) is not None:
                    found[path] = None
        return tuple(found)

    def _foreign(self, names: Iterable[str], importer: Path) -> set[str]:
        """Top-level names of the modules that are imported from outside of the tree, and the whole names of those that
        packages of the tree lack."""
        found, libraries = set[str](), self._project.models.derived(Libraries)
        for name in names:
            head = name.partition(".")[0]
            if matches(libraries.parts_on_cpu, (name,)) and self._project.module_path(head, importer) is None:
                continue
            if head and (head in libraries.gpu or self._project.module_path(head, importer) is None):
                found.add(head)
            elif not self._is_there(self._project.absolute(name, importer).removesuffix(".*"), importer):
                found.add(name)
        return found

    def _is_there(self, name: str, importer: Path) -> bool:
        """Return whether the tree has a module, or the one that may define the last part of its name."""
        if self._project.module_path(name, importer) is not None:
            return True
        above, _, last = name.rpartition(".")
        module = self._project.module_path(above, importer) if above else None
        words = frozenset((last.encode(), b"__getattr__"))
        return (
            module is not None
            and module != importer
            and (self._project.word_index.holds_one(module, words) or self._project.contains(module, b"import *"))
        )


def _is_whole(device_map: NodeRef) -> bool:
    """``{"": 0}``, ``"cuda"`` or ``"cuda:0"``, and not in a branch for some hardware."""
    match device_map.node:
        case ast.Constant(value="cuda" | "cuda:0") | ast.Dict(keys=[ast.Constant(value="")]):
            return not any(conditions(device_map.module, device_map.node))
    return False


def _device_maps(module: ModuleIndex) -> Iterator[ast.expr]:
    """Yield what calls and dictionaries of a module give for ``device_map``."""
    yield from (keyword.value for keyword in module.syntax.of(ast.keyword) if keyword.arg == "device_map")
    for table in module.syntax.of(ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "device_map":
                yield value


def _is_spread(device_map: ast.AST) -> bool:
    return isinstance(device_map, ast.Constant) and device_map.value in _SPREADS


def _is_tool(start: JobLaunch) -> bool:
    """``python -m pip``, ``srun hostname``: no program of the user's own."""
    return start.launch.module in ("pip", "venv", "ensurepip", "compileall")
