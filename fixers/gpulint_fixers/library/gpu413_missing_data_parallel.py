"""Wrap the model in DataParallel once it is on its GPU (the study's Figure 6)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint_rules.library.gpu413_missing_data_parallel import Unwrapped

from gpulint import regex
from gpulint.documents.python import PythonModule, walk
from gpulint.facts.passing import argument_of
from gpulint.facts.scopes import FUNCTIONS, ModuleScopes, Ref, last_name
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.statements import insert_below

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
_MAX_CALLS = 3


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Add the wrapper, and send what is meant for the model itself to ``.module``."""
    found = finding.payload
    if not isinstance(found, Unwrapped):
        return Declined("the place where the model is moved to the GPU is unknown")
    scopes, module = found.scopes, found.scopes.module
    torch = _data_parallel(scopes)
    if torch is None:
        return Declined("torch is not imported as a module where the model is moved to the GPU")
    statement = next((up for up in module.ancestors(found.call) if isinstance(up, ast.stmt)), None)
    model = _variable(found.call, statement)
    if statement is None or model is None:
        return Declined("the model is not assigned to a variable where it is moved to the GPU")
    name = ast.unparse(model)
    if reason := _not_here(project, scopes, statement, model):
        return Declined(reason)
    uses = list(_uses(scopes, statement, model))
    own = [node for node in uses if _wants_module(module.parents.get(node))]
    saved = [node for node in uses if _is_saved(scopes, node)]
    if (own or saved) and project.guards.conditional(scopes, statement):
        return Declined("the model is moved to the GPU conditionally, and its attributes are used elsewhere")
    elsewhere = {attribute for node in uses for attribute in _handed_on(project, scopes, node, 0)} - _SAME
    if lacking := sorted(elsewhere - _NAMING):
        return Declined(f"functions that receive the model use `.{lacking[0]}`, which the wrapper lacks")
    insertion = insert_below(module, statement, f"{name} = {torch}({name})")
    if insertion is None:
        return Declined("the statement that moves the model to the GPU shares its line with another one")
    moved = [_insert(module, node, ".module") for node in (*own, *saved)]
    renamed = "; functions that get the model save and load keys that start with `module.`" if elsewhere else ""
    return Fix(
        f"split every batch over the {found.gpus} GPUs along its first dimension: multiply the batch size to fill them"
        f"{renamed}",
        Safety.UNSAFE,
        (insertion, *moved),
    )


def _insert(module: PythonModule, node: ast.expr, text: str) -> Edit:
    end = module.offsets(node)[1]
    return Edit(module.path, module.span_at(end, end), text)


def _data_parallel(scopes: ModuleScopes) -> str | None:
    for name, bindings in scopes.top.bindings.items():
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
    """Is ``call`` the value, or followed by nothing but methods that return the model (``.train()``)?"""
    while value is not call and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in _SAME:
            return False
        value = value.func.value
    return value is call


def _not_here(
    project: Project, scopes: ModuleScopes, statement: ast.stmt, model: ast.Name | ast.Attribute
) -> str | None:
    """Why the model cannot be wrapped at this place."""
    function, name = scopes.function(statement), ast.unparse(model)
    if any(isinstance(up, ast.For | ast.While | ast.ClassDef) for up in _up_to_function(scopes, statement)):
        return "the model is moved to the GPU in a loop"
    if function is not None and any(
        ast.unparse(part) == name for value in project.resolver.returns(function) for part in walk(value)
    ):
        return "the function returns the model; wrap it where it is trained"
    if isinstance(model, ast.Name):
        for binding in scopes.scope(statement).lookup(model.id):
            line = getattr(binding.node, "lineno", 0)
            if line > (statement.end_lineno or 0) and scopes.function(binding.node) is function:
                return f"`{name}` is reassigned later"
    elif any(_is_outside(scopes, statement, node, model.attr) for node in scopes.module.nodes):
        return f"`.{model.attr}` is used outside of its class"
    if any(_returns_loss(project, where, call, name) for where, call in _backwards(project, scopes)):
        return "the model returns its loss; the wrapper would return one per GPU"
    return None


def _up_to_function(scopes: ModuleScopes, node: ast.AST) -> Iterator[ast.AST]:
    for up in scopes.module.ancestors(node):
        if isinstance(up, FUNCTIONS):
            return
        yield up


