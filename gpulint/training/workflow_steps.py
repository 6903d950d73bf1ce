"""Steps of workflow engines that ask for no GPU, and so hold none: tasks of Flyte, steps of Metaflow, components of
Kubeflow."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, last_name

_FLYTE = frozenset({"flytekit", "union"})
_TASKS = frozenset({"task", "dynamic", "eager"})
_RESOURCES = frozenset({"requests", "limits", "resources"})
_OTHERWISE = frozenset({"accelerator", "pod_template", "pod_template_name", None})
"""Arguments by which a task may hold a GPU that its resources do not show."""
_WORKERS = frozenset({"MPIJob", "HorovodJob", "PyTorch", "TfJob", "Elastic"})
"""Configurations whose workers hold what the task asks for, or what they list; others run a task somewhere else."""
_METAFLOW = frozenset({"resources", "batch", "kubernetes"})
_KUBEFLOW = frozenset(
    "set_gpu_limit set_accelerator_limit set_accelerator_type add_node_selector_constraint add_resource_limit "
    "create_custom_training_job_from_component create_custom_training_job_op_from_component add_node_selector".split()
)
"""Calls by which a pipeline may give the task of a component a GPU."""


def without_gpu(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a node is in a step that holds no GPU."""
    if not module.packages & (_FLYTE | {"metaflow", "kfp"}):
        return False
    return any(isinstance(up, FUNCTIONS) and _holds_none(module, up) for up in module.syntax.ancestors(node))


@query
def all_without_gpu(module: ModuleIndex) -> bool:
    """Return whether a module has steps, all of which hold no GPU, and no other call that requests one
    (``with_overrides``)."""
    if not module.packages & (_FLYTE | {"metaflow"}):
        return False
    steps = [function for function in module.functions if _is_step(module, function)]
    asked = (keyword for call in module.calls for keyword in call.keywords if keyword.arg == "gpu")
    return (
        bool(steps)
        and all(_holds_none(module, step) for step in steps)
        and all(_is_none(module, keyword.value) for keyword in asked)
    )


def _is_step(module: ModuleIndex, function: FunctionNode) -> bool:
    return bool(_flyte(module, function) or _is_metaflow(module, function))


def _holds_none(module: ModuleIndex, function: FunctionNode) -> bool:
    if tasks := _flyte(module, function):
        return all(_asks_for_none(module, task) for task in tasks)
    if "kfp" in module.packages and _is_component_without(module, function):
        return True
    return _is_metaflow(module, function) and _step_holds_none(module, function)


# -- Flyte -------------------------------------------------------------------------------------------------------------


def _flyte(module: ModuleIndex, function: FunctionNode) -> list[ast.expr]:
    """The decorators that make a task of a function."""
    if not module.packages & _FLYTE:
        return []
    return [decorator for decorator in function.decorator_list if last_name(decorator) in _TASKS]


def _asks_for_none(module: ModuleIndex, task: ast.expr) -> bool:
    """Return whether ``@task(...)`` shows all that it requests, and no GPU among it."""
    if not isinstance(task, ast.Call):
        return True
    for keyword in task.keywords:
        if keyword.arg in _OTHERWISE:
            return False
        if keyword.arg in _RESOURCES and not _lists_none(module, keyword.value):
            return False
        if keyword.arg == "task_config" and not _starts_workers_without(module, keyword.value):
            return False
    return True


def _lists_none(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value is a ``Resources(...)`` without a GPU, or a name for such ones."""
    made = _values(module, value)
    return bool(made) and all(
        isinstance(one, ast.Call)
        and last_name(one.func) == "Resources"
        and len(one.args) < 3  # the processors, the memory, the GPUs
        and all(
            keyword.arg is not None and (keyword.arg != "gpu" or _is_none(module, keyword.value))
            for keyword in one.keywords
        )
        for one in made
    )


def _starts_workers_without(module: ModuleIndex, config: ast.expr) -> bool:
    if not isinstance(config, ast.Call) or last_name(config.func) not in _WORKERS:
        return False
    keywords = (part for part in walk(config) if isinstance(part, ast.keyword))
    return all(_lists_none(module, keyword.value) for keyword in keywords if keyword.arg in _RESOURCES)


# -- Metaflow ----------------------------------------------------------------------------------------------------------


def _is_metaflow(module: ModuleIndex, function: FunctionNode) -> bool:
    return "metaflow" in module.packages and any(map(_is_named_step, function.decorator_list))


def _is_named_step(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "step"


def _step_holds_none(module: ModuleIndex, step: FunctionNode) -> bool:
    """Return whether a step requests something, or another step of its flow a GPU, and it requests none.

    A flow in which nobody asks runs wherever it is started.
    """
    flow = module.syntax.parents.get(step)
    others = flow.body if isinstance(flow, ast.ClassDef) else []
    asks = any(last_name(decorator) in _METAFLOW for decorator in step.decorator_list)
    asks = asks or any(isinstance(other, FUNCTIONS) and any(_gpus_of(module, other)) for other in others)
    return asks and not any(_gpus_of(module, step))


def _gpus_of(module: ModuleIndex, step: FunctionNode) -> Iterator[ast.expr]:
    """Decorators of a step that ask for a GPU, or may do so."""
    for decorator in step.decorator_list:
        keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
        if last_name(decorator) not in _METAFLOW:
            if "gpu" in ast.unparse(decorator).lower():
                yield decorator
        elif any(
            keyword.arg is None or (keyword.arg == "gpu" and not _is_none(module, keyword.value))
            for keyword in keywords
        ):
            yield decorator


# -- Kubeflow ---------------------------------------------------------------------------------------------------------


def _is_component_without(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a pipeline of the module runs a function as a component, and gives GPUs to none of its tasks."""
    if not any(last_name(decorator) == "component" for decorator in function.decorator_list):
        return False
    if module.calls_by_name.keys() & _KUBEFLOW:
        return False
    return any(
        (home := module.function(call)) is not None
        and any(last_name(decorator) == "pipeline" for decorator in home.decorator_list)
        for call in module.calls_by_name.get(function.name, ())
    )


# -- both --------------------------------------------------------------------------------------------------------------


def _values(module: ModuleIndex, value: ast.expr) -> list[ast.expr | None]:
    """A value, or all that its name is bound to."""
    if isinstance(value, ast.Name):
        return [binding.value for binding in module.scope(value).lookup(value.id)]
    return [value]


def _is_none(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a number of GPUs is ``0``, ``"0"`` or ``None``."""
    made = _values(module, value)
    return bool(made) and all(isinstance(one, ast.Constant) and one.value in (0, "0", None) for one in made)
