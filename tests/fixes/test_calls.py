"""Adding arguments keeps a call's style and never changes anything else in it."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest
from gpulint_fixers.edits.calls import add_keyword, set_keyword
from hypothesis import given
from hypothesis import strategies as st

from gpulint.documents.python import PythonModule
from gpulint.edits import apply
from gpulint.fix import Edit
from gpulint.source import SourceText


def module(text: str) -> tuple[PythonModule, ast.Call]:
    """A module and its first call to ``f``."""
    made = PythonModule(Path("train.py"), text, SourceText(text).span)
    calls = [node for node in ast.walk(made.tree) if isinstance(node, ast.Call)]
    return made, next(call for call in calls if ast.unparse(call.func) == "f")


def added(text: str, *keywords: str) -> str:
    made, call = module(text)
    return apply(text, [add_keyword(made, call, *(keywords or ("pin=True",)))])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(pin=True)"),
        ("f( )", "f(pin=True)"),
        ("(f)()", "(f)(pin=True)"),
        ("f(a)", "f(a, pin=True)"),
        ("f((a))", "f((a), pin=True)"),
        ("f(a,)", "f(a, pin=True,)"),
        ("f(a, *b, k=1, **c)", "f(a, *b, k=1, **c, pin=True)"),
        ("f(k=1, *b)", "f(k=1, *b, pin=True)"),
        ("f(x for x in y)", "f((x for x in y), pin=True)"),
        ("f((x for x in y))", "f((x for x in y), pin=True)"),
        ("f(g(')'), '#')", "f(g(')'), '#', pin=True)"),
        ("f(\n    # nothing yet\n)", "f(pin=True\n    # nothing yet\n)"),
        ("x = f(a,\n      b)", "x = f(a,\n      b,\n      pin=True)"),
        ("x = f(\n    a,\n    b,\n)", "x = f(\n    a,\n    b,\n    pin=True,\n)"),
        ("x = f(\n    a, b\n)", "x = f(\n    a, b, pin=True\n)"),
        ("x = f(\n    a,\n    b  # why, b)\n)", "x = f(\n    a,\n    b,  # why, b)\n    pin=True\n)"),
        ("x = f(\n    a,  # first\n    # second\n)", "x = f(\n    a,  # first\n    pin=True,\n    # second\n)"),
        ("x = f(a, b,  # last\n)", "x = f(a, b, pin=True,  # last\n)"),
        (
            "if x:\r\n\ty = f(\r\n\t\ta,\r\n\t\tb,\r\n\t)\r\n",
            "if x:\r\n\ty = f(\r\n\t\ta,\r\n\t\tb,\r\n\t\tpin=True,\r\n\t)\r\n",
        ),
        ("s = 'ü🚀'; f(a, 'ü🚀')", "s = 'ü🚀'; f(a, 'ü🚀', pin=True)"),
    ],
)
def test_the_call_keeps_its_style(before: str, after: str) -> None:
    assert added(before) == after


def test_a_keyword_that_is_there_gets_the_new_value() -> None:
    text = "f(a, pin=False,  # slow\n  b=1)"
    made, call = module(text)
    assert apply(text, [set_keyword(made, call, "pin", "True")]) == "f(a, pin=True,  # slow\n  b=1)"


def test_the_edit_names_the_file() -> None:
    made, call = module("f(a)")
    assert isinstance(add_keyword(made, call, "b=1"), Edit)
    assert add_keyword(made, call, "b=1").path == Path("train.py")


_ARGUMENT = st.sampled_from(
    ["a", "(a)", "'#,)'", "g(1, 2)", "[x for x in y]", "(x for x in y)", "k=1", "*z", "**z", '"""t,\n)"""']
)
_SPACE = st.sampled_from(["", " ", "\n    ", "  # why, not)\n    ", "\n\t# on its own\n\t"])


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A call to ``f`` in any layout that Python allows."""
    arguments = draw(st.lists(_ARGUMENT, max_size=4))
    order = [a for a in arguments if a[0] != "k" and a[:2] != "**"] + [a for a in arguments if a == "k=1"][:1]
    order += [a for a in arguments if a == "**z"][:1]
    text = draw(_SPACE)
    for index, argument in enumerate(order):
        text += argument + draw(_SPACE)
        if index < len(order) - 1 or draw(st.booleans()):
            text += "," + draw(_SPACE)
    text = f"r = f({text})  # end\n"
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sorted(token.string.strip() for token in tokens if token.type == tokenize.COMMENT)


