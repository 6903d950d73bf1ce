"""Pipelines of transformers that a loop calls for one sample after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.programs.package_lists import requires
from gpulint.semantic.points_to import Resolver
from gpulint.training.bounded_loops import reads_few_batches
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_PIPELINES = frozenset({"transformers.pipeline", "transformers.pipelines.pipeline"})
_CHOOSES_GPU = (4, 48)
"""From this release on, a pipeline without ``device`` takes the GPU that there is; earlier ones stay on the CPU."""
_SEVERAL = regex.compile(r"batch|chunk|group")
"""Names of what holds several samples."""
_TIMERS = frozenset({"time", "perf_counter", "synchronize", "Event"})
_ASKS = "input"
"""A person reads each answer."""
_FOLLOWED = 3
"""Assignments from one name to the next that are followed."""


def single_samples(project: Project, module: ModuleIndex) -> Iterator[tuple[ast.Call, NodeRef]]:
    """Calls of pipelines in a module that get one sample of a data set each, with what holds the samples."""
    if "transformers" not in module.packages and "pipeline" not in module.calls_by_name:
        return
    for call in module.calls:
        if not call.args or _sets_batches(call) or not isinstance(call.func, ast.Name):
            continue
        made = _made(project, module, call.func)
        if not made or any(map(_sets_batches, made)) or _stays_on_cpu(project, module, made):
            continue
        for loop, given in loops_around(project, module, call):
            if gives_one(project, loop, given) and not any(one in set(walk(loop.node)) for one in made):
                assert isinstance(loop.node, ast.For)
                yield call, NodeRef(loop.module, loop.node.iter)
                break


def _sets_batches(call: ast.Call) -> bool:
    return any(keyword.arg in ("batch_size", None) for keyword in call.keywords)


def _made(project: Project, module: ModuleIndex, func: ast.expr) -> list[ast.Call]:
    """The calls that made a pipeline; none if it may be anything else."""
    origins = list(project.fact(Resolver).points_to(module, func))
    made = [
        origin.node
        for origin in origins
        if isinstance(origin.node, ast.Call)
        and project.fact(Resolver).call_names(origin.module, origin.node) & _PIPELINES
    ]
    return made if len(made) == len(origins) else []


def _stays_on_cpu(project: Project, module: ModuleIndex, made: list[ast.Call]) -> bool:
    """Return whether a pipeline may run on the CPU: it is given the name of a model and no device, and the program may
    have a release of transformers that does not choose the GPU by itself."""
    return all(map(_names_no_device, made)) and not requires(project, module.path, ("transformers",), _CHOOSES_GPU)


def _names_no_device(made: ast.Call) -> bool:
    keywords = {keyword.arg: keyword.value for keyword in made.keywords}
    model = keywords.get("model", made.args[1] if len(made.args) > 1 else None)
    named = model is None or isinstance(model, ast.Constant) or "path" in last_name(model) or "name" in last_name(model)
    return named and keywords.keys().isdisjoint({"device", "device_map", "framework", None})


def loops_around(project: Project, module: ModuleIndex, call: ast.Call) -> Iterator[tuple[NodeRef, ast.Call]]:
    """The innermost loops around a call, or around the calls of its function, with what is called in them."""
    loop = next(project.fact(LoopContexts).around(module, call), None)
    if loop is not None:
        yield NodeRef(module, loop), call
        return
    function = module.function(call)
    for site in project.fact(Resolver).call_sites(module, function) if function is not None else ():
        loop = next(project.fact(LoopContexts).around(site.module, site.node), None)
        if loop is not None and isinstance(site.node, ast.Call):
            yield NodeRef(site.module, loop), site.node


def gives_one(project: Project, where: NodeRef, call: ast.Call) -> bool:
    """Return whether a loop passes over many samples and gives each to a call by itself."""
    loop = where.node
    if not isinstance(loop, ast.For) or reads_few_batches(project, where):
        return False
    source = unwrap_iterable(loop.iter)
    if isinstance(source, ast.List | ast.Tuple | ast.Dict | ast.Constant) or _SEVERAL.search(ast.unparse(loop.iter)):
        return False
    if isinstance(source, ast.Call) and last_name(source.func) == "range" and len(source.args) > 2:
        return False
    parts = walk(loop)
    if any(isinstance(part, ast.Call) and last_name(part.func) in {*_TIMERS, _ASKS} for part in parts):
        return False  # which measures how long one sample takes, or shows each
    names = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    for _ in range(_FOLLOWED):
        names |= {
            target.id
            for part in parts
            if isinstance(part, ast.Assign)
            and not _holds_several(part.value)
            and names & {name.id for name in walk(part.value) if isinstance(name, ast.Name)}
            for target in _elements(part.targets[0])
            if isinstance(target, ast.Name)
        }
    return not any(map(_SEVERAL.search, names)) and any(
        not _holds_several(given) and names & {part.id for part in walk(given) if isinstance(part, ast.Name)}
        for given in (*call.args, *(keyword.value for keyword in call.keywords))
    )


def _elements(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def _holds_several(value: ast.expr) -> bool:
    """``texts[i : i + n]``, ``[clean(text) for text in row]``."""
    return any(isinstance(part, ast.Slice | ast.ListComp | ast.GeneratorExp) for part in walk(value))
