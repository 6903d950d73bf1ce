"""What workers of a loader make again or are sent whole where a program runs on a system that spawns processes: a data
set that is made outside of the main guard, and one that holds its samples in memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.query import query
from gpulint.semantic.operating_systems import is_of_another_system, names_drive, names_linux_folder
from gpulint.semantic.points_to import Resolver
from gpulint.workload.dataset_work import parts_of, sets_of
from gpulint.workload.desktop_files import is_run_on_desktop
from gpulint.workload.handed_handles import entry_of_file
from gpulint.workload.item_work import ItemWorks
from gpulint.workload.main_guards import Route, is_in_main, is_started_by_job, route_to
from gpulint.workload.sent_parts import has_spawned_workers, spawns
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_READS = regex.compile(r"(^|_)(i?open|i?m?read|load\w*|File|from_file|from_disk|fetch\w*|get_file)(_|$)")
"""Functions that read a sample when it is asked for."""
_ARRAYS = (
    *("numpy.load", "numpy.loadtxt", "numpy.array", "numpy.asarray", "numpy.float*", "numpy.uint8", "numpy.stack"),
    *("numpy.empty", "numpy.zeros", "torch.empty", "torch.zeros"),  # which are filled later
    *("numpy.concatenate", "numpy.transpose", "numpy.fromfile", "torch.load", "torch.tensor", "torch.stack"),
    *("torch.cat", "torch.from_numpy", "torch.as_tensor", "scipy.io.loadmat", "cv2.imread", "cv2.resize"),
    *("cv2.cvtColor", "PIL.Image.open", "PIL.Image.new", "PIL.Image.fromarray", "skimage.io.imread"),
    *("torchvision.io.read_image", "imageio.imread", "librosa.load", "soundfile.read", "torchaudio.load"),
)
"""Calls that make arrays, images or recordings."""
_IN_MEMORY = ("torch_geometric.datasets.*",)
"""Data sets that hold all their samples in memory, and after a pass an object for each."""
_OF_ARRAYS = frozenset("astype transpose permute reshape convert float numpy resize unsqueeze".split())
"""Methods of arrays and images that give another."""
_CONVERTS = frozenset(
    "tensor as_tensor from_numpy Tensor FloatTensor LongTensor array asarray int float long astype to append".split()
)
"""What gives a label out as a tensor."""
_STEPS = 5
"""How many values lead from what is indexed to the call that makes an array."""
_MODEL = ("cuda", "to")
_TRACKERS = (
    *("wandb.init", "mlflow.start_run", "neptune.init_run", "comet_ml.Experiment", "comet_ml.start"),
    *("clearml.Task.init", "swanlab.init"),
)
"""Calls that start a run of an experiment tracker."""
_TRACKER_NAMES = ("init", "start_run", "init_run", "Experiment", "start")
_DECODERS = (
    *("PIL.Image.open", "cv2.imread", "cv2.VideoCapture", "librosa.load", "torchaudio.load", "soundfile.read"),
    *("nibabel.load", "pydicom.dcmread", "numpy.load", "imageio.imread", "skimage.io.imread"),
)
"""Calls that read a sample from a file."""


class SpawnedWork(NamedTuple):
    """Why workers that are spawned cost more than they give."""

    reason: str
    first: str
    """What to change before workers are set."""


@query
def spawned_work(project: Project, loader: Loader) -> SpawnedWork | None:
    """Return what each worker of a loader would make again, or be sent whole, in a program that was written where
    processes are spawned; None if it is neither."""
    route = route_to(project, loader.call)
    asked = _asks_for_spawned(loader, route)
    if loader.module.path.suffix == ".ipynb" or not (asked or _runs_where_spawned(project, loader, route)):
        return None
    spawned = f"as {asked} says" if asked else "as on Windows or macOS, where the program was written"
    if made := _made_outside(project, loader, route):
        what, line = made
        return SpawnedWork(
            f"line {line} {what} outside of `if __name__ == '__main__'`, and each worker would do so again where "
            f"processes are spawned, {spawned}",
            f"move line {line}, which {what}, behind `if __name__ == '__main__':` (spawned workers run it again)",
        )
    if held := _held_in_memory(project, loader):
        return SpawnedWork(
            f"the data set holds its samples in memory (`self.{held}`), and each worker would be sent a copy of all of "
            f"them where processes are spawned, {spawned}",
            f"keep `self.{held}` in a file that each worker opens (spawned workers are sent a copy of it)",
        )
    return None


def _asks_for_spawned(loader: Loader, route: Route) -> str:
    """Return what asks for spawned workers, on Linux as well: ``set_start_method("spawn")`` in a program, or the
    loader's own context. Empty if nothing does."""
    if has_spawned_workers(loader.node):
        return "`multiprocessing_context`"
    programs = dict.fromkeys([loader.module, *(start.module for start in route.starts)])
    return "`set_start_method`" if any(map(spawns, programs)) else ""


