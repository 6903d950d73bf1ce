"""Roles of loops (training step, epoch, evaluation) and what runs inside them, also through helpers in other
modules."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from gpulint.facts.callsites import LOOKED_AT
from gpulint.facts.scopes import FUNCTIONS, LOOPS, FunctionNode, LoopNode, ModuleScopes, Ref, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_HELPERS = 5
"""How many calls deep a helper is followed."""

_BACKWARD = frozenset({"backward", "manual_backward", "train_on_batch", "apply_gradients", "minimize"})
_STEPPED = re.compile(r"optim|scaler|engine|^opt$|^opt_|_opt$|^optimi[sz]er", re.IGNORECASE)
_STEP_CALL = re.compile(
    r"^_?(train|training|update|optimi[sz]e)_?(step|batch|iter|iteration|one_batch|one_step)$|^_?step_train$"
)
_EVAL_NAME = re.compile(
    r"(^|_)(eval|evaluate|evaluation|valid|validate|validation|val|test|infer|inference|predict|prediction|accuracy)(_|$)"
)
_EVAL_STEP = re.compile(
    r"^_?(eval|evaluation|val|valid|validation|test|infer|inference|predict)_?(step|batch|iter|iteration)(_fn)?$"
)
_TRAIN_NAME = re.compile(r"(^|_)(train|training|fit|finetune)(_|$)")
_LOADER_NAME = re.compile(
    r"(data_?_?loader|loader|_dl$|^dl$|data_?iter|iterator|batches|dataset|train_data|test_data|val_data)",
    re.IGNORECASE,
)
_ABOUT_DATA = re.compile(r"_(types?|names?|kinds?|keys?|paths?|files?|configs?|options|opts)$", re.IGNORECASE)
_SEVERAL = re.compile(r"(loaders|data_?sets|iterators)$", re.IGNORECASE)
"""Names of what holds several loaders, one of which a loop takes at a time."""
_EPOCH_NAME = re.compile(r"(^|_)(epoch|epochs|ep)(_|$|\d)|^epoch")
_STEP_HOOKS = frozenset(
    {
        "training_step", "on_train_batch_end", "on_train_batch_start", "on_before_zero_grad", "on_batch_end",
        "on_train_step_end", "compute_loss", "training_step_end", "on_after_backward"
    }
)  # fmt: skip
_EVAL_HOOKS = frozenset({"validation_step", "test_step", "predict_step", "prediction_step", "on_validation_batch_end"})
_EPOCH_HOOKS = frozenset(
    {
        "on_train_epoch_end", "on_epoch_end", "on_validation_epoch_end", "on_train_epoch_start", "training_epoch_end",
        "validation_epoch_end", "on_evaluate", "on_save", "on_validation_end", "on_stage_end"
    }
)  # fmt: skip
_BRAIN_HOOKS = frozenset({"compute_forward", "compute_objectives", "fit_batch", "evaluate_batch"})
_FORWARD = ("forward", "__call__")
_TRAINING_WORDS = b"backward minimize gradient train_on_batch value_and_grad epoch optim scaler train_ _step".split()
_HOOKS = _STEP_HOOKS | _EPOCH_HOOKS | _BRAIN_HOOKS
_HOOK_OWNERS = re.compile(r"LightningModule|LightningDataModule|Callback|Trainer$|Brain$|Learner$|keras\.Model$")


class Role(enum.Enum):
    """What a loop does."""

    STEP = "training step"
    EPOCH = "epoch"
    EVAL = "evaluation"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Context:
    """A loop that a node runs in. ``calls`` lead from the loop to the node's function, outermost first."""

    role: Role
    loop: Ref
    """The loop, or the framework hook (``training_step``) that stands for one."""
    calls: tuple[Ref, ...] = ()


