"""``gpulint rules``: the catalogue as a table."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from gpulint.cli import CLEAN, INTERNAL
from gpulint.cli.outputs import write_utf8
from gpulint.cli.terminal import columns
from gpulint.escaping import printable, say
from gpulint.reporters import as_json as json_text
from gpulint.rule import Rule


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser("rules", help="list all rules", description="List all rules.")
    parser.add_argument("--output-format", choices=("text", "json", "markdown"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from gpulint import plugins

    loaded = plugins.load()
    rules = sorted(loaded.rules, key=lambda rule: rule.code)
    for failure in loaded.failures:
        say(f"gpulint: plugin {failure.name} does not work: {failure.reason}")
    match args.output_format:
        case "json":
            write_utf8(json_text([as_json(rule) for rule in rules]))
        case "markdown":
            say(*markdown(rules).splitlines(), file=sys.stdout)
        case _:
            say(*(line for rule in rules for line in _row(rule)), file=sys.stdout)
    return INTERNAL if loaded.failures else CLEAN


def _row(rule: Rule) -> list[str]:
    """One line, on a narrow terminal folded below its last column."""
    head = f"{rule.code}  {rule.name:<28} {rule.severity!s:<8} {rule.fix:<7} "
    text = printable(head + rule.summary) + ("" if rule.default else " (off by default)")
    width = columns(len(text))
    return textwrap.wrap(text, width, subsequent_indent=" " * (len(head) if width > len(head) + 20 else 8))


def as_json(rule: Rule) -> dict[str, Any]:
    """Everything a program may want to know of a rule."""
    return {
        "code": rule.code,
        "name": rule.name,
        "category": rule.category.label,
        "dimension": str(rule.dimension),
        "severity": str(rule.severity),
        "kinds": sorted(map(str, rule.kinds)),
        "summary": rule.summary,
        "why": rule.why,
        "fix": str(rule.fix),
        "default": rule.default,
        "since": rule.since,
        "url": rule.url,
    }


def markdown(rules: Sequence[Rule]) -> str:
    """A Markdown table with links to the pages beside it."""
    lines = ["| code | name | detects | severity | fix | default | category |", "|---|---|---|---|---|---|---|"]
    for rule in rules:
        default, summary = "on" if rule.default else "off", rule.summary.replace("|", "\\|")
        cells = (
            rule.code,
            f"[{rule.name}]({page(rule)})",
            summary,
            rule.severity,
            rule.fix,
            default,
            rule.category.label,
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def page(rule: Rule) -> str:
    """File name of the rule's docs page."""
    return f"{rule.code.lower()}-{rule.name}.md"
