"""Passes over files, listed from a folder or a table, that a training program decodes one by one before it trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries import BUILT_IN
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.semantic.unused_symbols import is_unused
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.training.phases import draws_figure
from gpulint.training.sample_draws import Readers, depending
from gpulint.workload.calling_programs import only_programs_without_training_call, trains_or_fits
from gpulint.workload.list_sizes import is_batch, is_unbounded
from gpulint.workload.sample_preprocessing import IMAGES, VIDEO, VOLUMES, is_held_out
from gpulint.workspace.module_index import (
    COMPREHENSIONS,
    FUNCTIONS,
    LOOPS,
    ModuleIndex,
    NodeRef,
    last_name,
)

if TYPE_CHECKING:
    from gpulint.project import Project

LISTS = frozenset({"listdir", "scandir", "walk", "glob", "iglob", "rglob", "iterdir"})
"""Functions that list files."""
MAX_CALLS = 2
"""How many calls a reader may be away from the loop over the files."""
_ROWS = frozenset({"iterrows", "itertuples"})
"""Methods of tables that give their rows."""
_PATHS = regex.compile(
    r"(^|_)(files?|paths?|filenames?|images?|wavs?|clips?|videos?|ids?|idx|indexes|indices)(_|$)|(files|paths|names)$",
    re.IGNORECASE,
)
"""Names of what holds a path, or the place of one, for each sample."""
_BATCHES = regex.compile(r"batch|collate|generat|next", re.IGNORECASE)
"""Names of functions that read the samples of one batch."""
MAX_STEPS = 4
"""Most variables between a loop and the call that lists the files."""
_HEADERS = frozenset({"stop_before_pixels", "header_only"})
"""Arguments of readers that leave out the samples."""
_WORK = {"image": IMAGES, "video": VIDEO, "volume": VOLUMES, "audio": "computes on audio"}
_PLAIN = frozenset({"load", "open", "read", "read_file"})
_MIXED = frozenset({"PIL", "scipy", "av"})
"""Packages that are imported for other things than readers, or have short names."""
_PER_SAMPLE = ("__getitem__", "__iter__", "__call__", "forward")
_MODEL = regex.compile(r"model|net|trainer|learn", re.IGNORECASE)
_FITS = ("fit", "fit_generator")
_CALLS_TRAINING = regex.compile(r"^train(_|$)")


def reader_words() -> tuple[str, ...]:
    """Words of which a file that calls a reader has one: the reader's name, its package, or both where these are
    frequent words."""
    found = set[str]()
    for row in BUILT_IN.rows("reader"):
        for name in row.calls if row.kind in _WORK else ():
            package, last = name.partition(".")[0], name.rpartition(".")[2]
            if last not in _PLAIN:
                found.add(last)
            else:
                found.add(".".join(name.split(".")[-2:]) if package in _MIXED else package)
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class FolderPass:
    """The call that reads a file, what it does, and the loop over the files."""

    call: ast.Call
    work: str
    loop: NodeRef


def folder_passes(project: Project, module: ModuleIndex) -> Iterator[FolderPass]:
    """The readers of a module that a loop over files calls, once for each loop."""
    readers = project.models.derived(Readers)
    kinds = readers.kinds
    seen = set[ast.AST]()
    for name in sorted(readers.last_names & module.calls_by_name.keys()):
        for call in module.calls_by_name[name]:
            names = project.fact(Resolver).call_names(module, call)
            found = {kinds[full] for full in names & kinds.keys()} if readers.decodes(module, call, names) else set()
            work = next((_WORK[kind] for kind in sorted(found & _WORK.keys())), "")
            if not work or is_unused(project, module, call) or _reads_headers(call) or _is_last(module, call):
                continue
            loop = _over_files(project, module, call, MAX_CALLS) or _over_paths(project, module, call, MAX_CALLS)
            if loop is None or loop.node in seen or _infers(project, module, call, loop):
                continue
            if is_unused(project, loop.module, loop.node):
                continue
            if _is_before_training(project, loop):
                seen.add(loop.node)
                yield FolderPass(call, work, loop)


def _over_files(project: Project, module: ModuleIndex, node: ast.AST, calls: int) -> NodeRef | None:
    """The innermost loop over files that a place runs in, in its function or in a caller's."""
    for up in module.syntax.ancestors(node):
        if isinstance(up, ast.For) and _lists_files(module, up.iter, MAX_STEPS):
            return None if any(isinstance(part, ast.Break) for part in walk(up)) else NodeRef(module, up)
        if isinstance(up, COMPREHENSIONS) and any(_lists_files(module, part.iter, MAX_STEPS) for part in up.generators):
            return NodeRef(module, up)
        if isinstance(up, FUNCTIONS):
            if up.name in _PER_SAMPLE or is_held_out(up.name) or not calls:
                return None
            sites = project.fact(Resolver).first_sites(module, up)
            found = (_over_files(project, site.module, site.node, calls - 1) for site in sites)
            return next((loop for loop in found if loop is not None), None)
    return None


