"""What it detects
An evaluation loader (or ``per_device_eval_batch_size``, ``valid_loader_kwargs`` and the like) that uses the training
batch size, or a smaller one, in the same function, class or call; or whose size on a command line, in a configuration
file, in a dictionary or by the default of an option is that of training beside it.

Knows PyTorch's ``DataLoader`` and the loaders of torchdata, PyG, DGL, MONAI and WebDataset, ``batch`` of ``tf.data``,
and any call with a keyword for the batch size, such as those of Keras, Hugging Face's ``TrainingArguments`` and
SpeechBrain.

Why it costs GPU time
Evaluation keeps no activations for a backward pass, so two to four times the training batch fits; a small batch
leaves the GPU idle between launches. Improper batch size makes 25.6% of the study's 706 issues in 400 jobs.

When it is right not to change
The metric needs the batch (one image at a time, PSNR averaged over images, batch statistics); the split is smaller than
one batch; full-neighbourhood inference on graphs; both loaders are one on purpose.

Fix safety
Unsafe: metrics that are averaged per batch change a little, and the larger batch must fit. Nothing is changed where a
number of evaluation steps is worked out from the batch size.

References
https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.estimates import BatchSizes
from gpulint.facts import paired_sizes
from gpulint.facts.batches import HEAD, Source, Split, home, split_of
from gpulint.facts.eval_batches import has_reason, never_evaluates, one_is_enough, only_evaluates, trained_on
from gpulint.facts.launch_options import given
from gpulint.facts.launches import launches
from gpulint.facts.passing import argument_of
from gpulint.facts.scopes import ModuleScopes, Ref
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule

_SAMPLES = 2
"""Smallest evaluation batch to report where the program is not read: one sample at a time often has a reason."""


@dataclass(frozen=True, slots=True)
class EvalBatch:
    """The evaluation batches and the training batches whose size they share or do not reach."""

    evaluation: Source
    training: Source
    size: int = 0
    """The training batch size; 0 if it is only known as an expression."""
    fits: int = 0
    """The evaluation batch that fits, if it was estimated."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    scopes = project.scopes(document)
    seen = set[tuple[int | None, int]]()
    for finding in chain(_written(document), _python(document, project, scopes) if scopes is not None else ()):
        if (finding.span.cell, finding.span.line) not in seen:
            seen.add((finding.span.cell, finding.span.line))
            yield finding


def _python(document: Document, project: Project, scopes: ModuleScopes) -> Iterator[Finding]:
    if document.kind is Kind.NOTEBOOK and not project.gpu_programs.runs(scopes):
        return  # batches for an endpoint, or a model of scikit-learn
    if project.gpu_programs.is_elsewhere(scopes):
        return
    found = _all(project, scopes)
    if (fits := project.batch_that_fits(document.path)) is not None and fits.evaluation > 0:
        found = (_informed(finding, fits) for finding in found)
    # What a loader tells already is not told again of the option that sets its size.
    first = next(found, None) or next(found := _defaults(project, scopes), None)
    if first is not None and not only_evaluates(project, scopes):
        yield first
        yield from found


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


def _all(project: Project, scopes: ModuleScopes) -> Iterator[Finding]:
    groups: dict[ast.AST | None, list[Source]] = {}
    made = project.batches.in_module(scopes)
    for source in made:
        groups.setdefault(home(source.call), []).append(source)
    for where, sources in groups.items():
        training = [source for source in sources if source.split is Split.TRAIN]
        for evaluation in [source for source in sources if source.split is Split.EVAL]:
            lifted = _lifted(project, scopes, made, where)
            training += [other for other in lifted if other.node is not evaluation.node and _same(evaluation, other)]
        training = trained_on(project, training, made)
        for source in sources:
            finding = _check(project, scopes, source, training)
            if finding is not None:
                yield finding
    yield from _shared(project, scopes)
    for settings in paired_sizes.declared(project, scopes):
        yield from _paired(scopes.path, paired_sizes.pairs(settings))


