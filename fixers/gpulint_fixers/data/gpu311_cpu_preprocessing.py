"""Map a data set in several processes; move programs that prepare data into a stage before the job."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu311_cpu_preprocessing import Preprocessing
from gpulint_rules.data.repeated_draws import RepeatedDraw
from gpulint_rules.data.repeated_reads import RepeatedRead

from gpulint.documents import Document
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import PythonModule
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workload.documented_workers import documented_count
from gpulint.workload.map_functions import is_streamed, tokenises_in_batches
from gpulint.workload.sample_preprocessing import TOKENISES
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.data.samples_once import taken_once
from gpulint_fixers.edits.calls import set_keyword
from gpulint_fixers.loading.workers import worker_count
from gpulint_fixers.stages.split import split

_OWN_ARGUMENTS = frozenset({"batched", "remove_columns", "num_proc", "load_from_cache_file", "input_columns", "desc"})
_IN_MEMORY = frozenset(
    f"datasets.{home}Dataset.{method}"
    for home in ("", "arrow_dataset.")
    for method in ("from_list", "from_dict", "from_pandas", "from_polars")
)
"""Constructors of what a program has read already, whose maps are kept in no file either."""
_MOST = 8
"""Processes beyond which a map of a usual data set gains little."""
_MODEST = 4
"""Processes where nothing says how many cores the job has."""


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Take a sample once that a method takes several times; else see :func:`_spread`."""
    if isinstance(finding.payload, RepeatedDraw):
        return taken_once(finding.payload, project.document(finding.path), project)
    if isinstance(finding.payload, RepeatedRead):
        return _mapped(finding.payload, project.module_at(finding.path))
    return _spread(finding, project)


def _mapped(read: RepeatedRead, module: ModuleIndex | None) -> Fix | Declined:
    """Map a file into memory of which a part is taken."""
    if module is None or not read.takes_part:
        return Declined("where the file is kept, and for how long, depends on the data set")
    edit = set_keyword(module.syntax, read.call, "mmap_mode", '"r"')
    if edit is None:
        return Declined("the arguments of the call come from a dictionary")
    return Fix("map the file into memory; its arrays are then read-only", Safety.UNSAFE, (edit,))


def _spread(finding: Finding, project: Project) -> Fix | Declined:
    """Pass ``num_proc`` to ``Dataset.map``, and move programs that prepare data out of a job;
    what a program computes itself stays."""
    document = project.document(finding.path)
    if document is not None and document.kind not in (Kind.PYTHON, Kind.NOTEBOOK):
        return split(finding, project)
    module = document.python if document is not None and document.kind is Kind.PYTHON else None
    call = _call(module, finding) if module is not None else None
    if document is None or module is None or call is None:
        return Declined("which transforms can move to the GPU or to a step before the job depends on the program")
    if any(keyword.arg is None for keyword in call.keywords):
        return Declined("the arguments of `map` come from a dictionary; add `num_proc` there")
    if any(keyword.arg in ("with_rank", "cache_file_names") for keyword in call.keywords):
        return Declined("the call chooses what each process does already")
    index = project.module(document)
    if index is None or not _is_data_set(project, index, call):
        return Declined("whether the receiver of `map` is a data set of `datasets` could not be determined")
    work = finding.payload.work if isinstance(finding.payload, Preprocessing) else ""
    if work == TOKENISES and tokenises_in_batches(index, call):
        return Declined(
            "a fast tokenizer divides a batch of texts among all cores itself, which `num_proc` would prevent"
        )
    if work == TOKENISES and _origins(project, index, call) & _IN_MEMORY:
        return Declined(
            "the texts are rows that the program holds in memory, few enough to be tokenised while processes start"
        )
    if any("num_proc" in ast.unparse(test) for test, _ in conditions(index, call)):
        return Declined("the program has a branch for several processes already")
    if place := _documented(project, finding, call):
        return Declined(f"the command at {place} starts several processes already, by an option of the program")
    count, why = worker_count(project, finding.path)
    if count in ("0", "1"):
        return Declined("the job has fewer than two cores for each process; prepare the data set in a separate job")
    if count.isdecimal():
        count = str(min(int(count), _MOST))
    else:
        count, why = str(_MODEST), "the cores of the job are not known"
    edit = _edit(project, document, call, count)
    if edit is None:
        return Declined("the program sets `num_proc` itself; choose a larger one there")
    others = [
        set_keyword(module, other, "num_proc", count)
        for other in index.calls_by_name.get("map", [])
        if other is not call and _is_sibling(index, call, other)
    ]
    return Fix(
        f"map in {count} processes, each with its own memory ({why}); in a job with several ranks let one map first",
        Safety.UNSAFE,
        (edit, *others),
    )


