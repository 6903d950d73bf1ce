"""Programs with layers for which PyTorch takes cuDNN, and programs without."""

from __future__ import annotations

import ast
import re
from itertools import islice
from pathlib import Path

from gpulint import regex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

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
_CONVOLVES = regex.compile(r"(Lazy)?Conv(Transpose)?[123]d|conv(_transpose)?[123]d|LSTM|GRU|RNN")
"""Names of layers and functions of PyTorch that run on cuDNN; a cell of a recurrent layer does not."""
_OF_LIBRARIES = (
    "torchvision.models.",
    "torchaudio.models.",
    "timm.create_model",
    "timm.models.create_model",
    "segmentation_models_pytorch.",
    "efficientnet_pytorch.",
    "pretrainedmodels.",
    "monai.networks.",
    "facenet_pytorch.InceptionResnetV1",
    "ultralytics.",
    "diffusers.UNet",
    "diffusers.AutoencoderKL",
    "mmcv.cnn.ConvModule",
)
"""Where models are made of such layers."""
_LAYERS_OR_LIBRARIES = regex.compile(
    rf"\b({_CONVOLVES.pattern})\b|\b({'|'.join(sorted({name.partition('.')[0] for name in _OF_LIBRARIES}))})\b"
)
_ATTENDS = regex.compile(r"vit|deit|beit|swin|eva\d|mixer|transformer|mae\b", re.IGNORECASE)
"""Names of models whose one convolution makes patches."""
MAX_PROGRAMS = 12


def has_no_layers(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether nothing in the programs that run a statement, nor in their modules, names a convolution, a
    recurrent layer, a norm over batches or a library with models, and others are there."""
    programs = programs_of(project, module, statement)
    return 0 < len(programs) <= MAX_PROGRAMS and all(_is_without(project, path) for path in programs)


def has_layers(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a program that runs a statement certainly makes a layer that cuDNN computes, or a model of a
    library that is made of them."""
    return any(
        _makes_layers(project, part)
        for path in programs_of(project, module, statement)
        for part in project.fact(MultiGpuUse).of(path).modules_where(_may_make_layers)
    )


def _may_make_layers(project: Project, path: Path) -> bool:
    return project.matches(path, _LAYERS_OR_LIBRARIES)


@query
def _makes_layers(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module names such a layer or model of a library; a convolution that makes patches is small, and
    one over single elements is a matrix product, which cuBLAS computes."""
    resolver = project.fact(Resolver)
    nodes: list[ast.Attribute | ast.Name] = [*module.syntax.of(ast.Attribute), *module.syntax.of(ast.Name)]
    for node in nodes:
        names = resolver.names(module, node) if isinstance(node.ctx, ast.Load) else ()
        if any(name.startswith("torch.") and _CONVOLVES.fullmatch(name.rpartition(".")[2]) for name in names):
            if not _is_product(module, node):
                return True
        elif any(name.startswith(_OF_LIBRARIES) for name in names) and not _attends(module, node):
            return True
    return False


def _is_product(module: ModuleIndex, layer: ast.expr) -> bool:
    """``nn.Conv2d(3, width, kernel_size=patch, stride=patch)``, ``nn.Conv2d(width, hidden, kernel_size=1)``"""
    call = module.syntax.parents.get(layer)
    if not isinstance(call, ast.Call) or call.func is not layer:
        return False
    given = dict(zip(("in_channels", "out_channels", "kernel_size", "stride"), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    size, stride = given.get("kernel_size"), given.get("stride")
    if size is None or "groups" in given or any(keyword.arg is None for keyword in call.keywords):
        return False
    if _is_one(size):
        return True
    if stride is None or ast.unparse(size) != ast.unparse(stride):
        return False
    return not isinstance(size, ast.Constant) or size.value not in (2, 3)


def _is_one(size: ast.expr) -> bool:
    """``1``, ``(1, 1)``"""
    sizes = size.elts if isinstance(size, ast.Tuple | ast.List) else [size]
    return all(isinstance(one, ast.Constant) and one.value == 1 for one in sizes)


def _attends(module: ModuleIndex, model: ast.expr) -> bool:
    """``torchvision.models.vit_b_16()``, ``timm.create_model("swin_base_patch4_window7_224")``"""
    call = module.syntax.parents.get(model)
    first = call.args[0] if isinstance(call, ast.Call) and call.func is model and call.args else None
    called = str(first.value) if isinstance(first, ast.Constant) else ""
    return bool(_ATTENDS.search(last_name(model)) or _ATTENDS.search(called))


def _is_without(project: Project, path: Path) -> bool:
    program = project.fact(MultiGpuUse).of(path)
    return (
        program.trains
        and not program.loads_by_name
        and program.libraries <= _WITHOUT
        and program.mentions(_OTHERS)
        and not program.mentions(_LAYERS)
    )


def programs_of(project: Project, module: ModuleIndex, statement: ast.AST) -> list[Path]:
    """The modules that nothing imports among those that run a statement; more than ``MAX_PROGRAMS`` if there are too
    many to look at all."""
    function = module.function(statement)
    sites = project.fact(Resolver).call_sites(module, function) if function is not None else ()
    found: dict[Path, None] = {}
    for home in {site.module.path for site in sites} or {module.path}:
        users = list(islice(project.fact(GpuPrograms).users(home), MAX_PROGRAMS + 1))
        ends = [user for user in users if next(project.fact(GpuPrograms).users(user), None) is None]
        found.update(dict.fromkeys(ends if users else [home]))
    return list(found)
