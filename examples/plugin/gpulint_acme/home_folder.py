"""What it detects
A checkpoint that a training loop writes below ``/home``.

Why it costs GPU time
ACME's home folders are on one small NFS server. ``torch.save`` returns only when the server has the whole file, and
the GPUs wait meanwhile.

When to ignore this rule
Small files, written seldom.

Fix safety
Advice: another program may look for the file where it is now.

References
https://docs.pytorch.org/docs/stable/generated/torch.save.html
"""

from __future__ import annotations

from collections.abc import Iterator

from gpulint import api
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.rule import Dimension, Evidence, Kind, OtherCategory, Rule


def check(document: api.Document, project: api.Project) -> Iterator[Finding]:
    module = api.module(project, document)
    if module is None:
        return
    for call in api.calls_to(project, module, {"torch.save"}):
        if not api.enclosing_loops(project, module, call):
            continue
        for ref in api.argument(project, module, call, "f", 1).refs:
            known = api.constants(project, ref.module, ref.node)
            if known.any(lambda value: isinstance(value, str) and value.startswith("/home/")):
                yield RULE.finding(
                    document.path,
                    module.syntax.span(call),
                    "a training loop writes a checkpoint to the home folder",
                    help="write it below `/scratch` and copy it when the job ends",
                )


RULE = Rule(
    code="ACME201",
    name="checkpoint-in-home",
    category=OtherCategory("Storage"),
    dimension=Dimension.MODEL,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    summary="checkpoint in the home folder",
    why="The home folders are on one small NFS server, and the GPUs wait until it has the file.",
    evidence=(Evidence("2 GB take 40 s to write to /home, 1 s to /scratch", "ACME's cluster handbook"),),
    check=check,
    tokens=(("save",),),
    fix=Safety.ADVICE,
    bad='torch.save(model.state_dict(), "/home/me/last.pt")\n',
    good='torch.save(model.state_dict(), "/scratch/me/last.pt")\n',
    since="1.1.0",
    docs_url="https://handbook.acme.example/gpulint",
)