def _over_paths(project: Project, module: ModuleIndex, call: ast.AST, calls: int) -> NodeRef | None:
    """The innermost loop over many items that gives a reader its path (``for i in range(len(table))``), in its function
    or in a caller's."""
    if not isinstance(call, ast.Call):
        return None
    given = _made_of(module, call)
    for up in module.syntax.ancestors(call):
        if isinstance(up, COMPREHENSIONS):
            for part in up.generators:
                targets = {name.id for name in walk(part.target) if isinstance(name, ast.Name)}
                if given & targets:
                    return NodeRef(module, up) if _is_many(project, module, part.iter) else None
        elif isinstance(up, ast.For):
            if given & depending(module, up):
                return NodeRef(module, up) if _is_many(project, module, up.iter) and _keeps(module, up) else None
        elif isinstance(up, FUNCTIONS):
            if up.name in _PER_SAMPLE or is_held_out(up.name) or _BATCHES.search(up.name) or not calls:
                return None
            sites = [site for site in project.fact(Resolver).first_sites(module, up) if isinstance(site.node, ast.Call)]
            if not sites or given.isdisjoint(argument.arg for argument in (*up.args.args, *up.args.kwonlyargs)):
                return None
            found = (_over_paths(project, site.module, site.node, calls - 1) for site in sites)
            return next((loop for loop in found if loop is not None), None)
    return None


def _made_of(module: ModuleIndex, call: ast.Call) -> set[str]:
    """Names that the arguments of a call are made of, as far as the assignments of its function tell."""
    function = module.function(call)
    assigned = [part for part in walk(function) if isinstance(part, ast.Assign)] if function is not None else []
    names = {
        part.id
        for value in (*call.args, *(keyword.value for keyword in call.keywords))
        for part in walk(value)
        if isinstance(part, ast.Name)
    }
    for _ in range(MAX_STEPS):
        names |= {
            part.id
            for statement in assigned
            if any(isinstance(target, ast.Name) and target.id in names for target in statement.targets)
            for part in walk(statement.value)
            if isinstance(part, ast.Name)
        }
    return names


