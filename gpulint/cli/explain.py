"""``gpulint explain``: the documentation of one rule."""

from __future__ import annotations

import argparse
from typing import Any

from gpulint.cli import CLEAN
from gpulint.config import ConfigError, suggestion
from gpulint.rule import Rule


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
        if args.rule.lower() in (rule.code.lower(), rule.name):
            print(explanation(rule), end="")
            return CLEAN
    known = [word for rule in rules for word in (rule.code, rule.name)]
    raise ConfigError(f"unknown rule '{args.rule}'{suggestion(args.rule, known)}")


def explanation(rule: Rule) -> str:
    """The rule's page in Markdown: metadata, its module's docstring, and the bad and good examples."""
    facts = [
        f"# {rule.code} {rule.name}",
        "",
        f"{rule.summary}.",
        "",
        f"- Category: {rule.category.label} (dimension {rule.dimension})",
        f"- Severity: {rule.severity}{'' if rule.default else ', off by default'}",
        f"- Reads: {', '.join(sorted(map(str, rule.kinds)))}",
        f"- Fix: {rule.fix}",
        f"- Since: {rule.since}",
        "",
        sections(rule.doc),
    ]
    for title, code in (("Bad", rule.bad), ("Good", rule.good)):
        if code:
            facts += ["", f"## {title}", "", "```" + language(code), code.strip("\n"), "```"]
    if rule.evidence:
        facts += ["", "## Evidence", "", *(f"- {item.value} ({item.source})" for item in rule.evidence)]
    if rule.references:
        facts += ["", "## Further reading", "", *(f"- {reference}" for reference in rule.references)]
    return "\n".join(facts) + "\n"


def sections(doc: str) -> str:
    """The docstring with its indented sections as Markdown headings, without its first line (the summary again)."""
    lines: list[str] = []
    source = doc.splitlines()[1:]
    for number, line in enumerate(source):
        following = source[number + 1] if number + 1 < len(source) else ""
        if line and not line[0].isspace() and following.startswith("    "):
            lines += [f"## {line.rstrip(':')}", ""]
        else:
            lines.append(line.removeprefix("    "))
    return "\n".join(lines).strip("\n")


def language(code: str) -> str:
    """Markdown's name for the language of an example, by how it starts."""
    start = code.lstrip()
    if start.startswith(("#!", "#SBATCH", "#PBS")):
        return "bash"
    if start.startswith("FROM "):
        return "dockerfile"
    if start.startswith(("apiVersion:", "resources:", "kind:")):
        return "yaml"
    return "python"
