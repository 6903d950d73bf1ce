"""What it detects
A debugger or prompt left in a program that trains on a GPU: ``breakpoint()``, ``pdb.set_trace()``,
``IPython.embed()``, ``code.interact()``, and ``input()`` within the training.

Recognizes pdb, ipdb, pudb, IPython, debugpy and ``torch.distributed.breakpoint``, in programs of PyTorch, TensorFlow,
Keras, JAX and the frameworks on top of them.

Why it costs GPU time
The program stops until somebody answers. In a batch job, it waits until the time limit, and so do the GPUs.

When to ignore this rule
Behind a debug switch or ``if __debug__``; in tools that do not run in GPU jobs; prompts of a demo beside the training;
training with a person, who resets a robot or says which result is better.

Fix safety
Safe for ``breakpoint()``, ``set_trace()`` and ``embed()`` as statements: without a terminal there is no answer. An
import in the line above that serves nothing else goes with them, as does a test that does nothing else. Unsafe for a
prompt such as ``embed()`` that is the last statement of a script, and for a debugger that is the last of a program
which no job starts: it may be there to look at the results; for one that stops where an exception is handled or sizes
disagree, after which the program goes on; for one that waits for values that are not finite or for another failure
(``loss > 1e5``, ``not x.all()``), or for cases that no branch handles (in an ``else``, ``case _`` or at the end of a
function), whose place an error takes; and for an ``input()`` of which nothing uses the answer. No fix for calls within
other statements, for those that other calls prepare (``wait_for_client()``), and for a debugger in a loop that does
nothing with what it makes.

References
https://docs.python.org/3/library/pdb.html
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.gate import Gate
from gpulint.impact import Cost
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.without_gpu import is_only_called_without_gpu
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.outside_names import named_elsewhere
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.unused_symbols import is_unused
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, LoopNode, ModuleIndex, last_name

_DEBUGGERS = frozenset(
    """breakpoint pdb.set_trace ipdb.set_trace pudb.set_trace IPython.core.debugger.set_trace
    torch.distributed.breakpoint debugpy.breakpoint pdb.post_mortem""".split()
)
_PROMPTS = frozenset({"IPython.embed", "code.interact", "IPython.start_ipython", "debugpy.wait_for_client"})
_REMOVABLE = frozenset({"embed", "interact"})
"""Prompts that no other call prepares."""
_DEBUGS = regex.compile(r"debug|(^|_)i?pdb($|_)|set_trace|breakpoint", re.IGNORECASE)
_NEEDS_PERSON = regex.compile(
    r"\brobots?\b|\brospy\b|\brclpy\b|pyrealsense|\bserial\.Serial\b|teleop|preference", re.IGNORECASE
)
"""Words of programs that take turns with a person."""
_MAX_CALLS = 3
"""Most calls between the main block of a module and a place."""
_MAX_LAST = 6
"""Most blocks and functions within each other of which a statement is the last one."""
_NAMES = ("breakpoint", "set_trace", "embed", "interact", "input", "wait_for_client", "start_ipython")


@dataclass(frozen=True, slots=True)
class Stop:
    """The statement, where the call is one that can go."""

    statement: ast.stmt | None
    is_prompt: bool = False
    """Whether somebody may want it: a prompt at the end of a script, to look at the results."""
    asks: bool = False
    """Whether it is ``input()``, whose answer nothing uses."""
    is_last: bool = False
    """Whether it is a debugger that is the last of a program which no job starts: somebody may want it as well."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    for call in (call for name in _NAMES for call in module.calls_by_name.get(name, [])):
        names = project.fact(Resolver).call_names(module, call)
        debugger, prompt = bool(names & _DEBUGGERS), bool(names & _PROMPTS)
        asks = "input" in names and _in_training(project, module, call) and not _needs_person(module, call)
        prompt = prompt and not _is_session(call)
        if not (debugger or prompt or asks) or _guarded(project, module, call):
            continue
        if not project.fact(GpuPrograms).runs_on_gpu(module):
            return
        text = module.syntax.text(call).splitlines()[0]
        stop = _stop(project, module, call, debugger, prompt)
        yield RULE.finding(
            document.path,
            module.syntax.span(call),
            f"`{text}` stops a GPU program until somebody answers",
            help=f"remove `{text}`, or guard it with a debug option that is off by default",
            payload=stop,
            cost=_cost(project, module, call, stop),
        )


