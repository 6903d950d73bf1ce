"""What loops over an evaluation loader assume about the size of its batches."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.project import Project
from gpulint.query import query
from gpulint.workload.batch_sources import BatchSource
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name
from gpulint_fixers.model.flattened_batches import flattened, flattened_elsewhere

_PER_BATCH = frozenset(
    "roc_auc_score average_precision_score f1_score fbeta_score precision_score recall_score jaccard_score auc "
    "r2_score precision_recall_curve precision_recall_fscore_support balanced_accuracy_score pearsonr "
    "cohen_kappa_score matthews_corrcoef classification_report confusion_matrix spearmanr kendalltau".split()
)
"""Scores of several samples whose mean over batches depends on how many there are in each."""
_COMPARES = regex.compile(
    r"(?i)cox(?!y)(_?ph)?_?(loss|likelihood|nll)?$|coxph|partial_?likelihood|concordance|(^|_)c_?index|"
    r"info_?nce|nt_?x_?ent|sup_?con(_?loss)?$|clip_?loss|list_?net|list_?mle|lambda_?rank|npairs?_?loss"
)
"""Losses and scores that compare the samples of a batch with each other."""
_COMPARED = "`{}` compares the samples of a batch, so that its value depends on their number"
_SAMPLES = regex.compile(
    r"^(n|num)_?(val|valid|validation|test|eval|dev)?(_?(samples|images|examples))?$|data(set)?_?size"
)
"""Names of a number of samples, other than of batches."""
_DECIDES = regex.compile(r"sched\w*\.step$|plateau\w*\.step$|early_?stop\w*(\.\w+)?$|stopper(\.\w+)?$", re.IGNORECASE)
"""Calls that reduce the learning rate or end the training."""
_SUMMED = regex.compile(r"reduction\s*=\s*['\"](sum|none)|size_average\s*=\s*False|reduce\s*=\s*False")
_LARGER = "puts several views of each sample into the batch, which is that much larger already"


def relies_on_size(project: Project, source: BatchSource) -> str | None:
    """Return why the loops over a loader need batches of the size that they have; None if nothing shows that."""
    size = last_name(source.batch.node) if isinstance(source.batch.node, ast.expr) else ""
    draws = project.fact(BatchFlow).of_loader(source.call.module, source.node)
    if not draws and (compared := _comparing_anywhere(source.call.module)):
        return _COMPARED.format(compared)
    for draw in draws:
        module, loop = draw.where.module, draw.where.node
        region = module.function(loop) or loop
        if not isinstance(loop, ast.For | ast.AsyncFor) or loop not in [region, *walk(region)]:
            continue
        if made := flattened(loop):
            return f"`{made}` {_LARGER}"
        for part in walk(loop):
            if isinstance(part, ast.Call) and last_name(part.func) in _PER_BATCH:
                return f"`{last_name(part.func)}` is taken of each batch, so that its mean depends on their size"
            if isinstance(part, ast.Call) and (compared := _comparing(module, part)):
                return _COMPARED.format(compared)
        if total := _mean_of_sums(module, loop):
            return f"`{total}` sums batch means and is divided by the number of samples, so a larger batch changes it"
        if total := _sum_that_decides(module, loop):
            return f"`{total}` sums batch means and decides how training goes on, so that half as many batches halve it"
        made_here = isinstance(region, FUNCTIONS) and source.node in set(walk(region))
        named = (part for part in walk(loop if made_here else region) if isinstance(part, ast.Name | ast.Attribute))
        if size and any(last_name(part) == size and isinstance(part.ctx, ast.Load) for part in named):
            return f"the loop over the loader computes with `{size}`"
    made = flattened_elsewhere(project, source.call.module, source.node)
    return f"`{made}` {_LARGER}" if made else None


def _comparing(module: ModuleIndex, call: ast.Call) -> str:
    """Return the name of the loss that a call computes from a whole batch (``CoxPHLoss()(...)``, ``criterion(...)``
    of a ``criterion = CoxPHLoss()``); empty for others."""
    names = [last_name(call.func)]
    if isinstance(call.func, ast.Name):
        made = (binding.value for binding in module.scope(call).lookup(call.func.id))
        names += [last_name(value.func) for value in made if isinstance(value, ast.Call)]
    return next((name for name in names if _COMPARES.search(name)), "")


@query
def _comparing_anywhere(module: ModuleIndex) -> str:
    """Return the name of such a loss in a module, for a loader of which no loop is seen; empty if there is none."""
    return next((name for name in sorted(module.calls_by_name) if _COMPARES.search(name)), "")


def _mean_of_sums(module: ModuleIndex, loop: ast.For | ast.AsyncFor) -> str:
    """Return the sum of the batches' mean losses that is divided by a number of samples; empty if there is none."""
    totals = _sums(loop)
    if not totals or _SUMMED.search(module.syntax.source.text):
        return ""
    function = module.function(loop)
    divisions = (part for part in module.syntax.of(ast.BinOp) if isinstance(part.op, ast.Div))
    return next(
        (
            divided
            for part in divisions
            if (divided := ast.unparse(part.left)) in totals
            and module.function(part) is function
            and _counts_samples(module, part.right)
        ),
        "",
    )


