"""Steps that draw samples from a diffusion model, which runs it tens of times: loading and waits cost little beside."""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.slow_steps import always_reaches
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workload.item_work import ItemWorks
from gpulint.workspace.module_index import LOOPS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.training.loop_contexts import LoopContext

LEAST_STEPS = 8
"""Fewer steps of a sampler, as distilled models take, make no step long (assumed)."""
_CHAINS = regex.compile(
    r"^(p|ddim|plms|dpm|edm|heun|euler)_?sample(r?_loop|r)(_progressive)?$|^sample_(euler|heun|dpm|lms|ddim)\w*$"
    r"|^reverse_diffusion$",
    re.IGNORECASE,
)
"""Functions that go through all steps of a sampler: ``p_sample_loop``."""
_ONE_STEP = frozenset({"p_sample", "ddim_sample", "p_sample_ddim", "p_sample_plms"})
"""Functions of which a sampler calls one for each step."""
_SAMPLERS = regex.compile(r"(^|_)(ddim|ddpm|plms|dpm|dpm_?solver|diffusion|edm)(_|$|sampler|model)", re.IGNORECASE)
"""Names of what samples with a diffusion model."""
_SAMPLE = frozenset({"sample", "sampling"})
_OPTIONS = frozenset(
    "S x_T conditioning unconditional_conditioning unconditional_guidance_scale ddim_steps sampling_steps cfg_scale"
    " num_inference_steps num_sampling_steps guidance_scale".split()
)
"""Arguments of samplers of diffusion models, and of nothing else that is called ``sample``."""
_COUNTS = ("num_inference_steps", "num_sampling_steps", "sampling_steps", "ddim_steps", "steps", "S")
_STILL_LARGE = frozenset({"video", "volume"})
"""Samples that take seconds to decode, as a sampler does."""


def loads_beside_sampling(subject: Subject) -> bool:
    """Return whether each step that draws the batches of a loader, of no videos or volumes, also draws samples from a
    diffusion model."""
    loader, project = subject.cost.loader if subject.cost is not None else None, subject.project
    if loader is None or _STILL_LARGE.intersection(project.fact(ItemWorks).of(loader).kinds):
        return False
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    return bool(reads) and all(
        isinstance(read.where.node, LOOPS) and _draws_samples(project, read.where) for read in reads
    )


def waits_beside_sampling(subject: Subject) -> bool:
    """Return whether each step around a place also draws samples from a diffusion model, in steps that the place is
    none of."""
    steps = [context for context in subject.contexts if context.role is Role.STEP]
    module, node = subject.module, subject.node
    if not steps or module is None or node is None or any(context.calls for context in steps):
        return False
    return all(
        _draws_samples(subject.project, context.loop) and not _is_in_sampler(subject.project, module, node, context)
        for context in steps
    )


def _is_in_sampler(project: Project, module: ModuleIndex, node: ast.AST, context: LoopContext) -> bool:
    """Return whether a place is in an inner loop that goes through the steps of a sampler, or calls one."""
    inner = takewhile(lambda up: up is not context.loop.node, module.syntax.ancestors(node))
    return any(
        _samples(project, module, up) or _draws_samples(project, NodeRef(module, up))
        for up in inner
        if isinstance(up, LOOPS)
    )


@query
def _draws_samples(project: Project, loop: NodeRef) -> bool:
    return always_reaches(project, loop, lambda module, part: _samples(project, module, part))


def _samples(project: Project, module: ModuleIndex, part: ast.AST) -> bool:
    """Return whether a call or a loop goes through the steps of a sampler."""
    if isinstance(part, ast.For):
        return _goes_through_timesteps(part)
    if not isinstance(part, ast.Call):
        return False
    name, options = last_name(part.func), {word.arg for word in part.keywords}
    if _CHAINS.search(name):
        found = name not in _ONE_STEP
    elif name in _SAMPLE and isinstance(part.func, ast.Attribute):
        found = bool(options & _OPTIONS) or _SAMPLERS.search(last_name(part.func.value)) is not None
    else:
        found = "num_inference_steps" in options and name != "set_timesteps"
    return found and not _takes_few(project, module, part)


def _takes_few(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a sampler is known to take few steps (``num_inference_steps=1``)."""
    counts = [word.value for word in call.keywords if word.arg in _COUNTS]
    return any(
        project.fact(Constants).of(module, count).any(lambda value: isinstance(value, int) and value < LEAST_STEPS)
        for count in counts
    )


def _goes_through_timesteps(loop: ast.For) -> bool:
    """``for t in scheduler.timesteps`` with a step of the scheduler, as in a pipeline of diffusers, and
    ``for i in reversed(range(steps))`` with ``p_sample``"""
    calls = [part for part in walk(loop) if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)]
    if any(last_name(call.func) in _ONE_STEP for call in calls):
        return True
    source = unwrap_iterable(loop.iter)
    return last_name(source) == "timesteps" and any(
        last_name(call.func) == "step" and "scheduler" in ast.unparse(call.func).lower() for call in calls
    )