def _is_many(project: Project, module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether a loop goes through as many items as some data have: the rows of a table, the places of a list.

    A list that is written out, a number, or a part of a list may be a few.
    """
    source = unwrap_iterable(source)
    if "batch" in ast.unparse(source):
        return False
    match source:
        case ast.Call(func=ast.Name(id="range"), args=[counted] | [ast.Constant(value=0), counted]):
            return isinstance(counted, ast.Call) and last_name(counted.func) == "len"
        case ast.Call(func=ast.Attribute(attr=name, value=ast.Name() | ast.Attribute())) if name in _ROWS:
            return True
        case ast.Attribute(attr="values", value=ast.Subscript(slice=ast.Constant(value=str()))):
            return True  # `table["path"].values`
        case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str(column))):
            return bool(_PATHS.search(column))
        case ast.Name() | ast.Attribute():
            named = bool(_PATHS.search(last_name(source)))
            return named and is_unbounded(project, module, source) and not is_batch(module, source)
    return False


def _keeps(module: ModuleIndex, loop: ast.For) -> bool:
    """Return whether a loop collects what it reads, and ends with the last item."""
    parts = walk(loop)
    return not any(isinstance(part, ast.Break | ast.Return | ast.Yield | ast.YieldFrom) for part in parts) and any(
        (isinstance(part, ast.Call) and last_name(part.func) in ("append", "extend"))
        or (isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store))
        for part in parts
    )


def _reads_headers(call: ast.Call) -> bool:
    """Return whether a reader leaves out the samples (``dcmread(path, stop_before_pixels=True)``)."""
    return any(
        keyword.arg in _HEADERS and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in call.keywords
    )


def _is_last(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the function returns in the statements after a reader, so that it reads one file."""
    inner: ast.AST = call
    for up in module.syntax.ancestors(call):
        if isinstance(up, (*LOOPS, *FUNCTIONS, ast.If)):
            place = module.syntax.place(inner)
            if not isinstance(up, FUNCTIONS) and place is not None and place[0] == "body":
                return isinstance(up.body[-1], ast.Return)
            return False
        if isinstance(up, ast.Try) and isinstance(up.body[-1], ast.Return) and not isinstance(inner, ast.ExceptHandler):
            return True
        inner = up
    return False


def _lists_files(module: ModuleIndex, node: ast.expr, steps: int) -> bool:
    """Return whether a value comes from a list of files: ``sorted(os.listdir(root))``, or a name for that."""
    for part in walk(node):
        if isinstance(part, ast.Call) and last_name(part.func) in LISTS:
            return True
        if isinstance(part, ast.Name) and steps:
            bindings = reaching(module, module.scope(part).lookup(part.id), part)
            values = (binding.value for binding in bindings)
            if any(
                value is not None and value is not node and _lists_files(module, value, steps - 1) for value in values
            ):
                return True
    return False


def _is_before_training(project: Project, loop: NodeRef) -> bool:
    """Return whether a program that trains runs the loop once, in its only process."""
    module, node = loop.module, loop.node
    if is_held_out(module.path.stem) or project.fact(GpuPrograms).is_separate(module.path):
        return False
    loops = project.fact(LoopContexts)
    if loops.enclosing_loops(module, node) or _runs_model(project, loop):
        return False
    if isinstance(node, LOOPS) and (loops.role(module, node) is not Role.OTHER or draws_figure(project, module, node)):
        return False
    if _is_per_sample(project, module, node, MAX_CALLS) or _is_after_training(project, module, node):
        return False
    if only_programs_without_training_call(project, module, node):
        return False
    return any(
        trains_or_fits(project, user)
        for path in (module.path, *project.fact(GpuPrograms).users(module.path))
        if (user := project.module_at(path)) is not None
    )


def _is_after_training(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether the function around the place has trained before, or only functions for evaluation call it."""
    function = module.function(node)
    start = getattr(node, "lineno", 0)
    if any(call.lineno < start and _fits(project, module, call) for call in module.calls_of(function)):
        return True
    sites = project.fact(Resolver).call_sites(module, function) if function is not None else ()
    callers = [site.module.function(site.node) for site in sites]
    return bool(callers) and all(caller is not None and is_held_out(caller.name) for caller in callers)


def _fits(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call trains a model (and not a scaler, or an encoder of labels)."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _FITS:
        return bool(_MODEL.search(last_name(call.func.value)))
    return project.fact(LoopContexts).is_training_step(module, call)


def _is_per_sample(project: Project, module: ModuleIndex, node: ast.AST, calls: int) -> bool:
    """Return whether the place is a part of what happens to each sample (the frames of one video)."""
    function = module.function(node)
    if function is None or function.name in _PER_SAMPLE or not calls:
        return function is not None and function.name in _PER_SAMPLE
    sites = project.fact(Resolver).first_sites(module, function)
    return any(_is_per_sample(project, site.module, site.node, calls - 1) for site in sites)


def _infers(project: Project, module: ModuleIndex, call: ast.Call, loop: NodeRef) -> bool:
    """Return whether the function around a reader runs a model on what it reads, and trains none after the loop."""
    calls = module.calls_of(module.function(call))
    if {last_name(other.func) for other in calls}.isdisjoint(("no_grad", "inference_mode", "eval")):
        return False
    end = getattr(loop.node, "end_lineno", 0)
    return loop.module is not module or not any(
        other.lineno > end and (_fits(project, module, other) or _CALLS_TRAINING.search(last_name(other.func)))
        for other in calls
    )


def _runs_model(project: Project, loop: NodeRef) -> bool:
    """Return whether the loop infers, or leaves its files to other processes."""
    module = loop.module
    inside = loop.node.body[0] if isinstance(loop.node, ast.For) else loop.node
    return project.fact(Guards).is_without_gradients(module, inside) or any(
        isinstance(part, ast.Call) and last_name(part.func) in ("model", "net", "predict", "submit", "apply_async")
        for part in walk(loop.node)
    )
