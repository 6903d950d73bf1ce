"""Arguments that argparse requires by their position: ``parser.add_argument("epochs", type=int)``."""

from __future__ import annotations

import ast
from collections import Counter

from gpulint.documents.shell import ArgWord
from gpulint.launch.option_parser import PassedOption
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex, dotted, last_name


def passed_by_position(module: ModuleIndex, args: tuple[ArgWord, ...]) -> dict[str, PassedOption]:
    """Return what a launcher passes for such arguments of a program, by name, as far as no option comes before it."""
    found: dict[str, PassedOption] = {}
    for call, number in _positions(module).items():
        before = args[: number + 1]
        if len(before) <= number:
            continue
        if all(word.known and not word.text.startswith("-") for word in before):
            name = call.args[0]
            assert isinstance(name, ast.Constant)
            found[str(name.value)] = PassedOption(before[number].value, before[number].span, before[number].span)
    return found


def position(module: ModuleIndex, call: ast.Call) -> int | None:
    """The number of an argument among those that argparse requires by position; None of options and optional ones."""
    return _positions(module).get(call)


@query
def _positions(module: ModuleIndex) -> dict[ast.Call, int]:
    """The numbers of all such arguments of a module, for each parser on its own."""
    counts = Counter[tuple[object, str]]()
    found: dict[ast.Call, int] = {}
    for call in module.calls_by_name.get("add_argument", ()):
        if is_required_by_position(call):
            owner = (module.function(call), _parser(call))
            found[call] = counts[owner]
            counts[owner] += 1
    return found


def is_required_by_position(call: ast.Call) -> bool:
    """Return whether argparse requires an argument by its position, so that its ``default`` is never used."""
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if last_name(call.func) != "add_argument" or not names or names[0].startswith("-"):
        return False
    return all(one.arg not in ("nargs", None) for one in call.keywords)


def _parser(call: ast.Call) -> str:
    return dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""
