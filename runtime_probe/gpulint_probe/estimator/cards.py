"""GPUs by name: usable memory and what a process holds before the first tensor.

``total`` is what nvidia-smi reports as memory.total (vendors' gigabytes less the ECC and firmware reserve).
``context`` is the memory of the CUDA context with PyTorch's kernels and cuBLAS/cuDNN handles after a first training
step. It depends on driver, CUDA version and lazy loading as much as on the card: four public sets of runs on one A100
model fit 548, 1430, 1740 and 1880 MiB. So every figure here is a fall-back with its source, and ``--context`` with a
measurement on the real machine replaces it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpulint_probe.estimator.errors import EstimateError

MIB = 1 << 20
GIB = 1 << 30
_UNITS = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": MIB,
    "gib": GIB,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "g": GIB,
    "m": MIB,
}


@dataclass(frozen=True, slots=True)
class Card:
    """``total_bytes`` of the card; ``context_bytes`` that a process holds outside the allocator, and their source."""

    name: str
    total_bytes: int
    context_bytes: int
    source: str


_FITTED = "upper middle of four public sets of A100 runs (PyTorch 2.4, CUDA 12.2): 548, 1430, 1740, 1880 MiB"
_ASSUMED = "not measured on this card: the middle of what public A100 runs show, 548 to 1880 MiB"
_A100_CONTEXT = 1740
_DEFAULT_CONTEXT = 1200
_TABLE: tuple[tuple[str, int, int, str], ...] = (
    ("A100-40GB", 40960, _A100_CONTEXT, _FITTED),
    ("A100-80GB", 81920, _A100_CONTEXT, _FITTED),
    ("A30", 24576, _DEFAULT_CONTEXT, _ASSUMED),
    ("A10", 23028, _DEFAULT_CONTEXT, _ASSUMED),
    ("A40", 46068, _DEFAULT_CONTEXT, _ASSUMED),
    ("A6000", 49140, _DEFAULT_CONTEXT, _ASSUMED),
    ("H100-80GB", 81559, _DEFAULT_CONTEXT, _ASSUMED),
    ("H100-94GB", 95830, _DEFAULT_CONTEXT, _ASSUMED),
    ("H200", 143771, _DEFAULT_CONTEXT, _ASSUMED),
    ("B200", 183359, _DEFAULT_CONTEXT, _ASSUMED),
    ("L4", 23034, _DEFAULT_CONTEXT, _ASSUMED),
    ("L40S", 46068, _DEFAULT_CONTEXT, _ASSUMED),
    ("T4", 15360, _DEFAULT_CONTEXT, _ASSUMED),
    ("V100-16GB", 16384, _DEFAULT_CONTEXT, _ASSUMED),
    ("V100-32GB", 32768, _DEFAULT_CONTEXT, _ASSUMED),
    ("RTX3090", 24576, _DEFAULT_CONTEXT, _ASSUMED),
    ("RTX4090", 24564, _DEFAULT_CONTEXT, _ASSUMED),
    ("RTX5090", 32607, _DEFAULT_CONTEXT, _ASSUMED),
)
CARDS = {name: Card(name, total * MIB, context * MIB, source) for name, total, context, source in _TABLE}


def card_by_name(name: str) -> Card:
    """The card of that name, however its letters are cased and joined. Raises EstimateError with the known names."""
    wanted = _plain(name)
    found = [card for key, card in CARDS.items() if _plain(key) == wanted]
    if not found:
        raise EstimateError(f"--gpu {name!r} is not known; give --memory, or one of {', '.join(CARDS)}")
    return found[0]


def card_of_memory(total_bytes: int) -> Card:
    """An unnamed card with that much memory."""
    return Card(f"{total_bytes / GIB:.4g} GiB", total_bytes, _DEFAULT_CONTEXT * MIB, _ASSUMED)


def parse_size(text: str) -> int:
    """Bytes of ``24GiB``, ``40960MiB``, ``80GB``. Raises EstimateError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not match or match[2] not in _UNITS or float(match[1]) == 0:
        raise EstimateError(f"{text!r} is not a memory size such as 24GiB or 40960MiB")
    return int(float(match[1]) * _UNITS[match[2]])


def _plain(name: str) -> str:
    return re.sub(r"nvidia|geforce|pcie|sxm\d?|[-_ ]", "", name.lower())
