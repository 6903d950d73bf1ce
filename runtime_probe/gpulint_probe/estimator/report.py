"""Print an estimate: a table for people, JSON for programs."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from gpulint.escaping import printable
from gpulint_probe.estimator.api import Estimate
from gpulint_probe.estimator.performance import Performance
from gpulint_probe.estimator.search import MARGIN, Suggestion

GIB = 1 << 30


def as_json(estimate: Estimate, suggestion: Suggestion | None, savings: dict[str, int]) -> str:
    """One JSON object; sizes in bytes."""
    document: dict[str, Any] = estimate.to_json()
    if suggestion is not None:
        document |= {"train_batch": suggestion.train_batch, "eval_batch": suggestion.eval_batch}
    if savings:
        document["savings_bytes"] = savings
    return json.dumps(document, indent=2)


def print_table(console: Console, estimate: Estimate, suggestion: Suggestion | None, savings: dict[str, int]) -> None:
    """Totals, categories at the peak, where the peak is, whether it fits, and what would help."""
    title = printable(f"{estimate.target}, batch {estimate.batch_size} ({estimate.method})")
    table = Table(title=title, title_justify="left")
    table.add_column("memory")
    table.add_column("GiB", justify="right")
    if estimate.allocated_bytes:
        for name, size in sorted(estimate.by_category.items(), key=lambda item: -item[1]):
            table.add_row(f"  {name}", _gib(size))
        table.add_row("allocated (tensors, at the peak)", _gib(estimate.allocated_bytes))
        table.add_row("reserved (caching allocator)", _gib(estimate.reserved_bytes))
        table.add_row("CUDA context", _gib(estimate.context_bytes))
    table.add_row("on the device (nvidia-smi)", _gib(estimate.device_bytes), style="bold")
    if estimate.low_bytes != estimate.high_bytes:
        table.add_row("  interval", f"{_gib(estimate.low_bytes)} to {_gib(estimate.high_bytes)}")
    console.print(table)
    if estimate.peak_operator:
        module = f" of module '{estimate.peak_module}'" if estimate.peak_module else ""
        peak = f"Peak: {estimate.peak_operator} in the {estimate.peak_phase}{module}"
        console.print(printable(peak), highlight=False)
    for note in estimate.notes:
        console.print(printable(f"Note: {note}"), highlight=False)
    if estimate.fits is not None and estimate.capacity_bytes and estimate.free_bytes is not None:
        share = 100 * abs(estimate.free_bytes) / estimate.capacity_bytes
        if estimate.fits:
            side = (
                f"{_gib(estimate.free_bytes)} GiB ({share:.0f}%) free"
                if estimate.free_bytes > 0
                else "only by returning cached memory"
            )
            console.print(f"Fits {estimate.card}: {side}", highlight=False)
        else:
            console.print(f"Does not fit {estimate.card}: {_gib(-estimate.free_bytes)} GiB too much", highlight=False)
    if estimate.performance is not None:
        _print_performance(console, estimate.performance)
    if suggestion is not None:
        console.print(
            f"Largest batch with {MARGIN:.0%} of the card free: {suggestion.train_batch} for training, "
            f"{suggestion.eval_batch} for evaluation (no_grad); {suggestion.probes} steps simulated",
            highlight=False,
        )
    for name, size in savings.items():
        console.print(
            f"{name} would free {_gib(size)} GiB" if size > 0 else f"{name} would free nothing", highlight=False
        )


def _print_performance(console: Console, found: Performance) -> None:
    rate = found.samples / found.mid
    console.print(
        f"Step: {_ms(found.mid)} ({_ms(found.low)} to {_ms(found.high)}), {rate:.4g} samples/s; "
        f"GPU busy {found.busy:.0%}, SM activity about {found.sm_activity:.0%}",
        highlight=False,
    )
    limits = sorted(found.limits.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {share:.0%}" for name, share in limits if share >= 0.01)
    console.print(f"Limited by: {shown}", highlight=False)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"
