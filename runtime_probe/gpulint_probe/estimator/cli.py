"""``gpulint estimate``. Imports torch only when the command runs."""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpulint.cli.parser import Parser
from gpulint.escaping import say
from gpulint.estimates import BatchSizes, EstimateFailed
from gpulint.extras import missing
from gpulint_probe.estimator.errors import EstimateError

if TYPE_CHECKING:
    from gpulint_probe.estimator.api import Estimate, Request
    from gpulint_probe.estimator.search import Suggestion
    from gpulint_probe.estimator.trace import Trace

_DESCRIPTION = """Tell, without a GPU, how much GPU memory a training job will hold and which batch fits a card.
The model factory that you name is imported and called: this runs its code. Weights are never downloaded."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command to a command line."""
    parser = subparsers.add_parser(
        "estimate", help="GPU memory of a training job and the batch that fits", description=_DESCRIPTION
    )
    add = parser.add_argument
    add(
        "target",
        metavar="TARGET",
        nargs="*",
        help="train.py:build, package.module:build, timm:resnet50, torchvision:vgg16, hf:path/config.json or"
        " megatron:hidden=1024,layers=24,...; or, after --, the command that trains",
    )
    add(
        "--input",
        action="append",
        default=[],
        dest="inputs",
        metavar="SPEC",
        help="shape of a sample: 3x224x224, tokens:512, mask=bool:512",
    )
    add("--batch-size", type=int, default=8)
    add("--image-size", type=int, default=0, metavar="N", help="width and height of the images, for 3xNxN")
    add(
        "--optimizer",
        default="adamw",
        help="adamw, adam, sgd, sgd-momentum, adafactor, ...; adamw-fused (default: adamw)",
    )
    add(
        "--precision",
        default="fp32",
        help="fp32, tf32, bf16 (autocast), fp16-amp (autocast, scaled loss), bf16-true (default: fp32)",
    )
    add("--loss", default="auto", help="auto, cross-entropy, mse, bce, mean, output (default: auto)")
    add("--grad-accumulation", type=int, default=1, metavar="N")
    add(
        "--activation-checkpointing",
        action="store_const",
        const="full",
        default="",
        help="recompute activations of the repeated blocks",
    )
    add(
        "--checkpointing",
        dest="activation_checkpointing",
        metavar="MODE",
        help="as --activation-checkpointing: full, selective (keeps attention and every second matrix product) or N,"
        " every N-th block",
    )
    add("--channels-last", action="store_true", help="model and images in channels_last layout")
    add("--data-parallel", default="", help="ddp, fsdp, zero1, zero2 or zero3; needs --gpus")
    add(
        "--fsdp-wrap",
        default="",
        metavar="UNIT",
        help="what FSDP gathers at once: blocks, model, or names of module classes (default: blocks and single layers)",
    )
    add("--gpus", type=int, default=1, metavar="N")
    add(
        "--model-arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="keyword argument of the factory, repeatable",
    )
    add(
        "--program-args",
        default="",
        metavar="ARGUMENTS",
        help="command line that the factory's program sees, such as '--data /tmp --arch resnet50' (default: none)",
    )
    add("--gpu", default="", help="card to fit, such as A100-40GB")
    add("--memory", metavar="SIZE", help="memory of the card to fit, such as 24GiB")
    add(
        "--cuda",
        default="",
        metavar="VERSION",
        help="CUDA version of the job's driver, which decides the size of the context (default: 12 or newer)",
    )
    add("--context", metavar="SIZE", help="memory of the CUDA context, or the word measure: on the GPU of this machine")
    add(
        "--suggest-batch",
        action="store_true",
        help="find the largest batches for training and evaluation that leave 10%% free",
    )
    add(
        "--savings",
        action="store_true",
        help="say what bf16 and activation checkpointing would free (always said where the job does not fit)",
    )
    add("--method", default="simulate", help="simulate, horus, deepspeed, faketensor or gpumemnet (default: simulate)")
    add(
        "--gpumemnet-model",
        default="",
        metavar="FILE",
        help="classifier trained by benchmarks/estimator/train_gpumemnet.py",
    )
    add(
        "--loader",
        choices=("real", "fake", "skip"),
        default="real",
        help="batches of a command: real (timed), fake (made-up images for torchvision's datasets) or skip (the first"
        " batch again and again)",
    )
    add(
        "--steps",
        type=int,
        default=3,
        metavar="N",
        help="optimizer steps after which a command is stopped (default: 3)",
    )
    add("--cpus", type=int, default=0, metavar="N", help="CPU cores that the job gets for its data loader")
    add("--time-limit", type=float, default=300.0, metavar="SECONDS", help="for a command to take its steps")
    add("--plot", type=Path, metavar="FILE", help="draw the memory over the step to a .png or .svg file")
    add("--output-format", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command: 0, or 1 where the job does not fit the card, or 2 on errors (one line on stderr)."""
    try:
        import rich.console
        import rich.progress
        import torch  # noqa: F401
    except ImportError as error:
        say(f"gpulint: error: {missing('gpulint estimate', error.name or 'torch', 'estimate')}")
        return 2
    try:
        with rich.progress.Progress(
            "{task.description}",
            rich.progress.BarColumn(),
            rich.progress.TimeElapsedColumn(),
            console=rich.console.Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        ) as bar:
            task = bar.add_task("loading the model", total=None)  # how many steps a search needs shows at its end
            estimate, suggestion, savings = _estimate(args, lambda text: bar.update(task, description=text))
    except EstimateError as error:
        say(f"gpulint: error: {error}")
        return 2
    from gpulint_probe.estimator.report import as_json, print_table

    if args.output_format == "json":
        sys.stdout.write(as_json(estimate, suggestion, savings) + "\n")
    else:
        print_table(rich.console.Console(markup=False, emoji=False), estimate, suggestion, savings)
    return 1 if estimate.fits is False else 0


class _Parser(Parser):
    """Raises instead of ending the process."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise EstimateFailed((message or "").removeprefix("gpulint: error: ").strip())


def request_of(arguments: Sequence[str]) -> Request:
    """What the arguments of ``gpulint estimate`` ask for.

    Raises:
        EstimateFailed: wrong arguments, or no torch.
    """
    parser = _Parser(prog="gpulint")
    add_parser(parser.add_subparsers(parser_class=_Parser))
    args = parser.parse_args(["estimate", *arguments])
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise EstimateFailed(missing("it", error.name or "torch", "estimate")) from None
    try:
        return _request(args)
    except EstimateError as error:
        raise EstimateFailed(str(error)) from None


def batch_sizes(arguments: Sequence[str]) -> BatchSizes:
    """The batches that fit the card named among the arguments of ``gpulint estimate``; runs the model factory.

    Raises:
        EstimateFailed: wrong arguments, no torch, or a job that cannot be simulated.
    """
    request = request_of(arguments)
    from gpulint_probe.estimator.search import suggest_batch

    try:
        found = suggest_batch(request)
        card = request.card()
    except EstimateError as error:
        raise EstimateFailed(str(error)) from None
    assert card is not None
    recomputed = 0
    if not request.activation_checkpointing:
        with contextlib.suppress(EstimateError):
            recomputed = suggest_batch(dataclasses.replace(request, activation_checkpointing="full")).train_batch
    return BatchSizes(found.train_batch, found.eval_batch, card.name, request.target, recomputed)


def _estimate(args: argparse.Namespace, progress: Any) -> tuple[Estimate, Suggestion | None, dict[str, int]]:
    from gpulint_probe.estimator.api import build_job, estimate_job
    from gpulint_probe.estimator.loader import with_loader
    from gpulint_probe.estimator.plot import plot
    from gpulint_probe.estimator.script.command import estimate_command, is_command
    from gpulint_probe.estimator.search import suggest_for_job

    request = _request(args)
    if is_command(args.target):
        progress(f"running {' '.join(args.target)[:60]} on fake tensors")
        outcome = estimate_command(request, args.target, args.loader, args.steps, args.time_limit)
        assert outcome.estimate is not None
        timed = args.loader == "real"
        return with_loader(outcome.estimate, outcome.recorded, args.cpus) if timed else outcome.estimate, None, {}
    job = build_job(request)
    traces: list[Trace] = []
    progress(f"training step with batch {request.batch_size}")
    estimate = estimate_job(request, job, traces.append)
    if args.plot:
        if not traces:
            raise EstimateError(f"--plot needs --method simulate, not {request.method}")
        plot(traces[0], args.plot, f"{request.target}, batch {request.batch_size}")
    suggestion = suggest_for_job(request, job, progress) if args.suggest_batch else None
    wanted = request.method == "simulate" and (args.savings or estimate.fits is False)
    savings = _savings(request, estimate) if wanted else {}
    return estimate, suggestion, savings


def _savings(request: Request, estimate: Estimate) -> dict[str, int]:
    """Bytes that bf16 and activation checkpointing would free, where they are not used yet and can be."""
    from dataclasses import replace

    from gpulint_probe.estimator.api import estimate as estimate_request

    savings: dict[str, int] = {}
    variants = {}
    if request.precision in ("fp32", "tf32"):
        variants["bf16"] = replace(request, precision="bf16")
    if not request.activation_checkpointing:
        variants["activation checkpointing"] = replace(request, activation_checkpointing="full")
    for name, variant in variants.items():
        try:
            savings[name] = estimate.reserved_bytes - estimate_request(variant).reserved_bytes
        except EstimateError:
            continue
    return savings


_DTYPES = {"float32": "fp32", "bfloat16": "bf16"}
"""PyTorch's names, and what --precision calls them."""


def _request(args: argparse.Namespace) -> Request:
    from gpulint_probe.estimator.api import Request
    from gpulint_probe.estimator.cards import parse_size

    precision = _DTYPES.get(args.precision, args.precision)
    return Request(
        _target(args.target), tuple(args.inputs), args.batch_size, args.optimizer, precision, args.loss,
        args.grad_accumulation, args.activation_checkpointing, args.channels_last, args.data_parallel, args.gpus,
        _model_arguments(args.model_arg), args.gpu, parse_size(args.memory) if args.memory else None,
        _context(args.context), args.method, args.gpumemnet_model, tuple(shlex.split(args.program_args)),
        args.fsdp_wrap, args.cuda, args.image_size,
    )  # fmt: skip


def _target(words: list[str]) -> str:
    if not words:
        raise EstimateError("what to estimate is missing: a target such as train.py:build, or -- and a command")
    if len(words) > 1 and words[0] not in ("python", "python3") and not words[0].endswith(".py"):
        return " ".join(words)
    return words[0]


def _context(text: str | None) -> int | None:
    if text != "measure":
        from gpulint_probe.estimator.cards import parse_size

        return parse_size(text) if text else None
    from gpulint_probe.estimator.context import measure_context

    return measure_context()


def _model_arguments(texts: list[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.isidentifier():
            raise EstimateError(f"--model-arg {text!r} is not NAME=VALUE")
        try:
            arguments[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            arguments[name] = value
    return arguments
