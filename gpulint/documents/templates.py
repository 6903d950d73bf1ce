"""Templates (Jinja, Go's as Helm has them) around shell and YAML: which of their text may be left out."""

from __future__ import annotations

from gpulint import regex

_TAG = regex.compile(r"\{%-?\s*(?P<jinja>\w+)|\{\{-?\s*(?P<go>if|with|range|define|block|end)\b")
_JINJA = frozenset({"if", "for", "macro"})
"""Tags of Jinja whose text, up to ``end...``, is there only if something holds or somebody asks for it."""


def optional_parts(text: str) -> tuple[tuple[int, int], ...]:
    """(start, end) of the stretches that a template writes only under a condition, outermost ones alone.

    Tags that nobody closes count for nothing.
    """
    if "{%" not in text and "{{" not in text:
        return ()
    opened: list[tuple[str, int]] = []
    found: list[tuple[int, int]] = []
    for tag in _TAG.finditer(text):
        word = tag["jinja"] or tag["go"]
        if tag["go"] and word != "end":
            opened.append(("", tag.start()))
        elif tag["jinja"] and word in _JINJA:
            opened.append((word, tag.start()))
        else:
            closes = "" if tag["go"] else word.removeprefix("end")
            if word != closes and opened and opened[-1][0] == closes:
                start = opened.pop()[1]
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, tag.end()))
    return tuple(found)
