"""Metrics that look at the values they are given, and solvers of the host, for which it waits in each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.libraries import Models
from gpulint.libraries.names import matches
from gpulint.libraries.operations import Sync
from gpulint.numerals import whole
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.computed_values import ComputedValues
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.devices import Device
from gpulint.placement.expressions import is_weight, joined_parts
from gpulint.placement.host_values import HostValues
from gpulint.placement.tensor_location import TensorLocations
from gpulint.programs.package_lists import Release
from gpulint.programs.stated_releases import predates
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.path_conditions import parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.empty_tests import is_of_mask
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, ModuleIndex, NodeRef, last_name
from gpulint_rules.data.detection_models import matches_targets

_WRITES = frozenset({"add_histogram", "add_image", "add_images", "add_video", "save_image"})
"""Functions that copy tensors to write them."""
_SIZING = frozenset({"unique", "unique_consecutive", "argwhere", "bincount", "to_sparse", "coalesce"})
"""Methods of tensors whose result has as many values as there are."""
_MAKES_OF_NUMBERS = frozenset(
    f"torch.{name}"
    for name in ("tensor", "as_tensor", "Tensor", "FloatTensor", "DoubleTensor", "LongTensor", "IntTensor")
)
"""Functions that read each element of a list."""
_GATHERS = frozenset(name.rpartition(".")[2] for name in _MAKES_OF_NUMBERS)
_WITHOUT_SIZE = {"one_hot": 1, "global_add_pool": 2, "global_max_pool": 2, "global_mean_pool": 2}
"""Functions that take the size of their result as the argument after so many."""
_DEFAULT = b"set_default_validate_args"
_READING_STEPS = frozenset({"torch.optim.LBFGS", "torch.optim.lr_scheduler.ReduceLROnPlateau"})
_METHODS = frozenset({"update", "forward"})
_MOVES = frozenset({"to", "cuda"})


def _release(text: str) -> Release:
    return tuple(whole(part) or 0 for part in text.split("."))


class _Checks:
    """The rows of calls that check, and the packages that have them."""

    def __init__(self, models: Models) -> None:
        rows: tuple[Sync, ...] = models.rows("sync")
        self.rows = tuple(row for row in rows if row.kind == "check")
        self.validating = tuple(row for row in rows if row.kind == "validate")
        self.made = frozenset(name.rpartition(".")[2].lstrip("*") for row in self.validating for name in row.calls)
        self.solvers = tuple(name for row in rows if row.kind == "solve" for name in row.calls)
        self.solver_names = frozenset(name.rpartition(".")[2] for name in self.solvers)
        self.decomposing = frozenset(name for row in rows if row.kind == "decompose" for name in row.calls)
        self.sizes = {name: row for row in rows if row.kind == "size" for name in row.calls}
        self.objects = frozenset(name for row in rows if row.kind == "object" for name in row.calls)
        self.older = {name: _release(row.before) for row in rows if row.kind == "branch" for name in row.calls}
        self.older_names = frozenset(name.rpartition(".")[2] for name in self.older)
        self.size_names = frozenset(name.rpartition(".")[2] for name in self.sizes)
        self.object_names = frozenset(name.rpartition(".")[2] for name in self.objects)
        self.packages = frozenset(name.partition(".")[0] for row in self.rows for name in row.calls)


def checks_values(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call gives a metric values that it looks at: ``accuracy(output, labels)``,
    ``self.accuracy.update(output, labels)``."""
    known = project.models.derived(_Checks)
    if len(call.args) + len(call.keywords) < 2 or module.packages.isdisjoint(known.packages):
        return False
    resolver = project.fact(Resolver)
    if any(_is_of(row, resolver.call_names(module, call), call) for row in known.rows):
        return True
    metric = call.func
    if isinstance(metric, ast.Attribute) and metric.attr in _METHODS:
        metric = metric.value
    made = [ref for ref in resolver.points_to(module, metric) if not ref.path]
    return any(
        isinstance(one := _unmoved(ref.node), ast.Call)
        and any(_is_of(row, resolver.call_names(ref.module, one), one) for row in known.rows)
        for ref in made
    )


