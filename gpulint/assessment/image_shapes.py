"""What is known of an image on its way from the file to the sample."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project


@dataclass(frozen=True, slots=True)
class Image:
    """Pixels, numbers of a pixel and bytes of a number, each 0 where unknown; ``loaded`` if it is an image of Pillow,
    which no batch can hold."""

    height: int = 0
    width: int = 0
    channels: int = 0
    item: int = 0
    loaded: bool = False

    @property
    def bytes(self) -> int:
        """Its bytes as a tensor; 0 if something is unknown."""
        return 0 if self.loaded else self.height * self.width * self.channels * self.item

    def sized(self, size: tuple[int, int] | None) -> Image:
        """The same image in another size; of unknown size for None."""
        height, width = size or (0, 0)
        return dataclasses.replace(self, height=height, width=width)

    def of_numbers(self, item: int) -> Image:
        """The same as a tensor or an array, of numbers with so many bytes."""
        return dataclasses.replace(self, item=item, loaded=False)


def number(project: Project, module: ModuleIndex, node: ast.expr | None) -> int:
    """The only number that an expression may be; 0 if that is not known."""
    known = project.fact(Constants).of(module, node) if node is not None else None
    if known is None or not known.complete:
        return 0
    found = set(known.constants)
    value = found.pop() if len(found) == 1 else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def pair(project: Project, module: ModuleIndex, node: ast.expr | None) -> tuple[int, int] | None:
    """Two numbers, as written (``(224, 224)``, ``[size, size]``) or in a variable; None if they are not known."""
    if isinstance(node, ast.Name | ast.Attribute):
        made = project.fact(Resolver).points_to(module, node)
        if len(made) != 1 or made[0].path or not isinstance(made[0].node, ast.Tuple | ast.List):
            return None
        module, node = made[0].module, made[0].node
    if not isinstance(node, ast.Tuple | ast.List) or len(node.elts) != len(("height", "width")):
        return None
    first, second = (number(project, module, part) for part in node.elts)
    return (first, second) if first and second else None


def square(project: Project, module: ModuleIndex, node: ast.expr | None) -> tuple[int, int] | None:
    """The same of one number, for both."""
    side = number(project, module, node)
    return pair(project, module, node) or ((side, side) if side else None)