def _sums(loop: ast.For | ast.AsyncFor) -> set[str]:
    """The names of sums of losses."""
    return {
        ast.unparse(part.target)
        for part in walk(loop)
        if isinstance(part, ast.AugAssign) and isinstance(part.op, ast.Add) and _is_loss(part.value)
    }


def _sum_that_decides(module: ModuleIndex, loop: ast.For | ast.AsyncFor) -> str:
    """Return the sum of the batches' mean losses that a scheduler or early stopping gets before anything divides it;
    empty if there is none."""
    totals, function = _sums(loop), module.function(loop)
    if not totals or _SUMMED.search(module.syntax.source.text):
        return ""
    around = function or next((up for up in module.syntax.ancestors(loop) if isinstance(up, ast.Module)), loop)
    end = loop.end_lineno or loop.lineno
    later = [part for part in walk(around) if isinstance(part, ast.expr | ast.stmt) and part.lineno > end]
    for total in sorted(totals):
        uses = [part.lineno for part in later if isinstance(part, ast.expr) and _decides(part, total)]
        made = [part.lineno for part in later if _is_set(part, total)]
        if uses and min(uses) < min(made, default=min(uses) + 1):
            return total
    return ""


def _decides(part: ast.expr, total: str) -> bool:
    """``scheduler.step(val_loss)`` and ``early_stopping(val_loss, model)``"""
    match part:
        case ast.Call(func=func, args=args):
            return _DECIDES.search(ast.unparse(func)) is not None and total in map(ast.unparse, args)
    return False


def _is_set(part: ast.AST, total: str) -> bool:
    match part:
        case ast.AugAssign(target=target):
            return ast.unparse(target) == total
        case ast.Assign(targets=targets):
            return total in map(ast.unparse, targets)
    return False


def _is_loss(value: ast.expr) -> bool:
    """``loss``, ``loss.item()`` and ``float(loss)``, without a factor."""
    match value:
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return _is_loss(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="item" | "detach" | "cpu"), args=[]):
            return _is_loss(inner)
        case ast.Name(id=name):
            return re.search(r"loss", name, re.IGNORECASE) is not None
    return False


def _counts_samples(module: ModuleIndex, value: ast.expr) -> bool:
    """``len(loader.dataset)``, ``len(val_dataset)``, or ``n_val`` that is no length of a loader."""
    match value:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() | ast.Attribute() as counted]):
            return last_name(counted).lower().endswith(("dataset", "data_set"))
        case ast.Name(id=name) if _SAMPLES.search(name):
            made = (one.value for one in module.scope(value).lookup(name) if one.value is not None)
            return not any("load" in text or "batch" in text or text.isdecimal() for text in map(ast.unparse, made))
    return False
