"""Prepare batches ahead, and map samples on all cores."""

from __future__ import annotations

import ast
import re

from gpulint_rules.data.gpu307_tf_data_not_prefetched import Pipeline

from gpulint.documents.python import PythonModule
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.tensorflow_version import AUTOTUNE, TUNES, loads_old, release
from gpulint.project import Project
from gpulint.workload.map_functions import loops_in_python
from gpulint.workspace.module_index import ModuleIndex, dotted
from gpulint_fixers.edits.calls import add_keyword

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
    newest = release(project, module)
    if payload.is_map and newest is not None and newest < TUNES:
        return Declined(f"TensorFlow {newest[0]}.{newest[1]}, which the program requires, has no AUTOTUNE")
    if payload.is_map and call.args and loops_in_python(project, module, call.args[0]):
        return Declined(
            "it runs loops of Python, which one core executes for one sample at a time: batch them, or drop it"
        )
    old = newest is not None and newest < AUTOTUNE
    old = old or _may_be_old(module, tensorflow) or _is_used_by_old(project, module, tensorflow) or loads_old(project)
    own = _own_autotune(module, call, tensorflow)
    if payload.is_map:
        autotune = own or f"{tensorflow}.data.{'experimental.AUTOTUNE' if old else 'AUTOTUNE'}"
        edit = add_keyword(syntax, call, f"num_parallel_calls={autotune}")
        note = "; it needs TensorFlow 1.13 or later" if old and not own else ""
        return Fix(
            f"map samples on all cores; a function with internal state may give other results{note}",
            Safety.UNSAFE,
            (edit,),
        )
    size = own or ("1" if old else f"{tensorflow}.data.AUTOTUNE")
    edits = tuple(_appended(syntax, one, f".prefetch({size})") for one in (call, *_alike(module, call)))
    return Fix("prepare batches while the GPU computes", Safety.SAFE, edits)


def _appended(syntax: PythonModule, call: ast.Call, text: str) -> Edit:
    """One more call of a chain, on a line of its own where the chain has one call per line."""
    end = syntax.offsets(call)[1]
    if isinstance(call.func, ast.Attribute):
        code = syntax.source.text
        before = code[syntax.offsets(call.func.value)[1] : end].partition(".")[0]
        if "\n" in before and not before.strip():
            text = before + text
    return Edit(syntax.path, syntax.span_at(end, end), text)


def _alike(module: ModuleIndex, call: ast.Call) -> list[ast.Call]:
    """The same chain of other data sets, in statements beside that of the call: those of the validation and the
    test. A block that prefetches something itself is left alone."""
    statement = module.syntax.parents.get(call)
    place = module.syntax.place(statement) if isinstance(statement, ast.Assign) else None
    if statement is None or place is None:
        return []
    function = module.function(call)
    if any(module.function(one) is function for one in module.calls_by_name.get("prefetch", ())):
        return []
    block: list[ast.stmt] = getattr(module.syntax.parents[statement], place[0])
    values = [one.value for one in block if isinstance(one, ast.Assign) and one is not statement]
    shape = _shape(call)
    return [value for value in values if isinstance(value, ast.Call) and shape and _shape(value) == shape]


def _shape(node: ast.expr) -> tuple[str, ...]:
    """The calls of a chain on a data set, with their arguments; none if it starts with a call."""
    calls: list[str] = []
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        calls.append(ast.unparse(ast.Call(ast.Name(node.func.attr), node.args, node.keywords)))
        node = node.func.value
    return tuple(calls) if isinstance(node, ast.Name | ast.Attribute) and len(calls) > 1 else ()


def _own_autotune(module: ModuleIndex, call: ast.Call, tensorflow: str) -> str | None:
    """The name that the module has for ``AUTOTUNE``: a constant of its own, or the older of the two names."""
    names = [f"{tensorflow}.data.{middle}AUTOTUNE" for middle in ("", "experimental.")]
    for name, bindings in module.top.bindings.items():
        value = bindings[0].value if len(bindings) == 1 else None
        if value is None or dotted(value) not in names:
            continue
        if module.function(call) is not None or value.lineno < call.lineno:
            return name
    used = {dotted(node) for node in module.syntax.of(ast.Attribute) if node.attr == "AUTOTUNE"}
    return next((name for name in names if name in used), None)


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
