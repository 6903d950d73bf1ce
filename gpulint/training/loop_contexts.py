"""What runs inside which loops, also through helpers in other modules and the hooks of frameworks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.libraries import Models
from gpulint.libraries.frameworks import Hook
from gpulint.libraries.names import matches
from gpulint.query import cyclic
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import binds
from gpulint.semantic.call_graph import calls_taking, plain_calls
from gpulint.semantic.points_to import Resolver
from gpulint.training.call_values import is_kept_out
from gpulint.training.function_applications import applications, owner_of
from gpulint.training.generators import consumers, yields
from gpulint.training.loop_roles import LoopRoles, Role
from gpulint.training.made_objects import is_other_object
from gpulint.training.outside_loops import files_with_loops, runs_in_no_loop
from gpulint.training.own_callbacks import own_calls
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_CALLS = 30
"""How many calls up the loops around a function are looked for."""


class Hooks:
    """What the rows say of methods that frameworks call in their loops: (row, role) by the name of the method."""

    def __init__(self, models: Models) -> None:
        self.by_name: dict[str, list[tuple[Hook, Role]]] = {}
        for row in models.rows("hook"):
            roles = {Role.STEP: row.step, Role.EVAL: row.evaluation, Role.EPOCH: row.epoch}
            for role, names in roles.items():
                for name in names:
                    self.by_name.setdefault(name, []).append((row, role))


@dataclass(frozen=True, slots=True)
class LoopContext:
    """A loop that a node runs in. ``calls`` lead from the loop to the node's function, outermost first."""

    role: Role
    loop: NodeRef
    """The loop, or the framework hook (``training_step``) that stands for one."""
    calls: tuple[NodeRef, ...] = ()


_NO_CONTEXTS: tuple[LoopContext, ...] = ()


