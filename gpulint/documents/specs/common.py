"""What the readers of all systems share: counts, environments and commands from YAML nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from gpulint import regex
from gpulint.documents.tasks import Count, EnvVar
from gpulint.documents.yamltree import MISSING, Node, YamlError, parse
from gpulint.numerals import whole
from gpulint.source import Fragment, Span

if TYPE_CHECKING:
    from gpulint.documents.shell import Script

_CPUS = regex.compile(r"(\d+)(?:\.\d*)?(m?)")
_OTHER_INTERPRETER = regex.compile(r"\s*#!(?!.*\b(?:ba|z|k|da)?sh\b)")
"""A script in another language than the shell's."""

Made = TypeVar("Made")


def once(make: Callable[..., Made]) -> Callable[..., Made]:
    """Make something of nodes once: thousands of aliases may stand for one anchor."""

    @wraps(make)
    def made(*nodes: Node) -> Made:
        holder = next((node for node in nodes if node), None)
        if holder is None:
            return make(*nodes)
        if holder.made is None:
            holder.made = {}
        key = (make, *map(id, nodes))
        if key not in holder.made:
            holder.made[key] = make(*nodes)
        found: Made = holder.made[key]
        return found

    return made


def pair_span(key: Node, value: Node) -> Span:
    """Place of ``key: value``; of the key alone where the value is an alias or merged from elsewhere."""
    end = value.end if value.start >= key.end else key.end
    written = key.origin.text[key.start : end].rstrip()
    return key.origin.span(key.start, key.start + len(written))


def count(holder: Node, key: str) -> Count | None:
    """The number under ``key`` of a map; None if the key is absent, a value of None if it is no whole number."""
    name, value = holder.pair(key)
    if not value or value.is_null:
        return None
    return Count(value.integer, pair_span(name, value), f"{key}: {value.text or value.fragment.text}")


def cpus(holder: Node, key: str) -> Count | None:
    """CPU cores under ``key``, in Kubernetes' units (``4``, ``1.5``, ``500m``), rounded down."""
    name, value = holder.pair(key)
    if not value or value.is_null:
        return None
    match = _CPUS.fullmatch(value.text)
    number = None if match is None else whole(match[1])
    cores = None if match is None or number is None else number // (1000 if match[2] else 1)
    return Count(cores, pair_span(name, value), f"{key}: {value.text}")


@once
def env_map(node: Node) -> tuple[EnvVar, ...]:
    """``NAME: value`` pairs, or a list of ``NAME=value`` and bare ``NAME`` (value taken from outside: None)."""
    if node.kind == "map":
        return tuple(
            EnvVar(name.text, value.text if value.kind == "scalar" else None, pair_span(name, value))
            for name, value in node.pairs()
        )
    items = (item for item in node.elements if item.kind == "scalar")
    parts = ((item, *item.text.partition("=")) for item in items)
    return tuple(EnvVar(name, value if equals else None, item.span) for item, name, equals, value in parts)


@once
def env_list(node: Node) -> tuple[EnvVar, ...]:
    """Kubernetes' ``[{name: N, value: V}]``; ``valueFrom`` gives None."""
    variables = []
    for item in node.elements:
        value = item.at("value")
        if name := item.at("name").text:
            variables.append(EnvVar(name, value.text if value.kind == "scalar" else None, item.span))
    return tuple(variables)


@once
def shell(node: Node) -> tuple[Script, ...]:
    """The script of a scalar, or of a list of lines that one shell runs in turn; nothing for an empty one."""
    from gpulint.documents.shell import parse_script

    lines = [node] if node.kind == "scalar" else node.elements
    fragments = [line.fragment for line in lines if line.kind == "scalar" and line.text.strip()]
    if fragments and _OTHER_INTERPRETER.match(fragments[0].text):
        return ()
    return (parse_script(join(fragments)),) if fragments else ()


@once
def argv(*nodes: Node) -> tuple[Script, ...]:
    """The command of exec-form lists put one after another (Kubernetes' ``command`` and ``args``).

    An element that is no scalar (a pipeline's placeholder) is one word, as written; so is a scalar in place of a list.
    """
    from gpulint.documents.shell import script_from_argv

    words = [word for node in nodes for word in (node.elements or [node]) if word and word.kind != "list"]
    by_fragment = {id(word.fragment): word for word in words}
    read = script_from_argv([word.fragment for word in words], lambda fragment: _script(by_fragment[id(fragment)]))
    return (read,) if words else ()


@once
def _script(node: Node) -> Script:
    from gpulint.documents.shell import parse_script

    return parse_script(node.fragment)


def join(fragments: Sequence[Fragment], separator: str = "\n") -> Fragment:
    """Fragments of one owner as one, with a separator that belongs to none between them."""
    if len(fragments) == 1:
        return fragments[0]
    pieces: list[tuple[int, int]] = []
    at = 0
    for fragment in fragments:
        pieces += [(at + here, there) for here, there in fragment.pieces]
        at += len(fragment.text) + len(separator)
    return Fragment(
        separator.join(part.text for part in fragments), fragments[0].owner, tuple(pieces), fragments[0].cell
    )


def embedded_yaml(node: Node) -> Node:
    """Root of the YAML that a scalar holds (``runtimeEnvYAML: |``), a map as it is; missing if unreadable."""
    if node.kind == "scalar" and node.text:
        try:
            roots = parse(node.fragment)
        except YamlError:
            roots = []
        return roots[0] if roots else MISSING
    return node


def items_with_spans(nodes: Iterable[Node]) -> tuple[tuple[str, Span], ...]:
    """Texts and places of scalars, for ``Task.packages``."""
    return tuple((node.text, node.span) for node in nodes if node.kind == "scalar" and node.text)
