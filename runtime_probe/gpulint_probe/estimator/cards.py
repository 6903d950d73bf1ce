"""GPUs by name: memory, speed, and what a process holds before the first tensor.

The cards are in cards.toml. The memory of the CUDA context, with PyTorch's kernels and the handles of cuBLAS and
cuDNN after a first training step, depends on driver, CUDA version and lazy loading more than on the card. So every
figure here is a fall-back with its source, and ``--context`` with a measurement on the real machine replaces it.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

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
# Published memory of a process outside the allocator on A100s, in MiB, by what is known of the stack.
_LAZY = (571, "middle of 524 and 618 MiB, two re-measurements with recent drivers and lazy loading (CUDA 12)")
_EAGER = (1343, "1343 MiB, measured with an older driver, which loads every kernel at once (before CUDA 11.7)")
# The runs of Table 6.2 (PyTorch 2.4, CUDA 12.2) show 1475 to 1870 MiB, with whatever else was resident on their GPUs.
_LAZY_LOADING_SINCE = (11, 7)


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU. ``context_bytes`` is what a process holds outside the allocator, and ``source`` where that comes from.

    ``tflops`` are dense peaks by type, ``bandwidth`` (memory), ``pcie`` and ``nvlink`` (one direction) GB/s; a card of
    which only the memory is known has none of them.
    """

    name: str
    total_bytes: int
    context_bytes: int
    source: str
    kind: str = ""
    sms: int = 0
    bandwidth: float = 0.0
    pcie: float = 12.0
    nvlink: float = 0.0
    watts: int = 0
    tflops: Mapping[str, float] = field(default_factory=dict)

    def peak(self, itemsize: int, tf32: bool = False) -> float:
        """Operations per second of matrix products on elements of that many bytes."""
        if itemsize <= 2:
            name = "fp16"
        else:
            name = "tf32" if tf32 else "fp32"
        return 1e12 * self.tflops.get(name, self.tflops.get("fp32", 0.0))


def default_context(cuda: str = "") -> tuple[int, str]:
    """Bytes of the context for a CUDA version ("12.4"; "" for a recent one), and their source. Raises EstimateError."""
    if cuda and not re.fullmatch(r"\d+(\.\d+)*", cuda):
        raise EstimateError(f"--cuda {cuda!r} is not a version such as 12.4")
    version = tuple(int(part) for part in cuda.split(".")[:2]) if cuda else ()
    size, source = _EAGER if version and version < _LAZY_LOADING_SINCE else _LAZY
    return size * MIB, source


@functools.cache
def cards() -> dict[str, Card]:
    """The known cards by name."""
    text = resources.files("gpulint_probe.estimator").joinpath("cards.toml").read_text(encoding="utf-8")
    context, source = default_context()
    found = {}
    for name, values in tomllib.loads(text).items():
        memory = values.pop("memory") * MIB
        found[name] = Card(name, memory, context, source, **values)
    return found


def card_by_name(name: str) -> Card:
    """The card of that name, however its letters are cased and joined. Raises EstimateError with the known names.

    A name without the memory, such as "A100", is the first card that begins with it.
    """
    wanted = _plain(name)
    known = {_plain(key): card for key, card in cards().items()}
    if wanted in known:
        return known[wanted]
    found = [card for key, card in known.items() if wanted and re.match(re.escape(wanted) + r"(\d+)?gb$", key)]
    if not found and wanted.endswith("pcie") and wanted != "pcie":  # cards that exist in this form alone, or nearly so
        return card_by_name(wanted.removesuffix("pcie"))
    found = found or [card for key, card in known.items() if wanted and key + "gb" == wanted]
    if not found:
        raise EstimateError(f"--gpu {name!r} is not known; give --memory, or one of {', '.join(cards())}")
    return found[0]


def card_of_memory(total_bytes: int) -> Card:
    """An unnamed card with that much memory."""
    context, source = default_context()
    return Card(f"{total_bytes / GIB:.4g} GiB", total_bytes, context, source)


def parse_size(text: str) -> int:
    """Bytes of ``24GiB``, ``40960MiB``, ``80GB``. Raises EstimateError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not match or match[2] not in _UNITS or float(match[1]) == 0:
        raise EstimateError(f"{text!r} is not a memory size such as 24GiB or 40960MiB")
    return int(float(match[1]) * _UNITS[match[2]])


def _plain(name: str) -> str:
    plain = re.sub(r"nvidia|geforce|tesla|quadro|sxm\d?|hbm\d?e?|[-_ ]", "", name.lower())
    return plain.replace("pcie", "") + "pcie" if "pcie" in plain else plain
