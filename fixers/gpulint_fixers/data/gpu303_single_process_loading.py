"""Give the loader workers that live as long as the loader."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from gpulint_rules.data.gpu303_single_process_loading import SingleProcess, check

from gpulint import regex
from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.programs.api_releases import may_lack
from gpulint.programs.stated_releases import LASTING_WORKERS, may_predate
from gpulint.project import Project
from gpulint.query import query
from gpulint.source import Span
from gpulint.training.loader_calls import Loader
from gpulint.training.same_names import alternatives
from gpulint.transfers.shard_counts import most_workers
from gpulint.values.constants import Constants
from gpulint.workload.documented_workers import documented_reason
from gpulint.workload.main_guards import outside_guard, starts_without_guard
from gpulint.workload.making_commands import settings_of
from gpulint.workload.passed_workers import default_replaced
from gpulint.workload.persistent_workers import against_persistence
from gpulint.workload.sent_parts import INNER, SENT, defined_in_notebook, unsent
from gpulint.workload.trainer_workers import UnhelpedTrainer
from gpulint.workload.worker_callers import zero_callers
from gpulint.workspace.module_index import NodeRef
from gpulint_fixers.edits.calls import add_keyword, with_keywords
from gpulint_fixers.edits.comments import may_explain
from gpulint_fixers.edits.numbers import replace_number
from gpulint_fixers.edits.versions import is_of_first_fastai, predates_lasting_workers
from gpulint_fixers.loading.configured_workers import option, own_arguments, restored
from gpulint_fixers.loading.loader_homes import by_home, setting_of_siblings, siblings
from gpulint_fixers.loading.loader_lifetimes import serves_one_pass
from gpulint_fixers.loading.option_homes import add_options
from gpulint_fixers.loading.random_order import may_draw, shuffles_again
from gpulint_fixers.loading.repeated_draws import repeats_draws, repeats_draws_of_python
from gpulint_fixers.loading.sendable_collates import sendable_collate, with_collate
from gpulint_fixers.loading.setting_loaders import obstacle_of_setting, setting_may_draw
from gpulint_fixers.loading.shared_defaults import sharing, told_of_callers
from gpulint_fixers.loading.worker_changes import WorkerChange, named, passed_too, together
from gpulint_fixers.loading.worker_obstacles import SENT_BY_TRAINER, not_started, obstacle
from gpulint_fixers.loading.workers import USUAL, worker_count

_ZERO = regex.compile(r"(?:--?[\w-]+[=\s]+|[\w.]+\s*=\s*)?[\"']?(0)(?![\w.])")
"""``--workers 0``, ``num_workers=0``, or the number itself."""
_NONE_WANTED = "the settings say that they want no workers, and that none should stay alive"
_ONE_CORE = "the job requests at most one core per process, which leaves none to workers; request more first"
_ON_GPU = "workers could not move what they make to the GPU, which their parent process uses already"
_SWITCHED_OFF = "a commented line beside it shows that somebody has switched the workers off"
_COMMENTED = regex.compile(r"#[^\n]{0,200}\b(num_)?workers\s*=")
_EXPLAINED = regex.compile(
    r"num_workers\s*=\s*0\s*,?[ \t]*#.*(slow|hang|dead|crash|disabled|error|issue|fork|fail|faster|avoid|memory|safe)",
    re.I,
)
"""A loader that has no workers for a reason: who wrote it has tried them on this machine."""
_NONE_ALIVE = regex.compile(r"persistent_workers['\"]?\s*[:=]\s*false", re.IGNORECASE)
_RECORDS = frozenset({"runs", "wandb", "lightning_logs", "mlruns", "multirun"})
"""Folders in which programs leave the settings that they ran with."""


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Workers by the cores that the launcher requests, else a usual number."""
    payload = finding.payload
    if reason := documented_reason(project, finding.path):
        return Declined(f"{reason} says why there are no workers")
    if chosen := _chosen(finding, project):
        return Declined(chosen)
    if not isinstance(payload, SingleProcess):
        return _argument(payload, project) if isinstance(payload, UnhelpedTrainer) else _setting(finding, project)
    made = _change(project, payload)
    if isinstance(made, Declined):
        return made
    beside = [(other.loader, _change(project, other)) for other in _beside(project, payload)]
    files = {payload.loader.module.path, *(edit.path for edit in made.edits)}  # no calls of another program
    others = [(one, change) for one, change in beside if isinstance(change, WorkerChange) and change.stays_in(files)]
    more = [loader for loader, change in others if not {*change.edits} <= {*made.edits}]
    made = made._replace(notes=(*made.notes, *passed_too(finding, project), named([payload.loader, *more])))
    return together([made, *(change for _, change in others)])


