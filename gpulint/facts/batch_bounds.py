"""Why a batch may be small on purpose: accumulation, huge models, reinforcement learning, tests, the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.facts.batches import Split
from gpulint.facts.conditions import conditions
from gpulint.facts.gpu_programs import computes, names_device
from gpulint.facts.iterables import unwrap_iterable
from gpulint.facts.roles import Role
from gpulint.facts.scopes import ModuleScopes, Ref, last_name
from gpulint.source import Span

if TYPE_CHECKING:
    from gpulint.project import Project

SMALL = 32
"""Largest batch that counts as small for models of usual size on a data-centre GPU."""
SMALL_MODEL = 64
"""The same for models of the size that fits MNIST."""
MANY_TOKENS = 16384
"""Tokens per step from which on a transformer keeps a GPU busy, however few samples hold them."""
LARGE_GLOBAL = 512
"""Batch over all processes from which on it is the optimizer that bounds it, not the GPU."""

_NAME = re.compile(
    r"^-{0,2}(train(ing)?|per[-_]?device[-_]train|per[-_]?gpu[-_]train|local|input|infer(ence)?)?[-_]?"
    r"(batch[-_]?size|bsz|minibatch[-_]?size)([-_]?(per[-_]\w+|train(ing)?))?$",
    re.IGNORECASE,
)
_ACCUMULATES = re.compile(r"accum|^\W*ga[-_]?steps?$", re.IGNORECASE)
_UPDATES = re.compile(r"(^--|\.)update[-_]freq(\.0)?$")
"""What fairseq calls accumulation; elsewhere the name says how often logs or target networks are renewed."""
_LENGTH = re.compile(
    r"(^|[-_.])(max[-_](len|length)|(seq|sequence|context|token|pack|cutoff)[-_]?(len|length)|model[-_]max[-_]length"
    r"|block[-_]size)$",
    re.IGNORECASE,
)
"""Names of the tokens in a sample."""
_PER_SAMPLE = re.compile(r"^-{0,2}train[-_](group[-_]size|n[-_]passages)$")
"""How many texts retrievers and rerankers make one sample of."""
_FILLED = re.compile(r"(^|_)((seq|sequence|context)_?(len|length)|block_size)$", re.IGNORECASE)
"""Those of samples that are cut to one length; a tokenizer's ``max_length`` bounds what may be far shorter."""
_MICRO = re.compile(r"micro[-_]?batch", re.IGNORECASE)
_RL = re.compile(r"^(gym|gymnasium|stable_baselines3|sb3_contrib|torchrl|tianshou|pettingzoo|minigrid|dm_control)$")
_RL_NAME = re.compile(r"replay_?(buffer|memory)|rollout_?buffer|^actor_?critic$|^(rlhf|ppo|grpo)_", re.IGNORECASE)
_LARGE = re.compile(
    r"(?<![\w.])(?:[3-9]|\d{2,3})(?:\.\d+)?[bB](?![a-zA-Z])|[-_](?:[3-9]|\d{2,3})(?:\.\d+)?[bB](?![a-zA-Z])"
    r"|(?<=[a-z])\d{2,3}b(?![a-z0-9])|[-_]xx?l\b|llama|mi[sx]tral|falcon|qwen|deepseek|vicuna|chatglm|baichuan|internlm|(?<![a-z])phi[-_]?[34](?!\d)"
    r"|stable[-_]?diffusion|sdxl|neox|gpt-?j\b",
    re.IGNORECASE,
)
_TRAINING = re.compile(r"train(ing)?$", re.IGNORECASE)
_TASK = re.compile(r"(^|\.)dataset\.task$")
_ONE_GRAPH = ("node", "edge", "link_pred")
"""Tasks of GraphGym and its descendants on the parts of a graph, which is one sample."""
_GPUS = re.compile(r"(^|\.)(num_?|n_?)gpus?$")
_TOY = re.compile(r"mnist", re.IGNORECASE)
_FAKE = re.compile(r"mock|^(toy|dummy)_?data(set)?$", re.IGNORECASE)
_PROFILES = re.compile(r"(^|[_-])(profile|profiler|profiling)([_-]|$)", re.IGNORECASE)