class LoopContexts(LoopRoles):
    """The loops around any place of one project, and their roles."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._hooks = project.models.derived(Hooks).by_name

    def enclosing_loops(self, module: ModuleIndex, node: ast.AST) -> tuple[LoopContext, ...]:
        """The training, epoch or evaluation loops that ``node`` runs in, the innermost of each way to it, those with
        the fewest calls first."""
        for loop in self.around(module, node):
            role = self.role(module, loop)
            if role is not Role.OTHER:
                return (LoopContext(role, NodeRef(module, loop)),)
        function = module.function(node)
        while function is not None and "closure" in function.name:
            function = module.function(function)
        if function is None:
            return ()
        contexts = self.enclosing_loops_of_function(module, function)
        return tuple(c for c in contexts if not is_kept_out(self._project, module, node, c.calls))

    def is_outside_by_name(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether names alone say that no loop is around ``node``, which is quick to find out."""
        function = module.function(node)
        return (
            function is not None
            and next(self.around(module, node), None) is None
            and runs_in_no_loop(self._project, module, function)
        )

    @cyclic(_NO_CONTEXTS)
    def enclosing_loops_of_function(self, module: ModuleIndex, function: FunctionNode) -> tuple[LoopContext, ...]:
        """The loops that a function is called in."""
        if runs_in_no_loop(self._project, module, function):
            return ()
        found = list(self._hook(module, function))
        sites = applications(self._project, module, function) or self._sites(module, function)
        if function.name == "forward" and owner_of(module, function) is None:
            from gpulint.training.forward_calls import forward_calls  # which asks for roles in turn

            sites = forward_calls(self._project, module, function)
        sites = sites or self._own_calls(module, function)
        generates = yields(module, function)
        for site in sites or calls_taking(self._project.fact(Resolver), module, function):
            places = list(consumers(site)) if generates else []
            for context in (c for place in places or [site] for c in self.enclosing_loops(place.module, place.node)):
                # What a hook calls itself, it calls as the hook that it is.
                if context.loop.node is function:
                    continue
                if is_other_object(self._project, function, site, context.calls):
                    continue
                if len(context.calls) == MAX_CALLS:
                    module.report_limit(f"more than {MAX_CALLS} calls lead from a loop to a function")
                else:
                    found.append(LoopContext(context.role, context.loop, (*context.calls, site)))
        # The shortest way counts: it is the same for whoever asks first, also where functions call each other.
        unique: dict[tuple[Role, ast.AST, ast.AST | None, tuple[str, ...]], LoopContext] = {}
        for context in sorted(found, key=lambda context: len(context.calls)):
            first = context.calls[0].node if context.calls else None
            unique.setdefault((context.role, context.loop.node, first, _modes(context.calls)), context)
        return tuple(unique.values())

    def _sites(self, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...]:
        """Calls of a function, without those of files that call it outside of all loops if there are others."""
        resolver = self._project.fact(Resolver)
        paths = files_with_loops(self._project, module, function) or ()
        found = tuple(
            NodeRef(where, call)
            for where in map(self._project.module_at, paths)
            if where is not None
            for call in plain_calls(self._project, resolver, where, module, function)
            if binds(function, call)
        )
        return found or resolver.call_sites(module, function)

    def hooks(self, module: ModuleIndex, function: FunctionNode) -> Iterator[tuple[Hook, Role]]:
        """Yield what a method is to the frameworks that call it, with what is known of them."""
        owner = module.syntax.parents.get(function)
        rows = self._hooks.get(function.name)
        if rows is None or not isinstance(owner, ast.ClassDef) or _is_metric(owner):
            return
        bases = self._project.fact(Resolver).base_names(module, owner)
        yield from ((row, role) for row, role in rows if matches(row.bases, bases))

    def gets_batch(self, module: ModuleIndex, function: FunctionNode, place: str) -> bool:
        """Return whether a framework calls the method with each batch, which is ``on-gpu`` or ``on-host`` then."""
        return any(row.batch == place and role is not Role.EPOCH for row, role in self.hooks(module, function))

    def is_engine_step(self, module: ModuleIndex, function: FunctionNode) -> bool:
        """Return whether it is the ``(engine, batch)`` function that an Ignite ``Engine`` calls with each batch, still
        on the host."""
        if len(function.args.args) != 2:
            return False
        sites = calls_taking(self._project.fact(Resolver), module, function)
        return any(
            isinstance(site.node, ast.Call)
            and any(
                name.startswith("ignite.") and name.endswith("Engine")
                for name in self._project.fact(Resolver).call_names(module, site.node)
            )
            for site in sites
        )

    def _hook(self, module: ModuleIndex, function: FunctionNode) -> Iterator[LoopContext]:
        """Hooks of frameworks stand for their loops."""
        owner = module.syntax.parents.get(function)
        if self.is_engine_step(module, function):
            yield LoopContext(Role.STEP if self._steps(module, function) else Role.EVAL, NodeRef(module, function))
        if not isinstance(owner, ast.ClassDef):
            return
        if is_runner_step(function):
            yield LoopContext(Role.STEP, NodeRef(module, function))
        if not self._own_calls(module, function):
            yield from (LoopContext(role, NodeRef(module, function)) for _, role in self.hooks(module, function))

    def _own_calls(self, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...]:
        """The calls of a hook of the program's own callbacks, if it is one."""
        return own_calls(self._project, module, function) if any(self.hooks(module, function)) else ()

    def in_role(self, module: ModuleIndex, node: ast.AST, role: Role) -> LoopContext | None:
        """The first context of ``node`` that has ``role``."""
        return next((context for context in self.enclosing_loops(module, node) if context.role is role), None)

    def may_train(self, module: ModuleIndex) -> bool:
        """Return whether there is anything in the module that can be the loop of a training context."""
        return any(self.role(module, loop) in (Role.STEP, Role.EPOCH) for loop in module.loops) or any(
            function.name in self._hooks or len(function.args.args) == 2 or is_runner_step(function)
            for function in module.functions
        )


def _modes(calls: tuple[NodeRef, ...]) -> tuple[str, ...]:
    """The constants that the last of ``calls`` passes: what tells its modes apart (``save(final=True)``)."""
    site = calls[-1].node if calls else None
    if not isinstance(site, ast.Call):
        return ()
    passed = [*site.args, *(keyword.value for keyword in site.keywords)]
    return tuple(repr(value.value) for value in passed if isinstance(value, ast.Constant))


def is_runner_step(function: FunctionNode) -> bool:
    """Return whether it is the method ``train_step(self, data, optimizer)`` that MMCV's runners call per batch."""
    return function.name == "train_step" and [given.arg for given in function.args.args][2:3] == ["optimizer"]


def _is_metric(owner: ast.ClassDef) -> bool:
    """Return whether a class is a metric of fastai 1, which calls its hooks with the batches of the validation only."""
    if any(last_name(base) == "LearnerCallback" for base in owner.bases):
        return False
    return any(isinstance(part, ast.Call) and last_name(part.func) == "add_metrics" for part in walk(owner))
