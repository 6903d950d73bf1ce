"""The edit that makes a data loader pin its memory; used by every fixer whose repair needs pinned batches."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import PythonModule
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.placement.devices import Device
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.unpinned_classes import UNPINNED, unpinned_class
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.first_bindings import runs_before
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, ModuleIndex
from gpulint_fixers.edits.comments import may_explain
from gpulint_fixers.loading.configured_workers import pinning_option
from gpulint_fixers.loading.loader_homes import by_home, siblings
from gpulint_fixers.loading.option_homes import add_options
from gpulint_fixers.loading.tensor_classes import OTHER_CLASS, other_tensors

_OFF = "`pin_memory=False` may be a choice: pinned batches take memory of the host that is never swapped out"
_IS_AVAILABLE = "torch.cuda.is_available()"
_MODULES = ("multiprocessing.", "torch.multiprocessing.")
_STARTS = frozenset(
    {"os.fork", "concurrent.futures.ProcessPoolExecutor", *(m + n for m in _MODULES for n in ("Process", "Pool"))}
)
_METHODS = frozenset(m + n for m in _MODULES for n in ("set_start_method", "get_context"))
_SPARSE = regex.compile(r"\b(ToSparseTensor|to_sparse(_\w+)?|sparse_\w+_tensor)\(")
"""https://github.com/pytorch/pytorch/issues/115330"""
_MACHINE = regex.compile(r"\b(laptop|cpu|mac|mps|local)", re.IGNORECASE)
"""Words of machines without a GPU of NVIDIA's, on which a test for one does not pin."""
_COMMENTED = regex.compile(r"#[^\n]{0,200}\bpin_memory\s*=")
_SPEAKS = regex.compile(r"\bpin(ned|ning|s)?\b|pin_mem", re.IGNORECASE)
_CUDA = regex.compile(r"cuda|gpu", re.IGNORECASE)


def pin(project: Project, loader: Loader) -> Edit | Declined:
    """Pass ``pin_memory``: ``True``, or the program's own test for a GPU where it may run without one."""
    syntax = loader.module.syntax
    if _may_be_sparse(loader.module):
        return Declined("batches may contain sparse tensors, which older versions of PyTorch cannot pin")
    if name := unpinned_class(project, loader):
        return Declined(UNPINNED.format(name))
    if name := other_tensors(project, loader):
        return Declined(OTHER_CLASS.format(name))
    value = _value(project, loader)
    if value == _IS_AVAILABLE and _forks(project, loader.module):
        value = "True"  # forked processes could not use the GPU after a question for it
    argument = loader_argument(project, loader, "pin_memory")
    if not argument.refs:
        if _COMMENTED.search(syntax.text(loader.node)):
            return Declined("a commented line beside it passes `pin_memory`")
        if _SPEAKS.search(_comments(syntax, loader.node)):
            return Declined("the comment beside the loader may say why its memory is not pinned")
        chosen = pinning_option(project, loader) or value
        return add_options(project, loader, ("pin_memory", chosen))
    passed = argument.refs[0].node
    own = [*loader.node.args, *(keyword.value for keyword in loader.node.keywords)]
    if isinstance(passed, ast.Constant) and any(passed is argument for argument in own):
        edit = Edit(syntax.path, syntax.span(passed), value)
        if may_explain(project, edit, about="pin") and not (value != "True" and _is_of_machine(syntax, passed)):
            return Declined("the comment beside `pin_memory` may explain why it is off")
        return edit
    return Declined("`pin_memory` is set elsewhere; enable it there")


def is_switched_off(loader: Loader) -> bool:
    """Return whether the call of a loader passes ``pin_memory=False``, which is the default."""
    given = keyword_value(loader.node, "pin_memory")
    return isinstance(given, ast.Constant) and given.value is False