def _runs_where_spawned(project: Project, loader: Loader, route: Route) -> bool:
    """Return whether a program, or a module that it imports, was written on Windows or macOS, and neither names a
    folder of Linux. Jobs run on Linux."""
    programs = list(dict.fromkeys([loader.module, *(start.module for start in route.starts)]))
    if any(is_started_by_job(project, one.path) for one in programs):
        return False
    paths = dict.fromkeys(path for one in programs for path in (one.path, *sorted(project.imported(one.path))))
    if any(names_linux_folder(project, path) for path in paths):
        return False
    return (
        any(map(is_of_another_system, programs))
        or any(names_drive(project, path) for path in paths)
        or any(is_run_on_desktop(project, start.module.path) for start in route.starts)
    )


def _made_outside(project: Project, loader: Loader, route: Route) -> tuple[str, int] | None:
    """Return what a program does at its top level before a main guard that only starts the training, and the line:
    makes the data set of a loader, moves the model to the GPU, starts a run of a tracker, or reads files one by one.
    None if the guard covers that."""
    if not route.starts or not all(map(is_in_main, route.starts)):
        return None
    for part in parts_of(project, loader):
        if isinstance(part.node, ast.Call) and _is_outside(part):
            return "makes the data set", part.node.lineno
    for module in dict.fromkeys(start.module for start in route.starts):
        for call in (call for name in _MODEL for call in module.calls_by_name.get(name, ())):
            if "model" in ast.unparse(call.func) and _is_outside(NodeRef(module, call)):
                return "moves the model to the GPU", call.lineno
        if found := _work_outside(project, module):
            return found
    return None


@query
def _work_outside(project: Project, module: ModuleIndex) -> tuple[str, int] | None:
    """Return what a module does when it is imported that takes long or leaves something behind, and the line."""
    resolver = project.fact(Resolver)
    for call in (call for name in _TRACKER_NAMES for call in module.calls_by_name.get(name, ())):
        if matches(_TRACKERS, resolver.call_names(module, call)) and _is_outside(NodeRef(module, call)):
            return "starts a run of the experiment tracker", call.lineno
    loops: tuple[ast.For | ast.ListComp, ...] = (*module.syntax.of(ast.For), *module.syntax.of(ast.ListComp))
    for loop in loops:
        if _is_outside(NodeRef(module, loop)) and _decodes(project, NodeRef(module, loop), helpers=1):
            return "reads files one by one", loop.lineno
    return None


def _decodes(project: Project, part: NodeRef, helpers: int) -> bool:
    """Return whether a part of a program, or a function of the tree that it calls, reads samples from files."""
    resolver = project.fact(Resolver)
    calls = [one for one in walk(part.node) if isinstance(one, ast.Call)]
    return any(
        matches(_DECODERS, resolver.call_names(part.module, call))
        or (
            helpers > 0
            and any(
                isinstance(ref.node, FUNCTIONS) and _decodes(project, ref, helpers - 1)
                for ref in resolver.callees(part.module, call)
            )
        )
        for call in calls
    )


def _is_outside(place: NodeRef) -> bool:
    """Return whether a place runs when its module is imported."""
    return place.module.function(place.node) is None and not is_in_main(place)


def _held_in_memory(project: Project, loader: Loader) -> str:
    """Return the attribute in which the data set of a loader holds arrays or images that its samples are parts of;
    empty if there is none, or samples are read when they are asked for."""
    if "tokens" in project.fact(ItemWorks).of(loader).kinds:
        return ""
    resolver = project.fact(Resolver)
    for part in sets_of(project, loader):
        assert isinstance(part.node, ast.expr)
        for where, owner in resolver.classes_of(part.module, part.node):
            getter = resolver.method(where, owner, "__getitem__")
            if getter is not None and (name := _indexed_array(project, getter, owner, where)):
                return name
    return ""


