"""Checkpoints that a framework itself writes in the background: PyTorch's distributed ones, Lightning's and Orbax's."""

from __future__ import annotations

import ast

from gpulint_rules.model.gpu211_blocking_checkpoint import BlockingCheckpoint

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.programs.package_lists import requires
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, LoopNode, ModuleIndex, last_name
from gpulint_fixers.edits.background import touched_later
from gpulint_fixers.edits.calls import add_keyword
from gpulint_fixers.edits.statements import insert_above, insert_after, insert_below
from gpulint_fixers.edits.structural import indentation_step

_DISTRIBUTED = frozenset({"torch.distributed.checkpoint.save", "torch.distributed.checkpoint.state_dict_saver.save"})
_LIGHTNING = ("lightning.", "pytorch_lightning.")
_PACKAGES = ("lightning", "pytorch-lightning", "pytorch_lightning")
_COPIES = (2, 5, 4)
"""From this release on the plugin copies the tensors before its thread writes them:
https://github.com/Lightning-AI/pytorch-lightning/pull/21079"""
_MANY_STEPS = 5000
"""With so many steps from one checkpoint to the next, the wait for one is nothing beside them."""
_STRATEGIES = frozenset({"auto", "ddp", "ddp_find_unused_parameters_true", "ddp_spawn", "ddp_notebook"})
"""Strategies whose checkpoints go through the plugin."""
_ORBAX = {
    "orbax.checkpoint.PyTreeCheckpointer": "AsyncCheckpointer({}.PyTreeCheckpointHandler())",
    "orbax.checkpoint.Checkpointer": "AsyncCheckpointer",
}
_BOTH = "cpu:gloo,cuda:nccl"
_PENDING = "pending_save"
_LEAVES = "the loop may return, and would not wait for the last checkpoint then"


def written_by_framework(project: Project, payload: BlockingCheckpoint) -> Fix | Declined | None:
    """The framework's own asynchronous writer; None if it is none of these frameworks."""
    module, call = payload.save.call.module, payload.save.node
    names = project.fact(Resolver).call_names(module, call)
    if names & _DISTRIBUTED:
        return _distributed(project, payload)
    if payload.save.is_callback and any(name.startswith(_LIGHTNING) for name in names):
        return _lightning(project, module, payload)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "save":
        return _orbax(project, module, call, call.func.value)
    return None


def _distributed(project: Project, payload: BlockingCheckpoint) -> Fix | Declined:
    """``pending_save = dcp.async_save(...)``, once the last one is done, and a wait for the last after the loop."""
    module, call = payload.save.call.module, payload.save.node
    syntax, statement = module.syntax, module.syntax.parents.get(call)
    loop = _outermost(module, call)
    if not isinstance(statement, ast.Expr) or not isinstance(call.func, ast.Attribute) or loop is None:
        return Declined("the loop that saves is in another function, or the call's value is used")
    path = keyword_value(call, "checkpoint_id")
    if path is None or _PENDING in module.named:
        return Declined("where the checkpoint goes could not be determined")
    if (user := touched_later(project, payload.save.call, path, payload.contexts)) is not None:
        return Declined(f"the checkpoint is used later: `{user}` might read it before it is complete")
    if _leaves(loop):
        return Declined(_LEAVES)
    groups = _groups(project, module)
    if isinstance(groups, Declined):
        return groups
    source = syntax.source
    name_at = syntax.offsets(call.func)[1]
    step = indentation_step(syntax, statement)
    line, at = source.position(syntax.offsets(statement)[0])
    indent, outer = source.line(line)[: at - 1], source.line(loop.lineno)[: loop.col_offset]
    start = syntax.offsets(statement)[0]
    wait = f"if {_PENDING} is not None:\n{{}}{_PENDING}.result()"
    before = insert_above(syntax, loop, f"{_PENDING} = None")
    above = insert_above(syntax, statement, wait.format(indent + step))
    after = insert_after(module, loop, wait.format(outer + step))
    if before is None or above is None or after is None or indent.strip():
        return Declined("the statement shares its line with another one")
    edits = (
        before,
        above,
        Edit(syntax.path, syntax.span_at(start, start), f"{_PENDING} = "),
        Edit(syntax.path, syntax.span_at(name_at - len(call.func.attr), name_at), "async_save"),
        after,
        *groups,
    )
    return Fix(
        "copy the state to host memory and write it in the background (PyTorch 2.3); the next save and the end of the "
        "loop wait for it",
        Safety.UNSAFE,
        edits,
    )


def _outermost(module: ModuleIndex, node: ast.AST) -> LoopNode | None:
    """The outermost loop around a node in its function."""
    found: LoopNode | None = None
    for up in module.syntax.ancestors(node):
        if isinstance(up, FUNCTIONS):
            break
        if isinstance(up, LOOPS):
            found = up
    return found


def _leaves(loop: LoopNode) -> bool:
    """Return whether a loop may end its function, so that what is behind it does not run then, and not by an error."""
    return any(
        isinstance(part, ast.Return) or (isinstance(part, ast.Call) and last_name(part.func) == "_exit")
        for part in walk(loop)
    )


