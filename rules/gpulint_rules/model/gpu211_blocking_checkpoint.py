"""What it detects
A checkpoint that the training loop writes and waits for: ``torch.save``, ``save_pretrained``,
``accelerator.save_state``, Fabric, DeepSpeed and Keras checkpoints, or a helper or object (``EarlyStopping``) that
leads to one, in the step or epoch loop. A path on remote storage (URL, network mount, a prefix from ``remote-paths``)
is a warning, any other path that is not known to be local is advice (not for adapters and models of few parameters,
nor for writes that are five epochs or two thousand steps apart, at a few counts of the run, or a number of rounds
apart that nothing tells); so is
a temporary folder that ``ray.train.report`` copies at once.

With the setting ``checkpoint-times`` the impact follows from the measured times, intervals of steps that the
Young-Daly rule makes at least twice as long are reported wherever the file goes unless that is a local disk, and those
that follow it are not if they lose less than 5% of the time.

Recognizes PyTorch (also its distributed checkpoints and torch_xla), safetensors, PaddlePaddle, MindSpore, TensorFlow,
Keras and Flax, pickles of models, ``save_pretrained``, Accelerate, Fabric and DeepSpeed, the checkpoint callbacks of
Keras and Lightning, and, where the path is remote, Ray Train's callback and the ``TrainingArguments`` of transformers
and TRL (a mount: they take a URL for the name of a folder). Recognizes PyTorch loops and the hooks of Lightning
modules, Hugging Face trainers, callbacks (Lightning, Keras), SpeechBrain brains and Ignite engines.

Why it costs GPU time
Every GPU of the job waits until the file is written, and remote storage takes tens of seconds for a large model.
Model checkpointing accounts for 16.4% of the study's 706 issues in 400 jobs.

When to ignore this rule
The file goes to the machine's own disk; the model is so small that writing it takes no time; the checkpoint is
written once.

Fix safety
Unsafe, offered for ``torch.save`` to a path that is known to be remote: ``save_in_background`` of a small module, which
the fix writes beside the program, saves to the local disk and lets one worker copy the files to their destinations in
order. Not for models of the tree's own that are written once per epoch, unless parts of theirs are known to be large.
A file is renamed when it is complete (mounts without rename are not supported), the program waits for the last
one at exit, and a failed upload is printed while training continues. Left alone where the program reads, copies or
deletes the files while it trains. Distributed checkpoints of PyTorch become ``async_save``, Lightning's trainer gets
``AsyncCheckpointIO`` if the program requires Lightning 2.5.4 (older ones write weights while they change), and Orbax's
checkpointer becomes ``AsyncCheckpointer``; the next save and the end of the training wait for the last one. For the
rest there is advice. Where none of this is possible, the literal or default that holds the number of steps becomes the
multiple of it that loses the least time (``checkpoint-times``), if nothing else runs at that interval and no best
checkpoint is looked for.

References
https://pytorch.org/docs/stable/distributed.checkpoint.html
https://doi.org/10.1145/361147.361115
https://doi.org/10.1016/j.future.2004.11.016
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import cast

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.gate import Gate
from gpulint.impact import Cost
from gpulint.libraries import gate_words
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.training.guards import Guards, is_benchmark
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.model_sizes import is_small_state
from gpulint.training.named_models import is_named_small
from gpulint.training.repetition import training_contexts
from gpulint.transfers.checkpoint_intervals import TimedInterval, timed_interval
from gpulint.transfers.checkpoint_times import is_for_tpu, is_quick, writes_adapter
from gpulint.transfers.checkpoints import Checkpoints, Save, speaks_of_saving
from gpulint.transfers.storage import UNKNOWN, Location, StorageLocations
from gpulint.values.arguments import Arguments
from gpulint.values.few_counts import is_at_few_counts
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef, last_name
from gpulint_rules.model.checkpoint_advice import advice, interval_advice, retention_advice
from gpulint_rules.model.checkpoint_costs import DEFAULT_STEPS, cost_of, interval_of, timed_cost

_MANY_EPOCHS = 5
_MANY_STEPS = 2_000
"""From so many epochs or steps between two writes on, the wait for a local disk is not worth a word."""


@dataclass(frozen=True, slots=True)
class BlockingCheckpoint:
    """The write, where it goes, and the loops that wait for it."""

    save: Save
    location: Location
    contexts: tuple[LoopContext, ...]
    timed: TimedInterval | None = None
    """The steps between two writes, where the settings have the times that tell whether there should be more."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    for save in project.fact(Checkpoints).in_module(module):
        here = _contexts_here(project, module, save.node)
        here = here or ([] if save.is_callback else _contexts_elsewhere(project, module, save.node))
        if save.is_callback or here:
            yield from _report(project, save.call, save, here)
    for call, save in project.fact(Checkpoints).through_helpers(module):
        here = _contexts_here(project, module, call.node)
        if here:
            yield from _report(project, call, save, here)


