"""What the functions and data sets behind an evaluation loader do with the size of its batches."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.host_to_device import HostToDevice
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.workload.batch_sources import BatchSource
from gpulint.workspace.module_index import FUNCTIONS, last_name

_LOADER = regex.compile(r"[Ll]oader|Iterator$|[Bb]ucket")
_VARIED = regex.compile(
    r"coco|detect|voc|bbox|boxes|keypoint|speech|audio|text|sentence|token|graph|point_?cloud", re.IGNORECASE
)
"""Names of data sets whose samples differ in size."""
_BOUND = ("mxnet.io.", "mxnet.image.", "mxnet.rnn.")
"""Iterators for programs that MXNet binds to the shape of a batch."""


def bound_to_size(project: Project, source: BatchSource) -> str | None:
    """Return why another size costs memory or time: the library binds its program, gradients included, to the shape of
    the training batches, and binds it anew for another one."""
    names = project.fact(Resolver).call_names(source.call.module, source.node)
    if not any(name.startswith(_BOUND) for name in names):
        return None
    return "MXNet binds its module to the shape of the training batches, and anew for each other one"


def shaped_by_size(project: Project, source: BatchSource) -> str | None:
    """Return why another size would do nothing, or change the data: the function that gets it makes no loader; None
    where nothing says so."""
    module, call = source.call.module, source.node
    for callee in project.fact(Resolver).callees(module, call):
        function = callee.node
        if not isinstance(function, FUNCTIONS) or isinstance(function, ast.Lambda):
            continue
        if any(isinstance(part, ast.Call) and _LOADER.search(last_name(part.func)) for part in walk(function)):
            continue
        return f"`{function.name}` makes no loader, and what the size does to its data and its result is unknown"
    return None


def stacked_alone(project: Project, source: BatchSource, size: int) -> str | None:
    """Return why only batches of one sample may work: without a function that collates them, samples of different
    sizes cannot be stacked. None where training stacks them already, or nothing says that they differ."""
    if size > 1:
        return None
    for loader in project.fact(LoaderFlow).loaders_of(source.call.module, source.node):
        if loader_argument(project, loader, "collate_fn").refs:
            continue
        for data in project.fact(HostToDevice).sources(loader):
            assert isinstance(data.node, ast.expr)
            owners = project.fact(Resolver).classes_of(data.module, data.node)
            names = {owner.name for _, owner in owners} | {
                last_name(ref.node.func)
                for ref in project.fact(Resolver).points_to(data.module, data.node)
                if isinstance(ref.node, ast.Call)
            }
            if any(_VARIED.search(name) for name in names):
                return "the loader has no `collate_fn`, and samples of different sizes cannot be stacked into a batch"
    return None
