"""Edits of one call's arguments that keep its style: line breaks, indentation, commas, comments, line endings."""

from __future__ import annotations

import ast
from functools import lru_cache
from itertools import pairwise

from gpulint import regex
from gpulint.documents.python import PythonModule
from gpulint.fix import Edit
from gpulint.source import Span

WIDTH = 88
"""Columns that any file may have."""
MOST = 120
"""Columns beyond which no line is made longer, though some line of the file may be."""
_GOES_ON = regex.compile(r"[ \t)\]},:;]*[^ \t)\]},:;#\r\n]")
"""What follows a call on its line, other than what closes brackets, and comments."""
_COMPREHENSIONS = (ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.SetComp)
_FEW = 2
"""Arguments of calls such as ``value.to(device)``, which stay on one line."""
_HANGING = regex.compile(r",[ \t]*\r?\n[ \t]*\)")
"""The end of a call whose last argument has a comma behind it, and whose parenthesis has a line of its own."""
_LONG_STRING = regex.compile(r"""(["'])(?:(?!\1).){30}""")
"""A string that may be what makes a line long."""
RECENT = 16
"""Files whose lines were measured last."""
_LINE_END = regex.compile(r"[\r\n]")


def set_keyword(module: PythonModule, call: ast.Call, name: str, value: str) -> Edit:
    """Pass ``name=value``: replace the value if the call names the keyword already, else add it last."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return Edit(module.path, module.span(keyword.value), value)
    return add_keyword(module, call, f"{name}={value}")


def remove_keyword(module: PythonModule, call: ast.Call, name: str) -> Edit | None:
    """Remove ``name=value`` with its comma, and its line if nothing else is there; None if a comment is beside it."""
    source = module.source
    found = next((keyword for keyword in call.keywords if keyword.arg == name), None)
    if found is None:
        return None
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    ordered = sorted(map(module.offsets, arguments))
    start, end = module.offsets(found)
    at = ordered.index((start, end))
    line, column = source.position(start)
    last, end_column = source.position(end)
    before, behind = source.line(line)[: column - 1].strip(), source.line(last)[end_column - 1 :].strip()
    if "#" in behind:
        return None
    if not before and behind in ("", ","):
        return Edit(module.path, Span(line, 1, last + 1, 1, module.span(found).cell), "")
    if at > 0:
        return _edit(module, ordered[at - 1][1], end, "")
    return _edit(module, start, ordered[1][0] if len(ordered) > 1 else end, "")


def with_keywords(module: PythonModule, call: ast.Call, made: tuple[Edit, ...], *keywords: str) -> tuple[Edit, ...]:
    """Return ``made``, which may change arguments of ``call``, and what adds ``keywords``: one edit of both where the
    arguments get lines of their own."""
    added = add_keyword(module, call, *keywords, made=made)
    start, end = _range(module, added)
    if start == end:
        return (*made, added)
    return (*(edit for edit in made if edit.path != module.path or not start <= _range(module, edit)[0] <= end), added)


def _range(module: PythonModule, edit: Edit) -> tuple[int, int]:
    """Character offsets of what an edit of a module replaces."""
    span, offset = edit.span, module.source.offset
    return offset(span.line, span.column), offset(span.end_line, span.end_column)


def add_keyword(
    module: PythonModule, call: ast.Call, *keywords: str, wrap: bool = True, made: tuple[Edit, ...] = ()
) -> Edit:
    """Add ``keywords`` (``"pin_memory=True"``) as the last arguments of ``call``, on lines of their own if it has them
    there. ``wrap`` says that a line which becomes longer than any of the file is broken; what ``made`` changes is
    written there as it becomes."""
    keyword_text = ", ".join(keywords)
    text = module.source.text
    close = module.offsets(call)[1] - 1
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if not arguments:
        at = opening(text, module.offsets(call.func)[1]) + 1
        end = close if not text[at:close].strip() else at
        return _edit(module, at, end, keyword_text)
    last = max(arguments, key=lambda argument: module.offsets(argument)[1])
    start, end = module.offsets(last)
    if end == close + 1:
        # The parentheses of a lone generator are those of the call; beside another argument it needs its own.
        return _edit(module, start, end, f"({text[start:end]}, {keyword_text})")
    end, comma = _tail(text, end, close)
    head = text[text.rfind("\n", 0, start) + 1 : start].rpartition("\r")[2]
    if head.strip():
        if comma is None:
            if wrap and (spread := _one_a_line(module, call, arguments, end, keywords, made)) is not None:
                return spread
            gap = _gap(module, call, arguments, end, keywords) if wrap else " "
            if len(gap) + len(keyword_text) > line_width(module.source.text) and "\n" in gap:
                keyword_text = f",{gap}".join(keywords)
            return _edit(module, end, end, f",{gap}{keyword_text}")
        return _edit(module, comma + 1, _end_of_blanks(text, comma + 1), f" {keyword_text},")
    if comma is None and _fits(module, arguments, end, keyword_text):
        return _edit(module, end, end, f", {keyword_text}")
    keyword_text = f",\n{head}".join(keywords)
    if comma is not None:
        at = _end_of_comment(text, comma + 1, close)
        return _edit(module, at, _end_of_blanks(text, at), f"\n{head}{keyword_text},")
    after = _end_of_comment(text, end, close)
    return _edit(module, end, after, f",{text[end:after]}\n{head}{keyword_text}")


def _one_a_line(
    module: PythonModule,
    call: ast.Call,
    arguments: list[ast.expr | ast.keyword],
    end: int,
    keywords: tuple[str, ...],
    made: tuple[Edit, ...],
) -> Edit | None:
    """All arguments on lines of their own, as Black has them, where they are on one line that becomes too long: between
    the lines of the parentheses, or with them at the end of a statement in a file that breaks calls in this way."""
    source, text = module.source, module.source.text
    spans = sorted(map(module.offsets, arguments))
    (start, _), close = spans[0], module.offsets(call)[1] - 1
    line, column = source.position(start)
    written = source.line(line).rstrip()
    if module.span_at(start, end).cell is not None or source.position(end)[0] != line or spans[-1][1] != end:
        return None
    if any(text[one[1] : other[0]] != ", " for one, other in pairwise(spans)):
        return None
    parts = [*(_changed(module, one, other, made) for one, other in spans), *keywords]
    length = len(written) + 2 + len(", ".join(keywords))
    if text[end:close].strip(" ") == "":
        indent = written[: len(written) - len(written.lstrip())]
        apart = _hangs(text) if _ends_statement(module, call) else _heads_block(module, call)
        if length <= line_width(module.source.text) or not apart:
            return None
        inner = f"\n{indent}    "
        return _edit(module, start, close, f"{inner}{f',{inner}'.join(parts)},\n{indent}")
    last = source.position(close)
    if length <= WIDTH or written[: column - 1].strip() or source.position(end)[1] != len(written) + 1:
        return None
    if last[0] != line + 1 or source.line(last[0])[: last[1] - 1].strip():
        return None
    return _edit(module, start, end, f",\n{written[: column - 1]}".join(parts) + ",")


def spread(module: PythonModule, call: ast.Call, made: tuple[Edit, ...]) -> Edit | None:
    """All arguments of a call that ends its statement on lines of their own, as ``made`` leaves them."""
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    spans = sorted(map(module.offsets, arguments))
    text, close = module.source.text, module.offsets(call)[1] - 1
    if text[spans[-1][1] : close].strip(" ") or not _ends_statement(module, call):
        return None
    if any(text[one[1] : other[0]] != ", " for one, other in pairwise(spans)):
        return None
    written = module.source.line(call.lineno)
    indent = written[: len(written) - len(written.lstrip())]
    lines = "".join(f"\n{indent}    {_changed(module, one, other, made)}," for one, other in spans)
    return _edit(module, spans[0][0], close, f"{lines}\n{indent}")


def _changed(module: PythonModule, start: int, end: int, made: tuple[Edit, ...]) -> str:
    """Return the text of a module from ``start`` to ``end`` as ``made`` leaves it, with what that adds at the end."""
    text, at = "", start
    own = (edit for edit in made if edit.path == module.path and start <= _range(module, edit)[0] <= end)
    for edit in sorted(own, key=lambda edit: _range(module, edit)):
        text += module.source.text[at : _range(module, edit)[0]] + edit.text
        at = _range(module, edit)[1]
    return text + module.source.text[at:end]


def _ends_statement(module: PythonModule, call: ast.Call) -> bool:
    """Return whether a call on one line is the value of a statement that ends with it."""
    statement = module.parents.get(call)
    line, column = module.source.position(module.offsets(call)[1])
    return (
        isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr)
        and statement.lineno == line
        and not module.source.line(line)[column - 1 :].strip()
        and not _shares_line(module, call)
    )


def _heads_block(module: PythonModule, call: ast.Call) -> bool:
    """Return whether a call is all that a ``with`` opens, on a line that is long already: ``with open(...) as f:``"""
    item = module.parents.get(call)
    block = module.parents.get(item) if isinstance(item, ast.withitem) else None
    line = module.source.line(call.lineno)
    return (
        isinstance(block, ast.With | ast.AsyncWith)
        and len(block.items) == 1
        and block.lineno == call.lineno == call.end_lineno
        and len(line.rstrip()) > WIDTH
        and line.rstrip().endswith(":")
    )


@lru_cache(RECENT)
def _hangs(text: str) -> bool:
    """Return whether calls of a file have a line for each argument, and one for the closing parenthesis."""
    return _HANGING.search(text) is not None


def line_width(text: str) -> int:
    """Columns that new lines of a file may have: those of its longest line, within bounds."""
    return max(WIDTH, min(_code_width(text), MOST))


@lru_cache(RECENT)
def _code_width(text: str) -> int:
    """Characters of the longest line of code, without comments and lines of strings, which no formatter breaks."""
    longest, inside = 0, False
    for line in text.splitlines():
        quotes = line.count('"""') + line.count("'''")
        if not inside and not quotes and len(line) > longest and not _LONG_STRING.search(line):
            longest = max(longest, len(line.partition("#")[0].rstrip()))
        inside ^= quotes % 2 == 1
    return longest