def _is_outside(scopes: ModuleScopes, statement: ast.stmt, node: ast.AST, attribute: str) -> bool:
    """``trainer.model.encode(...)`` in a place that is not the class of ``self.model``."""
    inner = node.value if isinstance(node, ast.Attribute) else None
    return (
        isinstance(inner, ast.Attribute)
        and inner.attr == attribute
        and scopes.class_of(node) is not scopes.class_of(statement)
    )


def _uses(
    scopes: ModuleScopes, statement: ast.stmt, model: ast.Name | ast.Attribute
) -> Iterator[ast.Name | ast.Attribute]:
    """Where the same variable is read once it may be wrapped."""
    function, text = scopes.function(statement), ast.unparse(model)
    bindings = scopes.scope(statement).lookup(model.id) if isinstance(model, ast.Name) else None
    home = scopes.class_of(statement)
    for node in scopes.module.nodes:
        if not isinstance(node, type(model)) or not isinstance(node.ctx, ast.Load) or ast.unparse(node) != text:
            continue
        if scopes.function(node) is function and node.lineno <= (statement.end_lineno or 0):
            continue
        if scopes.class_of(node) is home if bindings is None else scopes.scope(node).lookup(text) is bindings:
            yield node


def _wants_module(parent: ast.AST | None) -> bool:
    return isinstance(parent, ast.Attribute) and parent.attr not in _SAME


def _is_saved(scopes: ModuleScopes, node: ast.expr) -> bool:
    """Is it the model itself that ``torch.save`` gets?"""
    up: ast.AST | None = scopes.module.parents.get(node)
    while isinstance(up, ast.Dict | ast.Tuple | ast.List):
        up = scopes.module.parents.get(up)
    return isinstance(up, ast.Call) and ast.unparse(up.func) == "torch.save"


def _handed_on(project: Project, scopes: ModuleScopes, node: ast.expr, depth: int) -> Iterator[str]:
    """Attributes that functions of the tree ask of the model when they get it as an argument."""
    call = scopes.module.parents.get(node)
    call = scopes.module.parents.get(call) if isinstance(call, ast.keyword) else call
    if not isinstance(call, ast.Call) or call.func is node or depth >= _MAX_CALLS:
        return
    for callee in project.resolver.callees(scopes, call):
        if not isinstance(callee.node, FUNCTIONS):
            continue
        arguments = callee.node.args
        names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        for name in names:
            if argument_of(callee.node, call, name) is not node:
                continue
            for inner in walk(callee.node):
                if isinstance(inner, ast.Name) and inner.id == name and isinstance(inner.ctx, ast.Load):
                    parent = callee.scopes.module.parents.get(inner)
                    if isinstance(parent, ast.Attribute):
                        yield parent.attr
                    yield from _handed_on(project, callee.scopes, inner, depth + 1)


def _backwards(project: Project, scopes: ModuleScopes) -> Iterator[tuple[ModuleScopes, ast.expr]]:
    """What ``.backward()`` is called on in the program."""
    for where in project.gpu_use.of(scopes.path).modules:
        for call in where.calls_by_name.get("backward", []):
            if isinstance(call.func, ast.Attribute):
                yield where, call.func.value
            yield from ((where, argument) for argument in call.args[:1])


def _returns_loss(project: Project, scopes: ModuleScopes, node: ast.expr, model: str, depth: int = 0) -> bool:
    """Is the value an output of the model that nothing has reduced since?"""
    if depth > 5:
        return False
    for ref in project.resolver.origins(scopes, node):
        match ref.node:
            case ast.Call(func=func) if last_name(func) == model.rpartition(".")[2] or _is_module(project, ref):
                return True
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.BinOp(left=inner):
                if _returns_loss(project, ref.scopes, inner, model, depth + 1):
                    return True
    return False


def _is_module(project: Project, ref: Ref) -> bool:
    """Does the call run the ``forward`` of a class of the tree that is no loss function?"""
    assert isinstance(ref.node, ast.Call)
    if _LOSS.search(last_name(ref.node.func)):
        return False
    callees = project.resolver.callees(ref.scopes, ref.node)
    return any(isinstance(callee.node, FUNCTIONS) and callee.node.name == "forward" for callee in callees)


FIXER = Fixer("GPU413", fix)