def _chosen(finding: Finding, project: Project) -> str:
    """Return which command passes 0 to a program that has workers by default; empty if none does."""
    for place in (*finding.related, Place(finding.path, finding.span)):
        if default := default_replaced(project, place.path, place.span):
            where = f"{place.path.relative_to(project.root).as_posix()}:{place.span.line}"
            return f"{where} passes 0 in place of the program's default of {default}: a choice"
    return ""


def _beside(project: Project, payload: SingleProcess) -> list[SingleProcess]:
    """The other loaders without workers of the same function or class: those of the training and its evaluation."""
    return siblings(_homes(project, payload.loader.module.path), payload.loader)


@query
def _homes(project: Project, path: Path) -> dict[ast.AST | None, list[tuple[Loader, SingleProcess]]]:
    """The loaders without workers of a module, by what makes them."""
    document = project.document(path)
    found = (one.payload for one in (check(document, project) if document is not None else ()))
    return by_home((one.loader, one) for one in found if isinstance(one, SingleProcess))


@query
def _change(project: Project, payload: SingleProcess) -> WorkerChange | Declined:
    loader = payload.loader
    collate = sendable_collate(project, loader)
    sent = tuple(name for name in SENT if name != "collate_fn") if collate else SENT
    if reason := obstacle(project, loader, payload.workers, sent):
        return Declined(reason)
    if isinstance(told := _told(project, payload), Declined):
        return told
    workers, why = worker_count(project, loader.module.path)
    if workers == "0":
        return Declined(_ONE_CORE)
    shards = most if (most := most_workers(project, loader)) is not None and most < int(workers) else None
    if shards is not None:
        workers, why = str(shards), f"no more than shards, of which each needs one: {shards}"
    persistent = "" if _may_not_last(project, loader) else "persistent_workers=True"
    edits: tuple[Edit, ...]
    is_here = payload.workers is None or _is_written_in(loader, payload.workers)
    own = _stated(project, payload) if is_here else None
    if isinstance(own, Declined):
        return own
    if own is not None:
        workers, why = own, f"as many as `{own}` says"
        if shards is not None:
            return Declined(f"`{own}` may be more than the {shards} shards, and a worker without one fails")
        persistent = f"persistent_workers={own} > 0" if persistent else ""
    if payload.workers is None:
        if shards is None and (line := restored(project, loader, lasting=bool(persistent))) is not None:
            edits, why = line, "as the line says that is commented out"
        elif _was_switched_off(loader):
            return Declined(_SWITCHED_OFF)
        else:
            more = [("persistent_workers", persistent.partition("=")[2])] if persistent else []
            edits = (add_options(project, loader, ("num_workers", workers), *more),)
    elif shards is not None and not is_here:
        return Declined(f"the number is set elsewhere, and a worker without one of the {shards} shards fails")
    else:
        raised = _raised_edits(project, loader, payload.workers, workers, persistent)
        if isinstance(raised, Declined):
            return raised
        edits = raised
    changed = (loader, *sharing(project, loader, edits))
    return WorkerChange(
        why,
        with_collate(loader.module, edits, collate),
        drawing=any(may_draw(project, one) and not repeats_draws_of_python(project, one) for one in changed),
        lasting=bool(persistent) and any("persistent_workers" in edit.text for edit in edits),
        shuffled=any(shuffles_again(project, one) for one in changed),
        notes=(*told, _not_pickled(project, loader, sent)),
    )


def _stated(project: Project, payload: SingleProcess) -> str | Declined | None:
    """Return the option or setting of the program that a loader is to get its number of workers from, perhaps as the
    loaders beside it do; None if there is none."""
    own = option(project, payload.loader)
    if own is not None or payload.workers is not None:
        return own or _raised_beside(project, payload)
    if (setting := setting_of_siblings(project, payload.loader)) is None:
        return None
    assert isinstance(setting.node, ast.expr)
    text = ast.unparse(setting.node)
    if any(not value.value for value in project.fact(Constants).of(setting.module, setting.node).values):
        return Declined(f"the loaders beside it get `{text}`, which may be 0: pass that here too, and raise it")
    return text


