"""Edits that wrap, rewrite or re-indent a whole statement, through LibCST.

Lines alone do not tell how to indent a block: those inside a string belong to its value, and those after a backslash or
inside brackets need not follow the indentation. LibCST knows which is which.

Only the lines of the statement are parsed, so positions never have to be converted between ``ast`` (UTF-8 bytes) and
LibCST. The result is compared with the present lines: a line that was only indented yields an edit of its indentation.
So other fixes inside the block still apply in the same pass, and line endings stay as they are.

Importing LibCST takes 0.2 s, so that happens when the first statement is rewritten.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.python import PythonModule, children
from gpulint.fix import Declined, Edit
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.edits.statements import start_of

if TYPE_CHECKING:
    import libcst as cst

    Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
    Change = Callable[[Statement], Statement | Sequence[Statement]]

MAX_DEPTH = 150
"""Levels of a statement's tree that LibCST is given; its parser has no limit but the stack, and overflows that."""
_WIDEST = 4
"""Columns of one level of indentation in files that are written as usual."""
_BLANKS = " \t\f"
_NOT_PLAIN = regex.compile(r"""\"{3}|'{3}|^[^"'\n]*["'].*\\$|=\s*(?:![rsa]\s*)?[:}]""", re.MULTILINE)
"""Strings that go over several lines, also after a backslash, and expressions that show their source."""
_OWN_TEXT = regex.compile(r"""\{[^{}\\"'\n]*=[ \t]*(?:![rsa][ \t]*)?(?=[:}])""")
"""A part of an f-string that shows its own source, all of it on one line: ``{value = }``."""
_AFTER_BACKSLASH = regex.compile(r"(?<=\\\n)")


def rewrite(document: Document, statement: ast.stmt, change: Change) -> tuple[Edit, ...] | Declined:
    """Edits that replace ``statement`` of ``document.python`` by what ``change`` makes of its LibCST node.

    ``change`` gets the node without the comments above it, and returns at least one node. All other lines stay byte
    for byte as they are.

    Declined if the statement shares a line with another, is an ``elif`` or more than :data:`MAX_DEPTH` levels deep,
    cannot be read by LibCST, or if the change touches IPython syntax of a notebook.
    """
    region = _region(document, statement)
    if isinstance(region, Declined):
        return region
    new = _changed(region, change)
    return new if isinstance(new, Declined) else _edits(document, region, new)


def wrap(document: Document, statement: ast.stmt, header: str) -> tuple[Edit, ...] | Declined:
    """Edits that put ``statement`` into the block that ``header`` (``"with torch.no_grad():"``) opens.

    Declined as by :func:`rewrite`, and if indentation would change a value: that of an f-string which shows its own
    source (``f"{x = }"``) over several lines.
    """
    region = _region(document, statement)
    if isinstance(region, Declined):
        return region
    if _is_plain(region.lines):
        indented = [_deeper(line, region.lead, region.step) for line in region.lines]
        return _edits(document, region, [region.lead + header, *indented])

    import libcst as cst

    outer = cst.parse_statement(f"{header} pass")

    def enclosed(node: Statement) -> Statement:
        return outer.with_changes(body=cst.IndentedBlock([_continued(node, region.step)], indent=region.step))

    new = _changed(region, enclosed)
    if isinstance(new, Declined):
        return new
    added = len(new) - len(region.lines)
    # LibCST indents blank lines as well where the statement itself is not indented.
    new[added:] = [line if old.strip(_BLANKS) else old for old, line in zip(region.lines, new[added:], strict=True)]
    (inner,) = getattr(_parsed(region, new), "body", [None])
    if inner is None or ast.dump(inner) != ast.dump(_parsed(region, region.lines)):
        return Declined("indenting the block would change a string")
    return _edits(document, region, new)


def wrap_all(document: Document, statements: Sequence[ast.stmt], header: str) -> tuple[Edit, ...] | Declined:
    """As :func:`wrap` for neighbours in one block. Declined as well if one of several holds a long string.

    Without a header they are only indented, as the end of the block above.
    """
    if len(statements) == 1 and header:
        return wrap(document, statements[0], header)
    first, last = _region(document, statements[0]), _region(document, statements[-1])
    if isinstance(first, Declined) or isinstance(last, Declined):
        return first if isinstance(first, Declined) else last  # type: ignore[return-value]
    source = first.syntax.source
    lines = [source.line(number) for number in range(first.first, last.first + len(last.lines))]
    region = _Region(first.syntax, first.first, lines, first.lead, first.step)
    if not _is_plain(lines):
        return Declined("one of the statements holds a string of several lines")
    indented = [_deeper(line, region.lead, region.step) for line in lines]
    return _edits(document, region, [region.lead + header, *indented] if header else indented)


