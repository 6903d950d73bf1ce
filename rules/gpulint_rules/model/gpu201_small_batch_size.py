"""What it detects
A batch of 32 or fewer samples per device (64 for networks of MNIST's size): in the call that makes the training
batches, an option's default, the command line of a launcher, a container's environment or a configuration file.

Recognizes programs of PyTorch, TensorFlow, Keras, JAX, Flax, Lightning, transformers, Accelerate, SpeechBrain, fastai,
PaddlePaddle, MXNet and PyG, DeepSpeed's configuration (a dictionary or a JSON file), launchers, and job specs of
Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined and compose.

Why it costs GPU time
A small batch cannot fill the GPU's cores, and the time to launch kernels dominates. Improper batch size accounts for
25.6% of the study's 706 issues in 400 jobs; a larger batch is the most frequent fix.

When to ignore this rule
Gradients are accumulated over micro-batches, the model fills the memory by itself, the method requires small batches
(reinforcement learning, one graph or image at a time), or the program trains on the CPU. Only a measurement decides:
`gpulint estimate` says what fits.

Fix safety
Unsafe: another batch size needs another learning rate. There is a fix only if the batch that fits is estimated
(``--estimate``, with the model factory under ``[tool.gpulint.estimate]``).

References
https://docs.nvidia.com/deeplearning/performance/dl-performance-getting-started/index.html
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.tasks import Task
from gpulint.estimates import BatchSizes
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.option_parser import passed_options
from gpulint.launch.program_launches import Launch, launches
from gpulint.numerals import whole
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.unused_values import is_option_read, is_replaced
from gpulint.source import Span
from gpulint.training.guards import is_benchmark
from gpulint.training.loop_contexts import LoopContexts
from gpulint.values.constants import Constants
from gpulint.values.parameter_defaults import is_overridden
from gpulint.values.positional_options import passed_by_position
from gpulint.workload import deepspeed
from gpulint.workload.batch_size_limits import BatchSizeLimits, declared_sizes
from gpulint.workload.batch_sources import BatchSource, BatchSources, place_in_call
from gpulint.workload.data_split import Split
from gpulint.workload.evaluation_batches import few_graphs, only_evaluates
from gpulint.workload.set_elsewhere import settings_in
from gpulint.workload.small_batches import (
    LARGE_GLOBAL,
    accumulated_elsewhere,
    fills_by_length,
    is_batch_size,
    is_explained,
    is_published,
    is_small,
    names_large_model,
    names_no_training,
    names_reinforcement,
    names_training,
    says_no_training,
    training_sizes,
    written_lengths,
)
from gpulint.workspace.module_index import ModuleIndex

_FRAMEWORKS = frozenset(
    "torch tensorflow keras jax flax lightning pytorch_lightning transformers accelerate speechbrain fastai fastbook"
    " paddle mxnet torch_geometric deepspeed".split()
)
_BOUND_BY_MEMORY = 8
"""A configuration file with a smaller batch was tuned to a model that fills the memory."""
_OTHERS = ("--micro-batch-size", "--micro_batch_size", "--bs")
_BATCH_SIZE = regex.compile(r"batch[-_]?size|bsz", re.IGNORECASE)
_TRAINS = regex.compile(
    r"(^|[._])((base_|max_|num_|number_of_)?(epochs?|lr)|learning_rate|max_steps|optimizer)(\.|$)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SmallBatch:
    """The batch size, the place that holds its number in the finding's file, and what fits if it was estimated."""

    size: int
    number: Span
    fits: BatchSizes | None = None


def check(document: Document, project: Project) -> Iterator[Finding]:
    seen = set[tuple[int | None, int]]()
    for finding in _all(document, project):
        if (finding.span.cell, finding.span.line) not in seen:
            seen.add((finding.span.cell, finding.span.line))
            assert isinstance(finding.payload, SmallBatch)
            if is_explained(document, finding.payload.number):
                continue
            fits = project.batch_that_fits(document.path)
            if fits is None:
                yield finding
            elif (informed := _informed(finding, fits)) is not None:
                yield informed


def _informed(finding: Finding, fits: BatchSizes) -> Finding | None:
    """The finding with the batch that fits; None where the batch is as large as that."""
    batch = finding.payload
    assert isinstance(batch, SmallBatch)
    if fits.training < 1:
        return finding
    if fits.train_batch <= batch.size:
        return None
    text = f"{fits.described}: try {fits.train_batch}, with the learning rate scaled"
    payload = dataclasses.replace(batch, fits=fits)
    return dataclasses.replace(finding, help=text, payload=payload, cost=Cost("larger-batch-fits"))


