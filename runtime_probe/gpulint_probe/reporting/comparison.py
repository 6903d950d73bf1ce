"""Two recordings side by side, for a terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpulint.escaping import no_command
from gpulint_probe.analysis.compare import Comparison, Row
from gpulint_probe.analysis.words import duration, percent, size


def comparison_page(comparison: Comparison, *, colour: bool = False, width: int = 80) -> str:
    """The comparison as text with a final newline."""
    out = io.StringIO()
    console = Console(
        file=out, width=max(40, width), force_terminal=colour, no_color=not colour, highlight=False,
        color_system="standard" if colour else None, legacy_windows=False, markup=False, emoji=False,
    )  # fmt: skip
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right")
    for row in comparison.rows:
        if row.before is not None or row.after is not None:
            table.add_row(row.name, _value(row.before, row.unit), _value(row.after, row.unit), _change(row))
    if comparison.causes:
        table.add_row()
        table.add_row(Text("GPU time lost to", style="bold"))
        for row in comparison.causes:
            table.add_row(f"  {row.name}", _value(row.before, row.unit), _value(row.after, row.unit), _change(row))
    console.print(table)
    for warning in comparison.warnings:
        console.print(Text(f"Note: {warning}", style="yellow"))
    return "\n".join(no_command(line.rstrip()) for line in out.getvalue().split("\n")[:-1]) + "\n"


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "not seen"
    match unit:
        case "ratio":
            return percent(value)
        case "s":
            return duration(value)
        case "B":
            return size(value)
        case "J":
            return f"{value / 3.6e6:.3g} kWh"
    return f"{value:.3g} {unit}"


def _change(row: Row) -> str:
    if row.before is None or row.after is None:
        return ""
    if row.unit == "ratio":
        return f"{100 * (row.after - row.before):+.0f} points"
    return "" if row.factor is None else f"x {row.factor:.2f}"
