"""What a loader does on the CPU for each sample: decode images or audio, read a file, tokenise, loop in Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.libraries import Models
from gpulint.libraries.names import matches
from gpulint.placement.inner_sets import GETTERS, LAZY
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.properties import properties
from gpulint.training.call_values import is_kept_out
from gpulint.training.guards import Guards
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.sample_draws import Readers
from gpulint.workload.applied_transforms import is_given_heavy
from gpulint.workload.dataset_work import ARRANGES
from gpulint.workload.elastic_transforms import deforms
from gpulint.workload.element_loops import goes_through_elements
from gpulint.workload.field_loops import arranges_fields
from gpulint.workload.filled_samples import filled_attributes, is_inside, own_method, runs_for_missing
from gpulint.workload.kept_samples import keeps_on_disk, keeps_results, runs_for_uncached
from gpulint.workload.library_sets import MEMORY, kinds_of
from gpulint.workload.loaded_sets import loaded_parts
from gpulint.workload.plain_encodings import only_looks_up_tokens
from gpulint.workload.sample_preprocessing import (
    IMAGES,
    PIXELS,
    RESAMPLES,
    TOKENISES,
    VIDEO,
    VOLUMES,
    SamplePreprocessing,
)
from gpulint.workload.stored_arrays import reads_stored
from gpulint.workload.taken_samples import inner_sets
from gpulint.workload.volume_chains import SPATIAL, chain_works
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, LOOPS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_HELD = frozenset({"CacheDataset", "SmartCacheDataset"})
"""Data sets of MONAI that read their samples before the first epoch."""
_TRANSFORM = regex.compile(r"(^|_)(transforms?|trans|tfms?|aug(ment(ations?|or)?|s)?|preprocess\w*)(_|$)")
"""Names of what changes a sample."""
_OF_ITSELF = regex.compile(r"self\.")
_MODES = frozenset({"RGB", "L", "RGBA"})
"""Modes that Pillow converts images to, for which it decodes them."""
_OF_ARRAYS = frozenset(
    {
        "PIL.Image.fromarray", "PIL.Image.new", "PIL.Image.frombytes", "PIL.Image.frombuffer",
        "torchvision.transforms.functional.to_pil_image",
    }
)  # fmt: skip
"""Calls that make images of what is in memory, which need no decoding."""
MAX_CALLS = 4
"""How many calls deep the helpers of a data set are followed."""
MAX_FUNCTIONS = 40
"""Most functions that are looked at for one data set."""
KINDS = {
    "video": "video decoding",
    "volume": "volume reading",
    "audio": "audio processing",
    "elastic": "elastic deformation",
    "image": "image decoding",
    "each": "Python loops over points or pixels",
    "file": "file reading",
    "compute": "computation",
    "resample": "resampling",
    "pixels": "work on every pixel",
    "tokens": "tokenisation",
    "transform": "transforms",
    "loop": "Python loops",
    "collect": "rows collected in a loop",
}
"""Kinds of work for a sample, in words; what takes longest comes first."""
_OF_STEP = {
    IMAGES: "image",
    RESAMPLES: "resample",
    PIXELS: "pixels",
    VIDEO: "video",
    VOLUMES: "volume",
    TOKENISES: "tokens",
    "computes on audio": "audio",
}


@dataclass(frozen=True, slots=True)
class ItemWork:
    """The ``kinds`` of work that are seen, in the order of ``KINDS``."""

    kinds: tuple[str, ...] = ()
    known: bool = True
    """Whether the code that makes samples is in the tree, or of a library that is known."""
    keeps: bool = False
    """The data set keeps the samples that it has made (``self.cache[index] = sample``)."""

    @property
    def phrase(self) -> str:
        """Kinds of work in words: ``image decoding and transforms``."""
        return " and ".join(KINDS[kind] for kind in self.kinds[:2])


def _holds_all(made: ast.Call) -> bool:
    """Return whether a data set of MONAI may hold all samples: no ``cache_rate=0.2`` says that it reads most again."""
    rate = keyword_value(made, "cache_rate")
    return not isinstance(rate, ast.Constant) or rate.value in (1, 1.0)


class _Rows:
    """What is known of the functions and data sets of libraries."""

    def __init__(self, models: Models) -> None:
        self.calls = {
            kind: tuple(name for row in models.rows("sample-work") if row.kind == kind for name in row.calls)
            for kind in ("file", "compute")
        }


class ItemWorks:
    """The work for each sample of the loaders of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._rows = project.models.derived(_Rows)
        self._readers = project.models.derived(Readers)
        self._steps = SamplePreprocessing(project)

    @query
    def of(self, loader: Loader) -> ItemWork:
        """The work of the data set of a loader and of its collate function, with the functions that they call."""
        kinds, known, keeps = set[str](), True, False
        for source in loaded_parts(self._project, loader):
            found, is_known = self._of_source(source)
            keeps = keeps or self._keeps(source, alone=not found)
            kinds |= {"elastic"} if deforms(self._project, source) else set()
            for inner in inner_sets(self._project, source):
                taken, _ = self._of_source(inner)
                found |= taken
                keeps = keeps or self._keeps(inner, alone=not taken)
            kinds |= found
            known = known and (is_known or bool(found))
        kinds |= set(self._set_later(loader))
        for ref in loader_argument(self._project, loader, "collate_fn").refs:
            for made in self._project.fact(Resolver).points_to(ref.module, ref.node):
                kinds |= self._of_callable(made)
        if not kinds and not known and not self._is_missing(loader):
            kinds = set(self._of_module(loader.module))
        return ItemWork(tuple(kind for kind in KINDS if kind in kinds), known or bool(kinds), keeps)

    @query
    def of_method(self, method: NodeRef, owner: NodeRef) -> tuple[str, ...]:
        """The kinds of work of a method of a class, and of what it calls."""
        return tuple(self._of_callable(method, owner=owner))

    # -- data sets -----------------------------------------------------------------------------------------------------

    def _of_source(self, source: NodeRef) -> tuple[set[str], bool]:
        """The kinds of work of one data set, and whether its code is known."""
        resolver, node = self._project.fact(Resolver), source.node
        assert isinstance(node, ast.expr)
        kinds = kinds_of(
            self._project, resolver.call_names(source.module, node) if isinstance(node, ast.Call) else frozenset()
        )
        known = bool(kinds) or isinstance(node, ast.List | ast.ListComp)
        kinds |= {"transform"} if MEMORY in kinds and is_given_heavy(self._project, source) else set()
        for where, owner in resolver.classes_of(source.module, node):
            getters = [getter for name in GETTERS if (getter := resolver.method(where, owner, name)) is not None]
            kinds |= kinds_of(self._project, resolver.base_names(where, owner))
            for getter in getters:
                kinds |= self._of_callable(getter, source, NodeRef(where, owner))
                kinds |= {"file"} if reads_stored(self._project, getter, NodeRef(where, owner)) else set()
            known = known or bool(getters) or bool(kinds)
        if isinstance(node, ast.Call):
            known = known or _is_mapped(node)
            work = self._of_lazy(NodeRef(source.module, node)) | self._of_chain(NodeRef(source.module, node))
            known, kinds = known or bool(work), kinds | work
        return kinds - {MEMORY}, known

    def _of_lazy(self, made: NodeRef) -> set[str]:
        """``dataset.with_transform(prepare)``"""
        assert isinstance(made.node, ast.Call)
        if last_name(made.node.func) not in LAZY or not made.node.args:
            return set()
        functions = self._project.fact(Resolver).points_to(made.module, made.node.args[0])
        return {kind for function in functions for kind in self._of_callable(function)}

    def _of_chain(self, made: NodeRef) -> set[str]:
        """``monai.data.Dataset(files, Compose([LoadImaged("image"), ...]))``: the first step reads a volume, unless the
        data set holds what the steps make up to the first random one."""
        assert isinstance(made.node, ast.Call)
        resolver = self._project.fact(Resolver)
        if not any(name.startswith("monai.data.") for name in resolver.call_names(made.module, made.node)):
            return set()
        chain = [*made.node.args[1:2], keyword_value(made.node, "transform")]
        origins = (ref.node for part in chain if part is not None for ref in resolver.points_to(made.module, part))
        names = {last_name(part.func) for node in origins for part in walk(node) if isinstance(part, ast.Call)}
        if last_name(made.node.func) in _HELD and _holds_all(made.node):
            return {"transform"} if any(name.startswith("Rand") for name in names) else set()
        return {"volume"} if any(name.startswith("LoadImage") for name in names) else set()

    def _set_later(self, loader: Loader) -> Iterator[str]:
        """``dataset.set_transform(prepare)`` in the module of the loader."""
        given = {ast.unparse(argument) for argument in loader.node.args[:1]}
        for name in LAZY:
            for call in loader.module.calls_by_name.get(name, ()):
                if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in given:
                    yield from self._of_lazy(NodeRef(loader.module, call))

    def _is_missing(self, loader: Loader) -> bool:
        """Return whether a data set is made by code that is not in the tree."""
        return any(isinstance(source.node, ast.Call) for source in loaded_parts(self._project, loader))

    @query
    def _of_module(self, module: ModuleIndex) -> tuple[str, ...]:
        """The work of the data sets of libraries that a module makes, where those of a loader are not known."""
        resolver = self._project.fact(Resolver)
        kinds = {kind for call in module.calls for kind in kinds_of(self._project, resolver.call_names(module, call))}
        return tuple(kinds - {MEMORY})

    # -- functions -----------------------------------------------------------------------------------------------------

    def _of_callable(self, made: NodeRef, of: NodeRef | None = None, owner: NodeRef | None = None) -> set[str]:
        """The work of a function, with those of the tree that it calls and that do not keep their results, as from the
        second epoch on; none that defaults rule out (``if self.preloaded: return self.samples[index]``), or the call
        ``of`` the constructor of its object, a data set of the class ``owner`` (``transform=None``)."""
        given = (of,) if of is not None and isinstance(of.node, ast.Call) else ()
        filled = filled_attributes(self._project, owner, of) if owner and of else frozenset[str]()
        found, seen, todo = set[str](), set[ast.AST](), [(made, 0)]
        while todo and len(seen) < MAX_FUNCTIONS:
            ref, depth = todo.pop()
            if ref.node in seen or not isinstance(ref.node, (*FUNCTIONS, ast.Lambda)):
                continue
            seen.add(ref.node)
            if keeps_on_disk(self._project, ref):
                found.add("file")
                continue
            guards, inside = self._project.fact(Guards), walk(ref.node)
            calls = [
                part
                for part in inside
                if isinstance(part, ast.Call)
                and not guards.is_off_by_default(ref.module, part, ref.node)
                and not is_kept_out(self._project, ref.module, part, given)
                and not runs_for_uncached(self._project, ref.module, part)
                and not (owner and runs_for_missing(ref.module, part, filled) and is_inside(self._project, owner, ref))
            ]
            found |= {kind for call in calls for kind in self._of_call(ref.module, call)}
            found |= {"collect" if _only_collects(part) else "loop" for part in inside if _is_loop(part)}
            found |= {"each" for part in inside if goes_through_elements(ref.module, part)}
            if depth < MAX_CALLS:
                called = [callee for call in calls for callee in self._called(ref.module, call, owner)]
                called += properties(self._project, ref)
                todo += [(one, depth + 1) for one in called if not keeps_results(self._project, one)]
        found |= {"volume"} if {"file", SPATIAL} <= found else set()
        return found - {SPATIAL}

    def _called(self, module: ModuleIndex, call: ast.Call, owner: NodeRef | None) -> list[NodeRef]:
        """The functions of the tree that a call runs; on ``self`` the method of the class of the object."""
        method = own_method(self._project, owner, NodeRef(module, call)) if owner is not None else None
        return [method] if method is not None else list(self._project.fact(Resolver).callees(module, call))

    def _of_call(self, module: ModuleIndex, call: ast.Call) -> Iterator[str]:
        names = self._project.fact(Resolver).call_names(module, call)
        read = {self._readers.kinds[name] for name in names & self._readers.kinds.keys()}
        if read and self._readers.decodes(module, call, names):
            yield from ("file" if kind == "array" else kind for kind in read)
        step = self._steps.work(module, call, changes=True)
        if step and not (step == TOKENISES and only_looks_up_tokens(self._project, module, call)):
            yield _OF_STEP[step]
        for kind, patterns in self._rows.calls.items() if not read else ():
            if matches(patterns, names) or (isinstance(call.func, ast.Name) and call.func.id in patterns):
                yield kind
        if call.args and _TRANSFORM.search(last_name(call.func)):
            yield "transform"
        if call.args and not names:
            yield from chain_works(self._project, module, call.func)
        if last_name(call.func) == "convert" and any(getattr(part, "value", None) in _MODES for part in call.args):
            yield "transform" if self._is_of_array(module, call.func, MAX_CALLS) else "image"

    def _is_of_array(self, module: ModuleIndex, method: ast.expr, steps: int) -> bool:
        """Return whether a method is of an image made of what is in memory (``Image.fromarray(pixels).convert``)."""
        if not isinstance(method, ast.Attribute) or not steps:
            return False
        resolver = self._project.fact(Resolver)
        return all(
            isinstance(ref.node, ast.Call)
            and (
                not _OF_ARRAYS.isdisjoint(resolver.call_names(ref.module, ref.node))
                or self._is_of_array(ref.module, ref.node.func, steps - 1)
            )
            for ref in resolver.points_to(module, method.value)
        )

    def _keeps(self, source: NodeRef, alone: bool) -> bool:
        """Return whether a data set keeps its samples; if it does no other work for them (``alone``), perhaps in a
        function that it calls."""
        resolver = self._project.fact(Resolver)
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            getter = resolver.method(where, owner, "__getitem__")
            if getter is None:
                continue
            calls = (part for part in walk(getter.node) if alone and isinstance(part, ast.Call))
            helpers = (callee for call in calls for callee in resolver.callees(getter.module, call))
            if any(keeps_results(self._project, function) for function in (getter, *helpers)):
                return True
        return False


