"""Roles of loops (training step, epoch, evaluation), also through helpers in other modules."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.semantic.points_to import Resolver
from gpulint.training.discarded_gradients import discards_gradients
from gpulint.training.explanations import explains, only_explains
from gpulint.training.input_gradients import only_for_inputs
from gpulint.training.loop_iterables import is_loader_name, is_of_parts, runs_over_several, unwrap_iterable
from gpulint.training.sample_draws import SampleDraws
from gpulint.training.single_rounds import ends_at_once
from gpulint.training.trials import measures_memory, probes_memory, tries_variants
from gpulint.values.counter_names import counts_epochs
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, LoopNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

Node = TypeVar("Node", ast.Call, LoopNode)

_BACKWARD = frozenset({"backward", "manual_backward", "train_on_batch", "apply_gradients", "minimize"})
_OF_ARRAYS = frozenset({"scipy.optimize.minimize", "jax.scipy.optimize.minimize", "lmfit.minimize"})
_STEPPING = frozenset({"step", "gradient", "run", "value_and_grad"})
"""Names of calls that may take a training step, as their receiver or their arguments say."""
_STEPPED = regex.compile(r"optim|scaler|engine|^opt$|^opt_|_opt$|^optimi[sz]er", re.IGNORECASE)
_SCHEDULES = regex.compile(r"sched|warm_?up|annealing|(^|_)lr(_|$)", re.IGNORECASE)
"""Names of what changes the learning rate, once per epoch in many programs: ``opt_scheduler.step()``."""
_FETCHED = regex.compile(r"^(train|optimi[sz]e|minimize)(r|_op)?$|_(train|optimi[sz]e|minimize)(r|_op)$")
"""Names of operations that a TensorFlow session runs to take a step: ``session.run([loss, model.optimize])``."""
_STEP = (
    r"_?(?:(?:p|jit|jitted|pmap|parallel)_)?(?:train|training|update|optimi[sz]e|optimi[sz]ers?)_?"
    r"(?:step|batch|iter|iteration|one_batch|one_step)(?:_(?:fn|jit|jitted|pmap|pmapped|p|compiled))?|_?step_train"
)
_STEP_CALL = regex.compile(rf"^({_STEP})$")
_MAY_STEP = regex.compile(rf"\n(\w*scaler\w*|{'|'.join(sorted(_BACKWARD | _STEPPING))}|{_STEP})(?=\n)".encode())
"""Identifiers that a call with a training step has."""
_EVAL_NAME = regex.compile(
    r"(^|_)(eval|evaluate|evaluation|valid|validate|validation|val|test|infer|inference|predict|prediction|accuracy)(_|$)"
)
_EVAL_STEP = regex.compile(
    r"^_?(eval|evaluation|val|valid|validation|test|infer|inference|predict)_?(step|batch|iter|iteration)(_fn)?$"
)
_FORWARD = ("forward", "__call__")
_OF_BUILT_IN = frozenset(
    name for kind in (str, list, dict, set) for name in dir(kind) if not name.startswith("_")
) - {"update", "translate", "encode", "join"}  # fmt: skip
"""Methods of strings and collections, but for those that models and agents have too: whatever else is called so takes
no training steps. To know what such a method belongs to may take half of the tree."""
_TRAINING_WORDS = regex.compile(
    rb"backward|minimize|gradient|train_on_batch|value_and_grad|epoch|optim|scaler|train_|_step"
)


class Role(enum.Enum):
    """What a loop does."""

    STEP = "training step"
    EPOCH = "epoch"
    EVAL = "evaluation"
    OTHER = "other"


_NO_ROLES: frozenset[Role] = frozenset()


class LoopRoles:
    """Loop roles of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    # -- structure -----------------------------------------------------------------------------------------------------

    def around(self, module: ModuleIndex, node: ast.AST) -> Iterator[LoopNode]:
        """Loops around ``node`` in its function, innermost first, but for those that end in their first round. An
        optimizer closure belongs to its loop."""
        inner = node
        for up in module.syntax.ancestors(node):
            if isinstance(up, LOOPS) and not ends_at_once(up):
                place = module.syntax.place(inner)
                if inner is getattr(up, "test", None) or (place is not None and place[0] == "body"):
                    yield up
            elif (isinstance(up, FUNCTIONS) and "closure" not in up.name) or isinstance(up, ast.ClassDef):
                return
            inner = up

    def calls_in(self, module: ModuleIndex, owner: ast.AST | None) -> list[ast.Call]:
        """Calls whose innermost loop, else function, else module (None) is ``owner``."""
        return self._calls(module).get(owner, [])

    @query
    def _calls(self, module: ModuleIndex) -> dict[ast.AST | None, list[ast.Call]]:
        return self._by_owner(module, module.calls)

    def inner_loops(self, module: ModuleIndex, owner: ast.AST | None) -> list[LoopNode]:
        """Loops directly inside a loop or function."""
        return self._loops(module).get(owner, [])

    @query
    def _loops(self, module: ModuleIndex) -> dict[ast.AST | None, list[LoopNode]]:
        return self._by_owner(module, module.loops)

    def _by_owner(self, module: ModuleIndex, nodes: list[Node]) -> dict[ast.AST | None, list[Node]]:
        table: dict[ast.AST | None, list[Node]] = {}
        for node in nodes:
            table.setdefault(next(self.around(module, node), None) or module.function(node), []).append(node)
        return table

    # -- roles ---------------------------------------------------------------------------------------------------------

    @cyclic(Role.OTHER)
    def role(self, module: ModuleIndex, loop: LoopNode) -> Role:
        """The role of a loop."""
        from gpulint.training.guards import Guards

        if stops_at_once(loop):
            return Role.OTHER
        if self._steps(module, loop):
            return Role.OTHER if self._tries(module, loop) else Role.STEP
        if (
            isinstance(loop, ast.For)
            and self.over_loader(module, loop)
            and self._project.fact(Guards).is_without_gradients(module, loop)
        ):
            return Role.EVAL  # an attack on the model takes steps of its own
        inner = {self.role(module, child) for child in self.inner_loops(module, loop)} - {Role.OTHER, Role.EVAL}
        for call in self.calls_in(module, loop):
            for helper in self._helpers(module, call):
                if isinstance(helper.node, FUNCTIONS) and not explains(self._project, helper.module):
                    inner |= self._roles_of(helper.module, helper.node)
        epoch_name = is_epoch_loop(loop)
        several = isinstance(loop, ast.For) and runs_over_several(loop.iter)
        if Role.STEP in inner or Role.EPOCH in inner:
            counted = epoch_name or several or (isinstance(loop, ast.For) and "epoch" in _targets(loop.target))
            stepped = not counted and inner & {Role.STEP, Role.OTHER} and self.over_loader(module, loop)
            return Role.STEP if stepped else Role.EPOCH
        if Role.OTHER in inner:
            # A helper that takes one training step.
            return Role.OTHER if self._tries(module, loop) else Role.STEP
        if epoch_name:
            return Role.EPOCH
        if not several and self.over_loader(module, loop):
            return Role.EVAL if self._evaluates(module, loop) else Role.OTHER
        return Role.EVAL if self._project.fact(SampleDraws).takes_samples(module, loop) else Role.OTHER

    def _tries(self, module: ModuleIndex, loop: LoopNode) -> bool:
        """Return whether a loop tries variants or sizes, or measures memory, which no training steps do."""
        if tries_variants(module, loop) or self.over_loader(module, loop):
            return tries_variants(module, loop)
        calls = self.calls_in(module, loop)
        return measures_memory(self._project, module, loop, calls) or (
            all(tries_variants(module, outer) for outer in self.around(module, loop))
            and probes_memory(self._project, module, loop, calls)
        )

    def _helpers(self, module: ModuleIndex, call: ast.Call) -> Iterable[NodeRef]:
        """Functions of the tree that a call may step in; an evaluation's step takes no other, and none is taken without
        gradients."""
        from gpulint.training.guards import Guards

        if _EVAL_STEP.search(last_name(call.func)) or _only_forward(call):
            return ()
        if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_BUILT_IN:
            return ()
        found = self._project.fact(Resolver).callees(module, call)
        return () if found and self._project.fact(Guards).is_without_gradients(module, call) else found

    @cyclic(_NO_ROLES)
    def _roles_of(self, module: ModuleIndex, function: FunctionNode) -> frozenset[Role]:
        """Roles of the loops that a call to ``function`` runs; OTHER stands for a bare training step."""
        if function.name in _FORWARD and not self._speaks_of_training(module):
            return frozenset()
        inner = self.inner_loops(module, function)
        found = {self.role(module, loop) for loop in inner} - {Role.OTHER, Role.EVAL}
        if self._steps(module, function):
            # A helper that draws a whole loader, or makes L-BFGS, and then steps fits something of its own.
            fits = any(isinstance(loop, ast.For) and self.over_loader(module, loop) for loop in inner) or any(
                last_name(call.func) == "LBFGS" for call in module.calls_of(function)
            )
            found.add(Role.EPOCH if fits else Role.OTHER)
        for call in self.calls_in(module, function):
            for helper in self._helpers(module, call):
                if isinstance(helper.node, FUNCTIONS):
                    found |= self._roles_of(helper.module, helper.node)
        return frozenset(found)

    def _speaks_of_training(self, module: ModuleIndex) -> bool:
        """Return whether a module's words speak of training. If not, what its models run forward is not searched for
        steps."""
        return self._project.word_index.finds(module.path, _TRAINING_WORDS)

    def _steps(self, module: ModuleIndex, owner: ast.AST) -> bool:
        """Return whether a training step happens directly in the body of a loop or function."""
        return any(self.is_training_step(module, call) for call in self._candidates(module).get(owner, ()))

    @query
    def _candidates(self, module: ModuleIndex) -> dict[ast.AST | None, list[ast.Call]]:
        """Of :meth:`calls_in`, those whose names say that they may take a training step."""
        return self._by_owner(module, module.calls_where(may_step))

    def is_training_step(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether the call itself propagates gradients or updates parameters."""
        func = call.func
        name = last_name(func)
        if not may_step(name):
            return False
        if isinstance(func, ast.Attribute):
            if name == "minimize" and self._project.fact(Resolver).call_names(module, call) & _OF_ARRAYS:
                return False
            if name in _BACKWARD:
                return name != "backward" or not (
                    only_for_inputs(module, call)
                    or only_explains(self._project, module, call)
                    or discards_gradients(self._project, module, call)
                )
            if name == "step" and _STEPPED.search(owner := last_name(func.value)) and not _SCHEDULES.search(owner):
                return True
            if name == "gradient" and "tape" in last_name(func.value).lower():
                return True
        if name in ("value_and_grad",) and isinstance(call.func, ast.Call):
            return True
        if "scaler" in name and any("optim" in last_name(argument) for argument in call.args[:3]):
            return True
        if _is_step_name(name) and not self._project.fact(Resolver).callees(module, call):
            return True
        session = isinstance(func, ast.Attribute) and "sess" in last_name(func.value).lower()
        return name == "run" and any(
            _is_step_name(last_name(part)) or (session and bool(_FETCHED.search(last_name(part))))
            for argument in call.args[:3]
            for part in (argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument])
        )

    def over_loader(self, module: ModuleIndex, loop: LoopNode) -> bool:
        """Return whether the loop draws its items from a data loader or data set, as far as is known."""
        from gpulint.training.loader_flow import LoaderFlow

        if isinstance(loop, ast.While):
            return any(last_name(call.func) == "next" for call in self.calls_in(module, loop))
        source = unwrap_iterable(loop.iter)
        if isinstance(source, ast.List) or last_name(source) in ("range", "trange"):
            drawn = (call.args[:1] for call in self.calls_in(module, loop) if last_name(call.func) == "next")
            return any(is_loader_name(last_name(iterator)) for iterators in drawn for iterator in iterators)
        if is_of_parts(source):
            return False
        if is_loader_name(last_name(source)) or self._project.fact(LoaderFlow).loaders_of(module, source):
            return True
        # `bar = tqdm(loader)` in front of the loop.
        made = (
            ref.node for ref in self._project.fact(Resolver).points_to(module, source) if isinstance(ref.node, ast.Call)
        )
        return any(
            is_loader_name(last_name(unwrap_iterable(call))) for call in made if unwrap_iterable(call) is not call
        )

    def _evaluates(self, module: ModuleIndex, loop: LoopNode) -> bool:
        from gpulint.training.guards import Guards

        function = module.function(loop)
        if self._project.fact(Guards).is_without_gradients(module, loop.body[0]) or (
            function is not None and _EVAL_NAME.search(function.name)
        ):
            return True
        names = {last_name(call.func) for call in self.calls_in(module, loop)}
        return bool(names & {"model", "net", "network", "module", "generate", "predict", "no_grad", "inference_mode"})

    def has_passes(self, module: ModuleIndex) -> bool:
        """Return whether a module trains, or evaluates the batches of a loader."""
        return any(
            role in (Role.STEP, Role.EPOCH) or (role is Role.EVAL and self.over_loader(module, loop))
            for loop in module.loops
            for role in (self.role(module, loop),)
        )

    @query
    def has_training_step(self, module: ModuleIndex) -> bool:
        """Return whether the module itself takes training steps."""
        return any(self.is_training_step(module, call) for call in module.calls_where(may_step))


def may_train(project: Project, path: Path) -> bool:
    """Return whether a module may take training steps, going by the names that its bytes call."""
    return path.suffix != ".py" or project.word_index.calls(path, _MAY_STEP)


@cache
def may_step(name: str) -> bool:
    """Return whether a call of this name may take a training step."""
    return name in _BACKWARD or name in _STEPPING or "scaler" in name or _is_step_name(name)


@cache
def _is_step_name(name: str) -> bool:
    """Return whether a function's name says that it takes one training step."""
    return bool(_STEP_CALL.search(name))


def _only_forward(call: ast.Call) -> bool:
    """``forward_backward(step, batch, model, forward_only=True)``, as Megatron evaluates."""
    return any(
        keyword.arg == "forward_only" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in call.keywords
    )


def is_epoch_loop(loop: LoopNode) -> bool:
    """Return whether the loop's own variable counts epochs. ``for iter_epoch, batch in enumerate(loader)`` counts
    batches."""
    return (
        isinstance(loop, ast.For)
        and any(map(counts_epochs, _targets(loop.target)))
        and not is_loader_name(last_name(unwrap_iterable(loop.iter)))
    )


def _targets(node: ast.expr) -> list[str]:
    return [child.id for child in walk(node) if isinstance(child, ast.Name)]


def has_one_round(loop: ast.AST) -> bool:
    """``for epoch in range(160, 161, 20)``"""
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=bounds, keywords=[])):
            numbers = [bound.value for bound in bounds if isinstance(bound, ast.Constant)]
            whole = [number for number in numbers if isinstance(number, int)]
            return len(whole) == len(bounds) and 0 not in whole[2:] and len(range(*whole)) <= 1
    return False


def stops_at_once(loop: LoopNode) -> bool:
    """Return whether a loop only looks at the first batch (its last statement is ``break``)."""
    return isinstance(loop.body[-1], ast.Break)
