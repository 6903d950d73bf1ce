"""Data sets that compute their samples with an object which may be on the GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.placement.kept_on_gpu import places_on_gpu
from gpulint.placement.repeated_devices import MODEL, SETTINGS, repeats_device
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.library_handles import handles
from gpulint.workload.sent_parts import held
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, last_name

_DEVICE = regex.compile(r"(^|_)(device|dev|cuda|gpu)s?(_id)?$|^cuda(:\d+)?$", re.IGNORECASE)

_NUMBERED = frozenset({"device", "device_id", "gpu_id", "ctx", "ctx_id"})
"""Arguments that are the number of a GPU."""
_SWITCH = regex.compile(r"(^|_)(gpu|cuda)$", re.IGNORECASE)
_PROVIDER = regex.compile(r"^(CUDA|Tensorrt)ExecutionProvider$")
_CHOOSES = frozenset({"device", "gpu", "use_gpu", "providers", "ctx_id"})
"""Arguments that may say that there is no GPU."""
_MODEL_OF = ((), (0,))
"""What a call returns that may be its model: ``model, preprocess = clip.load(name)``."""
_HELPERS = 2
"""Calls through which it is looked for what computes a sample."""
_CALLED = ("__call__", "forward")


def gpu_part(project: Project, loader: Loader) -> str:
    """Return what a data set makes its samples with that computes on a GPU, an attribute or an argument of a library's
    data set; empty if there is none."""
    resolver = project.fact(Resolver)
    for source in sets_of(project, loader):
        assert isinstance(source.node, ast.expr)
        classes = resolver.classes_of(source.module, source.node)
        for where, owner in classes:
            if name := part_of(project, where, owner, "__getitem__"):
                return name
        if classes or not isinstance(source.node, ast.Call):
            continue
        for keyword in source.node.keywords:
            if keyword.arg is not None and _computes_on_gpu(project, source.module, keyword.value):
                return keyword.arg
        if any(_computes_on_gpu(project, source.module, argument) for argument in source.node.args):
            return last_name(source.node.func)
    return _gpu_collate(project, loader)


def _gpu_collate(project: Project, loader: Loader) -> str:
    """Return the function that puts the batches of a loader together if it calls an object that computes on a GPU
    (``encoder.encode(texts)``); what it only moves there is another matter."""
    for ref in loader_argument(project, loader, "collate_fn").refs:
        for made in project.fact(Resolver).points_to(ref.module, ref.node):
            if isinstance(made.node, ast.FunctionDef) and _runs_placed(project, made):
                return made.node.name
    return ""


@query
def _runs_placed(project: Project, function: NodeRef) -> bool:
    return any(isinstance(part, ast.Call) and _is_of_placed(project, function, part) for part in walk(function.node))


def _computes_on_gpu(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether an object, or what it was made with, is on a GPU or moves what it is called with there."""
    resolver = project.fact(Resolver)
    for ref in held(project, module, value):
        if ref.path:  # ``_, preprocess = clip.load(name, device)``
            continue
        match ref.node:
            case ast.Call() as call:
                if _is_of_gpu(project, ref.module, call):
                    return True
                methods = [
                    method
                    for where, owner in resolver.classes_of(ref.module, call)
                    for name in _CALLED
                    if (method := resolver.method(where, owner, name)) is not None
                ]
            case ast.Lambda() | ast.FunctionDef():
                methods = [ref]
            case _:
                continue
        if any(_moves(project, method, 0) for method in methods):
            return True
    return False


@query
def _moves(project: Project, function: NodeRef, helpers: int) -> bool:
    """Return whether a function, or one of the tree that it calls, moves anything to a GPU or computes there."""
    return any(_moving_calls(project, function, helpers))


def _moving_calls(project: Project, function: NodeRef, helpers: int) -> Iterator[ast.Call]:
    """The calls of a function by which anything gets to a GPU, or is computed there."""
    parameters = {part.arg for part in walk(function.node) if isinstance(part, ast.arg) and _DEVICE.search(part.arg)}
    for call in (part for part in walk(function.node) if isinstance(part, ast.Call)):
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if any(_is_of_tensor(function, value) or last_name(value) in parameters for value in given if _is_name(value)):
            continue  # on the device of what it gets, or on one that callers may leave out
        if _is_of_gpu(project, function.module, call) or _is_of_placed(project, function, call):
            yield call
            continue
        called = project.fact(Resolver).callees(function.module, call) if helpers else ()
        if any(isinstance(one.node, FUNCTIONS) and _moves(project, one, helpers - 1) for one in called):
            yield call