def _is_mapped(call: ast.Call) -> bool:
    """Return whether ``data.map(prepare, remove_columns=...)`` made the samples before, and keeps nothing else."""
    return last_name(call.func) == "map" and keyword_value(call, "remove_columns") is not None


def _is_loop(node: ast.AST) -> bool:
    """Return whether a node goes through much in Python: a loop with calls, or the search of a pool that the data set
    holds (``[i for i in self.pool if ...]``)."""
    if isinstance(node, ast.For | ast.While):
        return any(isinstance(part, ast.Call) for statement in node.body for part in walk(statement))
    if isinstance(node, ast.ListComp | ast.SetComp):
        searched = node.generators[0]
        return bool(searched.ifs) and bool(_OF_ITSELF.match(ast.unparse(searched.iter)))
    return False


def _only_collects(loop: ast.AST) -> bool:
    """Return whether a loop only looks values up and collects them (``rows.append(self.table[index].view(-1))``): it
    computes nothing of them, and has no loop inside. Of the few fields of a sample it may also make arrays."""
    if arranges_fields(loop):
        return True
    if not isinstance(loop, ast.For):
        return False
    parts = [part for statement in loop.body for part in walk(statement)]
    indices = {inner for part in parts if isinstance(part, ast.Subscript) for inner in walk(part.slice)}
    return not any(
        isinstance(part, (*LOOPS, *COMPREHENSIONS))
        or (isinstance(part, ast.Call) and last_name(part.func) not in ARRANGES)
        or (isinstance(part, ast.BinOp | ast.AugAssign) and part not in indices)
        for part in parts
    )
