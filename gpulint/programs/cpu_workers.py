"""Which modules run without GPUs: workers of Ray's, Kubeflow's and Hugging Face's trainers, images for CPUs, and
programs whose only device is the CPU or that hide all GPUs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_ASKED = ("num_gpus", "use_gpu")
"""What Ray is asked for; beside 0 and False, comments may still speak of GPUs."""
_KEPT_OFF = ("no_cuda", "use_cpu")
"""What keeps Hugging Face's Trainer on the CPU."""
_ARGUMENTS = "TrainingArguments"
_OPTION = regex.compile(r"(?:\.|--)(?:(?:use|num)[_-]gpus?|no[_-]cuda|use[_-]cpu)\b")
"""The same as an option of the program."""
_RESOURCES = ("resources_per_node", "resources_per_worker")
"""What Kubeflow's and Ray's trainers give each worker."""
_DEVICE = regex.compile(r"\b(?:cuda|device_map)\b")
_ON_CPU = regex.compile(rb"""torch\.device\(\s*["']cpu["']\s*\)""")
_HIDES = regex.compile(rb"""CUDA_VISIBLE_DEVICES["']\s*(?:\]\s*=|[,:])\s*["'](?:-1)?["']""")
_CPU_IMAGE = regex.compile(r"(?:^|[-_./:])cpu(?:[-_.:/]|$)", re.IGNORECASE)
"""``tf2-cpu.2-12``, ``pytorch:latest-cpu``."""


def may_use_no_gpus(text: bytes) -> bool:
    """Return whether a program has a word without which ``use_no_gpus`` cannot be true."""
    return any(name.encode() in text for name in (*_ASKED, *_KEPT_OFF, *_RESOURCES)) or any(
        pattern.search(text) for pattern in (_ON_CPU, _HIDES)
    )


@query
def use_no_gpus(module: ModuleIndex) -> bool:
    """Return whether a module is written for workers without GPUs."""
    return _asks_for_cpus(module) or _asks_for_no_gpus(module) or _moves_to_cpu(module) or _hides_gpus(module)


@query
def hides_gpus(module: ModuleIndex) -> bool:
    """Return whether a module leaves no GPU to itself nor to what it imports and runs."""
    return _asks_for_no_gpus(module) or _hides_gpus(module)


def _hides_gpus(module: ModuleIndex) -> bool:
    """``os.environ["CUDA_VISIBLE_DEVICES"] = ""`` at the top of a program or of its ``main``, which sets it to nothing
    else."""
    shown = list(_visible_devices(module))
    return bool(shown) and all(
        isinstance(value, ast.Constant) and value.value in ("", "-1") and _is_always_run(module, node)
        for value, node in shown
    )


def _visible_devices(module: ModuleIndex) -> Iterator[tuple[ast.expr | None, ast.AST]]:
    """Yield the values that a module gives the variable, each with its place."""
    for target, value, _ in module.stores.get("environ", ()):
        if isinstance(target, ast.Subscript) and _names_visible_devices(target.slice):
            yield value, target
    for name in ("setdefault", "putenv", "update"):
        for call in module.calls_by_name.get(name, ()):
            if not dotted(call.func).startswith("os."):
                continue
            if name != "update" and len(call.args) == 2 and _names_visible_devices(call.args[0]):
                yield call.args[1], call
            for table in call.args if name == "update" else ():
                if isinstance(table, ast.Dict):
                    entries = zip(table.keys, table.values, strict=True)
                    yield from ((value, call) for key, value in entries if _names_visible_devices(key))


