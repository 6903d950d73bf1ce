"""When a statement runs, by what stands around it: every N steps, on rank zero, for debugging, without gradients."""

from __future__ import annotations

import ast
import re
from itertools import chain
from operator import or_
from pathlib import PurePath
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import cyclic
from gpulint.semantic.path_conditions import (
    conditions,
    contexts_of,
    is_failure,
    nested_exits,
    parts_of,
    spellings,
    spelt,
)
from gpulint.semantic.points_to import Resolver
from gpulint.training import workflow_steps
from gpulint.training.cuda_tests import excludes_cuda
from gpulint.training.default_tests import fails_by_default, fails_for_number, ways_to_be_set
from gpulint.training.first_runs import fills_once, runs_once, skips_done
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values import yacs_defaults
from gpulint.values.constants import Constants
from gpulint.values.counter_names import is_counter
from gpulint.values.decorator_tests import is_called_seldom
from gpulint.values.periodic_tests import interval, is_periodic
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, BindingKind, ModuleIndex, last_name, source_text

if TYPE_CHECKING:
    from gpulint.project import Project

_PROCESSES = regex.compile(
    r"(^|[._])(rank|local_rank|global_rank|is_main_process|is_local_main_process|is_main|is_master|master|main_process"
    r"|is_rank_zero|is_global_zero|is_primary|is_world_process_zero|get_rank)\b"
    r"|distributed|world_size|is_initialized|num_processes|\bddp\b|is_dist\b|n_gpu|num_gpus"
)
_SEVERAL = regex.compile(
    r"(^|[._])(is_)?(distributed|dist|ddp|multi_?gpu|multiprocessing_distributed)(_run|_training)?$"
)
"""Names of flags for several processes."""
_OF_GPUS = regex.compile(r"gpu|device|rank|world|proc|node|dist|local", re.IGNORECASE)
"""Names of numbers of GPUs or processes, which whoever has several sets."""
MAX_NAMES = 2
"""Names that a switch is followed through, at most."""
_DEBUG = regex.compile(
    r"(^|[._])(debug|debugging|verbose|profile|profiling|profiler|nan_check|detect_anomaly|anomaly|dry_run|benchmark|trace"
    r"|(do_)?visuali[sz]e|fast_dev_run|(limit|sanity|smoke|quick)_(check|run|test))(_|\b)"
    r"|\bgettrace\b|\b(pydevd|debugpy)|debugger",
    re.IGNORECASE,
)
_DEBUGS = regex.compile(r"(^|_)debug(_|$)")
_RECEIVES = frozenset({"receive", "recv", "accept", "recv_json", "recv_pyobj"})
_WARNS = frozenset({"warning", "warn", "error", "critical", "exception"})
_ERROR = regex.compile(
    r"^(err|error|errors|exc|exception|warning_list|problem)$|(^|_)(nans?|diverged?|exploded|nonfinite|skipped|bad|invalid|overflow(ed)?)(_|$)",
    re.IGNORECASE,
)
_OF_TENSOR = ("any", "all", "item", "sum", "bool")
_NOT_A_NUMBER = ("isnan", "isinf", "isneginf", "isposinf")
_NUMBER = ("isfinite",)
_MAXIMUM = regex.compile(r"(^|[._ ])(max|total|num|n|last|final)_|len\(|epochs\b|iterations\b|\bsteps\b", re.IGNORECASE)
_NO_GRAD = frozenset(
    {
        "torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad",
        "torch.autograd.inference_mode", "torch.set_grad_enabled", "torch.autograd.set_grad_enabled",
    }
)  # fmt: skip


_BENCHMARK = regex.compile(
    r"(^|[_-])(bench|benchmark|benchmarks|benchmarking|profile|profiler|profiling|latency)([_-]|$)", re.IGNORECASE
)


def is_benchmark(path: PurePath) -> bool:
    """Return whether a file's name says that it measures: for which it has to wait for the GPU, with sizes chosen on
    purpose."""
    return bool(_BENCHMARK.search(path.stem))


