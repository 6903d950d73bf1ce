"""How much a finding concerns: the kind of the samples, the size of a batch in samples and bytes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.constants import figure
from gpulint.placement.host_to_device import HostToDevice
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import loader_argument
from gpulint.values.constants import Constants

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import NodeRef

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, regex.compile(pattern))
    for name, pattern in (
        ("volume", r"\bnib(abel)?\b|SimpleITK|sitk\.|pydicom|\bmonai\b|LoadImaged|torchio|[Vv]olume"),
        ("audio", r"librosa|torchaudio|soundfile|sf\.read|wavfile|[Mm]el_?[Ss]pec|MelSpectrogram|\bwav\b"),
        ("small-image", r"\bCIFAR|cifar10|\bSVHN|STL10|MNIST|TinyImageNet|tiny_imagenet"),
        (
            "image",
            r"Image\.open|cv2\.|imread|ImageFolder|torchvision\.transforms|\btransforms\.|albumentations|ImageNet"
            r"|[Ii]mage_?(dir|path|file|folder|list)|\bPIL\b|VideoReader|decord|pil_loader|default_loader",
        ),
        ("points", r"[Pp]oint_?[Cc]loud|ModelNet|ShapeNet|\bpoint_set\b|farthest_point"),
        ("graph", r"torch_geometric|\bdgl\b|edge_index"),
        ("text", r"[Tt]okeniz|input_ids|\bvocab\b|token_ids|word2id|attention_mask"),
        ("table", r"TensorDataset|read_csv|from_numpy|np\.load|ReplayBuffer"),
    )
)
"""Words of the code that makes samples; the first kind with a word counts."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of some kind of samples; ``stated`` if its size is written in the code."""

    kind: str
    size: int
    stated: bool

    @property
    def bytes(self) -> float:
        """Its bytes on the host."""
        return float(self.size * figure("bytes", self.kind if self.kind != "other" else "table"))

    @property
    def phrase(self) -> str:
        """``32 images``; the kind alone where the size is unknown."""
        names = {"small-image": "small image", "table": "row", "points": "point cloud", "text": "text", "audio": "clip"}
        name = names.get(self.kind, self.kind if self.kind != "other" else "sample")
        return f"batches of {self.size} {name}s" if self.stated else f"{name}s"


def batch_of(subject: Subject, loader: Loader | None) -> Batch:
    """What is known of the batches that a finding concerns."""
    size, stated = figure("assumed", "batch"), False
    if loader is not None:
        argument = loader_argument(subject.project, loader, "batch_size")
        known = [
            value
            for ref in argument.refs
            for value in subject.project.fact(Constants).of(ref.module, ref.node).constants
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 100_000
        ]
        if argument.is_absent:
            size, stated = 1, True
        elif known:
            size, stated = max(known), True
    return Batch(_kind(subject, loader), size, stated)


def _kind(subject: Subject, loader: Loader | None) -> str:
    """The kind of the samples, by the data set's class, else by the module that makes the loader, else by the file."""
    texts: list[str] = []
    if loader is not None:
        if loader.samples_graph:
            return "graph"
        sources = subject.project.fact(HostToDevice).sources(loader)
        made, classes = _made(subject, sources), _classes(subject, sources)
        texts += classes or made
        if not classes:
            texts.append(loader.module.syntax.source.text)
    else:
        texts.append(subject.text)
    for text in texts:
        for name, pattern in _KINDS:
            if pattern.search(text):
                return name
    return "other"


def _made(subject: Subject, sources: list[NodeRef]) -> list[str]:
    """The calls that make the data set, by every name that they may have."""
    resolver, found = subject.project.fact(Resolver), []
    for source in sources:
        for ref in resolver.points_to(source.module, source.node)[:4]:
            if isinstance(ref.node, ast.Call):
                names = " ".join(sorted(resolver.call_names(ref.module, ref.node)))
                found.append(f"{ref.module.syntax.text(ref.node.func)}\n{names}")
    return found


def _classes(subject: Subject, sources: list[NodeRef]) -> list[str]:
    """The names and texts of the data set's classes in the tree."""
    resolver = subject.project.fact(Resolver)
    return [
        module.syntax.text(owner)
        for source in sources
        if isinstance(source.node, ast.expr)
        for module, owner in resolver.classes_of(source.module, source.node)[:2]
    ]


def in_words(count: float) -> str:
    """Bytes for people: ``38 MB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{count:.0f} bytes"
