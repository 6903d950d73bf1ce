"""Models that are trained where PyTorch made them, on the CPU, in a program that uses a GPU elsewhere."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.host_results import copies_to_host
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.tensor_location import TensorLocations
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.importing_modules import importing_files
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import BindingKind, LoopNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_ELSEWHERE = ("set_default_device", "set_default_tensor_type")
_MOVES = frozenset({"to", "cuda", "to_empty", "apply"})
_KEEPS = frozenset({"Variable", "float", "double", "long", "view", "reshape", "squeeze", "unsqueeze"})
"""Calls whose result is where their argument is."""
_HOOK = "register_forward_pre_hook"
"""By which a model may move what it gets."""
_MOVING = _MOVES | {"prepare", "send_to_device"}
"""Calls after which batches may be on a GPU."""
_SAME = _MOVES | {"train", "eval", "float", "double", "half"}
"""Methods of models that return the model."""
_DEVICES = regex.compile(r"\bdevice|cuda|\.to\(|DataParallel")
"""What a model says that moves what it gets."""
_SPEAKS_OF_DEVICES = frozenset({"device", "cuda", "to"})


@query
def trains_on_host(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether a loop passes batches as they come from a loader to a model that nothing moves, or that takes them
    as they are and so fails where it is on a GPU; or whether its optimizers update single tensors that are made on the
    host."""
    if any(name in module.syntax.source.text for name in _ELSEWHERE):
        return False
    if _updates_host_tensors(project, module, loop) or _leaves_batches(project, module, loop):
        return True
    calls = project.fact(LoopContexts).calls_in(module, loop)
    moves = any(last_name(call.func) in _MOVING for call in calls)
    for call in calls:
        if not isinstance(call.func, ast.Name) or not call.args:
            continue
        if not _is_host_batch(project, module, call.args[0]):
            continue
        if _stays(project, module, call.func):
            return True
        if not moves and _is_unchanged(loop, call.args[0]) and _takes_as_it_is(project, module, call.func):
            return True
    return False


