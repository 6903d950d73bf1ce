"""Make the tensor on the device instead of moving it there."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu306_tensor_created_on_host import OnHost
from gpulint_rules.data.read_back import is_read_back

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import PythonModule, walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.placement.synchronization import SyncPoints
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, last_name, source_text
from gpulint_fixers.data.constant_buffers import as_buffers, is_changed
from gpulint_fixers.data.unordered_uses import without_order
from gpulint_fixers.data.unread_tensors import without_unread
from gpulint_fixers.edits.calls import add_keyword
from gpulint_fixers.edits.statements import comment_behind, insert_above, remove_statement
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.device_reads import is_plain_number

_COMPUTED = frozenset({"linspace", "logspace"})
_SAME_IN_ANY_TYPE = frozenset({"zeros", "ones", "empty", "eye"})
"""Functions that make the same numbers whatever their type."""


_TYPES = {"Tensor": "", "FloatTensor": "float", "LongTensor": "long"}
"""Constructors by the type of what they make; that of ``Tensor`` is the default."""
_SIZES = frozenset({"size", "shape"})
_LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)
_OF_INTEGERS = ast.BinOp | ast.Add | ast.Sub | ast.Mult | ast.FloorDiv | ast.Mod | ast.Load


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Pass ``device=`` to the call that makes the tensor and take the transfer away."""
    payload = finding.payload
    assert isinstance(payload, OnHost)
    syntax = payload.transfer.call.module.syntax
    move, made = payload.transfer.node, payload.made
    if predates_device_argument(payload.transfer.call.module):
        return Declined("the code is for PyTorch before 0.4, which has no `device=`")
    if (gone := without_unread(payload.transfer.call.module, move, made, random=payload.random)) is not None:
        return gone
    function = payload.transfer.call.module.function(move)
    if function is not None and (held := as_buffers(project, payload.transfer.call.module, function)) is not None:
        return held
    if (plain := without_order(payload.transfer.call.module, move, made)) is not None:
        return plain
    if reason := _gains_nothing(project, payload.transfer.call.module, move):
        return Declined(reason)
    chosen = _device(syntax, move, made)
    if chosen is None:
        return Declined("the transfer does more than select a device")
    if (index := _number_of_gpu(move)) is not None and _may_be_none(project, payload.transfer.call.module, index):
        return Declined(f"`{ast.unparse(index)}` may be None, which is the current GPU to `cuda`, and the CPU here")
    is_leaf = _asks_for_gradient(made)
    if is_leaf and not _is_only_read(payload.transfer.call.module, move, payload.transfer.value):
        return Declined("creating it on the GPU would make it a leaf tensor")
    if any(keyword.arg == "pin_memory" for keyword in made.keywords):
        return Declined("only tensors in host memory can be pinned")
    start = syntax.offsets(payload.transfer.value)[1]
    tail = syntax.source.text[start : syntax.offsets(move)[1]]
    if "#" in tail or tail.lstrip()[:1] != ".":
        return Declined("there is a comment or a parenthesis between the two calls")
    if last_name(made.func) in ("tensor", "as_tensor"):
        filled = _counted(syntax, move, made, chosen) if payload.counted else None
        return filled or _number(payload.transfer.call.module, move, made, chosen)
    removed: Edit | None = Edit(syntax.path, syntax.span_at(start, syntax.offsets(move)[1]), "")
    if isinstance(payload.transfer.value, ast.Name) and isinstance(statement := syntax.parents[move], ast.stmt):
        removed = remove_statement(syntax, statement)
    if removed is None:
        return Declined("the line of the transfer holds another statement")
    if (named := _on_device(syntax, made, chosen)) is None:
        return Declined("whether its arguments are sizes or values is unknown")
    edits = (*named, removed)
    if payload.random:
        return Fix("create it on the GPU, whose generator draws different numbers", Safety.UNSAFE, edits)
    if last_name(made.func) in _COMPUTED or (last_name(made.func) == "arange" and _has_fractions(made)):
        return Fix("create it on the GPU, which may round the last digit differently", Safety.UNSAFE, edits)
    if is_leaf:
        return Fix("create it on the GPU, where it keeps a gradient of its own", Safety.UNSAFE, edits)
    return Fix("create it on the GPU", Safety.SAFE, edits)


def _on_device(syntax: PythonModule, made: ast.Call, chosen: tuple[str, ...]) -> tuple[Edit, ...] | None:
    """Pass the device to the call; ``torch.FloatTensor(size)`` becomes ``torch.empty(size, device=device)`` if its
    arguments are known to be sizes."""
    if last_name(made.func) not in _TYPES or not isinstance(made.func, ast.Attribute):
        return (add_keyword(syntax, made, *chosen, wrap=False),)
    sized = len(made.args) > 1 or any(
        isinstance(one, ast.Constant | ast.Call | ast.Attribute)
        and (isinstance(one, ast.Constant) or last_name(one.func if isinstance(one, ast.Call) else one) in _SIZES)
        for one in made.args
    )
    if not sized or made.keywords:
        return None
    dtype = _TYPES[made.func.attr]
    owner = syntax.text(made.func.value)
    more = (f"dtype={owner}.{dtype}", *chosen) if dtype else chosen
    named = Edit(syntax.path, syntax.span(made.func), f"{owner}.empty")
    return named, add_keyword(syntax, made, *more, wrap=False)


