"""What workers of a loader are sent, and whether they can be: processes that are not forked get it pickled."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.names import matches
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.operating_systems import is_of_another_system, may_run_on_macos
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workload.desktop_files import is_run_on_desktop, may_be_set_up_on_desktop
from gpulint.workload.given_up import is_given_up
from gpulint.workload.library_handles import handles
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

SENT = ("collate_fn", "worker_init_fn", "dataset")
"""Arguments of a loader that its workers get; samplers stay in the program's own process."""
INNER = "a lambda, or a function or class that is local to a function"
_LOCKS = ("threading.*Lock", "threading.Condition", "threading.*Semaphore", "threading.Event", "threading.Thread")
_PICKLES = frozenset({"__getstate__", "__reduce__", "__reduce_ex__"})
_USES_UP = frozenset(
    "next sum any all min max len sorted list tuple set frozenset dict Counter join fromiter apply applymap agg "
    "aggregate sort sort_values groupby read_csv read_json read_table sub".split()
)
"""Functions and methods whose results keep nothing of the generators and lambdas that they are given."""
_OF_TABLES = frozenset({"num_proc", "load_from_cache_file", "keep_in_memory", "writer_batch_size"})
"""Arguments that only the ``map`` and ``filter`` of a table take, which call their function at once."""
_STREAMS = frozenset({"webdataset", "torchdata", "tensorflow"})
_STREAMING = regex.compile(r"streaming|IterableDataset|to_iterable|from_generator")
_LAZY = frozenset({"map", "filter", "zip", "enumerate", "reversed", "iter"})
_MOST = 40
"""Most expressions that are looked at for what a worker could not be sent."""
_NAMES_MAC = regex.compile(r"""["']mps["']""")
"""The device of a Mac, perhaps as the choice of an option."""
_SPAWNS = regex.compile(r"""\bset_start_method\(\s*(?:method\s*=\s*)?["'](?:spawn|forkserver)""")


