"""Rows on how frameworks load, move and compute batches: loaders, calls that take them over, and hooks."""

from __future__ import annotations

from typing import Literal

from gpulint.libraries.call_rows import CallRow
from gpulint.libraries.names import words
from gpulint.records import dataclass


@dataclass(frozen=True, slots=True)
class Loader:
    """Classes that load batches and hand the parameters of ``torch.utils.data.DataLoader`` on to PyTorch."""

    classes: tuple[str, ...]
    signature: tuple[str, ...] = ()
    """The positional parameters, in order; without them only keywords are understood."""
    pins_itself: bool = False
    """The class passes ``pin_memory`` itself, so that nobody else may."""
    places_on: str = ""
    """The argument for the device on which the class puts its batches."""
    samples_graph: bool = False
    """A graph sampler, whose feature tensors may already be on the GPU."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.classes[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that uses the class has one of these words."""
        return words(self.classes)


@dataclass(frozen=True, slots=True)
class BatchMaker:
    """Calls that make the training and the validation batches at once, by other parameters than PyTorch's."""

    packages: tuple[str, ...]
    """Only modules that import one of these are meant."""
    methods: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    """Patterns of the names of classes whose factories make batches."""
    factories: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.packages[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that makes such batches has one of these words."""
        return words((*self.methods, *self.owners))


@dataclass(frozen=True, slots=True)
class Mover:
    """Calls by which a framework takes loaders over and moves their batches to the GPU."""

    name: str
    prepares: tuple[str, ...] = ()
    """Functions and methods that hand the loaders back that they are given, ready to be used."""
    in_order: tuple[str, ...] = ()
    """Methods that hand back all that they are given, in order."""
    calls: tuple[str, ...] = ()
    """Patterns of functions and classes that get loaders."""
    methods: tuple[str, ...] = ()
    """Methods that get loaders."""
    of: tuple[str, ...] = ()
    """Patterns of what makes the objects that have these methods."""
    arguments: tuple[str, ...] = ()
    """The keywords by which loaders are given; all arguments if nothing is given."""
    device: str = ""
    """The argument of the maker without which nothing is moved."""
    packages: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    """Methods that hand out moved loaders, in modules that import one of ``packages``."""
    iterators: tuple[str, ...] = ()
    """Methods whose iterators give moved batches."""
    unless: tuple[str, ...] = ()
    """Arguments with which such an iterator does not."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.name

    @property
    def words(self) -> frozenset[str]:
        """A file that hands a loader over has one of these words."""
        return words((*self.prepares, *self.calls, *self.methods, *self.gives, *self.iterators))


@dataclass(frozen=True, slots=True)
class Hook:
    """Methods that a framework calls in its own loops."""

    name: str
    bases: tuple[str, ...]
    """Patterns of the classes whose sub-classes have the methods."""
    step: tuple[str, ...] = ()
    """Called with each training batch."""
    evaluation: tuple[str, ...] = ()
    """Called with each batch of an evaluation."""
    epoch: tuple[str, ...] = ()
    """Called once per epoch."""
    batch: Literal["", "on-gpu", "on-host"] = ""
    """Where the batch is that a method gets first."""
    loaders: tuple[str, ...] = ()
    """Methods from which the framework takes loaders, to move their batches to the GPU."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.name

    @property
    def words(self) -> frozenset[str]:
        """A file that defines such methods has one of these words."""
        return frozenset((*self.step, *self.evaluation, *self.epoch, *self.loaders))


@dataclass(frozen=True, slots=True)
class Stream(CallRow):
    """Data sets that every worker would read as a whole: they divide nothing among workers, or have threads of their
    own."""

    calls: tuple[str, ...]
    """Patterns of the qualified names of classes and functions that make one."""
    unless: str = ""
    """The name of what divides the data set, where it is passed."""


@dataclass(frozen=True, slots=True)
class GradientFree(CallRow):
    """Functions and classes that make models which switch gradients off themselves when they are called, or whose
    weights are all frozen."""

    calls: tuple[str, ...]
    """Patterns of qualified names."""
    named: str = ""
    """A pattern of the model, as the first argument names it; any model if nothing is given."""
    unless: str = ""
    """The parameter that makes a plain model, where it is passed as false."""
    trains: str = ""
    """The parameter that makes weights to train, where it is not passed as false."""


@dataclass(frozen=True, slots=True)
class EagerFramework:
    """A framework with models of its own that are written and set to evaluation as PyTorch's are."""

    packages: tuple[str, ...]
    """What a module that uses it imports."""
    detaches: bool = True
    """Whether each of its tensors has a graph, and PyTorch's ``detach`` takes it away."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.packages[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that uses the framework has one of these words."""
        return frozenset(self.packages)


KINDS = {
    "loader": Loader,
    "batch-maker": BatchMaker,
    "mover": Mover,
    "hook": Hook,
    "stream": Stream,
    "gradient-free": GradientFree,
    "eager-framework": EagerFramework,
}
