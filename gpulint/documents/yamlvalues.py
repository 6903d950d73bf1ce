"""Scalars of plain configuration files (YAML, JSON, HyperPyYAML) under dotted keys, for value resolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from gpulint import regex
from gpulint.budget import Budget
from gpulint.documents.yamltree import Node, YamlError, parse
from gpulint.numerals import MAX_DIGITS
from gpulint.source import Fragment, SourceText, Span

Scalar = bool | int | float | str | None

MAX_CHARACTERS = 500_000
"""Files beyond this are data, not configuration."""
_MAX_DEPTH = 30
_MAX_VALUES = 20_000
"""Bound on what nested aliases multiply to."""
_REFERENCE = regex.compile(r"<([\w.\[\]]+)>")
_INTEGER = regex.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_FLOAT = regex.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+|[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
_NULLS = frozenset({"null", "~", ""})
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def flatten(source: SourceText) -> dict[str, tuple[Scalar, Span]]:
    """Value and place of every scalar: ``{"train.batch_size": (64, Span(...))}``; the first of several documents wins.

    List elements are keyed by their index (``layers.0``). A HyperPyYAML ``!ref <key>`` has the value it refers to; a
    scalar with any other tag, or a reference that does arithmetic or cannot be found, is left out. Numbers in exponent
    form without a point (``1e-4``) are numbers, as trainers mean them, though YAML 1.1 reads text. Empty for text that
    is no YAML.
    """
    text = source.text
    if len(text) > MAX_CHARACTERS:
        return {}
    try:
        roots = parse(Fragment(text, source))
    except YamlError:
        return {}
    if not roots or roots[0].kind != "map":
        return {}
    budget = Budget(2 * _MAX_VALUES)
    leaves = (leaf for root in reversed(roots) if root.kind == "map" for leaf in _leaves(root, "", frozenset(), budget))
    nodes = dict(islice(leaves, _MAX_VALUES))
    values: dict[str, tuple[Scalar, Span]] = {}
    for key, node in nodes.items():
        known, value = _value(node, nodes.get, 0)
        if known:
            values[key] = value, node.span
    return values


def _leaves(node: Node, prefix: str, around: frozenset[int], budget: Budget) -> Iterator[tuple[str, Node]]:
    """Dotted keys and scalars below a node; an alias that contains itself ends there."""
    if not budget.spend(1):
        return
    if node.kind == "scalar":
        yield prefix, node
    elif id(node) not in around and len(around) < _MAX_DEPTH:
        inside = around | {id(node)}
        children = node.pairs() if node.kind == "map" else ((None, child) for child in node.children)
        for index, (key, child) in enumerate(children):
            name = str(index) if key is None else key.value
            yield from _leaves(child, f"{prefix}.{name}" if prefix else name, inside, budget)


def _value(node: Node, look_up: Callable[[str], Node | None], depth: int) -> tuple[bool, Scalar]:
    """(known, value) of a scalar."""
    if node.tag is not None and node.tag not in {"!", "tag:yaml.org,2002:str"}:
        match = _REFERENCE.fullmatch(node.value.strip()) if node.tag == "!ref" else None
        target = look_up(match[1].replace("[", ".").replace("]", "")) if match else None
        return (False, None) if target is None or depth > _MAX_DEPTH else _value(target, look_up, depth + 1)
    if node.style or node.tag is not None:
        return True, node.value
    text = node.value
    if text.lower() in _NULLS:
        return True, None
    if text.lower() in _BOOLEANS:
        return True, _BOOLEANS[text.lower()]
    try:
        if _INTEGER.fullmatch(text) and len(text) <= MAX_DIGITS:
            return True, int(text.replace("_", ""), 10)
        if _FLOAT.fullmatch(text):
            return True, float(text.replace("_", ""))
    except ValueError:
        pass
    return True, text
