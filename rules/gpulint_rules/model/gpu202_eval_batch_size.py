"""What it detects
An evaluation loader (or ``per_device_eval_batch_size``, ``valid_loader_kwargs`` and the like) that uses the training
batch size, or a smaller one, in the same function, class or call; or whose size on a command line, in a configuration
file, in a dictionary or by the default of an option is that of training beside it. Also a pipeline of transformers, or
a model, that a loop over a data set or folder calls for one sample after the other.

Recognizes PyTorch's ``DataLoader`` and the loaders of torchdata, PyG, DGL, MONAI and WebDataset, ``batch`` of
``tf.data``, and any call with a keyword for the batch size, such as those of Keras, Hugging Face's
``TrainingArguments`` and SpeechBrain.

Why it costs GPU time
Evaluation keeps no activations for a backward pass, so two to four times the training batch fits; a small batch
leaves the GPU idle between launches. Improper batch size accounts for 25.6% of the study's 706 issues in 400 jobs.

When to ignore this rule
The metric needs the batch (one or padded images, PSNR averaged over images, batch statistics); the split is smaller
than one batch; full-neighbourhood inference on graphs; training and evaluation share one loader on purpose.

Fix safety
Unsafe: evaluation gets twice the training batch, or what is estimated to fit; metrics that are averaged per batch may
change a little. Nothing is changed where training and evaluation share one setting or a launcher or dictionary states
it, where samples may come one by one, where code counts on the size (steps, sums of means, a loss that compares the
samples), where the last batch may be dropped, above 1,024 samples, without a GPU, and where nothing reads the loader.

References
https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from gpulint.documents.base import Document
from gpulint.estimates import BatchSizes
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.option_parser import passed_options
from gpulint.launch.program_launches import launches
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import is_benchmark
from gpulint.values.constants import Constants
from gpulint.values.default_files import with_others
from gpulint.workload import train_eval_pairs
from gpulint.workload.batch_size_limits import BatchSizeLimits
from gpulint.workload.batch_sources import BatchSource, BatchSources, home
from gpulint.workload.data_split import Split, split_of
from gpulint.workload.evaluation_batches import has_reason, never_evaluates, one_is_enough, only_evaluates
from gpulint.workload.shared_sizes import (
    depends_on_split,
    double,
    is_same_setting,
    lifted,
    of_its_object,
    stands_below,
    with_same_variable,
)
from gpulint.workload.single_forwards import one_by_one
from gpulint.workload.single_sample_evaluation import ONE, of_one
from gpulint.workload.trained_loaders import trained_on
from gpulint.workspace.module_index import ModuleIndex

_SAMPLES = 2
"""Smallest evaluation batch to report where the program is not read: one sample at a time often has a reason."""


@dataclass(frozen=True, slots=True)
class EvalBatch:
    """The evaluation batches and the training batches whose size they share or do not reach."""

    evaluation: BatchSource
    training: BatchSource
    size: int = 0
    """The training batch size; 0 if it is only known as an expression."""
    fits: int = 0
    """The evaluation batch that fits, if it was estimated."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    seen = set[tuple[int | None, int]]()
    for finding in chain(_written(document), _python(document, project, module) if module is not None else ()):
        if (finding.span.cell, finding.span.line) not in seen:
            seen.add((finding.span.cell, finding.span.line))
            yield finding


def _python(document: Document, project: Project, module: ModuleIndex) -> Iterator[Finding]:
    if document.kind is Kind.NOTEBOOK and not project.fact(GpuPrograms).runs_on_gpu(module):
        return  # batches for an endpoint, or a model of scikit-learn
    if not project.fact(GpuPrograms).is_elsewhere(module):
        yield from project.fact(BatchSizeLimits).unless_for_cpu(module, _of_loaders(document, project, module))


def _of_loaders(document: Document, project: Project, module: ModuleIndex) -> Iterator[Finding]:
    found = _all(project, module)
    if (fits := project.batch_that_fits(document.path)) is not None and fits.evaluation > 0:
        found = (_informed(finding, fits) for finding in found)
    # What a loader tells already is not told again of the option that sets its size.
    first = next(found, None) or next(found := _defaults(project, module), None)
    if first is not None and not only_evaluates(project, module):
        yield first
        yield from found
    if not project.is_test(module.path) and not is_benchmark(module.path):
        yield from _one_by_one(project, module)


def _one_by_one(project: Project, module: ModuleIndex) -> Iterator[Finding]:
    """Pipelines and models that get one sample at a time, of which transformers itself warns on a GPU."""
    for found in one_by_one(project, module):
        if not project.fact(GpuPrograms).runs_on_gpu(module):
            return
        yield RULE.finding(
            module.path,
            module.syntax.span(found.call),
            f"{ast.unparse(found.call.func)} runs on one sample at a time",
            help=found.advice,
            cost=ONE if found.generates else None,
            related=(project.fact(Constants).place(found.samples, "the samples come from here"),),
        )


