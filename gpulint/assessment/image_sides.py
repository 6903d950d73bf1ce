"""Sides of the images that loaders give out, as far as the code around them tells, and slices of volumes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gpulint import regex
from gpulint.assessment.transform_sides import applied_side
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import loader_argument
from gpulint.workload.dataset_work import parts_of, sets_of
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_SLICES = regex.compile(r"(?<![A-Za-z])slices?(?![A-Za-z(])")
"""Words of programs whose samples are slices of volumes; not the builtin."""
_SOLID = regex.compile(r"(?<![A-Za-z0-9])3_?[dD](?![A-Za-z0-9])|[a-z]3[dD]\b|SpatialPad|RandCrop|roi_size")
"""Words of programs that train on volumes as a whole, or on blocks of them."""
_SIDE = regex.compile(
    r"(\b(Resize|CenterCrop|RandomCrop|RandomResizedCrop)\(\s*(size\s*=\s*)?[(\[]?\s*"
    r"|(image|img|input|crop|patch)_?(size|res|resolution)['\"]?\s*(,\s*type\s*=\s*int\s*,\s*default\s*)?[:=]\s*[(\[]?\s*)"
    r"(?P<side>\d{2,4})\b",
    re.IGNORECASE,
)
_SIZES = regex.compile(r"\b((Center|Random|RandomResized|RandomSized|Five|Ten)Crop|Resize)\(")
_CHAIN_ENDS = regex.compile(
    r"\b(Compose|Sequential|def|class|return|else|elif|if)\b|^[ \t]*[\w.]+[ \t]+=[ \t]", re.MULTILINE
)
"""What ends a chain of transforms, or begins another."""
_RESIZES = regex.compile(r"^(interpolate|resize|(adaptive_)?(avg|max)_pool2d|center_crop|crop)$|processor|extractor$")
"""Functions that give a batch of images another size."""
_MADE_UP = regex.compile(
    r"\b(rand|randn|zeros|ones)\(\s*(size\s*=\s*)?[(\[]?\s*\w+\s*,\s*[13]\s*,\s*(?P<side>\d{2,4})\s*,\s*(?P=side)\b"
)
"""Images that are made up, to try a network."""
MIN_SIDE, MAX_SIDE = 16, 2048
"""Sides of images that are taken for such, in pixels."""
_WORD = regex.compile(r"[A-Za-z_]\w*")
MAX_CLASSES = 3
"""Most things that a data set may be of which the kind is asked."""
VOLUME_AXES = 3
"""Axes of a volume, of which a slice has one less."""


def side(project: Project, loader: Loader) -> int:
    """The side of the images that a loader gives out, by the transforms that its data sets get or apply, else by the
    code around it, else by the modules of its data sets, else by the images that its module makes up
    (``model(torch.randn(1, 3, 64, 64))``); 0 if nothing tells, or a collate function gives batches another size."""
    if _is_sized_in_collate(project, loader):
        return 0
    own, inner = parts_of(project, loader), sets_of(project, loader)
    if given := _largest_kept("\n".join(_transforms(project, own))):
        return given
    applied = [applied_side(project, module, owner) for module, owner in classes_of(project, loader)]
    if applied and all(MIN_SIDE <= one <= MAX_SIDE for one in applied):
        return max(applied)
    if given := _largest_kept("\n".join(_transforms(project, inner))):
        return given
    near = _sides_around(loader.module, loader.node)
    if near.named:
        return near.named
    homes = dict.fromkeys(module for module, _ in classes_of(project, loader) if module is not loader.module)
    return next((found for home in homes if (found := side_of(home))), 0) or near.made_up


def _is_sized_in_collate(project: Project, loader: Loader) -> bool:
    refs = loader_argument(project, loader, "collate_fn").refs
    functions = [one for ref in refs for one in project.fact(Resolver).points_to(ref.module, ref.node)[:MAX_CLASSES]]
    return any(
        isinstance(part, ast.Call) and _RESIZES.search(last_name(part.func))
        for one in functions
        if isinstance(one.node, (*FUNCTIONS, ast.Lambda))
        for part in walk(one.node)
    )


def _transforms(project: Project, sources: list[NodeRef]) -> Iterator[str]:
    """Yield the texts of the transforms that data sets get (``ImageFolder(root, transform=cut)``)."""
    resolver = project.fact(Resolver)
    for source in sources:
        for keyword in source.node.keywords if isinstance(source.node, ast.Call) else ():
            if keyword.arg in ("transform", "transforms"):
                for made in resolver.points_to(source.module, keyword.value)[:MAX_CLASSES]:
                    if isinstance(made.node, ast.Call):
                        yield made.module.syntax.text(made.node)


def classes_of(project: Project, loader: Loader) -> list[tuple[ModuleIndex, ast.ClassDef]]:
    """The classes of a loader's data sets."""
    resolver = project.fact(Resolver)
    return [
        found
        for source in parts_of(project, loader)
        if isinstance(source.node, ast.expr)
        for found in resolver.classes_of(source.module, source.node)[:MAX_CLASSES]
    ]


def _largest_kept(text: str) -> int:
    """The largest side that a text names, without those of transforms before the last one of a chain."""
    return _largest(match for match in _SIDE.finditer(text) if not _is_sized_again(text, match))