def validates_parameters(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call makes a distribution that tests its parameters on the GPU: ``Categorical(logits=logits)``;
    not those of constants and of what is in host memory."""
    known, name = project.models.derived(_Checks), last_name(call.func)
    if not name.endswith(tuple(known.made)) or project.word_index.mentioning(_DEFAULT):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg != "validate_args")]
    names = project.fact(Resolver).call_names(module, call)
    return any(_is_of(row, names, call) for row in known.validating) and any(
        isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        and not project.fact(TensorLocations).is_host(module, value)
        and not project.fact(Constants).of(module, value).values
        for value in given
    )


def solves_on_host(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call needs a copy of what the model computed: ``linear_sum_assignment(cost)``,
    ``index.search(queries, 5)`` with ``index = faiss.IndexFlatL2(64)``."""
    known, name = project.models.derived(_Checks), last_name(call.func)
    if name not in known.solver_names:
        return False
    resolver = project.fact(Resolver)
    if matches(known.solvers, resolver.call_names(module, call)):
        return True
    made = resolver.points_to(module, call.func.value) if isinstance(call.func, ast.Attribute) else ()
    names = (one for ref in made if isinstance(ref.node, ast.Call) for one in resolver.call_names(ref.module, ref.node))
    return matches(known.solvers, [f"{one}.{name}" for one in names])


def decomposes(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call raises an error where a matrix on the GPU is singular: ``torch.linalg.solve(a, b)``."""
    known = project.models.derived(_Checks).decomposing
    if not call.args or last_name(call.func) not in {name.rpartition(".")[2] for name in known}:
        return False
    on_host = project.fact(HostValues).holds(module, call.args[0])
    return not on_host and not known.isdisjoint(project.fact(Resolver).call_names(module, call))


def looks_at_values(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call waits for a value: of a metric, a distribution, a solver, a detection model."""
    return (
        checks_values(project, module, call)
        or validates_parameters(project, module, call)
        or solves_on_host(project, module, call)
        or decomposes(project, module, call)
        or matches_targets(project, module, call)
    )


def waits_itself(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call needs on the host what the GPU computed, to size its result or to check it:
    ``torch.unique(x)``, ``torch.tensor([loss])``, ``clip_grad_norm_(..., error_if_nonfinite=True)``,
    the step of a scheduler that waits for a plateau."""
    name = last_name(call.func)
    match keyword_value(call, "error_if_nonfinite") if name == "clip_grad_norm_" else None:
        case ast.Constant(value=True):
            return True
    if name == "step" and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
        made = project.fact(Resolver).points_to(module, call.func.value)
        return any(
            isinstance(ref.node, ast.Call) and project.fact(Resolver).call_names(ref.module, ref.node) & _READING_STEPS
            for ref in made
        )
    if name in _GATHERS:
        return _gathers(project, module, call)
    if name in _WRITES:
        return any(_is_on_gpu(project, module, given) for given in call.args)
    known = project.models.derived(_Checks)
    if name in known.object_names and not known.objects.isdisjoint(project.fact(Resolver).call_names(module, call)):
        return True
    return _waits_in_release(project, module, call) or sizes_result(project, module, call)


def _waits_in_release(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call decides by a value on the GPU in the release of PyTorch that a program is written for:
    ``clip_grad_norm_(parameters, 1.0)`` beside ``torch==1.8.1``."""
    known = project.models.derived(_Checks)
    if last_name(call.func) not in known.older_names:
        return False
    bounds = [known.older[name] for name in project.fact(Resolver).call_names(module, call) if name in known.older]
    return any(predates(project, module, before) for before in bounds)


def _gathers(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call makes a tensor of what it reads one by one: ``torch.tensor([0.0, margin - loss])``."""
    names = project.fact(Resolver).call_names(module, call)
    match call.args:
        case [ast.List() | ast.Tuple() | ast.ListComp() as listed, *_] if names and names <= _MAKES_OF_NUMBERS:
            tensors = project.fact(TensorLocations)
            return any(
                project.fact(ComputedValues).holds(module, part) and not tensors.is_host(module, part)
                for part in joined_parts(listed)
            )
    return False


def _is_on_gpu(project: Project, module: ModuleIndex, given: ast.expr) -> bool:
    tensors = project.fact(TensorLocations)
    seen = is_weight(module, given) or tensors.is_tensor(module, given)
    return seen and not tensors.is_host(module, given)


def sizes_result(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the host needs a value of the GPU for the size of a result: ``torch.unique(x)``,
    ``mask.nonzero()``."""
    name = last_name(call.func)
    tensors = project.fact(TensorLocations)
    if name == "nonzero" and isinstance(call.func, ast.Attribute) and not call.args:
        of_torch = keyword_value(call, "as_tuple") is not None or tensors.is_tensor(module, call.func.value)
        return of_torch and not _is_on_host(project, module, call.func.value)
    if name in _SIZING and isinstance(call.func, ast.Attribute) and tensors.is_tensor(module, call.func.value):
        return not _is_on_host(project, module, call.func.value)
    known = project.models.derived(_Checks)
    if name == "where" and len(call.args) == 1 and not call.keywords:
        torch = "torch.where" in project.fact(Resolver).call_names(module, call)
        return torch and not _is_on_host(project, module, call.args[0])
    if name not in known.size_names:
        return False
    names = project.fact(Resolver).call_names(module, call)
    rows = [row for one, row in known.sizes.items() if one in names and not _gives_size(project, module, call, row)]
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    values = [one for one in given if not isinstance(one, ast.Constant)]
    return bool(rows and values) and not any(_is_on_host(project, module, one) for one in values)


def _is_on_host(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    return project.fact(TensorLocations).is_host(module, value) or project.fact(HostValues).holds(module, value)


def _gives_size(project: Project, module: ModuleIndex, call: ast.Call, row: Sync) -> bool:
    """Return whether a call names the size of its result, or has only numbers that make it."""
    if not row.unless:
        return False
    name = last_name(call.func)
    if name == "repeat_interleave" and len(call.args) > 1:
        if not project.fact(TensorLocations).is_tensor(module, call.args[1]):
            return True
    elif len(call.args) > _WITHOUT_SIZE.get(name, len(call.args)):
        return True
    return keyword_value(call, row.unless) is not None


def _is_of(row: Sync, names: frozenset[str], call: ast.Call) -> bool:
    unless = keyword_value(call, row.unless) if row.unless else None
    return matches(row.calls, names) and not (isinstance(unless, ast.Constant) and unless.value is False)


def _unmoved(node: ast.AST) -> ast.AST:
    """``Accuracy(...)`` of ``Accuracy(...).to(device)``."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _MOVES:
            return _unmoved(inner)
    return node


@query
def mask_tests(project: Project, module: ModuleIndex) -> tuple[ast.expr, ...]:
    """Return the tests whether a mask picks anything, unless it is seen to be on the host: ``if mask.sum() > 0``,
    ``if found`` after ``found = valid.any()``."""
    branches: Iterator[ast.If | ast.IfExp] = module.syntax.of(ast.If, ast.IfExp)
    tested = ((branch.test, part) for branch in branches for part, _ in parts_of(branch.test, True))
    return tuple(
        test for test, part in tested if any(_is_mask_on_gpu(project, module, one) for one in _masks(module, part))
    )


def _masks(module: ModuleIndex, test: ast.expr) -> Iterator[ast.Call]:
    """The counts of masks that a test compares with zero, or takes for true."""
    match test:
        case ast.Compare(left=left, comparators=[ast.Constant(value=0)]):
            test = left
    if isinstance(test, ast.Name):
        bound = reaching(module, module.scope(test).lookup(test.id), test)
        made = [one.value for one in bound if one.kind is BindingKind.ASSIGN and not one.path]
    else:
        made = [test]
    yield from (one for one in made if isinstance(one, ast.Call) and is_of_mask(one))


def _is_mask_on_gpu(project: Project, module: ModuleIndex, count: ast.Call) -> bool:
    """Return whether nothing shows that the elements of a mask are on the host."""
    mask = count.args[0] if count.args else getattr(count.func, "value", count)
    drawn = project.fact(BatchFlow).batch_of(module, mask)
    if drawn is not None and _moves_in_place(project, drawn.where):
        return True
    return "torch" in module.packages and not _is_on_host(project, module, mask)


@query
def _moves_in_place(project: Project, loop: NodeRef) -> bool:
    """Return whether a loop puts copies of parts of a batch in their place: ``targets[key] = targets[key].cuda()``."""
    moves = project.fact(DeviceTransfers)
    for part in walk(loop.node):
        match part:
            case ast.Assign(
                targets=[ast.Subscript() as target], value=ast.Call(func=ast.Attribute(value=source)) as call
            ):
                moved = moves.transfer_at(loop.module, call) if ast.unparse(source) == ast.unparse(target) else None
                if moved is not None and (moved.to_gpu or Device.CUDA in moved.devices):
                    return True
    return False
