"""Modules that compute on the CPU unless whoever starts the program says otherwise: ``--device`` is ``cpu`` by default,
``gpu: false`` in every configuration."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value, with_defaults
from gpulint.launch.job_index import JobIndex
from gpulint.launch.replaced_defaults import MAX_BYTES, notes
from gpulint.placement.devices import Device, Devices
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import cyclic, query
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training import trainer_config
from gpulint.training.guards import Guards
from gpulint.training.parameter_tests import passed_to
from gpulint.values.constants import Constants
from gpulint.values.tested_settings import is_set_otherwise
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_USERS = 12
"""Most importing modules that are asked for the device; a module with more is not judged."""
MAX_FILES = 60
"""Most files of the programs of a module that are searched for words of GPUs."""
_HOLDERS = regex.compile(r"^(self|cls|args|opts?|options|params|flags|config|cfg|conf|hparams|hps|settings|parsed)$", 2)
"""What holds the device of a program; another object's device is that of a tensor."""
_OPTION = regex.compile(r"^--(\w+[-_])?device([-_]type)?$")
_SETS_DEVICE = regex.compile(r"(?<!self)\.device\s*=[^=]|setattr\([^\n,]{1,40},\s*[\"']device[\"']")
_PASSES_GPU = regex.compile(rb"--(?:[\w-]{1,20}[-_])?device[ =][\"']?(?:cuda|gpu|\d)")
"""Commands of notes that name a GPU."""
_ITSELF = frozenset({"Accelerator", "Fabric", "Trainer", "Seq2SeqTrainer", "init_distributed", "init_process_group"})
"""Calls that choose a device by themselves, or start processes for GPUs."""
_MODEL = regex.compile(r"(model|net|network)$", re.IGNORECASE)
_GPU_OPTION = regex.compile(rb"--[\w-]{0,40}(?:cuda|gpu)", re.IGNORECASE)
_GPU = regex.compile(rb"cuda|gpu|device_map|accelerat|deepspeed|fastai|lightning", re.IGNORECASE)
"""Words without which a program that puts a model on the CPU computes there."""


class Where(enum.Enum):
    """Where a module computes by default."""

    CPU = "on the CPU"
    HANDED = "where its callers say, who cannot be followed"
    HELD = "where the options say that it is given"
    OTHERWISE = "on a GPU, or unknown"
    SILENT = "it says nothing"


