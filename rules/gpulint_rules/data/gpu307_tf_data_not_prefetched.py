"""What it detects
A ``tf.data`` pipeline that a training or evaluation loop (or Keras' ``fit``) reads without ``prefetch`` anywhere on
its way, and its ``map`` calls without ``num_parallel_calls``.

TensorFlow 2.12 and later prefetch pipelines that end in a synchronous step, and 2.7 and later run stateless mapped
functions on all cores. A missing ``prefetch`` is therefore reported only if the program, or a requirements file above
it, requires an older version, and a ``map`` only for an older version or a stateful function (random numbers, Python
code).

Recognizes TensorFlow's ``tf.data`` and TensorFlow Datasets, read by a loop or by ``fit``, ``evaluate`` and ``predict``
of Keras.

Why it costs GPU time
Without ``prefetch`` the next batch is prepared only when the step has ended, and the GPU waits; without
``num_parallel_calls`` one core transforms all samples, and the GPU waits where it takes them faster. Inefficient
host-GPU data transfer is the most frequent category of the study: 27.9% of 706 issues in 400 jobs.

When to ignore this rule
Host memory has no room for one more batch; the mapped function must see the samples one after the other. Maps of a
single element, and of Python code that starts threads itself (``n_jobs=-1``), are not reported.

Fix safety
``prefetch`` is safe: same batches, same order. ``num_parallel_calls`` keeps the order as well, but a mapped function
with a state of its own (random numbers, Python code) may give other values: unsafe. ``tf.data.AUTOTUNE`` came with
TensorFlow 2.4; files that use names of TensorFlow 1 or require an older version get ``prefetch(1)``, which all versions
have. Maps are left to you where the program requires a TensorFlow before 1.13, which has no ``AUTOTUNE``.

References
https://www.tensorflow.org/guide/data_performance
https://www.tensorflow.org/api_docs/python/tf/data/experimental/OptimizationOptions
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.tensorflow_devices import is_without_gpu
from gpulint.programs.tensorflow_version import MAPS_IN_PARALLEL, PREFETCHES, release
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.hardware_words import is_for_tpu
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workload.map_functions import has_state, is_idle, starts_threads
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_rules.data.shared_pipelines import others_prefetch
from gpulint_rules.data.single_elements import has_one_element
from gpulint_rules.data.unread_pipelines import leads_nowhere

_FEW = 32
"""Batches that are looked at rather than trained on."""
MAX_STEPS = 40
"""Most calls of one pipeline that are followed."""
_SOURCES = ("tf.data.", "tensorflow.data.", "tensorflow_datasets.load", "tfds.load")
_VIEWS = ("items", "keys", "values")
"""What is called on a dictionary of pipelines."""
_ITERATORS = ("make_one_shot_iterator", "make_initializable_iterator", "as_numpy_iterator", "get_next")
_COLLECTS = frozenset("adapt append extend add update len print numpy tolist shape int float str sum zip".split())
_FITTERS = ("fit", "evaluate", "predict", "train_on_dataset")
_AHEAD = Cost("no-prefetch", basis="one core maps the samples of the batches that are prepared ahead")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """``call`` is the last call of the pipeline, or its ``map`` without ``num_parallel_calls``."""

    call: NodeRef
    is_map: bool


_SPREADS = regex.compile(r"\bmap_parallelization\s*=\s*True")
"""An option that runs all maps of functions without a state on all cores."""
_SERVES = regex.compile(r"(^|_)(export|exporter|serve|serving)(_|$)", re.IGNORECASE)
"""Modules and functions that read one request at a time."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None or _SERVES.search(document.path.stem) or is_for_tpu(module):
        return
    newest = release(project, module)
    # What a loop draws from may take the whole tree to find out, so that comes last.
    ahead = newest is None or newest >= PREFETCHES
    found = [*_serial_maps(document, project, module, ahead)]
    if newest is not None and newest < PREFETCHES:
        found = [*_unprefetched(project, module), *found]
    if not found or _only_makes_data(document, project, module) or is_without_gpu(project, module):
        return
    for finding in found:
        assert isinstance(finding.payload, Pipeline)
        if (
            not finding.payload.is_map
            or (newest is not None and newest < MAPS_IN_PARALLEL)
            or _keeps_state(project, finding.payload.call)
        ):
            yield finding