def _shared(project: Project, scopes: ModuleScopes) -> Iterator[Finding]:
    """Loaders of a helper that is called for both splits, at the helper unless it is called in its own module."""
    seen = set[ast.AST]()
    for shared in project.batches.shared(scopes):
        at = shared.evaluation if shared.evaluation.scopes is scopes else shared.call
        if at.node in seen:
            continue
        seen.add(at.node)
        assert isinstance(at.node, ast.Call)
        size = ast.unparse(shared.batch.node)
        yield RULE.finding(
            scopes.path,
            scopes.module.span(at.node),
            f"evaluation batch size uses the training batch size ({size})",
            help=f"add a batch-size parameter to the helper, and pass e.g. `{double(size)}` for evaluation",
            related=(
                project.values.place(shared.evaluation, "called for evaluation here"),
                project.values.place(shared.training, "called for training here"),
            ),
        )


def _defaults(project: Project, scopes: ModuleScopes) -> Iterator[Finding]:
    """Options whose default is that of the training batches, or that fall back to it."""
    if never_evaluates(project, scopes):
        return
    yield from _paired(scopes.path, paired_sizes.pairs(paired_sizes.optional(project, scopes)))
    for statement, name in paired_sizes.fallbacks(project, scopes):
        size = ast.unparse(statement.value)
        yield RULE.finding(
            scopes.path,
            scopes.module.span(statement),
            f"{name} falls back to the training batch size ({size})",
            help=f"fall back to e.g. `{double(size)}`: more fits without a backward pass",
        )


def _written(document: Document) -> Iterator[Finding]:
    """Sizes on the command lines of a script or job, and in a trainer's own configuration file."""
    if paired_sizes.only_tries(document.path.stem):
        return
    for script in [*document.scripts, *(script for task in document.tasks for script in task.scripts)]:
        for launch in launches(script):
            settings = {
                name: (paired_sizes.number(option.value), option.span) for name, option in given(launch.args).items()
            }
            yield from _paired(document.path, paired_sizes.pairs(settings, _SAMPLES))
    if document.kind is Kind.JOBSPEC and not document.tasks:
        from gpulint.documents.yamlvalues import flatten

        yield from _paired(document.path, paired_sizes.pairs(flatten(document.source), _SAMPLES))


def _paired(path: Path, pairs: Iterable[paired_sizes.Pair]) -> Iterator[Finding]:
    for pair in pairs:
        yield RULE.finding(
            path,
            pair.span,
            f"{pair.name} {_compared(pair.size, pair.training)}",
            help=f"set it to e.g. `{2 * pair.training}`: more fits without a backward pass",
        )


def _lifted(project: Project, scopes: ModuleScopes, sources: list[Source], where: ast.AST | None) -> Iterator[Source]:
    """Training batches that a function makes through a helper which takes their size: the helper's call."""
    for source in sources:
        helper = scopes.function(source.node)
        size = source.batch.node
        if source.split is not Split.TRAIN or helper is None or helper is where or not isinstance(size, ast.Name):
            continue
        for site in project.resolver.call_sites(scopes, helper):
            assert isinstance(site.node, ast.Call)
            passed = argument_of(helper, site.node, size.id)
            if passed is not None and site.scopes is scopes and home(site) is where:
                yield dataclasses.replace(source, call=site, batch=Ref(scopes, passed))


def _check(project: Project, scopes: ModuleScopes, source: Source, training: list[Source]) -> Finding | None:
    if source.split is Split.BOTH:
        if project.resolver.callees(scopes, source.node):
            return None
        return _finding(source, None, "one batch size serves training and evaluation")
    if source.split is not Split.EVAL or has_reason(project, scopes, source) or project.batches.trains(source.node):
        return None
    for other in training:
        if _same(source, other):
            return _finding(source, other, f"uses the training batch size ({other.text})")
    for other in training:
        sizes = _sizes(project, source), _sizes(project, other)
        if sizes[0] and sizes[1] and max(sizes[0]) <= min(sizes[1]) and max(sizes[1]) > 1:
            if set(sizes[0]) == {1} and one_is_enough(project, scopes, source):
                return None
            return _smaller(project, source, other, max(sizes[0]), min(sizes[1]))
    return None


