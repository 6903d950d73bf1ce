"""Calls that write a checkpoint before they return, and helpers of other modules that lead to one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries import Models
from gpulint.libraries.names import matches
from gpulint.libraries.operations import Saver
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import RECEIVERS
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import FUNCTIONS, CallSite, ModuleIndex, NodeRef, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_HELPERS = 4
"""How many calls deep a helper is followed."""

_MODEL_NAME = regex.compile(
    r"(^|_)(model|net|network|state|state_dict|ckpt|checkpoint|weights|params|agent|policy|snapshot)(_|$|\d)",
    re.IGNORECASE,
)
_RESULT_NAME = regex.compile(
    r"(^|_)(eval|evals|metrics?|results?|predictions?|preds?|outputs?|history|scores?|stats|loss|losses|features?|embeddings?|"
    r"samples|images?|labels|logits|accuracy|cams?|heatmaps?|masks?|attentions?|curves?|timings?)(_|$)",
    re.IGNORECASE,
)
_TENSOR_METHODS = frozenset({"cpu", "detach", "numpy", "clone"})
_SETTINGS = frozenset("args opt opts config cfg hparams training_args options".split())
_SAVING_HOOKS = ("on_epoch_end", "on_train_batch_end", "_save_model", "_save_checkpoint", "on_validation_end")
_SMALL = regex.compile(r"token|process|config|extractor|vocab|tokenizer|schedul", re.IGNORECASE)
_HELPER = regex.compile(
    r"(save|write|store|dump|export)\w*(checkpoint|ckpt|model|state|weight|snapshot|on_master|optimizer|pretrained|"
    r"recovery|best|last|peft|lora|adapter)"
    r"|^_?(checkpoint|snapshot|save|save_on_master|save_all|make_checkpoint)$",
    re.IGNORECASE,
)
_HELPER_ONLY = regex.compile(r"async|background", re.IGNORECASE)
_EXTERNAL = regex.compile(r"^_?save_(on_master|(model_)?checkpoint|ckpt|snapshot|training_state)$")
_TENSORFLOW = regex.compile(r"^tensorflow\.(compat\.v1\.)?train\.(CheckpointManager|Checkpoint|Saver)$")


@dataclass(frozen=True, slots=True)
class Save(CallSite):
    """A call that writes a checkpoint. ``path`` is the expression that says where to, if it is known."""

    path: NodeRef | None = None
    is_callback: bool = False
    """A callback object or setting by which the framework saves on its own while it trains."""
    only_remote: bool = False
    """It is how the framework always saves, so only a remote path makes it worth a word."""
    only_folders: bool = False
    """What saves takes a URL for the name of a folder."""
    interval: tuple[str, str] | None = None
    """The parameters of settings that say how often the framework saves: by steps or epochs, and after how many."""
    path_name: str = ""
    """The parameter of settings that says where to."""
    keeps: tuple[str, ...] = ()
    """The parameter that limits how many checkpoints stay, and its value with which all do ("": unset or None)."""

    @property
    def what(self) -> str:
        """The called name as written."""
        return dotted(self.node.func) or last_name(self.node.func)


_WORDS = ("save", "dump", "Checkpoint", "Restore", "RayTrainReport", "TrainingArguments", "Config")
"""Parts of the names of classes of the tree, too, that are made from those of libraries."""


class Savers:
    """What the rows say of calls that save."""

    def __init__(self, models: Models) -> None:
        self.rows: tuple[Saver, ...] = models.rows("saver")
        self.methods: dict[str, list[Saver]] = {}
        for row in self.rows:
            for name in row.methods:
                self.methods.setdefault(name, []).append(row)
        self._last = tuple(call.rpartition(".")[2] for row in self.rows for call in row.calls)

    def may_save(self, name: str) -> bool:
        """A first look at the last component of what is called."""
        return name in self.methods or any(word in name for word in _WORDS) or matches(self._last, (name,))

    def of(self, names: frozenset[str]) -> Saver | None:
        """The row of a function or class."""
        return next((row for row in self.rows if matches(row.calls, names)), None)


class Checkpoints:
    """Checkpoint writes of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._savers = project.models.derived(Savers)

    @query
    def in_module(self, module: ModuleIndex) -> list[Save]:
        """Checkpoint writes of a module, in source order."""
        calls = [call for call in module.calls_where(self._savers.may_save) if not self._in_background(module, call)]
        found = [save for call in calls if (save := self._save(module, call)) is not None]
        return sorted(found, key=lambda save: (save.node.lineno, save.node.col_offset))

    def through_helpers(self, module: ModuleIndex) -> Iterator[tuple[NodeRef, Save]]:
        """(call, the write behind it) of calls that save through a function of another module."""
        for call in module.calls_where(names_saving):
            if self._in_background(module, call):
                continue
            for callee in self._project.fact(Resolver).callees(module, call):
                if callee.module is not module and (save := self._reach(callee)) is not None:
                    yield NodeRef(module, call), save
                    break

    def _reach(self, function: NodeRef, helpers: int = MAX_HELPERS) -> Save | None:
        """The first checkpoint write that a function does outside of training loops of its own."""
        if not isinstance(function.node, FUNCTIONS):
            return None
        return self._find_reached(function, helpers)

    @query
    def _find_reached(self, function: NodeRef, helpers: int) -> Save | None:
        module, loops = function.module, self._project.fact(LoopContexts)
        inside = [call for call in module.calls if function.node in module.syntax.ancestors(call)]
        inside = [
            call
            for call in inside
            if not any(loops.role(module, loop) in (Role.STEP, Role.EPOCH) for loop in loops.around(module, call))
        ]
        writes = {save.node: save for save in self.in_module(module) if not save.is_callback}
        found = next((writes[call] for call in inside if call in writes), None)
        for call in inside if found is None and helpers else ():
            for callee in self._project.fact(Resolver).callees(module, call):
                found = found or self._reach(callee, helpers - 1)
        return found

    def _save(self, module: ModuleIndex, call: ast.Call) -> Save | None:
        name = last_name(call.func)
        if isinstance(call.func, ast.Call) or not self._savers.may_save(name):
            return None
        names = self._project.fact(Resolver).call_names(module, call)
        if "Checkpoint" in name:
            names |= self._inherited(module, call)
        row = self._savers.of(names)
        if row is not None and not row.callback:
            if "torch.save" in names and any(
                saves(call) for saves in (_saves_results, _saves_tensor, _saves_settings, _saves_schedule)
            ):
                return None
            if row.dumps and (not _saves_model(call) or self._traces_memory(module, call.args[0])):
                return None
            return Save(NodeRef(module, call), self._argument(module, call, row.path, row.position))
        if (automatic := self._automatic(module, call, names, row)) is not None:
            return automatic
        if self._is_method(module, call, name) and not self._project.fact(Resolver).callees(module, call):
            return Save(NodeRef(module, call), NodeRef(module, call.args[0]) if call.args else None)
        return None

    def _in_background(self, module: ModuleIndex, call: ast.Call) -> bool:
        """``checkpoint_io.save(..., async_io=True)``, Orbax's or Lightning's asynchronous writers"""
        if "AsyncCheckpointIO" in module.calls_by_name and last_name(call.func).endswith("ModelCheckpoint"):
            return True
        if isinstance(call.func, ast.Attribute) and call.func.attr == "save":
            made = [ref.node for ref in self._project.fact(Resolver).points_to(module, call.func.value)]
            if any(isinstance(one, ast.Call) and last_name(one.func) == "AsyncCheckpointer" for one in made):
                return True
        return any(
            "async" in keyword.arg and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            for keyword in call.keywords
            if keyword.arg is not None
        )

    def _traces_memory(self, module: ModuleIndex, what: ast.expr) -> bool:
        """``torch.cuda.memory._snapshot()``: what the allocator did, not the model."""
        made = (ref for ref in self._project.fact(Resolver).points_to(module, what) if isinstance(ref.node, ast.Call))
        return any(
            name.startswith("torch.cuda.memory.")
            for ref in made
            if isinstance(ref.node, ast.Call)
            for name in self._project.fact(Resolver).call_names(ref.module, ref.node)
        )

    def _inherited(self, module: ModuleIndex, call: ast.Call) -> frozenset[str]:
        """Bases of the tree's own callback classes that leave saving to them."""
        resolver = self._project.fact(Resolver)
        made = [ref for ref in resolver.points_to(module, call.func) if isinstance(ref.node, ast.ClassDef)]
        return frozenset[str]().union(
            *(
                resolver.base_names(ref.module, ref.node)
                for ref in made
                if isinstance(ref.node, ast.ClassDef)
                and not any(resolver.class_attribute(ref.module, ref.node, hook) for hook in _SAVING_HOOKS)
            )
        )

    def _automatic(self, module: ModuleIndex, call: ast.Call, names: frozenset[str], row: Saver | None) -> Save | None:
        """Callbacks and settings that make a framework save."""
        at = NodeRef(module, call)
        if any(name.endswith(".RayTrainReportCallback") for name in names):
            paths = [self._argument(module, run, "storage_path") for run in module.calls_by_name.get("RunConfig", [])]
            return Save(at, next((path for path in paths if path), None), is_callback=True, only_remote=True)
        if row is None or not row.callback:
            return None
        if row.off and self._project.fact(Arguments).value(module, call, row.off[0]).any(
            lambda value: value == row.off[1]
        ):
            return None
        path = self._argument(module, call, row.path, row.position)
        interval = (row.interval[0], row.interval[1]) if row.interval else None
        return Save(
            at, path, is_callback=True, only_remote=row.always, only_folders=row.folders, interval=interval,
            path_name=row.path, keeps=row.keeps,
        )  # fmt: skip

    def _is_method(self, module: ModuleIndex, call: ast.Call, name: str) -> bool:
        """Return whether the call is a method (or an imported helper) of a library that saves models."""
        if not isinstance(call.func, ast.Attribute):
            return bool(_EXTERNAL.match(name))
        owner = last_name(call.func.value)
        if _EXTERNAL.match(name):
            return not _SMALL.search(owner)
        for row in self._savers.methods.get(name, ()):
            if matches(row.owners, (owner,)) if row.owners else not _SMALL.search(owner):
                return True
            if row.owners and self._is_trainer(module, call.func.value):
                return True
        return name == "save" and self._is_tensorflow(module, call.func.value)

    def _is_trainer(self, module: ModuleIndex, owner: ast.expr) -> bool:
        """``self`` in a subclass of a Hugging Face trainer, which has methods to save by."""
        home = module.class_of(owner) if isinstance(owner, ast.Name) and owner.id in RECEIVERS else None
        bases = self._project.fact(Resolver).base_names(module, home) if home is not None else ()
        return any(base.startswith(("transformers.", "trl.")) and base.endswith("Trainer") for base in bases)

    def _is_tensorflow(self, module: ModuleIndex, owner: ast.expr) -> bool:
        for ref in self._project.fact(Resolver).points_to(module, owner):
            if isinstance(ref.node, ast.Call):
                names = self._project.fact(Resolver).call_names(ref.module, ref.node)
                if any(_TENSORFLOW.match(name) or name.startswith(("tensorflow.keras.", "keras.")) for name in names):
                    return True
        return False

    def _argument(self, module: ModuleIndex, call: ast.Call, name: str, position: int | None = None) -> NodeRef | None:
        argument = self._project.fact(Arguments).of(module, call, name, position)
        return argument.refs[0] if argument.refs else None