def _names_visible_devices(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "CUDA_VISIBLE_DEVICES"


def _is_always_run(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is at the top of a module or in its ``main``, under no condition but its start."""
    inner = node
    for up in module.syntax.ancestors(node):
        if isinstance(up, ast.Module) or (isinstance(up, FUNCTIONS) and up.name == "main"):
            return True
        if isinstance(up, ast.If) and "__main__" in ast.unparse(up.test) and inner in up.body:
            continue
        if not isinstance(up, ast.expr | ast.Assign | ast.Expr):
            return False
        inner = up
    return False


def _moves_to_cpu(module: ModuleIndex) -> bool:
    """Return whether the only device that a module names is the CPU, and all that it moves goes there."""
    made = [call for call in module.calls_by_name.get("device", []) if dotted(call.func) == "torch.device"]
    if not made or any(name in module.calls_by_name for name in ("cuda", "set_device", "set_default_device")):
        return False
    if not all(len(call.args) == 1 and _is_cpu(call.args[0]) for call in made):
        return False
    moved = [call.args[0] for call in module.calls_by_name.get("to", []) if call.args]
    return bool(moved) and all(isinstance(target, ast.Name) and _is_made_so(module, target) for target in moved)


def _is_cpu(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _is_made_so(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether a variable holds only ``torch.device("cpu")``."""
    values = [binding.value for binding in module.scope(name).lookup(name.id)]
    return bool(values) and all(
        isinstance(value, ast.Call) and last_name(value.func) == "device" and _is_cpu(value.args[0]) for value in values
    )


def only_in_cpu_images(project: Project, program: Path) -> bool:
    """Return whether a program is started only by images, and by tasks in such images, that are named for CPUs."""
    jobs = [launched.job for launched in project.fact(JobIndex).launches_of(program)]
    return bool(jobs) and all(
        job.gpus is None and job.task.image is not None and _CPU_IMAGE.search(job.task.image) for job in jobs
    )


def _asks_for_no_gpus(module: ModuleIndex) -> bool:
    """Return whether a module says ``num_gpus=0``, ``use_gpu=False`` or ``no_cuda=True``, nothing else of these, and
    names a device at most in what such workers run. Ray hides the GPUs from them."""
    text = module.syntax.source.text
    if not any(name in text for name in (*_ASKED, *_KEPT_OFF)) or _OPTION.search(text):
        return False
    asked = [
        (call, keyword)
        for call in module.calls
        for keyword in call.keywords
        if keyword.arg in _ASKED or (keyword.arg in _KEPT_OFF and last_name(call.func).endswith(_ARGUMENTS))
    ]
    if not any(_is_said(module, keyword.value) for _, keyword in asked):
        return False
    if not all(_is_off(module, keyword.value, keyword.arg in _KEPT_OFF) for _, keyword in asked):
        return False
    calls = [call for call, keyword in asked if keyword.arg in _ASKED]
    return _DEVICE.search(_without(module, calls)) is None


def _without(module: ModuleIndex, calls: list[ast.Call]) -> str:
    """The text of a module without the functions and classes that some calls, or what they make, are handed."""
    handed = {
        part.id
        for call in calls
        for user in (call, *_users(module, call))
        for part in _passed(user)
        if isinstance(part, ast.Name)
    }
    lines = module.syntax.source.text.splitlines(keepends=True)
    for definition in (*module.functions, *module.classes):
        if getattr(definition, "name", "") in handed and definition.end_lineno is not None:
            for line in range(definition.lineno - 1, definition.end_lineno):
                lines[line] = "\n"
    return "".join(lines)


def _users(module: ModuleIndex, made: ast.Call) -> Iterator[ast.Call]:
    """The calls that use what a call makes: ``TorchDistributor(use_gpu=False).run(train)``, ``TorchTrainer(train,
    scaling_config=ScalingConfig(use_gpu=False))``, also through a name."""
    for up in module.syntax.ancestors(made):
        if isinstance(up, ast.Call):
            yield up
        elif isinstance(up, ast.Assign) and up.value is made:
            names = {dotted(target) for target in up.targets} - {""}
            for call in module.calls:
                owner = call.func.value if isinstance(call.func, ast.Attribute) else None
                if any(dotted(part) in names for part in (owner, *_passed(call)) if part is not None):
                    yield call
        if isinstance(up, ast.stmt):
            return


def _passed(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _is_said(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value is written out, or a variable's. What a caller hands over may be anything."""
    if isinstance(value, ast.Name):
        return all(binding.kind is BindingKind.ASSIGN for binding in module.scope(value).lookup(value.id))
    return isinstance(value, ast.Constant)


def _is_off(module: ModuleIndex, value: ast.expr, means: bool) -> bool:
    """Return whether a value is 0 or False (for what keeps a GPU away: True), or a name for nothing else."""
    if isinstance(value, ast.Name):
        made = [binding.value for binding in module.scope(value).lookup(value.id)]
        return bool(made) and all(isinstance(one, ast.Constant) and bool(one.value) is means for one in made)
    return isinstance(value, ast.Constant) and bool(value.value) is means


def _asks_for_cpus(module: ModuleIndex) -> bool:
    """Return whether a module passes its function to workers whose resources, all written out, hold no GPU."""
    text = module.syntax.source.text
    if not any(name in text for name in _RESOURCES) or "use_gpu" in text:
        return False
    asked = [keyword.value for call in module.calls for keyword in call.keywords if keyword.arg in _RESOURCES]
    return bool(asked) and all(
        isinstance(value, ast.Dict)
        and bool(value.keys)
        and all(isinstance(key, ast.Constant) and "gpu" not in str(key.value).lower() for key in value.keys)
        for value in asked
    )
