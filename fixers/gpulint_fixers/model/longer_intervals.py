"""More steps between two checkpoints, as the times in the settings advise."""

from __future__ import annotations

import ast
import re

from gpulint_rules.model.gpu211_blocking_checkpoint import BlockingCheckpoint

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Declined, Fix, Safety
from gpulint.project import Project
from gpulint.transfers.checkpoint_intervals import StatedInterval, interval_of_callback
from gpulint.transfers.checkpoints import Checkpoints
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import LOOPS, NodeRef, last_name
from gpulint_fixers.edits.numbers import replace_number

_SAVES = regex.compile(r"save|ckpt|checkpoint|snapshot|dump", re.IGNORECASE)
"""Names of what is for checkpoints alone."""
_OTHERS = regex.compile(r"sampl|eval|valid|(?<![a-z])val(?![a-z])|test|log|plot|image|print|summary", re.IGNORECASE)
"""Parts of names of what is for other work too: ``save_and_sample_every``."""
_BEST = ("load_best_model_at_end", "save_best_only", "monitor")
"""Parameters with which the best checkpoint counts."""
_BESIDE = regex.compile(
    r"state_dict|^(print|info|debug|format|Path|str|int|dict|list|len|sorted|range|max|min|join|split|startswith|exists|listdir|glob"
    r"|makedirs|mkdir|remove|unlink|rmtree|unwrap\w*|cpu|barrier|wait_for_everyone|synchronize|is_main_process|get_rank|time"
    r"|strftime)$"
)
"""Calls beside the write that belong to it."""


def longer_interval(project: Project, payload: BlockingCheckpoint) -> Fix | Declined | None:
    """Write the number of steps that costs the least; None if nothing tells it."""
    timed = payload.timed
    if timed is None or timed.longer is None:
        return None
    stated, steps = timed.stated, timed.longer
    if stated.number is None or stated.value is None:
        return Declined(f"the interval is the default of the framework; set `{stated.name}={steps}`")
    reason = _other_use(stated, stated.number) or _other_tests(stated.number) or _starts_anew(payload, stated.counter)
    if reason is not None or (reason := _picks_best(project, payload)) is not None:
        return Declined(reason)
    if (other := _other_callback(project, payload, stated.steps, steps)) is not None:
        return Declined(other)
    if not timed.times.is_small(steps):
        return Declined(
            f"with one every {steps:,} steps {timed.times.share(steps):.0%} of the time would still be lost to them"
        )
    edits = replace_number(project, stated.value.place, stated.steps, str(steps))
    if edits is None:
        return Declined(f"the interval is computed, not written as a number; {steps:,} steps cost the least")
    minutes = timed.times.step * steps / 60
    return Fix(
        f"write a checkpoint every {steps} steps, by the Young-Daly rule and the times in the settings; a failure "
        f"loses up to {minutes:.0f} min of training, and a run of fewer steps writes none while it trains",
        Safety.UNSAFE,
        edits,
    )


def _other_use(stated: StatedInterval, number: NodeRef) -> str | None:
    """Return what else runs at the interval, if something may."""
    node = number.node
    if not isinstance(node, ast.Constant) and not (isinstance(node, ast.expr) and _is_for_saving(_name(node))):
        return "the name of the interval does not say that it is for checkpoints alone"
    if stated.name:
        return None
    inner: ast.AST = node
    for up in number.module.syntax.ancestors(node):
        if isinstance(up, ast.If) and up.test is inner:
            return _other_work(up)
        if isinstance(up, ast.Assign):
            own = all(_is_for_saving(last_name(target)) for target in up.targets)
            return None if own else "what else runs at the same interval could not be determined"
        inner = up if isinstance(up, ast.expr) else inner
    return "what else runs at the same interval could not be determined"


def _name(node: ast.expr) -> str:
    """``save_every`` of ``config["save_every"]`` as well."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
    return last_name(node)


def _other_tests(number: NodeRef) -> str | None:
    """Return what a second test by the same number runs (``if step % SAVE_EVERY == 0: evaluate(model)``)."""
    node, syntax = number.node, number.module.syntax
    if isinstance(node, ast.Constant):
        return None
    written = ast.unparse(node)
    for rest in syntax.of(ast.BinOp):
        assert isinstance(rest, ast.BinOp)
        if rest.right is node or not isinstance(rest.op, ast.Mod) or ast.unparse(rest.right) != written:
            continue
        inner: ast.AST = rest
        for up in syntax.ancestors(rest):
            if isinstance(up, ast.If) and up.test is inner and _other_work(up) is not None:
                return f"{syntax.span(up).words} also asks for the interval, for something else"
            inner = up if isinstance(up, ast.expr) else inner
    return None


def _picks_best(project: Project, payload: BlockingCheckpoint) -> str | None:
    """Return why fewer checkpoints would change the result: the settings or the callback look for the best one."""
    arguments, module, call = project.fact(Arguments), payload.save.call.module, payload.save.node
    for name in _BEST if payload.save.is_callback else ():
        given = arguments.of(module, call, name)
        if not given.is_absent and not arguments.value(module, call, name).every(lambda value: not value):
            return f"with `{name}` the best of the checkpoints is looked for, of which there would be fewer"
    return None


def _other_callback(project: Project, payload: BlockingCheckpoint, steps: int, longer: int) -> str | None:
    """Return which other callback writes at least as often as this one would then, and at the same steps with it:
    one that keeps the newest checkpoint beside one that keeps them all."""
    save = payload.save
    for other in project.fact(Checkpoints).in_module(save.call.module) if save.is_callback else ():
        every = interval_of_callback(project, other) if other.node is not save.node else None
        if every is not None and every != steps and every <= longer:
            return f"another callback writes one every {every:,} steps already, so choose for both"
    return None


def _is_for_saving(name: str) -> bool:
    """Return whether a name says that it is for checkpoints, and for nothing else."""
    return bool(_SAVES.search(name)) and not _OTHERS.search(name)


def _other_work(branch: ast.If) -> str | None:
    """Return what else a branch does than write a checkpoint; in one that skips the rest of a round it is that rest."""
    calls = [last_name(part.func) for one in branch.body for part in walk(one) if isinstance(part, ast.Call)]
    if not any(map(_SAVES.search, calls)):
        return "the rest of the loop's round runs at the same interval"
    other = next((name for name in calls if not _SAVES.search(name) and not _BESIDE.search(name)), None)
    return f"`{other}` runs at the same interval" if other is not None else None


def _starts_anew(payload: BlockingCheckpoint, counter: ast.expr | None) -> str | None:
    """Return why a run may never reach so many steps: a loop over batches counts those of its own epoch."""
    for context in payload.contexts if counter is not None else ():
        loop = context.loop.node
        if not isinstance(loop, ast.For) or counter is None or ast.unparse(counter) not in _set_by(loop.target):
            continue
        whole = isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "range"
        if not whole or any(isinstance(up, LOOPS) for up in context.loop.module.syntax.ancestors(loop)):
            return "the count starts anew with the loop, and may end before so many steps"
    return None


def _set_by(target: ast.expr) -> set[str]:
    return {ast.unparse(part) for part in walk(target) if isinstance(part, ast.Name | ast.Attribute)}
