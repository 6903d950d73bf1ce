"""Programs without layers for which PyTorch takes cuDNN."""

from __future__ import annotations

import ast
import re
from itertools import islice
from pathlib import Path

from gpulint import regex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex

_LAYERS = regex.compile(
    r"conv(?!er|ent|ex|ey|inc)|gru|lstm|rnn|cnn|batch_?norm|bn\b|pool(?!\(|executor|_?size)|ctc|resnet|u_?net|vgg|mobilenet"
    r"|torchvision|torchaudio|timm|monai|diffusers|transformers|torch\.hub|(model|net)\w{0,40}\s{0,4}=\s{0,4}torch\.load\(|jit\.load"
    r"|smp\b|clip\b|vit|yolo|_geometric|grid_?sample|affine_grid",
    re.IGNORECASE,
)
"""What runs cuDNN, or is part of a library with models that do."""
_OTHERS = regex.compile(r"\b(Linear|Embedding|MultiheadAttention|Transformer(Encoder|Decoder)?(Layer)?|LayerNorm)\(")
"""Layers without cuDNN: a program that makes them shows what its models are made of."""
_WITHOUT = frozenset({"torch", "torchmetrics", "tensorboard", "wandb"})
"""GPU libraries that add no such layer to a program on their own."""
MAX_PROGRAMS = 12


def has_no_layers(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether nothing in the programs that run a statement, nor in their modules, names a convolution, a
    recurrent layer, a norm over batches or a library with models, and others are there."""
    programs = _programs(project, module, statement)
    return bool(programs) and all(_is_without(project, path) for path in programs)


def _is_without(project: Project, path: Path) -> bool:
    program = project.fact(MultiGpuUse).of(path)
    return (
        program.trains
        and not program.loads_by_name
        and program.libraries <= _WITHOUT
        and program.mentions(_OTHERS)
        and not program.mentions(_LAYERS)
    )


def _programs(project: Project, module: ModuleIndex, statement: ast.stmt) -> list[Path]:
    """The modules that nothing imports among those that run a statement; none if there are too many."""
    function = module.function(statement)
    sites = project.fact(Resolver).call_sites(module, function) if function is not None else ()
    found: dict[Path, None] = {}
    for home in {site.module.path for site in sites} or {module.path}:
        users = list(islice(project.fact(GpuPrograms).users(home), MAX_PROGRAMS + 1))
        if len(users) > MAX_PROGRAMS:
            return []
        ends = [user for user in users if next(project.fact(GpuPrograms).users(user), None) is None]
        found.update(dict.fromkeys(ends if users else [home]))
    return list(found)
