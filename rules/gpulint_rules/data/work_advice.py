"""What to do about work of the CPU for each item of a data set."""

from __future__ import annotations

import ast

from gpulint.workload.sample_preprocessing import IMAGES, PIXELS, RESAMPLES, TOKENISES, VIDEO, VOLUMES
from gpulint.workspace.module_index import FunctionNode, ModuleIndex
from gpulint_rules.data.dali import pipeline

WORK_ADVICE = {
    IMAGES: "decode and augment on the GPU (NVIDIA DALI, torchvision.transforms.v2 on batches) or store resized images",
    RESAMPLES: "resample batches on the GPU (torchvision.transforms.v2, Kornia), or store images of the sizes needed",
    PIXELS: "change batches on the GPU (torchvision.transforms.v2, Kornia)",
    VIDEO: "decode on the GPU (TorchCodec, NVIDIA DALI), or store the frames that training takes",
    VOLUMES: "store resampled volumes as arrays before the job, cache them, or augment batches on the GPU",
    "computes on audio": "resample and extract features once before the job, or compute them on the GPU batch by batch",
    TOKENISES: (
        "tokenise once before training (`datasets.map(..., batched=True, num_proc=...)` in a CPU step) "
        "and store the ids"
    ),
}


def advice(work: str, module: ModuleIndex, owner: ast.ClassDef | None, function: FunctionNode) -> str:
    """Return what to do, with a pipeline of DALI where one can be written."""
    if work != IMAGES or owner is None or function.name != "__getitem__":
        return WORK_ADVICE[work]
    made = pipeline(module, owner, function)
    return f"{WORK_ADVICE[work]}; with DALI instead of {owner.name}:\n{made}" if made else WORK_ADVICE[work]
