"""What to do about a checkpoint that training waits for."""

from __future__ import annotations

import ast
from pathlib import Path

from gpulint.programs.api_releases import lacks
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.transfers.checkpoint_intervals import TimedInterval
from gpulint.transfers.checkpoints import Save
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import ModuleIndex

_LONGEST = 120  # characters of arguments that a snippet repeats
_MOVE = "write it to a local temporary file and let one background thread, joined at exit, move it to its place"


_COPY = "let it write to a folder of the node, from which one background thread, joined at exit, copies the files"
_OWN_WRITERS = {
    **dict.fromkeys(
        ("tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager"),
        "pass `options=tf.train.CheckpointOptions(enable_async=True)`, with which TensorFlow writes in the background "
        "(2.13 and later; `experimental_enable_async_checkpoint` from 2.9 on)",
    ),
    **dict.fromkeys(("tensorflow.train.Saver", "tensorflow.compat.v1.train.Saver"), _COPY),
}
"""Objects that write several files, and delete older ones by themselves, so that nothing may move these -> what to do.
https://www.tensorflow.org/api_docs/python/tf/train/CheckpointOptions"""


def advice(project: Project, save: Save) -> str:
    """Return what to do, for a dictionary of PyTorch's with an asynchronous writer in the program's own names."""
    if own := _of_own_writer(project, save):
        return own
    if save.interval is not None:
        return (
            f"set `{save.path_name}=` to a folder of the node, and let a callback (`on_save`) copy each checkpoint "
            "in one background thread, joined at exit"
        )
    if not _imports(save.call.module, "torch", "lightning", "pytorch_lightning") and _imports(
        save.call.module, "tensorflow", "keras", "tf_keras"
    ):
        return _MOVE
    if _reads_files(project, save.call.module.path) or lacks(project, save.call.module.path, "async_save"):
        return _MOVE
    text = f"{_MOVE}; or use an asynchronous writer such as `torch.distributed.checkpoint.async_save`"
    if save.what != "torch.save" or len(save.node.args) < 2:
        return text
    state, path = ast.unparse(save.node.args[0]), ast.unparse(save.node.args[1])
    if len(state) + len(path) > _LONGEST or not state.endswith((")", "}")):
        return text
    state = state if state.startswith("{") else f'{{"model": {state}}}'
    return (
        f"{text}, which writes a folder:\n"
        "if pending is not None:\n"
        "    pending.result()  # one at a time; also after the loop (process groups need cpu:gloo,cuda:nccl)\n"
        f"pending = torch.distributed.checkpoint.async_save({state}, checkpoint_id={path})"
    )


def _of_own_writer(project: Project, save: Save) -> str:
    """Return what to do about an object that names, counts and deletes its files itself; empty for other writers."""
    if not isinstance(save.node.func, ast.Attribute):
        return ""
    resolver = project.fact(Resolver)
    made = resolver.points_to(save.call.module, save.node.func.value)
    names = (
        name
        for ref in made
        if isinstance(ref.node, ast.Call)
        for name in sorted(resolver.call_names(ref.module, ref.node))
    )
    return next((_OWN_WRITERS[name] for name in names if name in _OWN_WRITERS), "")


@query
def _reads_files(project: Project, path: Path) -> bool:
    """Return whether the program, a module of it or a program beside it loads files by ``torch.load``, which cannot
    read the folders that an asynchronous writer makes."""
    others = (other for other in project.python_files_with(b"torch.load(") if not project.is_test(other))
    return any(other.is_relative_to(path.parent) or path.is_relative_to(other.parent) for other in others)


def interval_advice(timed: TimedInterval | None) -> str:
    """Return the interval that costs the least, if it is much longer than the one in the code."""
    if timed is None or timed.longer is None:
        return ""
    times, stated = timed.times, timed.stated
    name = f"set `{stated.name}={timed.longer}`" if stated.name else f"save every {timed.longer:,} steps"
    return (
        f"{name} instead of {stated.steps:,}: with {times.checkpoint:g} s for a checkpoint and "
        f"{times.between_failures / 3600:g} h between failures (`checkpoint-times`), one every "
        f"{times.best * times.step / 60:.0f} min loses the least time (Young-Daly); or "
    )


def retention_advice(project: Project, save: Save) -> str:
    """Return how to keep few checkpoints, where a framework keeps each one that it writes every few steps."""
    if not save.keeps or (save.interval is not None and not _is_by_steps(project, save)):
        return ""
    name, everything = save.keeps
    arguments, module, call = project.fact(Arguments), save.call.module, save.node
    if everything:
        kept = arguments.value(module, call, name).every(lambda value: str(value) == everything)
    else:
        known = arguments.value(module, call, name)
        kept = arguments.of(module, call, name).is_absent or known.every(lambda value: value is None)
    return f"; all checkpoints are kept: `{name}=3` deletes the older ones" if kept else ""


def _is_by_steps(project: Project, save: Save) -> bool:
    strategy = save.interval[0] if save.interval is not None else ""
    arguments, module, call = project.fact(Arguments), save.call.module, save.node
    known = arguments.value(module, call, strategy)
    return arguments.of(module, call, strategy).is_absent or known.every(lambda value: value == "steps")


def _imports(module: ModuleIndex, *libraries: str) -> bool:
    targets = (one.target for bindings in module.top.bindings.values() for one in bindings)
    return any(target is not None and target.partition(".")[0] in libraries for target in targets)
