"""What processes of a job tell of themselves, as lines of a recording."""

from __future__ import annotations

from dataclasses import dataclass, field

_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python")


def of_program(file: str) -> bool:
    """Return whether a file is of the program itself, not of a library."""
    return not file.startswith("<") and not any(part in file for part in _LIBRARIES)


@dataclass(frozen=True, slots=True)
class Process:
    """A Python process of the job, seen first at ``time_s``."""

    time_s: float
    pid: int
    parent: int
    command: list[str]
    rank: int | None = None
    """RANK and LOCAL_RANK of its environment, which launchers such as torchrun set."""
    local_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Stack:
    """A Python stack, innermost frame first; the lists are as long as the stack. Samples refer to it by ``id``."""

    time_s: float
    id: int
    modules: list[str]
    functions: list[str]
    files: list[str]
    lines: list[int]
    call: str = ""
    """What the innermost frame calls, such as ``item`` in ``loss.item()``; empty where its source does not tell."""
    generators: list[int] = field(default_factory=list)
    """Which frames are of generator functions, by their place in the lists."""


@dataclass(frozen=True, slots=True)
class StackCounts:
    """How often a thread was seen in which stack during the ``seconds`` up to ``time_s``.

    ``stacks``, ``samples``, ``running`` and ``disk`` belong together: the stack, how often it was seen, and of these
    how often the thread used its core, and how often it waited for a disk (main threads only).
    """

    time_s: float
    seconds: float
    pid: int
    thread: str
    """``main``, or the name of a thread that is busy at times."""
    stacks: list[int]
    samples: list[int]
    running: list[int]
    disk: list[int]
    cpu_s: float | None = None
    """CPU time of the thread."""
    lag_s: float | None = None
    """How late samples came, mean: what a thread waits for the interpreter (GIL) or for a core."""
    delay_s: float | None = None
    """Time in which the thread could run and no core was free."""
    order: list[int] | None = None
    """Of the main thread of a rank, three numbers for each sample: its stack, its milliseconds since the start, and
    whether the thread slept (1 or 0)."""


@dataclass(frozen=True, slots=True)
class AllocatorSample:
    """Counters of torch's CUDA allocator in one process and for one of its devices."""

    time_s: float
    pid: int
    device: int
    retries: int
    """How often memory had to be given back to the driver, which synchronizes, to serve a request."""
    ooms: int
    allocated_bytes: int
    reserved_bytes: int
    inactive_bytes: int
    """Reserved, unused, and in pieces that cannot be given back."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a function of the program that was seen in a stack; only the head of one that has a body.

    Names are those of variables, and ``self.x``. Calls have dots as far as they go; ``eval()`` without arguments has
    parentheses.
    """

    time_s: float
    file: str
    function: int
    """The first line of the function; 0 for the top level of the module."""
    first: int
    last: int
    loop: int
    """The first line of the innermost loop of the function that it is in; 0 for none."""
    kind: str
    """assign, expression, return, for, while, if, with or other."""
    writes: list[str]
    reads: list[str]
    calls: list[str]
    nested: list[str]
    """``outer>inner`` for each call within the arguments of another one."""
    quiet: bool = False
    """Runs without gradients."""
    awaits: bool = False
    tensors: bool = False
    """Names a function of ``torch``, or gradients."""
    state: bool = False
    """Names the file of a checkpoint."""
    into: list[str] = field(default_factory=list)
    """What a call that saves is given: it may write into any of these."""
    words: list[str] = field(default_factory=list)
    """Known commands that its texts begin with; and stdin, where it names that."""


InsideEntry = Process | Stack | StackCounts | AllocatorSample | Statement
KINDS: dict[str, tuple[type[InsideEntry], str]] = {
    "process": (Process, "processes"),
    "stack": (Stack, "stacks"),
    "stacks": (StackCounts, "stack_counts"),
    "allocator": (AllocatorSample, "allocations"),
    "statement": (Statement, "statements"),
}
"""By the ``line`` of a recording: the class, and the list of a Recording that holds it."""