def _gains_nothing(project: Project, module: ModuleIndex, move: ast.Call) -> str:
    """Return why a tensor may as well be made on the host; empty if nothing says so."""
    if _is_self_test(project, module, move):
        return "only the module's own test makes it"
    if _waits_anyway(project, module, move):
        return "the same statement waits for the GPU anyway"
    statement = module.syntax.parents.get(move)
    if isinstance(statement, ast.Assign) and _compared_in_loop(module, statement):
        return "the host compares its elements one by one, each of which waits"
    if _stands_in(module, move):
        return "it only stands in for what a model that is not there would compute"
    return ""


def _asks_for_gradient(made: ast.Call) -> bool:
    value = keyword_value(made, "requires_grad")
    return value is not None and not (isinstance(value, ast.Constant) and value.value is False)


def _is_only_read(module: ModuleIndex, move: ast.Call, value: ast.expr) -> bool:
    """Return whether a tensor that is moved at once gets a name of its function, by which nothing changes it in place
    or asks for its gradient: both tell a leaf from a copy."""
    match module.syntax.parents.get(move):
        case ast.Assign(targets=[ast.Name(id=name)]) if isinstance(value, ast.Call):
            return not is_changed(module.function(move) or module.syntax.tree, name)
    return False


def _has_fractions(made: ast.Call) -> bool:
    """``torch.arange(0, 1, 0.1)`` and ``torch.arange(0, 1, 1 / n)``, of which the CPU computes each value in double
    precision and a GPU in single."""
    return any(
        (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div))
        or (isinstance(part, ast.Constant) and isinstance(part.value, float) and not part.value.is_integer())
        for part in walk(made)
    )


def _is_self_test(project: Project, module: ModuleIndex, move: ast.Call) -> bool:
    """Return whether the tensor is made under ``if __name__ == "__main__"`` of a module that programs import."""
    main = any(holds and "__main__" in source_text(module, test) for test, holds in conditions(module, move))
    return main and any(path != module.path for path in project.fact(GpuPrograms).users(module.path))


def _waits_anyway(project: Project, module: ModuleIndex, move: ast.Call) -> bool:
    """``new[mask] = torch.rand(new[mask].shape).to(device)``: how many the mask picks, the host must know."""
    statement = next((up for up in module.syntax.ancestors(move) if isinstance(up, ast.stmt)), None)
    if statement is None or hasattr(statement, "body"):
        return False
    if any(statement in module.syntax.ancestors(sync.node) for sync in project.fact(SyncPoints).in_module(module)):
        return True
    return any(
        isinstance(part, ast.Attribute)
        and part.attr == "shape"
        and isinstance(part.value, ast.Subscript)
        and isinstance(part.value.slice, ast.Name | ast.Compare)
        and not is_plain_number(module, part.value.slice)
        for part in walk(move)
    )


def _compared_in_loop(module: ModuleIndex, statement: ast.Assign) -> bool:
    """``if losses[i] > largest[i]:`` in a loop, which asks the GPU for each element."""
    names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
    block = module.syntax.parents.get(statement)
    loops = [node for node in walk(block) if isinstance(node, ast.For)] if block is not None else []
    tests = (part.test for loop in loops if loop is not block for part in walk(loop) if isinstance(part, ast.If))
    return any(
        isinstance(side, ast.Subscript) and isinstance(side.value, ast.Name) and side.value.id in names
        for test in tests
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        for side in (test.left, *test.comparators)
    )


def _stands_in(module: ModuleIndex, move: ast.Call) -> bool:
    """``similarity(critic(x)) if critic else torch.tensor(0.0).to(device)``, with a model that the program calls."""
    for test, holds in conditions(module, move):
        match test:
            case ast.Name(id=name) if not holds:
                pass
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]
            ):
                if holds is not isinstance(test.ops[0], ast.Is):
                    continue
            case _:
                continue
        if any(isinstance(call.func, ast.Name) for call in module.calls_by_name.get(name, [])):
            return True
    return False


def _number(module: ModuleIndex, move: ast.Call, made: ast.Call, chosen: tuple[str, ...]) -> Fix | Declined:
    """``torch.full((), 0.5, device=device)``, which a kernel fills; ``torch.tensor`` builds all values on the host."""
    syntax = module.syntax
    match made:
        case ast.Call(
            func=ast.Attribute(value=owner),
            args=[
                (ast.Constant(value=int() | float() as number) as value)
                | (ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) as value)
            ],
        ):
            given = [syntax.text(keyword) for keyword in made.keywords]
            if is_read_back(module, move):
                if given:
                    return Declined("the call around the list reads it on the host, where its type counts")
                edit = Edit(syntax.path, syntax.span(move), syntax.text(value))
                return Fix("write the number, which the call around the list reads", Safety.SAFE, (edit,))
            if not given and not isinstance(number, float):
                given = [f"dtype={syntax.text(owner)}.{'bool' if isinstance(number, bool) else 'long'}"]
            if all(keyword.arg == "dtype" for keyword in made.keywords):
                arguments = ", ".join(["()", syntax.text(value), *given, *chosen])
                edit = Edit(syntax.path, syntax.span(move), f"{syntax.text(owner)}.full({arguments})")
                return Fix("fill it on the GPU", Safety.SAFE, (edit,))
    return _made_once(module, move, made)


