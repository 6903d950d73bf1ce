"""Gives evaluation a batch size of its own (the study's Figure 2), a constant beside the training one if that is one.

It is what fits if that was estimated, else twice the training one.
"""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

from gpulint_rules.model.gpu202_eval_batch_size import EvalBatch, check

from gpulint import regex
from gpulint.documents.call_syntax import default_of, keyword_value
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training.loader_calls import Loader
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.same_names import alternatives
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Constants
from gpulint.workload.batch_sources import BatchSource
from gpulint.workload.data_split import Split, split_of
from gpulint.workload.sample_counts import is_one_batch
from gpulint.workload.shared_sizes import double
from gpulint.workload.train_eval_pairs import Pair
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name
from gpulint_fixers.edits.numbers import follow, replace_number
from gpulint_fixers.edits.statements import insert_below
from gpulint_fixers.model.batch_counts import counts_batches, divides
from gpulint_fixers.model.batch_loops import relies_on_size
from gpulint_fixers.model.batch_makers import bound_to_size, shaped_by_size, stacked_alone
from gpulint_fixers.model.eval_settings import applies_elsewhere, drops_last, fallback, inside, made_again, may_be_one
from gpulint_fixers.model.loss_evaluation import keeps_losses_alone

_ENOUGH = 1024
"""Samples in a batch beyond which no larger one is proposed: the GPU is busy by then."""

_STATED = "the launcher states how many samples evaluation takes at a time; raise it there if more fit"
_BESIDE = "the size for evaluation is stated beside that for training; raise it there if more fit"
_MOVES = regex.compile(
    r"^(to|prepare|prepare_model|setup|initialize)$|cuda|gpu|to_device|device_put|default_device|tensor_type|Parallel"
)
"""Calls that may move a model or batches, or have a library do so."""
_DEVICE = regex.compile(r"(?i)device|cuda|gpu|local_rank|accelerator")
_TRAINS = regex.compile(r"(?i)\.fit|\btrain\w*\(|trainer|GradientTape|value_and_grad|optim")
"""Training that a library or a function from elsewhere may do."""


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """A batch size of its own for a loader, and for those that other branches make under its name: what evaluates may
    get any of them."""
    made = _of_one(finding, project)
    if isinstance(made, Declined) or not isinstance(finding.payload, EvalBatch):
        return made
    source, edits = finding.payload.evaluation, [*made.edits]
    for other in _branches(project, source):
        told = _found(project, finding.path).get(other.node)
        also = _of_one(told, project) if told is not None else None
        if isinstance(also, Fix):
            edits += also.edits
        elif (size := keyword_value(other.node, "batch_size")) is not None and ast.unparse(size) == source.text:
            return Declined("another branch makes the loader with the same batch size, which would stay as it is")
    return Fix(made.description, made.safety, tuple(dict.fromkeys(edits)))


@query
def _found(project: Project, path: Path) -> dict[ast.Call, Finding]:
    """Return what is found of the loaders of a file."""
    document = project.document(path)
    found = check(document, project) if document is not None else ()
    return {one.payload.evaluation.node: one for one in found if isinstance(one.payload, EvalBatch)}


def _branches(project: Project, source: BatchSource) -> list[Loader]:
    """Return the loaders that other branches bind to the name of one."""
    loaders = project.fact(LoaderFlow).in_module(source.call.module)
    return [other for one in loaders if one.node is source.node for other in alternatives(project, one)]


