"""Settings that a run of Weights & Biases keeps: what ``wandb.init(config={...})`` was given, if no sweep is seen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

_INIT = "wandb.init"
_SWEEPS = frozenset({"agent", "sweep"})


def settings(project: Project, ref: NodeRef) -> Iterator[NodeRef]:
    """The expression for ``wandb.config.name`` or ``run.config["name"]``."""
    from gpulint.values.arguments import Arguments

    match ref.node:
        case ast.Attribute(value=base, attr=name) | ast.Subscript(value=base, slice=ast.Constant(value=str(name))):
            pass
        case _:
            return
    starts = [call for call in ref.module.calls_by_name.get("init", []) if _starts(project, ref.module, call)]
    if not starts or ref.module.calls_by_name.keys() & _SWEEPS or "sweep" in ref.module.path.stem:
        return
    origins = project.fact(Resolver).points_to(ref.module, base)
    if isinstance(ref.node, ast.Attribute):
        # `config = run.config` after `wandb.init(config=config)`: a plain dictionary has no attributes.
        yield from (NodeRef(one.module, value) for one in origins for value in _held(one.node, name))
    if not any(_is_config(project, one) for one in origins):
        return
    function = ref.module.function(ref.node)
    for call in [call for call in starts if ref.module.function(call) is function] or starts:
        for given in project.fact(Arguments).of(ref.module, call, "config").refs:
            for made in project.fact(Resolver).points_to(given.module, given.node):
                yield from (NodeRef(made.module, value) for value in _held(made.node, name))


def _is_config(project: Project, made: NodeRef) -> bool:
    """``wandb.config`` or ``wandb.init(...).config``."""
    if not isinstance(made.node, ast.Attribute) or made.node.attr != "config":
        return False
    if "wandb.config" in project.fact(Resolver).names(made.module, made.node):
        return True
    runs = project.fact(Resolver).points_to(made.module, made.node.value)
    return any(isinstance(run.node, ast.Call) and _starts(project, run.module, run.node) for run in runs)


def _starts(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    return _INIT in project.fact(Resolver).call_names(module, call)


def _held(node: ast.AST, name: str) -> Iterator[ast.expr]:
    match node:
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    yield value
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            yield from (keyword.value for keyword in keywords if keyword.arg == name)