@query
def wrap_once(
    _module: ModuleIndex, document: Document, statements: tuple[ast.stmt, ...], header: str
) -> tuple[Edit, ...] | Declined:
    """Return what :func:`wrap_all` does, once for all findings of a block."""
    return wrap_all(document, statements, header)


@dataclass(frozen=True, slots=True)
class _Region:
    """The lines of a statement, with the comments that end its block."""

    syntax: PythonModule
    first: int
    """1-based number of the first line in the module's text."""
    lines: list[str]
    """Without their line endings."""
    lead: str
    """Indentation of the statement."""
    step: str
    """What one more level of indentation adds."""

    @property
    def opening(self) -> str:
        """A line above, with which the lines can be parsed as they are."""
        return "if 1:\n" if self.lead else ""

    def start(self, index: int) -> int:
        """Offset in the module's text at which a line starts."""
        return self.syntax.source.offset(self.first + index, 1)

    def end(self, index: int) -> int:
        """Offset of the end of a line, before its line ending."""
        return self.start(index) + len(self.lines[index])


def _region(document: Document, statement: ast.stmt) -> _Region | Declined:
    syntax = document.python
    assert syntax is not None
    source = syntax.source
    start, end = start_of(syntax, statement), syntax.offsets(statement)[1]
    (first, column), (last, after) = source.position(start), source.position(end)
    lead, above = source.line(first)[: column - 1], source.line(first - 1)
    behind = source.line(last)[after - 1 :].strip().removeprefix(";").lstrip()
    goes_on = above.endswith("\\") and not above.lstrip().startswith("#")
    if lead.strip() or goes_on or (behind and not behind.startswith("#")):
        return Declined("the statement shares its line with another one")
    if source.text.startswith("elif", start):
        return Declined("an `elif` is part of a larger statement")
    if _is_deep(statement):
        return Declined("the statement is nested too deeply")
    if hasattr(statement, "body"):
        last = _with_footer(syntax, first, last)
    lines = [source.line(number) for number in range(first, last + 1)]
    return _Region(syntax, first, lines, lead, indentation_step(syntax, statement))


def _is_deep(statement: ast.stmt) -> bool:
    level: list[ast.AST] = [statement]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in children(node)]
    return bool(level)


def _with_footer(syntax: PythonModule, first: int, last: int) -> int:
    """The last line of a block, or of the comments below that are indented deeper than its head."""
    source = syntax.source
    lead, cell = _lead(source.line(first)), _span(syntax, source.offset(first, 1)).cell
    for number in range(last + 1, len(source.line_starts) + 1):
        line = source.line(number)
        if not (text := line.lstrip(_BLANKS)):
            continue
        deeper = line.startswith(lead) and len(line) - len(text) > len(lead)
        if not text.startswith("#") or not deeper or _span(syntax, source.offset(number, 1)).cell != cell:
            break
        last = number
    return last


def indentation_step(syntax: PythonModule, statement: ast.stmt) -> str:
    """One level of indentation: that of the statement's own block, of a block around it, or of the module's first; that
    of most blocks of the file where the first is several of these."""
    blocks = chain([statement], syntax.ancestors(statement), syntax.nodes)
    step = next((step for node in blocks if (step := _own_step(syntax, node))), "    ")
    if len(step) <= _WIDEST:
        return step
    usual, _ = Counter(filter(None, (_own_step(syntax, node) for node in syntax.nodes))).most_common(1)[0]
    return usual if step.replace(usual, "") == "" else step


def _own_step(syntax: PythonModule, node: ast.AST) -> str:
    """Return what the block of a statement adds to its indentation; nothing if it has none of its own lines."""
    body = getattr(node, "body", None)
    if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
        outer, inner = (_lead(syntax.source.line(part.lineno)) for part in (node, body[0]))
        if len(inner) == body[0].col_offset and inner.startswith(outer) and inner != outer:
            return inner.removeprefix(outer)
    return ""


def _is_plain(lines: list[str]) -> bool:
    """Return whether every line can be indented by itself."""
    text = "\n".join(lines)
    return not _NOT_PLAIN.search(_OWN_TEXT.sub("", text))


def _deeper(line: str, lead: str, step: str) -> str:
    """A line one level deeper. Blank lines, and comments at the very start of a line, stay as they are."""
    if not line.strip(_BLANKS) or line.startswith("#"):
        return line
    return lead + step + line.removeprefix(lead) if line.startswith(lead) else step + line


def _lead(line: str) -> str:
    """The indentation of a line."""
    return line[: len(line) - len(line.lstrip(_BLANKS))]