def is_of_processes(module: ModuleIndex, test: ast.expr) -> bool:
    """Return whether a test asks which process it is, or whether there are several."""
    return bool(_PROCESSES.search(source_text(module, test)))


class Guards:
    """Questions about conditions; values (is N one?) come from the project."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def is_periodic(self, module: ModuleIndex, node: ast.AST, until: ast.AST | None = None) -> bool:
        """Return whether ``node`` runs only every N iterations (or only on the first or last), N not being one."""
        tests = chain(conditions(module, node, until), nested_exits(module, node, until))
        if any(is_periodic(self._project, module, test, holds) for test, holds in tests):
            return True
        function = module.function(node) if until is None else None
        return function is not None and is_called_seldom(self._project, module, function)

    def interval(self, module: ModuleIndex, node: ast.AST, sure: bool = False) -> tuple[int, str] | None:
        """The longest known interval at which ``node`` runs, and what counts it: (500, "step")."""
        each = (interval(self._project, module, test, holds, sure) for test, holds in conditions(module, node))
        return max((found for found in each if found is not None), default=None)

    def is_debugging(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether ``node`` is behind a debug, profile or verbosity switch."""
        for test, holds in conditions(module, node):
            while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                test, holds = test.operand, not holds
            match test:
                case ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]):  # no tracer, no profiler
                    holds = not holds
            if holds and any(_DEBUG.search(text) or "__debug__" in text for text in spellings(module, test)):
                return True
        function = module.function(node)
        return function is not None and bool(_DEBUGS.search(function.name)) and self._is_asked_for(module, node)

    def _is_asked_for(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether ``node`` only runs if a parameter of its function says so (``if not enabled: return``)."""
        function = module.function(node)
        names = {arg.arg for arg in function.args.args} if function is not None else set[str]()
        parts = (part for test, holds in conditions(module, node) for part, wanted in parts_of(test, holds) if wanted)
        return any(isinstance(part, ast.Name) and part.id in names for part in parts)

    def is_before_loop_exit(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether ``node`` is in a block after which the training loop is left (``if step >= last: ...;
        return``)."""
        inner, leaves = node, False
        for up in module.syntax.ancestors(node):
            if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
                return False
            if isinstance(up, ast.For | ast.While) and leaves:
                return self._project.fact(LoopContexts).role(module, up) is Role.STEP
            if isinstance(up, ast.If) and (place := module.syntax.place(inner)) is not None:
                last = (up.body if place[0] == "body" else up.orelse)[-1]
                leaves = leaves or isinstance(last, ast.Return | ast.Break)
            inner = up
        return False

    def is_without_gpu(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether ``node`` runs only where there is no CUDA device (``else`` of ``if device == "cuda"``)."""
        return any(
            excludes_cuda(module, test, holds) for test, holds in conditions(module, node)
        ) or workflow_steps.without_gpu(module, node)

    def is_off_by_default(
        self, module: ModuleIndex, node: ast.AST, until: ast.AST | None = None, several: bool = False
    ) -> bool:
        """Return whether ``node`` is behind a switch that is false by default. Those around ``until`` do not count, nor
        do those for ``several`` processes unless they should: whoever has several GPUs sets them."""
        return any(self.is_false_by_default(module, *one, several) for one in conditions(module, node, until))

    def is_false_by_default(
        self, module: ModuleIndex, test: ast.expr, holds: bool = True, several: bool = False
    ) -> bool:
        """Return whether a test, or a part of it without which it does not hold, or not fail, is false by default."""
        parts = chain(parts_of(test, holds), parts_of(spelt(module, test), holds))
        return any(self._fails_by_default(module, part, wanted, several) for part, wanted in parts)

    def _fails_by_default(
        self, module: ModuleIndex, part: ast.expr, wanted: bool, several: bool, depth: int = 0
    ) -> bool:
        if fails_by_default(self._project, module, part, wanted):
            return True
        is_open = not isinstance(part, ast.Compare) or (not several and _OF_GPUS.search(ast.unparse(part.left)))
        if not is_open and fails_for_number(self._project, module, part, wanted):
            return True
        if isinstance(part, ast.Name | ast.Attribute | ast.Subscript):
            if wanted and not several and _SEVERAL.search(ast.unparse(part)):
                return False
            known = self._project.fact(Constants).of(module, part)
            constants = list(known.constants if known.complete else yacs_defaults.defaults(self._project, part))
            if constants and all(bool(value) is not wanted for value in constants):
                return True
        any_of = part.values if isinstance(part, ast.BoolOp) else []
        found = [[*parts_of(one, wanted)] for one in any_of] or ways_to_be_set(module, part, wanted)
        ways = found if depth < MAX_NAMES else []
        return bool(ways) and all(
            any(self._fails_by_default(module, one, asked, several, depth + 1) for one, asked in way) for way in ways
        )

    def answers_peer(self, module: ModuleIndex, node: ast.AST, until: ast.AST) -> bool:
        """Return whether ``node`` is in a loop inside of ``until`` that takes requests from another program while one
        is connected (``while viewer.conn is not None: request = viewer.receive()``)."""
        for up in module.syntax.ancestors(node):
            if up is until or isinstance(up, FUNCTIONS):
                return False
            if isinstance(up, ast.While) and not isinstance(up.test, ast.Constant):
                calls = (part.func for part in walk(up) if isinstance(part, ast.Call))
                if any(
                    isinstance(func, ast.Attribute) and func.attr in _RECEIVES and last_name(func.value) != "dist"
                    for func in calls
                ):
                    return True
        return False

    def is_switched_off(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether ``node`` is behind a constant of the program that says no (``pretrained = False``), and no
        option."""
        for test, holds in conditions(module, node):
            if isinstance(test, ast.Name):
                known = self._project.fact(Constants).of(module, test)
                literal = known.complete and all(value.source == "literal" for value in known.values)
                if literal and known.values and all(bool(value.value) is not holds for value in known.values):
                    return True
        return False

    def is_conditional(self, module: ModuleIndex, node: ast.AST, until: ast.AST | None = None) -> bool:
        """Return whether ``node`` is under any condition at all, other than one on the processes (rank zero, several of
        them), that there is a GPU, that the program is started, has not failed, or has not done the round before."""
        tests = ((test, holds) for test, holds in conditions(module, node, until) if not is_failure(module, test, node))
        parts = (part for test, holds in tests if not skips_done(module, test, holds) for part in parts_of(test, holds))
        texts = (source_text(module, part) for part, holds in parts if not excludes_cuda(module, part, not holds))
        return any(not (_PROCESSES.search(text) or "__main__" in text) for text in texts)

    def is_selective(self, module: ModuleIndex, node: ast.AST, until: ast.AST | None = None) -> bool:
        """Return whether ``node`` runs only where a comparison holds, other than one on the processes."""
        tests = [test for test, _ in conditions(module, node, until)]
        compared = [test for test in tests if any(isinstance(part, ast.Compare) for part in walk(test))]
        return any(not is_of_processes(module, test) for test in compared)

    def is_error_path(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether ``node`` runs only when something went wrong: in a handler, after a test for an error, for a
        warning, in the text of an assertion."""
        warns, inner = False, node
        for up in module.syntax.ancestors(node):
            if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
                break
            if isinstance(up, ast.ExceptHandler) or (isinstance(up, ast.Assert) and up.msg is inner):
                return True
            inner = up
            warns = warns or (isinstance(up, ast.Call) and last_name(up.func) in _WARNS)
        return any(warns or is_error(module, test, holds) for test, holds in conditions(module, node))

    def is_at_loop_end(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether ``node`` runs only in one round of a loop, such as the last (``if step == max_steps``)."""
        for test, holds in conditions(module, node):
            together = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
            for part in test.values if isinstance(test, ast.BoolOp) and together else [test]:
                if (
                    holds
                    and isinstance(part, ast.Compare)
                    and isinstance(part.ops[0], ast.Eq)
                    and is_counter(part.left)
                    and (
                        _MAXIMUM.search(ast.unparse(part.comparators[0]))
                        or (isinstance(part.comparators[0], ast.Constant) and _is_of_loop(module, part.left))
                    )
                ):
                    return True
        return False

    def runs_once(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether ``node`` runs on first use only (``if self._optimizer is None: self._build()``)."""
        return runs_once(module, node)

    def fills_once(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether ``node`` runs only until an attribute has a value, which its block gives (``if self.mask is
        None: self.mask = ...``) and nothing takes away."""
        return fills_once(module, node)

    def is_without_gradients(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether a ``with`` or a decorator in its own function switches gradients off around ``node``."""
        resolver = self._project.fact(Resolver)
        for up in module.syntax.ancestors(node):
            for context in contexts_of(up):
                func = context.func if isinstance(context, ast.Call) else context
                names = resolver.names(module, func)
                if names & _NO_GRAD or last_name(func) in (
                    "no_grad",
                    "inference_mode",
                    "smart_inference_mode",
                    "eval_mode",
                ):
                    if any(name.endswith("set_grad_enabled") for name in names):
                        if isinstance(context, ast.Call) and context.args:
                            known = self._project.fact(Constants).of(module, context.args[0])
                            return known.every(lambda value: value is False)
                        return False
                    return True
        return False


def _is_of_loop(module: ModuleIndex, counter: ast.expr) -> bool:
    """Return whether only a loop in no other loop sets a counter (``for epoch in range(50)``)."""
    bindings = module.scope(counter).lookup(counter.id) if isinstance(counter, ast.Name) else ()
    return bool(bindings) and all(
        one.kind is BindingKind.LOOP and not any(isinstance(up, LOOPS) for up in module.syntax.ancestors(one.node))
        for one in bindings
    )


@cyclic(False)
def is_error(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """``if err:``, ``if error is not None:``, ``if not math.isfinite(loss):``, ``if has_nan:``, ``if x != x:``,
    ``if torch.stack([torch.isnan(x).any() for x in tensors]).any():``."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not | ast.Invert):
        test, holds = test.operand, not holds
    match test:
        case ast.BoolOp(op=operator, values=values):
            found = [is_error(module, value, holds) for value in values]
            if isinstance(operator, ast.And) is holds:
                return any(found)
            # With `isnan(loss) or loss > 1e6` a run has diverged either way.
            # So it has where there is no loss at all.
            limits = [
                isinstance(value, ast.Compare)
                and (isinstance(value.ops[0], ast.Gt) or ast.unparse(value.comparators[0]) == "None")
                for value in values
            ]
            return any(found) and all(map(or_, found, limits))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "np"), attr=name), args=[inner]) if (
            name in _OF_TENSOR
        ):
            return is_error(module, inner, holds)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _OF_TENSOR:
            return is_error(module, inner, holds)
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _OF_TENSOR:
            return is_error(module, inner, holds)
        case ast.Call(func=ast.Attribute(attr="stack" | "cat"), args=[inner]):
            return is_error(module, inner, holds)
        case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one):
            return holds and is_error(module, one, holds)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return holds and is_error(module, left, holds) and is_error(module, right, holds)
        case ast.Call(func=func):
            return last_name(func) in (_NOT_A_NUMBER if holds else _NUMBER)
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]) if ast.dump(left) == ast.dump(right):
            return holds
        case ast.Compare(left=left, ops=[ast.IsNot()]) | ast.Compare(left=ast.Call() as left, ops=[ast.Gt()]):
            return is_error(module, left, holds)
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=bool(wanted))]):
            return is_error(module, left, holds is wanted)
        case ast.Name(id=name):
            bindings = module.scope(test).lookup(name)
            made = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
            if isinstance(made, ast.Call | ast.BoolOp | ast.UnaryOp | ast.ListComp) and is_error(module, made, holds):
                return True
            return holds and bool(_ERROR.search(name))
    return False
