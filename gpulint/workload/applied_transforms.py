"""Transforms of images that a data set applies to each item, as far as what it is given says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

_HEAVY = regex.compile(
    r"^(torchvision\.transforms|albumentations|imgaug\.augmenters)\.(\w+\.)*(ColorJitter|ColorJiggle|GaussianBlur"
    r"|MotionBlur|MedianBlur|RandomPerspective|Perspective|RandomAffine|Affine|ShiftScaleRotate|RandomRotation|Rotate|SafeRotate"
    r"|ElasticTransform|GridDistortion|OpticalDistortion|RandomResizedCrop|RandAugment|AutoAugment|TrivialAugmentWide"
    r"|AugMix|CLAHE|PiecewiseAffine)$"
)
"""Transforms that compute every pixel anew, or in several passes over the image."""
_IN_PLACE = regex.compile(r"(ColorJitter|ColorJiggle|\w*Blur|CLAHE)$")
"""Those that leave each pixel where it is."""
_JOINS = frozenset("Compose RandomApply RandomChoice RandomOrder OneOf SomeOf Sequential Sometimes".split())
"""What puts transforms together."""


def computes_anew(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether what is called is a transform with work for every pixel (``self.transform(image)``)."""
    return bool(_heavy(project, module, call))


def moves_pixels(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether what is called is a transform that computes pixels from those of other places: ``Affine``, not
    ``ColorJitter``."""
    return not all(map(_IN_PLACE.search, _heavy(project, module, call)))


def is_given_heavy(project: Project, made: NodeRef) -> bool:
    """Return whether the call that makes a data set of a library gives it a transform with work for every pixel
    (``EMNIST(root, transform=Compose([RandomAffine(10), ToTensor()]))``)."""
    given = keyword_value(made.node, "transform") if isinstance(made.node, ast.Call) else None
    return given is not None and bool(_heavy_of(project, made.module, given))


def _heavy(project: Project, module: ModuleIndex, call: ast.Call) -> list[str]:
    """Return the names of the transforms with work for every pixel in what is called."""
    return _heavy_of(project, module, call.func)


def _heavy_of(project: Project, module: ModuleIndex, transform: ast.expr) -> list[str]:
    resolver = project.fact(Resolver)
    found = [ref for ref in resolver.points_to(module, transform) if isinstance(ref.node, ast.Call) and not ref.path]
    return [
        name
        for ref in found
        for part in _parts(project, ref, 4)
        if isinstance(part.node, ast.Call)
        for name in sorted(resolver.call_names(part.module, part.node))
        if _HEAVY.match(name)
    ]


def _parts(project: Project, made: NodeRef, depth: int) -> Iterator[NodeRef]:
    """Yield a transform and those that it puts together."""
    assert isinstance(made.node, ast.Call)
    yield made
    resolver = project.fact(Resolver)
    names = {name.rpartition(".")[2] for name in resolver.call_names(made.module, made.node)}
    if not depth or names.isdisjoint(_JOINS):
        return
    for argument in made.node.args[:1]:
        for held in resolver.points_to(made.module, argument):
            for part in held.node.elts if isinstance(held.node, ast.List | ast.Tuple) else ():
                for ref in resolver.points_to(held.module, part):
                    if isinstance(ref.node, ast.Call) and not ref.path:
                        yield from _parts(project, ref, depth - 1)
