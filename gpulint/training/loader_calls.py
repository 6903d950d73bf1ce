"""Classes that load batches for PyTorch, and the calls that make one."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.libraries import Models
from gpulint.libraries.frameworks import Loader as LoaderRow
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.values.arguments import Argument, Arguments, ArgumentState
from gpulint.workspace.module_index import CallSite, FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_ATTRIBUTES = frozenset({"num_workers", "pin_memory"})
"""Arguments that PyTorch's loaders keep as attributes, which may be set until the first batch is drawn."""
TORCH_LOADER = "torch.utils.data.DataLoader"


class LoaderClasses:
    """The classes that the rows name: rows by qualified name, and their last names."""

    def __init__(self, models: Models) -> None:
        self.rows: Mapping[str, LoaderRow] = {
            name: row for row in reversed(models.rows("loader")) for name in row.classes
        }
        self.last_names = frozenset(name.rpartition(".")[2] for name in self.rows)


@dataclass(frozen=True, slots=True)
class Loader(CallSite):
    """A call that makes a data loader. ``call.node`` is the call; ``name`` its qualified class."""

    name: str
    row: LoaderRow | None = field(default=None, compare=False)
    """What is known of the class; None for one of the tree that forwards what it is given."""

    @property
    def variable(self) -> str:
        """Name that the loader is assigned to, as written; '' if it has none."""
        parent = self.module.syntax.parents.get(self.node)
        target = (
            parent.targets[0]
            if isinstance(parent, ast.Assign)
            else parent.target
            if isinstance(parent, ast.AnnAssign)
            else None
        )
        return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""

    @property
    def samples_graph(self) -> bool:
        """A graph sampler, whose feature tensors may already be on the GPU."""
        return self.row is not None and self.row.samples_graph

    @property
    def device(self) -> ast.expr | None:
        """The device on which the loader puts its batches itself, if one is given."""
        if self.row is None or not self.row.places_on:
            return None
        return keyword_value(self.node, self.row.places_on)


def loader_argument(project: Project, loader: Loader, name: str) -> Argument:
    """Return what a loader gets for ``name``, by keyword or by its place in the signature."""
    signature = loader.row.signature if loader.row is not None else ()
    place = signature.index(name) if name in signature else None
    found = project.fact(Arguments).of(loader.module, loader.node, name, place)
    later = _set_later(loader, name) if name in _ATTRIBUTES else ()
    if not later:
        return found
    return Argument(ArgumentState.SOMETIMES, (*found.refs, *later), found.unknown)


def _set_later(loader: Loader, name: str) -> tuple[NodeRef, ...]:
    """``loader.num_workers = 8`` in the function that makes the loader."""
    module, variable = loader.module, loader.variable
    if not variable:
        return ()
    values = _attribute_values(module).get((variable, name, module.function(loader.node)), ())
    return tuple(NodeRef(module, value) for value in values)


@query
def _attribute_values(module: ModuleIndex) -> dict[tuple[str, str, FunctionNode | None], list[ast.expr]]:
    """The values that the attributes of variables are set to, by the variable, the attribute and the function."""
    found = dict[tuple[str, str, FunctionNode | None], list[ast.expr]]()
    for assigned in module.syntax.of(ast.Assign):
        for target in assigned.targets:
            if isinstance(target, ast.Attribute) and target.attr in _ATTRIBUTES:
                place = ast.unparse(target.value), target.attr, module.function(assigned)
                found.setdefault(place, []).append(assigned.value)
    return found


def only_predicts(loader: Loader) -> bool:
    """Return whether a trainer only predicts with a loader."""
    module, name = loader.module, loader.variable
    home = module.scope(loader.node).lookup(name) if name else []
    uses = [use for use in module.uses.get(name, ()) if home and module.scope(use).lookup(name) is home]
    users = [module.syntax.parents.get(use) for use in uses if isinstance(use.ctx, ast.Load)]
    return bool(users) and all(isinstance(user, ast.Call) and last_name(user.func) == "predict" for user in users)
