"""Batch sizes of training and of evaluation that are set side by side: options, configuration files, dictionaries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.launch.job_index import JobIndex
from gpulint.numerals import whole
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint.values.constants import Constants
from gpulint.workload.data_split import Split, split_of
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

Settings = Mapping[str, tuple[object, Span]]
"""Value and place of what is set together, under its name or dotted key."""

_WORD = regex.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SIZE = regex.compile(r"batch|(^|_)(bs|bsz)($|_)", re.IGNORECASE)
_PER_DEVICE = frozenset("per device gpu node local dataloader loader size".split())
_NOT_ALONE = frozenset("micro global num max steps sampler norm batches".split())
"""Words of sizes that something else bounds, and of what is no size, such as how many batches there are."""
_TRAINER = regex.compile(r"per_(device|gpu)_eval_batch_size$")
"""An option of Hugging Face's ``Trainer``, which evaluates only if it is asked to."""
_ASKS = regex.compile(
    r"(^|\.)(do_eval|do_predict|eval(uation)?_strategy|evaluate_during_training|eval_steps)(\.value)?$"
)
_SIMULATES = regex.compile(r"(^|\.)(env|n_envs|num_envs|n_episodes|num_episodes)(\.|$)")
_UNLIKE = 16
"""How many times the training batch may be the larger one; beyond, a sample of evaluation is more than one of training,
such as a query with all of its candidates."""
_NO = frozenset(("no", "false", "none", "0"))
_ENOUGH = 256
_TRIES = regex.compile(r"(^|[_-])(smoke\w*|debug\w*|tiny|quick\w*|toy|dummy|mock)([_-]|$)", re.IGNORECASE)


_MEASURED = regex.compile(r"time per (batch|image|sample|step)|latency|throughput|\bfps\b", re.IGNORECASE)
"""Words of what a program reports of its speed."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An evaluation batch size at ``span`` that is the training batch size or smaller."""

    name: str
    size: int
    training: int
    span: Span


def pairs(settings: Settings, least: int = 1) -> Iterator[Pair]:
    """Evaluation sizes of ``least`` and more among ``settings`` that are not above the training size of the same kind.

    Silent where settings say that nothing is evaluated, or that a simulation is, in as many copies.
    """
    sizes = {
        key: value for key, (value, _) in settings.items() if _SIZE.search(key) and type(value) is int and value > 0
    }
    evaluated = {key for key in sizes if split(key) is Split.EVAL and "infer" not in key.lower()}
    if not evaluated or len(evaluated) == len(sizes) or any(_SIMULATES.search(key) for key in settings):
        return
    asked = {_plain(key): str(value).lower() for key, (value, _) in settings.items() if _ASKS.search(_plain(key))}
    wants = {key for key, value in asked.items() if value not in _NO}
    if (asked and not wants) or any(key.endswith("strategy") and key not in wants for key in asked):
        return
    training = {key: size for key, size in sizes.items() if split(key) is Split.TRAIN}
    training = training or {key: size for key, size in sizes.items() if key not in evaluated}
    for key in sorted(evaluated, key=lambda key: (settings[key][1].line, key)):
        kind = _kind(key)
        alike = [size for other, size in training.items() if kind is not None and _kind(other) == kind]
        if not alike or sizes[key] > min(alike) or (_TRAINER.search(_plain(key)) and not wants):
            continue
        if is_enough(sizes[key], min(alike)):
            continue
        if least <= sizes[key] and 1 < min(alike) <= _UNLIKE * sizes[key]:
            yield Pair(key, sizes[key], min(alike), settings[key][1])


def pairs_in_code(project: Project, settings: Settings) -> Iterator[Pair]:
    """Pairs of what a program declares; those whose evaluation measures how long a batch takes are left out."""
    return (pair for pair in pairs(settings) if not _only_measures(project, pair.name))


def _only_measures(project: Project, name: str) -> bool:
    """Return whether each function that takes an option tells the time of a batch (``time per batch: {ms} ms``)."""
    last = name.rpartition(".")[2]
    users = [
        module.function(node)
        for path in project.word_index.mentioning(word_of(last))
        if (module := project.module_at(path)) is not None
        for node in module.syntax.of(ast.Attribute)
        if node.attr == last and isinstance(node.ctx, ast.Load)
    ]
    return bool(users) and all(
        function is not None
        and any(
            isinstance(part, ast.Constant) and isinstance(part.value, str) and _MEASURED.search(part.value)
            for part in walk(function)
        )
        for function in users
    )


def is_enough(size: int, training: int) -> bool:
    """Return whether evaluation batches are large, if smaller than those of the training."""
    return _ENOUGH <= size < training


