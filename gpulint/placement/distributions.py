"""Where the samples of a distribution are."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_CHOICES = frozenset("Categorical OneHotCategorical Multinomial Bernoulli RelaxedOneHotCategorical".split())
"""Distributions whose parameters are a tensor of probabilities or logits."""


def draws_on_host(
    project: Project,
    module: ModuleIndex,
    func: ast.Attribute,
    is_tensor: Callable[[ModuleIndex, ast.expr], bool],
    is_host: Callable[[ModuleIndex, ast.expr], bool],
) -> bool:
    """``Beta(a, a).sample`` of numbers: a distribution lives where its parameters do. Those of a choice are a tensor
    (``Categorical(probs)``)."""
    if func.attr not in ("sample", "rsample"):
        return False
    for made in project.fact(Resolver).points_to(module, func.value):
        call = made.node
        names = project.fact(Resolver).call_names(made.module, call) if isinstance(call, ast.Call) else frozenset()
        if not isinstance(call, ast.Call) or not any(name.startswith("torch.distributions.") for name in names):
            continue
        given = [*call.args, *(word.value for word in call.keywords if word.arg != "validate_args")]
        if last_name(call.func) in _CHOICES:
            if all(is_host(made.module, part) for part in given):
                return True
        elif not any(isinstance(part, ast.Call) or is_tensor(made.module, part) for part in given):
            return True
    return False
