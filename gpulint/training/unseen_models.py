"""Objects of packages that the tree lacks, of which nothing shows that they have weights."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.libraries.gpu_libraries import Libraries
from gpulint.semantic.points_to import Resolver

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex, NodeRef

_NETWORK = regex.compile(
    r"net|model|former|coder|classif|detect|segment|generat|discriminat|predict|regress|embed|backbone|extract|policy"
    r"|actor|critic|agent|bert|clip|gpt|llama|yolo|vgg|inception|diffusion|cnn|rnn|lstm|gru|gan|ae$|vit|mlp|learner"
    r"|attention|layer",
    re.IGNORECASE,
)
"""Parts of names of networks."""
_WEIGHTS = regex.compile(
    r"\.(named_)?parameters\(|load_state_dict|state_dict\(|from_pretrained|load_checkpoint|torch\.load\("
)
"""What shows that a module's models have weights: an optimizer gets them, or they are loaded."""


def may_have_no_weights(project: Project, module: ModuleIndex, model: ast.expr) -> bool:
    """Return whether a model is an object of a package that is neither in the tree nor known, whose class has no name
    of a network, and neither its module nor the one that makes it loads or optimizes weights: it may have buffers
    alone, as models of bodies have."""
    if isinstance(model, ast.Attribute) and model.attr == "forward":
        model = model.value
    made = project.fact(Resolver).points_to(module, model)
    return (
        bool(made)
        and all(_is_unseen(project, one) for one in made)
        and not any(_WEIGHTS.search(where.syntax.source.text) for where in {module, *(one.module for one in made)})
    )


def _is_unseen(project: Project, made: NodeRef) -> bool:
    """Return whether something was made by calling a class of a package that nobody has heard of."""
    resolver, known = project.fact(Resolver), project.models.derived(Libraries).gpu
    if not isinstance(made.node, ast.Call) or made.path or resolver.callees(made.module, made.node):
        return False
    names = resolver.call_names(made.module, made.node)
    return bool(names) and all(
        "." in name
        and (last := name.rpartition(".")[2])[:1].isupper()
        and not _NETWORK.search(last)
        and (head := name.partition(".")[0]) not in known
        and project.module_path(head, made.module.path) is None
        for name in names
    )
