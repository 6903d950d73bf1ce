"""Work that the CPU does for every item of a data set: decoding and augmenting images, audio features, tokenisation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loader_calls import Loader
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.sample_draws import Readers
from gpulint.workload.applied_transforms import computes_anew, moves_pixels
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, ModuleIndex, NodeRef, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_HELPERS = 4
"""How many calls deep a helper is followed."""

_FOLDERS = frozenset(
    {f"torchvision.datasets.{name}" for name in ("ImageFolder", "DatasetFolder", "folder.ImageFolder")}
)
_CHANGES = regex.compile(
    r"transform|resize|crop|augment|affine|rotate|warp|jitter|blur|normali[sz]e_image|preprocess|(^|_)(trans|aug)(_|$)",
    re.IGNORECASE,
)
_AUDIO = regex.compile(
    r"^(librosa\.(load$|resample|feature\.|effects\.|stft|cqt)|torchaudio\.(transforms\.(Resample|"
    r"MelSpectrogram|MFCC|Spectrogram)|"
    r"functional\.resample|compliance\.kaldi\.)|torch\.stft$|python_speech_features\.|speechpy\.|audiomentations\.)"
)
_RESAMPLES = regex.compile(
    r"^(cv2\.(resize|warpAffine|warpPerspective|remap)"
    r"|skimage\.transform\.\w+|scipy\.ndimage\.(\w+\.)?(zoom|rotate|affine_transform|map_coordinates)"
    r"|torchvision\.transforms\.(v2\.)?functional\.(resize|resized_crop|rotate|affine|perspective|elastic_transform))$"
)
"""Functions that compute every pixel of an image or volume anew from several others."""
_FILTERS = regex.compile(
    r"^(cv2\.(GaussianBlur|medianBlur|bilateralFilter)|scipy\.ndimage\.(\w+\.)?gaussian_filter"
    r"|torchvision\.transforms\.(v2\.)?functional\.gaussian_blur)$"
)
"""Functions that leave an image's pixels where they are, and change all of them."""
_FILTER = regex.compile(r"^(Image\.|PIL\.Image\.)?(Image\.)?(Resampling\.)?(BICUBIC|BILINEAR|LANCZOS|ANTIALIAS)$")
"""How PIL resizes an image."""
_SPECTROGRAM = regex.compile(r"^_?((get|compute|extract)_)?(log_)?mel_?spec(trogram)?$")
"""Methods that work out a spectrogram, however they do it."""
IMAGES = "decodes and transforms images"
RESAMPLES = "resamples images"
PIXELS = "changes all pixels of images"
VIDEO = "decodes video"
VOLUMES = "decodes and transforms volumes"
TOKENISES = "tokenises text"
_TOKENIZE = regex.compile(r"^(\w*tokenizer|tokenize|\w*_tokenize)$")
_PROCESSOR = regex.compile(r"^(\w*_)?(image_)?(processor|feature_extractor)$")
"""Hugging Face's processors of images, audio and text."""
_PAGES = frozenset({"boxes", "word_labels"})
"""What a processor of scanned pages takes beside them."""
_ENCODE = frozenset({"encode", "encode_plus", "batch_encode_plus", "tokenize"})
_COLLATE = regex.compile(r"^_?(\w+_)?collate(_\w+)?$")
_GIVEN_TO_COLLATE = frozenset({"collate_fn", "data_collator"})
_COLLATOR = regex.compile(r"Collat(or|e)")
_WORD = regex.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_HELD_OUT = regex.compile(
    r"(val|valid|validation|test|eval|evaluation|dev|infer|inference|predict)(set|data|dataset|loader|ds|dl)?",
    re.IGNORECASE,
)