def _is_of_placed(project: Project, function: NodeRef, call: ast.Call) -> bool:
    """Return whether a call runs an object from outside the function that computes on a GPU, or a method of it:
    ``self.reader.readtext(image)`` after ``self.reader = easyocr.Reader(["en"])``, ``segmenter(image)``."""
    kept = [call.func] if _is_outside(project, function, call.func) else []
    if isinstance(call.func, ast.Attribute) and _is_outside(project, function, call.func.value):
        kept.append(call.func.value)
    return any(
        isinstance(ref.node, ast.Call) and ref.path in _MODEL_OF and _is_of_gpu(project, ref.module, ref.node)
        for value in kept
        for ref in project.fact(Resolver).points_to(function.module, value)
    )


def _is_outside(project: Project, function: NodeRef, value: ast.expr) -> bool:
    """Return whether a value is an attribute of the object, or a variable that the function does not set."""
    match value:
        case ast.Attribute(value=ast.Name(id="self")):
            return True
        case ast.Name(id=name):
            return name not in _own_names(project, function)
    return False


@query
def _own_names(_project: Project, function: NodeRef) -> frozenset[str]:
    """Return the parameters and variables of a function."""
    parts = list(walk(function.node))
    return frozenset(part.arg for part in parts if isinstance(part, ast.arg)) | {
        part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def _is_name(value: ast.expr) -> bool:
    return isinstance(value, ast.Name | ast.Attribute) and "self" not in ast.unparse(value)


def _is_of_tensor(function: NodeRef, value: ast.expr) -> bool:
    """Return whether a value is the device of a tensor that the function has (``torch.zeros(3, device=image.device)``),
    not that of a model outside it."""
    match value:
        case ast.Attribute(value=ast.Name(id=name), attr="device"):
            return name not in SETTINGS and any(
                (isinstance(part, ast.arg) and part.arg == name)
                or (isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store))
                for part in walk(function.node)
            )
    return False


