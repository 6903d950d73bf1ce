"""The process that runs the script: ``main([SPEC, RESULT])``.

SPEC is a pickled Spec; RESULT receives a pickled Estimate and what the loader did, or the message of an error.
"""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import runpy
import sys
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gpulint_probe.estimator.adapters import compiling_recorded, downloads_asked_for
from gpulint_probe.estimator.api import Estimate, Request, estimate_trace
from gpulint_probe.estimator.errors import CannotSimulate, EstimateError
from gpulint_probe.estimator.job import Job
from gpulint_probe.estimator.optimizers import as_on_cuda
from gpulint_probe.estimator.script import datasets, fake_cuda, guards, wrappers
from gpulint_probe.estimator.script.mode import ScriptMode, ScriptTracer
from gpulint_probe.estimator.target import repair_torchvision
from gpulint_probe.estimator.trace import ModuleStack


@dataclass(frozen=True, slots=True)
class Spec:
    """What to run: a script with its arguments (``module``: as ``python -m``), and how."""

    request: Request
    script: str
    arguments: tuple[str, ...]
    module: bool = False
    loader: str = "real"
    steps: int = 3
    gpus: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """An estimate, or the ``error`` that kept the script from its steps; ``recorded`` says how the loader did."""

    estimate: Estimate | None
    recorded: wrappers.Recorded
    steps: int = 0
    error: str = ""


class _Done(BaseException):
    """Ends the script: enough steps were seen."""