def _unprefetched(project: Project, module: ModuleIndex) -> Iterator[Finding]:
    seen: set[ast.AST] = set()
    for read in _reads(module):
        if _is_glance(project, module, read) or _is_for_records(module, read):
            continue
        calls = [call for call in _pipeline(project, module, read) if not _ends_with(call, *_ITERATORS)]
        if not calls or any(map(_prefetches, calls)):
            continue
        if _only_collects(module, read):
            continue
        if not any(_ends_with(call, "batch", "padded_batch") for call in calls) and not (
            any(_ends_with(call, "map") for call in calls) and _is_for_training(project, module, read)
        ):
            continue
        last = calls[0]
        assert isinstance(last.node, ast.Call)
        if last.node in seen or _takes_one(last.node) or _ends_with(last, *_VIEWS):
            continue
        seen.add(last.node)
        if others_prefetch(project, module, last):
            continue
        yield RULE.finding(
            last.module.path,
            last.module.syntax.span(last.node),
            f"the tf.data pipeline that '{module.syntax.text(read)[:40]}' reads prepares no batch ahead",
            help="end it with `.prefetch(tf.data.AUTOTUNE)`",
            payload=Pipeline(last, is_map=False),
        )


def _prefetches(call: NodeRef) -> bool:
    """``data.prefetch(1)``, ``data.apply(tf.data.experimental.prefetch_to_device(device))``"""
    applied = call.node.args[:1] if isinstance(call.node, ast.Call) and _ends_with(call, "apply") else []
    return _ends_with(call, "prefetch") or any(
        isinstance(one, ast.Call) and last_name(one.func) == "prefetch_to_device" for one in applied
    )


def _serial_maps(document: Document, project: Project, module: ModuleIndex, ahead: bool) -> Iterator[Finding]:
    """Yield the maps that one core runs; TensorFlow prepares batches ahead itself, or the pipeline says so."""
    for call in () if regex.occurs(_SPREADS, document.source.text) else module.calls_by_name.get("map", []):
        if _is_interleaved(module, call):
            continue
        if _is_for_records(module, call) or _serves(module, call) or _leads_to(project, module, call, "cache"):
            continue  # what is kept is mapped in the first epoch alone
        if _is_serial_map(project, module, call) and not leads_nowhere(module, call):
            yield RULE.finding(
                document.path,
                module.syntax.span(call),
                "this map of a tf.data pipeline runs on one core",
                help="pass `num_parallel_calls=tf.data.AUTOTUNE`",
                payload=Pipeline(NodeRef(module, call), is_map=True),
                cost=_AHEAD if ahead or _leads_to(project, module, call, "prefetch") else None,
            )


