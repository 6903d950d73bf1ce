"""How many parameters a model has, where all its layers are made with numbers that are known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import LOOPS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.libraries.operations import LayersWithoutWeights
    from gpulint.project import Project

FEW = 2_500_000
"""Fewer parameters are less than 10 MB, which a disk takes in milliseconds."""
_ADAM = 3
"""Numbers for each parameter where the state of an optimizer is saved as well; Adam has two of its own."""
MAX_DEPTH = 6
"""How deep modules within modules are followed."""
_REPEATED = (*LOOPS, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_PLAIN = frozenset({"super", "__init__", "int", "len", "max", "min", "sum", "prod", "OrderedDict", "append"})
"""What a constructor calls beside the layers, without making weights."""
_SIDES = {"1d": 1, "2d": 2, "3d": 3}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_Number = Callable[[str, int], int | None]


def parameters(project: Project, module: ModuleIndex, model: ast.expr) -> int | None:
    """Most parameters that a model of PyTorch may have; None where a layer or one of its sizes is unknown."""
    return _of_origins(project, module, model, MAX_DEPTH)


@query
def _of_origins(project: Project, module: ModuleIndex, model: ast.expr, depth: int) -> int | None:
    found = [
        _of_call(project, ref.module, ref.node, depth) if isinstance(ref.node, ast.Call) and not ref.path else None
        for ref in project.fact(Resolver).points_to(module, model)
    ]
    known = [count for count in found if count is not None]
    return max(known) if known and len(known) == len(found) else None


def _of_call(project: Project, module: ModuleIndex, call: ast.Call, depth: int) -> int | None:
    """Parameters of what a constructor makes."""
    resolver = project.fact(Resolver)
    names = resolver.call_names(module, call)
    if makes_no_weights(project, names):
        return 0
    if any(name.startswith(("torch.nn.", "torch.nn.modules.")) for name in names):
        return _of_layer(project, module, call, depth)
    classes = [(ref.module, ref.node) for ref in resolver.points_to(module, call.func)]
    counts = [
        _of_class(project, where, node, depth - 1) if isinstance(node, ast.ClassDef) and depth else None
        for where, node in classes
    ]
    known = [count for count in counts if count is not None]
    return max(known) if known and len(known) == len(counts) else None


def makes_no_weights(project: Project, names: Iterable[str]) -> bool:
    """Return whether a call of these names makes a layer that has no weights."""
    rows: tuple[LayersWithoutWeights, ...] = project.models.rows("layers-without-weights")
    return any(
        name.startswith(f"{module}.") and name.rpartition(".")[2] in row.names
        for row in rows
        for module in row.modules
        for name in names
    )


@query
def _of_class(project: Project, module: ModuleIndex, owner: ast.ClassDef, depth: int) -> int | None:
    """Parameters of a class of the tree that inherits from ``torch.nn.Module`` alone."""
    bases = project.fact(Resolver).base_names(module, owner)
    constructor = next(
        (node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None
    )
    if constructor is None or not any(base.endswith(".nn.Module") for base in bases) or len(owner.bases) != 1:
        return None
    total = 0
    for call, repeated in _calls(constructor):
        if last_name(call.func) in _PLAIN:
            continue
        count = _of_call(project, module, call, depth)
        if count is None or (count and repeated):
            return None
        total += count
    return total


def _calls(constructor: ast.FunctionDef) -> Iterator[tuple[ast.Call, bool]]:
    """Outermost calls of a constructor, with whether a loop repeats them."""
    pending: list[tuple[ast.AST, bool]] = [(node, False) for node in constructor.body]
    while pending:
        node, repeated = pending.pop()
        if isinstance(node, ast.Call) and last_name(node.func) not in _PLAIN:
            yield node, repeated
            continue
        repeated = repeated or isinstance(node, _REPEATED)
        pending += [(child, repeated) for child in ast.iter_child_nodes(node)]


def _of_layer(project: Project, module: ModuleIndex, call: ast.Call, depth: int) -> int | None:
    """Parameters of a layer of ``torch.nn``; those of norms, which are few, count as none."""
    name = last_name(call.func)
    if name.endswith(("Norm", "Norm1d", "Norm2d", "Norm3d")):
        return 0
    if name == "Sequential":
        return _of_sequence(project, module, call, depth)

    def number(keyword: str, position: int) -> int | None:
        known = project.fact(Arguments).value(module, call, keyword, position)
        sides = [whole for value in known.constants if (whole := _number(value)) is not None]
        return max(sides) if known.complete and sides and len(sides) == len(known.constants) else None

    if name in ("Linear", "Embedding"):
        first, second = ("in_features", "out_features") if name == "Linear" else ("num_embeddings", "embedding_dim")
        return _product(number(first, 0), number(second, 1))
    if name.startswith("Conv") and name[-2:] in _SIDES:
        return _of_convolution(call, number, _SIDES[name[-2:]])
    if name in _GATES:
        return _of_recurrence(project, module, call, number, _GATES[name])
    return None


def _of_sequence(project: Project, module: ModuleIndex, call: ast.Call, depth: int) -> int | None:
    if any(isinstance(arg, ast.Starred) or not isinstance(arg, ast.Call) for arg in call.args) or not depth:
        return None
    counts = [_of_call(project, module, arg, depth - 1) for arg in call.args if isinstance(arg, ast.Call)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _of_convolution(call: ast.Call, number: _Number, sides: int) -> int | None:
    kernel = number("kernel_size", 2)
    given = call.args[2:3] + [keyword.value for keyword in call.keywords if keyword.arg == "kernel_size"]
    square = kernel is not None and not any(isinstance(node, ast.Tuple) for node in given)
    return _product(number("in_channels", 0), number("out_channels", 1), kernel**sides if kernel and square else kernel)


def _of_recurrence(project: Project, module: ModuleIndex, call: ast.Call, number: _Number, gates: int) -> int | None:
    """As if it went both ways, which doubles it."""
    width, hidden = number("input_size", 0), number("hidden_size", 1)
    absent = project.fact(Arguments).of(module, call, "num_layers", 2).is_absent
    layers = 1 if absent else number("num_layers", 2)
    if width is None or hidden is None:
        return None
    return _product(2 * gates, hidden, max(width, 2 * hidden) + hidden, layers)


def _product(*factors: int | None) -> int | None:
    known = [factor for factor in factors if factor is not None]
    return prod(known) if len(known) == len(factors) else None


def _number(value: object) -> int | None:
    """A number, or the product of a shape's sides."""
    if isinstance(value, tuple):
        return _product(*(side if isinstance(side, int) else None for side in value))
    return value if isinstance(value, int) else None