def names_saving(name: str) -> bool:
    """Return whether a function says by its name that it writes a checkpoint before it returns."""
    return bool(_HELPER.search(name)) and not _HELPER_ONLY.search(name)


def speaks_of_saving(name: str) -> bool:
    """The same, whether it waits for the file or not: ``save_in_background``."""
    return bool(_HELPER.search(name) or _HELPER_ONLY.search(name))


def _saves_model(call: ast.Call) -> bool:
    """Return whether the first argument's name says that it is a model or its state."""
    return bool(call.args) and any(_MODEL_NAME.search(name) for name in _words(call.args[0]))


def _saves_results(call: ast.Call) -> bool:
    """Return whether something else is plainly saved: metrics, predictions, a history."""
    return (
        bool(call.args) and not _saves_model(call) and any(_RESULT_NAME.search(name) for name in _words(call.args[0]))
    )


def _saves_tensor(call: ast.Call) -> bool:
    """``torch.save(projections.cpu(), path)``: what a model computed. The state of a model is no one tensor."""
    what = call.args[0] if call.args else None
    while isinstance(what, ast.Call) and isinstance(what.func, ast.Attribute) and not what.args:
        if what.func.attr in _TENSOR_METHODS:
            return not _saves_model(call)
        what = what.func.value
    return False


def _saves_settings(call: ast.Call) -> bool:
    """``torch.save(args, path)``: a few numbers."""
    return bool(call.args) and last_name(call.args[0]) in _SETTINGS


def _saves_schedule(call: ast.Call) -> bool:
    """``torch.save(self.lr_scheduler.state_dict(), path)``: a few numbers as well."""
    match call.args[:1]:
        case [ast.Call(func=ast.Attribute(value=owner, attr="state_dict"))]:
            return bool(re.search(r"scheduler|^scaler$|grad_scaler", last_name(owner), re.IGNORECASE))
    return False


def _words(node: ast.expr) -> Iterator[str]:
    """The names and texts of an expression, other than entries that are constants: ``{"model": "vit"}``."""
    plain = {
        part
        for child in walk(node)
        if isinstance(child, ast.Dict)
        for key, value in zip(child.keys, child.values, strict=True)
        if isinstance(value, ast.Constant)
        for part in (key, value)
    }
    for child in walk(node):
        if child in plain:
            continue
        if isinstance(child, ast.Name):
            yield child.id
        elif isinstance(child, ast.Attribute):
            yield child.attr
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
