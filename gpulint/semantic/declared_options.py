"""What one call that declares an option says, as far as literals say it."""

from __future__ import annotations

import ast

from gpulint.records import dataclass
from gpulint.workspace.module_index import dotted, last_name


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """What a call declares: ``add_argument("--lr", type=float)``, and likewise of other libraries."""

    words: tuple[str, ...]
    given: dict[str | None, ast.expr]
    """Keywords; None for ``**settings``."""
    is_whole: bool
    """Whether all words are literals, and all keywords are written out."""

    def literal(self, name: str, default: object = None) -> object:
        """Return the value of a keyword, or an ellipsis where it is computed."""
        return literal(self.given.get(name), default)

    @property
    def flags(self) -> tuple[str, ...]:
        """The words that are no name of a positional argument."""
        return tuple(word for word in self.words if word.startswith("-"))

    @property
    def names(self) -> frozenset[str] | None:
        """Attributes of which one has the value of an option of ``argparse``; None where they are computed."""
        dest = self.literal("dest")
        if not self.is_whole or not (dest is None or isinstance(dest, str)):
            return None
        return frozenset({dest} if dest is not None else {word.lstrip("-").replace("-", "_") for word in self.words})

    @property
    def action(self) -> str:
        """The name of the action; empty for one that is computed, or of a class of the program."""
        action = self.literal("action", "store")
        if action is Ellipsis and last_name(self.given["action"]) == "BooleanOptionalAction":
            return "BooleanOptionalAction"
        return action if isinstance(action, str) else ""

    @property
    def kind(self) -> str:
        """The name of the type; empty where it is computed."""
        return dotted(self.given["type"]) if "type" in self.given else "str"

    @property
    def choices(self) -> tuple[object, ...] | None:
        """The values that the option may have; None where that is not said, or computed."""
        match self.given.get("choices"):
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                values = tuple(part.value for part in parts if isinstance(part, ast.Constant))
                return values if len(values) == len(parts) else None
        return None


def option_of(call: ast.Call) -> Option:
    """Return what a call declares."""
    words = tuple(part.value for part in call.args if isinstance(part, ast.Constant) and isinstance(part.value, str))
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return Option(words, given, len(words) == len(call.args) and None not in given)


def literal(node: ast.expr | None, default: object = None) -> object:
    """Return the value of a literal, or an ellipsis for another expression."""
    if node is None:
        return default
    return node.value if isinstance(node, ast.Constant) else Ellipsis
