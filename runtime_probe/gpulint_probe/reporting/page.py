"""The one-page summary for a terminal."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpulint.escaping import no_command, printable
from gpulint_probe.analysis.batch import BatchAdvice
from gpulint_probe.analysis.cause import Cause
from gpulint_probe.analysis.economy import Prices, economy
from gpulint_probe.analysis.explanations import CODES
from gpulint_probe.analysis.figures import Analysis, GpuFigures
from gpulint_probe.analysis.program import StaticFinding
from gpulint_probe.analysis.utilization import LOW
from gpulint_probe.analysis.verdict import Loss, worth_naming
from gpulint_probe.analysis.words import duration, energy, listed, number, percent, size
from gpulint_probe.ranks.waits import rank_report
from gpulint_probe.reporting.buckets import Lane, activity, lanes, sparkline
from gpulint_probe.reporting.ranks import rank_table

_MOST_LOSSES = 6
_MOST_GPUS = 16
_MOST_FINDINGS = 3
_MOST_ACTIVITIES = 5
_WORTH_A_RANGE = 0.05


def page(
    analysis: Analysis,
    *,
    advice: BatchAdvice | None = None,
    prices: Prices | None = None,
    colour: bool = False,
    width: int = 80,
) -> str:
    """The summary as text with a final newline, at most ``width`` columns wide."""
    out = io.StringIO()
    console = Console(
        file=out, width=max(40, width), force_terminal=colour, no_color=not colour, highlight=False,
        color_system="standard" if colour else None, legacy_windows=False, markup=False, emoji=False,
    )  # fmt: skip
    ranks = rank_report(analysis)
    parts = (_head(analysis, prices), _gpus(analysis, console.width), rank_table(ranks), _host(analysis, console.width))
    for part in parts:
        if part is not None:
            console.print(part)
    _losses(console, analysis)
    _section(console, "Where the Python threads that train spent their time", activity_lines(analysis))
    _section(console, "What the profile says", [found.text for found in analysis.recording.evidence])
    _section(console, "Ranks", ranks.sentences if ranks else [])
    if advice is not None:
        _section(console, "Batch size", advice.lines)
    _section(console, "Worth knowing", remarks(analysis))
    return "\n".join(no_command(line.rstrip()) for line in out.getvalue().split("\n")[:-1]) + "\n"


def title(analysis: Analysis) -> str:
    """The command that ran."""
    recording = analysis.recording
    other = f"a profile of {recording.source}" if recording.evidence else "a running job"
    return printable(shlex.join(recording.command)) or other


def headline(analysis: Analysis) -> str:
    """Return a sentence on how well the GPUs were used."""
    if analysis.utilization is None:
        return "No GPU activity was seen."
    kind = "GPU utilization (coarse: share of time in which any kernel ran)" if analysis.coarse else "SM activity"
    verdict = ", below the ICSE 2024 study's 50% threshold" if analysis.utilization <= LOW else ""
    return f"Average {kind}: {percent(analysis.utilization)}{_possible(analysis)}{verdict}."


def _possible(analysis: Analysis) -> str:
    """Return the range of the mean over the whole run, where part of the run was not seen."""
    least, most = analysis.utilization_range or (0.0, 0.0)
    if most - least < _WORTH_A_RANGE:
        return ""
    return f" of the time seen ({percent(least)} to {percent(most)} of the whole run)"


def facts(analysis: Analysis) -> str:
    """Return what ran, for how long, and from which source its figures come."""
    recording = analysis.recording
    names = dict.fromkeys(gpu.name for gpu in analysis.gpus)
    cards = listed([f"{sum(gpu.name == name for gpu in analysis.gpus)} x {name}" for name in names])
    parts = [duration(analysis.seconds)]
    if recording.exit_code is not None:
        parts[0] += f", exit code {recording.exit_code}"
    elif recording.ended is None:
        parts[0] += ", did not end"
    parts.append(cards or "no GPU data")
    if cards or recording.host_samples:
        parts.append(f"{recording.source if cards else 'host sampled'} every {recording.interval_s:.3g} s")
    return "; ".join(parts)


def totals(analysis: Analysis, prices: Prices | None = None) -> str:
    """Speed, energy and cost as far as they are known."""
    found = economy(analysis, prices)
    parts = []
    if analysis.speed is not None:
        parts.append(f"{analysis.speed.value:.3g} {analysis.speed.unit} by the log")
    figures: tuple[tuple[float | None, Callable[[float], str], str], ...] = (
        (found.energy_j, energy, "{} used by the GPUs"),
        (found.energy_per_unit_j, energy, f"{{}} per {found.unit}"),
        (found.energy_per_epoch_j, energy, "{} per epoch"),
        (found.cost, _money, "cost {}"),
        (found.cost_per_epoch, _money, "{} per epoch"),
        (found.cost_lost, _money, "{} of it for GPU time that was lost"),
    )
    parts += [text.format(shown(value)) for value, shown, text in figures if value is not None]
    return "; ".join(parts)


def _money(amount: float) -> str:
    return f"{amount:.2f}"


def remarks(analysis: Analysis) -> list[str]:
    """Return other observations, what was not seen, and what went wrong."""
    found: list[str] = []
    for condition, text in (
        ("improper_batch_size", "mean utilization and peak memory are both at most 50%: a larger batch would fit"),
        ("insufficient_memory", "mean utilization is at most 50% while memory peaks above 80%: the batch cannot grow"
         " before memory is saved (lower precision, activation checkpointing, sharding)"),
        ("fluctuating", "utilization swings by more than 90 points in over 75% of the 120 s windows"),
    ):  # fmt: skip
        if condition == "improper_batch_size" and not _batch_may_matter(analysis):
            continue
        if gpus := [gpu for gpu in analysis.gpus if getattr(gpu, condition) and not gpu.never_used]:
            found.append(f"{_named(gpus, analysis)}: {text}")
    if held := [gpu for gpu in analysis.gpus if gpu.held_idle_seconds > 0.1 * gpu.seen_seconds]:
        shares = [gpu.held_idle_seconds / gpu.seen_seconds for gpu in held]
        most = percent(max(shares)) if len(shares) == 1 else f"up to {percent(max(shares))}"
        found.append(f"{_named(held, analysis)}: memory is held without any activity {most} of the time")
    if idle := [gpu for gpu in analysis.gpus if gpu.idle_slots and not gpu.never_used]:
        slots = sum(gpu.idle_slots for gpu in idle)
        found.append(f"{_named(idle, analysis)}: {number(slots, 'idle slot')} (over 60 s without activity or memory)")
    if analysis.skew is not None:
        skew = analysis.skew
        found.append(f"GPU {skew.least} is used {percent(skew.least_used)}, GPU {skew.most} {percent(skew.most_used)}")
    for other in analysis.neighbours:
        size_held = "" if other.memory_bytes is None else f" with up to {size(other.memory_bytes)}"
        found.append(
            f"GPU {other.gpu} is shared: {number(len(other.pids), 'process')} of others{size_held} computed on it"
            f" {percent(other.share)} of the time, which slows this job and counts in the activity above"
        )
    if analysis.imbalance is not None and analysis.imbalance.side == "cpu":
        found.append(f"the job's CPU cores are {percent(analysis.imbalance.cpu)} busy beside underused GPUs")
    if unseen := [gpu for gpu in analysis.gpus if gpu.unseen_seconds > max(5.0, 0.02 * analysis.seconds)]:
        most = duration(max(gpu.unseen_seconds for gpu in unseen))
        found.append(f"{_named(unseen, analysis)}: not seen for up to {most}, which counts as neither busy nor idle")
    found += map(printable, analysis.advice)
    found += analysis.hardware.remarks
    found += [f"not seen: {text}" for text in analysis.recording.blind_spots]
    found += analysis.recording.notes
    found += [f"contradicted: {refuted.finding}: {refuted.reason}" for refuted in analysis.refuted]
    if analysis.program.note:
        found.append(analysis.program.note)
    return found + _unmeasured(analysis)


def _batch_may_matter(analysis: Analysis) -> bool:
    """Return whether a larger batch could reduce a loss. It does not help a job that waits for input."""
    found = {loss.cause for loss in worth_naming(analysis.losses)}
    return not found or not found.isdisjoint((Cause.SMALL_BATCH, Cause.LAUNCH, Cause.LOW, Cause.SYNC))


def _unmeasured(analysis: Analysis) -> list[str]:
    """Return the findings of a scan of the program, for a run in which no GPU was seen."""
    if analysis.utilization is not None:
        return []
    findings = list(dict.fromkeys(analysis.program.findings))
    more = len(findings) - _MOST_FINDINGS
    lines = [f"in the code: {finding}{_to_measure(finding)}" for finding in findings[:_MOST_FINDINGS]]
    return lines + ([f"in the code: {number(more, 'more finding')}; see gpulint scan"] if more > 0 else [])


def _to_measure(finding: StaticFinding) -> str:
    """Return what a run on a GPU would show of a finding."""
    cause = next((cause.value for cause, codes in CODES.items() if finding.code in codes), None)
    return f"; a run on a GPU measures this as “{cause}”" if cause else ""


def activity_lines(analysis: Analysis) -> list[str]:
    """Return where the threads that train spent their time."""
    lines = []
    for pid in dict.fromkeys(one.pid for one in analysis.activities):
        found = [one for one in analysis.activities if one.pid == pid]
        name = f"rank {found[0].rank}" if found[0].rank is not None else f"process {pid}"
        parts = [
            f"{percent(one.share)} {one.phase}" + (f" ({one.place})" if one.place else "")
            for one in found[:_MOST_ACTIVITIES]
        ]
        lines.append(f"{name}: {', '.join(parts)}")
    return lines[:_MOST_GPUS]


def unexplained(analysis: Analysis) -> int:
    """Return the number of static findings that explain no loss of this run."""
    used = {finding for loss in worth_naming(analysis.losses) for finding in loss.findings}
    return len(set(analysis.program.findings) - used)


def _head(analysis: Analysis, prices: Prices | None) -> Text:
    text = Text("gpulint probe: ", style="bold")
    text.append(title(analysis))
    text.append(f"\n{facts(analysis)}\n", style="dim")
    style = "bold red" if analysis.utilization is not None and analysis.utilization <= LOW else "bold"
    text.append(headline(analysis), style=style)
    if known := totals(analysis, prices):
        text.append(f" {known}.")
    text.append("\n")
    return text


def _gpus(analysis: Analysis, width: int) -> Table | None:
    if not analysis.gpus:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    room = max(10, min(80, width - 42))
    for name, justify in (("GPU", "left"), ("used", "right"), ("activity over time", "left"), ("peak memory", "right"),
                          ("power", "right")):  # fmt: skip
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True)
    for gpu, series in list(zip(analysis.gpus, analysis.seen.series, strict=True))[:_MOST_GPUS]:
        table.add_row(
            str(gpu.index) + (f" {gpu.mig}" if gpu.mig else ""),
            "?" if gpu.utilization is None else percent(gpu.utilization),
            Text(sparkline(activity(analysis, series, room)), style="green" if (gpu.utilization or 0) > LOW else "red"),
            _memory(gpu),
            "" if gpu.mean_power_w is None else f"{gpu.mean_power_w:.0f} W",
        )
    if len(analysis.gpus) > _MOST_GPUS:
        table.caption = f"and {len(analysis.gpus) - _MOST_GPUS} more"
    return table


def _memory(gpu: GpuFigures) -> str:
    if gpu.peak_memory_bytes is None:
        return "?"
    share = f" ({percent(gpu.peak_memory)})" if gpu.peak_memory is not None else ""
    return size(gpu.peak_memory_bytes) + share


def _host(analysis: Analysis, width: int) -> Table | None:
    room = max(10, min(80, width - 42))
    host = [lane for lane in lanes(analysis, room) if lane.gpu is None]
    if not host:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for lane in host:
        table.add_row(Text(f"{lane.name:11}"), Text(sparkline(lane.values, lane.top), style="blue"), _most(lane))
    return table


def _most(lane: Lane) -> str:
    known = [value for value in lane.values if value is not None]
    if not known:
        return ""
    if lane.unit == "%":
        return f"mean {percent(sum(known) / len(known))}"
    return f"up to {max(known) / 1e6:.0f} MB/s"


def _losses(console: Console, analysis: Analysis) -> None:
    found = worth_naming(analysis.losses)
    if analysis.utilization is None:
        return
    console.print()
    if not found:
        console.print("No loss of GPU time that has a cause to act on.", style="bold green")
        return
    console.print("Where the GPU time went", style="bold")
    for place, loss in enumerate(found[:_MOST_LOSSES], 1):
        text = Text(f"{place}. ", style="bold")
        text.append(printable(loss.sentence), style="bold" if place == 1 else "")
        console.print(text)
        for line in _details(loss):
            first, *code = (printable(part, keep="\t") for part in line.split("\n"))
            console.print(Padding(Text(first, style="dim"), (0, 0, 0, 3)))
            for part in code:  # to copy, so that it is not folded
                console.print(Text(f"     {part}"), no_wrap=True, overflow="ignore", crop=False)
    if len(found) > _MOST_LOSSES:
        console.print(f"and {number(len(found) - _MOST_LOSSES, 'smaller cause')}")
    if others := unexplained(analysis):
        console.print(f"{number(others, 'more finding')} of `gpulint scan` without a loss in this run.", style="dim")


def _details(loss: Loss) -> list[str]:
    lines = [f"seen: {reason}" for reason in loss.reasons[:1]]
    if loss.refuted_by and not loss.certain:
        lines.append(f"would be refuted by {loss.refuted_by}")
    if loss.findings and loss.findings[0].help:
        lines.append(f"help: {loss.findings[0].help}")
    lines += [f"also: {finding}" for finding in loss.findings[1:_MOST_FINDINGS]]
    if len(loss.findings) > _MOST_FINDINGS:
        lines.append(f"also: {number(len(loss.findings) - _MOST_FINDINGS, 'more finding')} of these rules")
    return lines


def _section(console: Console, title: str, lines: list[str]) -> None:
    if not lines:
        return
    console.print()
    console.print(title, style="bold")
    for line in lines:
        console.print(Text(printable(f"- {line}")))


def _named(gpus: list[GpuFigures], analysis: Analysis) -> str:
    if len(gpus) == len(analysis.gpus):
        return "all GPUs" if len(gpus) > 1 else f"GPU {gpus[0].index}"
    return f"GPU {listed([str(gpu.index) for gpu in gpus])}"
