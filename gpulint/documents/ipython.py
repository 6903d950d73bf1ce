"""IPython's additions to Python within one cell: magics, shell escapes and help suffixes.

Each such line is replaced by a Python line that stands for it, so that lines keep their numbers and Python its columns.
"""

from __future__ import annotations

import re
import warnings

from gpulint import regex
from gpulint.documents.newer_syntax import parse
from gpulint.records import dataclass, field
from gpulint.source import Fragment, SourceText

_BREAK = regex.compile("(\r\n|\n|\r)")
_NO_BREAK = regex.compile(r"[^\r\n]")
_CELL_MAGIC = regex.compile(r"%%(!|\w[\w.]*)[ \t]*(.*)")
_PYTHON_BODY = frozenset({"capture", "time", "timeit", "prun", "memit", "mprun", "px", "autopx", "heat", "skip_if_ci"})
_SHELL_BODY = frozenset({"bash", "sh", "sx", "system", "!", "shell"})
_SHELL_NAME = regex.compile(r"(?:/\S*/)?(?:bash|sh|zsh|ksh|dash)\b")
_RUNS_PYTHON = regex.compile(r"%(?:time|timeit|prun|memit)(?:[ \t]+-\S+(?:[ \t]+\d+)?)*[ \t]+(?=\S)")
_PACKAGES = regex.compile(r"%(?=(?:pip|conda|mamba|micromamba|uv|cd)\b)")
_SHELL_MAGIC = regex.compile(r"%(?:sx|system|sh|bash)\b[ \t]*|!!?[ \t]*")
_SET_ENV = regex.compile(r"%(?:env|set_env)[ \t]+(?=\w+[ \t]*[= \t])")
_ASSIGNED = regex.compile(r"""(?P<target>[A-Za-z_][\w., \t\[\]"']*?)=[ \t]*(?P<magic>[!%].*)""", re.DOTALL)
_AUTOMAGIC = regex.compile(r"(?:pip|conda|mamba|uv|cat|cd|ls|mkdir|cp|mv|rm)[ \t]+\S.*", re.DOTALL)
"""Words that IPython takes as a magic or command even without a mark, where the line is no Python."""
_HELP = regex.compile(r"\?{1,2}[\w.*]+;?|%{0,2}[A-Za-z_][\w.\[\]]*\?{1,2};?")
_MAYBE_MAGIC = regex.compile(r"\A[%!?]|\?;?\Z|=[ \t]*[!%]|\A(?:pip|conda|mamba|uv|cat|cd|ls|mkdir|cp|mv|rm)[ \t]")
_SCAN = regex.compile(
    r"""(?P<comment>\#.*)|(?P<string>[A-Za-z]{0,2}(?:'{3}|"{3}|'|"))|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<escape>\\\Z)|[^\#'"()\[\]{}\\]|."""
)


@dataclass
class CellCode:
    """A cell read: Python text with as many lines as the cell, and the shell it runs."""

    python: str = ""
    shell: list[Fragment] = field(default_factory=list)
    error: SyntaxError | None = None
    """Why the cell is no Python; ``python`` then holds as many empty lines."""


def read_cell(source: SourceText, cell: int) -> CellCode:
    """Separate a code cell into Python and shell."""
    text = source.text
    if _parses(text) is None:
        return CellCode(text)
    first = len(text) - len(text.lstrip())
    if match := _CELL_MAGIC.match(text, first):
        name, rest = match[1], match[2]
        if name in _PYTHON_BODY:
            return _python(_NO_BREAK.sub(" ", text[: match.end()]) + text[match.end() :], source, cell)
        code = CellCode(_blank(text))
        if name in _SHELL_BODY or (name == "script" and _SHELL_NAME.search(rest)):
            body = _BREAK.search(text, match.end())
            start = body.end() if body else len(text)
            if text[start:].strip():
                code.shell.append(Fragment(text[start:], source, ((0, start),), cell))
        return code
    return _python(text, source, cell)


