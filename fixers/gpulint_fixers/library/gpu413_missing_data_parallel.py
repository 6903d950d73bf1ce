"""Wrap the model in DataParallel once it is on its GPU (the study's Figure 6), or request one GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from gpulint_rules.library.gpu413_missing_data_parallel import Unwrapped

from gpulint import regex
from gpulint.documents.python import PythonModule, walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.cuda_tests import excludes_cuda
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name
from gpulint_fixers.edits.gpu_requests import without
from gpulint_fixers.edits.statements import insert_below

_SAME = frozenset(
    "train eval training parameters zero_grad to cuda cpu half float double bfloat16 requires_grad_ apply modules "
    "buffers share_memory forward module".split()
)
"""Attributes that mean the same on the wrapper."""
_NAMING = frozenset(
    "state_dict load_state_dict named_parameters named_modules named_buffers named_children children".split()
)
"""Those that the wrapper has, but that name parameters ``module.*`` there."""
_LOSS = regex.compile(r"loss|criteri|cost|objective", re.IGNORECASE)
_GRAPHS = regex.compile(r"\btorch_geometric\b|\bdgl\b|\bedge_index\b")
_MAX_CALLS = 3


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Wrap the model where that can be seen to work; else request the GPU that the program uses."""
    found = finding.payload
    if not isinstance(found, Unwrapped):
        return Declined("what the job requests is unknown")
    wrapped = _wrap(project, found)
    if isinstance(wrapped, Fix) or found.surplus is None:
        return wrapped
    fewer = without(project, found.surplus)
    if isinstance(fewer, Declined):
        return wrapped
    return replace(fewer, description=f"{fewer.description}, which is not wrapped for more as {wrapped.reason}")


def _wrap(project: Project, found: Unwrapped) -> Fix | Declined:
    """Add the wrapper, and send what is meant for the model itself to ``.module``."""
    if found.call is None:
        return Declined("the place where the model is moved to the GPU is unknown")
    module, syntax = found.module, found.module.syntax
    if _GRAPHS.search(syntax.source.text):
        return Declined("a batch of graphs, whose edges name nodes by number, has no first dimension to split it along")
    torch = _data_parallel(module)
    if torch is None:
        return Declined("torch is not imported as a module where the model is moved to the GPU")
    statement = next((up for up in syntax.ancestors(found.call) if isinstance(up, ast.stmt)), None)
    model = _variable(found.call, statement)
    if statement is None or model is None:
        return Declined("the model is not assigned to a variable where it is moved to the GPU")
    name = ast.unparse(model)
    if reason := _not_here(project, module, statement, model):
        return Declined(reason)
    uses = list(_uses(module, statement, model))
    own = [node for node in uses if _wants_module(syntax.parents.get(node))]
    saved = [node for node in uses if _is_saved(module, node)]
    if (own or saved) and (project.fact(Guards).is_conditional(module, statement) or _needs_gpu(module, statement)):
        return Declined("the model is moved to the GPU conditionally, and its attributes are used elsewhere")
    if any(_is_kept(module, node) for node in uses if node not in saved):
        return Declined("the model is put into a table or another variable, whose uses could not be followed")
    elsewhere = {attribute for node in uses for attribute in _handed_on(project, module, node, 0)} - _SAME
    if lacking := sorted(elsewhere - _NAMING):
        return Declined(f"functions that receive the model use `.{lacking[0]}`, which the wrapper lacks")
    insertion = insert_below(syntax, statement, f"{name} = {torch}({name})")
    if insertion is None:
        return Declined("the statement that moves the model to the GPU shares its line with another one")
    moved = [_insert(syntax, node, ".module") for node in (*own, *saved)]
    renamed = "; functions that get the model save and load keys that start with `module.`" if elsewhere else ""
    return Fix(
        f"split every batch over the {found.gpus} GPUs along its first dimension: multiply the batch size to fill them"
        f"{renamed}",
        Safety.UNSAFE,
        (insertion, *moved),
    )


def _insert(syntax: PythonModule, node: ast.expr, text: str) -> Edit:
    end = syntax.offsets(node)[1]
    return Edit(syntax.path, syntax.span_at(end, end), text)