def _same(source: Source, other: Source) -> bool:
    """Is the size the very expression of the training batches, or does it fall back to it?"""
    if source.batch.node is other.batch.node:
        return True
    if isinstance(source.batch.node, ast.Constant):
        return False
    if source.text == other.text:
        # `val_batch_size` for a few training samples to plot is no size of the training.
        return source.batch.scopes is other.batch.scopes and split_of(source.text) is not Split.EVAL
    match source.batch.node:
        case ast.BoolOp(op=ast.Or(), values=[*_, last]):
            return ast.unparse(last) == other.text
    return False


def _sizes(project: Project, source: Source) -> list[int]:
    """All sizes that the batches may have; empty if not wholly known."""
    known = project.values.of(source.batch.scopes, source.batch.node)
    if not known.every(lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return []  # -1 and 0 stand for a size that is worked out elsewhere
    return [value.value for value in known.values if isinstance(value.value, int)]


def _smaller(project: Project, source: Source, other: Source, size: int, train: int) -> Finding:
    known = project.values.of(source.batch.scopes, source.batch.node)
    what = _compared(size, train)
    finding = _finding(source, other, what, train)
    places = {value.place for value in known.values}
    place = places.pop()
    if places or place.path != finding.path:
        return finding
    related = (Place(finding.path, finding.span, "the evaluation batches are made here"), *finding.related)
    return RULE.finding(
        place.path, place.span, finding.message, help=finding.help, payload=finding.payload, related=related
    )


def _finding(source: Source, other: Source | None, what: str, size: int = 0) -> Finding:
    scopes = source.call.scopes
    inside = source.batch.scopes is scopes and source.call.node in set(scopes.module.ancestors(source.batch.node))
    at: ast.AST = source.batch.node if source.keyword or _stands_below(source) else source.call.node
    if not inside and other is not None and source.batch.node is not other.batch.node and source.batch.scopes is scopes:
        at = source.batch.node
    assert isinstance(at, ast.expr)
    related = []
    if other is not None:
        related.append(Place(scopes.path, scopes.module.span(other.node), "the training batches are made here"))
    text = other.text if other is not None else source.text
    return RULE.finding(
        scopes.path,
        scopes.module.span(at),
        f"{source.keyword or 'evaluation batch size'} {what}" if source.split is Split.EVAL else what,
        help=f"give evaluation its own batch size, e.g. `{double(text)}`: more fits without a backward pass",
        payload=EvalBatch(source, other, size) if other is not None else None,
        related=tuple(related),
    )


def _stands_below(source: Source) -> bool:
    """Does the batch size stand so far below the head of a call of many lines that the call's place tells little?"""
    size = source.batch.node
    assert isinstance(size, ast.expr)
    return (
        source.batch.scopes is source.scopes
        and size.lineno > source.node.lineno + HEAD
        and source.call.node in set(source.scopes.module.ancestors(size))
    )


def _compared(size: int, train: int) -> str:
    return f"uses the training batch size ({train})" if size == train else f"is {size}, training uses {train}"


_ITEM = regex.compile(r"[\w.]+(\[[^\[\]()]+\]|\([^()]*\))")
"""``params["batch_size"]``, ``int(size)``"""


def double(size: str) -> str:
    """An expression for twice ``size``."""
    return (
        str(2 * int(size))
        if size.isdecimal()
        else f"2 * {size}"
        if size.replace(".", "").isidentifier() or _ITEM.fullmatch(size)
        else f"2 * ({size})"
    )


RULE = Rule(
    code="GPU202",
    name="eval-batch-size",
    category=Category.IMPROPER_BATCH_SIZE,
    dimension=Dimension.MODEL,
    severity=Severity.INFO,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.SHELL, Kind.JOBSPEC}),
    tokens=(("batch", "Batch", "loader_kwargs", "bsz", "bs="), ("val", "test", "dev", "inference")),
    summary="evaluation uses the training batch size or a smaller one",
    why="evaluation keeps no activations, so a larger batch fits (improper batch size: 25.6% of the 706 issues)",
    evidence=(Evidence("25.6% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
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