def _fits(module: PythonModule, arguments: list[ast.expr | ast.keyword], end: int, added: str) -> bool:
    """Return whether the last argument's line has room where other lines of the call hold several arguments."""
    source = module.source
    lines = [source.position(module.offsets(argument)[0])[0] for argument in arguments]
    last, column = source.position(end)
    behind = source.line(last)[column - 1 :].rstrip()
    packed = len(set(lines[:-1])) < len(lines[:-1])
    return packed and "#" not in behind and column + 1 + len(added) + len(behind) <= WIDTH


def _gap(
    module: PythonModule, call: ast.Call, arguments: list[ast.expr | ast.keyword], end: int, keywords: tuple[str, ...]
) -> str:
    """A blank, or a line break where the line would be longer than any of the file: below the first argument."""
    source = module.source
    if module.span_at(end, end).cell is not None:
        return " "  # the line may belong to a magic, which ends with it
    up = module.parents.get(call)
    if isinstance(up, ast.IfExp) or (isinstance(up, ast.Tuple) and up.elts[-1] is not call):
        return " "  # in the middle of an expression a continuation would stand below nothing
    line, _ = source.position(end)
    if _shares_line(module, call):
        return " "  # a continuation would stand between two statements
    first, start = source.position(min(module.offsets(argument)[0] for argument in arguments))
    width = line_width(module.source.text)
    length = len(source.line(line).rstrip()) + 2 + len(", ".join(keywords))
    if length <= width or source.text[end:].startswith("#"):
        return " "
    if _is_in_middle(module, call, line):
        return " "  # a break in the middle of a line is harder to read than a long line
    if first != source.position(module.offsets(call)[0])[0] or first != line:
        text = source.line(line)
        indent = text[: len(text) - len(text.lstrip())]
        if any(source.position(module.offsets(one)[0]) == (line, len(indent) + 1) for one in arguments):
            return f"\n{indent}"
        if first != source.position(module.offsets(call)[0])[0]:
            return " "
    return "\n" + " " * (start - 1) if start - 1 + max(map(len, keywords)) < width else " "