def _python(text: str, source: SourceText, cell: int) -> CellCode:
    code = CellCode()
    lines = _BREAK.split(text)
    written: list[str] = []
    scanner = _Scanner()
    offset, number = 0, 0
    while number < len(lines):
        line = lines[number]
        stop = number
        stripped = line.strip()
        if scanner.fresh and _MAYBE_MAGIC.search(stripped):
            # A magic goes on after a backslash, whatever quotes it holds.
            while stop + 2 < len(lines) and lines[stop].endswith("\\"):
                stop += 2
            whole = "".join(lines[number : stop + 1])
            replacement = _replace(whole, offset, source, cell, code)
            if replacement is not None:
                written.append(replacement + "".join(lines[number + 1 : stop + 1 : 2]))
                offset += len(whole)
                number = stop + 1
                if number < len(lines):
                    written.append(lines[number])
                    offset += len(lines[number])
                number += 1
                continue
        scanner.line(line)
        written.append(line)
        offset += len(line)
        if number + 1 < len(lines):
            written.append(lines[number + 1])
            offset += len(lines[number + 1])
        number += 2
    code.python = "".join(written)
    code.error = _parses(code.python)
    if code.error is not None:
        code.python = _blank(code.python)
    return code


def _replace(whole: str, offset: int, source: SourceText, cell: int, code: CellCode) -> str | None:
    """Python in place of a magic, its shell recorded; None when the line is plain Python."""
    stripped = whole.strip()
    indent = whole[: len(whole) - len(whole.lstrip())]
    begin = offset + len(indent)

    def record(skip: int, prefix: str = "") -> None:
        body = whole.strip()[skip:]
        if body.strip():
            pieces = ((0, begin), (len(prefix), begin + skip)) if prefix else ((0, begin + skip),)
            code.shell.append(Fragment(prefix + body, source, pieces, cell))

    if _HELP.fullmatch(stripped):
        return f"{indent}pass"
    if stripped[0] in "%!":
        if match := _RUNS_PYTHON.match(stripped):
            return f"{indent}0;{' ' * (match.end() - 2)}{stripped[match.end() :]}"
        if match := _PACKAGES.match(stripped) or _SHELL_MAGIC.match(stripped):
            record(match.end())
        elif match := _SET_ENV.match(stripped):
            name, _, value = stripped[match.end() :].partition("=" if "=" in stripped else " ")
            if name.strip().isidentifier() and "{" not in value and "$" not in value:
                return f"{indent}import os; os.environ[{name.strip()!r}] = {value.strip()!r}"
        return f"{indent}pass"
    if _AUTOMAGIC.fullmatch(stripped) and _parses(stripped) is not None:
        record(0)
        return f"{indent}pass"
    if match := _ASSIGNED.fullmatch(stripped):
        target = match["target"].rstrip()
        if _parses(f"{target} = 0") is not None:
            return None
        begin += match.start("magic")
        whole = match["magic"]
        if shell := _SHELL_MAGIC.match(whole) or _PACKAGES.match(whole):
            record(shell.end())
        elif timed := _RUNS_PYTHON.match(whole):
            # Blanks in place of the magic: edits count columns.
            return f"{indent}{stripped[: match.start('magic')]}{' ' * timed.end()}{whole[timed.end() :]}"
        return f"{indent}{target} = get_ipython()"
    return None


class _Scanner:
    """Whether a line begins a new statement: not within brackets or a string, and not after a backslash."""

    def __init__(self) -> None:
        self.depth = 0
        self.quote = ""
        self.escaped = False

    @property
    def fresh(self) -> bool:
        return not (self.depth or self.quote or self.escaped)

    def line(self, text: str) -> None:
        """Take in the next line."""
        at, self.escaped = 0, False
        while at < len(text):
            if self.quote:
                at = self._close(text, at)
                continue
            match = _SCAN.match(text, at)
            if match is None:
                break
            at = match.end()
            match match.lastgroup:
                case "comment":
                    break
                case "string":
                    self.quote = match.group().lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
                case "open":
                    self.depth += 1
                case "close":
                    self.depth = max(self.depth - 1, 0)
                case "escape":
                    self.escaped = True
                case _:
                    pass
        if len(self.quote) == 1 and not text.endswith("\\"):
            self.quote = ""

    def _close(self, text: str, at: int) -> int:
        while at < len(text):
            if text[at] == "\\":
                at += 2
            elif text.startswith(self.quote, at):
                at += len(self.quote)
                self.quote = ""
                return at
            else:
                at += 1
        return at


def _blank(text: str) -> str:
    """As many lines, all empty."""
    return "".join(_BREAK.findall(text))


def _parses(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse(text)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(f"cannot be parsed: {error}")
    return None
