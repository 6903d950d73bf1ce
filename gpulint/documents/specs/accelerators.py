"""GPU resource names of Kubernetes device plugins, and GPUs per cloud machine type."""

from __future__ import annotations

import re

from gpulint import regex
from gpulint.documents.specs.common import count
from gpulint.documents.tasks import Count
from gpulint.documents.yamltree import Node
from gpulint.records import dataclass

_DOMAINS = {"nvidia.com": "nvidia", "alpha.kubernetes.io": "nvidia", "amd.com": "amd", "gpu.intel.com": "intel"}
"""Vendors of the device plugins whose resources are named ``domain/device``."""
_DEVICE = regex.compile(
    r"gpu|nvidia-gpu|i915|xe"
    r"|(?:gpu[-_.])?(?:(?:tesla|geforce|quadro|rtx|gtx|titan)[-_.]?)*(?P<model>"
    r"(?:rtx|gtx|titan|a|b|gb|gh|h|k|l|m|mi|p|t|v)[-_]?\d{1,4}(?:ti|s|g|x|a)?\b(?:[-_.][\w.-]+)?)",
    re.IGNORECASE,
)
"""Whole GPUs: of any kind, or of a model (``nvidia.com/a100``, ``amd.com/mi300x``, ``nvidia.com/GTX-1080Ti``)."""
_PARTS = regex.compile(
    r"nvidia\.com/(mig-|gpu\.shared|gpumem|gpucores)|aliyun\.com/gpu|volcano\.sh/v?gpu|tencent\.com/vcuda|amd\.com/gpu-"
)
"""Slices, memory and core shares of a GPU: the NVIDIA, Alibaba Cloud, Volcano, Tencent and HAMi device plugins."""
_COUNTED_PARTS = regex.compile(r"nvidia\.com/(mig-|gpu\.shared)|volcano\.sh/v?gpu-number")
"""Those of them whose number counts devices; the others count memory or per cent."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What a task requests of GPUs per node."""

    count: Count
    model: str | None = None
    fractional: bool = False
    vendor: str = "nvidia"


def gpu_request(resources: Node) -> GpuRequest | None:
    """Return what a Kubernetes ``resources`` map asks for; limits come first."""
    for holder in (resources.at("limits"), resources.at("requests")):
        parts = [name.value for name, _ in holder.pairs() if _PARTS.match(name.value)]
        devices = [device for name, _ in holder.pairs() if (device := _device(name.value)) is not None]
        whole = devices[0][0] if devices else None
        if parts and (number := count(holder, parts[0])) is not None:
            counted = next((key for key in parts if _COUNTED_PARTS.match(key)), whole)
            number = (counted and count(holder, counted)) or Count(None, number.span, number.text)
            return GpuRequest(number, None, True, "amd" if parts[0].startswith("amd") else "nvidia")
        found = [
            GpuRequest(number, model, False, vendor)
            for key, vendor, model in devices
            if (number := count(holder, key)) is not None
        ]
        if found:
            return next((request for request in found if request.count.value != 0), found[0])
    return None


def _device(key: str) -> tuple[str, str, str | None] | None:
    """(key, vendor, model) of a resource that counts whole GPUs."""
    domain, _, name = key.partition("/")
    match = _DEVICE.fullmatch(name) if domain in _DOMAINS else None
    return None if match is None else (key, _DOMAINS[domain], match["model"] and match["model"].lower())