def _changed(region: _Region, change: Change) -> list[str] | Declined:
    """The lines of a region after ``change``."""
    import libcst as cst

    text = region.opening + "\n".join(region.lines) + "\n"
    try:
        tree = cst.parse_module(text, cst.PartialParserConfig(default_newline="\n", default_indent=region.step))
        if tree.code != text:
            return Declined("LibCST does not reproduce the statement")
        holder = tree.body[0] if region.opening else tree
        block = holder.body if isinstance(holder, cst.If) else tree
        (node,) = block.body
        assert isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        made = change(node)
        nodes = [made] if isinstance(made, cst.CSTNode) else [*made]
        code = tree.with_deep_changes(block, body=nodes).code
    except (cst.ParserSyntaxError, RecursionError):
        return Declined("LibCST cannot parse the statement")
    return code.removeprefix(region.opening).removesuffix("\n").split("\n")


def _continued(node: Statement, step: str) -> cst.BaseStatement:
    """``node`` with ``step`` added to lines that LibCST leaves where they are: those after a backslash, and those in
    brackets or comments that are indented less than their block. Comments at the very start of a line stay there."""
    import libcst as cst

    class Continued(cst.CSTTransformer):
        def leave_SimpleWhitespace(
            self, original_node: cst.SimpleWhitespace, updated_node: cst.SimpleWhitespace
        ) -> cst.SimpleWhitespace:
            value = updated_node.value
            return updated_node.with_changes(value=_AFTER_BACKSLASH.sub(step, value)) if "\n" in value else updated_node

        def leave_ParenthesizedWhitespace(
            self, original_node: cst.ParenthesizedWhitespace, updated_node: cst.ParenthesizedWhitespace
        ) -> cst.ParenthesizedWhitespace:
            return (
                updated_node
                if updated_node.indent
                else updated_node.with_changes(last_line=more(updated_node.last_line))
            )

        def leave_EmptyLine(self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine) -> cst.EmptyLine:
            stays = updated_node.indent or updated_node.whitespace.empty
            return updated_node if stays else updated_node.with_changes(whitespace=more(updated_node.whitespace))

    def more(white: cst.SimpleWhitespace) -> cst.SimpleWhitespace:
        return white.with_changes(value=step + white.value)

    changed = node.visit(Continued())
    assert isinstance(changed, cst.BaseStatement)
    return changed


def _parsed(region: _Region, lines: Sequence[str]) -> ast.stmt:
    statement = ast.parse(region.opening + "\n".join(lines) + "\n").body[0]
    if not region.opening:
        return statement
    assert isinstance(statement, ast.If)
    return statement.body[0]


def _edits(document: Document, region: _Region, new: list[str]) -> tuple[Edit, ...] | Declined:
    """Return what turns the lines of a region into ``new``: those in the middle replaced, those around it indented."""
    old = region.lines
    shortest = min(len(old), len(new))
    head = tail = 0
    while head < shortest and old[head].lstrip(_BLANKS) == new[head].lstrip(_BLANKS):
        head += 1
    while tail < shortest - head and old[-1 - tail].lstrip(_BLANKS) == new[-1 - tail].lstrip(_BLANKS):
        tail += 1
    edits, stop = list[Edit](), len(old) - tail
    if head < max(stop, len(new) - tail):
        if not all(_is_as_written(document, region, index) for index in range(min(head, len(old) - 1), stop)):
            return Declined("the change touches IPython syntax")
        edits.append(_replaced(region, head, stop, new[head : len(new) - tail]))
    kept = [*range(head), *range(-tail, 0)]
    edits += (edit for index in kept for edit in _indented(region, index % len(old), new[index]))
    return tuple(edits)


def _is_as_written(document: Document, region: _Region, index: int) -> bool:
    """Return whether a line's text is that of the file. In notebooks, magics were replaced by Python."""
    span = _span(region.syntax, region.start(index))
    return document.cell_source(span.cell).line(span.line) == region.lines[index]


def _replaced(region: _Region, start: int, stop: int, new: list[str]) -> Edit:
    """The old lines ``start:stop`` replaced by ``new``; either may be empty."""
    syntax, text = region.syntax, "\n".join(new)
    if start < stop and new:
        return Edit(syntax.path, syntax.span_at(region.start(start), region.end(stop - 1)), text)
    if start == len(region.lines):
        return Edit(syntax.path, _span(syntax, region.end(start - 1)), f"\n{text}")
    end = region.start(stop)
    return Edit(syntax.path, syntax.span_at(region.start(start), end), f"{text}\n" if new else "")


def _indented(region: _Region, index: int, new: str) -> Iterator[Edit]:
    """A line with the indentation of ``new``, which is added at its very start, where other fixes insert nothing."""
    syntax, before, after = region.syntax, _lead(region.lines[index]), _lead(new)
    if before == after:
        return
    if after.endswith(before):
        before, after = "", after.removesuffix(before)
    start = region.start(index)
    yield Edit(syntax.path, syntax.span_at(start, start + len(before)), after)


def _span(syntax: PythonModule, offset: int) -> Span:
    """The empty span at an offset of the module's text."""
    return syntax.span_at(offset, offset)
