"""Programs whose processes leave a GPU to an inference engine or another model, as their arguments, the configurations
that these name, or their own code say (``use_vllm: true``, ``--reference_device cuda:3``).

How many GPUs such an engine holds is unknown, so processes and GPUs cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from gpulint import regex
from gpulint.documents.base import Unreadable, decode
from gpulint.launch.job import JobLaunch
from gpulint.libraries.gpu_libraries import SECOND_DEVICE
from gpulint.programs.multi_gpu_use import Program
from gpulint.project import Project
from gpulint.values.config_files import MAX_SIZE
from gpulint.values.constants import Constants

_ENGINE = regex.compile(r"(?<!\w)(?:use_)?(?:vllm|sglang|lmdeploy|trtllm|tensorrt_llm)(?!\w*\.py)", re.IGNORECASE)
_OFF = regex.compile(r"""\buse_(?:vllm|sglang)["']?\s*[:= ]\s*["']?(?:false|no|off|null|none|0)\b""", re.IGNORECASE)
_IN_CODE = regex.compile(
    r"\buse_vllm\s*=\s*True|\b(?:vllm|sglang)_(?:device|mode|server\w*)\s*=(?!\s*None)|\b(?:vllm|sglang)\.(?:LLM|Engine)\("
    r"|\bfrom (?:vllm|sglang) import (?:\w+, )*(?:Async)?(?:LLM|Engine)"
)
_COMMENT = regex.compile(r"(?m)(?:^|\s)#.*$")


def leaves_gpus_to_others(project: Project, start: JobLaunch, program: Program | None) -> bool:
    """Return whether a launch starts something beside its processes that may hold GPUs of its own."""
    if program is not None and program.mentions(_IN_CODE):
        return True
    texts = [" ".join(word.text for word in start.launch.args), *_configurations(project, start)]
    return any((_ENGINE.search(text) and not _OFF.search(text)) or SECOND_DEVICE.search(text) for text in texts)


def _configurations(project: Project, start: JobLaunch) -> Iterator[str]:
    """Yield the texts, without comments, of the files of the tree that the arguments name."""
    files = project.fact(Constants).configs
    homes = [start.document.path.parent, *([start.program.parent] if start.program is not None else [])]
    for word in start.launch.args:
        name = (word.value or "").rpartition("=")[2]
        path = next((path for home in homes for path in files.existing(home, name)), None)
        data = project.data(path) if path is not None else b""
        if data and len(data) <= MAX_SIZE:
            with suppress(Unreadable):
                yield _COMMENT.sub("", decode(data)[0])
