"""Programs that open windows for the person who started them, on the computer that this person works at."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.workspace.module_index import ModuleIndex

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
