"""The walk over tree-sitter's tree that collects commands and assignments with the blocks around them."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.shell.parse import syntax_tree
from gpulint.documents.shell.reader import WordReader
from gpulint.documents.shell.record import Recorder, end_of_run, followed, is_switched_off, read_comments
from gpulint.documents.shell.script import Assignment, Block, Command, Script
from gpulint.documents.shell.simple import read_simple
from gpulint.source import Fragment, Span

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH = 150
MAX_COMMANDS = 5_000
"""Commands of one script that are read."""
_MAX_TEXT = 2000
"""Characters of a condition or a loop's header that are kept."""
_MAX_HEREDOCS = 100
"""Here-documents that one line may open: tree-sitter's time grows with the square of their number."""
_TESTS = regex.compile(r"\s*!?\s*(\[|\(\(|test\b|grep\b|command\b|which\b|type\b|hash\b|false\b|nvidia-smi\b)")
_STATEMENTS = frozenset(
    {"command", "declaration_command", "unset_command", "variable_assignment", "variable_assignments"}
)
_ARITHMETIC_NAME = regex.compile(r"(?:\+\+|--)?\b([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%]?=(?!=))?")


class Walker:
    """Reads one fragment. ``text`` is the fragment's text with carriage returns blanked, of the same length."""

    def __init__(self, fragment: Fragment, text: str, outer: Command | None) -> None:
        self.fragment, self.text, self.outer = fragment, text, outer
        self.reader = WordReader(fragment, text)
        self.found = Recorder(fragment)
        self.functions: dict[str, Span] = {}
        self.comments: list[tuple[int, int]] = []
        self.problems: list[tuple[str, int]] = []
        self.cut: int | None = None
        self.recovered = 0
        """Characters that were read again after an error."""
        self.base = 0
        self.offsets: list[int] | None = None

    def script(self) -> Script:
        if self.text.count("<<") > _MAX_HEREDOCS and _opens_most(self.text) > _MAX_HEREDOCS:
            self.cut = 0
            self.found.rest(0, ())
        else:
            self.parse(0, len(self.text), ())
        commands = sorted(self.found.commands.values(), key=lambda command: command.start)
        assignments = sorted(self.found.assignments, key=lambda item: item.start)
        if not self.problems:  # what stands in which block is known
            end = end_of_run(commands)
            stop = len(self.text) if end is None else end
            commands = [one for one in commands if one.start <= stop and not is_switched_off(one.blocks)]
            assignments = [one for one in assignments if one.start <= stop and not is_switched_off(one.blocks)]
        starts = [command.start for command in commands[:1]] + [item.start for item in assignments[:1]]
        comments, directives = read_comments(
            self.fragment, self.text, self.comments, min(starts, default=len(self.text))
        )
        return Script(
            self.fragment,
            tuple(commands),
            tuple(assignments),
            self.functions,
            directives,
            comments,
            self.text.split("\n", 1)[0].strip() if self.text.startswith("#!") else None,
            tuple(self.problems),
            self.outer,
            self.cut,
        )

    def parse(self, start: int, end: int, blocks: tuple[Block, ...]) -> None:
        """Read ``start:end`` as a script of its own."""
        text = self.text[start:end]
        root = syntax_tree(text).root_node
        kept, self.base, self.offsets = (self.base, self.offsets), start, None
        if not text.isascii():
            self.offsets = [0]
            for char in text:
                self.offsets.append(self.offsets[-1] + len(char.encode("utf-8", "replace")))
        if root.has_error and not self.problems:
            self.record_problem(root)
        self.visit(root, blocks, 0)
        self.base, self.offsets = kept

    def at(self, byte: int) -> int:
        """Character offset in the fragment of one of tree-sitter's byte offsets."""
        return self.base + (byte if self.offsets is None else bisect_left(self.offsets, byte))

    def record_problem(self, root: Node) -> None:
        node = root
        while True:
            inner = next(
                (child for child in node.children if child.has_error or child.is_missing or child.is_error), None
            )
            if inner is None or node.is_error:
                break
            node = inner
        start = self.at(node.start_byte)
        what = f"missing {node.type!r}" if node.is_missing else "cannot be parsed"
        self.problems.append((f"shell syntax: {what}", self.fragment.span(start, start).line))

    def visit(
        self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool = False, negated: bool = False
    ) -> None:
        """Collect what ``node`` holds. ``background``: an ``&`` ends it or a statement around it."""
        if self.cut is not None:
            return
        kind = node.type
        if kind == "comment":
            self.comments.append((self.at(node.start_byte), self.at(node.end_byte)))
        elif not node.is_named or depth > _MAX_DEPTH:
            pass
        elif kind in _STATEMENTS or (kind == "test_command" and [part.type for part in node.children[:1]] == ["["]):
            self.simple(node, node, blocks, depth, background, negated)
        elif kind == "redirected_statement":
            self.redirected(node, blocks, depth, background)
        elif kind in _COMPOUND:
            _COMPOUND[kind](self, node, blocks, depth, background)
        else:
            self.children(node, blocks, depth, background)

    def children(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        negated = node.type == "negated_command"
        for child, ended in followed(node.children):
            self.visit(child, blocks, depth + 1, background or ended, negated)

    def block(self, kind: str, node: Node, branch: int, text: str) -> Block:
        start, end = self.at(node.start_byte), self.at(node.end_byte)
        return Block(
            kind,
            start * 8 + len(kind),
            branch,
            " ".join(text[:_MAX_TEXT].replace("\\\n", " ").split()),
            self.fragment.span(start, end),
        )

    def source(self, node: Node) -> str:
        return self.text[self.at(node.start_byte) : self.at(node.end_byte)]

    def simple(
        self, node: Node, limit: Node, blocks: tuple[Block, ...], depth: int, background: bool, negated: bool
    ) -> None:
        """A simple command; ``limit`` is the node whose end bounds it, redirections included."""
        start, end = self.at(node.start_byte), self.at(limit.end_byte)
        if len(self.found.commands) + len(self.found.assignments) >= MAX_COMMANDS:
            self.cut = start
            self.found.rest(start, blocks)
            return
        if re.match(r"[ \t]*\\[^\n]", self.text[end : end + 80]):  # its tokens stop short of an escaped blank
            line_end = self.text.find("\n", end)
            end = len(self.text) if line_end < 0 else line_end
        simple = read_simple(self.reader, start, end)
        self.found.command(simple, start, blocks, background, negated, self.heredoc(limit))
        for child in node.children:
            self.expansions(child, blocks, depth + 1, background)
        stop = self.at(node.end_byte)
        rest = self.text[simple.end : stop]
        if rest.strip().strip(";&|").strip() and simple.end > start and self.recovered <= 2 * len(self.text):
            # tree-sitter-bash now and then runs on over a line end; what follows it is a command of its own.
            self.recovered += len(rest)
            while blocks and blocks[-1].kind in ("pipe", "and", "or"):
                blocks = blocks[:-1]
            self.parse(simple.end + len(rest) - len(rest.lstrip(" \t\n;&|")), stop, blocks)

    def heredoc(self, node: Node) -> Fragment | None:
        """Body of a here-document among the redirections of ``node``."""
        for child in node.children:
            if child.type == "heredoc_redirect":
                body = next((inner for inner in child.children if inner.type == "heredoc_body"), None)
                if body is not None:
                    return self.fragment.cut(self.at(body.start_byte), self.at(body.end_byte), self.text)
        return None

    def expansions(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        """Commands within ``$( )`` and ``<( )`` in the words of a command."""
        if depth > _MAX_DEPTH:
            return
        if node.type in ("command_substitution", "process_substitution"):
            self.children(node, (*blocks, self.block("substitution", node, 0, "")), depth, background)
        elif node.type == "comment":
            self.visit(node, blocks, depth)
        else:
            for child in node.children:
                self.expansions(child, blocks, depth + 1, background)

    def redirected(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        body = node.child_by_field_name("body")
        negated = body is not None and body.type == "negated_command"
        inner = body.named_children[0] if negated and body is not None and body.named_children else body
        if inner is not None and (inner.type in _STATEMENTS or inner.type == "test_command"):
            self.simple(inner, node, blocks, depth, background, negated)
        elif body is not None:
            self.visit(body, blocks, depth + 1, background)
        for child in node.children:
            if child != body:
                self.redirection(child, blocks, depth + 1, background)

    def redirection(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        """``cat <<EOF | bash`` and ``cat <<EOF && next`` hang the rest of the line below the redirection."""
        first_is_right = node.child_count > 0 and node.field_name_for_child(0) == "right"  # none behind a syntax error
        for child, ended in followed(node.children):
            if child.type in ("pipeline", "list", "command", "redirected_statement") or first_is_right:
                self.visit(child, blocks, depth + 1, background or ended)
            elif child.type != "heredoc_body":
                self.expansions(child, blocks, depth + 1, background or ended)

    def conditional(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        """``if``/``elif``/``else``: each arm is a branch of the same key."""
        branch, condition, inside = 0, "", None
        parts = followed(node.children)[::-1]
        while parts:
            child, ended = parts.pop()
            if child.type in ("if", "elif"):
                condition, inside = "", None
            elif child.type in ("then", "else"):
                condition = "else of " + condition if child.type == "else" else condition
                inside = (*blocks, self.block("if", node, branch, condition))
            elif child.type in ("elif_clause", "else_clause"):
                branch += 1
                parts += followed(child.children)[::-1]
            elif inside is not None:
                self.visit(child, inside, depth + 1, background or ended)
            else:
                condition = condition or (self.source(child)[:_MAX_TEXT] if child.is_named else "")
                self.visit(child, blocks, depth + 1, background or ended)

    def loop(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        body = node.child_by_field_name("body")
        header = self.text[self.at(node.start_byte) : self.at(body.start_byte if body is not None else node.end_byte)]
        inside = (*blocks, self.block("loop", node, 0, header.rstrip().rstrip(";")))
        variable = node.child_by_field_name("variable")
        if variable is not None:
            values = node.children_by_field_name("value")
            start = self.at(variable.start_byte)
            choices = None
            if values:
                first, last = self.at(values[0].start_byte), self.at(values[-1].end_byte)
                choices = self.reader.array(first, last)
            self.found.assignments.append(
                Assignment(self.source(variable), self.fragment, start, start, choices=choices, blocks=inside)
            )
            for value in values:
                self.expansions(value, blocks, depth + 1, background)
            if body is not None:
                self.visit(body, inside, depth + 1, background)
        else:
            self.children(node, inside, depth, background)

    def case(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        subject = node.child_by_field_name("value")
        text = self.source(subject) if subject is not None else ""
        for branch, item in enumerate(child for child in node.children if child.type == "case_item"):
            pattern = " | ".join(self.source(value) for value in item.children_by_field_name("value"))
            inside = (*blocks, self.block("case", node, branch, f"{text} in {pattern}"))
            self.children(item, inside, depth, background)

    def list(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        """``a && b``: b hangs on a only where a is a test (``cd x && make`` is just a sequence); ``||`` always does."""
        (left, ended), *rest = followed(node.children)
        joined = any(child.type == "||" for child, _ in rest)
        self.visit(left, blocks, depth + 1, background or ended)
        inside, test = blocks, self.source(left)[:_MAX_TEXT]
        if joined:
            inside = (*blocks, self.block("or", node, 1, test))
        elif any(_TESTS.match(part) for part in re.split(r"&&|\|\|", test)):
            inside = (*blocks, self.block("and", node, 1, test))
        for child, ended in rest:
            self.visit(child, inside, depth + 1, background or ended)

    def function(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        # An ``&`` behind the definition runs nothing; what the calls of the function say is not followed.
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return
        self.functions[self.source(name)] = self.fragment.span(self.at(name.start_byte), self.at(name.end_byte))
        self.visit(body, (*blocks, self.block("function", node, 0, self.source(name))), depth + 1)

    def subshell(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        kind = "subshell" if node.type == "subshell" else "substitution"
        self.children(node, (*blocks, self.block(kind, node, 0, "")), depth, background)

    def pipeline(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        """Members of a pipeline run in subshells; a simple command knows the one it writes to."""
        last: int | None = None
        for branch, child in enumerate(node.named_children):
            start = self.at(child.start_byte)
            known = start in self.found.commands
            self.visit(child, (*blocks, self.block("pipe", node, branch, "")), depth + 1, background)
            here = start if not known and start in self.found.commands else None
            if here is not None and last is not None:
                self.found.commands[last].links["to"] = self.found.commands[here]
                self.found.commands[here].links["from"] = self.found.commands[last]
            last = here

    def compound(self, node: Node, blocks: tuple[Block, ...], depth: int, background: bool) -> None:
        """``{ ...; }`` and ``((i++))``."""
        if node.children and node.children[0].type == "((":
            start, end = self.at(node.start_byte), self.at(node.end_byte)
            for match in _ARITHMETIC_NAME.finditer(self.text, start, end):
                if match.group(0) != match.group(1):
                    self.found.unknown(match.group(1), start, end, blocks)
        self.children(node, blocks, depth, background)


def _opens_most(text: str) -> int:
    return max(line.count("<<") for line in text.split("\n"))


_COMPOUND = {
    "if_statement": Walker.conditional,
    "for_statement": Walker.loop,
    "c_style_for_statement": Walker.loop,
    "while_statement": Walker.loop,
    "case_statement": Walker.case,
    "list": Walker.list,
    "function_definition": Walker.function,
    "subshell": Walker.subshell,
    "command_substitution": Walker.subshell,
    "process_substitution": Walker.subshell,
    "pipeline": Walker.pipeline,
    "compound_statement": Walker.compound,
}
