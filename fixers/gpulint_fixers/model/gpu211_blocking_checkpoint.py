"""Save to the local disk and let a background worker carry the file to its place (the study's Figure 3)."""

from __future__ import annotations

import ast
import re

from gpulint_rules.model.gpu211_blocking_checkpoint import BlockingCheckpoint

from gpulint import regex
from gpulint.documents.call_syntax import passed_as
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.transfers.checkpoint_times import is_quick, may_be_large
from gpulint.workspace.module_index import NodeRef, last_name
from gpulint_fixers.edits.background import MODULE, bring_module, touched_later
from gpulint_fixers.model.async_writers import written_by_framework
from gpulint_fixers.model.longer_intervals import longer_interval

_STORES = regex.compile(
    r"blob|bucket|azure|adls|remote|share|storage|(^|[^a-z])(s3|gcs|gs|nfs|efs|fsx|nas|gpfs|ceph|oss|cos|lustre|gluster)",
    re.IGNORECASE,
)
"""Words of mounts of other machines' storage."""
_NAME = "save_in_background"
_DESCRIPTION = (
    f"save to the local disk and let {MODULE}.py move the file to its target while training continues; the file "
    "arrives later, an upload that fails is printed instead of raised, and TMPDIR needs room for two checkpoints"
)


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Write it in the background, or if that is not possible, after as many steps as the user's own times advise."""
    payload = finding.payload
    assert isinstance(payload, BlockingCheckpoint)
    made = _in_background(payload, project)
    return longer_interval(project, payload) or made if isinstance(made, Declined) else made


def _in_background(payload: BlockingCheckpoint, project: Project) -> Fix | Declined:
    """Call the background module instead of ``torch.save`` where the file is not needed at once."""
    save, module = payload.save, payload.save.call.module
    if (made := written_by_framework(project, payload)) is not None:
        return made
    if "torch.save" not in project.fact(Resolver).call_names(module, save.node):
        return Declined("only `torch.save` calls can be moved to the background automatically")
    if not payload.location.is_remote:
        return Declined(
            "the path is not known to be on slow storage; if it is, add its prefix to the setting `remote-paths`"
        )
    if _is_mount_alone(project, payload.location.text):
        return Declined(
            "whether `/mnt` is network storage could not be determined; if it is, add its prefix to the setting "
            "`remote-paths`"
        )
    if _is_seldom(project, payload) and not may_be_large(project, save):
        return Declined("the model is one of the tree, and saved every N steps only; a longer interval is simpler")
    if is_quick(payload.contexts, payload.location) and not may_be_large(project, save):
        return Declined(
            "once per epoch, this pays for checkpoints of a hundred megabytes and more; the model is one of the tree, "
            "whose size is unknown"
        )
    if "://" in payload.location.text:
        return Declined("the target is a URL, which needs the storage provider's client library")
    if not isinstance(module.syntax.parents.get(save.node), ast.Expr):
        return Declined("the call's value is used")
    path = _path(save.node)
    if path is None or _is_buffer(project, NodeRef(module, path)):
        return Declined("the target is not a path")
    if (user := touched_later(project, save.call, path, payload.contexts)) is not None:
        return Declined(f"the file, or one beside it, is used later: `{user}` might read it before it is complete")
    brought = bring_module(project, module, _NAME)
    if isinstance(brought, Declined):
        return brought
    imports, files = brought
    call = Edit(module.path, module.syntax.span(save.node.func), _NAME)
    return Fix(_DESCRIPTION, Safety.UNSAFE, (*imports, call), files)


def _is_mount_alone(project: Project, path: str) -> bool:
    """Return whether nothing but ``/mnt`` says that a path is on another machine."""
    own = any(f"{path}/".startswith(prefix.rstrip("/") + "/") for prefix in project.config.remote_paths if prefix)
    return path.startswith("/mnt/") and _STORES.search(path) is None and not own


def _is_seldom(project: Project, payload: BlockingCheckpoint) -> bool:
    """Return whether the save, or a call that leads to it, runs every N steps."""
    guards, call = project.fact(Guards), payload.save.call
    sites = [call, *(site for context in payload.contexts for site in context.calls)]
    return any(guards.is_periodic(site.module, site.node) for site in sites)


def _path(call: ast.Call) -> ast.expr | None:
    """Second argument of ``torch.save``, as the call itself passes it."""
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    return passed_as(call, "f", 1)


def _is_buffer(project: Project, path: NodeRef) -> bool:
    """Return whether the value may be an open file."""
    calls = [
        ref.node for ref in project.fact(Resolver).points_to(path.module, path.node) if isinstance(ref.node, ast.Call)
    ]
    return any(last_name(call.func) in ("open", "BytesIO", "GFile", "TemporaryFile") for call in calls)


FIXER = Fixer("GPU211", fix)
