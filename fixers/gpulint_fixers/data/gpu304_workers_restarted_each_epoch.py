"""Keep the workers of a loader alive between epochs."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu304_workers_restarted_each_epoch import Restarted

from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer, Safety
from gpulint.programs.stated_releases import LASTING_WORKERS, may_predate, predates
from gpulint.project import Project
from gpulint.workload.sample_counts import has_few_batches
from gpulint_fixers.edits.calls import set_keyword
from gpulint_fixers.loading.failing_homes import never_made
from gpulint_fixers.loading.loader_lifetimes import ONE_BATCH
from gpulint_fixers.loading.random_order import OTHER_ORDER, shuffles_again


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Pass ``persistent_workers``; a test where the number of workers may be set to 0, which it does not go with."""
    payload = finding.payload
    assert isinstance(payload, Restarted)
    loader, workers = payload.loader, payload.workers.node
    if failing := never_made(project, loader):
        return Declined(failing)
    if has_few_batches(project, loader):
        return Declined(ONE_BATCH)
    if reason := predates(project, loader.module, LASTING_WORKERS):
        return Declined(f"{reason}, and `persistent_workers` needs 1.7")
    syntax = loader.module.syntax
    own = [*loader.node.args, *(keyword.value for keyword in loader.node.keywords)]
    value = "True"
    if not isinstance(workers, ast.Constant):
        if not isinstance(workers, ast.Name | ast.Attribute | ast.Subscript) or not any(
            workers is part for part in own
        ):
            return Declined("the number of workers is set elsewhere; pass `persistent_workers` there")
        value = f"{syntax.text(workers)} > 0"
    edit = set_keyword(syntax, loader.node, "persistent_workers", value)
    older = may_predate(project, loader.module, LASTING_WORKERS)
    return Fix(
        "keep workers alive between epochs, with their random state and data"
        + (f"; {OTHER_ORDER}" if shuffles_again(project, loader) else "")
        + (f"; needs PyTorch 1.7 ({older})" if older else ""),
        Safety.UNSAFE,
        (edit,),
    )


FIXER = Fixer("GPU304", fix)