def _raised_beside(project: Project, payload: SingleProcess) -> str | None:
    """Return the setting that a loader beside this one gets its workers from, if its fix raises what is 0 so far:
    whoever sets 0 there wants no workers here either."""
    if (setting := setting_of_siblings(project, payload.loader)) is None:
        return None
    assert isinstance(setting.node, ast.expr)
    beside = _beside(project, payload)
    giving = next((one for one in beside if setting.node in own_arguments(one.loader)), None)
    is_raised = giving is not None and isinstance(_change(project, giving), WorkerChange)
    return ast.unparse(setting.node) if is_raised else None


def _may_not_last(project: Project, loader: Loader) -> bool:
    """Return whether nothing is to be said of workers that last: the call says it, they would gain nothing or stay with
    what changes, or its library may lack the option."""
    return (
        any(keyword.arg == "persistent_workers" for keyword in loader.node.keywords)
        or any(serves_one_pass(project, one) for one in (loader, *alternatives(project, loader)))
        or bool(against_persistence(project, loader))
        or may_lack(project, loader.module.path, "persistent_workers")
        or predates_lasting_workers(loader.module)
        or bool(may_predate(project, loader.module, LASTING_WORKERS))
        or is_of_first_fastai(loader.node)
    )


def _told(project: Project, payload: SingleProcess) -> tuple[str, ...] | Declined:
    """Return what a fix says of programs without a main guard and of random numbers, or why it is not made."""
    if _forwards_options(payload.loader):
        return Declined("the call forwards its callers' options, which may include `num_workers`")
    if isinstance(repeated := repeats_draws(project, payload.loader), Declined):
        return repeated
    callers = told_of_callers(project, payload.workers)
    if isinstance(callers, Declined):
        return callers
    return callers or _unguarded(project, payload.loader.call), repeated


def _raised_edits(
    project: Project, loader: Loader, passed: NodeRef, workers: str, persistent: str
) -> tuple[Edit, ...] | Declined:
    """Another number where the loader's is set, unless something says that 0 is a choice."""
    syntax = loader.module.syntax
    raised = _raised(project, loader, passed, workers)
    if raised is None:
        return Declined("`num_workers` is set elsewhere; raise it there")
    if any(edit.path != syntax.path and _wants_none_alive(project, edit.path, edit.span.line) for edit in raised):
        return Declined(_NONE_WANTED)
    if any(may_explain(project, edit) for edit in raised):
        return Declined("the comment beside it may explain why there are none")
    if not _is_written_in(loader, passed):
        return raised
    if any(keyword.arg == "persistent_workers" for keyword in loader.node.keywords):
        return Declined("the call says that it wants no workers, and that none should stay alive")
    if _was_switched_off(loader):
        return Declined(_SWITCHED_OFF)
    if any(project.matches(path, _EXPLAINED) for path in project.python_files_with(b"num_workers")):
        return Declined("a comment beside another loader explains why there are no workers")
    if syntax.span(loader.node).cell is not None:
        return Declined("the notebook sets the number of workers on purpose")
    # An option may still say 0, with which PyTorch refuses persistent workers.
    return with_keywords(syntax, loader.node, raised, persistent) if persistent else raised


def _is_written_in(loader: Loader, passed: NodeRef) -> bool:
    """Return whether the number is a constant of the loader's call."""
    return isinstance(passed.node, ast.Constant) and any(passed.node is own for own in own_arguments(loader))


def _argument(payload: UnhelpedTrainer, project: Project) -> Fix | Declined:
    """Workers for a trainer whose arguments set none."""
    module = payload.arguments.module
    if payload.moves:
        return Declined(_ON_GPU)
    if reason := not_started(project, payload.trainer, SENT_BY_TRAINER):
        return Declined(reason)
    workers, why = worker_count(project, module.path)
    if workers == "0":
        return Declined(_ONE_CORE)
    assert isinstance(payload.arguments.node, ast.Call)
    edit = add_keyword(module.syntax, payload.arguments.node, f"dataloader_num_workers={workers}")
    own = f"load with workers ({why}), which have their own random states"
    return Fix(own + _unguarded(project, payload.trainer), Safety.UNSAFE, (edit,))


def _wants_none_alive(project: Project, path: Path, line: int) -> bool:
    """Return whether settings beside a number of workers say ``persistent_workers: False``."""
    document = project.document(path)
    numbers = range(line - 2, line + 3) if document is not None else ()
    return any(document is not None and _NONE_ALIVE.search(document.source.line(number)) for number in numbers)