def _groups(project: Project, module: ModuleIndex) -> tuple[Edit, ...] | Declined:
    """Edits after which the program's process group also works on the CPU, which asynchronous saving needs."""
    edits, found = list[Edit](), False
    for where in project.fact(MultiGpuUse).of(module.path).modules:
        for call in where.calls_by_name.get("init_process_group", []):
            given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "backend")]
            found = True
            match given:
                case []:
                    pass
                case [ast.Constant(value="nccl") as backend]:
                    edits.append(Edit(where.path, where.syntax.span(backend), f'"{_BOTH}"'))
                case [ast.Constant(value=str(backends))] if "gloo" in backends:
                    pass
                case _:
                    return Declined("which backends the process group has could not be determined; it needs `gloo`")
    return tuple(edits) if found else Declined("where the process group is made could not be determined")


def _lightning(project: Project, module: ModuleIndex, payload: BlockingCheckpoint) -> Fix | Declined:
    """``Trainer(plugins=[AsyncCheckpointIO()])``, which copies the state first from Lightning 2.5.4 on."""
    if not payload.location.is_remote:
        return Declined("whether the checkpoint goes to slow storage is not known; a disk of the node takes it quickly")
    steps = project.fact(Arguments).value(module, payload.save.node, "every_n_train_steps")
    if steps.every(lambda number: isinstance(number, int) and number >= _MANY_STEPS):
        return Declined("so many steps between two checkpoints take much longer than a write")
    if not requires(project, module.path, _PACKAGES, _COPIES):
        return Declined(
            "before Lightning 2.5.4 `AsyncCheckpointIO` writes weights while the training changes them; require "
            "`lightning>=2.5.4`, and pass the trainer `plugins=[AsyncCheckpointIO()]`"
        )
    resolver = project.fact(Resolver)
    trainers = [
        one
        for one in module.calls_by_name.get("Trainer", [])
        if any(name.startswith(_LIGHTNING) for name in resolver.call_names(module, one))
    ]
    if len(trainers) != 1:
        return Declined("the trainer that saves is made elsewhere: pass it `plugins=[AsyncCheckpointIO()]`")
    (trainer,) = trainers
    given = {keyword.arg: keyword.value for keyword in trainer.keywords}
    strategy = given.get("strategy")
    plain = strategy is None or (isinstance(strategy, ast.Constant) and strategy.value in _STRATEGIES)
    if None in given or "plugins" in given or not plain:
        return Declined("whether the trainer's strategy or plugins write checkpoints could not be determined")
    if "AsyncCheckpointIO" in module.top.bindings:
        return Declined("the name 'AsyncCheckpointIO' is already in use")
    names = sorted(resolver.call_names(module, trainer))
    home = "pytorch_lightning" if names[0].startswith("pytorch_lightning") else "lightning.pytorch"
    imports = [node for node in module.syntax.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    below = [node for node in imports if home.partition(".")[0] in ast.unparse(node)]
    line = f"from {home}.plugins.io import AsyncCheckpointIO"
    added = insert_below(module.syntax, below[-1], line) if below else None
    if added is None:
        return Declined("Lightning is not imported at the top of the module")
    return Fix(
        "write checkpoints in the background; the end of the training waits for the last one",
        Safety.UNSAFE,
        (added, add_keyword(module.syntax, trainer, "plugins=[AsyncCheckpointIO()]")),
    )


def _orbax(project: Project, module: ModuleIndex, call: ast.Call, writer: ast.expr) -> Fix | Declined | None:
    """``AsyncCheckpointer``, and a wait for the last checkpoint after the loop."""
    resolver = project.fact(Resolver)
    made = [ref for ref in resolver.points_to(module, writer) if isinstance(ref.node, ast.Call)]
    if len(made) != 1 or made[0].module is not module:
        return None
    maker = made[0].node
    assert isinstance(maker, ast.Call)
    known = sorted(resolver.call_names(module, maker) & _ORBAX.keys())
    if not known:
        return None
    loop = _outermost(module, call)
    own = isinstance(writer, ast.Name) and module.function(maker) is module.function(call)
    if not isinstance(maker.func, ast.Attribute) or loop is None or not own:
        return Declined("the checkpointer is made or used in another function")
    if loop in module.syntax.ancestors(maker):
        return Declined("the checkpointer is made in the loop")
    if _leaves(loop):
        return Declined(_LEAVES)
    text = _ORBAX[known[0]]
    prefix = module.syntax.text(maker.func.value)
    whole = maker if "{}" in text else maker.func
    if "{}" in text and (maker.args or maker.keywords):
        return Declined("the checkpointer gets options of its own")
    after = insert_after(module, loop, f"{ast.unparse(writer)}.wait_until_finished()")
    if after is None:
        return Declined("the loop shares a line with another statement")
    edit = Edit(module.path, module.syntax.span(whole), f"{prefix}.{text.format(prefix)}")
    return Fix(
        "write checkpoints in the background; the next save and the end of the loop wait for it",
        Safety.UNSAFE,
        (edit, after),
    )