def is_batch_size(name: str) -> bool:
    """Is it the name of an option or key for the training (or only) batch size of a device?"""
    return bool(_NAME.match(name))


def is_accumulation(name: str) -> bool:
    """Is it the name of an option or key for gradient accumulation?"""
    return bool(_ACCUMULATES.search(name))


def training_sizes(values: Mapping[str, tuple[object, Span]]) -> Iterable[tuple[str, int, Span]]:
    """(key, size, place) of the training batch sizes of one device in a configuration file under dotted keys.

    There are none where a size is shared by several devices, or for graphs that are trained on as a whole.
    """
    plain = {key.lower(): value for key, (value, _) in values.items()}
    if any(_TASK.search(key) and value in _ONE_GRAPH for key, value in plain.items()):
        return
    several = any(_GPUS.search(key) and type(value) is int and value > 1 for key, value in plain.items())
    for key, (value, span) in values.items():
        *parents, name = key.split(".")
        if not is_batch_size(name) or type(value) is not int:
            continue
        # `dali.context.train.batch_size`: deeper down it is something of a part's own.
        if parents and not ("train" in name.lower() or (len(parents) < 3 and _TRAINING.match(parents[-1]))):
            continue
        if not (parents and several and "per" not in name.lower()):
            yield key, value, span


@lru_cache(maxsize=16)
def names_large_model(text: str) -> bool:
    """Does a text name a model that fills a GPU by itself (``llama``, ``13b``)?"""
    return bool(_LARGE.search(text))


def is_small(size: int, text: str) -> bool:
    """Is a batch small for a program whose text is given?"""
    return 0 < size <= (SMALL_MODEL if _TOY.search(text) else SMALL)


def accumulated_elsewhere(options: Mapping[str, str | None], size: int) -> bool:
    """Do a command's options (or a file's keys) make up for a small batch: by accumulating gradients, or by samples of
    several texts each?

    A global batch counts when it is more than eight devices can hold at once.
    """
    for name, text in options.items():
        number = int(text) if text is not None and text.isdecimal() else None
        if (is_accumulation(name) or _UPDATES.search(name)) and (number is None or (number > 1 and number * size > 4)):
            return True
        if _PER_SAMPLE.search(name) and (number is None or number * size > SMALL):
            return True
        if re.search(r"global[-_]batch", name) and (number is None or number > 8 * size):
            return True
    return False


def fills_by_length(options: Mapping[str, str | None], size: int) -> bool:
    """Do options, or what a file or module writes out, make the sequences so long that few of them fill a GPU?"""
    return any(
        _LENGTH.search(name) and text is not None and text.isdecimal() and size * int(text) >= MANY_TOKENS
        for name, text in options.items()
    )