def _is_sized_again(text: str, match: re.Match[str]) -> bool:
    """Return whether the same chain of transforms later gives another size: ``Resize(256), CenterCrop(224)``."""
    if match[2] is None:
        return False
    again = _SIZES.search(text, match.end())
    return again is not None and _CHAIN_ENDS.search(text, match.end(), again.start()) is None


def _largest(matches: Iterable[re.Match[str]]) -> int:
    found = (int(match["side"]) for match in matches)
    return max((one for one in found if MIN_SIDE <= one <= MAX_SIDE), default=0)


class _Sides(NamedTuple):
    """The largest side that a text names, and that of images which it makes up; 0 where there is none."""

    named: int
    made_up: int


def _sides_around(module: ModuleIndex, loader: ast.Call) -> _Sides:
    """Return the sides in the functions, classes and variables of a module that have to do with a loader: what its
    function names, what names its function, and so on. Those of the whole module for a loader outside of functions."""
    top = _tops(module)
    own = next((up for up in module.syntax.ancestors(loader) if up in top.words), None)
    return _sides_near(module, own if isinstance(own, (*FUNCTIONS, ast.ClassDef)) else None)


@query
def _sides_near(module: ModuleIndex, own: ast.stmt | None) -> _Sides:
    text = _text_near(module, own) if own is not None else module.syntax.source.text
    return _Sides(_largest_kept(text), _largest(_MADE_UP.finditer(text)))


def _text_near(module: ModuleIndex, own: ast.stmt) -> str:
    top = _tops(module)
    near: set[ast.stmt] = {own, *(part for part in top.words if isinstance(part, ast.If | ast.Expr))}
    todo: list[ast.stmt] = [own]
    while todo:
        part = todo.pop()
        found = [other for name in top.words[part] for other in top.bound.get(name, ())]
        if isinstance(part, (*FUNCTIONS, ast.ClassDef)):
            found += top.users.get(part.name, ())
        todo += (other for other in found if other not in near)
        near.update(found)
    return "\n".join(module.syntax.text(part) for part in module.syntax.tree.body if part in near)


class _Tops(NamedTuple):
    """The statements of a module's top with the words of each, by the names that they bind, and by those of the
    functions and classes that they name."""

    words: dict[ast.stmt, frozenset[str]]
    bound: dict[str, list[ast.stmt]]
    users: dict[str, list[ast.stmt]]


@query
def _tops(module: ModuleIndex) -> _Tops:
    words = {part: frozenset(_WORD.findall(module.syntax.text(part))) for part in module.syntax.tree.body}
    bound, users = dict[str, list[ast.stmt]](), dict[str, list[ast.stmt]]()
    for part in words:
        for name in _bound_by(part):
            bound.setdefault(name, []).append(part)
    own = {part.name for part in words if isinstance(part, (*FUNCTIONS, ast.ClassDef))}
    for part, named in words.items():
        for name in named & own:
            users.setdefault(name, []).append(part)
    return _Tops(words, bound, users)


def _bound_by(part: ast.stmt) -> frozenset[str]:
    """The names that a statement of a module's top binds."""
    if isinstance(part, (*FUNCTIONS, ast.ClassDef)):
        return frozenset({part.name})
    if isinstance(part, ast.Import | ast.ImportFrom):
        return frozenset()
    stored = (node for node in walk(part) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return frozenset(node.id for node in stored)


@query
def side_of(module: ModuleIndex) -> int:
    """The largest side that images are scaled or cut to in a module; 0 if it names none."""
    return _largest_kept(module.syntax.source.text)


def takes_slices(project: Project, loader: Loader) -> bool:
    """Return whether the samples of a loader are slices of volumes (``volume[:, :, index]``)."""
    return any(
        _cuts_slice(module, owner) or _is_about_slices(module.syntax.text(owner))
        for module, owner in classes_of(project, loader)
    ) or _speaks_of_slices(loader.module)


@query
def _cuts_slice(_module: ModuleIndex, owner: ast.ClassDef) -> bool:
    getter = next((part for part in owner.body if getattr(part, "name", "") == "__getitem__"), None)
    cuts = (part.slice for part in walk(getter) if isinstance(part, ast.Subscript)) if getter is not None else ()
    return any(
        isinstance(cut, ast.Tuple)
        and (len(cut.elts) >= VOLUME_AXES or any(map(_is_ellipsis, cut.elts)))
        and sum(isinstance(one, ast.Slice) or _is_ellipsis(one) for one in cut.elts) == len(cut.elts) - 1
        and any(_is_index(one) or (_is_new_axis(one) and len(cut.elts) == VOLUME_AXES) for one in cut.elts)
        for cut in cuts
    )


def _is_index(part: ast.expr) -> bool:
    computed = isinstance(part, ast.Name | ast.Attribute | ast.BinOp | ast.Call | ast.Subscript)
    return computed and not _is_new_axis(part)


def _is_new_axis(part: ast.expr) -> bool:
    """``image[np.newaxis, :, :]`` has two axes without it."""
    return last_name(part) == "newaxis"


def _is_ellipsis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is ...


@query
def _speaks_of_slices(module: ModuleIndex) -> bool:
    return _is_about_slices(module.syntax.source.text)


def _is_about_slices(text: str) -> bool:
    return regex.occurs(_SLICES, text) and not regex.occurs(_SOLID, text)
