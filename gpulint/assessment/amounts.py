"""How much a finding concerns: the kind of the samples, the size of a batch in samples and bytes."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.constants import figure
from gpulint.assessment.image_sides import MAX_CLASSES, classes_of, side, takes_slices
from gpulint.assessment.narrow_rows import MANY, holds_rows
from gpulint.assessment.sample_kinds import kind_of, of_module
from gpulint.assessment.sample_sizes import Sample, sample_of
from gpulint.assessment.self_tests import in_programs
from gpulint.documents.call_syntax import with_defaults
from gpulint.documents.python import walk
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import loader_argument
from gpulint.training.undrawn_loaders import UndrawnLoaders
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Constants
from gpulint.values.default_files import with_others
from gpulint.values.unknown_overrides import left_in_force
from gpulint.workload.dataset_work import parts_of
from gpulint.workload.drawn_alone import draws_one
from gpulint.workload.trainer_workers import ARGUMENTS
from gpulint.workspace.module_index import NodeRef, dotted, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.impact import Range
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workload.item_work import ItemWork
    from gpulint.workspace.module_index import ModuleIndex

_JOINS = frozenset({"stack", "cat", "concat", "concatenate", "vstack"})
_GROUPS = frozenset({"batched", "batch"})
_GREY = regex.compile(r"\bGrayscale\(\s*(num_output_channels\s*=\s*)?1?\s*\)|convert\(['\"]L['\"]\)|IMREAD_GRAYSCALE")
_WHOLE = regex.compile(r"\b(PILToTensor|pil_to_tensor)\(")
"""What makes tensors of images as they are: a byte for each number of a pixel."""
_OTHER_TYPES = regex.compile(r"\b(To(Dtype|Tensor|TensorV2)|[Cc]onvert_?[Ii]mage_?[Dd]type|to_dtype|Normalize)\(")
_COLOUR = regex.compile(r"\bGrayscale\(\s*(num_output_channels\s*=\s*)?3|convert\(['\"]RGB['\"]\)|IMREAD_COLOR")
MAX_BATCH = 100_000
"""Numbers from here on are no samples of one batch."""
TRAINER_BATCH = 8
"""The default of ``per_device_train_batch_size``."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of some kind of samples; ``stated`` if its size is written in the code."""

    kind: str
    size: int
    stated: bool
    side: int = 0
    """Pixels of a side of its images, where the code says it."""
    channels: int = 3
    """Numbers of a pixel."""
    width: int = 4
    """Bytes of each."""
    flat: bool = False
    """Its samples are slices of volumes."""
    single: bool = True
    """The code names one size at most, not one for each of several commands."""
    sample: Sample | None = None
    """What each sample surely holds, where each step to what the data set returns is understood, and the code names one
    size of the batch."""
    guessed: bool = False
    """Nothing but the words of the loader's module tells the kind."""

    @property
    def bytes(self) -> float:
        """Its bytes on the host, estimated if no ``sample`` is known; of a kind that is guessed, few."""
        if self.sample is not None:
            return float(self.size * self.sample.bytes)
        if self.kind == "image" and self.side:
            return float(self.size * self.channels * self.side**2 * self.width)
        kind = "image" if self.flat else self.kind if self.kind != "other" else "table"
        each = figure("bytes", kind)
        return float(self.size * (min(each, figure("bytes", "small-image")) if self.guessed else each))

    @property
    def is_known(self) -> bool:
        """Whether the code names one size."""
        return self.stated and self.single

    @property
    def phrase(self) -> str:
        """``batches of 32``; ``batches`` unless the code names one size."""
        return f"batches of {self.size}" if self.is_known else "batches"


def batch_of(subject: Subject, loader: Loader | None) -> Batch:
    """Return what is known of the batches that a finding concerns."""
    if loader is not None:
        return loader_batch(subject.project, loader)
    kind = of_module(subject.module) if subject.module is not None else "other"
    if known := _of_trainer(subject):
        return Batch(kind, max(known), True, single=len(known) == 1)
    return Batch(kind, _usual(kind), False)