class Loops:
    """Loop roles of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._owned: dict[int, dict[ast.AST | None, list[ast.Call]]] = {}
        self._inner: dict[int, dict[ast.AST | None, list[LoopNode]]] = {}
        self._roles: dict[LoopNode, Role] = {}
        self._function_roles: dict[FunctionNode, frozenset[Role]] = {}
        self._contexts: dict[FunctionNode, tuple[Context, ...]] = {}
        self._handed_over: dict[int, dict[str, list[ast.Call]]] = {}
        self._trains: dict[ModuleScopes, bool] = {}
        self._active: set[object] = set()

    # -- structure -----------------------------------------------------------------------------------------------------

    def around(self, scopes: ModuleScopes, node: ast.AST) -> Iterator[LoopNode]:
        """Loops around ``node`` in its function, innermost first. An optimizer closure belongs to its loop."""
        inner = node
        for up in scopes.module.ancestors(node):
            if isinstance(up, LOOPS) and (inner in up.body or inner is getattr(up, "test", None)):
                yield up
            elif (isinstance(up, FUNCTIONS) and "closure" not in up.name) or isinstance(up, ast.ClassDef):
                return
            inner = up

    def calls_in(self, scopes: ModuleScopes, owner: ast.AST | None) -> list[ast.Call]:
        """Calls whose innermost loop, else function, else module (None) is ``owner``."""
        key = id(scopes)
        if key not in self._owned:
            table: dict[ast.AST | None, list[ast.Call]] = {}
            for call in scopes.calls:
                home: ast.AST | None = next(self.around(scopes, call), None) or scopes.function(call)
                table.setdefault(home, []).append(call)
            self._owned[key] = table
        return self._owned[key].get(owner, [])

    def inner_loops(self, scopes: ModuleScopes, owner: ast.AST | None) -> list[LoopNode]:
        """Loops directly inside a loop or function."""
        key = id(scopes)
        if key not in self._inner:
            table: dict[ast.AST | None, list[LoopNode]] = {}
            for loop in scopes.loops:
                home: ast.AST | None = next(self.around(scopes, loop), None) or scopes.function(loop)
                table.setdefault(home, []).append(loop)
            self._inner[key] = table
        return self._inner[key].get(owner, [])

    # -- roles ---------------------------------------------------------------------------------------------------------

    def role(self, scopes: ModuleScopes, loop: LoopNode) -> Role:
        """The role of a loop."""
        if loop not in self._roles:
            if loop in self._active:
                return Role.OTHER
            self._active.add(loop)
            try:
                self._roles[loop] = self._find_role(scopes, loop)
            finally:
                self._active.discard(loop)
        return self._roles[loop]

    def _find_role(self, scopes: ModuleScopes, loop: LoopNode) -> Role:
        if self._steps(scopes, loop):
            # `for stride in (1, 2)` tries variants; no training takes its steps that way.
            variants = isinstance(loop, ast.For) and isinstance(loop.iter, ast.List | ast.Tuple)
            return Role.OTHER if variants else Role.STEP
        inner = {self.role(scopes, child) for child in self.inner_loops(scopes, loop)} - {Role.OTHER, Role.EVAL}
        for call in self.calls_in(scopes, loop):
            for helper in self._helpers(scopes, call):
                if isinstance(helper.node, FUNCTIONS):
                    inner |= self._helper_roles(helper.scopes, helper.node)
        epoch_name = is_epoch_loop(loop)
        if Role.STEP in inner or Role.EPOCH in inner:
            return Role.STEP if not epoch_name and Role.STEP in inner and self.over_loader(scopes, loop) else Role.EPOCH
        if Role.OTHER in inner:
            # A helper that takes one training step.
            return Role.STEP
        if epoch_name:
            return Role.EPOCH
        several = isinstance(loop, ast.For) and _SEVERAL.search(last_name(unwrap_iterable(loop.iter)))
        if not several and self.over_loader(scopes, loop):
            return Role.EVAL if self._evaluates(scopes, loop) else Role.OTHER
        return Role.OTHER

    def _helpers(self, scopes: ModuleScopes, call: ast.Call) -> Iterable[Ref]:
        """Functions of the tree that a call may step in; what is called an evaluation's step takes no other."""
        return () if _EVAL_STEP.search(last_name(call.func)) else self._project.resolver.callees(scopes, call)

    def _helper_roles(self, scopes: ModuleScopes, function: FunctionNode) -> set[Role]:
        """Roles of the loops that a call to ``function`` runs; OTHER stands for a bare training step."""
        return set(self._roles_of(scopes, function))

    def _roles_of(self, scopes: ModuleScopes, function: FunctionNode) -> frozenset[Role]:
        if function in self._function_roles:
            return self._function_roles[function]
        if function in self._active or len(self._active) > MAX_HELPERS * 3:
            return frozenset()
        if function.name in _FORWARD and not self._speaks_of_training(scopes):
            return frozenset()
        self._active.add(function)
        try:
            found = {self.role(scopes, loop) for loop in self.inner_loops(scopes, function)} - {Role.OTHER, Role.EVAL}
            if self._steps(scopes, function):
                found.add(Role.OTHER)
            for call in self.calls_in(scopes, function):
                for helper in self._helpers(scopes, call):
                    if isinstance(helper.node, FUNCTIONS):
                        found |= self._roles_of(helper.scopes, helper.node)
        finally:
            self._active.discard(function)
        self._function_roles[function] = frozenset(found)
        return self._function_roles[function]

    def _speaks_of_training(self, scopes: ModuleScopes) -> bool:
        """Do a module's words speak of training? If not, what its models run forward is not searched for steps."""
        vocabulary = self._project.vocabulary(scopes.path)
        return any(word in vocabulary for word in _TRAINING_WORDS)

    def _steps(self, scopes: ModuleScopes, owner: ast.AST) -> bool:
        """Does a training step happen directly in the body of a loop or function?"""
        return any(self.is_step(scopes, call) for call in self.calls_in(scopes, owner))

    def is_step(self, scopes: ModuleScopes, call: ast.Call) -> bool:
        """Does the call itself propagate gradients or update parameters?"""
        func = call.func
        name = last_name(func)
        if isinstance(func, ast.Attribute):
            if name in _BACKWARD:
                return True
            if name == "step" and _STEPPED.search(last_name(func.value)):
                return True
            if name == "gradient" and "tape" in last_name(func.value).lower():
                return True
        if name in ("value_and_grad",) and isinstance(call.func, ast.Call):
            return True
        if "scaler" in name and any("optim" in last_name(argument) for argument in call.args[:3]):
            return True
        if _is_step_name(name) and not self._project.resolver.callees(scopes, call):
            return True
        return name == "run" and any(_is_step_name(last_name(argument)) for argument in call.args[:3])

    def over_loader(self, scopes: ModuleScopes, loop: LoopNode) -> bool:
        """Does the loop draw its items from a data loader or data set, as far as can be told?"""
        if isinstance(loop, ast.While):
            return any(last_name(call.func) == "next" for call in self.calls_in(scopes, loop))
        source = unwrap_iterable(loop.iter)
        if is_loader_name(last_name(source)) or self._project.loaders.loaders_of(scopes, source):
            return True
        # `bar = tqdm(loader)` in front of the loop.
        made = (ref.node for ref in self._project.resolver.origins(scopes, source) if isinstance(ref.node, ast.Call))
        return any(
            is_loader_name(last_name(unwrap_iterable(call))) for call in made if unwrap_iterable(call) is not call
        )

    def _evaluates(self, scopes: ModuleScopes, loop: LoopNode) -> bool:
        function = scopes.function(loop)
        if self._project.guards.no_grad(scopes, loop.body[0]) or (
            function is not None and _EVAL_NAME.search(function.name)
        ):
            return True
        names = {last_name(call.func) for call in self.calls_in(scopes, loop)}
        return bool(names & {"model", "net", "network", "module", "generate", "predict", "no_grad", "inference_mode"})

    # -- contexts ------------------------------------------------------------------------------------------------------

    def contexts(self, scopes: ModuleScopes, node: ast.AST) -> tuple[Context, ...]:
        """The training, epoch or evaluation loops that ``node`` runs in, the innermost of each way to it."""
        for loop in self.around(scopes, node):
            role = self.role(scopes, loop)
            if role is not Role.OTHER:
                return (Context(role, Ref(scopes, loop)),)
        function = scopes.function(node)
        while function is not None and "closure" in function.name:
            function = scopes.function(function)
        return self.function_contexts(scopes, function) if function is not None else ()

    def function_contexts(self, scopes: ModuleScopes, function: FunctionNode) -> tuple[Context, ...]:
        """The loops that a function is called in."""
        if function in self._contexts:
            return self._contexts[function]
        question = ("context", function)
        if question in self._active or len(self._active) > MAX_HELPERS:
            return ()
        self._active.add(question)
        try:
            found = list(self._hook(scopes, function))
            sites = self._project.resolver.call_sites(scopes, function)
            for site in sites or self.handed_over(scopes, function):
                for context in self.contexts(site.scopes, site.node):
                    found.append(Context(context.role, context.loop, (*context.calls, site)))
        finally:
            self._active.discard(question)
        unique: dict[tuple[Role, ast.AST, ast.AST | None], Context] = {}
        for context in found:
            first = context.calls[0].node if context.calls else None
            unique.setdefault((context.role, context.loop.node, first), context)
        result = tuple(unique.values())
        if not self._active:
            self._contexts[function] = result
        return result

    def handed_over(self, scopes: ModuleScopes, function: FunctionNode) -> tuple[Ref, ...]:
        """Calls of the function's own module that get it as an argument (``forward_backward(step, loader)``)."""
        if id(scopes) not in self._handed_over:
            table: dict[str, list[ast.Call]] = {}
            for call in scopes.calls:
                for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
                    if isinstance(argument, ast.Name | ast.Attribute):
                        table.setdefault(last_name(argument), []).append(call)
            self._handed_over[id(scopes)] = table
        return tuple(
            Ref(scopes, call)
            for call in self._handed_over[id(scopes)].get(function.name, [])
            if not LOOKED_AT.search(last_name(call.func))
            and any(
                ref.node is function
                for argument in [*call.args, *(keyword.value for keyword in call.keywords)]
                if last_name(argument) == function.name
                for ref in self._project.resolver.origins(scopes, argument)
            )
        )

    def is_brain_hook(self, scopes: ModuleScopes, function: FunctionNode) -> bool:
        """Is it a hook that SpeechBrain calls with each batch, still on the host?"""
        owner = scopes.module.parents.get(function)
        if function.name not in _BRAIN_HOOKS or not isinstance(owner, ast.ClassDef):
            return False
        return any(base.endswith("Brain") for base in self._project.resolver.base_names(scopes, owner))

    def is_engine_step(self, scopes: ModuleScopes, function: FunctionNode) -> bool:
        """Is it the ``(engine, batch)`` function that an Ignite ``Engine`` calls with each batch, still on the host?"""
        if len(function.args.args) != 2:
            return False
        sites = self.handed_over(scopes, function)
        return any(
            isinstance(site.node, ast.Call)
            and any(
                name.startswith("ignite.") and name.endswith("Engine")
                for name in self._project.resolver.call_names(scopes, site.node)
            )
            for site in sites
        )

    def _hook(self, scopes: ModuleScopes, function: FunctionNode) -> Iterator[Context]:
        """Framework hooks (Lightning, HF Trainer, SpeechBrain, Keras callbacks) stand for the loop that calls them."""
        owner = scopes.module.parents.get(function)
        if self.is_engine_step(scopes, function):
            yield Context(Role.STEP if self._steps(scopes, function) else Role.EVAL, Ref(scopes, function))
        if not isinstance(owner, ast.ClassDef):
            return
        name = function.name
        if self.is_brain_hook(scopes, function):
            yield Context(Role.EVAL if name == "evaluate_batch" else Role.STEP, Ref(scopes, function))
        role = (
            Role.STEP
            if name in _STEP_HOOKS
            else Role.EVAL
            if name in _EVAL_HOOKS
            else Role.EPOCH
            if name in _EPOCH_HOOKS
            else None
        )
        if role is None:
            return
        if any(_HOOK_OWNERS.search(base) for base in self._project.resolver.base_names(scopes, owner)):
            yield Context(role, Ref(scopes, function))

    def in_role(self, scopes: ModuleScopes, node: ast.AST, role: Role) -> Context | None:
        """The first context of ``node`` that has ``role``."""
        return next((context for context in self.contexts(scopes, node) if context.role is role), None)

    def may_train(self, scopes: ModuleScopes) -> bool:
        """Is there anything in the module that can be the loop of a training context?"""
        return any(self.role(scopes, loop) in (Role.STEP, Role.EPOCH) for loop in scopes.loops) or any(
            function.name in _HOOKS or len(function.args.args) == 2 for function in scopes.functions
        )

    def trains(self, scopes: ModuleScopes) -> bool:
        """Does the module itself take training steps?"""
        found = self._trains.get(scopes)
        if found is None:
            found = self._trains[scopes] = any(self.is_step(scopes, call) for call in scopes.calls)
        return found


