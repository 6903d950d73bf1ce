"""Which release of PyTorch a program is written for, as its documentation and its own code say where no list of
packages does."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.numerals import whole
from gpulint.programs.old_idioms import with_old_idioms
from gpulint.programs.package_lists import Release, is_too_old, may_be_too_old, requires
from gpulint.query import query
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

_PACKAGES = ("torch", "pytorch")
_TEXTS = regex.compile(r"(README|INSTALL|REQUIREMENTS)(\.(md|rst|txt))?", re.IGNORECASE)
_ITEM = regex.compile(
    r"^[ \t]{0,9}([-*+•|]|\d{1,2}[.)])[ \t|*`_\[]{0,9}((install|requires?|tested (with|on))[ \t][*`_\[]{0,3})?"
    r"(py)?torch\b[\]*`_ \t|:]{0,9}(\(https?://[^()\s]{1,200}\))?[*`_ \t|(]{0,9}"
    r"(?P<how>==|>=|=|≥|>|version|v)?[*`_ \t]{0,4}v?(?P<release>\d{1,4}\.\d{1,4})(\.(\d{1,4}|x))?[*`_]{0,4}"
    r"[ \t]{0,4}(?P<more>\+|or (newer|later|higher|above)|and (newer|later|above)|(up|on)wards?)?",
    re.IGNORECASE | re.MULTILINE,
)
"""An item of a list of requirements: ``- PyTorch 1.0``, ``* **pytorch** >= 1.1``, ``- [PyTorch](https://...) 1.2+``,
``6. Install [PyTorch 1.0]``."""
_LINE = regex.compile(
    r"^[ \t]{0,9}(py)?torch[ \t]{0,4}(:|==?|[ \t])[ \t]{0,4}v?(?P<release>\d{1,4}\.\d{1,4})(\.(\d{1,4}|x))?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that says nothing else: ``torch: 1.5.0``."""
_SENTENCE = regex.compile(
    r"\b(py)?torch[ \t]{0,4}\(v?(?P<release>\d{1,4}\.\d{1,4})(\.(\d{1,4}|x))?\)[ \t](re-?)?implementation\b",
    re.IGNORECASE,
)
"""What a program is: ``a PyTorch(0.4.0) implementation of``."""
_VOLATILE = regex.compile(r"\bvolatile\s*=\s*True\b")
_SINCE_1_9 = regex.compile(
    r"\btorch\.(compile|inference_mode|autocast|amp\.(autocast|GradScaler)|set_float32_matmul_precision|mps|vmap|func)\b"
    r"|\bbackends\.mps\b|\bscaled_dot_product_attention\b|\bweights_only\s*=|\btransforms\.v2\b|_Weights\b"
    r"|\bweights\s*=\s*[\"'](DEFAULT|IMAGENET1K)|\btorch\.distributed\.(fsdp|_composable)\b|\|\s*None\b"
)
"""What programs have that are written for PyTorch 1.9 or newer, or for Python 3.10."""
LASTING_WORKERS: Release = (1, 7)
"""The first release with ``persistent_workers``."""
SEEDED_NUMPY: Release = (1, 9)
"""The first release that seeds NumPy in each worker."""
_INDEXED_NUMBERS: Release = (1, 0)
"""The first release in which a tensor without dimensions has no element 0."""
_LAST_NEXT: Release = (1, 13)
"""The first release whose loaders' iterators have no method ``next``."""


def predates(project: Project, module: ModuleIndex, since: Release) -> str:
    """Return what says that a program runs with an older release of PyTorch than ``since``; empty if nothing does."""
    if bound := is_too_old(project, module.path, _PACKAGES, since):
        return f"the program is installed with `{bound}`"
    if _is_settled(project, module.path, since):
        return ""
    where, release, at_least = _stated(project, module.path)
    if release:
        return f"{where} says PyTorch {_shown(release)}" if release < since and not at_least else ""
    line = _reads_number_of_data(module) if since > _INDEXED_NUMBERS else 0
    return f"line {line} indexes the `.data` of a number, which only PyTorch before 1.0 allows" if line else ""


def may_predate(project: Project, module: ModuleIndex, since: Release) -> str:
    """Return what allows that a program runs with an older release of PyTorch than ``since``, or says that it does;
    empty if nothing speaks of releases."""
    if reason := predates(project, module, since):
        return reason
    if may_be_too_old(project, module.path, _PACKAGES, since):
        return "its list of packages allows older releases"
    if _is_settled(project, module.path, since):
        return ""
    where, release, _ = _stated(project, module.path)
    if release:
        return f"{where} says PyTorch {_shown(release)}" if release < since else ""
    if since <= _LAST_NEXT and _has_old_code(module):
        return "the program is written for PyTorch before 1.13"
    return "" if _has_new_code(project, module) else with_old_idioms(project, module, since)


def may_leave_numpy_unseeded(project: Project, module: ModuleIndex) -> bool:
    """Return whether a program may run with a release of PyTorch that seeds no NumPy in workers: nothing says which one
    it has, and nothing in its module or those that this imports is newer."""
    if may_predate(project, module, SEEDED_NUMPY):
        return True
    if _is_settled(project, module.path, SEEDED_NUMPY) or _stated(project, module.path)[1]:
        return False
    return not _has_new_code(project, module)


@query
def _has_new_code(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module or one that it imports is for PyTorch 1.9 or newer."""
    paths = (module.path, *sorted(project.imported(module.path)))
    return any(project.matches(path, _SINCE_1_9) for path in paths)


def _is_settled(project: Project, path: Path, since: Release) -> bool:
    return requires(project, path, _PACKAGES, since)


def _shown(release: Release) -> str:
    return ".".join(map(str, release))


def _stated(project: Project, path: Path) -> tuple[str, Release, bool]:
    """Return where the documentation nearest to a program names a release of PyTorch, the release, and whether newer
    ones do as well."""
    for folder in path.parents:
        found = _stated_in(project, folder)
        if found[1] or folder == project.root:
            return found
    return "", (), False


@query
def _stated_in(project: Project, folder: Path) -> tuple[str, Release, bool]:
    for name in sorted(project.entries(folder)):
        if not _TEXTS.fullmatch(name) or not project.is_file(folder / name):
            continue
        text = project.data(folder / name).decode("utf-8", "replace")
        matches = [*_ITEM.finditer(text), *_LINE.finditer(text), *_SENTENCE.finditer(text)]
        found = [(tuple(whole(part) or 0 for part in match["release"].split(".")), match) for match in matches]
        if found:
            release, match = max(found, key=lambda one: one[0])
            line = text.count("\n", 0, match.start("release")) + 1
            where = f"{(folder / name).relative_to(project.root).as_posix()}:{line}"
            return (
                where,
                release,
                "how" in match.groupdict() and (match["how"] in (">=", "≥", ">") or bool(match["more"])),
            )
    return "", (), False


@query
def _reads_number_of_data(module: ModuleIndex) -> int:
    """Return the first line that reads ``loss.data[0]`` of a tensor without dimensions: one that ``backward()`` is
    called on, or a mean or sum. 0 if there is none."""
    losses = {
        (module.function(call), call.func.value.id)
        for call in module.calls_by_name.get("backward", ())
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and not call.args
    }
    for part in module.syntax.of(ast.Subscript):
        match part:
            case ast.Subscript(value=ast.Attribute(value=value, attr="data"), slice=ast.Constant(value=0)):
                pass
            case _:
                continue
        match value:
            case ast.Name(id=name) if (module.function(part), name) in losses:
                return part.lineno
            case ast.Call(func=ast.Attribute(attr="mean" | "sum"), args=[], keywords=[]):
                return part.lineno
    return 0


@query
def _has_old_code(module: ModuleIndex) -> bool:
    """Return whether a module takes the next batch with a method that the iterators of loaders have lost
    (``batches.next()``), or has variables without gradients of PyTorch before 0.4."""
    if "torch" not in module.packages:
        return False
    if _VOLATILE.search(module.syntax.source.text):
        return True
    return any(
        isinstance(call.func, ast.Attribute) and not call.args and _is_iterator(module, call.func.value)
        for call in module.calls_by_name.get("next", ())
    )


def _is_iterator(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is ``iter(loader)``, as it is or by the name of a variable."""
    match node:
        case ast.Call():
            return last_name(node.func) == "iter" and len(node.args) == 1
        case ast.Name(id=name):
            bound = reaching(module, module.scope(node).lookup(name), node)
            return any(isinstance(one.value, ast.Call) and _is_iterator(module, one.value) for one in bound)
    return False