def _of_one(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    if isinstance(found, Pair):
        return Declined(_BESIDE)
    if not isinstance(found, EvalBatch):
        module = project.module_at(finding.path)
        if module is not None and "backward" not in module.calls_by_name and "train" not in module.calls_by_name:
            return Declined("the program computes samples one by one; putting them into batches is your decision")
        return Declined("training and evaluation share one batch size; separating them is your decision")
    source = found.evaluation
    drops = project.fact(Arguments).of(source.call.module, source.node, "drop_last")
    if any(not isinstance(ref.node, ast.Constant) or ref.node.value for ref in drops.refs):
        return Declined("the loader may drop the last batch, and a larger one holds more samples")
    if _helper_drops(project, source.call.module, source.node):
        return Declined("the function that makes the loader may drop the last batch, and a larger one holds more")
    if (reason := shaped_by_size(project, source) or stacked_alone(project, source, found.size)) is not None:
        return Declined(reason)
    loaders = project.fact(LoaderFlow).in_module(source.call.module)
    if any(loader.node is source.node and is_one_batch(project, loader) for loader in loaders):
        return Declined("one batch holds all samples already")
    if _is_unread(project, source.call.module, source.node):
        return Declined("nothing reads the loader; remove it")
    if "per_device" in source.keyword and _only_evaluates(source.call.module):
        return Declined("the program only evaluates, so that its one batch size is that of evaluation")
    if project.kind(finding.path) is Kind.SHELL:
        return Declined(_STATED)
    if (reason := bound_to_size(project, source)) is not None:
        return Declined(reason)
    if (reason := _without_training(project, source.call.module) or relies_on_size(project, source)) is not None:
        return Declined(reason)
    return _enlarge(finding, project, found)


def _enlarge(finding: Finding, project: Project, found: EvalBatch) -> Fix | Declined:
    source = found.evaluation
    if not found.fits and 2 * found.size > _ENOUGH:
        return Declined(f"a batch of {2 * found.size:,} would hardly be faster; measure before raising it")
    if counts_batches(source.call.module) or divides(source.call.module, source.text):
        return Declined("evaluation reads a fixed number of batches; larger batches would change which samples it sees")
    if may_be_one(project, source):
        return Declined(f"the program sets `{source.text}` to 1 in one case, which may expect single samples")
    if "exec(open(" in source.call.module.syntax.source.text:
        return Declined("the program runs a file of settings, which may set the training batch size once more")
    if found.size:
        values = project.fact(Constants).of(source.batch.module, source.batch.node)
        small = values.any(lambda value: isinstance(value, int) and value < found.size)
        loss_only = small and keeps_losses_alone(project, source)
        if not loss_only and values.any(lambda value: value == 1):
            return Declined("the evaluation code may expect one sample at a time")
        if not loss_only and "per_device" in source.keyword and small:
            return Declined("the trainer keeps what evaluation computes, and its batch was chosen smaller on purpose")
        if (shared := _derived(project, found)) is not None:
            return shared
        if all(value.place.span == finding.span and value.place.path == finding.path for value in values.values):
            return _replace(project, finding, finding.span, str(found.fits or 2 * found.size), found)
        if not isinstance(source.batch.node, ast.Constant):
            return _raise_setting(project, found)
    return _in_call(finding, project, found)


def _in_call(finding: Finding, project: Project, found: EvalBatch) -> Fix | Declined:
    """Twice the size where the loader is made, and where it is made again for another case."""
    source = found.evaluation
    node = fallback(source.batch.node) or source.batch.node
    syntax = source.call.module.syntax
    if "kwargs" in source.keyword or "opt" in source.keyword or not isinstance(node, ast.expr):
        return Declined("the batch size is in a dictionary of options")
    if source.call.node not in set(syntax.ancestors(node)):
        return Declined("the batch size is set elsewhere and may also apply to training")
    again = made_again(project, source)
    if any(map(drops_last, again)):
        return Declined("the loader may drop the last batch in another case, and a larger one holds more samples")
    same = [other.batch.node for other in again if other.text == source.text and inside(other.batch.node, other.node)]
    nodes = [fallback(other) or other for other in same if isinstance(other, ast.expr)]
    named = _constant(source.call.module, source.node, node, found.fits) if isinstance(node, ast.Name) else None
    if not found.size and named:
        edits = (Edit(finding.path, syntax.span(part), named[1]) for part in (node, *nodes))
        return _fix((*named[0], *edits), found.fits)
    training = found.training.batch
    text = training.module.syntax.text(training.node) if isinstance(training.node, ast.expr) else found.training.text
    if node is not source.batch.node:
        text = syntax.text(node)
    twice = double(str(found.size) if found.size else found.training.text if "\n" in text else text)
    made = _replace(project, finding, syntax.span(node), str(found.fits) if found.fits else twice, found)
    if not isinstance(made, Fix) or found.size:
        return made
    new = made.edits[0].text
    return dataclasses.replace(made, edits=(*made.edits, *(Edit(finding.path, syntax.span(at), new) for at in nodes)))


def _derived(project: Project, found: EvalBatch) -> Fix | Declined | None:
    """``valid_batch_size = 2 * train_batch_size`` where it is that of training; None where no place sets both."""
    values, source = project.fact(Constants), found.evaluation
    places = [
        {value.place for value in values.of(at.module, at.node).values} for at in (source.batch, found.training.batch)
    ]
    if not places[0] & places[1]:
        return None
    match source.batch.node:
        case ast.Name(id=name) if split_of(name) is Split.EVAL:
            bindings = source.batch.module.scope(source.node).lookup(name)
            if len(bindings) == 1 and isinstance(value := bindings[0].value, ast.Name | ast.Attribute):
                syntax = source.batch.module.syntax
                text = str(found.fits) if found.fits else double(syntax.text(value))
                return _fix((Edit(syntax.path, syntax.span(value), text),), found.fits)
    return Declined(f"`{source.text}` also applies to training; give evaluation a batch size of its own")


def _raise_setting(project: Project, found: EvalBatch) -> Fix | Declined:
    """Another number where the size is set: put in the place of its name, it would make an option do nothing."""
    source = found.evaluation
    places = {value.place for value in project.fact(Constants).of(source.batch.module, source.batch.node).values}
    place = places.pop() if len(places) == 1 else None
    if place is not None and project.kind(place.path) is Kind.SHELL:
        return Declined(_STATED)
    document = project.document(place.path) if place is not None else None
    if place is None or document is None or split_of(source.text) is not Split.EVAL:
        return Declined(f"`{source.text}` may also apply to training; raise it where it is set")
    text, at = document.cell_source(place.span.cell), place.span
    old = text.text[text.offset(at.line, at.column) : text.offset(at.end_line, at.end_column)]
    if not old.isdecimal():
        return Declined(f"`{source.text}` is not set to a plain number; raise it there")
    if (reason := applies_elsewhere(project, source, place.path)) is not None:
        return Declined(reason)
    edits = replace_number(project, place, int(old), str(found.fits or 2 * found.size))
    assert edits is not None
    return _fix(edits, found.fits)


def _helper_drops(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    """Return whether a function of the tree that makes a loader passes ``drop_last`` on to it, other than False."""
    for ref in project.fact(Resolver).callees(module, made):
        function = ref.node
        if not isinstance(function, ast.FunctionDef):
            continue
        for part in walk(function):
            if not isinstance(part, ast.keyword) or part.arg != "drop_last":
                continue
            value: ast.expr | None = part.value
            if isinstance(value, ast.Name) and value.id in parameters(function):
                given = argument_of(function, made, value.id)
                value = given if isinstance(given, ast.expr) else default_of(function.args, value.id)
            if not isinstance(value, ast.Constant) or value.value:
                return True
    return False


def _is_unread(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    """Return whether a loader is kept in an attribute of that name that no file of the tree reads."""
    match module.syntax.parents.get(made):
        case ast.Assign(targets=[ast.Attribute(attr=name, value=ast.Name(id="self"))]):
            pass
        case _:
            return False
    for path in {module.path, *project.python_files_with(name.encode())}:
        other = project.module_at(path)
        for node in other.syntax.nodes if other is not None else ():
            match node:
                case ast.Attribute(attr=attr, ctx=ast.Load()) if attr == name:
                    return False
                case ast.Constant(value=str(text)) if text == name:
                    return False
    return True


def _without_training(project: Project, module: ModuleIndex) -> str | None:
    """Return why nothing is gained: the program trains nothing, or computes on the CPU for all that it shows."""
    named = module.calls_by_name
    if "backward" in named:
        moves = any(map(_MOVES.search, named)) or _passes_device(module)
        return None if moves else "nothing in the program moves the model or its batches to a GPU"
    uses = any(project.fact(GpuPrograms).users(module.path)) or _TRAINS.search(module.syntax.source.text) is not None
    loops = any(isinstance(node, ast.For) for node in module.syntax.nodes)
    return "the program goes through all splits in the same way, without training" if loops and not uses else None


def _passes_device(module: ModuleIndex) -> bool:
    """Return whether a call other than that of a method of ``torch`` itself gets a device: ``train(model, device)``."""
    return any(
        isinstance(part, ast.Name | ast.Attribute) and _DEVICE.search(ast.unparse(part)) is not None
        for call in module.calls
        if last_name(call.func) not in ("print", "device", "format", "info")
        for part in (*call.args, *(keyword.value for keyword in call.keywords))
    )


def _only_evaluates(module: ModuleIndex) -> bool:
    """Return whether a module calls the trainer's evaluation, and never its training."""
    named = module.calls_by_name
    return ("evaluate" in named or "predict" in named) and not any(name in named for name in ("train", "fit"))


def _derives(module: ModuleIndex, option: str) -> bool:
    """Return whether one loader takes an option as its batch size, and another what is computed from it."""
    taken = [
        keyword.value
        for call in module.calls
        for keyword in call.keywords
        if keyword.arg == "batch_size" and isinstance(keyword.value, ast.Name | ast.Attribute)
    ]
    if not any(isinstance(value, ast.Attribute) and value.attr == option for value in taken):
        return False
    names = {value.id for value in taken if isinstance(value, ast.Name)}
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.BinOp | ast.Call)
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
        and any(isinstance(part, ast.Attribute) and part.attr == option for part in walk(node.value))
        for node in module.syntax.nodes
    )


def _styled(name: str) -> str:
    """``eval`` in front of a name, written as the name is."""
    if name.isupper():
        return f"EVAL_{name}"
    if "-" in name:
        return f"eval-{name}"
    return f"eval{name[0].upper()}{name[1:]}" if "_" not in name and any(map(str.isupper, name)) else f"eval_{name}"


def _constant(module: ModuleIndex, call: ast.Call, size: ast.Name, fits: int) -> tuple[tuple[Edit, ...], str] | None:
    """``EVAL_BATCH_SIZE = 2 * BATCH_SIZE`` below the only assignment of ``BATCH_SIZE``."""
    name, value = _styled(size.id), str(fits) if fits else double(size.id)
    bindings = module.scope(call).lookup(size.id)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN:
        return None
    bound = bindings[0].node
    given = bindings[0].value
    if given is not None and any(
        isinstance(part, ast.Attribute) and _derives(module, part.attr) for part in walk(given)
    ):
        return None
    statement = next((up for up in (bound, *module.syntax.ancestors(bound)) if isinstance(up, ast.stmt)), None)
    taken = module.scope(call).lookup(name)
    if taken:
        same = len(taken) == 1 and taken[0].value is not None and ast.unparse(taken[0].value) == value
        return ((), name) if same else None
    if not isinstance(statement, ast.Assign) or [ast.unparse(target) for target in statement.targets] != [size.id]:
        return None
    edit = insert_below(module.syntax, statement, f"{name} = {value}")
    return None if edit is None else ((edit,), name)


def _replace(project: Project, finding: Finding, span: Span, text: str, found: EvalBatch) -> Fix:
    place = Place(finding.path, span)
    document = project.document(finding.path)
    assert document is not None
    source = document.cell_source(span.cell)
    old = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    follows = follow(project, place, int(old), text) if old.isdecimal() else ()
    return _fix((Edit(finding.path, span, text), *follows), found.fits)


def _fix(edits: tuple[Edit, ...], fits: int) -> Fix:
    what = f"batches of {fits}, which fit" if fits else "twice the training batch"
    description = f"evaluate with {what} (metrics averaged per batch may change{'' if fits else ', and it has to fit'})"
    return Fix(description, Safety.UNSAFE, edits)


FIXER = Fixer("GPU202", fix)