def _of_trainer(subject: Subject) -> frozenset[int]:
    """The samples of a step of a trainer of Hugging Face on each GPU, by the arguments that a finding is about; none
    where they are unknown."""
    module, node = subject.module, subject.node
    if module is None or not isinstance(node, ast.Call) or not ARGUMENTS.search(last_name(node.func)):
        return frozenset()
    arguments = subject.project.fact(Arguments)
    size = arguments.of(module, node, "per_device_train_batch_size")
    parts = _sizes(subject.project, arguments.of(module, node, "gradient_accumulation_steps").refs)
    sizes = [TRAINER_BATCH] if size.is_absent else _sizes(subject.project, size.refs)
    return frozenset(one * max(parts, default=1) for one in sizes)


@query
def loader_batch(project: Project, loader: Loader) -> Batch:
    """Return what is known of the batches of a loader."""
    size, stated, single = figure("assumed", "batch"), False, True
    argument = loader_argument(project, loader, "batch_size")
    known = _sizes(project, _of_drawn(project, argument.refs))
    if argument.is_absent:
        stated = loader_argument(project, loader, "batch_sampler").is_absent
        size = 1 if stated else size
    elif known := known or _grouped(project, loader):
        size, stated, single = max(known), True, len(set(known)) == 1
    found, guessed = kind_of(project, loader)
    if found == "text" and not known and draws_one(project, loader):
        size, stated = 1, True
    pixels, channels = (side(project, loader), _channels(project, loader)) if found == "image" else (0, 3)
    flat = found == "volume" and takes_slices(project, loader)
    joined = stated and _joins_pieces(project, loader)
    width = 1 if pixels and _keeps_bytes(project, loader) else 4
    sample = sample_of(project, loader) if stated and single and not joined else None
    size = size if stated else max(_usual(found), *_of_same_set(project, loader), 0)
    found = "narrow" if stated and size >= MANY and holds_rows(project, loader, found) else found
    return Batch(found, size, stated, pixels, channels, width, flat, single, sample, guessed)


def _of_same_set(project: Project, loader: Loader) -> list[int]:
    """Return the sizes that the code names for other batches that a function draws from the data set of a loader whose
    own sampler decides how many samples a batch has."""
    if loader_argument(project, loader, "batch_sampler").is_absent or not loader.node.args:
        return []
    drawn, function = ast.unparse(loader.node.args[0]), loader.module.function(loader.node)
    arguments = project.fact(Arguments)
    return [
        size
        for call in loader.module.calls_by_name.get(last_name(loader.node.func), ())
        if call is not loader.node and loader.module.function(call) is function
        if call.args and ast.unparse(call.args[0]) == drawn
        for size in _sizes(project, arguments.of(loader.module, call, "batch_size").refs)
    ]


def _of_drawn(project: Project, refs: Iterable[NodeRef]) -> list[NodeRef]:
    """Return the sizes, of a parameter those of the calls from whose loader more than one batch is drawn, if there are
    others: ``next(iter(make_loader(batch_size=5000)))``."""
    return [one for ref in refs for one in (_passed_for_drawn(project, ref) or [ref])]


def _passed_for_drawn(project: Project, size: NodeRef) -> list[NodeRef]:
    """Return what calls pass that draw more than one batch; nothing if all calls do, or none."""
    function = size.module.function(size.node)
    if not isinstance(size.node, ast.Name) or not isinstance(function, ast.FunctionDef):
        return []
    name = size.node.id
    if name not in parameters(function) or len(size.module.scope(size.node).lookup(name)) != 1:
        return []
    undrawn, sites = project.fact(UndrawnLoaders), project.fact(Resolver).call_sites(size.module, function)
    drawn = [
        site
        for site in sites
        if isinstance(site.node, ast.Call)
        and not undrawn.only_first_batches(site.module, site.node)
        and not undrawn.is_kept_for_nothing(site.module, site.node)
    ]
    if len(drawn) == len(sites):
        return []
    default = next((value for arg, value in with_defaults(function.args) if arg.arg == name), None)
    own = NodeRef(size.module, default) if default is not None else None
    passed = (
        (site.module, argument_of(function, site.node, name)) for site in drawn if isinstance(site.node, ast.Call)
    )
    found = [NodeRef(module, value) if value is not None else own for module, value in passed]
    return [one for one in found if one is not None]


