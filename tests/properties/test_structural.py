"""A loop is put into a block as Python means it, however the code in and around it is written.

Loops are made of lines that are hard to indent (strings of several lines, brackets, backslashes, comments in odd places,
decorators, nested blocks), indented by different means and put into different surroundings.
"""

from __future__ import annotations

import ast
import random
from pathlib import Path

from gpulint_fixers.edits.structural import wrap
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpulint.documents import load
from gpulint.edits import apply
from gpulint.fix import Declined

HEADER = "with torch.no_grad():"
IN_STRING = "\N{SYMBOL FOR NEWLINE}"
"""A line break in a string, after which nothing may be indented."""

SIMPLE = (
    "total += model(batch)",
    "total += 1; count -= 1",
    "total = (\n    1,  # one\n  2,\n)",
    "total = f(\n\n\n  '# no comment',\n)",
    "total = 1 + \\\n    2",
    "total = 1 + \\\n2",
    'text = """one␤  two␤␤\tthree \\␤four␤"""',
    "text = '''␤#␤''' 'b' \"\"\"␤␤        c\"\"\"",
    'text = f"""{total}␤  {total:>{width}}␤"""',
    "data = rb'''␤  \\␤'''",
    "name = 'grüß 🙂'  # 漢字 🔥",
    "values = [x\n  for x in\n y]",
    "# only a comment",
    "  # a comment further in",
    "pass  # a comment behind",
    "",
    "    ",
)
COMPOUND = (
    ("if total:", "elif count:", "else:  # or"),
    ("with open(name) as file, \\\n    lock:",),
    ("try:", "except (ValueError,\n    KeyError):", "finally:"),
    ("@first\n@second(\n  1)\ndef inner(x='''␤'''):",),
    ("class Inner:\n    '''Doc␤    string.'''",),
    ("while total: total -= 1",),
    ("async def later(): return [1,\n  2]",),
)
HEADS = ("for batch in loader:", "for batch in loader:  # each", "while (\n    total\n):", "for i, \\\n  b in loader:")
OUTER = ("def f():", "if a:", "class A:", "async def g():", "try:\n    pass\nexcept ValueError:", "match x:\n  case 1:")
BEFORE = (
    "",
    "import torch\n",
    '"""Doc␤  string."""\n',
    "# a comment\n",
    "x = 'é🙂'; y = 2\n",
    "if a:\n  b = '''␤'''\n\n",
)
AFTER = ("", "\ndone()\n", "\n\n# at the end", "\nelse_ = '''␤   '''\n", "\n\f\ndone()\n")
STEPS = ("    ", "  ", "\t", "   ")


def indent(text: str, step: str) -> str:
    return "\n".join(step + line if line.strip() else line for line in text.split("\n"))


@st.composite
def blocks(draw: st.DrawFn, step: str, depth: int = 0) -> str:
    """Statements of a block, not indented."""
    made = []
    for part in draw(st.lists(st.sampled_from([*SIMPLE, *(COMPOUND if depth < 2 else ())]), min_size=1, max_size=4)):
        if isinstance(part, str):
            made.append(part)
            continue
        for head in part:
            made.append(head)
            if head.endswith((":", "# or")):  # opens a block
                made.append(indent(draw(blocks(step, depth + 1)), step))
    return "\n".join([*made, "last()"])


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, str, str, str]:
    """(what comes before the loop, the loop, the loop in a block, what comes after)."""
    step = draw(st.sampled_from(STEPS))
    loop = draw(st.sampled_from(HEADS)) + "\n" + indent(draw(blocks(step)), step)
    before, lead = draw(st.sampled_from(BEFORE)), ""
    for outer in draw(st.lists(st.sampled_from(OUTER), max_size=3)):
        before += indent(outer, lead) + "\n"
        lead += ("  " if outer.startswith("match") else "") + step
        before += indent(draw(st.sampled_from(["", "# above\n", "x = '''␤'''  # 🙂\n"])), lead)
    return before, indent(loop, lead), indent(f"{HEADER}\n{indent(loop, step)}", lead), draw(st.sampled_from(AFTER))


def with_ends(text: str, ending: str | None, seed: int) -> str:
    """``text`` with other line endings; of all kinds if ``ending`` is None."""
    first, *others = text.replace(IN_STRING, "\n").split("\n")
    choose = random.Random(seed)
    # A lone "\\r" before an empty line would be read as one with the "\\n" behind that.
    ends = [ending or choose.choice(["\n", "\r\n", "\r" if line else "\n"]) for line in others]
    return first + "".join(end + line for end, line in zip(ends, others, strict=True))


@settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.sampled_from(["\n", "\n", "\r\n", "\r", None]), st.booleans(), st.integers(0, 99))
def test_wrapped_as_python_means_it(
    program: tuple[str, str, str, str], ending: str | None, mark: bool, seed: int
) -> None:
    before, loop, wrapped, after = program
    pieces = [with_ends(piece, ending, seed + n) for n, piece in enumerate((before, loop, after))]
    text = "".join(pieces)
    expected = ast.dump(ast.parse((before + wrapped + after).replace(IN_STRING, "\n")))
    document = load(Path("a.py"), ("\ufeff" * mark + text).encode())
    assert document.python is not None
    line = len(document.python.source.line_starts) - len(with_lines(pieces[1] + pieces[2])) + 1
    (statement,) = [n for n in document.python.of(ast.For, ast.While) if n.lineno == line]
    edits = wrap(document, statement, HEADER)
    assert not isinstance(edits, Declined)
    new = apply(document.source.text, edits)
    assert ast.dump(ast.parse(new)) == expected
    assert new.startswith(pieces[0])
    assert new.endswith(pieces[2])
    if ending is not None:
        assert set(ends(new)) <= {ending}


def with_lines(text: str) -> list[int]:
    return load(Path("a.py"), text.encode()).source.line_starts


def ends(text: str) -> list[str]:
    return [line[len(line.rstrip("\r\n")) :] for line in text.replace("\f", "").splitlines(keepends=True)[:-1]]