def _informed(finding: Finding, fits: BatchSizes) -> Finding:
    """The finding with the batch that fits."""
    payload = finding.payload
    if isinstance(payload, EvalBatch):
        payload = dataclasses.replace(payload, fits=fits.eval_batch)
    text = (
        f"{fits.evaluation} samples fit {fits.card} in evaluation with 10% left free (estimated from"
        f" {fits.target}): try {fits.eval_batch}"
    )
    return dataclasses.replace(finding, help=text, payload=payload)


def _all(project: Project, module: ModuleIndex) -> Iterator[Finding]:
    groups: dict[ast.AST | None, list[BatchSource]] = {}
    made = project.fact(BatchSources).in_module(module)
    for source in made:
        groups.setdefault(home(source.call), []).append(source)
    for where, sources in groups.items():
        training = [source for source in sources if source.split is Split.TRAIN]
        for evaluation in [source for source in sources if source.split is Split.EVAL]:
            helped = lifted(project, module, made, where)
            training += [other for other in helped if other.node is not evaluation.node and _same(evaluation, other)]
            training += with_same_variable(project, evaluation, made)
        training = trained_on(project, training, made)
        for source in sources:
            if (finding := _check(project, module, source, training)) is not None:
                yield finding
    yield from _shared(project, module)
    for settings in train_eval_pairs.declared(project, module):
        yield from _paired(module.path, train_eval_pairs.pairs_in_code(project, settings))


def _shared(project: Project, module: ModuleIndex) -> Iterator[Finding]:
    """Loaders of a helper that is called for both splits, at the helper unless it is called in its own module."""
    seen = set[ast.AST]()
    for shared in project.fact(BatchSources).shared(module):
        at = shared.evaluation if shared.evaluation.module is module else shared.call
        if at.node in seen:
            continue
        seen.add(at.node)
        assert isinstance(at.node, ast.Call)
        size = ast.unparse(shared.batch.node)
        yield RULE.finding(
            module.path,
            module.syntax.span(at.node),
            f"evaluation batch size uses the training batch size ({size})",
            help=f"add a batch-size parameter to the helper, and pass e.g. `{double(size)}` for evaluation",
            related=(
                project.fact(Constants).place(shared.evaluation, "called for evaluation here"),
                project.fact(Constants).place(shared.training, "called for training here"),
            ),
        )


def _defaults(project: Project, module: ModuleIndex) -> Iterator[Finding]:
    """Options whose default is that of the training batches, or that fall back to it."""
    if never_evaluates(project, module):
        return
    yield from _paired(module.path, train_eval_pairs.pairs_in_code(project, train_eval_pairs.optional(project, module)))
    for statement, name in train_eval_pairs.fallbacks(project, module):
        size = ast.unparse(statement.value)
        yield RULE.finding(
            module.path,
            module.syntax.span(statement),
            f"{name} falls back to the training batch size ({size})",
            help=f"fall back to e.g. `{double(size)}`: more fits without a backward pass",
        )


def _written(document: Document) -> Iterator[Finding]:
    """Sizes on the command lines of a script or job, and in a trainer's own configuration file."""
    if train_eval_pairs.only_tries(document.path.stem):
        return
    for script in [*document.scripts, *(script for task in document.tasks for script in task.scripts)]:
        for launch in launches(script):
            settings = {
                name: (train_eval_pairs.number(option.value), option.span)
                for name, option in passed_options(launch.args).items()
            }
            yield from _paired(document.path, train_eval_pairs.pairs(settings, _SAMPLES))
    if document.is_configuration:
        from gpulint.documents.yamlvalues import flatten

        yield from _paired(document.path, train_eval_pairs.pairs(flatten(document.source), _SAMPLES))


def _paired(path: Path, pairs: Iterable[train_eval_pairs.Pair]) -> Iterator[Finding]:
    for pair in pairs:
        yield RULE.finding(
            path,
            pair.span,
            f"{pair.name} {_compared(pair.size, pair.training)}",
            help=f"set it to e.g. `{2 * pair.training}`: more fits without a backward pass",
            payload=pair,
            cost=ONE if pair.size == 1 else None,
        )