def may_spawn(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module, or one that imports it, may run on Windows or a Mac, as its documentation may say, or
    spawns all its processes. Jobs of clusters run on Linux."""
    programs = list(_programs(project, module))
    if any(_is_started_by_job(project, one) for one in programs):
        return any(map(spawns, programs))
    return any(
        may_run_on_macos(one) or spawns(one) or may_be_set_up_on_desktop(project, one.path) for one in programs
    ) or any(
        project.matches(path, _NAMES_MAC)
        for one in programs
        for path in (one.path, *sorted(project.imported(one.path)))
    )


def spawns_at_home(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module, or one that imports it, was written on Windows or macOS or spawns all its processes."""
    programs = list(_programs(project, module))
    if any(_is_started_by_job(project, one) for one in programs):
        return any(map(spawns, programs))
    return any(is_of_another_system(one) or spawns(one) or is_run_on_desktop(project, one.path) for one in programs)


def _is_started_by_job(project: Project, program: ModuleIndex) -> bool:
    """Return whether a job of a cluster starts a program, not only a plain script."""
    return any(found.job.task.system for found in project.fact(JobIndex).launches_of(program.path))


def spawned_part(project: Project, call: NodeRef) -> str:
    """Return what is passed to a loader that its workers could not be sent where the program spawns all its processes;
    empty if there is none."""
    found = unsent(project, call, SENT)
    return found.name if found is not None and any(map(spawns, _programs(project, call.module))) else ""


def has_spawned_workers(call: ast.Call) -> bool:
    """``DataLoader(data, multiprocessing_context="spawn")``"""
    context = keyword_value(call, "multiprocessing_context")
    return isinstance(context, ast.Constant) and context.value in ("spawn", "forkserver")


@query
def spawns(module: ModuleIndex) -> bool:
    """Return whether a module spawns its processes (``multiprocessing.set_start_method("spawn")``)."""
    return regex.occurs(_SPAWNS, module.syntax.source.text)


def _programs(project: Project, module: ModuleIndex) -> Iterator[ModuleIndex]:
    """A module and those that import it."""
    yield module
    for path in project.fact(GpuPrograms).users(module.path):
        if (user := project.module_at(path)) is not None:
            yield user


class Unsent(NamedTuple):
    """What another process cannot be sent."""

    part: str
    """The argument of the call that holds it."""
    name: str
    """The variable that is passed there; the argument's name where it is no variable."""
    what: str
    where: str
    """` (line 12)`, or the file and the line; empty in a notebook."""
    is_passed: bool
    """Whether it is passed itself, and no part of what is."""

    @property
    def phrase(self) -> str:
        """``` `train_set` holds a generator (line 12)```"""
        return f"`{self.name}` {'is' if self.is_passed else 'holds'} {self.what}{self.where}"


def unpicklable(project: Project, call: NodeRef, names: tuple[str, ...]) -> str:
    """Return the argument of a call that holds what cannot be pickled; empty if none does."""
    found = unsent(project, call, names)
    return found.part if found is not None else ""


def unsent(project: Project, call: NodeRef, names: tuple[str, ...]) -> Unsent | None:
    """Return what of the arguments of a call cannot be pickled: a lambda, a function or class that is local to another
    function, a generator, a lock, or an open file; None if there is nothing."""
    assert isinstance(call.node, ast.Call)
    given = [(name, value, value) for name in names if (value := keyword_value(call.node, name)) is not None]
    if "dataset" in names and call.node.args:
        given.append(("dataset", call.node.args[0], call.node.args[0]))
    given += [(name, passed, part) for name, passed, _ in [*given] for part in _set_later(call.module, passed)]
    for name, passed, value in given:
        for ref in held(project, call.module, value):
            if what := _unsendable(project, ref):
                named = ast.unparse(passed) if isinstance(passed, ast.Name | ast.Attribute) else name
                itself = ref in project.fact(Resolver).points_to(call.module, passed)
                return Unsent(name, named, what, _where(call.module, ref), itself)
    return None


def _where(module: ModuleIndex, ref: NodeRef) -> str:
    if not isinstance(ref.node, ast.expr | ast.stmt) or (span := ref.module.syntax.span(ref.node)).cell is not None:
        return ""
    return f" (line {span.line})" if ref.module is module else f" ({ref.module.path.name}:{span.line})"


def _set_later(module: ModuleIndex, value: ast.expr) -> Iterator[ast.expr]:
    """Yield what an object of the same function is told to keep: ``dataset.set_transform(prepare)``,
    ``dataset.transform = prepare``."""
    if not isinstance(value, ast.Name | ast.Attribute | ast.Subscript):
        return
    named = ast.unparse(value)
    for call in module.calls_where(lambda name: name.startswith("set_")):
        if isinstance(call.func, ast.Attribute) and _is_same(module, call.func.value, value, named):
            yield from _parts(module, call)
    for statement in module.syntax.of(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and _is_same(module, target.value, value, named):
                yield statement.value


def _is_same(module: ModuleIndex, one: ast.expr, other: ast.expr, named: str) -> bool:
    return module.function(one) is module.function(other) and ast.unparse(one) == named


def can_be_sent(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether nothing says that a value cannot be pickled."""
    return not any(_unsendable(project, ref) for ref in held(project, module, value))


def defined_in_notebook(project: Project, call: NodeRef, names: tuple[str, ...]) -> str:
    """Return the function or class of a notebook that is passed to a call in it, or to what makes its arguments; empty
    if there is none."""
    assert isinstance(call.node, ast.Call)
    if call.module.path.suffix != ".ipynb":
        return ""
    given = [*call.node.args[:1], *(keyword.value for keyword in call.node.keywords if keyword.arg in names)]
    for ref in (ref for value in given for ref in held(project, call.module, value)):
        owners = [owner for where, owner in _classes(project, ref) if where is call.module]
        if isinstance(ref.node, ast.FunctionDef) and ref.module is call.module:
            return ref.node.name
        if owners:
            return owners[0].name
    return ""


def _classes(project: Project, ref: NodeRef) -> list[tuple[ModuleIndex, ast.ClassDef]]:
    """The classes that a call makes an object of."""
    made = isinstance(ref.node, ast.Call)
    return project.fact(Resolver).classes_of(ref.module, ref.node) if made and isinstance(ref.node, ast.expr) else []


def _unsendable(project: Project, ref: NodeRef) -> str:
    """Return what a value is that no other process can be sent: a lambda, a function that another one makes, of a class
    that a function defines, or something of this process. Empty if it is none of those."""
    if isinstance(ref.node, ast.Lambda) or (isinstance(ref.node, FUNCTIONS) and _is_local(ref)):
        return INNER
    if isinstance(ref.node, ast.GeneratorExp):
        return "a generator"
    if isinstance(ref.node, ast.Call):
        names = project.fact(Resolver).call_names(ref.module, ref.node) - {"open"}
        if matches(_LOCKS, names):
            return "a lock or a thread"
        if matches(handles(project, "file"), names):
            return f"what `{ast.unparse(ref.node.func)}` opened"
    return INNER if any(where.function(owner) is not None for where, owner in _classes(project, ref)) else ""


def _is_local(ref: NodeRef) -> bool:
    """Return whether a function is defined in another one, perhaps in a method, and is itself no method."""
    scopes = (up for up in ref.module.syntax.ancestors(ref.node) if isinstance(up, (*FUNCTIONS, ast.ClassDef)))
    return isinstance(next(scopes, None), FUNCTIONS)


def held(project: Project, module: ModuleIndex, value: ast.expr) -> Iterator[NodeRef]:
    """Yield what an expression may be, and what is passed to the calls that make it: transforms in a ``Compose``; of an
    object of the tree, what its constructor keeps."""
    resolver, seen = project.fact(Resolver), set[ast.AST]()
    todo = [NodeRef(module, value)]
    while todo and len(seen) < _MOST:
        at = todo.pop(0)
        for ref in resolver.points_to(at.module, at.node):
            if ref.node in seen:
                continue
            seen.add(ref.node)
            yield ref
            todo += [NodeRef(ref.module, part) for part in _parts(ref.module, ref.node)]
            for where, owner in _classes(project, ref):
                todo += _kept(project, where, owner)


@query
def _kept(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> list[NodeRef]:
    """Return what constructors of a class and its bases store in attributes, other than what they are given; nothing if
    the class says itself how it is pickled."""
    classes = list(project.fact(Resolver).mro(module, owner))
    if any(isinstance(part, FUNCTIONS) and part.name in _PICKLES for _, one in classes for part in one.body):
        return []
    return [
        NodeRef(where, value)
        for where, base in classes
        for (home, name), stored in where.attributes.items()
        if home is base and not is_given_up(base, name)
        for one in stored
        if (function := where.function(one.node)) is not None and function.name == "__init__"
        for value in _set_there(where, one.value)
        if isinstance(value, ast.Lambda | ast.GeneratorExp | ast.Call | ast.Dict | ast.List)
    ]


def _set_there(module: ModuleIndex, value: ast.expr | None) -> Iterator[ast.expr | None]:
    """Yield a value, or what a variable may have been set to (``transform = jitter()`` before ``self.transform =
    transform``)."""
    match value:
        case ast.Name(id=name):
            bound = reaching(module, module.scope(value).lookup(name), value)
            yield from (one.value for one in bound if one.kind is BindingKind.ASSIGN and not one.path)
        case _:
            yield value


def _parts(module: ModuleIndex, node: ast.AST) -> Iterable[ast.expr]:
    match node:
        case ast.Call(args=args, keywords=keywords):
            if _maps_table(module, node):
                return ()
            given = [*args, *(keyword.value for keyword in keywords)]
            return [part for part in given if not _is_used_up(part)] if _uses_up(node) else given
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return elements
        case ast.Dict(values=values):
            return values
    return ()


def _uses_up(call: ast.Call) -> bool:
    """Return whether a call reads what it is given and keeps only values: ``sorted(files, key=lambda ...)``,
    ``table["label"].map(lambda ...)``, which a pipeline of samples keeps instead."""
    match call.func:
        case ast.Attribute(attr="map" | "transform", value=ast.Subscript(slice=ast.Constant(value=str()))):
            return True
    return last_name(call.func) in _USES_UP


def _maps_table(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call maps or filters a data set of Hugging Face that is no stream, which keeps only what the
    function makes."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("map", "filter"):
        return False
    return any(keyword.arg in _OF_TABLES for keyword in call.keywords) or _has_tables(module)


@query
def _has_tables(module: ModuleIndex) -> bool:
    """Return whether a module has data sets of Hugging Face, all of which are loaded whole."""
    return "datasets" in module.packages and not (
        _STREAMS & module.packages or regex.occurs(_STREAMING, module.syntax.source.text)
    )


def _is_used_up(part: ast.expr) -> bool:
    """Return whether nothing is left of a value that was read to its end, or called: ``list(map(lambda ...))``."""
    if isinstance(part, ast.Dict):
        return all(map(_is_used_up, part.values))
    lazy = isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in _LAZY
    return lazy or isinstance(part, ast.Lambda | ast.GeneratorExp)