@given(calls())
def test_nothing_but_the_new_argument_changes(text: str) -> None:
    _, before = module(text)
    result = added(text)
    _, after = module(result)
    assert [ast.dump(arg) for arg in after.args] == [ast.dump(arg) for arg in before.args]
    assert [ast.dump(keyword) for keyword in after.keywords[:-1]] == [ast.dump(keyword) for keyword in before.keywords]
    assert ast.unparse(after.keywords[-1]) == "pin=True"
    assert comments(result) == comments(text)
    assert result.replace("\r\n", "").count("\n") == text.replace("\r\n", "").count("\n") or "\r\n" not in text


def test_several_keywords_stand_as_the_other_arguments_do() -> None:
    assert added("f(a)", "b=1", "c=2") == "f(a, b=1, c=2)"
    assert added("f(\n    a,\n)", "b=1", "c=2") == "f(\n    a,\n    b=1,\n    c=2,\n)"
    assert added("f(a,\n  b)", "c=1", "d=2") == "f(a,\n  b,\n  c=1,\n  d=2)"


LONG = "learning_rate_of_the_first_group"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"loss = g(model(f({LONG})), targets, {LONG})", f"loss = g(model(f({LONG}, pin=True)), targets, {LONG})"),
        (f"loss = g(model(targets), {LONG}, f({LONG}))", f"loss = g(model(targets), {LONG}, f({LONG}, pin=True))"),
        (f"loss = f({LONG}, targets, {LONG})", f"loss = f({LONG}, targets, {LONG},\n         pin=True)"),
        (f"{{k: f(a, {LONG}, {LONG}) for k in b}}", f"{{k: f(a, {LONG}, {LONG},\n      pin=True) for k in b}}"),
        ("x = f(a, b,\n      c)", "x = f(a, b,\n      c, pin=True)"),
        (
            f"value = f(a,\n    b={LONG}, c={LONG}, d=1)",
            f"value = f(a,\n    b={LONG}, c={LONG}, d=1,\n    pin=True)",
        ),
        (
            f"value = f(a, b,\n          c={LONG}, d={LONG})",
            f"value = f(a, b,\n          c={LONG}, d={LONG},\n          pin=True)",
        ),
    ],
)
def test_a_long_line_breaks_where_it_can_be_read(before: str, after: str) -> None:
    assert added(before) == after


@pytest.mark.parametrize(
    "comment", ["", "# " + "a comment " * 12 + "\n", '"""\nA text {}\n"""\n'.format("of words " * 14)]
)
def test_a_long_call_is_broken_as_others_of_the_file(comment: str) -> None:
    """The width of comments and docstrings, which no formatter breaks, says nothing of the width of code."""
    call = "loader = f(first_of_all_arguments, second=second_of_the_arguments, third=third_of_them)\n"
    other = "g(\n    a,\n    b,\n)\n"
    broken = (
        "loader = f(\n    first_of_all_arguments,\n    second=second_of_the_arguments,\n    third=third_of_them,\n"
        "    pin=True,\n)\n"
    )
    assert added(comment + other + call) == comment + other + broken
    aligned = call.replace(")\n", ",\n           pin=True)\n")
    assert added(comment + call) == comment + aligned
    wide = "x = 1" + " + 1" * 30 + "\n"
    assert added(wide + other + call) == wide + other + call.replace(")\n", ", pin=True)\n")