def _contexts_here(project: Project, module: ModuleIndex, node: ast.AST) -> list[LoopContext]:
    """The training contexts whose loop is in the module itself."""
    if not project.fact(LoopContexts).may_train(module):
        return []
    return [context for context in training_contexts(project, module, node) if context.loop.module is module]


def _contexts_elsewhere(project: Project, module: ModuleIndex, node: ast.AST) -> list[LoopContext]:
    """The training contexts whose loop is in another module, unless the name of the call there says that it saves:
    then that call is reported, or it does not wait. ``early_stopping(loss, model)`` says nothing."""
    return [
        context
        for context in training_contexts(project, module, node)
        if isinstance(context.loop.node, LOOPS)
        and context.calls
        and isinstance(first := context.calls[0].node, ast.Call)
        and not speaks_of_saving(last_name(first.func))
    ]


def _report(project: Project, at: NodeRef, save: Save, contexts: list[LoopContext]) -> Iterator[Finding]:
    location = _location(project, save)
    timed = timed_interval(project, at, save, contexts, DEFAULT_STEPS)
    if timed is not None and timed.is_good:
        return
    measured = timed is not None and timed.longer is not None
    if save.is_callback and not location.is_remote and _is_set_to_seldom(project, save):
        return
    if save.is_callback and not save.only_remote and _is_left_out(save.call):
        return
    if not save.is_callback and not location.is_remote and not measured:
        contexts = [context for context in contexts if not _is_seldom(project, (at, save.call), context)]
        if not contexts:
            return
    often = interval_of(project, save)
    in_steps = any(context.role is Role.STEP for context in contexts) or (often is not None and often.per == "step")
    reported = location.is_local and _is_reported(at)
    if (
        (location.is_local and not reported)
        or (((save.only_remote and not measured) or writes_adapter(project, save)) and not location.is_remote)
        or project.fact(Guards).is_debugging(at.module, at.node)
        or (
            is_quick(contexts, location)
            and save.node.args
            and is_small_state(project, save.call.module, save.node.args[0])
        )
        or (not location.is_remote and not measured and not in_steps and is_named_small(project, save))
        or (not location.is_remote and not measured and _is_left_to_default(project, at))
    ):
        return
    if is_for_tpu(save.call) or project.fact(Guards).is_at_loop_end(at.module, at.node) or is_benchmark(at.module.path):
        return
    assert isinstance(at.node, ast.Call)
    loop = "training" if in_steps else "epoch"
    where = f"to remote storage ({location.text})" if location.is_remote else "and waits for the disk"
    unless = "; off by default" if _is_off_by_default(project, at, contexts) else ""
    where = "and waits until Ray has copied it to the run's storage" if reported else where
    kept = retention_advice(project, save) if location.is_remote else ""
    yield RULE.finding(
        at.module.path,
        at.module.syntax.span(at.node),
        f"{Save(at).what} writes a checkpoint in the {loop} loop {where}{unless}",
        help=interval_advice(timed) + advice(project, save) + kept,
        severity=Severity.WARNING if location.is_remote else Severity.INFO,
        payload=BlockingCheckpoint(save, location, tuple(contexts), timed),
        cost=timed_cost(timed, at, save) if timed is not None else cost_of(project, at, save, location, often),
        related=_related(at, save, location, contexts),
    )


def _related(at: NodeRef, save: Save, location: Location, contexts: list[LoopContext]) -> tuple[Place, ...]:
    """The loops that wait, and where the path and the write are."""
    related = [
        Place(c.loop.module.path, c.loop.module.syntax.head(_statement(c)), f"in this {c.role.value} loop")
        for c in contexts[:3]
    ]
    if location.place is not None:
        related.append(Place(location.place.path, location.place.span, "the path is set here"))
    if at.node is not save.node:
        related.append(Place(save.call.module.path, save.call.module.syntax.span(save.node), "the helper writes here"))
    return tuple(related)


def _is_seldom(project: Project, places: tuple[NodeRef, ...], context: LoopContext) -> bool:
    """Return whether so much is trained between two writes that the wait does not count."""
    for place in (*places, *context.calls):
        if is_at_few_counts(project, place.module, place.node):
            return True
        every, counted = project.fact(Guards).interval(place.module, place.node) or (1, "")
        epochs = context.role is Role.EPOCH or "epoch" in counted
        if every >= (_MANY_EPOCHS if epochs else _MANY_STEPS):
            return True
    return False


def _is_set_to_seldom(project: Project, save: Save) -> bool:
    """Return whether a callback writes after so many epochs: ``ModelCheckpoint(path, period=10)``."""
    return any(
        project.fact(Arguments)
        .value(save.call.module, save.node, keyword)
        .every(lambda value: isinstance(value, int) and value >= _MANY_EPOCHS)
        for keyword in ("every_n_epochs", "period")
    )


