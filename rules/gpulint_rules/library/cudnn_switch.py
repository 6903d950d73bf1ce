"""Statements that switch cuDNN off for a whole program."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Iterator

from gpulint import regex
from gpulint.programs.environment_variables import is_explained
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.default_tests import decides_number
from gpulint.training.guards import Guards
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex
from gpulint_rules.library.cudnn_layers import MAX_PROGRAMS, has_no_layers, programs_of
from gpulint_rules.library.debug_places import is_switched_on
from gpulint_rules.library.drawn_seeds import draws_its_seeds
from gpulint_rules.library.opposite_switches import always_runs, is_switched_back
from gpulint_rules.library.shared_switches import Switch, grouped, switch

_RECURRENT = regex.compile(r"\b(GRU|LSTM|RNN)\b")
_REPRODUCES = regex.compile(r"determinis|reproduc|bit[- ]?(wise|exact|for[- ]bit)", re.IGNORECASE)
"""Words of docstrings of functions that make two runs give the same results."""
_AGAIN = regex.compile(
    r"\bcreate_graph\b|\bcaptum\b|\b(jacobian|hessian|jacrev|hvp|vhp)\(|\.grad\.(data\.)?(sign|abs)\(|\bsign\(\w+\.grad\b"
)
"""Signs of gradients of gradients, or of gradients in evaluation mode."""
_SETS = regex.compile(r"cudnn\.enabled\s*=")
_DETERMINISTIC = regex.compile(r"cudnn\.deterministic\s*=\s*True|use_deterministic_algorithms\(True")
_SEED = regex.compile(r"(^|[^a-z])seed", re.IGNORECASE)
_SEEDED = regex.compile(r"\b(manual_seed(_all)?|seed_everything|set_seed|seed_all)\(")
_PAIRS = {"__enter__": "__exit__", "__init__": "__exit__", "start": "stop", "enable": "disable", "disable": "enable"}
"""Methods that switch something, and those that switch it back."""
MAX_COPIES = 20
"""Most files that are searched for copies of a function."""


def switches(project: Project, module: ModuleIndex) -> Iterator[ast.stmt]:
    """Yield the statements of a module that set ``torch.backends.cudnn.enabled = False``."""
    for target, value, statement in module.stores.get("cudnn", []):
        if not isinstance(target, ast.Attribute) or target.attr != "enabled" or value is None:
            continue
        if not project.fact(Resolver).names(module, target) & {"torch.backends.cudnn.enabled"}:
            continue
        if project.fact(Constants).of(module, value).every(lambda constant: constant is False):
            yield statement


def is_left_off(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether cuDNN stays off for no reason that the code gives, and a program may need it."""
    document = project.document(module.path)
    return (
        document is not None
        and not _for_determinism(module, statement)
        and not is_explained(document, module.syntax.span(statement))
        and _stays(project, module, statement)
        and not _differentiates_recurrent_layers_twice(project, module, statement)
        and not has_no_layers(project, module, statement)
    )


@query
def together(project: Project) -> list[list[Switch]]:
    """Return the statements of the tree that switch cuDNN off in each run, those of one program together, also where
    the code gives a reason."""
    paths = (path for path in project.python_files_with(b"cudnn") if path.suffix == ".py")
    return grouped(
        switch(project, module, statement)
        for path in paths
        if project.matches(path, _SETS) and (module := project.module_at(path)) is not None
        for statement in switches(project, module)
        if always_runs(project, module, statement) and _stays(project, module, statement)
    )


def has_a_reason(project: Project, one: Switch) -> bool:
    """Return whether the code gives a reason for a statement that switches cuDNN off."""
    document, module = project.document(one.place.path), project.module_at(one.place.path)
    if module is not None and one.node is not None and _for_determinism(module, one.node):
        return True
    return document is not None and is_explained(document, one.place.span)


