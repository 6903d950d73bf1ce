"""What imports and names in Python code say about GPUs: libraries, and the ways to use several at once."""

from __future__ import annotations

import enum
import re

from gpulint import regex
from gpulint.libraries import Models
from gpulint.libraries.programs import Library


class Approach(enum.Enum):
    """How the work gets onto more than one GPU."""

    ONE_PROCESS = "one process drives all GPUs"
    PER_PROCESS = "one process per GPU"
    SPAWN = "the program starts its processes itself"
    MODEL = "the model is split over GPUs"
    FRAMEWORK = "a framework decides"


class Libraries:
    """What the rows say of libraries and of identifiers of parallel work."""

    def __init__(self, models: Models) -> None:
        rows: tuple[Library, ...] = models.rows("library")
        self.if_moved = frozenset(module for row in rows for module in row.modules_if_moved)
        """Top-level modules that compute on a GPU only what the program puts there."""
        self.gpu = self.if_moved | {module for row in rows for module in row.modules}
        """Top-level modules whose programs may well run on a GPU."""
        self.if_told = frozenset(module for row in rows for module in row.modules_if_told)
        """Those that use a GPU only when told to."""
        self.no_gpu = self.if_told | {module for row in rows for module in row.modules_on_cpu}
        """Those that use none, or only when told to."""
        self.parts_on_cpu = tuple(name for row in rows for name in row.parts_on_cpu)
        """Patterns for whole names of parts of those libraries that use none."""
        self.beside = self.no_gpu | {module for row in rows for module in row.modules_beside}
        """Those that use none, or as many as the program says."""
        self.approaches = {
            name: approach
            for row in rows
            for approach in Approach
            for name in getattr(row.parallel, approach.name.lower())
        }
        """The approach that an identifier is a sign of."""


HINT = regex.compile(
    r"cuda|gpu|device|nvidia|rocm|opencl|deep_learning|cugraph|cudf|\bcuml|\bcupy|rapids", re.IGNORECASE
)
MOVES = regex.compile(
    rf"{HINT.pattern}|\.(?:to|_apply)\b|\.(?:cpu|compile)\(|\b(?:mps|xpu|hpu|nccl)\b|distributed|DataParallel|accelerat"
    r"|(?<!json\.)(?<!yaml\.)(?<!np\.)(?<!numpy\.)\bload\(|pickle\.loads\b|read_pickle|Unpickler|load_library"
    r"|set_default_tensor_type",
    re.IGNORECASE,
)
"""What a program that uses PyTorch on a GPU has: it moves something there, loads what was saved there or kernels of its
own, or takes the type of its tensors from elsewhere."""
OPAQUE = regex.compile(
    r"\b(?:subprocess|ctypes|Popen|cffi|os\.system|os\.popen|importlib|__import__|exec|execv\w*|spawn\w*|instantiate"
    r"|pkgutil|runpy|execfile|pydoc|load_module|load_source|entry_points|hydra\.utils|get_method|get_class)\b"
    r"|\b(?:pickle|joblib|cloudpickle)\.load\((?s:.{0,4000}?)\.predict(?:_proba)?\("
    r"|\bglobals\(\)|\b__all__\s*\+?=\s*\[?\s*[^\n]{0,300}\bfor\b"
)
"""With one of these words a program may run anything, as with a model that it unpickles."""

FRAMEWORKS = regex.compile(r"\w*(?:Trainer|TrainingArguments)$")
SECOND_DEVICE = regex.compile(
    r"""cuda:(?:[1-9]|\{|%)|\.cuda\((?:[1-9]|device=[1-9])|gpu:[1-9]|cuda\(?["']?, ?[1-9]|xla:"""
    r"""|\.(?:cuda|to)\([\w.]+\[[1-9]\]|cuda:["'] ?\+(?! ?str\([\w.]*rank)"""
    r"""|\bdevice\(["']cuda["'], ?(?:index=)?(?![\w.]*rank)[a-z_]\w*\)"""
    r"""|\b(?:gpu|device|cuda)_?(?:device_?)?(?:id|index|idx|number)? ?= ?[1-9](?![\d.])"""
    r"""|\b(?:cuda\.device|device|select_device|decord\.gpu)\([1-9]\)""",
    re.IGNORECASE,
)
PLAIN_COMMANDS = frozenset(
    """echo printf cd ls pwd mkdir rm cp mv cat touch export set source . module conda pip pip3 apt apt-get true
    false : test [ [[ exit date hostname env sleep wait chmod ln tar unzip gzip zip wget curl git aws gsutil gcloud
    oci azcopy s5cmd rclone scp hf huggingface-cli rsync sort head tail grep sed awk tee find patch uniq
    tr cut wc seq basename dirname realpath readlink stat md5sum ps pgrep kill scancel du df ulimit unset local declare
    shopt trap nvidia-smi nproc
    which uname whoami id hostnamectl uptime free lscpu printenv scontrol squeue sinfo sacct read
    let shift return eval break continue if then fi for do done""".split()
)
"""Shell commands that compute nothing."""