@cache
def _is_step_name(name: str) -> bool:
    """Does a function's name say that it takes one training step?"""
    return bool(_STEP_CALL.search(name))


def is_epoch_loop(loop: LoopNode) -> bool:
    """Does the loop's own variable count epochs?"""
    return isinstance(loop, ast.For) and any(_EPOCH_NAME.search(name) for name in _targets(loop.target))


def is_loader_name(name: str) -> bool:
    """Does a variable's name say that batches come out of it?"""
    return bool(_LOADER_NAME.search(name)) and not _ABOUT_DATA.search(name)


def unwrap_iterable(node: ast.expr) -> ast.expr:
    """The loader inside ``enumerate(tqdm(loader))``, ``islice(loader, n)``, ``iter(loader)``, ``loader.batches()``
    and such."""
    while True:
        if isinstance(node, ast.Call) and node.args and _wraps(last_name(node.func)):
            node = node.args[0].value if isinstance(node.args[0], ast.Starred) else node.args[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "log_every":
            node = node.args[0] if node.args else node.func.value
        else:
            return node


def _wraps(name: str) -> bool:
    return name in _WRAPPERS or "tqdm" in name.lower()


_WRAPPERS = frozenset(
    {
        "enumerate", "trange", "track", "iter", "islice", "cycle", "zip", "log_every", "progress_bar", "prefetch",
        "skip_first_batches", "BackgroundGenerator", "progress", "pbar", "auto", "next", "list", "reversed",
        "ProgressBar", "master_bar", "MpDeviceLoader"
    }
)  # fmt: skip


def _targets(node: ast.expr) -> list[str]:
    return [child.id for child in ast.walk(node) if isinstance(child, ast.Name)]
