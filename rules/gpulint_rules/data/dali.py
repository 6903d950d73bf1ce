"""A DALI pipeline in the names of a data set that decodes its images itself; text for a finding's help. Only for sets
of single images with a label each, which are resized and perhaps mirrored: of others it would make other samples."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, last_name

_OPENERS = frozenset({"open", "imread", "read_image", "decode_image", "default_loader", "pil_loader"})
_LABEL = regex.compile(r"label|class|cls|target|kind|categor", re.IGNORECASE)
_RESIZES = regex.compile(r"\.resize\(|\bResize\(")
_OTHER = regex.compile(
    r"Rotat|Affine|Jitter|Perspective|Blur|Grayscale|Erasing|RandAugment|AutoAugment|VerticalFlip|keras"
)
"""Changes of images that the pipeline does not make, and a library that has no loader of DALI."""
_PIPELINE = """\
@pipeline_def(batch_size=batch_size, num_threads=4, device_id=0)  # nvidia.dali
def {function}():
    {jpegs}, {label} = fn.readers.file(files={files}, labels=labels, random_shuffle=True, name="reader")
    {image} = fn.decoders.image({jpegs}, device="mixed")
    {image} = fn.{resize}({image}, {size})
    return fn.crop_mirror_normalize({image}, {mirror}dtype=types.FLOAT), {label}
loader = DALIGenericIterator({function}(), ["{image}", "{label}"], reader_name="reader")"""


def pipeline(module: ModuleIndex, owner: ast.ClassDef, function: FunctionNode) -> str:
    """The pipeline that does the work of ``__getitem__`` of a class; empty where it might do other work."""
    text = module.syntax.source.text
    opened = [part for part in walk(function) if isinstance(part, ast.Call) and last_name(part.func) in _OPENERS]
    names = _returned(function)
    crops = "RandomResizedCrop" in text
    if names is None or len(opened) != 1 or not (crops or _RESIZES.search(text)) or _OTHER.search(text):
        return ""
    image, label = names
    return _PIPELINE.format(
        function=f"{owner.name.lower()}_pipeline",
        jpegs="encoded",
        image=image,
        label=label,
        files=_files(function),
        resize="random_resized_crop" if crops else "resize",
        size="size=224" if crops else "size=(224, 224)",
        mirror="mirror=fn.random.coin_flip(), " if "HorizontalFlip" in text else "",
    )


def _returned(function: FunctionNode) -> tuple[str, str] | None:
    """Return what the function calls the image and the label that it returns; None if it returns anything else."""
    returns = [node.value for node in walk(function) if isinstance(node, ast.Return)]
    match returns:
        case [ast.Tuple(elts=[ast.Name(id=image), ast.Name(id=label)])] if _LABEL.search(label):
            return image, label
    return None


def _files(function: FunctionNode) -> str:
    """The list that image paths are taken from: ``self.paths`` of ``Image.open(self.paths[index])``."""
    bound = {
        node.targets[0].id: node.value
        for node in walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in walk(function):
        if isinstance(node, ast.Call) and last_name(node.func) in _OPENERS and node.args:
            path = node.args[0]
            path = bound.get(path.id, path) if isinstance(path, ast.Name) else path
            if isinstance(path, ast.Subscript) and isinstance(path.value, ast.Name | ast.Attribute):
                return ast.unparse(path.value).replace("self.", "dataset.", 1)
    return "paths"