def _is_interleaved(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a map is in a function that several threads call at once: ``files.interleave(lambda file:
    read(file).map(parse), num_parallel_calls=8)``."""
    inner: ast.AST = call
    for up in module.syntax.ancestors(call):
        if isinstance(up, ast.Call) and isinstance(inner, ast.Lambda) and last_name(up.func) == "interleave":
            return any(keyword.arg == "num_parallel_calls" for keyword in up.keywords)
        inner = up
    return False


def _leads_to(project: Project, module: ModuleIndex, call: ast.Call, name: str) -> bool:
    """Return whether the pipeline that a map is a part of goes on to a call of this name, later in the module."""
    return any(
        isinstance(later.func, ast.Attribute)
        and any(part.node is call for part in _pipeline(project, module, later.func.value))
        for later in module.calls_by_name.get(name, [])
    )


def _only_makes_data(document: Document, project: Project, module: ModuleIndex) -> bool:
    """Return whether it is a program that neither trains nor evaluates (it converts records, or shows them), nor is a
    part of one."""
    text = document.source.text
    if document.kind is not Kind.NOTEBOOK and "__main__" not in text:
        return False
    return not project.fact(GpuPrograms).words.text_computes(text.encode("utf-8", "replace")) and not project.fact(
        GpuPrograms
    ).runs_on_gpu(module)


def _reads(module: ModuleIndex) -> Iterator[ast.expr]:
    """Expressions that a loop or Keras draws batches from."""
    for loop in module.loops:
        if isinstance(loop, ast.For | ast.AsyncFor):
            yield unwrap_iterable(loop.iter)
    for name in _FITTERS:
        for call in module.calls_by_name.get(name, []):
            if isinstance(call.func, ast.Attribute):
                yield from call.args[:1]
                yield from (keyword.value for keyword in call.keywords if keyword.arg in ("x", "validation_data"))


def _is_glance(project: Project, module: ModuleIndex, read: ast.expr) -> bool:
    """``dataset.take(1)``: a look at a few batches, or the warm-up of a model."""
    if not isinstance(read, ast.Call) or last_name(read.func) != "take" or not read.args:
        return False
    known = project.fact(Constants).of(module, read.args[0])
    return known.every(lambda count: isinstance(count, int) and 0 <= count <= _FEW)


def _is_for_records(module: ModuleIndex, read: ast.expr) -> bool:
    """Return whether the function that draws the samples writes them to records."""
    function = module.function(read)
    return any(module.function(writer) is function for writer in module.calls_by_name.get("TFRecordWriter", []))


def _serves(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the function around a pipeline serves requests, or takes a single element from it."""
    function = module.function(call)
    if function is None:
        return False
    single = module.calls_by_name.get("get_single_element", ())
    return bool(_SERVES.search(function.name)) or any(module.function(other) is function for other in single)


def _only_collects(module: ModuleIndex, read: ast.expr) -> bool:
    """Return whether the loop that draws batches only counts them, keeps them, or lets a layer adapt to them."""
    loop = next((up for up in module.syntax.ancestors(read) if isinstance(up, ast.stmt)), None)
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    return all(
        last_name(part.func) in _COLLECTS
        for statement in loop.body
        for part in walk(statement)
        if isinstance(part, ast.Call)
    )


def _is_for_training(project: Project, module: ModuleIndex, read: ast.expr) -> bool:
    """Return whether the samples are drawn by Keras, or by a loop that trains or evaluates. Others may only count or
    collect them."""
    for up in module.syntax.ancestors(read):
        if isinstance(up, ast.For | ast.AsyncFor):
            return project.fact(LoopContexts).role(module, up) is not Role.OTHER
        if isinstance(up, ast.stmt):
            return True
    return True


def _pipeline(project: Project, module: ModuleIndex, read: ast.expr) -> list[NodeRef]:
    """Calls of the pipeline behind an expression, the last one first; [] unless it starts in ``tf.data``."""
    found: list[NodeRef] = []
    continued: set[ast.AST] = set()
    todo = list(project.fact(Resolver).points_to(module, read))
    rooted = False
    seen: set[ast.AST] = set()
    while todo and len(seen) < MAX_STEPS:
        ref = todo.pop(0)
        if ref.node in seen or not isinstance(ref.node, ast.Call):
            continue
        seen.add(ref.node)
        if _is_source(project, ref):
            rooted = True
            found.append(NodeRef(ref.module, ref.node))
        elif isinstance(ref.node.func, ast.Attribute):
            found.append(NodeRef(ref.module, ref.node))
            before = project.fact(Resolver).points_to(ref.module, ref.node.func.value)
            continued |= {origin.node for origin in before if origin.node is not ref.node}
            todo += before
    # A name that is rebound step by step leads, from within a function, to each of the steps.
    return sorted(found, key=lambda call: call.node in continued) if rooted else []


def _takes_one(call: ast.Call) -> bool:
    """Return whether it is ``take(1)``, after which there is nothing to prepare ahead."""
    return last_name(call.func) == "take" and any(isinstance(n, ast.Constant) and n.value == 1 for n in call.args)


def _is_source(project: Project, ref: NodeRef) -> bool:
    assert isinstance(ref.node, ast.Call)
    return any(name.startswith(_SOURCES) for name in project.fact(Resolver).call_names(ref.module, ref.node))


def _ends_with(call: NodeRef, *names: str) -> bool:
    return isinstance(call.node, ast.Call) and last_name(call.node.func) in names


def _keeps_state(project: Project, call: NodeRef) -> bool:
    """Return whether the mapped function draws random numbers or runs Python, so that no TensorFlow spreads it over the
    cores."""
    assert isinstance(call.node, ast.Call)
    return bool(call.node.args) and has_state(project, call.module, call.node.args[0])


def _is_serial_map(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or len(call.args) > 1:
        return False
    if any(keyword.arg in ("num_parallel_calls", None) for keyword in call.keywords):
        return False
    before = _pipeline(project, module, call.func.value)
    if not before or has_one_element(module, call, before):
        return False
    function = call.args[0] if call.args else keyword_value(call, "map_func")
    return function is None or not (is_idle(project, module, function) or starts_threads(project, module, function))


RULE = Rule(
    code="GPU307",
    name="tf-data-not-prefetched",
    category=Category.HOST_GPU_TRANSFER,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("tensorflow",),),
    summary="a tf.data pipeline prepares batches on one core, or not ahead of the step",
    why="the GPU waits for batches that are prepared after the previous step, or more slowly than it consumes them",
    evidence=(Evidence("27.9% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("no-prefetch"),
    fix=Safety.SAFE,
    bad="""\
# needs tensorflow==2.8
import tensorflow as tf

data = tf.data.TFRecordDataset(files).map(augment).batch(64)
model.fit(data)
""",
    good="""\
# needs tensorflow==2.8
import tensorflow as tf

data = tf.data.TFRecordDataset(files)
data = data.map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(64)
model.fit(data.prefetch(tf.data.AUTOTUNE))
""",
    references=(
        "https://www.tensorflow.org/guide/data_performance",
        "https://www.tensorflow.org/api_docs/python/tf/data/experimental/OptimizationOptions",
    ),
)