def _all(document: Document, project: Project) -> Iterator[Finding]:
    if (module := project.module(document)) is not None:
        yield from _python(document, project, module)
    for setting in () if names_no_training(document.path.stem, True) else settings_in(project, document.path):
        if setting.size > 1 and _is_small_setting(setting.size, ""):
            yield _finding(document, setting.span, f"training batch size is {setting.size}", setting.size, setting.used)
    if document.kind is Kind.JOBSPEC:
        for task in document.tasks:
            yield from _task(document, project, task)
        if document.is_configuration:
            yield from _configuration(document)
    else:
        for script in document.scripts:
            for launch in launches(script):
                yield from _launch(document, project, launch)
                yield from _deepspeed_option(document, project, launch)


def _deepspeed_option(document: Document, project: Project, launch: Launch) -> Iterator[Finding]:
    """``--deepspeed_config ds.json`` of a launcher that does not say the size itself, for a program that leaves the
    loading to DeepSpeed."""
    if any(is_batch_size(word.text.partition("=")[0]) for word in launch.args if word.text.startswith("--")):
        return
    for at, word in enumerate(launch.args):
        name, _, text = word.text.partition("=")
        if name not in ("--deepspeed_config", "--deepspeed"):
            continue
        passed_options = text or (launch.args[at + 1].value if at + 1 < len(launch.args) else None)
        found = deepspeed.in_file(project, document.path.parent, passed_options) if passed_options else None
        if found is not None and deepspeed.loads_itself(project, document, launch):
            return
        if found is not None and _is_small_setting(found.size, "") and not names_large_model(document.source.text):
            yield _finding(document, word.span, f"{found.key} is {found.size}", found.size, found.place)


def _is_small_setting(size: int, text: str) -> bool:
    return size >= _BOUND_BY_MEMORY and is_small(size, text)


def _python(document: Document, project: Project, module: ModuleIndex) -> Iterator[Finding]:
    declared = list(declared_sizes(project, module))
    uses = any(binding.target.split(".", 1)[0] in _FRAMEWORKS for binding in module.imports)
    made = project.fact(BatchSources).in_module(module) if uses else []
    sources = [source for source in made if source.split in (Split.TRAIN, Split.BOTH)]
    configured = list(deepspeed.in_program(project, module)) if uses else []
    reason = project.fact(BatchSizeLimits).reason
    if not (declared or sources or configured) or reason(module) or only_evaluates(project, module):
        return
    if names_no_training(module.path.stem) and not project.fact(LoopContexts).has_training_step(module):
        return
    text = " ".join(module.calls_by_name)
    if declared and not (uses and project.fact(BatchSizeLimits).computes(module)):
        declared = [item for item in declared if project.fact(BatchSizeLimits).trained_with(item[0])]
    by_deepspeed = deepspeed.makes_batches(project, module)
    for option, name, size in declared if not is_published(module) else ():
        if by_deepspeed and not is_option_read(option):
            continue
        if size > 1 and is_small(size, text):
            yield _finding(document, project.fact(Constants).place(option).span, f"{name} defaults to {size}", size)
    loaded = {
        value
        for source in sources
        for value in project.fact(Constants).of(source.batch.module, source.batch.node).constants
    }
    for call, batch in configured:
        # A loader of the program's own takes as many samples as it is told.
        if _is_small_setting(batch.size, text) and (not loaded or batch.size in loaded):
            here = batch.place.path == document.path
            span = batch.place.span if here else module.syntax.span(call)
            yield _finding(
                document, span, f"{batch.key} is {batch.size}", batch.size, *(() if here else (batch.place,))
            )
    yield from _made(document, project, module, sources, bool(declared) or is_published(module))


def _made(
    document: Document, project: Project, module: ModuleIndex, sources: list[BatchSource], declared: bool
) -> Iterator[Finding]:
    """Small batches where they are made; ``declared`` if the module's options have been judged already."""
    text = " ".join(module.calls_by_name)
    lengths = written_lengths(module) if sources else {}
    for source in sources:
        known = project.fact(Constants).of(source.batch.module, source.batch.node)
        if not known.every(lambda value: isinstance(value, int) and is_small(value, text)):
            continue
        if known.every(lambda value: isinstance(value, int) and fills_by_length(lengths, value)):
            continue
        if project.fact(BatchSizeLimits).only_looked_at(module, source.node) or few_graphs(module, source):
            continue
        if is_replaced(module, source.node):
            continue
        used = Place(document.path, module.syntax.span(source.node), "the batches are made here")
        for value in known.values:
            # 1 is how methods that take one sample at a time are written; options have been judged already.
            chosen = value.source == "environment" or (
                value.value != 1 and (value.source == "literal" or (value.source == "default" and not declared))
            )
            if value.place.path != document.path or project.fact(BatchSizeLimits).is_tried_out(module, value.place):
                continue
            if chosen and not is_overridden(project, value.place):
                span = (
                    value.place.span
                    if source.keyword or value.source == "default"
                    else place_in_call(value.place.span, used.span)
                )
                assert isinstance(value.value, int)
                what = f"training batch size is {value.value}"
                yield _finding(document, span, what, value.value, used, number=value.place.span)


