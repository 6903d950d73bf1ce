"""The kind of the samples of a loader: images, volumes, texts, by the code that makes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.image_sides import MAX_CLASSES
from gpulint.assessment.index_rows import gives_index_rows
from gpulint.assessment.narrow_rows import gives_narrow_rows
from gpulint.placement.dataset_parts import made_from
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.inner_sets import sets_within
from gpulint.placement.text_items import gives_texts
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, regex.compile(pattern))
    for name, pattern in (
        (
            "volume",
            r"\bnib(abel)?\b|SimpleITK|sitk\.|pydicom|\bmonai\b|LoadImaged|torchio|\btio\."
            r"|\b(spatial|roi|patch|output|crop|img)_size\s*=\s*[(\[]\s*\d{2,4}\s*,\s*\d{2,4}\s*,\s*\d{2,4}\s*[)\]]",
        ),
        ("audio", r"librosa|torchaudio|soundfile|sf\.read|wavfile|[Mm]el_?[Ss]pec|MelSpectrogram|\bwav\b"),
        ("small-image", r"\bCIFAR|cifar10|\bSVHN|STL10|MNIST|TinyImageNet|tiny_imagenet"),
        (
            "image",
            r"Image\.open|cv2\.|imread|ImageFolder|torchvision\.transforms|\btransforms\.|albumentations|ImageNet"
            r"|ImageDataGenerator|[Ii]mage_?(dir|path|file|folder|list)|\bPIL\b|decode\(['\"](pil|rgb|torchrgb)|VideoReader|decord|pil_loader|default_loader",
        ),
        ("points", r"[Pp]oint_?[Cc]loud|ModelNet|ShapeNet|\bpoint_set\b|farthest_point"),
        ("graph", r"torch_geometric|\bdgl\b|edge_index"),
        ("text", r"[Tt]okeniz|input_ids|\bvocab\b|token_ids|word2id|attention_mask"),
        ("table", r"TensorDataset|read_csv|from_numpy|np\.load|ReplayBuffer"),
    )
)
"""Words of the code that makes samples; the first kind with a word counts."""
_SURFACE = regex.compile(r"\.gii\b|[Gg]ifti|\bdarrays\b|\bagg_data\b")
"""Values on a surface, for each of its points, which nibabel reads as well as volumes."""
_VOLUME = regex.compile(r"[Vv]olume(?!\()")
"""A volume: of space, or else what was traded, or how loud something is."""
_SPACE = regex.compile(
    r"[Vv]oxel|(?<![A-Za-z])[Ss]lices?(?![A-Za-z(])|[Dd]epth[ ,_]+h(eight)?\b|\bD, ?H, ?W\b|\bCT\b|\bMRI?\b|[Ss]cans?\b"
    r"|[Dd]icom|[Nn]ifti|\.(nii|mha|mhd|nrrd)\b|[Tt]umou?r|[Ll]esion|[Bb]rain|[Oo]rgans?\b|[Ss]egmentation|3[dD](?![a-z])"
    r"|[Mm]icroscop"
)
"""Words beside the former one that speak of space."""
_PLANE = regex.compile(r"Image\.open|imread|ToPILImage|Image\.fromarray|pil_loader")
"""Functions for images of two dimensions."""
_COMMENT = regex.compile(r"(^|\s)#[^\n]*")

_OF_GRAPHS = ("torch_geometric.", "dgl.")
"""Libraries whose loaders make batches of graphs."""
_WRAPPERS = frozenset({"ConcatDataset", "ChainDataset", "Subset", "random_split"})


@query
def kind_of(project: Project, loader: Loader) -> tuple[str, bool]:
    """The kind of the samples, by the data set's class, else by the call that makes it, else by the module, which is a
    guess."""
    if loader.samples_graph:
        return "neighbors" if loader.name.endswith(".NeighborSampler") else "graph", False
    resolver = project.fact(Resolver)
    sources = [part for source in project.fact(HostToDevice).sources(loader) for part in _parts(resolver, source)]
    classes = [
        _of_class(project, module, owner)
        for source in sources
        if isinstance(source.node, ast.expr)
        for module, owner in resolver.classes_of(source.module, source.node)[:MAX_CLASSES]
    ]
    if classes:
        return _with_inner(project, sources, classes[0]), False
    made = (name for source in sources for name in _made(project, source))
    if found := next((name for name in made if name != "other"), None):
        return found, False
    return ("graph", False) if loader.name.startswith(_OF_GRAPHS) else (of_module(loader.module), True)


def _with_inner(project: Project, sources: list[NodeRef], own: str) -> str:
    """The kind by the class of a data set, or by the data sets that its samples are taken from where the class tells
    nothing, or no size of its images (``Named(CIFAR10(root))``)."""
    if own not in ("other", "image"):
        return own
    inner = (one for source in sources for one in sets_within(project, made_from(project, [source])))
    kinds = [kind for one in inner if one not in sources for kind in _of_set(project, one) if kind != "other"]
    return next((kind for kind in kinds if own == "other" or kind == "small-image"), own)


def _of_set(project: Project, made: NodeRef) -> Iterator[str]:
    assert isinstance(made.node, ast.expr)
    classes = project.fact(Resolver).classes_of(made.module, made.node)[:MAX_CLASSES]
    yield from (_of_class(project, *owner) for owner in classes) if classes else _made(project, made)


def _parts(resolver: Resolver, source: NodeRef) -> list[NodeRef]:
    """The data sets that are put together (``ConcatDataset([first, second])``), or of which a part is taken."""
    for ref in resolver.points_to(source.module, source.node)[:MAX_CLASSES]:
        if isinstance(ref.node, ast.Call) and last_name(ref.node.func) in _WRAPPERS and ref.node.args:
            given = ref.node.args[0]
            parts = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
            return [NodeRef(ref.module, part) for part in parts]
    return [source]


def _made(project: Project, source: NodeRef) -> Iterator[str]:
    """The kind of samples by the names of the calls that make a data set."""
    resolver = project.fact(Resolver)
    for ref in resolver.points_to(source.module, source.node)[:MAX_CLASSES]:
        if isinstance(ref.node, ast.Call):
            names = " ".join(sorted(resolver.call_names(ref.module, ref.node)))
            yield _of_text(f"{ref.module.syntax.text(ref.node.func)} {names}")
            yield _of_text(_chain(resolver, ref.module, ref.node.func))


def _chain(resolver: Resolver, module: ModuleIndex, func: ast.expr) -> str:
    """The calls that make what a method is called on (``samples = WebDataset(urls).decode("pil")``)."""
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
        return ""
    made = resolver.points_to(module, func.value)[:MAX_CLASSES]
    return "\n".join(ref.module.syntax.text(ref.node) for ref in made if isinstance(ref.node, ast.Call))


@query
def _of_class(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> str:
    kind = _of_text(module.syntax.text(owner))
    if kind != "text" and gives_texts(project, module, owner):
        return "other"
    if kind != "text" and gives_narrow_rows(project, module, owner):
        return "narrow"
    return "table" if kind not in ("text", "table") and gives_index_rows(project, module, owner) else kind


@query
def of_module(module: ModuleIndex) -> str:
    return _of_text(module.syntax.source.text)


def _of_text(text: str) -> str:
    said = _COMMENT.sub("", text)
    if _VOLUME.search(said) and _SPACE.search(said) and not _PLANE.search(said):
        return "volume"
    found = (name for name, pattern in _KINDS if pattern.search(said))
    return next((name for name in found if name != "volume" or not _SURFACE.search(said)), "other")