def is_small_state(project: Project, module: ModuleIndex, saved: ast.expr) -> bool:
    """Return whether all models whose state an expression holds are known, and have few parameters together, with what
    an optimizer keeps for each."""
    counts = [parameters(project, *model) for model in models_in(project, module, saved)]
    known = [count for count in counts if count is not None]
    with_optimizer = any(_steps(last_name(owner)) for _, owner in _owners(project, module, saved))
    return 0 < len(known) == len(counts) and sum(known) * (_ADAM if with_optimizer else 1) < FEW


def models_in(project: Project, module: ModuleIndex, saved: ast.expr) -> list[tuple[ModuleIndex, ast.expr]]:
    """The models whose state an expression holds: ``{"model": net.state_dict(), "epoch": epoch}``."""
    return [(where, model) for where, model in _owners(project, module, saved) if not _steps(last_name(model))]


def _owners(project: Project, module: ModuleIndex, saved: ast.expr) -> list[tuple[ModuleIndex, ast.expr]]:
    """The models, optimizers and the like whose state an expression holds."""
    found = list[tuple[ModuleIndex, ast.expr]]()
    for ref in project.fact(Resolver).points_to(module, saved):
        for node in walk(ref.node):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "state_dict":
                found.append((ref.module, node.func.value))
    return found


def _steps(name: str) -> bool:
    return any(word in name.lower() for word in ("optim", "opt", "sched", "scaler"))