def _is_in_middle(module: PythonModule, call: ast.Call, line: int) -> bool:
    """Return whether a call that ends on a line is one of several parts of an expression there: code follows it, or it
    is an argument among others. An element of a comprehension with several arguments is not."""
    source = module.source
    if source.position(module.offsets(call)[1])[0] != line:
        return False
    if isinstance(module.parents.get(call), _COMPREHENSIONS) and len(call.args) + len(call.keywords) > _FEW:
        return False
    text = source.line(line)
    is_part = isinstance(module.parents.get(call), ast.expr | ast.keyword) or len(text.rstrip()) > WIDTH
    if is_part and _GOES_ON.match(text, _column_behind(module, call)):
        return True
    inner: ast.expr = call
    for up in module.ancestors(call):
        if not isinstance(up, ast.expr | ast.keyword) or source.position(module.offsets(inner)[0])[0] != line:
            break
        if isinstance(up, ast.Call) and len(up.args) + len(up.keywords) > 1:
            return source.position(module.offsets(inner)[0])[1] > len(text) - len(text.lstrip()) + 1
        inner = up if isinstance(up, ast.expr) else inner
    return False


def _column_behind(module: PythonModule, call: ast.Call) -> int:
    """The 0-based column behind a call."""
    return module.source.position(module.offsets(call)[1])[1] - 1