def is_reproducible(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether each program that runs a statement makes cuDNN deterministic already."""
    programs = programs_of(project, module, statement)
    return 0 < len(programs) <= MAX_PROGRAMS and all(
        project.fact(MultiGpuUse).of(path).mentions(_DETERMINISTIC) for path in programs
    )


def has_seeds(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a program that runs a statement sets the seeds of PyTorch, so that its runs should be alike: not
    to a number that each run draws at random."""
    if regex.occurs(_SEEDED, module.syntax.source.text):
        return not draws_its_seeds(project, module)
    programs = programs_of(project, module, statement)
    return len(programs) <= MAX_PROGRAMS and any(
        project.fact(MultiGpuUse).of(path).mentions(_SEEDED) for path in programs
    )


def _stays(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a statement switches cuDNN off in any case, for the whole of a program: not only where cuDNN has
    failed (``except RuntimeError:``)."""
    return (
        (
            not project.fact(Guards).is_conditional(module, statement)
            or _is_seeded_by_default(project, module, statement)
        )
        and not project.fact(Guards).is_error_path(module, statement)
        and not is_switched_on(project, module, statement)
        and not _is_switched_back(module, statement)
        and not _is_for_workers(module, statement)
        and not is_switched_back(project, module, statement, _SETS, _may_switch_on(project))
    )


def _is_seeded_by_default(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a statement runs where the program has a seed, which its options give it by default: ``if
    args.seed > 0``, ``if args.seed is not None``."""
    parts = [part for test, holds in conditions(module, statement) for part in parts_of(test, holds)]
    return all(_SEED.search(ast.unparse(part)) and _has_seed(project, module, part) is holds for part, holds in parts)


def _has_seed(project: Project, module: ModuleIndex, test: ast.expr) -> bool | None:
    """Return how a test of a seed turns out for each of its defaults; None if that is unknown."""
    match test:
        case ast.Name() | ast.Attribute() as seed:
            decides: Callable[[object], bool | None] = bool
        case ast.Compare(left=seed, ops=[ast.Is() | ast.IsNot() as compares], comparators=[ast.Constant(value=None)]):
            decides = functools.partial(operator.is_ if isinstance(compares, ast.Is) else operator.is_not, None)
        case ast.Compare(left=seed):
            decides = functools.partial(decides_number, test)
        case _:
            return None
    known = project.fact(Constants).of(module, seed)
    found = {decides(value) for value in known.constants} if known.complete else set()
    return found.pop() if len(found) == 1 else None


def copy_that_keeps_it(project: Project, module: ModuleIndex, statement: ast.stmt) -> str | None:
    """The file with a function of the same name that switches cuDNN off as well, and is left alone; None if there is
    none."""
    function = module.function(statement)
    if function is None:
        return None
    paths = [path for path in project.python_files_with(function.name.encode()) if path != module.path]
    for path in [path for path in paths if project.contains(path, b"cudnn.enabled")][:MAX_COPIES]:
        other = project.module_at(path)
        for one in switches(project, other) if other is not None else ():
            assert other is not None
            copy = other.function(one)
            if copy is not None and copy.name == function.name and not is_left_off(project, other, one):
                return path.name
    return None


def _for_determinism(module: ModuleIndex, statement: ast.AST) -> bool:
    """A function that makes a run reproducible bit by bit, whatever it costs, by what it calls or its docstring."""
    function = module.function(statement)
    return function is not None and (
        any(module.function(call) is function for call in module.calls_by_name.get("use_deterministic_algorithms", []))
        or bool(_REPRODUCES.search(ast.get_docstring(function) or ""))
    )


def _is_for_workers(module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether the function around a statement is only handed to loaders, whose workers call it
    (``worker_init_fn=set_up``)."""
    function = module.function(statement)
    uses = module.uses.get(function.name, ()) if function is not None else ()
    around = [module.syntax.parents.get(use) for use in uses]
    return bool(around) and all(isinstance(up, ast.keyword) and up.arg == "worker_init_fn" for up in around)


def _is_switched_back(module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether the same function switches cuDNN on again further down, or back to what it was, after an operation
    that it cannot do; of a context manager, the method that leaves it."""
    function = module.function(statement)
    homes = {function}
    if function is not None and isinstance(owner := module.syntax.parents.get(function), ast.ClassDef):
        methods = {part.name: part for part in owner.body if isinstance(part, FUNCTIONS)}
        homes |= {methods.get(_PAIRS.get(function.name, ""), function)}
    return any(
        isinstance(target, ast.Attribute)
        and target.attr == "enabled"
        and not (isinstance(value, ast.Constant) and value.value is False)
        and other.lineno > statement.lineno
        and module.function(other) in homes
        for target, value, other in module.stores.get("cudnn", [])
    )


def _may_switch_on(project: Project) -> Callable[[ModuleIndex], Iterator[ast.stmt]]:
    """A function that yields the statements of a module that set ``torch.backends.cudnn.enabled`` to anything else."""

    def found(module: ModuleIndex) -> Iterator[ast.stmt]:
        for target, value, statement in module.stores.get("cudnn", []):
            if (
                isinstance(target, ast.Attribute)
                and target.attr == "enabled"
                and value is not None
                and not project.fact(Constants).of(module, value).every(lambda constant: constant is False)
            ):
                yield statement

    return found


def _differentiates_recurrent_layers_twice(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a program that runs a statement computes gradients of gradients, or explains a model by its
    gradients, and names recurrent layers: cuDNN cannot do both."""
    programs = programs_of(project, module, statement)
    if len(programs) > MAX_PROGRAMS:
        return False
    found = [project.fact(MultiGpuUse).of(path) for path in programs]
    return any(program.mentions(_AGAIN) and program.mentions(_RECURRENT) for program in found)