@query
def _indexed_array(project: Project, getter: NodeRef, owner: ast.ClassDef, where: ModuleIndex) -> str:
    """Return the attribute of a data set that holds arrays, of which its getter takes one to work on; empty if there is
    none."""
    if _reads(project, getter, helpers=1):
        return ""
    for part in walk(getter.node):
        match part:
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name) as held, ctx=ast.Load()):
                taken = not isinstance(part.slice, ast.Constant) and _is_worked_on(getter, part)
                if taken and any(
                    _is_array(project, ref, _STEPS)
                    for ref in (*_bound(where, owner, name), NodeRef(getter.module, held), *_added(where, held, owner))
                ):
                    return name
    return ""


def _reads(project: Project, function: NodeRef, helpers: int) -> bool:
    """Return whether a function, or one of the tree that it calls, reads files."""
    calls = [part for part in walk(function.node) if isinstance(part, ast.Call)]
    if any(_READS.search(last_name(call.func)) for call in calls):
        return True
    called = project.fact(Resolver).callees
    return helpers > 0 and any(
        _reads(project, ref, helpers - 1) for call in calls for ref in called(function.module, call)
    )


def _is_worked_on(getter: NodeRef, taken: ast.expr, names: frozenset[str] = frozenset()) -> bool:
    """Return whether a function does more with a value than to convert it: passes it to another one, or cuts it."""
    module, inner = getter.module, taken
    for up in module.syntax.ancestors(taken):
        match up:
            case ast.Call(func=func) if inner is not func:
                if last_name(func) not in _CONVERTS:
                    return True
            case ast.Subscript(value=value) if value is inner:
                return True
            case ast.Assign(targets=[ast.Name(id=name)]) if name not in names:
                uses = [use for use in module.uses.get(name, ()) if module.function(use) is getter.node]
                return any(isinstance(use.ctx, ast.Load) and _is_worked_on(getter, use, names | {name}) for use in uses)
            case ast.stmt():
                return False
        if isinstance(up, ast.expr):
            inner = up
    return False


def _bound(where: ModuleIndex, owner: ast.ClassDef, name: str) -> Iterator[NodeRef]:
    """Yield what an attribute of a class is set to."""
    for one in where.attributes.get((owner, name), ()):
        if one.value is not None and not one.path:
            yield NodeRef(where, one.value)


def _added(module: ModuleIndex, held: ast.expr, scope: ast.AST) -> Iterator[NodeRef]:
    """Yield what a function or class appends to a list, or puts into a table."""
    text = ast.unparse(held)
    for call in module.calls_by_name.get("append", ()):
        adds = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == text and len(call.args) == 1
        if adds and scope in module.syntax.ancestors(call):
            yield NodeRef(module, call.args[0])
    for statement in module.syntax.of(ast.Assign):
        match statement.targets:
            case [ast.Subscript(value=table)] if ast.unparse(table) == text:
                if scope in module.syntax.ancestors(statement):
                    yield NodeRef(module, statement.value)


def _is_array(project: Project, ref: NodeRef, steps: int) -> bool:
    """Return whether an expression may be an array or an image, or a list of them."""
    if not steps:
        return False
    resolver = project.fact(Resolver)
    for origin in resolver.points_to(ref.module, ref.node):
        match origin.node:
            case ast.Call(func=func) as call:
                if matches(_ARRAYS, resolver.call_names(origin.module, call)):
                    return keyword_value(call, "mmap_mode") is None
                if matches(_IN_MEMORY, resolver.call_names(origin.module, call)):
                    return True
                if isinstance(func, ast.Attribute) and func.attr in _OF_ARRAYS:
                    return True
            case ast.ListComp(elt=element) | ast.DictComp(value=element):
                if _is_array(project, NodeRef(origin.module, element), steps - 1):
                    return True
            case ast.Subscript(value=base):
                if entry_of_file(project, NodeRef(origin.module, base)):
                    return True  # ``file["x"][:]`` reads it
            case ast.Dict(values=[_, *_] as values):
                if any(_is_array(project, NodeRef(origin.module, value), steps - 1) for value in values):
                    return True
            case ast.List(elts=[]):
                if any(_is_array(project, one, steps - 1) for one in _filled(origin)):
                    return True
    return False


def _filled(made: NodeRef) -> Iterator[NodeRef]:
    """Yield what the function around an empty list appends to it."""
    module, statement = made.module, made.module.syntax.parents.get(made.node)
    function = module.function(made.node)
    if isinstance(statement, ast.Assign) and isinstance(function, FUNCTIONS):
        for target in statement.targets:
            yield from _added(module, target, function)
