"""Models that a program leaves on the CPU while it moves their batches to a GPU: there, the first forward pass raises
an error, and the program only runs on a CPU."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.identifiers import words_in
from gpulint.placement.cpu_models import is_made_by_library, makes_module
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.programs.import_closure import whole_program
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, LoopNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_PLACES = regex.compile(
    r"device_map|accelerat|DataParallel|set_default_device|set_default_tensor_type|lightning|deepspeed|fabric|horovod"
    r"|fully_shard|FSDP|to_empty|_apply\b|with torch\.(cuda\.)?device\b"
    r"|ignite|catalyst|mosaic|composer|fastai|poutyne|skorch"
    r"|getattr\([^)]{0,200}[\"'](to|cuda)[\"']|use_gpu|torch\.load\(|jit\.load"
)
"""Words of what may put a model on a GPU other than ``to`` and ``cuda``, or load one that is there."""
_LOADS_WEIGHTS = regex.compile(r"load_state_dict|weights_only")
_MOVES = ("to", "cuda", "xpu", "npu", "mlu", "hpu")
_TYPE = regex.compile(r"^torch\.(bool|long|int|half|double|(bfloat|float|u?int)\w*)$|dtype$")


@query
def leaves_model_on_host(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether a loop moves its batches to what may be a GPU and passes them to a model of the tree or of
    torchvision, and nothing of its programs moves anything but batches."""
    inside = {*walk(loop)}
    moved = [one for one in _batch_moves(project, module) if one in inside]
    if not moved:
        return False
    names = {name for call in moved for name in _kept_as(module, call)}
    forwards = [call for call in walk(loop) if isinstance(call, ast.Call) and _gets(call, names, moved)]
    models = [call.func for call in forwards if isinstance(call.func, ast.Name | ast.Attribute)]
    made = [func for func in models if _is_made_on_host(project, module, func)]
    return bool(made) and _is_of_program(project, module, loop) and _moves_only_batches(project, module)


def leaves_models_of(project: Project, loader: Loader) -> bool:
    """Return whether all loops that move the batches of a loader are such loops."""
    reads = [one.batch_read for one in project.fact(DeviceTransfers).transfers_of(loader)]
    places = [read.where for read in reads if read is not None]
    return bool(places) and all(
        isinstance(where.node, LOOPS) and leaves_model_on_host(project, where.module, where.node) for where in places
    )


def _batch_moves(project: Project, module: ModuleIndex) -> Sequence[ast.Call]:
    return [one.node for one in project.fact(DeviceTransfers).batch_transfers(module)]


def _kept_as(module: ModuleIndex, call: ast.Call) -> list[str]:
    """Return the names that a statement gives to what a call moves: ``x, y = x.cuda(), y.cuda()``."""
    for up in module.syntax.ancestors(call):
        if isinstance(up, ast.Assign):
            return [part.id for target in up.targets for part in walk(target) if isinstance(part, ast.Name)]
        if isinstance(up, ast.stmt):
            break
    return []


def _gets(call: ast.Call, names: set[str], moved: Sequence[ast.Call]) -> bool:
    return bool(call.args) and (
        call.args[0] in moved or (isinstance(call.args[0], ast.Name) and call.args[0].id in names)
    )


def _is_made_on_host(project: Project, module: ModuleIndex, func: ast.expr) -> bool:
    """Return whether all that may be called is a model as it is made, by constructors that are given no device."""
    found = project.fact(Resolver).points_to(module, func)
    return bool(found) and all(
        isinstance(one.node, ast.Call)
        and not one.path
        and not any("device" in ast.unparse(given).lower() for given in (*one.node.args, *one.node.keywords))
        and (is_made_by_library(project, one.module, one.node) or makes_module(project, one.module, one.node))
        for one in found
    )


def _is_of_program(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether the program names the function with a loop: of others, whose callers are not seen, nothing
    follows."""
    program = whole_program(project, module)
    return program is not None and _is_used(module, loop, program.modules)


@query
def _moves_only_batches(project: Project, module: ModuleIndex) -> bool:
    program = whole_program(project, module)
    if program is None or module not in program.modules:
        return False
    return not any(_may_move(project, one, program.modules) for one in program.modules)


def _may_move(project: Project, module: ModuleIndex, program: Sequence[ModuleIndex]) -> bool:
    """Return whether a module of a program may move a model, other than in a function that the program does not
    name."""
    batches = {one.node for one in project.fact(DeviceTransfers).transfers(module) if one.batch_read is not None}
    moves = (call for name in _MOVES for call in module.calls_by_name.get(name, ()) if not _names_type(call))
    given = (call for call in module.calls if any(keyword.arg == "device" for keyword in call.keywords))
    others = [call for call in (*moves, *given) if call not in batches and not _is_of_tensor(project, module, call)]
    if any(_is_used(module, call, program) for call in others):
        return True
    return any(
        _PLACES.search(line) and not _LOADS_WEIGHTS.search(line) and not line.lstrip().startswith("#")
        for line in _used_text(module, program).splitlines()
    )


def _names_type(call: ast.Call) -> bool:
    """``x.to(torch.float32)``"""
    return len(call.args) == 1 and not call.keywords and bool(_TYPE.search(ast.unparse(call.args[0])))


def _is_of_tensor(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call moves or makes a tensor or a loss: ``criterion = nn.CrossEntropyLoss().to(device)``."""
    moved = call.func.value if isinstance(call.func, ast.Attribute) and last_name(call.func) in ("to", "cuda") else call
    if not isinstance(moved, ast.Call):
        return False
    names = project.fact(Resolver).call_names(module, moved)
    return bool(names) and all(
        name.endswith("Loss") or (name.startswith("torch.") and name.count(".") == 1) for name in names
    )


def _outer(module: ModuleIndex, node: ast.AST) -> ast.AST | None:
    return next((up for up in module.syntax.ancestors(node) if up in module.syntax.tree.body), None)


def _is_used(module: ModuleIndex, node: ast.AST, program: Sequence[ModuleIndex]) -> bool:
    outer = _outer(module, node)
    return not isinstance(outer, FUNCTIONS) or _is_named(module, outer, program)


def _is_named(module: ModuleIndex, function: FunctionNode, program: Sequence[ModuleIndex]) -> bool:
    """Return whether the program names a function other than in itself."""
    return any(
        one is not module and function.name.encode() in words_in(one.syntax.source.text.encode("utf-8", "replace"))
        for one in program
    ) or any(_outer(module, use) is not function for use in module.named.get(function.name, ()))


def _used_text(module: ModuleIndex, program: Sequence[ModuleIndex]) -> str:
    """Return the text of a module without that of the functions that the program does not name."""
    return "\n".join(
        module.syntax.text(part)
        for part in module.syntax.tree.body
        if not (isinstance(part, FUNCTIONS) and not _is_named(module, part, program))
    )
