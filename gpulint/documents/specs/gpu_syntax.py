"""How systems write a number of GPUs: named parsers, which the rows of job formats choose from."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpulint import regex
from gpulint.documents.specs.accelerators import GpuRequest, gpu_request, machine_gpus
from gpulint.documents.specs.common import pair_span
from gpulint.documents.specs.lookup import Found
from gpulint.documents.tasks import Count
from gpulint.documents.yamltree import Node
from gpulint.numerals import whole

_MEMORY = regex.compile(r"[\d.]*\s*[KMGT]B?|\d*[KMGT]?B?\s*\.\.\s*[\d.]*\s*[KMGT]B", re.IGNORECASE)
_NUMBERS = regex.compile(r"\d+|\d*\.\.\d*")
_NAMED_FOR_GPUS = regex.compile(
    r"(?<![a-z])(?:gpus?|cuda|[ahv]100|h200|b200|gh200|t4|k80|p100|l40?s?|a10g?|mi[23]\d\dx?|[rg]tx|n[cd]\d+\w*)(?:x\d+)?(?![a-z])",
    re.IGNORECASE,
)
_LIGHTNING_MACHINE = regex.compile(r"(T4|L4|L40S|A10G|V100|A100|H100|H200|B200)(?:_SMALL)?(?:_X_(\d+))?")
_GRES = regex.compile(r"(?:--gres[= ])?gpu(?::([A-Za-z][\w.-]*))?(?::(\d+))?|--gpus(?:-per-node)?[= ](\d+)")
_NO_GPUS = ("tpu", "inferentia", "trainium")


def counted(found: Found, value: int | None) -> Count:
    """A number with its place and text, as the key and value that write it."""
    key, node = found.key, found.node
    if not key:
        return Count(value, node.span, node.text or node.fragment.text)
    return Count(value, pair_span(key, node), f"{key.text}: {node.text or node.fragment.text}")


def _number(found: Found) -> GpuRequest | None:
    return GpuRequest(counted(found, found.node.integer))


def _one(found: Found) -> GpuRequest | None:
    """A flag that stands for one GPU."""
    return GpuRequest(counted(found, 1))


def _some(found: Found) -> GpuRequest | None:
    """GPUs whose number is not written."""
    return GpuRequest(counted(found, None))


def _kubernetes(found: Found) -> GpuRequest | None:
    """A ``resources`` map with limits and requests of device plugins."""
    return gpu_request(found.node)


def _machine(found: Found) -> GpuRequest | None:
    """The name of a cloud's machine type."""
    known = machine_gpus(found.node.text)
    return known and GpuRequest(counted(found, known[0]), known[1])


def _named(found: Found) -> GpuRequest | None:
    """Unknown many GPUs where a cluster, a preset or a runner's label is named for them (``azureml:gpu-cluster``)."""
    nodes = found.node.elements or [value for _, value in found.node.pairs()] or [found.node]
    labels = [label.text for node in nodes for label in (node.elements or [node])]
    return _some(found) if any(map(is_named_for_gpus, labels)) else None


def is_named_for_gpus(name: str) -> bool:
    """Return whether the name of a cluster, a preset or a runner's label speaks of GPUs."""
    return _NAMED_FOR_GPUS.search(name) is not None


def _lightning(found: Found) -> GpuRequest | None:
    """``A10G_X_4``."""
    match = _LIGHTNING_MACHINE.fullmatch(found.node.text)
    return match and GpuRequest(counted(found, whole(match[2] or "1")), match[1].lower())


def _compose(found: Found) -> GpuRequest | None:
    """``count`` (a number or ``all``), else the length of ``device_ids``, else all GPUs of the host."""
    key, number = found.node.pair("count")
    if number:
        return GpuRequest(counted(Found(number, key), number.integer))
    key, ids = found.node.pair("device_ids")
    if ids.kind == "list":
        return GpuRequest(counted(Found(ids, key), len(ids.children)))
    return GpuRequest(Count(None, found.node.span, "all GPUs of the host"))


def _count_of_model(found: Found) -> GpuRequest | None:
    """``A100:8``, ``{A100: 8}``, a list of such alternatives, or one of maps with ``accelerators`` each.

    Of alternatives the system takes one: GPUs are held for sure where every one of them has some.
    """
    node, place = found.node, found
    items = node.elements or [node]
    if items[0].kind == "map" and node.kind == "list":
        places = [Found(value, key) for key, value in (item.pair("accelerators") for item in items)]
        if not all(offer.node.kind == "scalar" and offer.node.text for offer in places):
            return None
        items, place = [offer.node for offer in places], places[0]
    choices = [_choice(item.text) for item in items if item.kind == "scalar"]
    choices += [(name.text, number.integer) for name, number in node.pairs()]
    models, counts = {model.lower() for model, _ in choices}, {number for _, number in choices}
    if any(model.startswith(_NO_GPUS) for model in models):
        return None
    number = counts.pop() if len(counts) == 1 else None
    return GpuRequest(counted(place, number), models.pop() if len(models) == 1 else None)


def _choice(text: str) -> tuple[str, int | None]:
    """``A100:8`` as (model, count); one GPU where no count is written."""
    model, colon, number = text.partition(":")
    return model, whole(number) if colon else 1


def _gres(found: Found) -> GpuRequest | None:
    """Slurm's ``gpu:a100:4``, also with the option's name (``--gres=gpu:4``, ``--gpus-per-node=4``)."""
    match = _GRES.fullmatch(found.node.text)
    return match and GpuRequest(counted(found, whole(match[2] or match[3] or "1")), match[1])


def _dstack(found: Found) -> GpuRequest | None:
    """``A100:80GB:2``, or a map with ``name``, ``count`` and ``vendor``."""
    node = found.node
    if node.kind == "map":
        number = node.at("count")
        value, model, vendor = number.integer if number else 1, node.at("name").text or None, node.at("vendor").text
    else:
        value, model, vendor = _dstack_text(node)
    if vendor in {"tpu", "google"} or (model or "").lower().startswith(("tpu", "v5", "v6")):
        return None
    vendor = vendor or ("amd" if (model or "").upper().startswith("MI") else "nvidia")
    return GpuRequest(counted(found, value), model.lower() if model else None, vendor=vendor)


def _dstack_text(node: Node) -> tuple[int | None, str | None, str]:
    """(count, model, vendor) of ``A100:80GB:2``, ``24GB``, ``amd:MI300X:8`` or ``2``; a range of counts is None."""
    value: int | None = 1
    model, vendor = None, ""
    for part in (part.strip() for part in node.text.split(":")):
        if part.lower() in {"nvidia", "amd", "tpu", "intel", "tenstorrent"}:
            vendor = part.lower()
        elif _NUMBERS.fullmatch(part):
            value = whole(part)
        elif part and not _MEMORY.fullmatch(part):
            model = part if "," not in part else None
    return value, model, vendor


PARSERS: dict[str, Callable[[Found], GpuRequest | None]] = {
    "number": _number,
    "one": _one,
    "some": _some,
    "count-of-model": _count_of_model,
    "dstack": _dstack,
    "k8s-resources": _kubernetes,
    "machine-type": _machine,
    "named-for-gpus": _named,
    "lightning": _lightning,
    "compose-device": _compose,
    "gres": _gres,
}
"""By the name that a row gives; each returns None where there is no sign of GPUs."""
