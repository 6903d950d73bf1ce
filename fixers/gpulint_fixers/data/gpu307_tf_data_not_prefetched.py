"""Prepare batches ahead, and map samples on all cores."""

from __future__ import annotations

import ast
import re

from gpulint_rules.data.gpu307_tf_data_not_prefetched import Pipeline

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.calls import add_keyword

_OLD = (
    "__version__|VERSION|compat|contrib|data\\.experimental|enable_eager_execution|enable_v2_behavior|app|flags|logging"
    "|placeholder|get_variable|variable_scope|global_variables_initializer|random_normal|random_uniform|layers"
    "|(Interactive)?Session|ConfigProto|GPUOptions|RunOptions|losses\\.[a-z]\\w*|train\\.\\w+(Optimizer|Session|Hook)"
    "|train\\.get_\\w+"
)


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Append ``prefetch`` to the pipeline, or pass ``num_parallel_calls`` to its ``map``."""
    payload = finding.payload
    assert isinstance(payload, Pipeline)
    module, call = payload.call.module, payload.call.node
    assert isinstance(call, ast.Call)
    tensorflow = _tensorflow(module)
    if tensorflow is None:
        return Declined("TensorFlow is not imported as a module here")
    syntax = module.syntax
    old = _may_be_old(module, tensorflow) or _is_used_by_old(project, module, tensorflow)
    if payload.is_map:
        autotune = "experimental.AUTOTUNE" if old else "AUTOTUNE"
        edit = add_keyword(syntax, call, f"num_parallel_calls={tensorflow}.data.{autotune}")
        note = "; it needs TensorFlow 1.13 or later" if old else ""
        return Fix(
            f"map samples on all cores; a function with internal state may give other results{note}",
            Safety.UNSAFE,
            (edit,),
        )
    end = syntax.offsets(call)[1]
    size = "1" if old else f"{tensorflow}.data.AUTOTUNE"
    edit = Edit(syntax.path, syntax.span_at(end, end), f".prefetch({size})")
    return Fix("prepare batches while the GPU computes", Safety.SAFE, (edit,))


def _may_be_old(module: ModuleIndex, tensorflow: str) -> bool:
    """Return whether the module uses what only TensorFlow 1 has, or tests the version. ``tf.data.AUTOTUNE`` came with
    2.4."""
    return re.search(rf"\b{re.escape(tensorflow)}\.({_OLD})\b", module.syntax.source.text) is not None


def _is_used_by_old(project: Project, module: ModuleIndex, tensorflow: str) -> bool:
    """Return whether a module that imports this one opens a session, as only TensorFlow 1 does."""
    opens = re.compile(rf"\b{re.escape(tensorflow)}\.((Interactive)?Session|ConfigProto|app\.flags|placeholder)\b")
    return any(project.matches(path, opens) for path in project.fact(GpuPrograms).users(module.path))


def _tensorflow(module: ModuleIndex) -> str | None:
    """The name that tensorflow has in the module."""
    for name, bindings in module.top.bindings.items():
        if any(binding.target == "tensorflow" for binding in bindings):
            return name
    return None


FIXER = Fixer("GPU307", fix)
