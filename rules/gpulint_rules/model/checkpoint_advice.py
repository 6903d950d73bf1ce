"""What to do about a checkpoint that training waits for."""

from __future__ import annotations

import ast

from gpulint.transfers.checkpoints import Save
from gpulint.workspace.module_index import ModuleIndex

_LONGEST = 120  # characters of arguments that a snippet repeats
_MOVE = "write it to a local temporary file and let one background thread, joined at exit, move it to its place"


def advice(save: Save) -> str:
    """Return what to do, for a dictionary of PyTorch's with an asynchronous writer in the program's own names."""
    if save.interval is not None:
        return (
            f"set `{save.path_name}=` to a folder of the node, and let a callback (`on_save`) copy each checkpoint "
            "in one background thread, joined at exit"
        )
    if not _imports(save.call.module, "torch", "lightning", "pytorch_lightning") and _imports(
        save.call.module, "tensorflow", "keras", "tf_keras"
    ):
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


def _imports(module: ModuleIndex, *libraries: str) -> bool:
    targets = (one.target for bindings in module.top.bindings.values() for one in bindings)
    return any(target is not None and target.partition(".")[0] in libraries for target in targets)
