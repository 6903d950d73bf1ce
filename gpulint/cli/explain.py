"""``gpulint explain``: the documentation of one rule."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from gpulint import regex
from gpulint.cli import CLEAN
from gpulint.cli.terminal import colour, columns, is_terminal
from gpulint.config import ConfigError
from gpulint.escaping import printable, say
from gpulint.rule import Rule
from gpulint.suggestions import suggestion

SECTIONS = (
    "What it detects",
    "Why it costs GPU time",
    "When to ignore this rule",
    "Fix safety",
    "References",
)
"""The sections that every rule module's docstring has, in this order."""

_HEADING = regex.compile(rf"({'|'.join(SECTIONS)})(?::|\s*$)\s*(.*)")
_UNDERLINE = regex.compile(r"([-=~])\1{2,}\s*$")


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser("explain", help="explain one rule", description="Explain one rule.")
    parser.add_argument("rule", metavar="RULE", help="code or name, e.g. GPU301 or dataloader-not-pinned")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the rule's page."""
    from gpulint import plugins
    from gpulint.suppress import UNUSED_IGNORE

    rules = [*plugins.load().rules, UNUSED_IGNORE]
    for rule in rules:
        if args.rule.lower() in (rule.code.lower(), *rule.names):
            _show(explanation(rule))
            return CLEAN
    known = [word for rule in rules for word in (rule.code, rule.name)]
    meant = suggestion(args.rule, known) or "; 'gpulint rules' lists all rules"
    raise ConfigError(f"unknown rule '{args.rule}'{meant}")


def _show(markdown: str) -> None:
    """Rendered for people, plain for programs."""
    lines = [printable(line, keep="\t") for line in markdown.split("\n")]
    if not is_terminal():
        say(*lines[:-1], file=sys.stdout)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=columns(100), force_terminal=True, no_color=not colour(), highlight=False)
    console.print(Markdown("\n".join(lines), code_theme="ansi_light", hyperlinks=False))


def explanation(rule: Rule) -> str:
    """The rule's page in Markdown: metadata, its module's docstring, and the bad and good examples."""
    lines = [
        f"# {rule.code} {rule.name}",
        "",
        sentence(rule.summary),
        "",
        f"- Category: {rule.category.label} (dimension {rule.dimension})",
        f"- Severity: {rule.severity}{'' if rule.default else ', off by default'}",
        f"- Reads: {', '.join(sorted(map(str, rule.kinds)))}",
        f"- Fix: {rule.fix}",
        f"- Since: {rule.since}",
    ]
    lines += _sections(rule.doc)
    for title, code in (("Bad", rule.bad), ("Good", rule.good)):
        if code:
            lines += ["", f"## {title}", "", "```" + language(code), code.strip("\n"), "```"]
    if rule.evidence:
        lines += ["", "## Evidence", "", *(f"- {item.value} ({item.source})" for item in rule.evidence)]
    if rule.references:
        lines += ["", "## Further reading", "", *(f"- {reference}" for reference in rule.references)]
    return "\n".join(lines) + "\n"


def sentence(text: str) -> str:
    """``text`` with a full stop."""
    return text if text.endswith((".", "!", "?")) else text + "."


def section_titles(doc: str) -> list[str]:
    """The titles of ``SECTIONS`` that a docstring has, in its order."""
    return [match.group(1) for line in doc.splitlines() if (match := _HEADING.match(line))]


def _sections(doc: str) -> list[str]:
    """The sections as Markdown; the text before the first one repeats the summary and is left out."""
    lines: list[str] = []
    for line in doc.splitlines():
        if match := _HEADING.match(line):
            blank = [] if lines and not lines[-1] else [""]
            lines += [*blank, f"## {match.group(1)}", "", *filter(None, [match.group(2)])]
        elif lines and not (_UNDERLINE.match(line) and lines[-1] == ""):
            text = line.removeprefix("    ")
            if text or lines[-1]:
                lines.append(text)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def language(code: str) -> str:
    """Markdown's name for the language of an example, by how it starts."""
    start = code.lstrip()
    if start.startswith(("#!", "#SBATCH", "#PBS", "srun ", "torchrun ", "pip ", "export ")):
        return "bash"
    if start.startswith("FROM "):
        return "dockerfile"
    if re.match(r"[\w-]+:(\s|$)", start):
        return "yaml"
    return "python"