def _is_left_out(at: NodeRef) -> bool:
    """Return whether a callback gets a name that nothing reads, so that no trainer is given it."""
    match at.module.syntax.parents.get(at.node):
        case ast.Assign(targets=[ast.Name(id=name)]):
            return not at.module.uses.get(name)
    return False


def _is_off_by_default(project: Project, at: NodeRef, contexts: list[LoopContext]) -> bool:
    """Return whether nothing is written unless an option is set, such as an interval that is 0."""
    loops = [context.loop.node for context in contexts if context.loop.module is at.module]
    return project.fact(Guards).is_off_by_default(at.module, at.node, loops[0] if loops else None)


def _is_left_to_default(project: Project, at: NodeRef) -> bool:
    """Return whether the other branch of an option saves by default (``if opt.multi_gpu: save(model.module)
    else: save(model)``): a run waits for one of them."""
    assert isinstance(at.node, ast.Call)
    module, inner = at.module, cast("ast.AST", at.node)
    for up in module.syntax.ancestors(at.node):
        if isinstance(up, FUNCTIONS):
            return False
        if isinstance(up, ast.If) and (place := module.syntax.place(inner)) is not None and place[0] != "test":
            other = up.orelse if place[0] == "body" else up.body
            saves = any(
                isinstance(part, ast.Call) and last_name(part.func) == last_name(at.node.func)
                for statement in other
                for part in walk(statement)
            )
            around = module.syntax.parents.get(up)
            if saves and project.fact(Guards).is_off_by_default(module, at.node, around, several=True):
                return True
        inner = up
    return False


def _is_reported(at: NodeRef) -> bool:
    """Return whether the function passes what it saves to ``ray.train.report(..., checkpoint=...)``, which copies it at
    once.

    https://docs.ray.io/en/latest/train/user-guides/checkpoints.html
    """
    function = at.module.function(at.node)
    given = (
        {keyword.arg for keyword in call.keywords}
        for call in at.module.calls_by_name.get("report", [])
        if at.module.function(call) is function
    )
    return any("checkpoint" in names and "checkpoint_upload_mode" not in names for names in given)


def _location(project: Project, save: Save) -> Location:
    if save.path is None or not isinstance(save.path.node, ast.expr):
        return UNKNOWN
    location = project.fact(StorageLocations).of(save.path.module, save.path.node)
    return UNKNOWN if save.only_folders and "://" in location.text else location


def _statement(context: LoopContext) -> ast.stmt:
    assert isinstance(context.loop.node, ast.stmt)
    return context.loop.node


_SAVERS = ("ModelCheckpoint", "BackupAndRestore", "RayTrainReport", "TrainingArguments", "SFTConfig", "DPOConfig")
_SAVING = ("ave", "ump", "heckpoint", "napshot", "rite", "tore", "xport")
_WORDS = ("save", "dump", "checkpoint", "Checkpoint", "TrainingArguments", "Config", "RayTrainReport")
_SAVES = regex.compile(
    rb"save|dump|^_?(?:make_)?(?:checkpoint|snapshot)$|(?:write|store|export)\w*(?:checkpoint|ckpt|model|"
    rb"state|weight|snapshot|on_master|optimizer|pretrained|recovery|best|last|peft|lora|adapter)",
    re.IGNORECASE | re.MULTILINE,
)


def _may_fire(gate: Gate) -> bool:
    """Something must be called that saves, or be set up to save."""
    return gate.has_any(_SAVERS) or (gate.has_any(_SAVING) and gate.calls_like(_SAVES))


RULE = Rule(
    code="GPU211",
    name="blocking-checkpoint",
    category=Category.MODEL_CHECKPOINTING,
    dimension=Dimension.MODEL,
    severity=Severity.INFO,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    reads=("saver", "hook"),
    tokens=((*gate_words("saver"), *_WORDS),),
    may_fire=_may_fire,
    summary="checkpoint written in the training loop while the GPUs wait",
    why="all GPUs wait until the file is written",
    evidence=(Evidence("16.4% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("local-checkpoint"),
    fix=Safety.UNSAFE,
    bad="""\
for epoch in range(epochs):
    train_one_epoch(model, loader)
    torch.save(model.state_dict(), "/mnt/blob/model.pt")
""",
    good="""\
for epoch in range(epochs):
    train_one_epoch(model, loader)
    torch.save(model.state_dict(), "/tmp/model.pt")
    uploads.submit(shutil.copy, "/tmp/model.pt", "/mnt/blob/model.pt")
""",
    references=(
        "https://pytorch.org/docs/stable/distributed.checkpoint.html",
        "https://doi.org/10.1145/361147.361115",
        "https://doi.org/10.1016/j.future.2004.11.016",
    ),
)