def cautious(project: Project, made: Fix) -> Fix:
    """Return a fix as it is, or an unsafe one if it turns pinning on where a loader is told not to."""
    if made.safety is not Safety.SAFE:
        return made
    places = {(edit.path, edit.span) for edit in made.edits}
    modules = (project.module_at(path) for path in dict.fromkeys(edit.path for edit in made.edits))
    loaders = (one for module in modules if module is not None for one in project.fact(LoaderFlow).in_module(module))
    for loader in loaders:
        given = keyword_value(loader.node, "pin_memory")
        if given is None or not is_switched_off(loader):
            continue
        if (loader.module.path, loader.module.syntax.span(given)) in places:
            return replace(made, description=f"{made.description}; {_OFF}", safety=Safety.UNSAFE)
    return made


def _comments(syntax: PythonModule, call: ast.Call) -> str:
    """The comments above the statement of a call, and those on its lines."""
    statement = next((up for up in syntax.ancestors(call) if isinstance(up, ast.stmt)), None)
    first, last = (call if statement is None else statement).lineno, call.end_lineno or call.lineno
    source = syntax.source
    lines = [source.line(number).partition("#")[2] for number in range(first, last + 1)]
    while first > 1 and source.line(first - 1).lstrip().startswith("#"):
        first -= 1
        lines.append(source.line(first))
    return "\n".join(lines)


def _is_of_machine(syntax: PythonModule, passed: ast.Constant) -> bool:
    """Return whether the comment behind a value speaks of machines without a GPU."""
    return _MACHINE.search(syntax.source.line(passed.lineno).partition("#")[2]) is not None


@query
def _may_be_sparse(module: ModuleIndex) -> bool:
    return _SPARSE.search(module.syntax.source.text) is not None


def _value(project: Project, loader: Loader) -> str:
    """Return what a loader passes, which is the same as beside it: as the loaders there pass already, or will."""
    beside = siblings(_by_home(project, loader.module), loader)
    unpinned = [one for one in beside if project.fact(HostToDevice).is_pinned(one) is False]
    values = {_own_value(project, one) for one in (loader, *unpinned)}
    if written := next(filter(None, (_written(project, one, loader) for one in beside if one not in unpinned)), ""):
        return written if values <= {"True", _IS_AVAILABLE} else _own_value(project, loader)
    if len(values) == 1 or not _has_torch(loader):
        return _own_value(project, loader)
    return _IS_AVAILABLE


def _written(project: Project, pinned: Loader, loader: Loader) -> str:
    """Return what a loader beside another one passes, if that means the same there."""
    value = keyword_value(pinned.node, "pin_memory")
    if project.fact(HostToDevice).is_pinned(pinned) is not True or value is None:
        return ""
    if isinstance(value, ast.Constant) and value.value is True:
        return "True"
    if ast.unparse(value) == _IS_AVAILABLE:
        return _IS_AVAILABLE if _has_torch(loader) else ""
    if pinned.module.function(pinned.node) is not pinned.module.function(loader.node):
        return ""
    return value.id if isinstance(value, ast.Name) and pinned.node.lineno < loader.node.lineno else ""


@query
def _by_home(project: Project, module: ModuleIndex) -> dict[ast.AST | None, list[tuple[Loader, Loader]]]:
    """The loaders of a module, by what makes them."""
    return by_home((one, one) for one in project.fact(LoaderFlow).in_module(module))


def _has_torch(loader: Loader) -> bool:
    """Return whether a module knows PyTorch by its name where it makes a loader."""
    module = loader.module
    known = any(binding.target == "torch" for binding in module.top.bindings.get("torch", []))
    return known and not runs_before(module, module.syntax.span(loader.node), "torch")


@query
def _own_value(project: Project, loader: Loader) -> str:
    transfers = list(project.fact(DeviceTransfers).transfers_of(loader))
    tests = {_test(project, loader, transfer) for transfer in transfers}
    if len(tests) == 1 and None not in tests:
        return f"{tests.pop()}"
    if tests == {None} and all(transfer.devices == {Device.CUDA} for transfer in transfers):
        return "True"
    # Without CUDA PyTorch only warns of it, so True does no harm where torch has no name of its own, or where the
    # loaders around it get it.
    known = _known_values(project, loader.module) if not transfers else ()
    if len(known) > 1 and set(known) == {"True"}:
        return "True"
    return _IS_AVAILABLE if _has_torch(loader) else "True"