def _was_switched_off(loader: Loader) -> bool:
    """``# num_workers=8,`` among the arguments of the call, or behind it."""
    syntax = loader.module.syntax
    (start, end), text = syntax.offsets(loader.node), syntax.source.text
    line_end = text.find("\n", end)
    return _COMMENTED.search(text, start, line_end if line_end >= 0 else len(text)) is not None


def _forwards_options(loader: Loader) -> bool:
    """``DataLoader(dataset, **kwargs)`` with options that the callers of the function pass."""
    function = loader.module.function(loader.node)
    given = function.args.kwarg.arg if function is not None and function.args.kwarg is not None else None
    forwarded = (keyword.value for keyword in loader.node.keywords if keyword.arg is None)
    return given is not None and any(isinstance(value, ast.Name) and value.id == given for value in forwarded)


def _setting(finding: Finding, project: Project) -> Fix | Declined:
    """Another number for a launcher's option, a configuration file's setting or a trainer's argument."""
    document, span = project.document(finding.path), finding.span
    if document is None or span.cell is not None:
        return Declined("the notebook sets the number of workers on purpose")
    source = document.source
    line = source.line(span.line)
    if _RECORDS & {*finding.path.relative_to(project.root).parts[:-1]}:
        return Declined("the file records the settings of a run that is over")
    if _wants_none_alive(project, finding.path, span.line):
        return Declined(_NONE_WANTED)
    found = _ZERO.match(line, span.column - 1)
    if found is None:
        return Declined("the number of workers is set elsewhere; raise it there")
    if "#" in line[found.end() :] or "worker" in source.line(span.line - 1).partition("#")[2].lower():
        return Declined("the comment beside it may explain why there are none")
    if reason := obstacle_of_setting(project, line[: found.start(1)], finding.path):
        return Declined(reason)
    own = ", which have their own random states" if setting_may_draw(project, line[: found.start(1)]) else ""
    at = Span(span.line, found.start(1) + 1, span.line, found.end(1) + 1)
    return Fix(
        f"load with {USUAL} workers (measure how many help){own}",
        Safety.UNSAFE,
        (Edit(finding.path, at, str(USUAL)),),
    )


def _raised(project: Project, loader: Loader, passed: NodeRef, workers: str) -> tuple[Edit, ...] | None:
    """Another number where the loader's is set: in its call, in those of the function that makes it, as the default of
    an option, in a configuration file."""
    calls = zero_callers(project, loader)
    numbers = [one.number for one in calls] or [passed]
    values = [value for ref in numbers for value in settings_of(project, loader, ref).values]
    places = dict.fromkeys(value.place for value in values if value.value == 0)
    if not places or (len(places) > 1 and not calls) or any(value.value != 0 for value in values):
        return None
    edits = [replace_number(project, place, 0, workers) for place in places]
    return tuple(edit for one in edits if one is not None for edit in one) if None not in edits else None


def _not_pickled(project: Project, loader: Loader, sent: tuple[str, ...]) -> str:
    """Return what spawned workers could not be sent, as Python 3.14 starts them on Linux unless told otherwise."""
    found = unsent(project, loader.call, sent)
    if found is None:
        return ""
    if found.part == "dataset" or found.what != INNER:
        return f"; {found.phrase}, which cannot be sent to workers that are spawned instead of forked"
    return f"; `{found.part}` has to be a function of the module where workers are spawned instead of forked"


def _unguarded(project: Project, call: NodeRef) -> str:
    """Return what a loader, or a trainer, needs that a program makes without a main guard, perhaps in a function of
    another module: spawned workers run the program's top level again. What a notebook defines they cannot import."""
    module = call.module
    if module.path.suffix == ".ipynb":  # a spawned process does not run the cells again
        name = defined_in_notebook(project, call, SENT)
        return f"; `{name}` has to be in a module where processes are spawned" if name else ""
    if not (starts := starts_without_guard(project, call)):
        beside = outside_guard(project, call)
        return f"; {beside}: guard it where processes are spawned" if beside else ""
    names = dict.fromkeys(start.module.path.name for start in starts if start.module is not module)
    first, *more = [f"`{name}` " for name in names] or [""]
    also = f"and {more[0]}" if len(more) == 1 else f"and {len(more)} other programs " if more else ""
    said = "an `if __name__ == '__main__'` where processes are spawned, as on Windows or macOS"
    return f"; {first}{also}need{'' if more else 's'} {said}"


FIXER = Fixer("GPU303", fix)