_APPLIES = regex.compile(r"(^|_)(detect|demo|infer|inference|predict|visuali[sz]e)(_|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PreprocessingStep:
    """Heavy work in a function that runs for every item or batch; ``call`` does it or leads to it."""

    function: FunctionNode
    call: ast.Call
    work: str


class SamplePreprocessing:
    """Heavy work on the way from data set to model, in one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._files = project.models.derived(Readers)

    def per_item(self, module: ModuleIndex) -> Iterator[PreprocessingStep]:
        """Functions that do heavy work for every item: ``__getitem__``, streams, collate functions, item pipelines."""
        if is_held_out(module.path.stem):
            return
        for function in module.functions:
            if not self._is_per_item(module, function) or is_held_out(function.name):
                continue
            owner = module.class_of(function)
            if owner is not None and (is_held_out(owner.name) or self._only_shown(module, owner)):
                continue
            if owner is not None and not self._may_train(module, owner):
                continue
            if (found := self.heavy(module, function)) is not None:
                yield found

    def _only_shown(self, module: ModuleIndex, owner: ast.ClassDef) -> bool:
        """Return whether only programs that apply a trained model (``detect.py``, ``demo.py``) use a data set."""
        users = [
            user.path
            for user in self._project.users_of(module, {owner.name})
            if user is not module and not self._project.is_test(user.path)
        ]
        return bool(users) and all(_APPLIES.search(path.stem) or is_held_out(path.stem) for path in users)

    def _may_train(self, module: ModuleIndex, owner: ast.ClassDef) -> bool:
        """False if what draws from the loaders of a data set only infers, to encode its samples once and store them,
        say."""
        loops = list[NodeRef]()
        for user in self._project.users_of(module, {owner.name}):
            made = set(user.calls_by_name.get(owner.name, ()))
            for loader, read in self._readers(user).get(owner, {}).items():
                made -= read
                loops += [
                    batch_read.where
                    for batch_read in self._project.fact(BatchFlow).of_loader(loader.module, loader.node)
                    if read
                ]
            if made:
                return True  # for an unknown loader
        return any(map(self._steps, loops)) or not any(map(self._infers, loops))

    @query
    def _readers(self, module: ModuleIndex) -> dict[ast.ClassDef, dict[Loader, set[ast.AST]]]:
        """The classes of what the loaders of a module read -> these loaders, with the calls that make it."""
        table = dict[ast.ClassDef, dict[Loader, set[ast.AST]]]()
        resolver = self._project.fact(Resolver)
        for loader in self._project.fact(LoaderFlow).in_module(module):
            for source in self._project.fact(HostToDevice).sources(loader):
                assert isinstance(source.node, ast.expr)
                for _, owner in resolver.classes_of(source.module, source.node):
                    made = resolver.points_to(source.module, source.node)
                    table.setdefault(owner, {}).setdefault(loader, set()).update(ref.node for ref in made)
        return table

    def _steps(self, loop: NodeRef) -> bool:
        """Return whether a loop, or what else draws a batch, may take a training step."""
        return not isinstance(loop.node, LOOPS) or (
            self._project.fact(LoopContexts).role(loop.module, loop.node) not in (Role.EVAL, Role.OTHER)
        )

    def _infers(self, loop: NodeRef) -> bool:
        """Return whether a loop runs something without gradients."""
        calls = self._project.fact(LoopContexts).calls_in(loop.module, loop.node)
        return any(self._project.fact(Guards).is_without_gradients(loop.module, call) for call in calls)

    @query
    def heavy(
        self, module: ModuleIndex, function: FunctionNode, depth: int = MAX_HELPERS, changes: bool = False
    ) -> PreprocessingStep | None:
        """The heavy work that a function does itself or through helpers of the tree; ``changes`` if its caller changes
        images."""
        calls = module.calls_of(function)
        changes = changes or any(_CHANGES.search(last_name(call.func)) for call in calls)
        done = [(call, work) for call in calls if (work := self.work(module, call, changes))]
        if heavier := next((step for step in done if step[1] not in (RESAMPLES, PIXELS)), None):
            return PreprocessingStep(function, *heavier)
        resampled = PreprocessingStep(function, *done[0]) if done else None
        for call in calls if depth else ():
            if self._puts_together(module, function) and self._project.fact(Guards).is_conditional(module, call):
                continue  # a repair for odd batches, not what happens to each
            for callee in self._project.fact(Resolver).callees(module, call):
                if not isinstance(callee.node, FUNCTIONS) or callee.node is function or callee.node.name == "__init__":
                    continue
                if self._project.fact(Guards).is_without_gradients(callee.module, callee.node.body[-1]):
                    continue  # it runs a model, as one that embeds sentences does
                inner = self._within(callee, changes, depth - 1)
                if inner and inner not in (RESAMPLES, PIXELS):
                    return PreprocessingStep(function, call, inner)
                if inner and resampled is None:
                    resampled = PreprocessingStep(function, call, inner)
        return resampled

    def work_of(self, module: ModuleIndex, function: ast.Lambda) -> str:
        """The heavy work that a lambda does itself, or ''."""
        calls = [node for node in walk(function.body) if isinstance(node, ast.Call)]
        changes = any(_CHANGES.search(last_name(call.func)) for call in calls)
        return next((work for call in calls if (work := self.work(module, call, changes))), "")

    def _within(self, callee: NodeRef, changes: bool, depth: int) -> str:
        """Return what a helper does; decoding alone counts when its caller changes the image."""
        assert isinstance(callee.node, FUNCTIONS)
        found = self.heavy(callee.module, callee.node, depth, changes)
        return found.work if found is not None else ""

    def work(self, module: ModuleIndex, call: ast.Call, changes: bool = False) -> str:
        """The heavy work that a call does, or ''; to decode an image is some if the function ``changes`` images."""
        names = self._project.fact(Resolver).call_names(module, call)
        name = last_name(call.func)
        kinds = {self._files.kinds[full] for full in names & self._files.kinds.keys()}
        if kinds and not self._files.decodes(module, call, names):
            return ""
        if changes and ("image" in kinds or self._reads_folder(module, call)):
            return IMAGES
        if "video" in kinds:
            return VIDEO
        if changes and "volume" in kinds:
            return VOLUMES
        if (any(_RESAMPLES.match(full) for full in names) and not _takes_nearest(call)) or _resizes(call):
            return RESAMPLES
        if any(map(_FILTERS.match, names)):
            return PIXELS
        if _CHANGES.search(name) and computes_anew(self._project, module, call):
            return RESAMPLES if moves_pixels(self._project, module, call) else PIXELS
        if any(_AUDIO.search(full) for full in names) or (_SPECTROGRAM.search(name) and call.args):
            return "computes on audio"
        if _TOKENIZE.search(name) and call.args:
            return TOKENISES
        if _PROCESSOR.search(name) and call.args + call.keywords:
            given = {keyword.arg for keyword in call.keywords}
            if "sampling_rate" in given:
                return "computes on audio"
            if given & ({"images", "text", "return_tensors"} | _PAGES):
                return TOKENISES if "text" in given and "images" not in given else IMAGES
        if (
            name in _ENCODE
            and isinstance(call.func, ast.Attribute)
            and re.search("tokenizer", last_name(call.func.value), re.IGNORECASE)
        ):
            return TOKENISES
        return ""

    def _reads_folder(self, module: ModuleIndex, call: ast.Call) -> bool:
        """``self.loader(path)`` in a subclass of torchvision's ``ImageFolder``."""
        owner = module.class_of(call) if ast.unparse(call.func) == "self.loader" else None
        return owner is not None and bool(_FOLDERS & self._project.fact(Resolver).base_names(module, owner))

    def _is_per_item(self, module: ModuleIndex, function: FunctionNode) -> bool:
        parent = module.syntax.parents.get(function)
        if function.name == "__getitem__":
            return isinstance(parent, ast.ClassDef)
        if function.name in self._collates(module):
            return True
        if _COLLATE.search(function.name):
            return not isinstance(parent, ast.ClassDef) or self._is_used(module, function.name)
        if function.name == "__call__" and isinstance(parent, ast.ClassDef):
            return bool(_COLLATOR.search(parent.name))
        if function.name == "__iter__" and isinstance(parent, ast.ClassDef):
            return any(last_name(base).endswith("IterableDataset") for base in parent.bases)
        for decorator in function.decorator_list:  # SpeechBrain's dynamic items
            if isinstance(decorator, ast.Call) and last_name(decorator.func) == "takes":
                return True
        return False

    def _puts_together(self, module: ModuleIndex, function: FunctionNode) -> bool:
        return bool(_COLLATE.search(function.name)) or function.name in self._collates(module)

    @query
    def _collates(self, module: ModuleIndex) -> frozenset[str]:
        """Names of functions that the module hands to loaders and trainers to put samples together, some with
        ``partial``."""
        given = [
            keyword.value for call in module.calls for keyword in call.keywords if keyword.arg in _GIVEN_TO_COLLATE
        ]
        given += [one.args[0] for one in given if isinstance(one, ast.Call) and one.args]
        return frozenset(last_name(one) for one in given if isinstance(one, ast.Name | ast.Attribute))

    def _is_used(self, module: ModuleIndex, name: str) -> bool:
        """Return whether anything but a test names the method."""
        return any(
            last_name(node) == name
            for user in self._project.users_of(module, {name})
            if not self._project.is_test(user.path)
            for node in user.syntax.of(ast.Name, ast.Attribute)
        )


def _takes_nearest(call: ast.Call) -> bool:
    """``cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST)`` computes nothing."""
    return any("NEAREST" in last_name(value) for value in (*call.args, *(keyword.value for keyword in call.keywords)))


def _resizes(call: ast.Call) -> bool:
    """``image.resize((64, 64), Image.BICUBIC)``"""
    given = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "resample")]
    return last_name(call.func) == "resize" and any(_FILTER.match(dotted(value)) for value in given)


def is_held_out(name: str) -> bool:
    """Return whether a name says that it is for evaluation only."""
    return any(_HELD_OUT.fullmatch(word) for word in _WORD.findall(name))
