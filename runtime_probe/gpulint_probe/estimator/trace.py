"""Record what a program on meta tensors allocates and frees, operator by operator, as a CUDA device would see it."""

# PyTorch types these calls and bases in part, and not at all where it is not installed.
# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpulint_probe.estimator.errors import CannotSimulate
from gpulint_probe.estimator.shapes import output_of
from gpulint_probe.estimator.values import follow, sized_by_value, value_of
from gpulint_probe.estimator.work import Work, pending, work_of
from gpulint_probe.estimator.workspace import Workspace, cublas_handle, workspaces_of

aten = torch.ops.aten

# Output sizes of these depend on values, which meta tensors do not have.
_DATA_DEPENDENT = {
    aten.nonzero.default: "its output size depends on values",
    aten.nonzero_static.default: "its output size depends on values",
    aten.masked_select.default: "boolean indexing selects a number of elements that depends on values",
    aten._unique2.default: "its output size depends on values",
    aten.unique_dim.default: "its output size depends on values",
    aten.unique_consecutive.default: "its output size depends on values",
    aten.repeat_interleave.Tensor: "its output size depends on values",
    aten.bincount.default: "its output size depends on values",
}
_INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}


@dataclass(frozen=True, slots=True)
class Call:
    """An operator call: its name, the dotted name of the module that made it, and the phase of the step."""

    operator: str
    module: str
    phase: str


