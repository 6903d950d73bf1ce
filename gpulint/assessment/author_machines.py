"""The machine that an author has, as the outputs that a notebook keeps tell: which device its cells have named."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.jobs import jobs_running
from gpulint.documents.notebook import NotebookDocument
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_DEVICE = (
    r"(?:devices?|hardware|accelerator|dispositivo|p[ée]riph[ée]rique|ger[äa]t|perangkat|cihaz|urządzenie|устройство"
    r"|设备|設備|デバイス|장치|디바이스)"
)
_IS = r"[ \t]{0,3}[:=|>?\uff1a-]{0,3}[ \t]{0,3}"
_NAMED = (
    rf"(?<![/a-z_]){_DEVICE}(?:[ \w]{{0,30}}['\"\])]{{0,2}}[ \t]{{0,3}}[:=|>\uff1a-]{{1,3}}|\(type=| set to use| is)?"
    r"[ \t]{0,3}(?:torch\.)?(?:device\()?(?:type=)?['\"\[(<*`]{0,2}"
)
"""A device and what stands between it and its name: ``Device: ``, ``device(type='``, ``Device set to use ``."""
_VERBS = (
    r"\b(?:us(?:ing|es|ed?)|(?:runs?|running|trains?|training|trained)(?: \w{1,20}){0,2} on"
    r"|fall(?:ing|s)? ?back (?:to|on)|fallback to|default(?:ing|s)? to|switch(?:ing|ed)? to|moved to):?"
    r"(?: the| an?| \d)? ?['\"{]{0,2}"
)
_AVAILABLE = (
    r"\b(?:cuda|gpus?|mps)(?: is|\.is)?"
    r"(?:[ _]{0,2}(?:available|availability|support|supported|enabled|detected|found|used?|version))?"
    rf"(?:\(\))?['\"]?\)?{_IS}"
)
_COUNT = (
    r"\b(?:(?:num(?:ber)?|count|n|total|available)[ _](?:of )?(?:available )?(?:cuda |gpu )?(?:gpus?|devices)"
    rf"(?: available| found| detected)?|(?:cuda|gpu)[ _](?:device[ _])?count){_IS}"
)
_ON_CPU = regex.compile(
    "|".join(
        (
            rf"(?P<device>{_NAMED}cpu\b)",
            rf"{_VERBS}cpu\b(?! (?:cores?|counts?|threads?|workers?|offload\w*|memory|ram|usage|time|instructions?)\b)",
            rf"{_AVAILABLE}(?:false|no\b(?! \w)|none\b|not available|\[\]|❌)",
            rf"{_COUNT}0\b",
            r"\b(?:using|found|with) 0 gpus?\b|\bnot using (?:the |any |a )?gpus?\b",
            r"\bno (?:compatible |suitable |usable |available )?(?:gpus?|cuda|nvidia driver|accelerator)(?:/tpu)?\b"
            r"(?:[ -]\w{1,20}){0,3}?(?: (?:found|available|detected)| on your system|,)",
            r"\b(?:cuda|gpus?)(?: devices?|/gpu)?(?: (?:is|are|was|were|will))? (?:not|un) ?(?:be )?"
            r"(?:available|found|detected|used|enabled)\b",
            r"\bon a cuda device but torch\.cuda\.is_available\(\) is false",
            r"\bneither cuda nor mps (?:is|are) available",
            r"\bnot compiled with cuda enabled",
            r"\bskipping registering gpu devices",
            r"nvidia-smi'?(?:: (?:command )?not found| is not recognized| has failed)",
            r"\d\.\d{1,2}\.\d{1,2}\+cpu\b",
            r"\bcpu \((?:intel|amd|apple|arm|x86)",
            r"\bcpudevice\(id",
        )
    )
)
"""What programs and libraries print, in lower case, on a machine without a GPU that they can use."""
_ON_GPU = regex.compile(
    "|".join(
        (
            r"\bcuda:\d",
            rf"{_NAMED}(?:cuda|gpu|mps|xpu|hip|tpu|xla)\b",
            r"\b(?:device_)?type='?(?:cuda|gpu|mps|xpu)\b",
            rf"{_VERBS}(?:cuda|gpus?|mps|tpus?)\b",
            rf"{_AVAILABLE}(?:true|yes\b|available|✅|[1-9])",
            rf"{_COUNT}[1-9]",
            r"\b(?:gpu|cuda) (?:is )?(?:available|detected|found|enabled|name|model|\d)\b",
            r"\bfound (?:\d |an? )?(?:gpu|cuda)",
            r"\bdevice:gpu:\d|\bcudadevice\(|\bcuda out of memory|\bcuda error:|\bmib ?/ ?\d+ ?mib",
            r"\bnvidia[- ](?:smi \d|[ahlt]\d|rtx|titan|graphics)|\bgeforce\b|\b[rg]tx ?\d{3}|\bquadro\b",
            r"\btesla[- ]?[a-z]\d|\b(?:a100|h100|h200|v100|p100|t4|l4|l40s?|a10g?|k80)\b",
        )
    )
)
"""What they print on one that has a GPU."""
_WORDS = ("cpu", "gpu", "cuda", "nvidia", "geforce", "mps", "tesla", "accelerator")
_OF_DATA = regex.compile(
    r"tensor|stored|param|batch|input|label|weight|\bdata\b|\bmodel(?:'s)? (?:is )?(?:on )?device|\b[a-z]\.device"
)
"""Words ahead of a device that is that of something which the program made, and may move."""
_CPU_LINE = regex.compile(r"^[ \t]*['\"]?cpu['\"]?[ \t]*$", re.MULTILINE)
_GPU_LINE = regex.compile(r"^[ \t]*['\"]?(?:cuda|gpu|mps)['\"]?[ \t]*$", re.MULTILINE)
_OF_OTHERS = regex.compile(r"(?<!torch)(?<!self)(?<!args)(?<!cfg)(?<!config)(?<!opt)(?<!jax)\.device\b")
"""A cell that asks for the device of a tensor or a model, which may be moved later."""
_ASKS = regex.compile(
    r"^\s*(?:print\(\s*(?:f?[\"'][^\"'\n]{0,80}[\"'],\s*)?)?(?:torch\.cuda\.(?:is_available|device_count)\(\)"
    r"|tf\.(?:config\.(?:experimental\.)?list_physical_devices\([\"']GPU[\"']\)|test\.is_gpu_available\(\)))\s*\)?\s*$"
)
"""The last line of a cell that shows whether there is a GPU."""
_NOTHING = frozenset({"false", "0", "[]"})
_COLOURS = regex.compile(r"\x1b\[[\d;]{0,20}m")
_CHOOSES = regex.compile(r"is_available|device_count|list_physical_devices|\bcpu\b|no_cuda|use_(?:cuda|gpu)")
"""Code that leaves open whether there is a GPU."""
MAX_LINE, MAX_LINES = 500, 500
"""Characters of a line, and lines of an output, in which devices are looked for."""
_STARTS = ("!", "%run ", "python ")
"""How lines of a cell begin that start a program."""
MAX_NOTEBOOKS = 6
"""Most notebooks that import a module which are asked."""


def names_cpu(subject: Subject) -> bool:
    """Return whether what a notebook has shown names the CPU as its device, and no GPU, and neither a job nor a GPU
    that it requests runs it; or whether that is so of the notebooks that start a program, or of all that imports the
    module."""
    if subject.module is None or subject.jobs:
        return False
    if subject.is_notebook:
        return _is_shown_on_cpu(subject.project, subject.path)
    return _serves_such_notebooks(subject.project, subject.path) or _is_started_on_cpu(subject.project, subject.path)


@query
def _is_started_on_cpu(project: Project, path: Path) -> bool:
    """Return whether cells of notebooks start a program (``!python train.py``), and it has named the CPU there."""
    found = set[bool]()
    named = re.compile(rf"(?<![\w.-]){re.escape(path.name)}(?![\w.])")
    for other in project.notebooks():
        document = project.document(other) if project.contains(other, os.fsencode(path.name)) else None
        if not isinstance(document, NotebookDocument):
            continue
        for cell, text in document.outputs:
            lines = document.cells[cell].source.text.splitlines()
            if any(line.lstrip().startswith(_STARTS) and named.search(line) for line in lines):
                found.update((False,) if document.asks_for_gpu else statements(text))
    return found == {True}


@query
def _serves_such_notebooks(project: Project, path: Path) -> bool:
    """Return whether only notebooks import a module, which starts nothing itself, and all of them ran on the CPU."""
    if project.contains(path, b"__main__"):
        return False
    users = list(islice(project.fact(GpuPrograms).users(path), MAX_NOTEBOOKS + 1))
    return 0 < len(users) <= MAX_NOTEBOOKS and all(
        user.suffix == ".ipynb" and not jobs_running(project, user) and _is_shown_on_cpu(project, user)
        for user in users
    )


@query
def _is_shown_on_cpu(project: Project, path: Path) -> bool:
    document = project.document(path)
    if not isinstance(document, NotebookDocument) or document.asks_for_gpu:
        return False
    code = document.python_source.text
    if "cuda" in code and _CHOOSES.search(code) is None:
        return False  # it fails without a GPU, so that what it shows is of another version
    found = set[bool]()
    for cell, text in document.outputs:
        found.update(statements(text, document.cells[cell].source.text))
        if False in found:
            return False
    return True in found


def _lines_on_hardware(shown: str) -> str:
    """Return the lines of a text that may name a device, which are few of the lines of most."""
    if not any(word in shown for word in _WORDS):
        return ""
    lines = (line for line in shown.splitlines() if any(word in line for word in _WORDS))
    return "\n".join(line[:MAX_LINE] for line in islice(lines, MAX_LINES))


def statements(text: str, source: str = "") -> Iterator[bool]:
    """Yield for each statement on the device, in what a program or a cell with some source has printed, whether that is
    the CPU."""
    shown = _COLOURS.sub("", text).lower()
    last = shown.rstrip().rpartition("\n")[2].strip()
    if _ASKS.match(source.rstrip().rpartition("\n")[2]):
        yield last.rpartition(" ")[2] in _NOTHING
    shown = _lines_on_hardware(shown)
    is_of_others = _OF_OTHERS.search(source) is not None
    rest, at = list[str](), 0
    for match in _ON_CPU.finditer(shown):
        rest.append(shown[at : match.start()])
        at = match.end()
        line = shown[max(shown.rfind("\n", 0, match.start()) + 1, match.start() - 200) : match.end()]
        if match["device"] is None or not (is_of_others or _OF_DATA.search(line)):
            yield True
    if _ON_GPU.search("\n".join((*rest, shown[at:]))) or _GPU_LINE.search(shown):
        yield False
    if not is_of_others and _CPU_LINE.search(shown):
        yield True
