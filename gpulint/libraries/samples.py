"""Rows on what makes the samples of data sets: readers of files, other work, handles that processes cannot share, and
copies of remote files on local disk."""

from __future__ import annotations

from typing import Literal

from gpulint.libraries.call_rows import CallRow
from gpulint.libraries.names import words
from gpulint.records import dataclass


@dataclass(frozen=True, slots=True)
class Reader(CallRow):
    """Functions that read and decode a file, or part of one, on the CPU."""

    calls: tuple[str, ...]
    kind: Literal["image", "audio", "video", "volume", "array"]
    """What they decode: a ``volume`` is a medical or microscopic image, an ``array`` needs no decoding."""
    header: tuple[str, ...] = ()
    """Attributes of the result that need no decoding, where it is decoded on demand."""


@dataclass(frozen=True, slots=True)
class SampleWork(CallRow):
    """Functions that take the CPU some time for each sample, and are no readers of files that need decoding."""

    calls: tuple[str, ...]
    """Patterns of qualified names."""
    kind: Literal["file", "compute"]
    """Whether they read a file, or compute."""


@dataclass(frozen=True, slots=True)
class Handle(CallRow):
    """Functions (patterns) whose result holds an open file, connections, threads, a GPU or what sends messages to other
    processes, which forked processes cannot share."""

    calls: tuple[str, ...]
    kind: Literal["file", "client", "thread", "engine", "gpu", "arrays", "messages", "gpu-tensor", "index", "whole"]
    """An ``engine`` computes in threads of its own; ``arrays`` are files of arrays, of which an index reads a part; a
    ``gpu-tensor`` is on the GPU by default; an ``index`` lists what an archive holds, and ``whole`` reads a file."""


@dataclass(frozen=True, slots=True)
class SampleSet:
    """Classes of data sets that make their samples from files, or compute them."""

    classes: tuple[str, ...]
    """Patterns of qualified names."""
    kind: Literal["image", "audio", "volume", "transform", "memory"]
    """What they do for each sample: decode a file, apply transforms to samples in memory, or only look them up."""
    samples: int = 0
    """How many samples their largest part has, if it is always the same."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.classes[0]

    @property
    def words(self) -> frozenset[str]:
        """A file that uses such a class has one of these words."""
        return words(self.classes)


@dataclass(frozen=True, slots=True)
class DataCache(CallRow):
    """Functions and classes that read what an address names, and how their library keeps a copy on local disk."""

    calls: tuple[str, ...]
    """Patterns of qualified names."""
    by: Literal["folder", "method", "chain", "copy", "wrapper", "default", "nothing"]
    """What keeps the copy: an argument with a ``folder``, or a ``method`` of the result; ``simplecache::`` before the
    address (``chain``), a local ``copy`` that fsspec makes of the file, or a ``wrapper`` of the file system whose
    method is called, all of fsspec; the library itself, by ``default``; or ``nothing``."""
    source: str = ""
    """The parameter with the address, which comes first."""
    argument: str = ""
    """The parameter with the folder."""
    limit: str = ""
    """The parameter with the most space that copies take."""
    methods_of_result: tuple[str, ...] = ()
    """Methods of the result that keep copies, of which a fix calls the first with the name of a file."""
    cached: tuple[str, ...] = ()
    """Other parameters that say how copies are kept."""
    variables: tuple[str, ...] = ()
    """Environment variables that name the folder."""
    options: tuple[str, ...] = ()
    """Parameters that the call would have to pass in another way."""
    drawn: str = ""
    """A parameter with which samples are drawn at random, some never."""
    ends: tuple[str, ...] = ()
    """Ends of the addresses of which a copy is read in the same way; its own name has none."""
    needs: str = ""
    """What else the copy needs, for the description of the fix."""
    streams: bool = False
    """Whether each pass over the object that the call makes reads the source again."""
    divides: str = ""
    """The parameter that lets a worker have no files, where workers divide them among each other."""
    passes: tuple[str, ...] = ()
    """Methods of other objects that go through it once, or once in each of their ``epochs``."""
    joins: tuple[str, ...] = ()
    """Functions that make one such object of several."""
