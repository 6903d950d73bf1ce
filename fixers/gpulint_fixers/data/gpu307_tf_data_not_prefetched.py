"""Prepare batches ahead, and map samples on all cores."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu307_tf_data_not_prefetched import Pipeline

from gpulint.facts.scopes import ModuleScopes
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.calls import add_keyword


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Append ``prefetch`` to the pipeline, or pass ``num_parallel_calls`` to its ``map``."""
    payload = finding.payload
    assert isinstance(payload, Pipeline)
    scopes, call = payload.call.scopes, payload.call.node
    assert isinstance(call, ast.Call)
    tensorflow = _tensorflow(scopes)
    if tensorflow is None:
        return Declined("tensorflow is not imported by a name of its own here")
    module = scopes.module
    if payload.is_map:
        edit = add_keyword(module, call, f"num_parallel_calls={tensorflow}.data.AUTOTUNE")
        return Fix("map samples on all cores; a function with a state of its own may differ", Safety.UNSAFE, (edit,))
    end = module.offsets(call)[1]
    edit = Edit(module.path, module.span_at(end, end), f".prefetch({tensorflow}.data.AUTOTUNE)")
    return Fix("prepare batches while the GPU computes", Safety.SAFE, (edit,))


def _tensorflow(scopes: ModuleScopes) -> str | None:
    """The name that tensorflow has in the module."""
    for name, bindings in scopes.top.bindings.items():
        if any(binding.target == "tensorflow" for binding in bindings):
            return name
    return None


FIXER = Fixer("GPU307", fix)
