"""Programs that load a trained model and run it, and update no weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, dotted

if TYPE_CHECKING:
    from gpulint.project import Project

_LOADS = regex.compile(r"torch\.load\(|jit\.load\(|load_state_dict\(|load_from_checkpoint\(|from_pretrained\(")
_LOADERS = ("load_state_dict", "load_from_checkpoint", "from_pretrained")
_TRAINS = regex.compile(
    r"[Oo]ptim(?!i[sz]ed)|\.(step|fit|minimize|zero_grad)\(|Trainer\(|GradientTape|value_and_grad"
    r"|(?<!def )\b(?P<called>train(_\w+)?)\((?!False)"
)
"""What trains. Without an optimizer, gradients are those of inputs, as an attack takes them."""
_COMMENT = regex.compile(r"(?:^|(?<=\s))#.*")


@query
def only_runs_trained_models(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module is a program that loads a trained model, and neither it nor a function that it calls
    takes a training step."""
    text = module.syntax.source.text
    if not _LOADS.search(text) or _names_training(module, text) or any(project.fact(GpuPrograms).users(module.path)):
        return False
    if "__main__" not in text and not any(project.fact(JobIndex).launches_of(module.path)) and not _is_script(module):
        return False
    return not any(
        isinstance(callee.node, FUNCTIONS) and _steps(project, callee.module, callee.node)
        for call in module.calls
        for callee in project.fact(Resolver).callees(module, call)
    )


def _names_training(module: ModuleIndex, text: str) -> bool:
    """Return whether the words of a program say that it trains. What it calls ``train`` itself and calls by this name
    is judged by what it does."""
    own = {function.name for function in module.functions if module.class_of(function) is None}
    return any(match["called"] not in own for match in _TRAINS.finditer(_COMMENT.sub("", text)))


def _is_script(module: ModuleIndex) -> bool:
    """Return whether a module loads weights outside of all functions."""
    calls = [call for name in _LOADERS for call in module.calls_by_name.get(name, ())]
    calls += [call for call in module.calls_by_name.get("load", ()) if dotted(call.func) == "torch.jit.load"]
    return any(module.function(call) is None for call in calls)


def _steps(project: Project, module: ModuleIndex, function: object) -> bool:
    loops = project.fact(LoopContexts)
    return isinstance(function, FUNCTIONS) and any(
        loops.is_training_step(module, call) for call in module.calls_of(function)
    )
