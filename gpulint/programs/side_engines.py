"""Programs whose processes leave a GPU to an inference engine or another model, as their arguments, the configurations
that these name, or their own code say (``use_vllm: true``, ``--reference_device cuda:3``).

How many GPUs such an engine holds is unknown, so processes and GPUs cannot be compared.
"""

from __future__ import annotations

import re

from gpulint import regex
from gpulint.launch.job import JobLaunch
from gpulint.libraries.gpu_libraries import SECOND_DEVICE
from gpulint.programs.command_files import told
from gpulint.programs.multi_gpu_use import Program
from gpulint.project import Project

_ENGINE = regex.compile(r"(?<!\w)(?:use_)?(?:vllm|sglang|lmdeploy|trtllm|tensorrt_llm)(?!\w*\.py)", re.IGNORECASE)
_OFF = regex.compile(r"""\buse_(?:vllm|sglang)["']?\s*[:= ]\s*["']?(?:false|no|off|null|none|0)\b""", re.IGNORECASE)
_IN_CODE = regex.compile(
    r"\buse_vllm\s*=\s*True|\b(?:vllm|sglang)_(?:device|mode|server\w*)\s*=(?!\s*None)|\b(?:vllm|sglang)\.(?:LLM|Engine)\("
    r"""|["'](?:vllm|lmdeploy|trtllm-serve)["'],\s*["']serve|\b(?:vllm|lmdeploy) serve\b"""
    r"|\b(?:vllm\.entrypoints|sglang\.launch_server)\b|\btext-generation-launcher\b"
    r"|\bfrom (?:vllm|sglang) import (?:\w+, )*(?:Async)?(?:LLM|Engine)"
)


def leaves_gpus_to_others(project: Project, start: JobLaunch, program: Program | None) -> bool:
    """Return whether a launch starts something beside its processes that may hold GPUs of its own."""
    if program is not None and program.mentions(_IN_CODE):
        return True
    return any(
        (_ENGINE.search(text) and not _OFF.search(text)) or SECOND_DEVICE.search(text) for text in told(project, start)
    )