def _cost(project: Project, module: ModuleIndex, call: ast.Call, stop: Stop) -> Cost | None:
    """A prompt at the end of a script may be wanted; one in a loop without a condition stops each round."""
    if (stop.is_prompt and stop.statement is not None) or (stop.is_last and not _trains_on_batches(project, module)):
        return Cost("breakpoint", assumed="assuming that nobody looks at the results there")
    if not stop.asks:
        return None  # without a terminal, the first one ends the program
    loop = next((up for up in module.syntax.ancestors(call) if isinstance(up, LOOPS)), None)
    role = project.fact(LoopContexts).role(module, loop) if loop is not None else None
    if loop is None or role not in (Role.STEP, Role.EPOCH) or not _is_done_each_round(module, call, loop):
        return None
    return Cost("breakpoint", per="step" if role is Role.STEP else "epoch")


def _is_done_each_round(module: ModuleIndex, call: ast.Call, loop: LoopNode) -> bool:
    """Return whether nothing but blocks without a condition is between a call and a loop around it."""
    between = itertools.takewhile(lambda up: up is not loop, module.syntax.ancestors(call))
    return not any(isinstance(up, (ast.If, ast.IfExp, ast.BoolOp, ast.ExceptHandler, *FUNCTIONS)) for up in between)


def _guarded(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    if project.fact(Guards).is_debugging(module, call) or project.fact(Guards).is_off_by_default(module, call):
        return True
    programs = project.fact(GpuPrograms)
    if (
        _in_own_demo(project, module, call)
        or programs.tries_itself_in_no_job(module, call)
        or programs.tries_itself_on_cpu(module, call)
    ):
        return True
    function = module.function(call)
    if function is not None and (
        _is_signal_handler(project, module, function.name)
        or _is_for_shell(project, module, function)
        or _is_never_named(module, function)
    ):
        return True
    if module.class_of(call) is not None and is_unused(project, module, call):
        return True
    if is_only_called_without_gpu(project, module, call):
        return True
    for up in module.syntax.ancestors(call):
        if isinstance(up, ast.ExceptHandler | ast.Assert | ast.Lambda):
            return True  # also what an assertion says only if it fails, and what something else may call
        if isinstance(up, ast.If) and "__debug__" in ast.unparse(up.test):
            return True
        if isinstance(up, (*FUNCTIONS, ast.ClassDef)) and _DEBUGS.search(up.name):
            return True  # that is what it is for
    return False


def _in_own_demo(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``if __name__ == "__main__"`` of a module that others import and that trains nothing on a GPU itself, or what is
    only called there."""
    programs = project.fact(GpuPrograms)
    trains = project.fact(LoopContexts).has_training_step(module) and _names_gpu(project, module)
    if trains or not any(programs.users(module.path)):
        return False
    return _is_in_main_block(module, call) or _is_for_main_block(project, module, call)


@query
def _names_gpu(project: Project, module: ModuleIndex) -> bool:
    """Return whether the words of a module itself say that it uses a GPU, not only those of what imports it."""
    return project.fact(GpuPrograms).words.computes_on_gpu(module.syntax.source.text.encode("utf-8", "replace"))


def _is_in_main_block(module: ModuleIndex, node: ast.AST) -> bool:
    return any(isinstance(up, ast.If) and "__name__" in ast.unparse(up.test) for up in module.syntax.ancestors(node))


def _is_for_main_block(project: Project, module: ModuleIndex, call: ast.AST, calls: int = _MAX_CALLS) -> bool:
    """Return whether nothing but the main block of its module leads to the class or function around a call."""
    owners = [up for up in module.syntax.ancestors(call) if isinstance(up, (*FUNCTIONS, ast.ClassDef))]
    name = owners[-1].name if owners else ""
    uses = [use for use in module.uses.get(name, ()) if owners[-1] not in module.syntax.ancestors(use)]
    return (
        bool(uses)
        and all(
            _is_in_main_block(module, use) or (calls > 1 and _is_for_main_block(project, module, use, calls - 1))
            for use in uses
        )
        and not named_elsewhere(project, module, name)
    )


def _is_signal_handler(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether ``signal.signal(signal.SIGUSR1, name)`` registers the function, which then runs only when a signal
    is sent."""
    return any(
        "signal.signal" in project.fact(Resolver).call_names(module, call)
        for call, _ in module.handed_over.get(name, [])
    )


def _is_never_named(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function within another one is not called there, nor handed on."""
    inner = any(isinstance(up, FUNCTIONS) for up in module.syntax.ancestors(function))
    return inner and not function.decorator_list and not module.named.get(function.name)


def _is_for_shell(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function only opens a prompt, for whoever calls it."""
    calls = [node for node in walk(function) if isinstance(node, ast.Call)]
    others = [call for call in calls if last_name(call.func) not in ("locals", "globals", "print")]
    prompts = all(project.fact(Resolver).call_names(module, call) & _PROMPTS for call in others)
    return prompts and not project.fact(Resolver).first_sites(module, function, 1)


def _in_training(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    return any(
        context.role in (Role.STEP, Role.EPOCH) for context in project.fact(LoopContexts).enclosing_loops(module, call)
    )


def _needs_person(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a person has to be there: for a robot, to say which of two results is better, or to give a number
    to learn from (``label = int(input("label: "))``)."""
    if _NEEDS_PERSON.search(module.syntax.source.text) is not None:
        return True
    match module.syntax.parents.get(call):
        case ast.Call(func=ast.Name(id="int" | "float")) as number:
            return not isinstance(module.syntax.parents.get(number), ast.Expr | ast.Compare)
    return False


def _is_session(call: ast.Call) -> bool:
    """Return whether a prompt greets a person, and so is what the program is for."""
    return any(keyword.arg in ("banner", "banner1", "header") for keyword in call.keywords)


def _stop(project: Project, module: ModuleIndex, call: ast.Call, debugger: bool, prompt: bool) -> Stop:
    statement = _statement(module, call)
    if prompt and statement is not None and statement is module.syntax.tree.body[-1]:
        return Stop(statement, is_prompt=True)
    if debugger or last_name(call.func) in _REMOVABLE:
        last = statement is not None and statement in _last_statements(module)
        started = last and any(True for _ in project.fact(JobIndex).launches_of(module.path))
        return Stop(statement, is_last=last and not started)
    if not prompt:
        return Stop(statement, asks=statement is not None)
    return Stop(None, is_prompt=True)


def _last_statements(module: ModuleIndex) -> list[ast.stmt]:
    """Return what a program does last: its last statement, the last one of ``if __name__ == "__main__":`` there, and
    of a function that is called there alone."""
    found = module.syntax.tree.body[-1:]
    while found and len(found) < _MAX_LAST:
        match found[-1]:
            case ast.If(test=test, body=body, orelse=[]) if "__name__" in ast.unparse(test):
                found.append(body[-1])
            case ast.With(body=body):
                found.append(body[-1])
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if len(module.named.get(name, ())) == 1:
                own = [one for one in module.syntax.tree.body if isinstance(one, FUNCTIONS) and one.name == name]
                if len(own) != 1:
                    break
                found.append(own[0].body[-1])
            case _:
                break
    return found


def _trains_on_batches(project: Project, module: ModuleIndex) -> bool:
    loops = project.fact(LoopContexts)
    return loops.has_training_step(module) and any(loops.over_loader(module, loop) for loop in module.loops)


def _statement(module: ModuleIndex, call: ast.Call) -> ast.stmt | None:
    parent = module.syntax.parents.get(call)
    return parent if isinstance(parent, ast.Expr) else None


_ASKS = regex.compile(rb"(?<![\w.])(?:input|breakpoint)\s*\(")
_OWNERS = ("pdb", "ipdb", "pudb", "debugpy", "IPython", "code", "distributed")


def _may_fire(gate: Gate) -> bool:
    """Most things called ``input`` or ``embed`` are methods."""
    return any(map(gate.has_word, _OWNERS)) or gate.matches(_ASKS)


RULE = Rule(
    code="GPU102",
    name="interactive-debugging",
    category=Category.INTERACTIVE_JOB,
    dimension=Dimension.JOB,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON}),
    tokens=(("breakpoint(", "set_trace(", "embed(", "interact(", "input(", "wait_for_client(", "start_ipython("),),
    may_fire=_may_fire,
    summary="a debugger or prompt is left in a GPU program",
    why="the program waits for an answer, and the GPUs wait with it until the time limit",
    evidence=(Evidence("Interactive Job is one of the study's fifteen categories of low GPU utilization"),),
    check=check,
    cost=Cost("breakpoint"),
    fix=Safety.SAFE,
    bad="""\
for images, labels in loader:
    loss = criterion(model(images.cuda()), labels.cuda())
    breakpoint()
    loss.backward()
""",
    good="""\
for images, labels in loader:
    loss = criterion(model(images.cuda()), labels.cuda())
    loss.backward()
""",
    references=("https://docs.python.org/3/library/pdb.html",),
)
