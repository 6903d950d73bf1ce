"""The command with which a system starts the program that a call names."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.calls.trees import joined
from gpulint.documents.specs.lookup import every, first
from gpulint.documents.yamltree import CALLED, OBJECT, Node
from gpulint.source import Fragment

if TYPE_CHECKING:
    from gpulint.documents.shell import Script
    from gpulint.documents.specs.lookup import Found
    from gpulint.libraries.jobs import Program

_PLAIN = regex.compile(r"[\w./:=,@%+-]+")
"""Words that need no quotes."""
_OPEN = regex.compile(r"(?:[\w./:=,@%+-]|\$\{\w+\})*\$\{\w+\}(?:[\w./:=,@%+-]|\$\{\w+\})*")
"""The same with variables for what is not known."""
_ANY = "${arguments}"
"""Arguments that are not written as words."""


def script(program: Program, item: Found) -> Script | None:
    """The command as shell text; None if the program is unknown or not in the tree."""
    from gpulint.documents.shell import parse_script

    place = first(item, program.at)
    found = None if place is None else _named(program, item, place.node)
    if place is None or found is None:
        return None
    is_shell = found[-1].text.endswith((".sh", ".bash"))
    start = ["bash"] if is_shell else ["python"]
    if program.spread is not None and first(item, program.spread) is not None and not is_shell:
        start = ["torchrun", "--nproc-per-node=gpu"]
    words = [put(text, found[0]) for text in start] + found
    if program.kind == "function":
        words.append(put(_ANY, found[0]))
    for path in program.arguments:
        for given in every(item, path):
            words += _arguments(given.node)
    return parse_script(joined(words, " "))


def local_function(program: Program, item: Found) -> str:
    """The name of the function of the same file that a job runs; "" if it is another one."""
    place = first(item, program.at)
    name = "" if place is None else _reference(place.node)
    return name.partition(":")[2] if name.startswith("./") else ""


def _named(program: Program, item: Found, node: Node) -> list[Fragment] | None:
    """The words that name the program to Python."""
    if program.kind == "function":
        return _function(node)
    if node.kind != "scalar" or node.tag is not None or not _PLAIN.fullmatch(node.text):
        return None
    if program.kind == "module":
        return [put("-m", node.fragment), node.fragment]
    folder = first(item, program.folder) if program.folder is not None else None
    if folder is None:
        return None if node.text.startswith("/") else [node.fragment]
    text = folder.node.text.rstrip("/")
    if folder.node.tag is not None or not _PLAIN.fullmatch(text) or text.startswith("/") or ":" in text:
        return None
    path, start = posixpath.normpath(f"{text}/{node.text}"), node.fragment.pieces[0][1]
    shift = len(path) - len(node.text)
    pieces = ((0, start), (shift, start)) if shift > 0 else ((0, start),)
    return [Fragment(path, node.fragment.owner, pieces, node.fragment.cell)]


def _function(node: Node) -> list[Fragment] | None:
    """``-m`` and the module of a function or of the class of an object; its file if it is in this one."""
    name, here = _reference(node), node.fragment
    if name.startswith("./"):
        return [put(name[2:].partition(":")[0], here)]
    module = name.lstrip(".").rpartition(".")[0]
    return [put("-m", here), put(module, here)] if module and _PLAIN.fullmatch(module) else None


def _reference(node: Node) -> str:
    """The dotted name, or file and name, of a function or of an object's class; "" if it is unknown."""
    if node.kind == "map":
        name = node.at(CALLED).text
        return "" if "()" in name or name == "?" else name
    return node.tag.removeprefix(OBJECT) if node.tag is not None and node.tag.startswith(OBJECT) else ""


def _arguments(node: Node) -> list[Fragment]:
    if node.kind == "map":
        if node.is_result:
            return [put(_ANY, node.fragment)]
        words: list[Fragment] = []
        for key, value in node.pairs():
            if not value.is_null:
                words += [put(f"--{key.text}", key.fragment), word(value)]
        return words
    return [word(item) for item in node.elements or [node]]


def word(node: Node) -> Fragment:
    """A value as one word of shell text."""
    here = node.fragment
    is_known = node.tag is None and node.kind == "scalar"
    if _PLAIN.fullmatch(here.text) if is_known else _OPEN.fullmatch(here.text):
        return here
    quote = put("'", here)
    return joined([quote, here, quote], "") if is_known and "'" not in here.text else put(_ANY, here)


def put(text: str, here: Fragment) -> Fragment:
    """A word that the file does not have, at the place of one that it has."""
    return Fragment(text, here.owner, ((0, here.pieces[0][1]),), here.cell)