def _documented(project: Project, finding: Finding, call: ast.Call) -> str:
    """Return where the documentation passes the option that a map takes its number of processes from."""
    option = keyword_value(call, "num_proc")
    return documented_count(project, finding.path, option.attr) if isinstance(option, ast.Attribute) else ""


def _is_data_set(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the receiver comes from ``datasets``, or gets arguments that only its ``map`` has."""
    own = any(keyword.arg in _OWN_ARGUMENTS for keyword in call.keywords)
    return own or any(name.startswith("datasets.") for name in _origins(project, module, call))


def _origins(project: Project, module: ModuleIndex, call: ast.Call) -> frozenset[str]:
    """The names of the calls that may have made the receiver of a method, the first that belong to ``datasets``."""
    assert isinstance(call.func, ast.Attribute)
    base: ast.expr = call.func.value
    for _ in range(_MOST):
        made = [ref for ref in project.fact(Resolver).points_to(module, base) if isinstance(ref.node, ast.expr)]
        if not made:
            break
        names = frozenset(
            name
            for ref in made
            if isinstance(ref.node, ast.Call)
            for name in project.fact(Resolver).call_names(ref.module, ref.node)
        )
        if any(name.startswith("datasets.") for name in names):
            return names
        module, node = made[0].module, made[0].node
        match node:
            case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value)):
                base = value
            case _:
                break
    return frozenset()


def _is_sibling(module: ModuleIndex, one: ast.Call, other: ast.Call) -> bool:
    """Return whether another split is mapped in the same place, in one process: by the same function, or of the same
    data set (``ds["train"].map(augment)`` and ``ds["test"].map(prepare)``); not one that is read as it comes."""
    if module.function(one) is not module.function(other) or not one.args or not other.args:
        return False
    named = {keyword.arg for keyword in other.keywords}
    same = ast.unparse(one.args[0]) == ast.unparse(other.args[0]) or _split_of(one) == _split_of(other) != ""
    return same and "num_proc" not in named and None not in named and not is_streamed(module, other)


def _split_of(call: ast.Call) -> str:
    """``ds`` of ``ds["train"].map(...)``"""
    match call.func:
        case ast.Attribute(value=ast.Subscript(value=base, slice=ast.Constant(value=str()))):
            return ast.unparse(base)
    return ""


def _edit(project: Project, document: Document, call: ast.Call, count: str) -> Edit | None:
    """Add the argument, or change the constant where it is set."""
    module, index = document.python, project.module(document)
    assert module is not None
    assert index is not None
    given = keyword_value(call, "num_proc")
    if isinstance(given, ast.Constant) and given.value is not None:
        return None
    if given is None or isinstance(given, ast.Constant):
        return set_keyword(module, call, "num_proc", count)
    found = project.fact(Constants).of(index, given)
    if not found.complete or len(found.values) != 1:
        return None
    place = found.values[0].place
    there = project.document(place.path)
    source = there.source if there is not None and there.kind is Kind.PYTHON else None
    if source is None or place.span.line != place.span.end_line:
        return None
    text = source.line(place.span.line)[place.span.column - 1 : place.span.end_column - 1]
    return Edit(place.path, place.span, count) if text in ("None", "0", "1") else None


def _call(module: PythonModule, finding: Finding) -> ast.Call | None:
    """The call of ``map`` that a finding is about."""
    return next(
        (
            call
            for call in module.of(ast.Call)
            if isinstance(call.func, ast.Attribute) and call.func.attr == "map" and module.span(call) == finding.span
        ),
        None,
    )


FIXER = Fixer("GPU311", fix)
