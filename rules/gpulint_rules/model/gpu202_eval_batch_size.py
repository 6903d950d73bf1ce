"""What it detects
An evaluation loader (or ``per_device_eval_batch_size``, ``valid_loader_kwargs`` and the like) that uses the training
batch size, or a smaller one, in the same function, class or call.

Knows PyTorch's ``DataLoader`` and the loaders of torchdata, PyG, DGL, MONAI and WebDataset, ``batch`` of ``tf.data``,
and any call with a keyword for the batch size, such as those of Keras, Hugging Face's ``TrainingArguments`` and
SpeechBrain.

Why it costs GPU time
Evaluation keeps no activations for a backward pass, so two to four times the training batch fits; a small batch
leaves the GPU idle between launches. Improper batch size makes 25.6 % of the study's 706 issues in 400 jobs.

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
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpulint.documents.base import Document
from gpulint.estimates import BatchSizes
from gpulint.facts.batches import Source, Split, home, split_of
from gpulint.facts.eval_batches import has_reason, one_is_enough, only_evaluates
from gpulint.facts.passing import argument_of
from gpulint.facts.scopes import ModuleScopes, Ref
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule

_BARE = re.compile(r"(per_(device|gpu)_|local_|dataloader_)?(micro_?|mini_?)?batch_?(size)?(_per_(device|gpu))?")
"""Names of batch sizes that say of no split."""


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
    if document.kind is Kind.NOTEBOOK and scopes is not None and not project.gpu_programs.runs(scopes):
        return  # batches for an endpoint, or a model of scikit-learn
    found = _all(project, scopes) if scopes is not None else iter(())
    if (fits := project.batch_that_fits(document.path)) is not None and fits.evaluation > 0:
        found = (_informed(finding, fits) for finding in found)
    first = next(found, None)
    if first is not None and scopes is not None and not only_evaluates(project, scopes):
        yield first
        yield from found


def _informed(finding: Finding, fits: BatchSizes) -> Finding:
    """The finding with the batch that fits."""
    payload = finding.payload
    if isinstance(payload, EvalBatch):
        payload = dataclasses.replace(payload, fits=fits.eval_batch)
    text = (
        f"{fits.evaluation} samples fit {fits.card} in evaluation with a tenth of it free (estimated from"
        f" {fits.target}): try {fits.eval_batch}"
    )
    return dataclasses.replace(finding, help=text, payload=payload)


def _all(project: Project, scopes: ModuleScopes) -> Iterator[Finding]:
    groups: dict[ast.AST | None, list[Source]] = {}
    made = project.batches.in_module(scopes)
    for source in made:
        groups.setdefault(home(source.call), []).append(source)
    seen = set[tuple[int, int]]()
    for where, sources in groups.items():
        training = [source for source in sources if source.split is Split.TRAIN]
        for evaluation in [source for source in sources if source.split is Split.EVAL]:
            lifted = _lifted(project, scopes, made, where)
            training += [other for other in lifted if other.node is not evaluation.node and _same(evaluation, other)]
        for source in sources:
            finding = _check(project, scopes, source, training)
            if finding is not None and (finding.span.cell or 0, finding.span.line) not in seen:
                seen.add((finding.span.cell or 0, finding.span.line))
                yield finding
    yield from _shared(project, scopes)
    yield from _declared(project, scopes)


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
            help=f"let the helper take a batch size, and pass e.g. `{double(size)}` for evaluation",
            related=(
                project.values.place(shared.evaluation, "called for evaluation here"),
                project.values.place(shared.training, "called for training here"),
            ),
        )


def _declared(project: Project, scopes: ModuleScopes) -> Iterator[Finding]:
    """Fields of a configuration class: ``val_batch_size: int = 1`` beside ``batch_size: int = 4``."""
    for owner in scopes.classes:
        fields = {
            node.target.id: node.value
            for node in owner.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
        }
        sizes = {name: _one_size(project, scopes, value) for name, value in fields.items() if "batch" in name}
        train = next((size for name, size in sizes.items() if size and _is_training(name)), 0)
        for name, size in sizes.items():
            if split_of(name) is Split.EVAL and 0 < size <= train and train > 1:
                what = (
                    f"uses the training batch size ({train})" if size == train else f"is {size}, training uses {train}"
                )
                yield RULE.finding(
                    scopes.path,
                    scopes.module.span(fields[name]),
                    f"{name} {what}",
                    help=f"default to e.g. `{2 * train}`: without a backward pass more fits",
                )


def _is_training(name: str) -> bool:
    """``train_batch_size`` or a bare ``batch_size_per_gpu``, but no ``rollout_batch_size``."""
    return split_of(name) is Split.TRAIN or bool(_BARE.fullmatch(name))


def _one_size(project: Project, scopes: ModuleScopes, node: ast.expr) -> int:
    """The default of a field; 0 if it is not one known size."""
    known = project.values.of(scopes, node)
    sizes = {value.value for value in known.values}
    size = sizes.pop() if known.complete and len(sizes) == 1 else 0
    return size if isinstance(size, int) and not isinstance(size, bool) else 0


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
    at: ast.AST = source.batch.node if source.keyword else source.call.node
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
        help=f"give evaluation a batch size of its own, e.g. `{double(text)}`: without a backward pass more fits",
        payload=EvalBatch(source, other, size) if other is not None else None,
        related=tuple(related),
    )


def _compared(size: int, train: int) -> str:
    return f"uses the training batch size ({train})" if size == train else f"is {size}, training uses {train}"


_ITEM = re.compile(r"[\w.]+(\[[^\[\]()]+\]|\([^()]*\))")
"""``params["batch_size"]``, ``int(size)``"""


def double(size: str) -> str:
    """An expression for twice ``size``."""
    return (
        str(2 * int(size))
        if size.isdigit()
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
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("batch", "Batch", "loader_kwargs", "bsz", "bs="), ("val", "test", "dev", "inference")),
    summary="evaluation uses the training batch size or a smaller one",
    why="evaluation keeps no activations, so a larger batch fits (improper batch size: 25.6 % of the 706 issues)",
    evidence=(Evidence("25.6 % of 706 issues in 400 jobs with GPU utilization of 50 % or less"),),
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
