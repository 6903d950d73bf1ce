"""What the words of a module say of hardware: GPUs, TPUs, services that run jobs, and work that computes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.identifiers import words_in
from gpulint.libraries import Models
from gpulint.libraries.programs import Library
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    pass

_NAMED = frozenset(b"cuda gpu GPU GPUs num_gpus device_map".split())


_DEVICE = frozenset(b"device DEVICE devices dev local_rank mps ctx".split())


_OTHERS = frozenset(b"tpu TPU torch_xla torch_neuronx".split())


_TPU = ("torch_xla", "TPUEstimator", "TPUClusterResolver", "TPUConfig")


_TPU_FOLDER = regex.compile(r"(^|[_-])tpus?([_-]|$)", re.IGNORECASE)


_CLIENTS = frozenset(
    b"MLClient ScriptRunConfig TrainingClient CustomTrainingJob CustomContainerTrainingJob CustomJob "
    b"aiplatform sagemaker".split()
)
"""What submits a job to a service from a notebook or script that holds no GPU itself."""


_OWN_WORK = frozenset(b"cuda device_map backward GradientTape Trainer training_step Accelerator".split())


_CHOSEN = regex.compile(
    rb"(device|devices|accelerator)\W{1,4}(auto|gpu|cuda)|\buse_(gpu|cuda)\s{0,3}=\s{0,3}True\b|\.to\((\d|(local_)?rank)\)"
)


_NON_BLOCKING = regex.compile(rb"non_blocking\s*=\s*True")
"""What copies ahead to a GPU, or to one of a Mac, which shares its memory."""


_NUMBERED = regex.compile(rb"^\s*device = \d+\s*$", re.MULTILINE)
"""A GPU by the number that PyTorch gives it."""


_TRAINS = regex.compile(rb"\btrain\s*\(|import[^\n]*\btrain\b|Optimizer|optax")
"""``train`` alone may be the name of a split, or ``tf.train.Example``."""


_COMMENTED_OUT = regex.compile(rb"^[ \t]*#.*(?:\.cuda\(|torch\.cuda\b|\.to\().*$", re.MULTILINE)
"""Code for a GPU that somebody has taken out; what comments say of GPUs in words is as good as code."""


_SAYS_NOTHING = regex.compile(
    rb"^[ \t]*#.*(?:\.cuda\(|torch\.cuda\b|\.to\(|\bdevice\s*=).*$"
    rb"|\bpin_memory\s*=\s*(?:torch\.)?cuda\.is_available\(\)"
    rb"|\bdevice\s*=\s*(?!self\b|cls\b|\w*(?:args|opts?|params|flags|config|cfg|conf|hps|settings|module|model|net)\b)"
    rb"\w+\.device\b",
    re.MULTILINE | re.IGNORECASE,
)
"""What leaves open where a program computes: code that is taken out, batches that are pinned where there is a GPU, and
a tensor made where another one is (``torch.zeros(3, device=x.device)``)."""


_TO_TYPE = regex.compile(
    rb"\.to\(\s*(?:dtype\s*=\s*)?(?:"
    rb"(?:torch|th)\.(?:u?int\d*|float\d*|bfloat16|half|double|long|short|bool|complex\d*|cfloat|(?:channels|contiguous)_\w+)"
    rb"|(?:memory_format\s*=\s*)(?:torch|th)\.\w+|(?:\w+\.)*dtype|[\"']cpu[\"'])\s*\)"
)
"""What makes numbers of another type, or takes them to the CPU, which ``.to`` does as well."""


_CAPITALIZED = regex.compile(rb"[A-Z]+[a-z]\w*")


_COMMENT = regex.compile(rb"#.*")


_DIGITS = b"0123456789"


def _words(text: bytes) -> frozenset[bytes]:
    """The identifiers in a text, without digits in front."""
    return frozenset(word.lstrip(_DIGITS) for word in words_in(text))


def _without_docstrings(text: bytes) -> bytes:
    """A text without the strings of several lines that begin a line, as docstrings do."""
    parts = text.split(b'"""')
    inside = range(1, len(parts) - 1, 2)
    docstrings = {at for at in inside if not parts[at - 1].rpartition(b"\n")[2].strip()}
    return b'"""'.join(part for at, part in enumerate(parts) if at not in docstrings)


