"""Methods of models that are chosen when the program runs (``model = find(name)(options); model.set_input(batch)``)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.named_methods import is_of_outside
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import may_step
from gpulint.workspace.module_index import BindingKind, FunctionNode, ModuleIndex, branches
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_MENTIONING = 40
"""Most files that are asked whether they call such a method."""
_SETS_UP = regex.compile(r"load|restore|resume|init|state|build|config|save|setup|hook|step$|log", re.IGNORECASE)
_NO_BATCH = regex.compile(r"state|checkpoint|ckpt|conf|kwargs|model|weight|param|opt|arg|loss|out|net", re.IGNORECASE)
_MOVERS = regex.compile(r"Lightning|Callback|Trainer|Brain|Learner|Engine|keras")
"""Classes of frameworks that move batches before their hooks see them."""


def takes_batch(project: Project, module: ModuleIndex, node: ast.expr) -> FunctionNode | None:
    """The method whose parameter must be a batch: ``node`` takes something out of it by name (``input["A"]``), its
    class takes training steps, and nobody is seen to call it."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in branches(node.slice)):
        return None
    function, owner = module.function(node), module.class_of(node)
    if function is None or owner is None or module.syntax.parents.get(function) is not owner:
        return None
    bindings = module.scope(node).lookup(node.value.id)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.PARAMETER or _SETS_UP.search(function.name):
        return None
    if _NO_BATCH.search(node.value.id) or project.fact(Resolver).first_sites(module, function, 1):
        return None
    steps = (call for call in module.calls_where(may_step) if project.fact(LoopContexts).is_training_step(module, call))
    if not any(module.class_of(call) is owner for call in steps):
        return None
    if any(_MOVERS.search(base) for base in project.fact(Resolver).base_names(module, owner)):
        return None
    return function


def handed_by_name(project: Project, function: FunctionNode, name: str) -> Iterator[tuple[ModuleIndex, ast.expr]]:
    """Yield what calls ``x.method(value)`` hand to parameter ``name`` where what ``x`` is cannot be known."""
    resolver = project.fact(Resolver)
    for path in project.word_index.mentioning(word_of(function.name))[:MAX_MENTIONING]:
        if (module := project.module_at(path)) is None:
            continue
        for call in module.calls_by_name.get(function.name, []):
            named = isinstance(call.func, ast.Attribute) and not resolver.callees(module, call)
            if named and not is_of_outside(project, module, call):
                passed = argument_of(function, call, name)
                if passed is not None and not isinstance(passed, ast.Starred):
                    yield module, passed
