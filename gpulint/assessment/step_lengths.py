"""Steps that take longer than usual, as far as the code tells: a wait or a small copy costs little beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.amounts import batch_of
from gpulint.assessment.image_sides import side_of
from gpulint.assessment.large_models import MAX_USERS, has_large_model
from gpulint.assessment.unreached_programs import is_for_own_program
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.environment_actions import rolls_out
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.argument_exits import is_left_in_each_step
from gpulint.training.bounded_loops import lasts_for, stops_within
from gpulint.training.generation import generates
from gpulint.training.guards import Guards
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.workload.item_work import ItemWorks
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef, dotted, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

LARGE_SIDE = 128
"""Pixels of a side of images from which on several networks in one step are no small ones (assumed)."""
_ACCUMULATES = regex.compile(r"accum|micro", re.IGNORECASE)
_READS = frozenset(
    {"gzip.open", "pickle.load", "np.load", "numpy.load", "torch.load", "h5py.File", "pd.read_csv", "pandas.read_csv",
     "Image.open", "cv2.imread", "joblib.load", "zipfile.ZipFile", "tarfile.open"}
)  # fmt: skip
"""Calls that read a file."""
_DECODED = frozenset({"volume", "video"})
"""Kinds of samples that take longer to decode than most steps do."""
_POOL = regex.compile(r"(^|_)(pool|executor)$", re.IGNORECASE)
_POOL_METHODS = frozenset({"map", "starmap", "imap", "imap_unordered", "apply"})
_STARTS = frozenset({"subprocess.run", "subprocess.check_call", "subprocess.check_output", "os.system"})
"""Calls that wait for the work of other processes."""

_GRADIENTS = regex.compile(r"(^|\.)autograd\.grad$")
_MOST_ROUNDS = 2
"""Rounds up to which a loop that takes gradients makes no step long."""
_MANY_PASSES = 10
"""Passes for one batch beside which loading it takes little of a step (assumed)."""
_MODEL = regex.compile(
    r"(^|_)(model|net|network|u_?net|encoder|decoder|generator|transformer|diffusion|pipe(line)?)$",
    re.IGNORECASE,
)
_SAMPLES = regex.compile(r"(^|_)(sample|denoise|generate|diffusion|ddim)(_|$)")
"""Names of what runs a model in many steps."""
_NO_PASS = frozenset(
    "parameters named_parameters modules named_modules children named_children state_dict train eval zero_grad to cuda"
    " requires_grad_ add_module".split()
)
"""Methods of a model that compute nothing."""


def long_step(subject: Subject) -> str:
    """Return why all steps around a finding are long, in words; empty if nothing tells."""
    steps = [context for context in subject.contexts if context.role is Role.STEP]
    reasons = [
        _reason(subject.project, context.loop, context.calls[0].node if context.calls else subject.node)
        for context in steps
    ]
    return reasons[0] if all(reasons) and reasons else ""


def long_step_of(project: Project, loader: Loader) -> str:
    """Return why the steps that draw the batches of a loader are long, in words; empty if nothing tells."""
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    modules = dict.fromkeys((*(read.where.module for read in reads), loader.module))
    own = is_for_own_program(project, loader.module, loader.node.lineno)  # what imports its classes makes others
    large = any(has_large_model(project, one, 0 if own and one is loader.module else MAX_USERS) for one in modules)
    return "long steps of a large model" if large else ""


def passes_several_times(subject: Subject) -> bool:
    """Return whether each batch of a loader goes through several backward passes, in an inner loop over its parts, over
    its time steps or of a function that each step calls."""
    loops = _drawing_loops(subject)
    return bool(loops) and all(
        _backward_loops(loop.module, loop.node) or _differentiates_often(subject.project, loop) for loop in loops
    )


def attacks_each_batch(subject: Subject) -> bool:
    """Return whether each step takes gradients again and again for each batch of a loader, in a function that it calls,
    as an attack on the model does, or in an inner loop of many rounds."""
    loops, project = _drawing_loops(subject), subject.project
    return bool(loops) and all(_differentiates_often(project, loop) or _repeats_batch(project, loop) for loop in loops)


@query
def _repeats_batch(project: Project, loop: NodeRef) -> bool:
    """Return whether each round of a loop takes many gradients for its batch: ``for again in range(50):`` with a
    backward pass. A round that takes a batch of its own (``next(batches)``) or a part of the batch
    (``images[:, again]``) repeats none."""
    guards = project.fact(Guards)
    return any(
        lasts_for(project, NodeRef(loop.module, part), _MANY_PASSES)
        and not guards.is_conditional(loop.module, part, loop.node)
        and not _takes_part(part)
        for part in _backward_loops(loop.module, loop.node)
    )


def _takes_part(loop: ast.AST) -> bool:
    """Return whether each round of a loop draws a batch, or indexes something by the number of the round."""
    number = loop.target.id if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) else ""
    indices = (part.slice for part in walk(loop) if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load))
    return any(last_name(call.func) == "next" for call in _calls_of_body(loop)) or any(
        isinstance(name, ast.Name) and name.id == number for index in indices for name in walk(index)
    )


def _drawing_loops(subject: Subject) -> list[NodeRef]:
    loader = subject.cost.loader if subject.cost is not None else None
    if loader is None:
        return []
    reads = subject.project.fact(BatchFlow).of_loader(loader.module, loader.node)
    return [read.where for read in reads if isinstance(read.where.node, LOOPS)]


@query
def _differentiates_often(project: Project, loop: NodeRef) -> bool:
    """Return whether each round of a loop calls a function that takes gradients again and again: an attack on the model
    (``pgd(model, images, labels)``)."""
    guards, resolver = project.fact(Guards), project.fact(Resolver)
    return any(
        isinstance(one.node, FUNCTIONS) and _has_gradient_loop(project, one)
        for call in _calls_of_body(loop.node)
        if not guards.is_conditional(loop.module, call, loop.node)
        for one in resolver.callees(loop.module, call)
    )


@query
def _has_gradient_loop(project: Project, function: NodeRef) -> bool:
    """Return whether a function has a loop of more than two rounds that takes gradients."""
    return any(
        isinstance(part, LOOPS)
        and (_calls(part, "backward") or any(_GRADIENTS.search(dotted(call.func)) for call in _calls_of_body(part)))
        and not stops_within(project, NodeRef(function.module, part), _MOST_ROUNDS)
        and not is_left_in_each_step(project, NodeRef(function.module, part), _MOST_ROUNDS)
        for part in walk(function.node)
    )


def passes_often(subject: Subject) -> bool:
    """Return whether each step around a finding runs a model in an inner loop, such as over the frames of a video,
    draws samples from it, or calls a function that takes gradients again and again."""
    loops = [context.loop for context in subject.contexts if context.role is Role.STEP]
    return bool(loops) and all(
        _passes_often(loop.module, loop.node) or _differentiates_often(subject.project, loop) for loop in loops
    )


@query
def _passes_often(_module: ModuleIndex, loop: ast.AST) -> bool:
    inner = [part for part in walk(loop) if isinstance(part, LOOPS) and part is not loop]
    repeated = (call for part in inner if not _calls(part, "backward") for call in _calls_of_body(part))
    return any(map(_passes, repeated)) or any(
        _SAMPLES.search(last_name(call.func)) and (_passes(call) or any(map(_is_model, call.args)))
        for call in _calls_of_body(loop)
    )


def _passes(call: ast.Call) -> bool:
    """Return whether a call runs a model: ``model(x)``, ``self.net.encode(x)``."""
    if isinstance(call.func, ast.Attribute) and _is_model(call.func.value):
        return call.func.attr not in _NO_PASS
    return _is_model(call.func)


def _is_model(node: ast.expr) -> bool:
    return _MODEL.search(last_name(node)) is not None


def _reason(project: Project, loop: NodeRef, node: ast.AST | None) -> str:
    if node is not None and _accumulates(loop, node):
        return "beside several passes of the same step"
    return _reason_of_loop(project, loop)


@query
def _reason_of_loop(project: Project, loop: NodeRef) -> str:
    if isinstance(loop.node, LOOPS) and _always_calls(project, loop, lambda call: dotted(call.func) in _READS):
        return "each step reads files"
    if isinstance(loop.node, ast.For) and (decoded := _decoded(project, loop.module, loop.node)):
        return f"each step decodes {decoded}"
    if isinstance(loop.node, LOOPS) and _always_calls(project, loop, _runs_processes):
        return "each step runs other processes"
    if isinstance(loop.node, LOOPS) and _generates_always(project, loop):
        return "each step generates token by token"
    if _networks(_stepping(loop)) > 1 and side_of(loop.module) >= LARGE_SIDE:
        return "long steps of several networks"
    return "long steps of a large model" if has_large_model(project, loop.module) else ""


def _decoded(project: Project, module: ModuleIndex, loop: ast.For) -> str:
    """The volumes or videos that the training process itself decodes for each batch of a loop, in seconds; else
    empty."""
    loaders = project.fact(LoaderFlow).loaders_of(module, unwrap_iterable(loop.iter))
    kinds = [_DECODED.intersection(project.fact(ItemWorks).of(loader).kinds) for loader in loaders]
    if not kinds or not all(kinds) or not all(loads_in_process(project, loader) for loader in loaders):
        return ""
    return " and ".join(f"{kind}s" for kind in sorted(_DECODED.intersection(chain.from_iterable(kinds))))


def _accumulates(loop: NodeRef, node: ast.AST) -> bool:
    """Return whether the place runs once after several backward passes of the loop.

    An inner loop that the place is not in takes the passes, or rounds that only accumulate end before the place
    (``if micro < grad_accum: continue``).
    """
    if any(line < getattr(node, "lineno", 0) for line in _accumulating_rounds(loop.module, loop.node)):
        return True
    inner = _backward_loops(loop.module, loop.node)
    return bool(inner) and not inner <= {node, *loop.module.syntax.ancestors(node)}


@query
def _backward_loops(_module: ModuleIndex, loop: ast.AST) -> frozenset[ast.AST]:
    """The loops in a loop that take backward passes."""
    inner = (part for part in walk(loop) if isinstance(part, LOOPS) and part is not loop)
    return frozenset(part for part in inner if _calls(part, "backward"))


@query
def _accumulating_rounds(_module: ModuleIndex, loop: ast.AST) -> tuple[int, ...]:
    """The lines of tests that end a round of a loop which only accumulates, after its backward pass."""
    body = getattr(loop, "body", ())
    passed = next((number for number, part in enumerate(body) if _calls(part, "backward")), len(body))
    return tuple(
        part.lineno
        for part in body[passed + 1 :]
        if isinstance(part, ast.If)
        and isinstance(part.body[-1], ast.Continue)
        and _ACCUMULATES.search(ast.unparse(part.test)) is not None
    )


def _calls(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == name
        for part in walk(node)
    )


def _always_calls(project: Project, loop: NodeRef, is_meant: Callable[[ast.Call], bool]) -> bool:
    """Return whether each round of a loop makes a call of some kind."""
    guards = project.fact(Guards)
    return any(
        is_meant(call) and not guards.is_conditional(loop.module, call, loop.node) for call in _calls_of_body(loop.node)
    )


def _runs_processes(call: ast.Call) -> bool:
    """``pool.map(play, games)``, ``subprocess.run(...)``."""
    match call.func:
        case ast.Attribute(value=owner, attr=name) if name in _POOL_METHODS:
            return _POOL.search(last_name(owner.func if isinstance(owner, ast.Call) else owner)) is not None
    return dotted(call.func) in _STARTS


def _calls_of_body(loop: ast.AST) -> Iterator[ast.Call]:
    for statement in getattr(loop, "body", ()):
        yield from (part for part in walk(statement) if isinstance(part, ast.Call))


def _stepping(loop: NodeRef) -> ast.AST:
    """The loop, or the next one around whose optimizers step where its own rounds only accumulate gradients."""
    for up in (loop.node, *loop.module.syntax.ancestors(loop.node)):
        if isinstance(up, FUNCTIONS):
            break
        if isinstance(up, LOOPS) and _networks(up):
            return up
    return loop.node


def _networks(loop: ast.AST) -> int:
    """The number of optimizers that each step steps."""
    return len(
        {
            ast.unparse(call.func.value)
            for call in _calls_of_body(loop)
            if isinstance(call.func, ast.Attribute) and call.func.attr == "step"
            if "optim" in last_name(call.func.value).lower() or last_name(call.func.value).lower().startswith("opt")
        }
    )


def generates_in_each(subject: Subject) -> bool:
    """Return whether each step around also generates text with a model."""
    loops = [context.loop for context in subject.contexts if context.role is Role.STEP]
    return bool(loops) and all(_generates_always(subject.project, loop) for loop in loops)


def loads_beside_generation(subject: Subject) -> bool:
    """Return whether each step that draws the texts of a loader also generates text with a model."""
    loader = subject.cost.loader if subject.cost is not None else None
    if loader is None or batch_of(subject, loader).kind != "text":
        return False
    reads = subject.project.fact(BatchFlow).of_loader(loader.module, loader.node)
    return bool(reads) and all(_generates_always(subject.project, read.where) for read in reads)


@query
def _generates_always(project: Project, loop: NodeRef) -> bool:
    return _always_calls(project, loop, generates)


def steps_through_environment(subject: Subject) -> bool:
    """Return whether each round of the training around also goes through many steps of an environment."""
    loops = [context.loop for context in subject.contexts if context.role is Role.STEP]
    return bool(loops) and all(rolls_out(subject.project, loop.module, loop.node) for loop in loops)
