"""Pipelines of ``tf.data`` that a function begins, for callers that go on with them."""

from __future__ import annotations

import ast

from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef


def others_prefetch(project: Project, reader: ModuleIndex, last: NodeRef) -> bool:
    """Return whether the last call of a pipeline is in a function of another file, and callers in further files go on
    with what it returns and prefetch that: a ``prefetch`` in the function would come before their maps and caches."""
    function = last.module.function(last.node)
    if last.module is reader or function is None or isinstance(function, ast.Lambda):
        return False
    sites = project.fact(Resolver).call_sites(last.module, function)
    return any(_prefetches(site) for site in sites if site.module not in (reader, last.module))


def _prefetches(site: NodeRef) -> bool:
    """Return whether the function around a call prefetches a pipeline."""
    module, around = site.module, site.module.function(site.node)
    return any(module.function(call) is around for call in module.calls_by_name.get("prefetch", ()))
