"""What code is for, by where its results go: into the next step of training, or from it.

The stacks of training tell which statements of which functions lead to a step. In the innermost function that another
stack shares with them, the statement that it is in runs beside those: what it writes may reach them (it prepares
input), or it may use what they wrote. Names are followed within a function, through all of its statements; attributes
of ``self`` also between functions.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Iterable, Sequence
from functools import cached_property

from gpulint_probe.inside.records import Stack, Statement
from gpulint_probe.inside.statements import Frame, Function, Statements, loops, reached

_ELEMENTS = frozenset({"__getitem__", "__next__", "__iter__", "__len__"})
_UPDATES = frozenset({"backward"})
_TRAINS = _UPDATES | {"training_step", "train_step", "train_batch", "train_on_batch"}
_STEPS = _TRAINS | {"forward"}
_PLAIN = frozenset({"tolist", "numpy", "item", "asarray", "array", "float", "int", "list"})
"""What makes numbers of tensors."""
_STATE = frozenset({"state_dict", "named_parameters", "parameters", "named_buffers", "get_weights"})
_NAMED = frozenset({"named_parameters", "named_buffers"})
_FIGURES = frozenset({"norm", "mean", "std", "var", "item", "histc", "histogram", "quantile", "numel"})
"""What makes figures of weights, which are no weights."""
_WEIGHTS = frozenset({"weights", "checkpoint", "ckpt", "snapshot", "self.weights", "self.checkpoint", "self.snapshot"})
"""Names that programs give to them."""
_MODULES = frozenset({"os", "time", "Path", "glob", "exists", "len", "any", "all", "not"})


class Role(enum.Enum):
    """How code relates to the steps of training."""

    NONE = "not known"
    FEEDS = "what it computes goes into a step"
    BEFORE = "it computes something before a step, which nothing is seen to use"
    AFTER = "it follows a step, or uses what one computed"


class Flow(Statements):
    """The statements of a program, and which of them lead to its steps."""

    def __init__(self, statements: Iterable[Statement], steps: Iterable[Stack], updates: Iterable[Stack]) -> None:
        """``steps`` are stacks in which a model computes, ``updates`` those of them that belong to training alone."""
        super().__init__(statements)
        self._steps = self._by_function(steps, _STEPS)
        self._updates = self._by_function(updates, _UPDATES)

    def _by_function(self, stacks: Iterable[Stack], calls: frozenset[str]) -> dict[Function, list[Statement]]:
        """The statements that stacks go through; and those with calls of these names, as a step that takes little of
        the time may not have been sampled."""
        found = {
            function: named for function, own in self._functions.items()
            if (named := [of for of in own if _calls(of, calls)])
        }  # fmt: skip
        for stack in stacks:
            for frame in self.frames(stack):
                known = found.setdefault(frame.function, [])
                if frame.statement not in known:
                    known.append(frame.statement)
        return found

    # -- roles ---------------------------------------------------------------------------------------------------------

    def shared(self, frames: Sequence[Frame]) -> int:
        """The place of the innermost function that steps share; -1 where none does."""
        return max((place for place, frame in enumerate(frames) if frame.function in self._steps), default=-1)

    def role(self, stack: Stack, frames: Sequence[Frame]) -> Role:
        """The role of what a stack, which has these frames, was doing."""
        place = self.shared(frames)
        if place < 0:
            return Role.NONE
        frame, inner = frames[place], frames[place + 1 :]
        steps = self._steps[frame.function]
        if frame.statement in steps:
            return self._within(stack, frame, inner)
        role = self._once(self._beside, frame.statement, steps)
        return Role.FEEDS if self._through_attributes(frame.statement, steps, inner) else role

    def in_hook(self, frames: Sequence[Frame]) -> bool:
        """Return whether a library that runs the steps calls the code."""
        place = self.shared(frames)
        if place < 0 or place + 1 == len(frames):
            return False
        frame = frames[place]
        return frame.statement in self._steps[frame.function] and frames[place + 1].index < frame.inmost - 1

    def _within(self, stack: Stack, frame: Frame, inner: Sequence[Frame]) -> Role:
        """Of code that the statement of a step calls: it feeds the step where it computes an argument."""
        if not inner or inner[0].index != frame.inmost - 1:
            return Role.NONE
        owner, _, name = stack.functions[inner[0].index].rpartition(".")
        name = owner.rpartition(".")[2] if name == "__init__" else name
        if name in _ELEMENTS or any(pair.endswith(f">{name}") for pair in frame.statement.nested):
            return Role.FEEDS
        return Role.NONE

    def _beside(self, at: Statement, steps: Sequence[Statement]) -> Role:
        """Of a statement that is none of the ``steps`` in its function."""
        own = self._functions[at.file, at.function]
        heads = self._heads[at.file, at.function]
        if at.kind == "for" and any(at.first in loops(step, heads) for step in steps):
            return Role.FEEDS
        loop, near = 0, list(steps)
        for loop in [*loops(at, heads), 0]:
            if near := [step for step in steps if loop in (*loops(step, heads), 0)]:
                break
        if loop == 0 and any(step.loop for step in near):
            return Role.NONE  # before or after the loop of training
        around = [found for found in own if loop in (*loops(found, heads), 0)]
        results = reached([found for found in around if found not in near], at.writes)
        fed = [step for step in near if not results.isdisjoint(step.reads)]
        if fed:
            earlier = [step for step in near if step.last < at.first and not step.quiet]
            # Such as a match of predictions to targets, for the loss.
            inside = all(step.first > at.last for step in fed) and self._uses(at, earlier)
            return Role.NONE if inside else Role.FEEDS
        first = min(step.first for step in near)
        if at.first > first:
            return Role.AFTER
        return Role.BEFORE if at.writes and at.kind == "assign" else Role.NONE

    def _through_attributes(self, at: Statement, steps: Sequence[Statement], inner: Sequence[Frame]) -> bool:
        """Return whether a call before the steps writes attributes that functions of steps read."""
        if at.kind != "expression" or at.first > min(step.first for step in steps):
            return False
        written = {name for frame in inner for name in frame.statement.writes if name.startswith("self.")}
        return not written.isdisjoint(self._attributes_read)

    @cached_property
    def _attributes_read(self) -> set[str]:
        return {
            name for function in self._steps for found in self._functions[function] for name in found.reads
            if name.startswith("self.")
        }  # fmt: skip

    @cached_property
    def trains(self) -> bool:
        """Whether a function that was seen calls what only training has."""
        return any(_calls(found, _TRAINS) for own in self._functions.values() for found in own)

    # -- evaluation and state ------------------------------------------------------------------------------------------

    def evaluates(self, frames: Sequence[Frame]) -> bool:
        """Return whether a stack is in code that switches a model to evaluation, or computes without gradients for
        no step, and where no model is trained."""
        return any(
            self._once(self._switched, frame.statement) or self._quiet(frames, place)
            for place, frame in enumerate(frames)
        )

    def _switched(self, at: Statement) -> bool:
        """After ``model.eval()`` and before the next ``model.train()``."""
        function = at.file, at.function
        own, heads = self._functions[function], self._heads[function]
        around = (*loops(at, heads), 0)
        switches = [found for found in own if found.loop in around and _calls_method(found, "eval()", "train")]
        before = [found for found in switches if found.first <= at.first]
        if not before or not _calls_method(before[-1], "eval()"):
            return False
        end = min((found.first for found in switches if found.first > at.first), default=1 << 60)
        region = range(before[-1].first, end)
        return not any(
            found.first in region and before[-1].loop in (*loops(found, heads), 0)
            for found in self._updates.get(function, ())
        )

    def _quiet(self, frames: Sequence[Frame], place: int) -> bool:
        frame = frames[place]
        if not frame.statement.quiet:
            return False
        runs_model = self._runs_model(frame.function)
        if not runs_model and any(map(_handles, self._functions[frame.function])):  # averages of weights, for instance
            return False
        if any(of.quiet for of in self._updates.get(frame.function, ())):
            return False
        whole = all(found.quiet for found in self._functions[frame.function])
        outer = frames[place - 1] if whole and place else frame
        steps = [of for of in self._steps.get(outer.function, ()) if of != outer.statement and not of.quiet]
        if not steps or (not runs_model and self._uses(outer.statement, steps)):  # a metric of a step's output
            return False
        return self._beside(outer.statement, steps) not in (Role.FEEDS, Role.BEFORE)

    def _uses(self, at: Statement, steps: Sequence[Statement]) -> bool:
        own = self._functions[at.file, at.function]
        results = reached(own, [name for step in steps for name in step.writes])
        return not results.isdisjoint(at.reads)

    def _runs_model(self, function: Function) -> bool:
        """Return whether a function computes, without gradients, with what is called elsewhere where a model is
        trained."""
        if any(of.quiet for of in self._steps.get(function, ())):
            return True
        return any(of.quiet and not self._models.isdisjoint(of.calls) for of in self._functions[function])

    @cached_property
    def _models(self) -> set[str]:
        called = {call for function in self._updates for found in self._functions[function] for call in found.calls}
        return {call for call in called if "." not in call.removeprefix("self.") and not hasattr(builtins, call)}

    def has_state(self, frames: Sequence[Frame]) -> bool:
        """Return whether a stack handles the weights of a model or the state of an optimizer."""
        for frame in frames[max(0, self.shared(frames)) :]:
            state = self._results(frame.function, "state")
            if _handles(frame.statement) or not state.isdisjoint(frame.statement.reads):
                return True
        return False

    def calls_one_of(self, frames: Sequence[Frame], names: frozenset[str]) -> bool:
        """Return whether a function of these frames has a call of such a name anywhere."""
        return any(_calls(found, names) for frame in frames for found in self._functions[frame.function])

    def polls(self, frames: Sequence[Frame]) -> bool:
        """Return whether the innermost statement is of a ``while`` loop that computes nothing and leads to no step: it
        waits until somebody else makes its condition false, other than the clock."""
        head = self._head(frames[-1]) if frames else None
        if head is None:
            return False
        function, steps = frames[-1].function, self._steps.get(frames[-1].function, ())
        inside = [of for of in self._functions[function] if head.first in loops(of, self._heads[function])]
        clock = head.calls and all(call.partition(".")[0] == "time" for call in head.calls)
        return not clock and not any(of.writes or of in steps or of.kind == "return" for of in (head, *inside))

    def _head(self, frame: Frame) -> Statement | None:
        """The head of the ``while`` loop that a statement is in, or is."""
        heads = self._heads[frame.function]
        head = heads.get(frame.statement.loop)
        head = frame.statement if frame.statement.kind == "while" else head
        return head if head is not None and head.kind == "while" else None

    def awaits_input(self, frames: Sequence[Frame]) -> bool:
        """Return whether what a polling statement looks at is used for a step by the statements after it."""
        place = self.shared(frames)
        if place < 0:
            return True
        frame, steps = frames[place], self._steps[frames[place].function]
        if frame.statement in steps:
            return True
        at = self._head(frame) if place + 1 == len(frames) else None
        later = [of for of in self._functions[frame.function] if of.first > frame.statement.last and of not in steps]
        looks = reached(later, set((at or frame.statement).reads) - _MODULES)
        return any(
            not looks.isdisjoint(of.reads) and self._once(self._beside, of, steps) in (Role.FEEDS, Role.BEFORE)
            for of in later
        )

    def awaiting(self, frames: Sequence[Frame]) -> tuple[Role, Statement] | None:
        """Return what the coroutine of the steps awaits while its event loop waits, with its role; None where several
        roles are possible."""
        found = []
        for function, steps in self._steps.items():
            for at in self._functions[function]:
                if at.awaits and at not in steps:
                    role = self._beside(at, steps)
                    found += [(role, at)] if role is not Role.NONE else []
        roles = {role for role, _ in found}
        return found[0] if len(roles) == 1 else None

    def of_tensors(self, frames: Sequence[Frame], call: str) -> bool:
        """Return whether the innermost statement computes with what comes from ``torch`` or from gradients, in its own
        function or as that was called. Of a ``call``, the function has to be of ``torch`` or of such a value."""
        root, dot, _ = call.partition(".")
        if call:
            return root == "torch" or bool(frames and dot and root in self._tensors(frames[-1]))
        return any(
            frame.statement.tensors or not self._tensors(frame).isdisjoint(frame.statement.reads)
            for frame in frames[-2:]
        )

    def _tensors(self, frame: Frame) -> set[str]:
        return self._results(frame.function, "tensors")

    def _results(self, function: Function, of: str) -> set[str]:
        """The names of a function that may hold tensors, or the state of a model."""
        key = of, function
        if key not in self._known:
            own = self._functions[function]
            if of == "tensors":
                own = [found for found in own if not _calls(found, _PLAIN)]
                names = [name for found in own if found.tensors for name in found.writes]
            else:
                own = [found for found in own if not _calls(found, _FIGURES)]
                names = [name for found in own if _handles(found) for name in _given(found)]
            self._known[key] = reached(own, names, saved=of == "state")
        found: set[str] = self._known[key]
        return found


def _calls_method(found: Statement, *names: str) -> bool:
    return any("." in call and call.rpartition(".")[2] in names for call in found.calls)


def _handles(found: Statement) -> bool:
    if _calls(found, _FIGURES):
        return False
    return found.state or _calls(found, _STATE) or not _WEIGHTS.isdisjoint(found.reads)


def _given(found: Statement) -> list[str]:
    """The names to which a statement gives weights; not ``name`` of ``for name, one in model.named_parameters()``."""
    named = found.kind == "for" and len(found.writes) > 1 and _calls(found, _NAMED)
    return [*found.writes[1 if named else 0 :], *found.into]


def _calls(found: Statement, names: frozenset[str]) -> bool:
    return any(call.rpartition(".")[2] in names for call in found.calls)
