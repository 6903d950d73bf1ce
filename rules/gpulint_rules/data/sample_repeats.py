"""Work that a data set does again for each sample, as findings of a rule."""

from __future__ import annotations

from collections.abc import Iterator

from gpulint.finding import Finding, Place, Severity
from gpulint.impact import Cost
from gpulint.project import Project
from gpulint.rule import Rule
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.repeated_draws import repeated_draws
from gpulint_rules.data.repeated_reads import repeated_reads


def findings(project: Project, module: ModuleIndex, rule: Rule) -> Iterator[Finding]:
    """Yield samples that are decoded several times, and files that are opened or read again for each sample."""
    yield from _draws(project, module, rule)
    for read in repeated_reads(project, module):
        owner = module.class_of(read.method)
        yield rule.finding(
            module.path,
            module.syntax.span(read.call),
            f"{owner.name if owner else ''}.{read.method.name} {read.does}",
            help=read.help,
            severity=Severity.WARNING,
            payload=read,
            cost=read.cost,
            related=(Place(module.path, module.syntax.head(read.method), "runs for every item"),),
        )


def _draws(project: Project, module: ModuleIndex, rule: Rule) -> Iterator[Finding]:
    """``self.rows[index]["image"]`` and ``self.rows[index]["label"]``: each decodes the image."""
    for found in repeated_draws(project, module):
        owner, times = module.class_of(found.method), len(found.uses)
        yield rule.finding(
            module.path,
            module.syntax.span(found.uses[1]),
            f"{owner.name if owner else ''}.{found.method.name} takes `{found.text}` {times} times for every item, "
            "which decodes it each time",
            help=f"take the sample once (`sample = {found.text}`), and its parts from that",
            severity=Severity.WARNING,
            payload=found,
            cost=Cost("repeated-decoding", per="step"),
            related=(Place(module.path, module.syntax.span(found.uses[0]), "decoded here already"),),
        )
