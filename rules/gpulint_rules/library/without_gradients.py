"""Programs that take no gradients: anomaly detection checks backward passes, and costs such a program nothing."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.gpu_libraries import OPAQUE, Libraries
from gpulint.programs.multi_gpu_use import MAX_MODULES, MultiGpuUse
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name
from gpulint_rules.library.cudnn_layers import MAX_PROGRAMS, programs_of

if TYPE_CHECKING:
    from gpulint.project import Project

_BACKWARD = r"(manual_)?backward|grad|jacrev|jacfwd|jacobian|hessian|vjp|vhp|hvp|value_and_grad|grad_and_value"
"""Calls that take gradients."""
_MAY_TAKE = (
    r"\w*_?[Tt]rain(?!able)\w*|fit(?!_(transform|predict))\w*|learn\w*|fine_?tune\w*|[Ff]inetune\w*|optimi[sz]e\w*|minimi[sz]e\w*|run\w*|main|cli|CLI"
    r"|step|attack\w*|attribute\w*|explain\w*|invert\w*|distill\w*|((loss|grad|amp|[Nn]ative|Grad)_?)?[Ss]caler|\w*(Runner|Engine|Learner|Solver|Agent|Experiment)|solve\w*"
)
"""Calls that take gradients if they are those of libraries which their names suggest."""
_CALLS = regex.compile(rf"(?P<certain>{_BACKWARD})|{_MAY_TAKE}")
_WORDS = regex.compile(rf"\b({_BACKWARD}|{_MAY_TAKE})\s{{0,4}}\(")
_PLAIN = frozenset({"torch", "torchvision", "torchaudio", "torchmetrics"})
"""GPU libraries that take no gradients but in calls of these names."""
_SETS_UP = regex.compile(
    r"set\w*|use_\w+|manual_seed\w*|seed\w*|\w*filter\w*|append|insert|basicConfig|register\w*|detect_anomaly"
)
"""Calls at the top of modules that are no programs."""


def takes_none(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether nothing in the files of the programs that run a place takes gradients, or may do so by its
    name."""
    programs = programs_of(project, module, node)
    return 0 < len(programs) <= MAX_PROGRAMS and not any(_may_differentiate(project, path) for path in programs)


def is_known_to_take_none(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether such programs run nothing but their own files, and functions of libraries that are known."""
    return takes_none(project, module, node) and all(
        not program.loads_by_name and not program.mentions(OPAQUE) and program.imports_only(_PLAIN)
        for program in map(project.fact(MultiGpuUse).of, programs_of(project, module, node))
    )


@query
def _may_differentiate(project: Project, path: Path) -> bool:
    module = project.module_at(path) if path.suffix == ".py" else None
    if module is None or not _is_program(project, module):
        return True
    program = project.fact(MultiGpuUse).of(path)
    if len(program.paths) >= MAX_MODULES:
        return True
    found = program.modules_where(lambda _, one: project.matches(one, _WORDS))
    return any(_calls_one(project, part) for part in found)


@query
def _calls_one(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module takes gradients, or calls what may do so outside of the tree."""
    for name, calls in module.calls_by_name.items():
        match = _CALLS.fullmatch(name)
        if match is not None and any(match["certain"] or not _is_known(project, module, call) for call in calls):
            return True
    return False


def _is_known(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is of a function of the tree, which is looked at itself, sets a mode
    (``model.train(False)``), or is of a library that takes no gradients."""
    if last_name(call.func) == "train" and [ast.unparse(one) for one in call.args] == ["False"]:
        return True
    resolver, libraries = project.fact(Resolver), project.models.derived(Libraries)
    if any(isinstance(callee.node, FUNCTIONS) for callee in resolver.callees(module, call)):
        return True
    names = set(resolver.call_names(module, call))
    if isinstance(call.func, ast.Attribute):
        for ref in resolver.points_to(module, call.func.value):
            if isinstance(ref.node, ast.Call):
                names |= set(resolver.call_names(ref.module, ref.node))
    return any("." in name and name.partition(".")[0] in libraries.no_gpu | _STANDARD for name in names)


_STANDARD = frozenset({"subprocess", "asyncio", "unittest", "os"})
"""Modules of Python with functions of such names."""


@query
def _is_program(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module is started, by a job or by what it does when it is: others may import a library."""
    if "__main__" in module.syntax.source.text or any(project.fact(JobIndex).launches_of(module.path)):
        return True
    return any(
        isinstance(part, ast.For | ast.While | ast.With)
        or (
            isinstance(part, ast.Expr)
            and isinstance(part.value, ast.Call)
            and _SETS_UP.fullmatch(last_name(part.value.func)) is None
        )
        for part in module.syntax.tree.body
    )
