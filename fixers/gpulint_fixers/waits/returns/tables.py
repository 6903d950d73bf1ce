"""Tables of numbers that a function returns, which hold tensors from now on."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import BindingKind, ModuleIndex, NodeRef
from gpulint_fixers.waits.changed_tensors import is_changed
from gpulint_fixers.waits.device_reads import DeviceRead
from gpulint_fixers.waits.double_precision import has_doubles

METHODS = frozenset({"mean", "sum", "std", "var", "min", "max", "norm", "abs", "float", "detach"})
"""Methods that give tensors of tensors."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a function returns that holds numbers it has read."""

    reads: tuple[DeviceRead, ...]
    computed: frozenset[ast.expr]
    """Reads of which an entry is computed: ``1.0 - loss.item()``."""
    host_keys: frozenset[str]
    """Keys of entries that are numbers of the host, at least in some steps."""
    at: int
    """Where in the returned tuple it is; -1: it is all that is returned."""
    is_dict: bool
    name: str = ""
    """The function's own variable that holds it, if it is one."""
    reasons: tuple[str, ...] = ()
    """Why numbers that are computed of the tensors may differ."""
    read_keys: tuple[str, ...] = ()
    """Keys of entries that are reads."""
    other_keys: frozenset[str] = frozenset()
    """Keys of entries that stay what they are, such as the loss itself."""

    @property
    def is_mixed(self) -> bool:
        """Whether it holds numbers of the host as well."""
        return bool(self.host_keys)

    def convert(self, name: str) -> str:
        """A line that makes numbers of the table's tensors."""
        if self.other_keys:
            first, *more = self.read_keys
            if not more:
                return f"{name}[{first}] = float({name}[{first}])"
            return f"{name}.update((key, float({name}[key])) for key in ({', '.join(self.read_keys)}))"
        return f"{name} = {self.inline.format(name)}"

    @property
    def inline(self) -> str:
        """The expression for it, with a place for the table's name."""
        if not self.is_dict:
            return "tuple(map(float, {}))"
        value = "float(value) if torch.is_tensor(value) else value" if self.is_mixed else "float(value)"
        return f"{{{{key: {value} for key, value in {{}}.items()}}}}"

    def edits(self, project: Project, module: ModuleIndex, sites: Iterable[NodeRef]) -> list[Edit]:
        """Tensors in the place of the reads: copies where the function or a caller changes the tensor itself."""
        doubles, places = ".double()" * has_doubles(project, module), [*sites]
        made = list[Edit]()
        for read in self.reads:
            copies = ".clone()" * (is_changed(module, read.tensor, places) or _is_of_loop(module, read.tensor))
            bare = "" if _is_detached(project, module, read.tensor) else ".detach()"
            made.append(read.replaced(module, bare + (doubles if read.whole in self.computed else copies)))
        return made


def key_of(key: ast.expr) -> str:
    """The text of a key, the same for all ways to write it."""
    value = key.value if isinstance(key, ast.Constant) else None
    return f'"{value}"' if isinstance(value, str) and value.isprintable() and '"' not in value else ast.unparse(key)


def _is_of_loop(module: ModuleIndex, tensor: ast.expr) -> bool:
    """Return whether a loop over tensors gives one, which the caller may change by another name."""
    if not isinstance(tensor, ast.Name):
        return False
    return any(binding.kind is BindingKind.LOOP for binding in module.scope(tensor).lookup(tensor.id))


def _is_detached(project: Project, module: ModuleIndex, tensor: ast.expr) -> bool:
    """Return whether a tensor is computed without gradients: ``value.detach().mean()``."""
    inner = tensor
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in METHODS:
        if inner.func.attr == "detach":
            return True
        inner = inner.func.value
    if not isinstance(tensor, ast.Call):
        return False
    return project.fact(Guards).is_without_gradients(module, tensor)