def _counted(syntax: PythonModule, move: ast.Call, made: ast.Call, chosen: tuple[str, ...]) -> Fix | None:
    """``torch.full((), index, dtype=torch.long, device=device)`` with the number of the round."""
    if not isinstance(made.func, ast.Attribute) or any(keyword.arg != "dtype" for keyword in made.keywords):
        return None
    owner, value = syntax.text(made.func.value), made.args[0]
    given = [syntax.text(keyword) for keyword in made.keywords] or [f"dtype={owner}.long"]
    text = f"{owner}.full({', '.join(['()', syntax.text(value), *given, *chosen])})"
    edit = Edit(syntax.path, syntax.span(move), text)
    if all(isinstance(part, ast.Name | ast.Constant | _OF_INTEGERS) for part in walk(value)):
        return Fix("fill it on the GPU", Safety.SAFE, (edit,))
    return Fix(f"fill it on the GPU, which takes `{ast.unparse(value)}` for an integer", Safety.UNSAFE, (edit,))


def _made_once(module: ModuleIndex, move: ast.Call, made: ast.Call) -> Fix | Declined:
    """``weight = torch.tensor([1.0, 2.0]).cuda()`` above the loop, which never changes it."""
    refusal = Declined(
        "`torch.tensor` builds the values on the host wherever it puts them; make it once before the loop"
    )
    syntax, statement = module.syntax, module.syntax.parents.get(move)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if isinstance(loop := syntax.parents.get(statement), ast.For):
            pass
        case _:
            return refusal
    names = {part.id for part in walk(statement.value) if isinstance(part, ast.Name)}
    stored = {part.id for part in walk(loop) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    plain = all(isinstance(part, _LITERALS) for argument in made.args for part in walk(argument))
    if not plain or names & stored or len(module.scope(statement).bindings.get(name, [])) != 1:
        return refusal
    if "#" in syntax.text(statement) or "\n" in syntax.text(statement) or is_changed(loop, name):
        return refusal
    behind = comment_behind(syntax, statement)
    above = insert_above(syntax, loop, f"{syntax.text(statement)}{behind}")
    removed = remove_statement(syntax, statement)
    if above is None or removed is None or removed.text:
        return refusal
    if behind and removed.span.column > 1:  # the comment goes with its statement
        removed = replace(
            removed, span=replace(removed.span, column=1, end_line=removed.span.end_line + 1, end_column=1)
        )
    return Fix("make it once before the loop", Safety.UNSAFE, (above, removed))


def _device(syntax: PythonModule, move: ast.Call, made: ast.Call) -> tuple[str, ...] | None:
    """The keywords that say the same as a plain ``.to(device)`` or ``.cuda(index)``, with the type that it names where
    that makes no difference; None if it carries anything else."""
    assert isinstance(move.func, ast.Attribute)
    values = [*move.args, *(keyword.value for keyword in move.keywords if keyword.arg == "device")]
    dtype = keyword_value(move, "dtype")
    if any(keyword.arg not in ("device", "non_blocking", "dtype") for keyword in move.keywords) or len(values) > 1:
        return None
    more = () if dtype is None else (f"dtype={syntax.text(dtype)}",)
    if dtype is not None and (
        last_name(made.func) not in _SAME_IN_ANY_TYPE or any(keyword.arg == "dtype" for keyword in made.keywords)
    ):
        return None
    if move.func.attr == "cuda" and not values:
        return ('device="cuda"',)
    return (f"device={syntax.text(values[0])}", *more) if values and move.func.attr in ("to", "cuda") else None


def _number_of_gpu(move: ast.Call) -> ast.expr | None:
    """``args.gpu`` of ``.cuda(args.gpu)``"""
    values = [*move.args[:1], *(keyword.value for keyword in move.keywords if keyword.arg == "device")]
    return values[0] if last_name(move.func) == "cuda" and values else None


def _may_be_none(project: Project, module: ModuleIndex, index: ast.expr) -> bool:
    """Return whether the number of a GPU may be None, as far as options and callers tell, and nothing sets the GPU by
    it, for which it has to be a number."""
    sets = (call.args[0] for call in module.calls_by_name.get("set_device", ()) if call.args)
    function = module.function(index)
    if any(
        ast.unparse(one) == ast.unparse(index) and module.function(one) is function and not [*conditions(module, one)]
        for one in sets
    ):
        return False
    return project.fact(Constants).of(module, index).any(lambda value: value is None)


FIXER = Fixer("GPU306", fix)