def _needs_gpu(module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a statement runs only where there is a GPU."""
    parts = (part for test, holds in conditions(module, statement) for part in parts_of(test, holds))
    return any(excludes_cuda(module, part, not holds) for part, holds in parts)


def _data_parallel(module: ModuleIndex) -> str | None:
    for name, bindings in module.top.bindings.items():
        for binding in bindings:
            if binding.target == "torch":
                return f"{name}.nn.DataParallel"
            if binding.target == "torch.nn":
                return f"{name}.DataParallel"
    return None


def _variable(call: ast.Call, statement: ast.stmt | None) -> ast.Name | ast.Attribute | None:
    """The variable that holds the model once ``statement`` has moved it."""
    target: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is_chain(statement.value, call):
        target = statement.targets[0]
    elif isinstance(statement, ast.Expr) and statement.value is call and isinstance(call.func, ast.Attribute):
        target = call.func.value
    if isinstance(target, ast.Attribute) and not (isinstance(target.value, ast.Name) and target.value.id == "self"):
        return None
    return target if isinstance(target, ast.Name | ast.Attribute) else None


def _is_chain(value: ast.expr, call: ast.Call) -> bool:
    """Return whether ``call`` is the value, or followed only by methods that return the model (``.train()``)."""
    while value is not call and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in _SAME:
            return False
        value = value.func.value
    return value is call


def _not_here(
    project: Project, module: ModuleIndex, statement: ast.stmt, model: ast.Name | ast.Attribute
) -> str | None:
    """Return why the model cannot be wrapped at this place."""
    function, name = module.function(statement), ast.unparse(model)
    if any(isinstance(up, ast.For | ast.While | ast.ClassDef) for up in _up_to_function(module, statement)):
        return "the model is moved to the GPU in a loop"
    if function is not None and any(
        ast.unparse(part) == name for value in project.fact(Resolver).returns(function) for part in walk(value)
    ):
        return "the function returns the model; wrap it where it is trained"
    if isinstance(model, ast.Name):
        for binding in module.scope(statement).lookup(model.id):
            line = getattr(binding.node, "lineno", 0)
            if line > (statement.end_lineno or 0) and module.function(binding.node) is function:
                return f"`{name}` is reassigned later"
    elif any(_is_outside(module, statement, node, model.attr) for node in module.syntax.nodes):
        return f"`.{model.attr}` is used outside of its class"
    if any(_returns_loss(project, where, call, name) for where, call in _backwards(project, module)):
        return "the model returns its loss; the wrapper would return one per GPU"
    return None


def _up_to_function(module: ModuleIndex, node: ast.AST) -> Iterator[ast.AST]:
    for up in module.syntax.ancestors(node):
        if isinstance(up, FUNCTIONS):
            return
        yield up


def _is_outside(module: ModuleIndex, statement: ast.stmt, node: ast.AST, attribute: str) -> bool:
    """``trainer.model.encode(...)`` in a place that is not the class of ``self.model``."""
    inner = node.value if isinstance(node, ast.Attribute) else None
    return (
        isinstance(inner, ast.Attribute)
        and inner.attr == attribute
        and module.class_of(node) is not module.class_of(statement)
    )


def _uses(
    module: ModuleIndex, statement: ast.stmt, model: ast.Name | ast.Attribute
) -> Iterator[ast.Name | ast.Attribute]:
    """Yield where the same variable is read once it may be wrapped."""
    function, text = module.function(statement), ast.unparse(model)
    bindings = module.scope(statement).lookup(model.id) if isinstance(model, ast.Name) else None
    home = module.class_of(statement)
    for node in module.syntax.nodes:
        if not isinstance(node, type(model)) or not isinstance(node.ctx, ast.Load) or ast.unparse(node) != text:
            continue
        if module.function(node) is function and node.lineno <= (statement.end_lineno or 0):
            continue
        if module.class_of(node) is home if bindings is None else module.scope(node).lookup(text) is bindings:
            yield node


def _wants_module(parent: ast.AST | None) -> bool:
    return isinstance(parent, ast.Attribute) and parent.attr not in _SAME


def _is_kept(module: ModuleIndex, node: ast.expr) -> bool:
    """``{"body": model}``, ``net = model``: what is called there need not be ``forward``."""
    up = module.syntax.parents.get(node)
    return isinstance(up, ast.Dict | ast.List | ast.Tuple | ast.Set) or (
        isinstance(up, ast.Assign) and up.value is node
    )


def _is_saved(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether ``torch.save`` gets the model itself."""
    up: ast.AST | None = module.syntax.parents.get(node)
    while isinstance(up, ast.Dict | ast.Tuple | ast.List):
        up = module.syntax.parents.get(up)
    return isinstance(up, ast.Call) and ast.unparse(up.func) == "torch.save"


def _handed_on(project: Project, module: ModuleIndex, node: ast.expr, depth: int) -> Iterator[str]:
    """Attributes that functions of the tree ask of the model when they get it as an argument."""
    call = module.syntax.parents.get(node)
    call = module.syntax.parents.get(call) if isinstance(call, ast.keyword) else call
    if not isinstance(call, ast.Call) or call.func is node or depth >= _MAX_CALLS:
        return
    for callee in project.fact(Resolver).callees(module, call):
        if not isinstance(callee.node, FUNCTIONS):
            continue
        arguments = callee.node.args
        names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        for name in names:
            if argument_of(callee.node, call, name) is not node:
                continue
            for inner in walk(callee.node):
                if isinstance(inner, ast.Name) and inner.id == name and isinstance(inner.ctx, ast.Load):
                    parent = callee.module.syntax.parents.get(inner)
                    if isinstance(parent, ast.Attribute):
                        yield parent.attr
                    yield from _handed_on(project, callee.module, inner, depth + 1)


def _backwards(project: Project, module: ModuleIndex) -> Iterator[tuple[ModuleIndex, ast.expr]]:
    """Yield what ``.backward()`` is called on in the program."""
    for where in project.fact(MultiGpuUse).of(module.path).modules:
        for call in where.calls_by_name.get("backward", []):
            if isinstance(call.func, ast.Attribute):
                yield where, call.func.value
            yield from ((where, argument) for argument in call.args[:1])


def _returns_loss(project: Project, module: ModuleIndex, node: ast.expr, model: str, depth: int = 0) -> bool:
    """Return whether the value is an output of the model that nothing has reduced since."""
    if depth > 5:
        return False
    for ref in project.fact(Resolver).points_to(module, node):
        match ref.node:
            case ast.Call(func=func) if last_name(func) == model.rpartition(".")[2] or _is_module(project, ref):
                return True
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.BinOp(left=inner):
                if _returns_loss(project, ref.module, inner, model, depth + 1):
                    return True
    return False


def _is_module(project: Project, ref: NodeRef) -> bool:
    """Return whether the call runs the ``forward`` of a class of the tree that is no loss function."""
    assert isinstance(ref.node, ast.Call)
    if _LOSS.search(last_name(ref.node.func)):
        return False
    callees = project.fact(Resolver).callees(ref.module, ref.node)
    return any(isinstance(callee.node, FUNCTIONS) and callee.node.name == "forward" for callee in callees)


FIXER = Fixer("GPU413", fix)
