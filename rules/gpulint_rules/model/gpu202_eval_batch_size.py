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
from gpulint.facts.batches import Source, Split, split_of
from gpulint.facts.glances import looks_at_few
from gpulint.facts.scopes import ModuleScopes, last_name
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule

_TINY = frozenset({"TUDataset", "Planetoid", "KarateClub", "WebKB", "Actor"})
"""Graph benchmarks whose splits are about one batch."""


_FITS = re.compile(r"\.fit\w*\(|\.train\(|[tT]rainer\b|GradientTape|value_and_grad|\btrain\w*\(")
"""Training that a library or a function from elsewhere may do."""


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
    if first is not None and scopes is not None and not _only_evaluates(project, scopes):
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
    for source in project.batches.in_module(scopes):
        groups.setdefault(_home(scopes, source), []).append(source)
    seen = set[tuple[int, int]]()
    for sources in groups.values():
        training = [source for source in sources if source.split is Split.TRAIN]
        for source in sources:
            finding = _check(project, scopes, source, training)
            if finding is not None and (finding.span.cell or 0, finding.span.line) not in seen:
                seen.add((finding.span.cell or 0, finding.span.line))
                yield finding
    yield from _shared(project, scopes)
    yield from _declared(project, scopes)


def _only_evaluates(project: Project, scopes: ModuleScopes) -> bool:
    """A program whose split named "train" is never trained on: features for a nearest-neighbour search, say."""
    if "__main__" not in scopes.module.source.text or _FITS.search(scopes.module.source.text):
        return False
    if any(project.gpu_programs.users(scopes.path)):
        return False
    return not any(project.loops.trains(module) for module in project.gpu_use.of(scopes.path).modules)


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
        train = next((size for name, size in sizes.items() if size and split_of(name) is not Split.EVAL), 0)
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


def _one_size(project: Project, scopes: ModuleScopes, node: ast.expr) -> int:
    """The default of a field; 0 if it is not one known size."""
    known = project.values.of(scopes, node)
    sizes = {value.value for value in known.values}
    size = sizes.pop() if known.complete and len(sizes) == 1 else 0
    return size if isinstance(size, int) and not isinstance(size, bool) else 0


def _home(scopes: ModuleScopes, source: Source) -> ast.AST | None:
    """Sources are compared within a function; the ``*_dataloader`` methods of one class belong together."""
    function = scopes.function(source.node)
    if function is not None and "dataloader" in function.name and (owner := scopes.class_of(function)) is not None:
        return owner
    return function


def _check(project: Project, scopes: ModuleScopes, source: Source, training: list[Source]) -> Finding | None:
    if source.split is Split.BOTH:
        if project.resolver.callees(scopes, source.node):
            return None
        return _finding(project, source, None, "one batch size serves training and evaluation")
    if (
        source.split is not Split.EVAL
        or _is_one_on_purpose(scopes, source)
        or _bounded(project, scopes, source)
        or _unused(scopes, source.node)
    ):
        return None
    for other in training:
        if _same(source, other):
            return _finding(project, source, other, f"uses the training batch size ({other.text})")
    for other in training:
        sizes = _sizes(project, source), _sizes(project, other)
        if sizes[0] and sizes[1] and max(sizes[0]) <= min(sizes[1]) and max(sizes[1]) > 1:
            if set(sizes[0]) == {1} and (_scores_images(project, scopes) or _glanced_at(project, source)):
                return None
            return _smaller(project, source, other, max(sizes[0]), min(sizes[1]))
    return None


def _is_one_on_purpose(scopes: ModuleScopes, source: Source) -> bool:
    """Does a comment right above say that the batch of one has a reason?"""
    size = source.batch.node
    if not isinstance(size, ast.Constant) or size.value != 1:
        return False
    above = scopes.module.source.line(scopes.module.span(source.node).line - 1).strip()
    return above.startswith("#") and "batch" in above


def _scores_images(project: Project, scopes: ModuleScopes) -> bool:
    """Does the program average a logarithm of each image's error? That of a batch's mean error is another number."""
    for module in project.gpu_use.of(scopes.path).modules:
        for name, calls in module.calls_by_name.items():
            if _PSNR.search(name):
                return True
            if name == "log10" and any(_is_named_psnr(module, call) for call in calls):
                return True
    return False


def _is_named_psnr(scopes: ModuleScopes, call: ast.Call) -> bool:
    statement = next((up for up in scopes.module.ancestors(call) if isinstance(up, ast.Assign)), None)
    return statement is not None and "psnr" in last_name(statement.targets[0]).lower()


def _bounded(project: Project, scopes: ModuleScopes, source: Source) -> bool:
    """Does something else than the batch size bound the work of one step?"""
    neighbors = project.arguments.value(scopes, source.node, "num_neighbors", 1)
    if neighbors.any(lambda value: isinstance(value, tuple) and -1 in value):
        return True
    for part in [*source.node.args[:1], *(k.value for k in source.node.keywords if k.arg == "dataset")]:
        data = part.value if isinstance(part, ast.Subscript) else part
        if isinstance(data, ast.Name) and any(
            _is_tiny(binding.value) for binding in scopes.scope(data).lookup(data.id) if binding.value is not None
        ):
            return True
    return False


def _unused(scopes: ModuleScopes, call: ast.Call) -> bool:
    """Is the loader assigned to a name that nothing in its function reads?"""
    statement = scopes.module.parents.get(call)
    function = scopes.function(call)
    if function is None or not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    name = statement.targets[0].id
    return not any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in ast.walk(function)
    )


def _glanced_at(project: Project, source: Source) -> bool:
    """Do all loops that draw from the loader stop after a few batches?"""
    draws = project.draws.by_loader.get(source.node, ())
    return bool(draws) and all(looks_at_few(project, draw.where) for draw in draws)


def _is_tiny(data: ast.expr) -> bool:
    return any(isinstance(call, ast.Call) and last_name(call.func) in _TINY for call in ast.walk(data))


def _same(source: Source, other: Source) -> bool:
    """Is the size the very expression of the training batches, or does it fall back to it?"""
    if source.batch.node is other.batch.node:
        return True
    if isinstance(source.batch.node, ast.Constant):
        return False
    if source.text == other.text:
        return source.batch.scopes is other.batch.scopes
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
    finding = _finding(project, source, other, what, train)
    places = {value.place for value in known.values}
    place = places.pop()
    if places or place.path != finding.path:
        return finding
    related = (Place(finding.path, finding.span, "the evaluation batches are made here"), *finding.related)
    return RULE.finding(
        place.path, place.span, finding.message, help=finding.help, payload=finding.payload, related=related
    )


def _finding(project: Project, source: Source, other: Source | None, what: str, size: int = 0) -> Finding:
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


_PSNR = re.compile(r"(^|_)psnr$|peak_signal_noise_ratio$")
"""Functions that compare two images; torchmetrics' classes keep the error of all."""
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