def _moves(text: bytes) -> bool:
    """Return whether a text moves something to a device that it does not name as the CPU."""
    return b".to(" in text and b".to(" in _TO_TYPE.sub(b"", text)


class GpuWords:
    """What the rows say of the words of programs that use a GPU."""

    def __init__(self, models: Models) -> None:
        rows: tuple[Library, ...] = models.rows("library")
        self.gpu = frozenset(word.encode() for row in rows for word in row.gpu_words)
        self.compute = frozenset(word.encode() for row in rows for word in row.compute_words)

    def computes(self, words: frozenset[bytes], text: bytes) -> bool:
        """Return whether a program with these words trains, evaluates or generates."""
        found = words & self.compute
        return bool(found) and (found != {b"train"} or bool(_TRAINS.search(text)))

    def name_gpu(self, words: frozenset[bytes], text: bytes) -> bool:
        """Return whether a program with these words names a GPU."""
        if words & self.gpu or _CHOSEN.search(text) or (b"mps" not in words and _NON_BLOCKING.search(text)):
            return True
        return b".to(device" in text and bool(_NUMBERED.search(text))

    def text_computes(self, text: bytes) -> bool:
        """Return whether the words of a program say that it trains, evaluates or generates."""
        return self.computes(_words(text), text)

    def names_device(self, text: bytes) -> bool:
        """Return whether the words of a program name a GPU, a possible one, or a library that chooses one by itself.
        Code that is commented out does not count, nor what is on a device only if something else is."""
        text = _SAYS_NOTHING.sub(b"", text)
        return bool(_words(text) & (self.gpu | _NAMED | _OTHERS | _DEVICE)) or _moves(text)

    def computes_on_gpu(self, text: bytes) -> bool:
        """Return whether the words of a program say that it uses a GPU (and no TPU) and trains, evaluates or generates.

        Code that is commented out does not count, nor do docstrings.
        """
        words = _words(text)
        if not self.computes(words, text) or (words & _OTHERS and not words & _NAMED):
            return False
        if words & _CLIENTS and not _words(_COMMENT.sub(b"", text)) & _OWN_WORK:
            return False
        if not self.name_gpu(words, text):
            return False
        code = _without_docstrings(_COMMENTED_OUT.sub(b"", text) if b"#" in text else text)
        return code == text or self.name_gpu(_words(code), code)

    def only_classes(self, text: bytes) -> frozenset[bytes]:
        """Return the words of a text that say that a program uses a GPU, if all of them are names of classes, and
        nothing else names a device."""
        words = _words(text)
        found = words & self.gpu
        if not all(map(_CAPITALIZED.fullmatch, found)):
            return frozenset()
        others = (words - found) & (_NAMED | _OTHERS | _DEVICE)
        return frozenset() if others or _moves(text) or _CHOSEN.search(text) or _NON_BLOCKING.search(text) else found


def runs_on_other_hardware(text: bytes) -> bool:
    """Return whether the words of a program name TPUs, or a client that submits jobs to a service."""
    return bool(_words(text) & (_OTHERS | _CLIENTS))


@query
def submits(module: ModuleIndex) -> bool:
    """Return whether a module names a client that submits jobs to a service."""
    return bool(_CLIENTS & _words(module.syntax.source.text.encode("utf-8", "replace")))


@query
def may_be_for_tpu(module: ModuleIndex) -> bool:
    """Return whether a module names TPUs, perhaps beside GPUs."""
    return is_for_tpu(module) or any(name in module.syntax.source.text for name in _TPU)


def is_for_tpu(module: ModuleIndex) -> bool:
    """Return whether a module is written for TPUs, by its names or its folder's, and does not mention GPUs."""
    text = module.syntax.source.text
    if not (any(name in text for name in _TPU) or any(map(_TPU_FOLDER.search, module.path.parts[:-1]))):
        return False
    return not _words(text.encode("utf-8", "replace")) & _NAMED
