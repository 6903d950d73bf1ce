"""What a model that was wrapped for several GPUs is used for."""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_USES = 200
"""More uses of a model than these may train it."""
MAX_CALLS = 3
"""How many calls a wrapped model is followed through."""
_NO_TRAINING = frozenset({"eval", "cuda", "to", "half", "load_state_dict", "train", "training"})
"""Methods of a model that say nothing of training."""


def only_infers(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the wrapped model is only called without gradients, or unwrapped, in its function or module (an
    attribute that its function does not call ``eval()`` of: in its class)."""
    assigned, function = statement_of(module, call), module.function(call)
    if not isinstance(assigned, ast.Assign):
        return False
    if function is not None and _serves(function):
        return True
    target = ast.unparse(assigned.targets[0])
    attribute = isinstance(assigned.targets[0], ast.Attribute)
    infers = not attribute and function is not None and _is_set_to_infer(function, target)
    if infers and function is not None and not _propagates(function) and not _hands_on(function, target, call):
        return True
    homes = list[ast.AST]()
    if attribute:
        homes += [up for up in module.syntax.ancestors(call) if isinstance(up, ast.ClassDef)][:1]
        set_to = homes and function is not None and _is_set_to_infer(function, target)
        if set_to and _is_set_to_infer(homes[0], target) and not _propagates(homes[0]):
            return True  # the class that makes it infers with it from the start
        if function is not None and _is_set_to_infer(function, target):
            homes.append(function)
    elif isinstance(assigned.targets[0], ast.Name):
        homes.append(function or module.syntax.tree)
    else:
        return False
    wrapped_weights = not attribute and len(assigned.targets) == 1
    return any(_only_infers_in(project, module, home, call, assigned, wrapped_weights) for home in homes)


def _only_infers_in(
    project: Project, module: ModuleIndex, home: ast.AST, call: ast.Call, assigned: ast.Assign, wrapped_weights: bool
) -> bool:
    target = ast.unparse(assigned.targets[0])
    attribute = isinstance(assigned.targets[0], ast.Attribute)
    uses = list[_Use]()
    for node in _written_as(module, target, attribute):
        if home is not module.syntax.tree and home not in module.syntax.ancestors(node):
            continue
        if not isinstance(node.ctx, ast.Load) or (not attribute and node.lineno <= (assigned.end_lineno or 0)):
            continue
        if home is module.syntax.tree and _is_another(module, node, assigned):
            continue
        if len(uses) == MAX_USES:
            module.report_limit(f"a model is used more than {MAX_USES} times")
            return False
        if module.syntax.parents.get(node) is not call:
            uses.append(_use(project, module, node, wrapped_weights))
    if _Use.RETURNED in uses and not _evaluates(home):
        return False
    return _Use.OTHER not in uses and bool({_Use.INFERS, _Use.RETURNED} & set(uses))


def statement_of(module: ModuleIndex, call: ast.Call) -> ast.AST | None:
    """Return what the wrapper is part of, with all that is called of it (``net = DataParallel(net).cuda().eval()``)."""
    return module.syntax.parents.get(_chained(module, call))


def _written_as(module: ModuleIndex, target: str, attribute: bool) -> list[ast.Name] | list[ast.Attribute]:
    """Return where a module has a variable, or else an attribute written like this."""
    if not attribute:
        return module.named.get(target, [])
    return _attributes(module, target.rpartition(".")[2]).get(target, [])


@query
def _attributes(module: ModuleIndex, name: str) -> dict[str, list[ast.Attribute]]:
    """The attributes of a module that go by a name, as they are written."""
    table: dict[str, list[ast.Attribute]] = {}
    for node in module.syntax.of(ast.Attribute):
        if node.attr == name:
            table.setdefault(ast.unparse(node), []).append(node)
    return table


def _serves(function: FunctionNode) -> bool:
    """Return whether it is the function that SageMaker loads a model with to serve it (``model_fn(model_dir)``)."""
    parameters = [argument.arg for argument in function.args.args]
    return function.name == "model_fn" and parameters[:1] == ["model_dir"]


def _evaluates(function: ast.AST) -> bool:
    """Return whether a function that returns what it wraps calls ``eval()`` on the way, and nothing's ``train()``."""
    called = {last_name(node.func) for node in walk(function) if isinstance(node, ast.Call)}
    return "eval" in called and "train" not in called


def _is_set_to_infer(function: ast.AST, target: str) -> bool:
    """Return whether a function calls ``eval()`` of what it wraps, and not ``train()``."""
    called = {ast.unparse(node.func) for node in walk(function) if isinstance(node, ast.Call)}
    return f"{target}.eval" in called and f"{target}.train" not in called


def _propagates(function: ast.AST) -> bool:
    """Return whether a function takes gradients."""
    return any(isinstance(node, ast.Call) and last_name(node.func) == "backward" for node in walk(function))


def _hands_on(function: ast.AST, target: str, wrapper: ast.Call) -> bool:
    """Return whether a function passes or returns what it wraps."""
    for node in walk(function):
        given: list[ast.expr | None] = []
        if isinstance(node, ast.Call) and node is not wrapper:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Return):
            given = [node.value]
        if any(isinstance(value, ast.Name) and value.id == target for value in given):
            return True
    return False


class _Use(enum.Enum):
    INFERS = "runs without gradients, or is unwrapped"
    NEITHER = "says nothing of training"
    RETURNED = "is up to the caller"
    OTHER = "may train"


