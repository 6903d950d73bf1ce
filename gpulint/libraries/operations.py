"""Rows on calls that cost time whatever framework makes them: downloads, uploads, checkpoints, collectives, waits."""

from __future__ import annotations

from typing import Annotated, Literal

from gpulint.libraries.call_rows import CallRow
from gpulint.libraries.names import words
from gpulint.libraries.releases import check_release
from gpulint.libraries.samples import DataCache, Handle, Reader, SampleSet, SampleWork
from gpulint.records import dataclass

What = Literal["data", "weights", "metric"]


@dataclass(frozen=True, slots=True)
class Download(CallRow):
    """Functions and classes that fetch something whenever they are called."""

    calls: tuple[str, ...]
    """Qualified names."""
    origin: str
    """Where from, as a reader knows it: ``the internet``."""
    what: What = "data"
    named: str = ""
    """A pattern of what is fetched, as the first argument names it; any other name is a file of the user's own."""
    unnamed: bool = False
    """Whether no argument names what is fetched: the first one is a folder or an input."""


@dataclass(frozen=True, slots=True)
class CachedDownload(CallRow):
    """Functions and classes that find what an earlier call has fetched: one before the job spares the job its own."""

    calls: tuple[str, ...]
    """Patterns of qualified names."""
    arguments: tuple[str, ...] = ()
    """Keywords that say what is fetched and where it is kept, where the others may be left out; else all do."""
    without: tuple[str, ...] = ()
    """Keywords that only matter to the program that uses what was fetched."""


@dataclass(frozen=True, slots=True)
class AuxiliaryHeads(CallRow):
    """Functions that build models with heads whose outputs a program may leave out, beside the main one."""

    calls: tuple[str, ...]
    """Qualified names."""
    switch: str
    """The argument that leaves the heads out or adds them."""
    by_default: bool = False
    """Whether the model has them unless the argument says False."""
    read: str = ""
    """The attribute of the output that has what the head computes, if training seldom reads it."""


@dataclass(frozen=True, slots=True)
class LayersWithoutWeights:
    """Layers and losses without parameters, which add nothing to a checkpoint."""

    modules: tuple[str, ...]
    """How the qualified names start."""
    names: tuple[str, ...]
    """Their last components."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.modules[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that makes such a layer has one of these words."""
        return frozenset(self.names)


@dataclass(frozen=True, slots=True)
class SdkDownload:
    """Methods of a cloud's client, or of what it hands out, that fetch an object."""

    methods: tuple[str, ...]
    of: tuple[str, ...]
    """Patterns of what makes the client."""
    origin: str = "a bucket"
    results: bool = False
    """What a notebook fetches from there is what a job has left, more often than what one needs."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.of[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that makes such a call has one of these words."""
        return frozenset(self.methods)


@dataclass(frozen=True, slots=True)
class HubDownload:
    """Functions, classes and methods that take an identifier of the Hugging Face hub, or a path."""

    name: str
    """The last component of the qualified name."""
    argument: str
    """The parameter that holds the identifier."""
    position: int | None = None
    """Its place."""
    modules: tuple[str, ...] = ("",)
    """How the qualified name starts."""
    what: What = "weights"

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.name

    @property
    def words(self) -> frozenset[str]:
        """A file that makes such a call has one of these words."""
        return frozenset({self.name})


@dataclass(frozen=True, slots=True)
class HubAlias:
    """Libraries whose calls load something else than the repository of the Hugging Face hub that they are given."""

    modules: tuple[str, ...]
    """How the qualified names of the calls start."""
    unless: str = ""
    """A pattern of identifiers that are loaded as they are."""
    exact: str = ""
    """The argument that loads every identifier as it is."""
    owner: str = ""
    """The owner of identifiers without one; the copy that is loaded is unknown where no owner is given."""
    hub: str = ""
    """The hub that the identifiers are of, if it is another one."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.modules[0]


@dataclass(frozen=True, slots=True)
class DataSets:
    """Packages whose data set classes download when they are first used."""

    modules: tuple[str, ...]
    """How the qualified names of the classes start."""
    origin: str = "the data set's own server"
    ending: str = ""
    """How the names of the classes end, where a package has others too."""
    made_up: tuple[str, ...] = ()
    """Classes that make their data up, or are no data sets."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.modules[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that uses such a class has one of these words."""
        return frozenset(module.partition(".")[0] for module in self.modules)


@dataclass(frozen=True, slots=True)
class Upload(CallRow):
    """Calls that send files to a server and return when they are there."""

    calls: tuple[str, ...] = ()
    """Qualified names of functions."""
    methods: tuple[str, ...] = ()
    """Names of methods."""
    owners: tuple[str, ...] = ("",)
    """What the name of a method's receiver has in it, in any case."""