def _check(project: Project, module: ModuleIndex, source: BatchSource, training: list[BatchSource]) -> Finding | None:
    if source.split is Split.BOTH:
        if project.fact(Resolver).callees(module, source.node) or depends_on_split(source):
            return None
        return _finding(source, None, "one batch size serves training and evaluation")
    if (
        source.split is not Split.EVAL
        or has_reason(project, module, source)
        or project.fact(BatchSources).trains(source.call.module, source.node)
    ):
        return None
    training = of_its_object(source, training)
    for other in training:
        if _same(source, other):
            return _finding(source, other, f"uses the training batch size ({other.text})")
        if is_same_setting(project, source, other):
            # The function that evaluates has names of its own for the setting.
            other = dataclasses.replace(other, batch=source.batch)
            return _finding(source, other, f"uses the training batch size ({other.text})")
    for other in training:
        sizes = _sizes(project, source), _sizes(project, other)
        if sizes[0] and sizes[1] and max(sizes[0]) <= min(sizes[1]) and max(sizes[1]) > 1:
            size, train = max(sizes[0]), min(sizes[1])
            if train_eval_pairs.is_enough(size, train) or (size == 1 and one_is_enough(project, module, source)):
                return None
            return _smaller(project, source, other, size, train)
    return None


def _same(source: BatchSource, other: BatchSource) -> bool:
    """Return whether the size is the very expression of the training batches, or falls back to it."""
    if source.batch.node is other.batch.node:
        return True
    if isinstance(source.batch.node, ast.Constant):
        return False
    if source.text == other.text:
        # `val_batch_size` for a few training samples to plot is no size of the training.
        return source.batch.module is other.batch.module and split_of(source.text) is not Split.EVAL
    match source.batch.node:
        case ast.BoolOp(op=ast.Or(), values=[*_, last]):
            return ast.unparse(last) == other.text
    return False


def _sizes(project: Project, source: BatchSource) -> list[int]:
    """All sizes that the batches may have; empty if not wholly known."""
    known = project.fact(Constants).of(source.batch.module, source.batch.node)
    if not known.every(lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return []  # -1 and 0 mean that the size is computed elsewhere
    return [value.value for value in with_others(project, known.values) if isinstance(value.value, int)]


def _smaller(project: Project, source: BatchSource, other: BatchSource, size: int, train: int) -> Finding:
    known = project.fact(Constants).of(source.batch.module, source.batch.node)
    what = f"is {size}, training uses {other.text}" if len({*_sizes(project, other)}) > 1 else _compared(size, train)
    finding = dataclasses.replace(_finding(source, other, what, train), cost=of_one(project, source, size))
    place, *others = {value.place for value in known.values}
    if others or place.path != finding.path:
        return finding
    related = (Place(finding.path, finding.span, "the evaluation batches are made here"), *finding.related)
    return RULE.finding(
        place.path,
        place.span,
        finding.message,
        help=finding.help,
        payload=finding.payload,
        related=related,
        cost=finding.cost,
    )


def _finding(source: BatchSource, other: BatchSource | None, what: str, size: int = 0) -> Finding:
    module = source.call.module
    inside = source.batch.module is module and source.call.node in set(module.syntax.ancestors(source.batch.node))
    at: ast.AST = source.batch.node if source.keyword or stands_below(source) else source.call.node
    if not inside and other is not None and source.batch.node is not other.batch.node and source.batch.module is module:
        at = source.batch.node
    assert isinstance(at, ast.expr)
    made = Place(module.path, module.syntax.span(other.node), "the training batches are made here") if other else None
    text = other.text if other is not None else source.text
    own = "a larger batch size of its own" if text.isdecimal() else f"its own batch size, e.g. `{double(text)}`"
    return RULE.finding(
        module.path,
        module.syntax.span(at),
        f"{source.keyword or 'evaluation batch size'} {what}" if source.split is Split.EVAL else what,
        help=f"give evaluation {own}: more fits without a backward pass (`gpulint estimate` says how much)",
        payload=EvalBatch(source, other, size) if other is not None else None,
        related=(made,) if made is not None else (),
    )


def _compared(size: int, train: int) -> str:
    return f"uses the training batch size ({train})" if size == train else f"is {size}, training uses {train}"


RULE = Rule(
    code="GPU202",
    name="eval-batch-size",
    category=Category.IMPROPER_BATCH_SIZE,
    dimension=Dimension.MODEL,
    severity=Severity.INFO,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    tokens=(
        ("batch", "Batch", "loader_kwargs", "bsz", "bs=", "pipeline", ".generate(", ".chat(", "unsqueeze(", "[None]"),
        ("val", "test", "dev", "inference", "pipeline", ".generate(", ".chat(", "unsqueeze(", "[None]"),
    ),
    summary="evaluation uses the training batch size or a smaller one",
    why="evaluation keeps no activations, so a larger batch fits",
    evidence=(Evidence("25.6% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("small-evaluation-batch"),
    fix=Safety.UNSAFE,
    bad="""\
train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
val_loader = DataLoader(val_set, batch_size=args.batch_size)
""",
    good="""\
train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
val_loader = DataLoader(val_set, batch_size=4 * args.batch_size)
""",
    references=("https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
)