def _task(document: Document, project: Project, task: Task) -> Iterator[Finding]:
    gpus = task.resources.gpus
    if gpus is None or gpus.value == 0:
        return
    options = {variable.name: variable.value for variable in task.env}
    made_up = cache(lambda size: accumulated_elsewhere(options, size))
    for variable in task.env:
        size = whole(variable.value) or 0
        if is_batch_size(variable.name) and is_small(size, "") and not made_up(size):
            yield _finding(document, variable.span, f"{variable.name} is {size}", size)
    for script in task.scripts:
        for launch in launches(script):
            yield from _launch(document, project, launch)


def _launch(document: Document, project: Project, launch: Launch) -> Iterator[Finding]:
    words = [word.text for word in launch.args]
    if launch.program is None and launch.module is None:
        return
    program = PurePath(launch.program or "")
    if names_no_training(program.stem, True) or names_reinforcement(program.stem) or says_no_training(words):
        return
    infers = document.kind is Kind.SHELL and names_no_training(document.path.stem, inference=True)
    if infers or is_benchmark(program) or is_benchmark(document.path):
        return
    known = any(path.name == program.name for path in project.files) or not program.name
    if not known and not any(map(names_training, [program.name, *words])):
        return
    modules = [project.module_at(path) for path in project.files if path.name == program.name]
    program_module = modules[0] if len(modules) == 1 else None
    options = passed_options(launch.args)
    if program_module is not None:
        options |= passed_by_position(program_module, launch.args)
    texts = {name: option.value for name, option in options.items()}
    on_cpu = any(re.search(r"(^|=)cpu$", word) for word in words)
    if on_cpu or names_large_model(document.source.text) or names_large_model(document.path.stem):
        return
    if known and project.fact(BatchSizeLimits).accumulates(program.name):
        return
    counts = [count.value for count in (launch.processes_per_node, launch.nodes) if count is not None]
    processes = math.prod(count for count in counts if count is not None)
    made_up = cache(lambda size: fills_by_length(texts, size) or accumulated_elsewhere(texts, size))
    text = " ".join(words)
    for name, option in options.items():
        size = whole(option.value) or 0
        named = is_batch_size(name) or name in _OTHERS
        if named and size * processes < LARGE_GLOBAL and is_small(size, text) and not made_up(size):
            yield _finding(document, option.span, f"{name} is {size}", size, number=option.number)


def _configuration(document: Document) -> Iterator[Finding]:
    """A trainer's own YAML file (``batch_size: 8`` beside a learning rate or a number of epochs)."""
    text = document.source.text
    if not _BATCH_SIZE.search(text) or not re.search(r"epoch|lr|optim", text, re.IGNORECASE):
        return
    name = document.path.stem
    if names_large_model(text) or names_large_model(name) or names_reinforcement(name):
        return
    if names_no_training(name, inference=True):
        return
    from gpulint.documents.yamlvalues import flatten

    values = flatten(document.source)
    if not any(_TRAINS.search(key) for key in values):
        return
    if any("dynamic_batch" in key and value is True for key, (value, _) in values.items()):
        return
    options = {key: str(value) for key, (value, _) in values.items()}
    made_up = cache(lambda size: fills_by_length(options, size) or accumulated_elsewhere(options, size))
    for key, size, span in training_sizes(values):
        written = document.source.line(span.line)
        if "!ref" not in written and _is_small_setting(size, text) and not made_up(size):
            yield _finding(document, span, f"{key} is {size}", size)


def _finding(
    document: Document, span: Span, what: str, size: int, *related: Place, number: Span | None = None
) -> Finding:
    return RULE.finding(
        document.path,
        span,
        f"{what}, which is small for a data-centre GPU",
        help="raise it until the memory is used, and scale the learning rate with it; `gpulint estimate` says how many "
        "samples fit",
        payload=SmallBatch(size, number or span),
        cost=Cost("small-batch", size),
        related=related,
    )


RULE = Rule(
    code="GPU201",
    name="small-batch-size",
    category=Category.IMPROPER_BATCH_SIZE,
    dimension=Dimension.MODEL,
    severity=Severity.INFO,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    tokens=(("batch", "BATCH", "bsz", "deepspeed", "bs="),),
    summary="training batches are small",
    why="small batches cannot fill the GPU",
    evidence=(Evidence("25.6% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("small-batch"),
    fix=Safety.UNSAFE,
    bad="""\
train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
""",
    good="""\
train_loader = DataLoader(train_set, batch_size=256, shuffle=True)
""",
    references=("https://docs.nvidia.com/deeplearning/performance/dl-performance-getting-started/index.html",),
)
