"""The process that runs the script: ``main([SPEC, RESULT])``.

SPEC is a pickled Spec; RESULT receives a pickled Estimate and what the loader did, or the message of an error.
"""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import runpy
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gpulint_probe.estimator.adapters import compiling_recorded
from gpulint_probe.estimator.api import Estimate, Request, estimate_trace
from gpulint_probe.estimator.compare import on_cards
from gpulint_probe.estimator.errors import CannotSimulate, EstimateError
from gpulint_probe.estimator.fused_loss import fuse_head
from gpulint_probe.estimator.job import Job
from gpulint_probe.estimator.optimizers import as_on_cuda
from gpulint_probe.estimator.script import (
    datasets,
    deepspeed,
    fake_cuda,
    guards,
    hub,
    kernels,
    optional,
    saved,
    stand_ins,
    weights,
    wrappers,
)
from gpulint_probe.estimator.script.command import Override
from gpulint_probe.estimator.script.failures import OwnCode, failure
from gpulint_probe.estimator.script.mode import ScriptMode, ScriptTracer
from gpulint_probe.estimator.script.samples import SampleCount
from gpulint_probe.estimator.simulate import OTHER_WEIGHTS, WEIGHT_COPIES, Timeline, timeline
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
    override: Override = field(default_factory=Override)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An estimate, or the ``error`` that kept the script from its steps; ``recorded`` says how the loader did.

    ``others`` are the estimates for further cards; ``autocast``: the script used it or a lower type itself.
    """

    estimate: Estimate | None
    recorded: wrappers.Recorded
    steps: int = 0
    error: str = ""
    others: tuple[Estimate, ...] = ()
    timeline: Timeline | None = None
    autocast: bool = False
    gpus: int = 1


class _Done(BaseException):
    """Ends the script: enough steps were seen."""


class Run:
    """One script under observation."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.recorded = wrappers.Recorded()
        self.own = OwnCode(spec.script)
        self.stack = ModuleStack(torch.nn.Module())
        self.tracer = ScriptTracer(self.stack.current, self.own.line)
        forced = torch.bfloat16 if spec.override.precision == "bf16" else None
        self.mode = ScriptMode(self.tracer.trace.note, self.stack.current, self.own.line, self._copied, forced)
        self.steps = 0
        self.models: list[torch.nn.Module] = []
        self.first: Any = None
        self.fused = False
        self.fused_loss = False
        self.parameters: dict[int, torch.nn.Parameter] = {}
        self._before = 0
        self._samples = SampleCount(self.recorded)

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
            wrappers.offloading(active)
            wrappers.tied_moves(active)
            datasets.install(self.spec.loader, self._made_up, active)
            wrappers.loaders(
                self.recorded, self.spec.loader, self.spec.steps, self.spec.override.batch_size, active,
                torch._C.DisableTorchFunction,
            )  # fmt: skip
            overlay = guards.install(note, active)
            saved.install(overlay, active)
            weights.install(note, active)
            hub.install(overlay.folder, note, self._made_up, self.own.line, active)
            optional.install(self.own, note, active)
            stand_ins.install(self._libraries(), active)
            active.enter_context(compiling_recorded(note))
            hooks = (
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
                torch.nn.modules.module.register_module_forward_pre_hook(self._forward_begins),
            )
            for hook in hooks:
                active.callback(hook.remove)
            active.enter_context(self.stack)
            active.enter_context(self.mode)
            active.enter_context(self.tracer)
            try:
                self._execute()
            except _Done:
                pass
            except Exception as error:  # what comes between the steps of a job, such as an evaluation
                if not self.steps:
                    raise
                reason = str(error) if isinstance(error, EstimateError) else failure(error, self.spec.script)
                note(f"{self.steps} of {self.spec.steps} steps were taken before {reason}")
            finally:
                self.tracer.phase = "ended"

    def _made_up(self, what: str) -> None:
        self.recorded.made_up = True
        self.tracer.trace.note(f"{what}{self.own.line()}")

    def _libraries(self) -> dict[str, Callable[[], stand_ins.Contents]]:
        def fuse() -> None:
            self.fused_loss = True

        spec = self.spec
        made: dict[str, Callable[[], stand_ins.Contents]] = {
            "bitsandbytes": kernels.bitsandbytes,
            "deepspeed": lambda: deepspeed.contents(self.recorded, spec.gpus),
            "liger_kernel": lambda: kernels.liger(fuse),
        }
        return {name: made[name] for name in stand_ins.named(spec.script, spec.module, spec.arguments)}

    def _execute(self) -> None:
        spec = self.spec
        sys.argv = [spec.script, *spec.arguments]
        try:
            if spec.module:
                sys.path.insert(0, str(Path.cwd()))
                runpy.run_module(spec.script, run_name="__main__", alter_sys=True)
            else:
                sys.path.insert(0, str(Path(spec.script).resolve().parent))
                runpy.run_path(str(Path(spec.script).resolve()), run_name="__main__")
        except SystemExit as error:
            if self.steps == 0:
                raise EstimateError(f"{spec.script} ended (exit code {error.code}) before an optimizer step") from None

    def _forward_begins(self, module: torch.nn.Module, inputs: Any) -> None:
        if not self.stack.depth and torch.is_grad_enabled():
            self._samples.forward(inputs)
            self._outermost(module)
        if self.tracer.stage == "setup":
            with torch._C.DisableTorchFunction():
                if any(p.device.type == "meta" for p in module.parameters()):
                    self.tracer.stage = "forward"
                    self.tracer.begin_step()

    def _copied(self, weight: torch.Tensor) -> None:
        self.tracer.hold((weight,), WEIGHT_COPIES)

    def _outermost(self, module: torch.nn.Module) -> None:
        """Name what a model that is trained holds; its frozen weights are in no optimizer."""
        if any(module is known for known in self.models):
            return
        self.models.append(module)
        if self.fused_loss:
            for inner in module.modules():
                if hasattr(inner, "loss_function") and hasattr(inner, "get_output_embeddings"):
                    fuse_head(inner)
        with torch._C.DisableTorchFunction():
            self.tracer.hold(module.parameters(), "parameters")
            self.tracer.hold(module.buffers(), "buffers")

    def _name_other_weights(self) -> None:
        with torch._C.DisableTorchFunction():
            modules = [found for found in gc.get_objects() if issubclass(type(found), torch.nn.Module)]
            weights = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
            shapes = {tuple(parameter.shape) for parameter in self.parameters.values()}
            self.tracer.name_kept(weights, shapes, OTHER_WEIGHTS)

    def _model(self) -> torch.nn.Module:
        """The model that holds all trained parameters, or else a module of just these."""
        for model in self.models:
            if self.parameters.keys() <= {id(parameter) for parameter in model.parameters()}:
                return model
        flat = torch.nn.Module()
        for index, parameter in enumerate(self.parameters.values()):
            flat.register_parameter(f"p{index}", parameter)
        return flat

    def _precision(self) -> str:
        """The script's own, in the names of ``--precision``."""
        if self.mode.lowered is not None:
            return "bf16" if self.mode.lowered == torch.bfloat16 else "fp16-amp"
        return "fp32" if torch.get_float32_matmul_precision() == "highest" else "tf32"

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
        paged = getattr(optimizer, "paged_bytes", 0)
        if paged:
            self.tracer.trace.note(
                f"paged optimizer state ({paged / 2**30:.2f} GiB) is not counted: it moves to the host"
            )
        self.tracer.stage = "forward"
        self.first = self.first or optimizer
        if optimizer is self.first:  # where several take turns, a step of the program ends with the first one's
            self.steps += 1
            self.tracer.end_step()
            self._samples.end_step()
            if self.steps >= min(2, self.spec.steps):  # all optimizers have had their turn
                self._name_other_weights()
            if self.steps >= self.spec.steps:
                self.tracer.stage = "ended"
                raise _Done
            self.tracer.begin_step()

    def outcome(self) -> Outcome:
        """The estimate of what was recorded. Raises EstimateError where no step was."""
        if self.steps == 0:
            raise EstimateError(f"{self.spec.script} ended without an optimizer step")
        recorded, request = self.recorded, self.spec.request
        strategy = request.data_parallel or recorded.strategy
        notes = [f"{strategy} is the script's own"] if recorded.strategy and not request.data_parallel else []
        shared = self.spec.gpus > 1 or recorded.offloaded or strategy.startswith("zero")
        job = Job(
            self._model(), lambda size: ((), {}, None), lambda output, target: output, None,
            self._samples.batch_size or 1, self._precision(), gpus=self.spec.gpus,
            strategy=strategy if shared else "", wrap=request.fsdp_wrap, notes=notes,
            samples=self._samples.in_a_step, offloaded=frozenset(recorded.offloaded),
        )  # fmt: skip
        if not recorded.batch_size:
            size = self._samples.batch_size
            read = f"{size}, read off the model's input" if size else "not known, so samples are counted as steps"
            notes.append(f"no DataLoader was seen: the batch size is {read}")
        request = replace(request, batch_size=job.batch_size)
        trace, override = self.tracer.trace, self.spec.override
        return Outcome(
            estimate_trace(request, job, trace), recorded, self.steps,
            others=tuple(on_cards(request, job, trace, override.cards)),
            timeline=timeline(trace) if override.timeline else None,
            autocast=self.mode.lowered is not None or any(p.element_size() < 4 for p in self.parameters.values()),
            gpus=self.spec.gpus,
        )  # fmt: skip


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