@query
def _known_values(project: Project, module: ModuleIndex) -> tuple[str, ...]:
    """Return what each loader of a module passes whose batches are seen moving."""
    moving = project.fact(DeviceTransfers).transfers_of
    loaders = project.fact(LoaderFlow).in_module(module)
    return tuple(_own_value(project, one) for one in loaders if any(True for _ in moving(one)))


@query
def _forks(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module that makes loaders may start processes by fork, as Python on Linux did by default before
    3.14."""
    if not project.fact(Resolver).calls_to(module, _STARTS):
        return False
    methods = project.fact(Resolver).calls_to(module, _METHODS)
    return not any(isinstance(n, ast.Constant) and n.value in ("spawn", "forkserver") for m in methods for n in m.args)


def _test(project: Project, loader: Loader, transfer: Transfer) -> str | None:
    """Return how the program itself says, where the loader is made, that a transfer goes to a GPU, or None."""
    module = transfer.call.module
    for test, holds in conditions(module, transfer.node):
        if holds and isinstance(test, ast.Name | ast.Attribute) and _CUDA.search(ast.unparse(test)):
            if project.fact(Constants).of(module, test).every(lambda value: not value):
                return None  # an option that is off by default: the loader would be one that does not pin
            return ast.unparse(test) if _means_the_same(module, test, loader) else None
    if transfer.devices == {Device.CUDA} or not isinstance(transfer.node.func, ast.Attribute):
        return None
    given = [*transfer.node.args, *(keyword.value for keyword in transfer.node.keywords if keyword.arg == "device")]
    device = given[0] if given and transfer.node.func.attr == "to" else None
    if not isinstance(device, ast.Name | ast.Attribute) or not _means_the_same(module, device, loader):
        return None
    made = [ref.node for ref in project.fact(Resolver).points_to(module, device)]
    if not made or not all(isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.device" for node in made):
        return None
    text, defaults = ast.unparse(device), _defaults(module, device)
    if not defaults:
        return f'{text}.type == "cuda"'
    are_texts = all(isinstance(one.value, str) for one in defaults)
    return f'torch.device({text}).type == "cuda"' if are_texts and _has_torch(loader) else None


def _defaults(module: ModuleIndex, device: ast.Name | ast.Attribute) -> list[ast.Constant]:
    """Return the literal defaults of a parameter, such as ``device="cpu"``: callers that are not seen may rely on
    them."""
    bound = module.scope(device).lookup(device.id) if isinstance(device, ast.Name) else []
    values = [one.value for one in bound if one.kind is BindingKind.PARAMETER]
    return [value for value in values if isinstance(value, ast.Constant)]


def _means_the_same(module: ModuleIndex, value: ast.Name | ast.Attribute, loader: Loader) -> bool:
    """Return whether the value is known by the same name, and certainly set, where the loader is made."""
    base = value.value if isinstance(value, ast.Attribute) else value
    if module is not loader.module or not isinstance(base, ast.Name) or base.id == "self":
        return False
    bindings = module.scope(loader.node).lookup(base.id)
    if not bindings or bindings != module.scope(base).lookup(base.id):
        return False
    if any(getattr(binding.node, "lineno", 0) >= loader.node.lineno for binding in bindings):
        return False
    return not isinstance(value, ast.Attribute) or _is_option(module, value, loader)


def _is_option(module: ModuleIndex, value: ast.Attribute, loader: Loader) -> bool:
    """Return whether ``args.cuda`` is an option of a parser in the module, set nowhere else than above the loader."""
    text = ast.unparse(value)
    stores = [target for target, _, _ in module.stores.get(ast.unparse(value.value), []) if ast.unparse(target) == text]
    function = module.function(loader.node)
    if stores:
        return all(store.lineno < loader.node.lineno and module.function(store) is function for store in stores)
    flags = {
        argument.value.lstrip("-").replace("-", "_")
        for call in module.calls_by_name.get("add_argument", [])
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }
    return value.attr in flags
