"""What a pass over the data on the CPU costs before the training: by what is done, how often, and what is known."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.impact import Cost
from gpulint.launch.job_index import JobIndex
from gpulint.semantic.points_to import Resolver
from gpulint.workload.sample_preprocessing import IMAGES, PIXELS, RESAMPLES, TOKENISES
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_MAPPED = Cost("cpu-pass", seconds=(2, 200), basis="a pass over the text on the CPU, kept on disk for later runs")
"""``datasets`` keeps what ``map`` made: only the first run on a machine pays, for 700 to 70 000 texts (assumed)."""
_IN_MEMORY = Cost("cpu-pass", seconds=(2, 200), basis="a pass over the text on the CPU")
"""What was made from objects in memory has no file beside which ``map`` could keep its result."""
_FROM_MEMORY = frozenset({"from_list", "from_dict", "from_pandas"})
_OPTION = Cost(
    "cpu-pass", seconds=(0.5, 50), basis="a pass over the data on the CPU, with an option for more processes"
)
"""Who has much data sets the option (assumed)."""
_SLOW = regex.compile(
    r"\b(?!(Auto|PreTrained)Tokenizer\b)[A-Z]\w*Tokenizer\b|byt5|use_fast\s*=\s*False|\bspacy\b|\bjieba\b|MeCab"
)
"""Words of tokenisers that run in Python. Those in Rust take seconds for what most programs give them."""
_PODS = frozenset({"kubernetes", "sagemaker", "azureml", "vertex"})
"""Systems whose jobs start with an empty disk, so without what an earlier run kept."""


def of_pass(module: ModuleIndex, work: str) -> Cost:
    """The cost of one pass over texts in every run."""
    return _if_much(Cost("cpu-pass"), module, work)


def of_folder() -> Cost:
    """The cost of a pass over files: most programs keep what they make, or make it in a run of its own (readers thanked
    for 1 of 14 such findings)."""
    return Cost("cpu-pass", assumed="assuming that each training repeats it")


def of_map(project: Project, module: ModuleIndex, call: ast.Call, work: str, option: bool) -> Cost:
    """The cost of a ``datasets.map``; ``option`` if the program has one for the number of processes."""
    starts = project.fact(JobIndex).launches_of(module.path)
    if any(start.job.task.system in _PODS for start in starts):
        return Cost("cpu-pass", basis="a pass over the data on the CPU, in every new pod")
    if work != TOKENISES:
        return _if_much(Cost("cpu-pass"), module, work)
    once = _IN_MEMORY if _is_from_memory(project, module, call) else _MAPPED
    return _if_much(_OPTION if option else once, module, work)


def _is_from_memory(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the data set that is mapped was made from a list, a dictionary or a table."""
    assert isinstance(call.func, ast.Attribute)
    made = project.fact(Resolver).points_to(module, call.func.value)
    return bool(made) and all(
        isinstance(ref.node, ast.Call) and last_name(ref.node.func) in _FROM_MEMORY for ref in made
    )


def _if_much(cost: Cost, module: ModuleIndex, work: str) -> Cost:
    """The cost, with what has to hold for it to be worth a word. Audio, video and volumes take long in any case."""
    if work == TOKENISES and not _SLOW.search(module.syntax.source.text):
        return dataclasses.replace(cost, assumed="assuming much text")
    return dataclasses.replace(cost, assumed="assuming many images") if work in (IMAGES, RESAMPLES, PIXELS) else cost