class Run:
    """One script under observation."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.recorded = wrappers.Recorded()
        self.stack = ModuleStack(torch.nn.Module())
        self.tracer = ScriptTracer(self.stack.current)
        self.steps = 0
        self.first: Any = None
        self.fused = False
        self.parameters: dict[int, torch.nn.Parameter] = {}
        self._before = 0

    def run(self) -> None:
        """Run the script to its last wanted step. Raises EstimateError."""
        request = self.spec.request
        card = request.card()
        assert card is not None
        note = self.tracer.trace.note
        # Optimizers import it lazily, and it refuses to begin among patched functions.
        importlib.import_module("torch._dynamo")
        repair_torchvision()
        with contextlib.ExitStack() as active:
            active.enter_context(fake_cuda.install(card, self.spec.gpus))
            wrappers.distributed(self.recorded, self.spec.gpus, active)
            wrappers.scaling(active)
            wrappers.tied_moves(active)
            if self.spec.loader == "fake":
                datasets.install(active)
            wrappers.loaders(self.recorded, self.spec.loader, self.spec.steps, active, torch._C.DisableTorchFunction)
            guards.install(note, active)
            active.enter_context(compiling_recorded(note))
            hooks = (
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
                torch.nn.modules.module.register_module_forward_pre_hook(self._forward_begins),
            )
            for hook in hooks:
                active.callback(hook.remove)
            active.enter_context(self.stack)
            active.enter_context(ScriptMode(note, self.stack.current, self.spec.script))
            active.enter_context(self.tracer)
            try:
                self._execute()
            except _Done:
                pass
            finally:
                self.tracer.phase = "ended"

    def _execute(self) -> None:
        spec = self.spec
        sys.argv = [spec.script, *spec.arguments]
        try:
            if spec.module:
                sys.path.insert(0, str(Path.cwd()))
                runpy.run_module(spec.script, run_name="__main__", alter_sys=True)
            else:
                sys.path.insert(0, str(Path(spec.script).resolve().parent))
                runpy.run_path(spec.script, run_name="__main__")
        except SystemExit as error:
            if self.steps == 0:
                raise EstimateError(f"{spec.script} ended (exit code {error.code}) before an optimizer step") from None

    def _forward_begins(self, module: torch.nn.Module, _: Any) -> None:
        if self.tracer.stage == "setup":
            with torch._C.DisableTorchFunction():
                if any(p.device.type == "meta" for p in module.parameters()):
                    self.tracer.stage = "forward"
                    self.tracer.begin_step()

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        with torch._C.DisableTorchFunction():
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            self.parameters |= {id(p): p for p in parameters}
            if not any(p.device.type == "meta" for p in parameters):
                raise EstimateError("the optimizer's parameters are not on a CUDA device: the script trains on the CPU")
            self.fused = as_on_cuda(optimizer) or self.fused
            self.tracer.hold(parameters, "parameters")
            self.tracer.hold((p.grad for p in parameters if p.grad is not None), "gradients")
        self.tracer.stage = "optimizer"
        self._before = len(self.tracer.trace.events)

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        with torch._C.DisableTorchFunction():
            values = [value for state in optimizer.state.values() for value in state.values()]
            self.tracer.hold((value for value in values if isinstance(value, torch.Tensor)), "optimizer state")
            if self.fused:
                self.tracer.forget_temporaries(self._before)
        self.tracer.stage = "forward"
        self.first = self.first or optimizer
        if optimizer is self.first:  # where several take turns, a step of the program ends with the first one's
            self.steps += 1
            if self.steps >= self.spec.steps:
                self.tracer.stage = "ended"
                raise _Done
            self.tracer.begin_step()

    def outcome(self) -> Outcome:
        """The estimate of what was recorded. Raises EstimateError where no step was."""
        if self.steps == 0:
            raise EstimateError(f"{self.spec.script} ended without an optimizer step")
        recorded, request = self.recorded, self.spec.request
        model = torch.nn.Module()
        for index, parameter in enumerate(self.parameters.values()):
            model.register_parameter(f"p{index}", parameter)
        strategy = request.data_parallel or recorded.strategy
        notes = [f"{strategy} is the script's own"] if recorded.strategy and not request.data_parallel else []
        job = Job(
            model, lambda size: ((), {}, None), lambda output, target: output, None,
            max(recorded.batch_size, 1), gpus=self.spec.gpus, strategy=strategy if self.spec.gpus > 1 else "",
            wrap=request.fsdp_wrap, notes=notes,
        )  # fmt: skip
        if not recorded.batch_size:
            notes.append("the batch size is not known: no DataLoader was seen, so samples are counted as steps")
        request = replace(request, batch_size=job.batch_size)
        return Outcome(estimate_trace(request, job, self.tracer.trace), recorded, self.steps)


def failure(error: BaseException, script: str) -> str:
    """One line about what a script raised, with the line of the script."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(_folder(script))]
    own = [frame for frame in frames if "site-packages" not in frame.filename]
    where = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    line = next((line for line in str(error).splitlines() if line.strip()), "")
    hint = ""
    if isinstance(error, FileNotFoundError):
        hint = "; --loader fake makes up the data of torchvision's datasets"
    elif downloads_asked_for(str(error)) or "refuses network connections" in str(error):
        hint = "; nothing is downloaded: use from_config, local files, or --loader fake"
    return f"the script fails{where}: {type(error).__name__}: {line}{hint}"


def _folder(script: str) -> str:
    return str(Path(script).resolve().parent)


def main(arguments: list[str]) -> int:
    """Run SPEC and write RESULT."""
    spec: Spec = pickle.loads(Path(arguments[0]).read_bytes())
    # What the script prints must not mix with the answer.
    sys.stdout = sys.stderr
    run = Run(spec)
    message = _attempt(run, spec)
    result = Outcome(None, run.recorded, run.steps, message)
    if not message:
        try:
            result = run.outcome()
        except EstimateError as error:
            result = Outcome(None, run.recorded, run.steps, str(error))
    Path(arguments[1]).write_bytes(pickle.dumps(result))
    return 0


def _attempt(run: Run, spec: Spec) -> str:
    try:
        run.run()
    except CannotSimulate as error:
        return str(error)
    except EstimateError as error:
        return str(error)
    except KeyboardInterrupt:
        return "interrupted"
    except Exception as error:
        if os.environ.get("GPULINT_DEBUG"):
            traceback.print_exc()
        return failure(error, spec.script)
    return ""