@query
def stays_where_made(project: Project, module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether a forward pass of a program that uses a GPU elsewhere gets batches as they come from a loader and
    is of a model that a module makes, names no device for, and lends to no other module."""
    if not isinstance(forward.func, ast.Name) or not forward.args or _DEVICES.search(module.syntax.source.text):
        return False
    if any(True for name in _ELSEWHERE for _ in project.python_files_with(name.encode())):
        return False
    given = (*forward.args, *(keyword.value for keyword in forward.keywords))
    name = forward.func.id
    return (
        _stays(project, module, forward.func)
        and all(_is_host_batch(project, module, one) for one in given)
        and not (name in module.top.bindings and _is_lent(project, module, name))
    )


def _is_lent(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether another module may get what a module has under a name: ``from module import model``, or ``*``."""
    users = map(project.module_at, importing_files(project, module.path, name))
    return any(
        user is None
        or any(alias.name in (name, "*") for node in user.syntax.of(ast.ImportFrom) for alias in node.names)
        or any(node.attr == name and _is_imported(user, node.value) for node in user.syntax.of(ast.Attribute))
        for user in users
    )


def _is_imported(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a name, or the first one of ``package.module``, is imported."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and any(
        binding.kind is BindingKind.IMPORT for binding in module.scope(node).lookup(node.id)
    )


def is_of_cpu_program(project: Project, module: ModuleIndex, home: ModuleIndex) -> bool:
    """Return whether a loop is in another program, which computes on the CPU (a demo of a loss), and the module names
    no GPU itself."""
    return (
        home is not module
        and "__main__" in home.syntax.source.text
        and "cuda" not in module.syntax.source.text
        and not project.fact(GpuPrograms).runs_on_gpu(home)
    )


def _leaves_batches(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether a loop moves its batches to a device that its function has by default, no call passes another,
    and that is the CPU (``def fit(model, loader, device="cpu")``)."""
    calls = [
        call
        for call in project.fact(LoopContexts).calls_in(module, loop)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda")
    ]
    moves = [call for call in calls if _is_host_batch(project, module, call.func.value)]  # type: ignore[attr-defined]
    return bool(moves) and all(
        call.func.attr == "to" and bool(call.args) and _is_cpu(project, module, call.args[0])  # type: ignore[attr-defined]
        for call in moves
    )


def _is_cpu(project: Project, module: ModuleIndex, device: ast.expr) -> bool:
    """Return whether a device is the CPU by constants alone; an option may be another one."""
    origins = project.fact(Resolver).points_to(module, device)
    return bool(origins) and all(_names_cpu(project, one.module, one.node) for one in origins)


def _names_cpu(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return text.startswith("cpu")
        case ast.Call(args=[ast.Constant(value=str(text))]):
            return text.startswith("cpu") and "torch.device" in project.fact(Resolver).call_names(module, node)
    return False


def _updates_host_tensors(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """``Adam([kernel])`` of ``kernel = torch.ones(9, requires_grad=True)``: what is computed with it lies there too."""
    steps = [call.func for call in project.fact(LoopContexts).calls_in(module, loop) if last_name(call.func) == "step"]
    owners = [func.value for func in steps if isinstance(func, ast.Attribute)]
    made = [one for owner in owners for one in _made_from(module, owner) if _is_optimizer(project, module, one)]
    given = [call.args[0] for call in made if call.args]
    return bool(made) and len(given) == len(made) and all(_are_host_leaves(project, module, one) for one in given)


def _are_host_leaves(project: Project, module: ModuleIndex, given: ast.expr) -> bool:
    if not isinstance(given, ast.List | ast.Tuple) or not given.elts:
        return False
    return all(_is_host_leaf(project, module, part) for part in given.elts)


def _made_from(module: ModuleIndex, node: ast.expr) -> list[ast.Call]:
    """The calls that a variable may be bound to."""
    if not isinstance(node, ast.Name):
        return []
    bindings = reaching(module, module.scope(node).lookup(node.id), node)
    return [one.value for one in bindings if isinstance(one.value, ast.Call) and not one.path]


def _is_optimizer(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    return any(name.startswith("torch.optim.") for name in project.fact(Resolver).call_names(module, call))


def _is_host_leaf(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    made = _made_from(module, node)
    return bool(made) and all(project.fact(TensorLocations).is_made_on_host(module, call) for call in made)


def _is_host_batch(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    batch_read = project.fact(BatchFlow).batch_of(module, node)
    return (
        batch_read is not None
        and bool(batch_read.loaders)
        and not batch_read.prepared
        and not any(project.fact(HostToDevice).yields_gpu_tensors(loader) for loader in batch_read.loaders)
    )


def _stays(project: Project, module: ModuleIndex, model: ast.Name) -> bool:
    """Return whether a name is given only modules as they are made, and nothing of it is moved; or a parameter gets
    such modules from callers that move nothing."""
    bindings = reaching(module, module.scope(model).lookup(model.id), model)
    if bindings and all(binding.kind is BindingKind.PARAMETER for binding in bindings):
        origins = project.fact(Resolver).points_to(module, model)
        return bool(origins) and all(
            isinstance(ref.node, ast.Call)
            and makes_module(project, ref.module, ref.node)
            and not any(map(_moves_in_place, (module, ref.module)))
            and not _is_moved_copy(ref.module, ref.node)
            for ref in origins
        )
    made = [binding.value for binding in bindings if binding.kind is BindingKind.ASSIGN and not binding.path]
    if not made or len(made) < len(bindings):
        return False
    if not all(isinstance(value, ast.Call) and makes_module(project, module, value) for value in made):
        return False
    moved = (call for name in _MOVES for call in module.calls_by_name.get(name, []))
    return not any(
        isinstance(call.func, ast.Attribute)
        and last_name(call.func.value) == model.id
        and isinstance(module.syntax.parents.get(call), ast.Expr)
        for call in moved
    )


def _is_unchanged(loop: LoopNode, given: ast.expr) -> bool:
    """Return whether a loop gives a variable only what it draws, and hands it to no function that may move its parts in
    place."""
    if not isinstance(given, ast.Name):
        return False
    for part in walk(loop):
        match part:
            case ast.Assign(targets=targets, value=value) if given.id in _stored(targets):
                calls = (one for one in walk(value) if isinstance(one, ast.Call))
                if not all(last_name(call.func) in _KEEPS for call in calls):
                    return False
            case ast.Expr(value=ast.Call(args=args)) if any(last_name(one) == given.id for one in args):
                return False
    return True


def _stored(targets: list[ast.expr]) -> list[str]:
    return [part.id for target in targets for part in walk(target) if isinstance(part, ast.Name)]


def _takes_as_it_is(project: Project, module: ModuleIndex, model: ast.Name) -> bool:
    """Return whether a model is one of torchvision or of the tree, not wrapped by what moves batches, whose code names
    no device."""
    origins = [(one.module, _unmoved(one.node)) for one in project.fact(Resolver).points_to(module, model)]
    if any(_HOOK in where.calls_by_name for where in (module, *(where for where, _ in origins))):
        return False
    return bool(origins) and all(
        isinstance(made, ast.Call)
        and (is_made_by_library(project, where, made) or _is_without_devices(project, where, made))
        for where, made in origins
    )


def _unmoved(node: ast.AST) -> ast.AST:
    """Return ``Net()`` of ``Net().to(device)``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        node = node.func.value
    return node


def is_made_by_library(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    """Return whether torchvision makes a model, on the CPU."""
    names = project.fact(Resolver).call_names(module, made)
    return bool(names) and all(name.startswith("torchvision.models.") for name in names)


def _is_without_devices(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    """Return whether no class beside that of a model, or in what its module imports, may move what the model gets."""
    if not makes_module(project, module, made):
        return False
    homes = [ref.module.path for ref in project.fact(Resolver).points_to(module, made.func)]
    paths = dict.fromkeys(path for home in homes for path in (home, *project.imported(home)))
    modules = (project.module_at(path) for path in paths)
    return not any(one is not None and _has_class_with_devices(one) for one in modules)


@query
def _has_class_with_devices(module: ModuleIndex) -> bool:
    return any(_DEVICES.search(module.syntax.text(node)) for node in module.syntax.of(ast.ClassDef))


def _moves_in_place(module: ModuleIndex) -> bool:
    """Return whether a statement of a module moves something (``model.cuda()``)."""
    moved = (call for name in _MOVES for call in module.calls_by_name.get(name, []))
    return any(isinstance(module.syntax.parents.get(call), ast.Expr) for call in moved)


def _is_moved_copy(module: ModuleIndex, made: ast.Call) -> bool:
    """Return whether the function that makes a model also moves it by its name (``model = model.cuda()``)."""
    match module.syntax.parents.get(made):
        case ast.Assign(targets=[ast.Name(id=name)]):
            return (module.function(made), name) in _moved_names(module)
    return False


@query
def _moved_names(module: ModuleIndex) -> frozenset[tuple[ast.AST | None, str]]:
    """Return the variables that a module moves, by the functions."""
    moves = (call for name in _MOVES for call in module.calls_by_name.get(name, []))
    return frozenset(
        (module.function(call), call.func.value.id)
        for call in moves
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and not copies_to_host(call)
    )


def makes_module(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call makes a model on the CPU: ``Net()`` of a class that speaks of no device, or
    ``nn.Sequential(...)``."""
    if any(keyword.arg in ("device", None) for keyword in call.keywords):
        return False
    if project.fact(Resolver).call_names(module, call) & {"torch.nn.Sequential", "torch.nn.Linear"}:
        return True
    resolver = project.fact(Resolver)
    made = [(ref.module, ref.node) for ref in resolver.points_to(module, call.func)]
    owners = [(where, node) for where, node in made if isinstance(node, ast.ClassDef)]
    return (
        len(owners) == 1
        and resolver.method(*owners[0], "forward") is not None
        and not any(
            (isinstance(part, ast.Attribute) and part.attr in _SPEAKS_OF_DEVICES)
            or (isinstance(part, ast.Name) and part.id in _SPEAKS_OF_DEVICES)
            for part in walk(owners[0][1])
        )
    )