def written_lengths(scopes: ModuleScopes) -> dict[str, str | None]:
    """The lengths to which a module cuts its samples, as it writes them: in dictionaries, arguments and variables."""
    pairs: list[tuple[object, ast.expr | None]] = []
    for node in scopes.module.of(ast.Dict):
        pairs += [
            (key.value, value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        ]
    pairs += [(keyword.arg, keyword.value) for call in scopes.calls for keyword in call.keywords]
    pairs += [(name, binding.value) for name, bindings in scopes.top.bindings.items() for binding in bindings]
    return {
        name: str(value.value)
        for name, value in pairs
        if isinstance(name, str)
        and isinstance(value, ast.Constant)
        and type(value.value) is int
        and _FILLED.search(name)
    }


class BatchBounds:
    """What bounds the batches of the Python modules of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._reasons: dict[Path, str] = {}

    def reason(self, scopes: ModuleScopes) -> str:
        """Why a module's batches may be small on purpose; "" if nothing says so."""
        if scopes.path not in self._reasons:
            self._reasons[scopes.path] = self._find_reason(scopes)
        return self._reasons[scopes.path]

    def _find_reason(self, scopes: ModuleScopes) -> str:
        if self._project.is_test(scopes.path):
            return "a test"
        names = _identifiers(scopes)
        if any(map(_RL.match, scopes.packages)) or any(_RL_NAME.search(name) for name in names):
            return "reinforcement learning"
        if any(_MICRO.search(name) for name in names):
            return "micro-batches"
        texts = [*scopes.strings, *self._default_models(scopes)]
        if any(names_large_model(text) for text in texts if " " not in text):
            return "a model that fills the GPU"
        if any(_FAKE.search(name) for name in names):
            return "made-up data"
        if self._project.gpu_programs.is_elsewhere(scopes) or self._is_for_cpu(scopes):
            return "a program of the CPU, or of TPUs"
        if _PROFILES.search(scopes.path.stem):
            return "a few steps to profile"
        return "accumulation" if self._accumulates(scopes, names) else ""

    def trained_with(self, option: Ref) -> bool:
        """Does a module that imports the option's, or that its module imports, train with batches of its default?"""
        path = option.scopes.path
        for other in (*self._project.gpu_programs.users(path), *self._project.imported(path)):
            scopes = self._project.scopes_at(other)
            if scopes is None or self.reason(scopes):
                continue
            for source in self._project.batches.in_module(scopes):
                if source.split is not Split.TRAIN:
                    continue
                known = self._project.values.of(source.batch.scopes, source.batch.node)
                place = self._project.values.place(option)
                if any(value.place.path == path and _within(value.place.span, place.span) for value in known.values):
                    return True
        return False

    def _default_models(self, scopes: ModuleScopes) -> Iterator[str]:
        """Models that a module loads, or has options for, whose names are constants of other modules."""
        for call in [*scopes.calls_by_name.get("add_argument", []), *scopes.calls_by_name.get("option", [])]:
            default = next((keyword.value for keyword in call.keywords if keyword.arg == "default"), None)
            if isinstance(default, ast.Name | ast.Attribute) and "model" in ast.unparse(call).lower():
                known = self._project.values.of(scopes, default)
                yield from (value for value in known.constants if isinstance(value, str))
        for call in scopes.calls_by_name.get("from_pretrained", []):
            if call.args and not isinstance(call.args[0], ast.Constant):
                known = self._project.values.of(scopes, call.args[0])
                yield from (value for value in known.constants if isinstance(value, str))

    def _is_for_cpu(self, scopes: ModuleScopes) -> bool:
        """Does a program with its own training loop in PyTorch leave everything where PyTorch makes it?"""
        if "torch" not in scopes.packages or not any(
            self._project.loops.role(scopes, loop) is Role.STEP for loop in scopes.loops
        ):
            return False
        texts = [scopes.module.source.text.encode("utf-8", "replace")]
        texts += map(self._project.data, self._project.imported(scopes.path))
        return not any(map(names_device, texts)) and not self._project.gpu_programs.runs(scopes)

    def only_looked_at(self, scopes: ModuleScopes, call: ast.Call) -> bool:
        """Does a module that computes nothing only draw from the loader that ``call`` makes, to see what it yields?

        So do all callers of a function that returns it, if any.
        """
        assigned = scopes.module.parents.get(call)
        function = scopes.function(call)
        if isinstance(assigned, ast.Return) and function is not None and not scopes.class_of(function):
            return not computes(scopes.module.source.text.encode("utf-8", "replace")) and all(
                isinstance(site.node, ast.Call) and self.only_looked_at(site.scopes, site.node)
                for site in self._project.resolver.call_sites(scopes, function)
            )
        if not isinstance(assigned, ast.Assign) or len(assigned.targets) != 1:
            return False
        target = assigned.targets[0]
        if not isinstance(target, ast.Name) or computes(scopes.module.source.text.encode("utf-8", "replace")):
            return False
        if any(self._project.loops.role(scopes, loop) is not Role.OTHER for loop in scopes.loops):
            return False
        if scopes.classes and any("__main__" in ast.unparse(test) for test, _ in conditions(scopes, call)):
            return True  # A module for others tries itself out.
        # A pass in a loop (of epochs) is work.
        drawn = {
            unwrap_iterable(loop.iter)
            for loop in scopes.loops
            if isinstance(loop, ast.For) and not any(self._project.loops.around(scopes, loop))
        }
        uses = [node for node in scopes.module.of(ast.Name) if node.id == target.id and isinstance(node.ctx, ast.Load)]
        return bool(uses) and all(use in drawn or _is_glance(scopes, use) for use in uses)

    def _accumulates(self, scopes: ModuleScopes, names: Iterable[str]) -> bool:
        """Is accumulation there and not set to one step?"""
        found = [name for name in names if is_accumulation(name)]
        # An evaluation accumulates its metrics.
        if not found or not (
            self._project.loops.trains(scopes) or any("grad" in name or "step" in name for name in found)
        ):
            return False
        constants = [size for value in _settings(scopes) for size in self._sizes(scopes, value)]
        return not constants or max(constants) > 1

    def _sizes(self, scopes: ModuleScopes, node: ast.expr) -> list[int]:
        values = self._project.values.of(scopes, node).constants
        return [value for value in values if isinstance(value, int) and not isinstance(value, bool)]


def _within(inner: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= (
        outer.end_line,
        outer.end_column,
    )


def _is_glance(scopes: ModuleScopes, use: ast.Name) -> bool:
    """``len(loader)``, ``iter(loader)``."""
    up = scopes.module.parents.get(use)
    return isinstance(up, ast.Call) and use in up.args and last_name(up.func) in ("len", "iter", "next")


def _settings(scopes: ModuleScopes) -> Iterable[ast.expr]:
    """Expressions that set something named after accumulation: options, keywords, fields, variables, parameters."""
    for node in scopes.module.nodes:
        match node:
            case ast.Call(func=func, keywords=keywords) if last_name(func) in ("add_argument", "option"):
                words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                if any(is_accumulation(word) for word in words):
                    yield from (keyword.value for keyword in keywords if keyword.arg == "default")
            case ast.keyword(arg=str(name), value=value) if is_accumulation(name):
                yield value
            case ast.Assign(targets=[target], value=value) if is_accumulation(last_name(target)):
                yield value
            case ast.AnnAssign(target=target, value=ast.expr() as value) if is_accumulation(last_name(target)):
                yield value


def _identifiers(scopes: ModuleScopes) -> set[str]:
    module = scopes.module
    found = {text for text in scopes.strings if text.startswith("--")}
    found.update(node.id for node in module.of(ast.Name))
    found.update(node.attr for node in module.of(ast.Attribute))
    found.update(node.arg for node in module.of(ast.keyword) if node.arg)
    return found


def declared_sizes(project: Project, scopes: ModuleScopes) -> Iterable[tuple[Ref, str, int]]:
    """(declaration, name, default) of a module's options for the batch size, unless a launcher sets them."""
    for call in [*scopes.calls_by_name.get("add_argument", []), *scopes.calls_by_name.get("option", [])]:
        flags = tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
        name = next((flag for flag in flags if is_batch_size(flag)), None)
        default = next((keyword.value for keyword in call.keywords if keyword.arg == "default"), None)
        if name is None or default is None:
            continue
        if any(launched.option(flags) for launched in project.launched(scopes.path)):
            continue
        known = project.values.of(scopes, default)
        sizes = [value for value in known.constants if isinstance(value, int) and not isinstance(value, bool)]
        if known.complete and len(sizes) == 1:
            yield Ref(scopes, call), name, sizes[0]
