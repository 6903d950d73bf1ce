"""What a Python file imports, read from its bytes without a tree of the rest."""

from __future__ import annotations

from gpulint import regex

_WORD = regex.compile(rb"\bimport\b")
_QUOTES = b'"""'
_OPENS = regex.compile(
    rb"(?:\xef\xbb\xbf)?[ \t]*(?:(?:try|else|finally|if\b[^\n]*?)[ \t]*:[ \t]*)?(?:[^\n#'\"]*;[ \t]*)?"
    rb"(?:from[ \t]*([\w.]+(?:[ \t]*\.[ \t]*\w+)*)(?:[ \t]|\\\r?\n)*)?$"
)
_NAMES = regex.compile(rb"[ \t\\\r\n]*(?:\(((?:#[^\n]*|[^)#])*)\)|((?:\\\r?\n|[^\n;#])*))")
_COMMENT = regex.compile(rb"#[^\n]*|\\\r?\n")


def imported_names(data: bytes) -> tuple[str, ...]:
    """Dotted names of all that import statements name, in order: ``.a.b`` for ``from .a import b``.

    The same that the bindings of a parsed module have; an import inside of a string may slip in.
    """
    found: list[str] = []
    quotes = data.count(_QUOTES)
    for match in _WORD.finditer(data):
        at = match.start()
        start = data.rfind(b"\n", 0, at) + 1
        if data.endswith((b"\\\n", b"\\\r\n"), 0, start):
            start = data.rfind(b"\n", 0, start - 1) + 1
        opens = _OPENS.match(data, start, at)
        if opens is None or (quotes and quotes % 2 == 0 and data.count(_QUOTES, 0, start) % 2):
            continue  # no statement, or one of an example in a docstring
        names = _NAMES.match(data, match.end())
        assert names is not None
        parts = _COMMENT.sub(b" ", names[1] or names[2] or b"").decode("utf-8", "replace").split(",")
        found += _named(opens[1], parts)
    return tuple(found)


def _named(module: bytes | None, parts: list[str]) -> list[str]:
    found: list[str] = []
    base = "" if module is None else module.decode("utf-8", "replace").replace(" ", "")
    for part in parts:
        name, _, alias = part.strip().partition(" ")
        if not name:
            continue
        if module is not None:
            found.append(f"{base}{name}" if base.endswith(".") else f"{base}.{name}")
        else:
            top = name.partition(".")[0]
            found += [name] if alias or top == name else [top, name]
    return found