def _shares_line(module: PythonModule, call: ast.Call) -> bool:
    """Return whether the statement of a call has others on its line."""
    statement = next((up for up in module.ancestors(call) if isinstance(up, ast.stmt)), None)
    place = module.place(statement) if statement is not None else None
    if statement is None or place is None:
        return False
    block = getattr(module.parents[statement], place[0])
    near = block[max(place[1] - 1, 0) : place[1] + 2]
    return any(one is not statement and one.lineno == statement.lineno for one in near)


def _edit(module: PythonModule, start: int, end: int, text: str) -> Edit:
    return Edit(module.path, module.span_at(start, end), text)


def opening(text: str, at: int) -> int:
    """The first opening parenthesis from ``at`` on that is not in a comment."""
    while text[at] != "(":
        at = _end_of_line(text, at) if text[at] == "#" else at + 1
    return at


def _tail(text: str, at: int, close: int) -> tuple[int, int | None]:
    """(end of the last argument with the parentheses around it, offset of the comma after it or None)."""
    end = at
    while at < close:
        if text[at] == "#":
            at = _end_of_line(text, at)
        elif text[at] == ")":
            end = at + 1
        elif text[at] == ",":
            return end, at
        at += 1
    return end, None


def _end_of_line(text: str, at: int) -> int:
    found = _LINE_END.search(text, at)
    return len(text) if found is None else found.start()


def _end_of_blanks(text: str, at: int) -> int:
    """End of the blanks that end a line; ``at`` itself if something else follows."""
    end = _end_of_line(text, at)
    return at if text[at:end].strip() else end


def _end_of_comment(text: str, at: int, close: int) -> int:
    """End of the comment that follows ``at`` on its line; ``at`` itself if something else or nothing follows."""
    end = min(_end_of_line(text, at), close)
    return end if text[at:end].lstrip().startswith("#") else at