def _use(project: Project, module: ModuleIndex, node: ast.AST, wrapped_weights: bool, depth: int = 0) -> _Use:
    """Return what one use of a model is for. ``wrapped_weights``: reading its weights serves their names."""
    up = module.syntax.parents.get(node)
    match module.syntax.parents.get(up) if isinstance(up, ast.keyword) else up:
        case ast.Return():
            return _Use.RETURNED
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return _Use.NEITHER  # whether there is one
        case ast.If(test=test) if test is node:
            return _Use.NEITHER
        case ast.Tuple() as several if isinstance(module.syntax.parents.get(several), ast.Return):
            return _Use.RETURNED
        case ast.Call(func=func) as up if func is node:
            return _Use.INFERS if project.fact(Guards).is_without_gradients(module, up) else _Use.OTHER
        # Weights alone are read and written under the names that the wrapper gives them: nothing runs.
        case ast.Attribute(attr="module"):
            return _Use.INFERS
        case ast.Attribute(attr="state_dict" | "modules" | "named_modules" | "buffers" | "named_buffers"):
            return _Use.INFERS if wrapped_weights else _Use.NEITHER
        case ast.Attribute(attr=name) if name in _NO_TRAINING:
            return _Use.NEITHER
        case ast.Attribute() as method if project.fact(Guards).is_without_gradients(module, method):
            return _Use.INFERS
        case ast.Call() as up:
            # The other branch may wrap it too (`if torch.cuda.is_available(): ... else: ...`).
            if last_name(up.func) == "DataParallel" or project.fact(Resolver).call_names(module, up) & {
                "torch.onnx.export"
            }:
                return _Use.NEITHER
            if project.fact(Guards).is_without_gradients(module, up):
                return _Use.INFERS
            if (handed := _handed_to(project, module, up, node, depth)) is not _Use.OTHER:
                return handed
            return _Use.NEITHER if _comes_back(project, module, up, node, depth) else _Use.OTHER
    return _Use.OTHER


def _comes_back(project: Project, module: ModuleIndex, call: ast.Call, model: ast.AST, depth: int) -> bool:
    """Return whether a function that loads the weights of a model gives it back to the same variable (``net, _ =
    restore(net)``)."""
    match module.syntax.parents.get(call):
        case ast.Assign(targets=[ast.Name() as target]):
            names = [target]
        case ast.Assign(targets=[ast.Tuple(elts=parts)]):
            names = [part for part in parts if isinstance(part, ast.Name)]
        case _:
            return False
    if not isinstance(model, ast.Name) or model.id not in {name.id for name in names}:
        return False
    callees = project.fact(Resolver).callees(module, call) if depth < MAX_CALLS else ()
    return bool(callees) and all(
        isinstance(callee.node, FUNCTIONS)
        and _uses_in(project, callee, _parameter(callee.node, call, model), depth) <= {_Use.NEITHER, _Use.RETURNED}
        for callee in callees
    )


def _handed_to(project: Project, module: ModuleIndex, call: ast.Call, model: ast.AST, depth: int) -> _Use:
    """Return what the functions that ``call`` may run do with the argument ``model``."""
    callees = project.fact(Resolver).callees(module, call) if depth < MAX_CALLS else ()
    found = {
        _use_of_callee(project, callee, call, model, depth) if isinstance(callee.node, FUNCTIONS) else _Use.OTHER
        for callee in callees
    }
    if not found or _Use.OTHER in found:
        return _Use.OTHER
    return _Use.INFERS if _Use.INFERS in found else _Use.NEITHER


def _use_of_callee(project: Project, callee: NodeRef, call: ast.Call, model: ast.AST, depth: int) -> _Use:
    """Return whether a function infers with an argument, or only looks at its layers (which ``copy_weights(model,
    pruned)`` may do)."""
    function = callee.node
    assert isinstance(function, FUNCTIONS)
    if project.fact(Guards).is_without_gradients(callee.module, function.body[0]):
        return _Use.INFERS
    uses = _uses_in(project, callee, _parameter(function, call, model), depth)
    if not uses or {_Use.OTHER, _Use.RETURNED} & uses:
        return _Use.OTHER
    return _Use.INFERS if _Use.INFERS in uses else _Use.NEITHER


def _parameter(function: FunctionNode, call: ast.Call, model: ast.AST) -> str | None:
    """The parameter that an argument of a call is."""
    names = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    return next((name for name in names if argument_of(function, call, name) is model), None)


@cyclic(frozenset({_Use.OTHER}))
def _uses_in(project: Project, callee: NodeRef, name: str | None, depth: int) -> frozenset[_Use]:
    """Return what a function does with a parameter; what is not followed may train."""
    if name is None:
        return frozenset({_Use.OTHER})
    return frozenset(
        _use(project, callee.module, node, False, depth + 1)
        for node in walk(callee.node)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    )


def _is_another(module: ModuleIndex, node: ast.AST, assigned: ast.Assign) -> bool:
    """Return whether a name refers to something of its own function, not to what the module assigned."""
    assert isinstance(node, ast.Name)
    return not any(binding.value is assigned.value for binding in module.scope(node).lookup(node.id))


def _chained(module: ModuleIndex, call: ast.Call) -> ast.AST:
    """``DataParallel(model).to(device)`` as a whole."""
    whole: ast.AST = call
    for up in module.syntax.ancestors(call):
        if isinstance(up, ast.Attribute) and up.attr not in _NO_TRAINING:
            break
        if not isinstance(up, ast.Attribute | ast.Call) or (isinstance(up, ast.Call) and whole is not up.func):
            break
        whole = up
    return whole