def number(text: str | None) -> object:
    """An option's text as the number that it is."""
    value = whole(text)
    return text if value is None else value


def only_tries(stem: str) -> bool:
    """Return whether a file is named after a first try (``smoketest``, ``debug_config``)."""
    return bool(_TRIES.search(stem))


def split(key: str) -> Split | None:
    """Return what a dotted key says its batches are for: the innermost name that says so."""
    return next((found for name in reversed(key.split(".")) if (found := split_of(name)) is not None), None)


def fallbacks(project: Project, module: ModuleIndex) -> Iterator[tuple[ast.Assign, str]]:
    """``if eval_batch_size is None: eval_batch_size = batch_size`` and its name, if it may be ``None``."""
    for node in module.syntax.of(ast.If):
        match node:
            case ast.If(
                test=ast.Compare(left=asked, ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
                body=[ast.Assign(targets=[target], value=ast.Name() | ast.Attribute() as value) as found],
            ):
                name, training = last_name(target), last_name(value)
            case _:
                continue
        if not (_SIZE.search(name) and _SIZE.search(training) and split_of(name) is Split.EVAL):
            continue
        if last_name(asked) != name or split_of(training) is Split.EVAL or _kind(training) != _kind(name):
            continue
        if not project.fact(Constants).of(module, asked).every(lambda given: given is not None):
            yield found, name


def declared(project: Project, module: ModuleIndex) -> Iterator[Settings]:
    """Yield what classes and dictionaries of a module set together, as far as it is known."""
    for owner in module.classes:
        fields = (
            (node.target.id, node.value, node.value)
            for node in owner.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
        )
        yield dict(_known(project, module, fields))
    for node in module.syntax.of(ast.Dict):
        if len(node.keys) > 1:
            items = zip(node.keys, node.values, strict=True)
            named = ((key.value, value) for key, value in items if isinstance(key, ast.Constant))
            constant = [
                (key, value) for key, value in named if isinstance(key, str) and isinstance(value, ast.Constant)
            ]
            if any(_SIZE.search(key) for key, _ in constant):
                yield {key: (value.value, module.syntax.span(value)) for key, value in constant}


def optional(project: Project, module: ModuleIndex) -> Settings:
    """Defaults of a module's options, as far as they are known; but evaluation sizes that other modules take, which
    make the batches."""
    elsewhere = project.imported(module.path)
    return {
        name: setting
        for name, setting in _known(project, module, _options(project, module))
        if split(name) is not Split.EVAL or not any(project.contains(path, word_of(_plain(name))) for path in elsewhere)
    }


def _options(project: Project, module: ModuleIndex) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """Names, defaults and places of a module's options that no launcher sets."""
    for call in [*module.calls_by_name.get("add_argument", []), *module.calls_by_name.get("option", [])]:
        flags = tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
        default = keyword_value(call, "default")
        name = next((flag for flag in flags if flag.startswith("--")), None)
        if name is None or default is None or not (_SIZE.search(name) or _ASKS.search(_plain(name))):
            continue
        if "generat" in ast.unparse(call).lower():
            continue  # how many images a diffusion model is asked for
        if split(name) is Split.EVAL and _is_set_anew(module, _plain(name)):
            continue
        if not any(launched.option(flags) for launched in project.fact(JobIndex).launches_of(module.path)):
            yield name, default, call


def _is_set_anew(module: ModuleIndex, name: str) -> bool:
    """Return whether the program gives an option a value of its own (``args.test_batch_size = 1``)."""
    return any(
        isinstance(target, ast.Attribute)
        and target.attr == name
        and isinstance(statement, ast.Assign)
        and name not in ast.unparse(statement.value)
        for stores in module.stores.values()
        for target, _, statement in stores
    )


def _known(
    project: Project, module: ModuleIndex, named: Iterator[tuple[str, ast.expr, ast.expr]]
) -> Iterator[tuple[str, tuple[object, Span]]]:
    for name, node, at in named:
        if not (_SIZE.search(name) or _ASKS.search(_plain(name))):
            continue
        known = project.fact(Constants).of(module, node)
        values = {value.value for value in known.values}
        if known.complete and len(values) == 1:
            yield name, (values.pop(), module.syntax.span(at))


def _plain(key: str) -> str:
    return key.lstrip("-").replace("-", "_").removesuffix(".value")


def _kind(key: str) -> frozenset[str] | None:
    """Return what is left of a key without the split that it names; None for sizes that are bound by something else."""
    words = {word.lower() for word in _WORD.findall(_plain(key))}
    if words & _NOT_ALONE:
        return None
    return frozenset(word for word in words if split_of(word) is None) - _PER_DEVICE