def _is_of_gpu(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call makes something on a GPU, moves something there, or makes what computes there by itself."""
    if places_on_gpu(project, module, call) or _names_gpu(call):
        return True
    names = project.fact(Resolver).call_names(module, call)
    return matches(handles(project, "gpu"), names) and not _chooses_device(call)


def _chooses_device(call: ast.Call) -> bool:
    """``Reader(languages, gpu=use_gpu)``, ``clip.load(name, device)``"""
    return any(keyword.arg in _CHOOSES for keyword in call.keywords) or any(
        value.value == "cpu" if isinstance(value, ast.Constant) else _DEVICE.search(last_name(value)) is not None
        for value in call.args
    )


def _names_gpu(call: ast.Call) -> bool:
    """``pipeline("depth-estimation", device=0)``, ``Reader(gpu=True)``, ``VideoReader(path, ctx=gpu(0))``,
    ``InferenceSession(path, providers=["CUDAExecutionProvider"])``"""
    for keyword in call.keywords:
        name, value = keyword.arg or "", getattr(keyword.value, "value", None)
        if type(value) is int and name in _NUMBERED:
            return True
        if value is True and _SWITCH.search(name):
            return True
        if isinstance(keyword.value, ast.Dict) and _has_gpu(keyword.value):
            return True
        if name == "providers" and any(
            _PROVIDER.search(str(getattr(part, "value", ""))) for part in walk(keyword.value)
        ):
            return True
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(isinstance(value, ast.Call) and last_name(value.func) == "gpu" for value in given)


def _has_gpu(options: ast.Dict) -> bool:
    """``{"device": "cuda"}``"""
    return any(
        isinstance(key, ast.Constant)
        and key.value == "device"
        and isinstance(value, ast.Constant)
        and _DEVICE.search(str(value.value)) is not None
        for key, value in zip(options.keys, options.values, strict=True)
    )


def moving_calls(project: Project, function: NodeRef) -> list[ast.Call]:
    """Return the calls of a function by which anything gets to a GPU, or is computed there, also in functions of the
    tree that it calls."""
    return list(_moving_calls(project, function, _HELPERS))


def part_of(project: Project, module: ModuleIndex, owner: ast.ClassDef, getter: str) -> str:
    """Return what a class computes on a GPU with in a method that makes samples or batches, an attribute or a method;
    empty if there is nothing."""
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    if (get := methods.get(getter)) is None:
        return ""
    made = dict(kept_attributes(owner))
    called = {
        name
        for method in reached(methods, get)
        for part in walk(method)
        if isinstance(part, ast.Call) and (name := _receiver(part)) in made
    }
    resolver = project.fact(Resolver)
    for name in sorted(called):
        classes = resolver.classes_of(module, made[name])
        if classes and all(uses_device(*one) for one in classes):
            return name
        if not classes and _computes_on_gpu(project, module, made[name]):
            return name
    moving = (method for method in reached(methods, get) if _moves(project, NodeRef(module, method), _HELPERS))
    return next((method.name for method in moving), "")


def pinning_part(project: Project, loader: Loader) -> str:
    """Return the function with which a loader puts batches together, or the method that makes its samples, if it pins
    them itself (``torch.stack(images).pin_memory()``); empty if neither does."""
    resolver = project.fact(Resolver)
    if name := pinning_collate(project, loader):
        return name
    getters = (
        resolver.method(where, owner, "__getitem__")
        for source in sets_of(project, loader)
        if isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node)
    )
    return "__getitem__" if any(getter is not None and _pins(getter.node) for getter in getters) else ""


def pinning_collate(project: Project, loader: Loader) -> str:
    """Return the function with which a loader puts batches together if it pins them itself; empty if it does not."""
    functions = (
        made.node
        for ref in loader_argument(project, loader, "collate_fn").refs
        for made in project.fact(Resolver).points_to(ref.module, ref.node)
        if isinstance(made.node, (*FUNCTIONS, ast.Lambda))
    )
    return next((getattr(one, "name", "collate_fn") for one in functions if _pins(one)), "")


def _pins(function: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) and last_name(part.func) == "pin_memory" for part in walk(function))


def _receiver(call: ast.Call) -> str:
    """``generator`` of ``self.generator.embed(text)`` and ``self.generator(text)``."""
    match call.func:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""


def reached(methods: dict[str, ast.FunctionDef], first: ast.FunctionDef) -> list[ast.FunctionDef]:
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


def kept_attributes(owner: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The attributes that a constructor sets, and what it sets them to."""
    init = next((part for part in owner.body if getattr(part, "name", "") == "__init__"), None)
    for part in walk(init) if init is not None else ():
        match part:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = list(zip(targets, values, strict=False))
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case _:
                continue
        for target, value in pairs:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                yield target.attr, value


def gets_device(call: ast.Call) -> bool:
    """``get_dataset(cfg, device)``"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        _DEVICE.search(str(value.value) if isinstance(value, ast.Constant) else last_name(value)) is not None
        for value in given
        if isinstance(value, ast.Name | ast.Attribute | ast.Constant)
        or (isinstance(value, ast.Call) and last_name(value.func) == "device")
    )


def gets_model(call: ast.Call) -> bool:
    """``Words(root, encoder=encoder)``"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        MODEL.search(last_name(value)) is not None for value in given if isinstance(value, ast.Name | ast.Attribute)
    )


def uses_device(module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether a class moves anything to a device, or makes tensors on one."""
    return any(
        (isinstance(part, ast.Call) and moves_to_device(method, part))
        or (isinstance(part, ast.keyword) and part.arg == "device" and not repeats_device(method, part.value))
        for method in owner.body
        if isinstance(method, FUNCTIONS)
        for part in walk(method)
    )


def moves_to_device(function: FunctionNode | ast.Lambda, call: ast.Call) -> bool:
    """Return whether a call of a function moves a tensor to a device that is not the one of others which it has."""
    name = last_name(call.func)
    if name in ("cuda", "to_device"):
        return True
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return name == "to" and gets_device(call) and not any(repeats_device(function, value) for value in given)
