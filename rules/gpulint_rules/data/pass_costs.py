"""What a pass over the data on the CPU costs before the training: by what is done, how often, and what is known."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.impact import Cost
from gpulint.launch.job_index import JobIndex
from gpulint.workload.sample_preprocessing import IMAGES, RESAMPLES, TOKENISES

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_MAPPED = Cost("cpu-pass", seconds=(2, 200), basis="a pass over the text on the CPU, kept on disk for later runs")
"""``datasets`` keeps what ``map`` made: only the first run on a machine pays, for 700 to 70 000 texts (assumed)."""
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
    """The cost of one pass in every run."""
    return _if_much(Cost("cpu-pass"), module, work)


def of_map(project: Project, module: ModuleIndex, work: str, option: bool) -> Cost:
    """The cost of ``datasets.map``; ``option`` if the program has one for the number of processes."""
    starts = project.fact(JobIndex).launches_of(module.path)
    if any(start.job.task.system in _PODS for start in starts):
        return Cost("cpu-pass", basis="a pass over the data on the CPU, in every new pod")
    if work != TOKENISES:
        return _if_much(Cost("cpu-pass"), module, work)
    return _if_much(_OPTION if option else _MAPPED, module, work)


def _if_much(cost: Cost, module: ModuleIndex, work: str) -> Cost:
    """The cost, with what has to hold for it to be worth a word. Audio, video and volumes take long in any case."""
    if work == TOKENISES and not _SLOW.search(module.syntax.source.text):
        return dataclasses.replace(cost, assumed="assuming much text")
    return dataclasses.replace(cost, assumed="assuming many images") if work in (IMAGES, RESAMPLES) else cost