@dataclass(slots=True)
class Trace:
    """Events in order. An event is ``(key, bytes, call)``: bytes >= 0 allocates, -1 frees; ``call`` indexes ``calls``.

    A negative key is scratch memory that lives within one call: ``workspaces[-key - 1]`` says of what, bytes is 0 until
    a workspace model fills it in. ``categories`` names what a key holds where that is more than a passing tensor.
    ``work`` says what each call that runs kernels does, by its index; ``steps`` are the calls at which optimizer steps
    of the program begin, ``ends`` those at which they end, where that is known.
    """

    events: list[tuple[int, int, int]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    workspaces: list[Workspace] = field(default_factory=list)
    categories: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    work: dict[int, tuple[Work, ...]] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def usual_step(self) -> dict[int, tuple[Work, ...]]:
        """The work of the step that the rest of the job repeats: of those after the first, the one of fewest calls.

        The others hold what is done now and then, such as an evaluation.
        """
        spans = list(zip(self.steps, self.ends or [*self.steps[1:], len(self.calls)], strict=False))
        start, end = min(spans[1:] or spans, key=lambda span: span[1] - span[0], default=(0, len(self.calls)))
        return {call: work for call, work in self.work.items() if start <= call < end}

    @property
    def shortest_step(self) -> int:
        """Calls of the shortest step that has ended."""
        return min((end - start for start, end in zip(self.steps, self.ends, strict=False)), default=0)

    def note(self, text: str) -> None:
        """Keep a remark for the report, once."""
        if text not in self.notes:
            self.notes.append(text)


class Tracer(TorchDispatchMode):
    """Follows storages on the meta device; ``trace`` holds the result.

    Set ``phase`` as the step proceeds, at last to "ended". While ``paused``, calls are not recorded.

    ``module`` is a callable that names the module now running (see ModuleStack). Raises CannotSimulate from within the
    traced program at an operator whose memory depends on values.
    """

    def __init__(self, module: Callable[[], str] = lambda: "") -> None:
        super().__init__()
        self.trace = Trace()
        self.phase = "setup"
        self.paused = False
        self._module = module
        self._live: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._next_key = 1
        self._module_of_node: dict[int, str] = {}
        self._cublas: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        module = self._current_module()
        out = self._output(func, args, kwargs, module)
        follow(func, args, kwargs, out)
        call = len(self.trace.calls)
        self.trace.calls.append(Call(str(func), module, self.phase))
        self._record_work(func, args, kwargs, out, call)
        self._cublas_workspace(func, call)
        after = workspaces_of(func, args, out)
        outputs = (out,) if isinstance(out, torch.Tensor) else out if isinstance(out, tuple | list) else ()
        for position, tensor in enumerate(outputs):
            if isinstance(tensor, torch.Tensor):
                self._allocate(tensor, call)
            elif isinstance(tensor, list):
                for item in tensor:
                    self._allocate(item, call)
            if position in after:
                self._scratch(after[position], call)
        return out

    def _output(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], module: str) -> Any:
        if func in _DATA_DEPENDENT or func is aten.index.Tensor:
            out: Any = sized_by_value(func, args, kwargs)
            if out is not None:
                return out
        self._refuse_data_dependent(func, args, module)
        known, out = output_of(func, args, kwargs)
        if known:
            return out
        try:
            return func(*args, **kwargs)
        except NotImplementedError as error:
            raise CannotSimulate("it has no kernel for shapes alone (a meta kernel)", str(func), module) from error

    def begin_step(self) -> None:
        """Mark where a step begins."""
        self.trace.steps.append(len(self.trace.calls))

    def end_step(self) -> None:
        """Mark where a step ends, for a program that may end within one."""
        self.trace.ends.append(len(self.trace.calls))

    def hold(self, tensors: Iterable[torch.Tensor], category: str) -> None:
        """Name what storages hold, allocating those that were made before the trace began."""
        for tensor in tensors:
            if tensor.device.type != "meta":
                continue
            identity = tensor.untyped_storage()._cdata
            if identity not in self._live:
                call = len(self.trace.calls)
                self.trace.calls.append(Call(f"{category} to device", "", self.phase))
                self._allocate(tensor, call)
            if identity in self._live:
                self.trace.categories.setdefault(self._live[identity][0], category)

    def hold_module(self, module: torch.nn.Module) -> None:
        """Allocate parameters and buffers in the order in which ``Module.to`` moves them: children first."""
        for child in module.children():
            self.hold_module(child)
        self.hold(module.parameters(recurse=False), "parameters")
        self.hold(module.buffers(recurse=False), "buffers")

    def forget_temporaries(self, start: int) -> None:
        """Drop what was both allocated and freed since event ``start``."""
        tail = self.trace.events[start:]
        freed = {key for key, size, _ in tail if size < 0}
        passing = {key for key, size, _ in tail if size >= 0 and key in freed}
        self.trace.events[start:] = [event for event in tail if event[0] not in passing]

    def _current_module(self) -> str:
        node = torch._C._current_autograd_node()
        if node is not None:
            return self._module_of_node.get(node._sequence_nr(), "")
        module = self._module()
        # The autograd node of this call was made just above the dispatch, so it has the last number given out.
        self._module_of_node[torch.autograd._get_sequence_nr() - 1] = module
        return module

    def _refuse_data_dependent(self, func: Any, args: tuple[Any, ...], module: str) -> None:
        reason = _DATA_DEPENDENT.get(func)
        if reason is not None and args[0].device.type == "meta":
            raise CannotSimulate(reason, str(func), module)
        if func in _INDEXING and args[0].device.type == "meta":
            for index in args[1]:
                if index is not None and index.dtype in (torch.bool, torch.uint8):
                    if func is not aten.index.Tensor and (len(args[2].shape) == 0 or value_of(index) is not None):
                        continue
                    raise CannotSimulate(
                        "boolean indexing selects a number of elements that depends on values", str(func), module
                    )

    def _record_work(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, call: int) -> None:
        work = work_of(func, args, kwargs, out)
        if pending:
            work = (*pending, *work)
            pending.clear()
        if work:
            self.trace.work[call] = work

    def _cublas_workspace(self, func: Any, call: int) -> None:
        """cuBLAS keeps a workspace per thread's handle: one for the forward, one for the autograd thread."""
        thread = "backward" if self.phase == "backward" else "forward"
        if thread not in self._cublas:
            size = cublas_handle(func)
            if size:
                self._cublas.add(thread)
                key = self._next_key
                self._next_key += 1
                self.trace.categories[key] = "workspace"
                self.trace.events.append((key, size, call))

    def _scratch(self, workspace: Workspace, call: int) -> None:
        self.trace.workspaces.append(workspace)
        self.trace.events.append((-len(self.trace.workspaces), 0, call))

    def _allocate(self, tensor: torch.Tensor, call: int) -> None:
        if tensor.device.type != "meta":
            return
        storage = tensor.untyped_storage()
        identity = storage._cdata
        if identity in self._live:
            return
        key = self._next_key
        self._next_key += 1
        self.trace.events.append((key, storage.nbytes(), call))

        def freed(_: object, identity: int = identity, key: int = key) -> None:
            self._live.pop(identity, None)
            if self.phase == "ended":
                return
            self.trace.events.append((key, -1, len(self.trace.calls) - 1))

        self._live[identity] = (key, weakref.ref(storage, freed))


class ModuleStack:
    """Context manager that knows, during the forward pass, the dotted name of the innermost running module."""

    def __init__(self, root: torch.nn.Module) -> None:
        self._names = {id(module): name for name, module in root.named_modules()}
        self._stack: list[str] = []
        self.failed = ""
        self._hooks: list[Any] = []

    @property
    def depth(self) -> int:
        """How many modules are running, one called by the other."""
        return len(self._stack)

    def current(self) -> str:
        return self._stack[-1] if self._stack else ""

    def __enter__(self) -> ModuleStack:
        register = torch.nn.modules.module
        self._hooks = [
            register.register_module_forward_pre_hook(self._push),
            register.register_module_forward_hook(self._pop, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _push(self, module: torch.nn.Module, _: object) -> None:
        self.failed = ""
        self._stack.append(self._names.get(id(module), self.current()))

    def _pop(self, module: torch.nn.Module, _: object, __: object) -> None:
        if self._stack:
            self.failed = self.failed or self._stack[-1]
            self._stack.pop()
