"""Rows on what the words of a program say: whether it uses GPUs, how many at once, and whether it computes."""

from __future__ import annotations

from gpulint.libraries.names import words
from gpulint.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Parallel:
    """Identifiers that say how the work gets onto more than one GPU."""

    one_process: tuple[str, ...] = ()
    """One process drives all GPUs."""
    per_process: tuple[str, ...] = ()
    """One process per GPU."""
    spawn: tuple[str, ...] = ()
    """The program starts its processes itself."""
    model: tuple[str, ...] = ()
    """The model is split over GPUs."""
    framework: tuple[str, ...] = ()
    """A framework decides."""


@dataclass(frozen=True, slots=True)
class Library:
    """Libraries that may use a GPU, or that never do."""

    name: str
    modules: tuple[str, ...] = ()
    """Top-level modules whose programs may well run on a GPU."""
    modules_if_moved: tuple[str, ...] = ()
    """The same, but they compute on a GPU only what the program puts there."""
    modules_if_told: tuple[str, ...] = ()
    """Top-level modules that use a GPU only when told to."""
    modules_on_cpu: tuple[str, ...] = ()
    """Top-level modules that use none."""
    parts_on_cpu: tuple[str, ...] = ()
    """Whole names of parts of the others that use none."""
    modules_beside: tuple[str, ...] = ()
    """Top-level modules that leave it to the program how many GPUs it uses."""
    gpu_words: tuple[str, ...] = ()
    """Identifiers of programs that use a GPU."""
    compute_words: tuple[str, ...] = ()
    """Identifiers of programs that train, evaluate or generate."""
    copied_packages: tuple[str, ...] = ()
    """Folders of packages that other repositories carry unchanged copies of."""
    web_apps: tuple[str, ...] = ()
    """Modules that programs import to be an app or a service in a browser."""
    emptied_cache: tuple[str, ...] = ()
    """Modules whose documentation says to empty PyTorch's memory cache in the training loop."""
    parallel: Parallel = field(default_factory=Parallel)

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.name

    @property
    def words(self) -> frozenset[str]:
        """A file that uses the library has one of these words."""
        return frozenset((*self.modules, *self.modules_if_moved, *self.gpu_words))


@dataclass(frozen=True, slots=True)
class Spawner:
    """Calls by which a program starts its processes itself."""

    calls: tuple[str, ...]
    """Qualified names."""
    processes: str
    """The keyword for their number on the node. A call without it starts none, or one for each GPU."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.calls[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that starts processes has one of these words."""
        return words(self.calls)


KINDS = {"library": Library, "spawner": Spawner}