@dataclass(frozen=True, slots=True)
class Saver(CallRow):
    """Calls that write a checkpoint before they return, or make a framework do so."""

    calls: tuple[str, ...] = ()
    """Patterns of qualified names."""
    path: str = ""
    """The parameter that says where to."""
    position: int | None = None
    """Its place."""
    methods: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    """Patterns of the name of a method's receiver; any that is no tokenizer or configuration if nothing is given."""
    callback: bool = False
    """The call makes an object or settings by which the framework saves while it trains."""
    always: bool = False
    """The framework always saves so: only a remote path counts."""
    folders: bool = False
    """It takes a URL for the name of a folder."""
    off: tuple[str, ...] = ()
    """A parameter, and its value with which nothing is saved."""
    interval: tuple[str, ...] = ()
    """A parameter that says whether to save by steps or epochs, and the one with the number of steps."""
    keeps: tuple[str, ...] = ()
    """A parameter that limits how many checkpoints stay, and its value with which all do ("": unset or None)."""
    dumps: bool = False
    """The function writes anything: only a model counts."""


@dataclass(frozen=True, slots=True)
class Collective:
    """Collective operations of a library."""

    modules: tuple[str, ...]
    """How the qualified names start."""
    objects: tuple[str, ...] = ()
    """Names of objects that have them as methods, where nothing else tells what they are."""
    reductions: tuple[str, ...] = ()
    gathers: tuple[str, ...] = ()
    barriers: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    """Methods of classes of ``modules`` that reduce what they log at each step where ``asked`` is passed as true and
    ``unless`` is not passed as false."""
    asked: str = ""
    unless: str = ""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.modules[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that makes such a call has one of these words."""
        return frozenset((*self.reductions, *self.gathers, *self.barriers, *filter(None, [self.asked])))


@dataclass(frozen=True, slots=True)
class Sync(CallRow):
    """Calls in which the host waits for the GPU."""

    calls: tuple[str, ...]
    """Qualified names of functions; patterns of functions and classes where ``kind`` is ``check`` or ``validate``."""
    kind: Literal[
        "barrier", "read", "check", "validate", "solve", "decompose", "size", "object", "detect", "score", "branch"
    ]
    """``barrier`` waits for all queued work, ``read`` for the value of the first argument; ``check`` (and objects of
    the classes) looks at the values of all arguments, unless ``unless`` is passed as false; ``validate`` does so in
    the call that makes an object; ``solve`` runs on the host alone, on a copy of what the model computed; ``size``
    needs to know on the host how many values there are, unless the caller passes ``unless``; ``object`` sends Python
    objects, or copies to the host; ``detect`` makes a model that matches predictions with its targets;
    ``score`` computes a metric on the host; ``branch`` decides by a value in releases of PyTorch before ``before``."""
    unless: str = ""
    before: Annotated[str, check_release] = ""


@dataclass(frozen=True, slots=True)
class HostResult(CallRow):
    """Functions and classes whose results are in host memory, as are those of the objects that they make."""

    calls: tuple[str, ...]
    """Patterns of qualified names."""
    unless: tuple[str, ...] = ()
    """Packages whose presence in a module means that its results may be on a GPU."""


@dataclass(frozen=True, slots=True)
class LargeModel:
    """What says that a program computes a model of which a step takes long."""

    calls: tuple[str, ...] = ()
    """Patterns of classes and functions that make or train such a model, or make it by a method."""
    names: tuple[str, ...] = ()
    """Patterns of the names of such models, in lower case: functions, and texts with or without what precedes ``/``."""
    packages: tuple[str, ...] = ()
    """Packages for such models alone."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return (*self.calls, *self.names, *self.packages)[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that names such a model has one of these words."""
        return words((*self.calls, *self.names, *self.packages))


KINDS = {
    "download": Download,
    "cached-download": CachedDownload,
    "auxiliary-heads": AuxiliaryHeads,
    "layers-without-weights": LayersWithoutWeights,
    "hub-download": HubDownload,
    "hub-alias": HubAlias,
    "sdk-download": SdkDownload,
    "data-sets": DataSets,
    "upload": Upload,
    "saver": Saver,
    "collective": Collective,
    "sync": Sync,
    "host-result": HostResult,
    "reader": Reader,
    "handle": Handle,
    "data-cache": DataCache,
    "sample-work": SampleWork,
    "sample-set": SampleSet,
    "large-model": LargeModel,
}
