"""From text to ``Script``: tree-sitter-bash gives the structure, ``words`` the words within each simple command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.shell.nested import whole_script
from gpulint.documents.shell.script import Command, Script
from gpulint.documents.shell.words import Literal, Part, Variable, Word
from gpulint.source import Fragment

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree

_KUBERNETES_VARIABLE = regex.compile(r"\$\(([A-Za-z_]\w*)\)")

# ``DATA=<your data path>``: to be filled in by the user, so an unknown value rather than a redirection.
_PLACEHOLDER = regex.compile(
    r"""(?:(?<==)|(?<=="))<[A-Za-z][^<>"'\n]*>|(?<=[\s:])<[A-Za-z](?:[\w./ -]*[\w.])?>(?=[\s/"',:]|$)""", re.M
)

_FILLED = regex.compile(
    r"\$\{\{(?:(?!\}\})[^\n]){0,400}\}\}|\$\((?:params|workspaces|context|tasks|results|steps?|inputs|outputs)\.[\w.-]{1,200}\)"
)
"""``${{inputs.data}}`` of Azure ML and GitHub, ``$(params.data)`` of Tekton: filled in before a shell sees the text."""


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def syntax_tree(text: str) -> Tree:
    """tree-sitter's tree; its offsets are UTF-8 bytes of ``text``, lone surrogates counted as "?"."""
    return _parser().parse(text.encode("utf-8", "replace"))


def parse_script(fragment: Fragment, *, outer: Command | None = None) -> Script:
    """Read shell; never raises. What cannot be read is in ``problems`` and the rest is still there."""
    from gpulint.documents.shell.walk import Walker

    text = fragment.text
    if "<" in text:
        text = _PLACEHOLDER.sub(lambda match: "$" + "_" * (len(match.group()) - 1), text)
    text = _filled(text)
    # A carriage return is a blank to us: scripts edited on Windows mean the same as others. Offsets must not move.
    text = text.replace("\\\r\n", " \\\n").replace("\r", " ") if "\r" in text else text
    script = Walker(fragment, text, outer).script()
    for command in script.commands:
        command.owner.append(script)
    return script


def _filled(text: str) -> str:
    """The text with variables in place of expressions that are filled in before; nothing moves."""
    if "${{" not in text and "$(" not in text:
        return text
    return _FILLED.sub(lambda match: "$" + "_" * (len(match.group()) - 1), text)


def statements(text: str) -> list[tuple[int, int]] | None:
    """(start, end) of each statement of a script's top level, and of each that ``&&`` joins; None if there is more."""
    plain = _filled(text)
    if not plain.isascii() or "<<" in plain:
        return None
    root = syntax_tree(plain).root_node
    found, todo = list[tuple[int, int]](), [(node, node.end_byte) for node in reversed(root.children)]
    while todo:
        node, end = todo.pop()
        inner = node.children[0] if node.type == "redirected_statement" else node
        if inner.type == "list" and any(child.type == "&&" for child in inner.children):
            # A redirection belongs to the last command, and stands around the list in the tree.
            *others, last = inner.children
            todo += [(last, end), *((child, child.end_byte) for child in reversed(others))]
        elif node.type in ("&", "ERROR"):
            return None
        elif node.is_named and node.type != "comment":
            found.append((node.start_byte, end))
    return None if root.has_error else found


def script_from_argv(words: Sequence[Fragment], parse: Callable[[Fragment], Script] = parse_script) -> Script:
    """A script of one command from an exec-form list, each fragment one literal word.

    ``["bash", "-c", "..."]`` gives the script in its last word, as ``parse`` reads it. Kubernetes' ``$(NAME)`` counts
    as a variable.
    """
    if not words:
        from gpulint.source import SourceText

        return Script(Fragment("", SourceText("")))
    read = tuple(Word(word, 0, len(word.text), _literal_parts(word.text)) for word in words)
    if (inner := whole_script(read)) is not None:
        return parse(inner.fragment)
    command = Command(words[0], 0, len(words[0].text), read)
    script = Script(words[0], (command,))
    command.owner.append(script)
    return script


def _literal_parts(text: str) -> tuple[Part, ...]:
    parts, at = list[Part](), 0
    for match in _KUBERNETES_VARIABLE.finditer(text):
        if match.start() > at:
            parts.append(Literal(text[at : match.start()], at, True))
        parts.append(Variable(match.group(1), match.group(), match.start(), quoted=True))
        at = match.end()
    if at < len(text) or not parts:
        parts.append(Literal(text[at:], at, True))
    return tuple(parts)
