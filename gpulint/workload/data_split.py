"""What batches and data sets are for, as their names say: training or evaluation."""

from __future__ import annotations

import ast
import enum
from functools import lru_cache

from gpulint import regex
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

_WORD = regex.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


_TRAIN = regex.compile(
    r"^(train|training|trn|finetune|pretrain)(er)?(ing)?(loader|set|data|iter|dl|ds|dataset|dataloader|gen|x|batch|bs)?$"
)


_EVAL = regex.compile(
    r"^(val|valid|validation|validate|eval|evaluation|evaluate|test|testing|tst|dev|devel|infer|inference)"
    r"(loader|set|data|iter|dl|ds|dataset|dataloader|gen|x|batch|bs)?$"
)


class Split(enum.Enum):
    """What batches are for."""

    TRAIN = "training"
    EVAL = "evaluation"
    BOTH = "training and evaluation"


@lru_cache(maxsize=10_000)
def split_of(name: str) -> Split | None:
    """Return what a name (``valid_dl``, ``testLoader``, ``trainset``) says its batches are for."""
    words = [word.lower() for word in _WORD.findall(name)]
    trains = any(_TRAIN.match(word) for word in words)
    evaluates = any(_EVAL.match(word) for word in words)
    if trains == evaluates:
        # `train_val_split` says both, which is nothing.
        return None
    return Split.TRAIN if trains else Split.EVAL


def chooses_split(test: ast.expr) -> bool:
    """``if train``, ``if not self.training``, ``if split == "train"``."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return chooses_split(inner)
        case ast.Name() | ast.Attribute():
            return split_of(last_name(test)) is not None
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=str(name))]):
            return split_of(name) is not None
    return False


def split_of_target(target: ast.expr) -> Split | None:
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return merged_split({split_of(last_name(part)) for part in parts})
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return split_of(key)
    return split_of(last_name(target))


def split_of_loop(module: ModuleIndex, key: ast.Name) -> Split | None:
    """The split that a loop over names gives a variable: of ``for split, shuffle in [("train", True), ("val", False)]``
    both."""
    bindings = reaching(module, module.scope(key).lookup(key.id), key)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.LOOP:
        return None
    names = list[ast.expr]()
    for item in _items(module, bindings[0].value):
        for place in bindings[0].path:
            if not isinstance(item, ast.Tuple | ast.List) or not 0 <= place < len(item.elts):
                return None
            item = item.elts[place]
        names.append(item)
    return merged_split({split_of(str(name.value)) if isinstance(name, ast.Constant) else None for name in names})


def _items(module: ModuleIndex, source: ast.expr | None) -> list[ast.expr]:
    """The elements of a list that is written out, in the loop or under a name."""
    if isinstance(source, ast.Name):
        bindings = module.scope(source).lookup(source.id)
        source = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
    if isinstance(source, ast.Dict):
        return [key for key in source.keys if key is not None]
    return source.elts if isinstance(source, ast.List | ast.Tuple | ast.Set) else []


def merged_split(splits: set[Split | None]) -> Split | None:
    known = splits - {None}
    if known >= {Split.TRAIN, Split.EVAL}:
        return Split.BOTH
    return known.pop() if len(known) == 1 else None
