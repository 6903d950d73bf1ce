"""Programs that open windows for the person who started them, on the computer that this person works at."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import default_of
from gpulint.documents.python import walk
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef

_OPENS = frozenset(
    {
        "webbrowser.open",
        "webbrowser.open_new",
        "webbrowser.open_new_tab",
        "os.startfile",
        "cv2.imshow",
        "cv2.namedWindow",
        "matplotlib.pyplot.show",
        "tkinter.Tk",
        "pygame.display.set_mode",
    }
)
_WAITS = frozenset({"matplotlib.pyplot.show", "builtins.input"})
_NAMES = frozenset(name.rpartition(".")[2] for name in _OPENS)
_COMMAND = regex.compile(r"^(xdg-open|gnome-open|kde-open|open|evince|explorer(\.exe)?|start)(?=\s|$)")
_RUNS = ("call", "run", "Popen", "check_call", "check_output", "system")


def waits_for_person(subject: Subject) -> bool:
    """Return whether the program waits for a key (``input()``) after it has opened a window."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook or subject.jobs:
        return False
    asks = any(isinstance(part, ast.Call) and last_name(part.func) == "input" for part in walk(node))
    return asks and (_opens_window(subject, module) or any(_starts_viewer(call) for call in _runs(module)))


def shows_each(subject: Subject) -> bool:
    """Return whether each round of the loop, or of the one around the place, waits until a person has looked at what it
    shows (``plt.show()``) or pressed a key."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    around = (up for up in (node, *module.syntax.ancestors(node)) if isinstance(up, (*LOOPS, *FUNCTIONS)))
    loop = next(around, None)
    return isinstance(loop, LOOPS) and any(
        _waits(subject, module, call)
        or any(
            _waits(subject, one.module, own)
            for one in _called(subject, module, call)
            for own in _plain(subject, one.module, one.node)
        )
        for call in _plain(subject, module, loop)
    )


def _plain(subject: Subject, module: ModuleIndex, block: ast.AST) -> list[ast.Call]:
    """The calls that each round of a loop, or run of a function, does, also below a switch that is on (``if show:``
    where all calls pass ``show=True``), in a test (``if cv2.waitKey(0) == 27: break``) and in an inner loop."""
    statements: list[ast.stmt] = list(getattr(block, "body", []))
    found: list[ast.expr] = []
    for one in statements:
        if isinstance(one, ast.If):
            found.append(one.test)
        elif isinstance(one, ast.Expr | ast.Assign):
            found.append(one.value)
        if isinstance(one, ast.With | ast.For) or (isinstance(one, ast.If) and _is_on(subject, module, one.test)):
            statements += one.body
    return [part for value in found for part in walk(value) if isinstance(part, ast.Call)]


def _is_on(subject: Subject, module: ModuleIndex, test: ast.expr) -> bool:
    """Return whether a name is true for all callers of its function, or for all that set it."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_is_on(subject, module, value) for value in values)
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=True)]):
            return _is_on(subject, module, left)
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id=name):
            function = module.function(test)
            if isinstance(function, FUNCTIONS) and name in parameters(function):
                return _is_passed_true(subject, module, function, name)
            return _is_true(subject, module, test)
        case ast.Attribute(value=ast.Name(id="self")):
            return _is_true(subject, module, test)
    return False


def _is_passed_true(subject: Subject, module: ModuleIndex, function: FunctionNode, name: str) -> bool:
    """Return whether each call of a function passes what is true for a parameter that the function leaves as it is."""
    stored = any(
        part.id == name and isinstance(part.ctx, ast.Store) for part in walk(function) if isinstance(part, ast.Name)
    )
    sites = subject.project.fact(Resolver).call_sites(module, function)
    passed = [
        (site.module, argument_of(function, site.node, name) or default_of(function.args, name))
        for site in sites
        if isinstance(site.node, ast.Call)
    ]
    return (
        not stored
        and bool(passed)
        and len(passed) == len(sites)
        and all(value is not None and _is_true(subject, where, value) for where, value in passed)
    )


def _is_true(subject: Subject, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value is written in the code and true: an option may be off in some command."""
    if isinstance(value, ast.Constant):
        return bool(value.value)
    known = subject.project.fact(Constants).of(module, value) if isinstance(value, ast.Name | ast.Attribute) else None
    return (
        known is not None
        and known.complete
        and all(one.source == "literal" and bool(one.value) for one in known.values)
    )


def _called(subject: Subject, module: ModuleIndex, call: ast.Call) -> list[NodeRef]:
    return [one for one in subject.project.fact(Resolver).callees(module, call) if isinstance(one.node, FUNCTIONS)]


def _waits(subject: Subject, module: ModuleIndex, call: ast.Call) -> bool:
    """``plt.show()``, ``input()``, ``cv2.waitKey(0)``; other numbers are milliseconds."""
    if any(keyword.arg == "block" for keyword in call.keywords):
        return False
    names = subject.project.fact(Resolver).call_names(module, call)
    if "cv2.waitKey" in names:
        return not call.args or (isinstance(call.args[0], ast.Constant) and call.args[0].value in (0, -1))
    return bool(names & _WAITS) or (isinstance(call.func, ast.Name) and call.func.id == "input")


def _opens_window(subject: Subject, module: ModuleIndex) -> bool:
    resolver = subject.project.fact(Resolver)
    return any(
        resolver.call_names(module, call) & _OPENS for name in _NAMES for call in module.calls_by_name.get(name, ())
    )


def _runs(module: ModuleIndex) -> list[ast.Call]:
    return [call for name in _RUNS for call in module.calls_by_name.get(name, ())]


def _starts_viewer(call: ast.Call) -> bool:
    """``subprocess.call(["xdg-open", path])``, ``os.system("xdg-open out.pdf")``."""
    match call.args[:1]:
        case [ast.List(elts=[ast.Constant(value=str(program)), *_])] | [ast.Constant(value=str(program))]:
            return _COMMAND.match(program) is not None
        case [ast.JoinedStr(values=[ast.Constant(value=str(program)), *_])]:
            return _COMMAND.match(program) is not None
    return False