def _sizes(project: Project, refs: Iterable[NodeRef]) -> list[int]:
    """Return the numbers that expressions may be, as far as they are those of samples; none if one is unknown."""
    constants = project.fact(Constants)
    known = [
        in_programs(project, with_others(project, constants.of(ref.module, ref.node).values))
        or left_in_force(project, constants.configs, ref)
        for ref in refs
    ]
    if not all(known):
        return []  # the batches that a size is known for may be others
    return [
        value
        for values in known
        for value in (one.value for one in values)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_BATCH
    ]


def _grouped(project: Project, loader: Loader) -> list[int]:
    """Return the size of batches that the data set makes: ``DataLoader(samples.batched(12), batch_size=None)``."""
    points_to = project.fact(Resolver).points_to
    made = (ref for at in project.fact(HostToDevice).sources(loader) for ref in points_to(at.module, at.node))
    sizes = (
        NodeRef(ref.module, ref.node.args[0])
        for ref in made
        if isinstance(ref.node, ast.Call) and last_name(ref.node.func) in _GROUPS and ref.node.args
    )
    return _sizes(project, sizes)


def _joins_pieces(project: Project, loader: Loader) -> bool:
    """Return whether a data set puts each sample together of pieces that a loop makes, or that a function returns."""
    resolver = project.fact(Resolver)
    methods = (
        resolver.method(module, owner, "__getitem__")
        for source in parts_of(project, loader)
        if isinstance(source.node, ast.expr)
        for module, owner in resolver.classes_of(source.module, source.node)[:MAX_CLASSES]
    )
    return any(method is not None and any(map(_is_join, walk(method.node))) for method in methods)


def _is_join(part: ast.AST) -> bool:
    """``torch.stack(crops)``, not ``torch.stack([first, second])``."""
    return (
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in _JOINS
        and dotted(part.func.value) in ("torch", "np", "numpy")
        and bool(part.args)
        and not isinstance(part.args[0], ast.List | ast.Tuple)
    )


def _channels(project: Project, loader: Loader) -> int:
    """One where all images of a module, or of that of the data set, are made grey (``transforms.Grayscale()``), else
    three."""
    modules = dict.fromkeys((loader.module, *(module for module, _ in classes_of(project, loader))))
    told = {_colours(module) for module in modules} - {0}
    return 1 if told == {1} else 3


def _keeps_bytes(project: Project, loader: Loader) -> bool:
    """Return whether the images of a loader stay bytes until they are on the GPU: ``transforms.PILToTensor()``."""
    modules = dict.fromkeys((loader.module, *(module for module, _ in classes_of(project, loader))))
    return any(map(_makes_bytes, modules))


@query
def _makes_bytes(module: ModuleIndex) -> bool:
    """Return whether a module makes tensors of images, none of which it converts."""
    text = module.syntax.source.text
    return regex.occurs(_WHOLE, text) and not regex.occurs(_OTHER_TYPES, text)


@query
def _colours(module: ModuleIndex) -> int:
    """One or three, or 0 where a module names neither grey images nor coloured ones."""
    text = module.syntax.source.text
    return 3 if regex.occurs(_COLOUR, text) else int(regex.occurs(_GREY, text))


def _usual(kind: str) -> int:
    """Samples of a batch whose size is unknown."""
    return int(figure("assumed", "volumes" if kind == "volume" else "batch"))


_ARRAYS = frozenset({"file", "compute", "loop", "collect", "each"})
"""Work for samples that are read as arrays."""


def as_stored(work: ItemWork, batch: Batch) -> Batch:
    """The batch, of no kind where its samples are read as arrays and nothing decodes or transforms them: they may be
    features of the images or clips that the code speaks of."""
    if batch.kind in ("image", "audio") and work.known and "file" in work.kinds and _ARRAYS.issuperset(work.kinds):
        return dataclasses.replace(batch, kind="other", side=0)
    return batch


def sample_seconds(work: ItemWork, batch: Batch) -> Range:
    """Seconds of one sample, the least and the most, of all that is seen to be done for it."""
    kinds = work.kinds
    if batch.kind == "small-image":
        kinds = tuple(dict.fromkeys("small-image" if kind in ("image", "transform") else kind for kind in kinds))
    found = [figure("sample_seconds", kind) for kind in kinds]
    return sum(low for low, _ in found), sum(high for _, high in found)


def in_words(count: float) -> str:
    """Bytes for people: ``38 MB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{count:.0f} bytes"
