"""The parts of a job file: which of them run before others, which hold GPUs, and how one is put before another."""

from __future__ import annotations

from typing import Any

from gpulint.documents import Document
from gpulint.documents.specs.lookup import Found, every, text
from gpulint.documents.yamltree import Node
from gpulint.fix import Edit
from gpulint.libraries import jobs
from gpulint.records import dataclass
from gpulint_fixers.edits.yaml_items import before_item, is_inside, plain, with_pair, with_value

_CANNOT = "the parts of the file are not written with dashes, in lines of their own"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A Job of a set, or a task of a pipeline."""

    node: Node
    name: str
    after: Node
    """What it waits for, as written; missing if nothing."""
    done: tuple[str, ...]
    """The parts that have ended when it starts."""
    holds_gpus: bool


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """All parts of a YAML document."""

    document: Document
    root: Node
    row: jobs.Parts
    items: tuple[Part, ...]

    def at(self, line: int) -> Part | None:
        """The part that is written on a line."""
        return next((one for one in self.items if one.node.span.line <= line <= one.node.span.end_line), None)

    def before(self, part: Part) -> list[Part]:
        """The parts without GPUs that have ended when another one starts."""
        return [one for one in self.items if one.name in part.done and not one.holds_gpus]

    def stage_of(self, part: Part) -> str:
        """The name of what prepares a part."""
        return f"{part.name}{self.row.suffix}"

    def refusal(self, part: Part) -> str | None:
        """Return why no part can be put before another one."""
        if part.name.endswith(self.row.suffix):
            return "it is a stage before another part already"
        if self.stage_of(part) in {one.name for one in self.items}:
            return f"{self.row.called} {self.stage_of(part)} exists already"
        return None


def read(document: Document, root: Node, row: jobs.Parts) -> Parts:
    """The parts of a YAML document, in the order in which they are written."""
    holders = [
        task.span for task in document.tasks if task.resources.gpus is not None and task.resources.gpus.value != 0
    ]
    items = [
        Part(
            found.node,
            text(found, row.name),
            found.node.at(row.after),
            _done(found, row),
            any(found.node.span.line <= span.line <= found.node.span.end_line for span in holders),
        )
        for found in every(Found(root), row.each)
    ]
    return Parts(document, root, row, tuple(items))


def _done(part: Found, row: jobs.Parts) -> tuple[str, ...]:
    """The parts that have ended when one starts."""
    named = [item.node.text for item in every(part, row.done)] if row.done else []
    if row.reference:
        names = [text(found, row.name) for found in every(part.root, row.each)]
        named += [name for name in names if row.reference.format(name=name) in part.node.written]
    return tuple(named)


def put_before(parts: Parts, part: Part, content: dict[str, Any]) -> list[Edit] | str:
    """The edits that add a part, and make another one wait for its end."""
    document, row = parts.document, parts.row
    if any(not one.name or not is_inside(one.node, parts.root) for one in parts.items):
        return _CANNOT
    joins = row.joins and not part.after
    waiting = [one for one in parts.items if not one.after] if joins else [part]
    after = {row.after: plain(part.after)} if part.after else {}
    new = {"name": parts.stage_of(part), **after, **content}
    value = row.waits.format(name=parts.stage_of(part))
    made = [before_item(document, parts.items[0].node if joins else part.node, [new])]
    for one in waiting:
        made.append(
            with_value(document, one.node, row.after, value)
            if one.after
            else with_pair(document, one.node, row.name, f"{row.after}: {value}")
        )
    edits = [edit for edit in made if edit is not None]
    return edits if len(edits) == len(made) else _CANNOT
