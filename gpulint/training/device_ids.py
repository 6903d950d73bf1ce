"""Which devices a wrapper is told to use, through constructors and their callers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import passed_as
from gpulint.semantic.points_to import Resolver

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


def all_name_one(project: Project, module: ModuleIndex, wrapper: ast.Call, position: int) -> bool:
    """Return whether ``device_ids`` is a list of one device, whichever that is, by its default and for all callers that
    pass it on (``gpu_ids=[args.local_rank]``)."""
    given = passed_as(wrapper, "device_ids", position)
    if given is None:
        return False
    origins = project.fact(Resolver).points_to(module, given)
    return bool(origins) and all(
        not one.path
        and isinstance(one.node, ast.List | ast.Tuple)
        and len(one.node.elts) == 1
        and not isinstance(one.node.elts[0], ast.Starred)
        for one in origins
    )