# GPUs per machine: aws.amazon.com/ec2/instance-types (accelerated computing), as of 2025.
_AWS = {
    "p2.xlarge": 1, "p2.8xlarge": 8, "p2.16xlarge": 16,
    "p3.2xlarge": 1, "p3.8xlarge": 4, "p3.16xlarge": 8, "p3dn.24xlarge": 8,
    "p4d.24xlarge": 8, "p4de.24xlarge": 8, "p5.4xlarge": 1, "p5.48xlarge": 8, "p5e.48xlarge": 8, "p5en.48xlarge": 8,
    "p6-b200.48xlarge": 8,
    "g3s.xlarge": 1, "g3.4xlarge": 1, "g3.8xlarge": 2, "g3.16xlarge": 4,
    "g4dn.xlarge": 1, "g4dn.2xlarge": 1, "g4dn.4xlarge": 1, "g4dn.8xlarge": 1, "g4dn.12xlarge": 4, "g4dn.16xlarge": 1,
    "g4dn.metal": 8,
} | {
    f"{family}.{size}": gpus
    for family in ("g5", "g6", "g6e")
    for size, gpus in {
        "xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "16xlarge": 1,
        "12xlarge": 4, "24xlarge": 4, "48xlarge": 8,
    }.items()
}  # fmt: skip
_AWS_MODEL = {
    "p2": "k80", "p3": "v100", "p3dn": "v100", "p4d": "a100", "p4de": "a100", "p5": "h100", "p5e": "h200",
    "p5en": "h200", "p6-b200": "b200", "g3": "m60", "g3s": "m60", "g4dn": "t4", "g5": "a10g", "g6": "l4", "g6e": "l40s",
}  # fmt: skip
# learn.microsoft.com/azure/virtual-machines/sizes (GPU accelerated), as of 2025.
_AZURE = {
    "nc6": (1, "k80"), "nc12": (2, "k80"), "nc24": (4, "k80"), "nc24r": (4, "k80"),
    "nc6s_v2": (1, "p100"), "nc12s_v2": (2, "p100"), "nc24s_v2": (4, "p100"), "nc24rs_v2": (4, "p100"),
    "nc6s_v3": (1, "v100"), "nc12s_v3": (2, "v100"), "nc24s_v3": (4, "v100"), "nc24rs_v3": (4, "v100"),
    "nc4as_t4_v3": (1, "t4"), "nc8as_t4_v3": (1, "t4"), "nc16as_t4_v3": (1, "t4"), "nc64as_t4_v3": (4, "t4"),
    "nc24ads_a100_v4": (1, "a100"), "nc48ads_a100_v4": (2, "a100"), "nc96ads_a100_v4": (4, "a100"),
    "nc40ads_h100_v5": (1, "h100"), "nc80adis_h100_v5": (2, "h100"),
    "nd40rs_v2": (8, "v100"), "nd96asr_v4": (8, "a100"), "nd96amsr_a100_v4": (8, "a100"),
    "nd96isr_h100_v5": (8, "h100"), "nd96isr_h200_v5": (8, "h200"),
}  # fmt: skip
# cloud.google.com/compute/docs/accelerator-optimized-machines, as of 2025: the last part of most is the number of GPUs.
_GOOGLE = regex.compile(r"(a2-(?:high|mega|ultra)gpu|a3-(?:high|edge|mega)gpu|a3-ultragpu|a4-highgpu)-(\d+)g")
_GOOGLE_MODEL = {"a2": "a100", "a3": "h100", "a3-ultragpu": "h200", "a4": "b200"}
_GOOGLE_L4 = {
    **dict.fromkeys((f"g2-standard-{cores}" for cores in (4, 8, 12, 16, 32)), 1), "g2-standard-24": 2,
    "g2-standard-48": 4, "g2-standard-96": 8,
}  # fmt: skip


def machine_gpus(machine: str) -> tuple[int, str] | None:
    """(GPUs, model) of an AWS (``ml.p3.8xlarge``, ``p3.8xlarge``), Azure (``Standard_NC24s_v3``) or Google
    (``a2-highgpu-4g``) machine type."""
    name = machine.lower().removeprefix("ml.")
    if name in _AWS:
        return _AWS[name], _AWS_MODEL[name.partition(".")[0]]
    if name in _GOOGLE_L4:
        return _GOOGLE_L4[name], "l4"
    if google := _GOOGLE.fullmatch(name):
        series = google[1]
        return int(google[2]), _GOOGLE_MODEL.get(series) or _GOOGLE_MODEL[series.partition("-")[0]]
    return _AZURE.get(name.removeprefix("standard_"))


def machine_request(holder: Node, key: str) -> tuple[Count | None, str | None]:
    """GPU count and model of the machine type under ``key``; (None, None) for one without GPUs or unknown to us."""
    number = count(holder, key)
    known = machine_gpus(holder.at(key).text) if number else None
    if number is None or known is None:
        return None, None
    return Count(known[0], number.span, number.text), known[1]
