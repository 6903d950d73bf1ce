"""Programs that seed PyTorch with a number that each run draws at random, so that no two runs are alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex

_SEEDS = regex.compile(r"^(manual_seed(_all)?|seed_everything|set_seed|seed_all)$")
"""Functions that seed PyTorch."""
_DRAWS = frozenset(
    {
        *(f"random.{name}" for name in "randint randrange random getrandbits uniform choice".split()),
        *(f"numpy.random.{name}" for name in "randint random rand choice".split()),
        *("time.time", "time.time_ns", "os.urandom", "os.getpid", "secrets.randbelow", "secrets.randbits"),
        *("torch.seed", "torch.initial_seed"),
    }
)
"""Functions that give another number in each run, unless a seed is set before."""


@query
def draws_its_seeds(project: Project, module: ModuleIndex) -> bool:
    """Return whether each seed that a module sets for PyTorch is one that the run draws at random, and nothing is
    seeded before (``opt.seed = random.randint(1, 10000); torch.manual_seed(opt.seed)``)."""
    calls = list(module.calls_where(lambda name: _SEEDS.search(name) is not None))
    return (
        bool(calls)
        and not module.calls_by_name.get("seed")
        and all(call.args and _is_drawn(project, module, call.args[0]) for call in calls)
    )


def _is_drawn(project: Project, module: ModuleIndex, seed: ast.expr) -> bool:
    """Return whether a seed is drawn where it is set, or by each statement that sets it, which no option decides."""
    if any(_draws(project, module, seed)):
        return True
    if not isinstance(seed, ast.Name | ast.Attribute):
        return False
    function, name = module.function(seed), ast.unparse(seed)
    sets = [
        node
        for node in module.syntax.nodes
        if isinstance(node, ast.Assign)
        and module.function(node) is function
        and any(ast.unparse(target) == name for target in node.targets)
    ]
    return bool(sets) and all(
        any(_draws(project, module, one.value)) and not any(True for _ in conditions(module, one)) for one in sets
    )


def _draws(project: Project, module: ModuleIndex, value: ast.expr) -> Iterator[bool]:
    for part in walk(value):
        if isinstance(part, ast.Call):
            yield not _DRAWS.isdisjoint(project.fact(Resolver).call_names(module, part))