@query
def is_on_cpu(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module computes on the CPU by default: all devices that it names lead to an option, a
    configuration or a constant that says so. A module that names none computes where those that import it do."""
    found = _of_module(project, module)
    if found in (Where.CPU, Where.OTHERWISE):
        return found is Where.CPU
    users = list(islice(project.fact(GpuPrograms).users(module.path), MAX_USERS + 1))
    if len(users) > MAX_USERS:
        return False
    programs = [other for user in users if (other := project.module_at(user)) is not None]
    if found is Where.HELD or (found is Where.HANDED and users):
        return _is_chosen_by_options(project, module, programs, held=found is Where.HELD)
    verdicts = {_of_module(project, other) for other in programs}
    if Where.CPU in verdicts and verdicts <= {Where.CPU, Where.SILENT, Where.HANDED}:
        return True
    return found is Where.SILENT and _is_put_on_cpu(project, module, users)


def _is_chosen_by_options(project: Project, module: ModuleIndex, programs: list[ModuleIndex], *, held: bool) -> bool:
    """Return whether the options for a device that the programs of a module declare, or what they import, are ``cpu``
    by default, and nothing sets what they hold later."""
    declaring = [module, *programs] if held else programs
    if not any(_device_options(other) for other in declaring):
        declaring = list(_lenders(project, [other.path for other in (module, *programs)]))
    options = [option for other in declaring for option in _device_options(other)]
    if not options or not all(_is_cpu_option(project, *option) for option in options):
        return False
    if held and any(_SETS_DEVICE.search(other.syntax.source.text) for other in (module, *programs, *declaring)):
        return False
    if held and any(_PASSES_GPU.search(project.data(path)[:MAX_BYTES]) for path in notes(project, module.path)):
        return False
    return Where.OTHERWISE not in {_of_module(project, other) for other in programs}


def _is_put_on_cpu(project: Project, module: ModuleIndex, users: list[Path]) -> bool:
    """Return whether no file of a program names a GPU, and one of them puts a model on the CPU."""
    files = dict.fromkeys([module.path, *users])
    for path in tuple(files):
        files.update(dict.fromkeys(project.fact(MultiGpuUse).of(path).paths))
    if len(files) > MAX_FILES or any(project.finds(path, _GPU) for path in files):
        return False
    with_word = (path for path in files if project.contains(path, b"cpu"))
    return any(_puts_model_on_cpu(project, other) for path in with_word if (other := project.module_at(path)))


@query
def _puts_model_on_cpu(project: Project, module: ModuleIndex) -> bool:
    """``self.model.to(torch.device("cpu"))`` or ``model = model.cpu()``, not a copy of what a model computed."""
    for name in ("cpu", "to"):
        for call in module.calls_by_name.get(name, ()):
            if not isinstance(call.func, ast.Attribute) or not _MODEL.search(last_name(call.func.value)):
                continue
            if isinstance(call.func.value, ast.Call):
                continue
            if name == "cpu" or (call.args and project.fact(Devices).of(module, call.args[0]) == {Device.CPU}):
                return True
    return False


@query
def _of_module(project: Project, module: ModuleIndex) -> Where:
    choosing = [
        call for name in _ITSELF for call in module.calls_by_name.get(name, ()) if not _is_own(project, module, call)
    ]
    if "device_map" in module.syntax.source.text or not all(
        trainer_config.is_on_cpu(project, module, call) for call in choosing
    ):
        return Where.OTHERWISE
    moves = module.calls_by_name.get("cuda", [])
    if any(not _is_off(project, module, call) for call in moves):
        return Where.OTHERWISE
    named = list(_named(project, module))
    verdicts = {_of_expression(project, module, one) for one in named} - {Where.SILENT}
    if choosing or (moves and not _asks_for_gpu(project, module)):
        verdicts.add(Where.CPU)
    if verdicts == {Where.OTHERWISE} and not moves and all(_is_held(project, module, one) for one in named):
        return Where.HELD
    if Where.OTHERWISE in verdicts or not verdicts:
        return Where.OTHERWISE if verdicts else Where.SILENT
    if Where.CPU not in verdicts:
        return Where.HANDED
    follows = any(_follows_tensor(project, module, one) for one in named)
    return Where.CPU if choosing or not follows or _puts_model_on_cpu(project, module) else Where.SILENT


def _is_held(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """``args.device`` of options that a parser read, or a function is given, where the value cannot be followed."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    given = project.fact(Resolver).points_to(module, node.value)
    found = project.fact(Resolver).points_to(module, node)
    return (
        node.attr == "device"
        and _HOLDERS.match(node.value.id) is not None
        and all(isinstance(ref.node, ast.arg) or _is_parsed(ref.node) for ref in given)
        and all(ref.node is node for ref in found)
    )


def _is_parsed(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in ("parse_args", "parse_known_args")


@query
def _asks_for_gpu(project: Project, module: ModuleIndex) -> bool:
    """Return whether the docstring of a program, or a note beside it or at the root, names an option for GPUs: whoever
    has one sets it."""
    texts = (project.data(path)[:MAX_BYTES] for path in notes(project, module.path))
    said = ast.get_docstring(module.syntax.tree, clean=False) or ""
    return _GPU_OPTION.search(said.encode("utf-8", "replace")) is not None or any(map(_GPU_OPTION.search, texts))


def _follows_tensor(project: Project, module: ModuleIndex, named: ast.expr) -> bool:
    """Return whether something is moved to where a tensor or a model is already. What goes to the CPU beside that may
    be copies of results."""
    return any(_is_of_tensor(ref.node) for ref in project.fact(Resolver).points_to(module, named))


def _named(project: Project, module: ModuleIndex) -> Iterator[ast.expr]:
    """The devices that tensors and models of a module are moved to, or made on; no copies to the host."""
    moves = (call.args[0] for call in module.calls_by_name.get("to", ()) if call.args)
    given = (keyword.value for call in module.calls for keyword in call.keywords if keyword.arg == "device")
    yield from (call.args[0] for call in module.calls_by_name.get("set_default_device", ()) if call.args)
    for node in (*moves, *given):
        if isinstance(node, ast.Constant) and (node.value is None or node.value == "cpu"):
            continue
        if _is_of_tensor(node):
            continue
        if not project.fact(Devices).is_dtype(module, node):
            yield node


def _is_of_tensor(node: ast.AST) -> bool:
    """``x.device``, ``next(model.parameters()).device``: the device of what was put somewhere before."""
    return isinstance(node, ast.Attribute) and node.attr == "device" and not _HOLDERS.match(last_name(node.value))


def _is_own(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call makes an object of a class of the tree that extends nothing, such as a ``Trainer``."""
    made = project.fact(Resolver).points_to(module, call.func)
    return all(isinstance(ref.node, ast.ClassDef) and not ref.node.bases for ref in made)


@cyclic(Where.SILENT)
def _of_expression(project: Project, module: ModuleIndex, node: ast.AST) -> Where:
    found = {_of_origin(project, ref) for ref in project.fact(Resolver).points_to(module, node)}
    for verdict in (Where.OTHERWISE, Where.CPU, Where.HANDED):
        if verdict in found:
            return verdict
    return Where.SILENT


def _of_origin(project: Project, ref: NodeRef) -> Where:
    """The place that an origin of a device names. Tests, and branches that are not taken by default, say nothing."""
    module, node = ref.module, ref.node
    if project.is_test(module.path) or _is_off(project, module, node):
        return Where.SILENT
    match node:
        case ast.Constant(value=None):
            return Where.SILENT
        case ast.Attribute() if _is_of_tensor(node):
            return Where.SILENT
        case ast.Call() if last_name(node.func) == "get_default_device":
            return Where.SILENT
        case ast.Constant(value=value) if isinstance(module.syntax.parents.get(node), ast.arguments):
            left = _is_cpu(value) and _is_left_by_all(project, module, node)
            return Where.CPU if left else Where.HANDED if _is_cpu(value) else Where.OTHERWISE
        case ast.arg():
            known = project.fact(Constants).of(module, node)
            return Where.HANDED if not known.values else Where.CPU if known.every(_is_cpu) else Where.OTHERWISE
        case ast.Call(args=[given, *_]) if "torch.device" in project.fact(Resolver).call_names(module, node):
            return _of_expression(project, module, given)
    return Where.CPU if project.fact(Constants).of(module, node).every(_is_cpu) else Where.OTHERWISE


def _is_left_by_all(project: Project, module: ModuleIndex, default: ast.AST) -> bool:
    """Return whether all calls of a function leave a parameter to its default, and at least one of them is known."""
    function = module.syntax.parents.get(module.syntax.parents[default])
    if not isinstance(function, FUNCTIONS):
        return False
    name = next((parameter.arg for parameter, value in with_defaults(function.args) if value is default), "")
    passed = passed_to(project, module, function, name) if name else []
    return bool(passed) and all(ref.node is default for ref in passed)


def _is_cpu(value: object) -> bool:
    return isinstance(value, str) and value.partition(":")[0].strip().lower() == "cpu"


def _is_off(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is behind a switch that is off by default, or off in all configurations of the tree."""
    if project.fact(Guards).is_off_by_default(module, node):
        return True
    return any(
        is_set_otherwise(project, module, part, wanted)
        for test, holds in conditions(module, node)
        for part, wanted in parts_of(test, holds)
    )


# -- options of programs whose devices reach a module in ways that cannot be followed ----------------------------------


def _lenders(project: Project, users: list[Path]) -> Iterator[ModuleIndex]:
    """Yield the modules that programs import, and that may read their options."""
    paths = dict.fromkeys(path for user in users for path in sorted(project.imported(user)))
    named = (path for path in islice(paths, MAX_FILES) if project.contains(path, b"add_argument"))
    yield from (other for path in named if (other := project.module_at(path)) is not None)


def _device_options(module: ModuleIndex) -> list[tuple[ModuleIndex, ast.Call]]:
    calls = module.calls_by_name.get("add_argument", ())
    return [(module, call) for call in calls if any(map(_OPTION.match, _flags(call)))]


def _is_cpu_option(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether an option is ``cpu`` by default, and no command of the tree passes it."""
    default = keyword_value(call, "default")
    match default:
        case ast.Call(args=[ast.Constant(value=value)]) if last_name(default.func) == "device":
            pass
        case ast.Constant(value=value):
            pass
        case _:
            return False
    if not _is_cpu(value):
        return False
    return not any(start.option(_flags(call)) for start in project.fact(JobIndex).launches_of(module.path))


def _flags(call: ast.Call) -> tuple[str, ...]:
    return tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
