"""The file of a command job of Azure ML as that of a pipeline whose last step is the job."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Any

from gpulint import edits as texts
from gpulint.documents import Document
from gpulint.documents.yamltree import Node
from gpulint.fix import Edit
from gpulint_fixers.edits.yaml_items import dumped, is_inside

_OF_PIPELINE = ("$schema", "type", "name", "display_name", "experiment_name", "description", "tags")
_INDENT = "    "


def name_of(command: str) -> str:
    """A name for the step that runs a command: that of its program."""
    programs = re.findall(r"([\w./-]{1,200})\.py\b", command)
    name = re.sub(r"\W", "_", posixpath.basename(programs[-1])) if programs else "train"
    return name if re.match(r"[A-Za-z_]", name) else "train"


def as_pipeline(
    document: Document, root: Node, changes: Sequence[Edit], name: str, steps: dict[str, Any]
) -> Edit | None:
    """Write the whole job as a step after ``steps``; ``changes`` are those within the job.

    All that says what a job is and how it runs goes along, line by line, and what names it stays.
    """
    source = document.source
    pairs = list(root.pairs())
    if any(key.span.column != 1 or not root.start <= key.start for key, _ in pairs) or root.start != pairs[0][0].start:
        return None
    heads = [_head(document, key.span.line) for key, _ in pairs]
    bounds = sorted({*heads, len(source.line_starts) + 1})
    if len(heads) != len(set(heads)) or "\r" in source.text:
        return None
    outputs = _outputs(root)
    if outputs is None:
        return None
    top, own = list[str](), list[str]()
    for (key, _), first in zip(pairs, heads, strict=True):
        last = bounds[bounds.index(first) + 1]
        start, end = source.offset(first, 1), _offset(document, last)
        inside = [one for one in changes if first <= one.span.line < last]
        text = texts.apply(source.text[:end], inside)[start:].rstrip("\n") + "\n"
        if key.text == "outputs" and outputs:
            top.append(text)
            text = dumped({"outputs": {one: f"${{{{parent.outputs.{one}}}}}" for one in outputs}})
        if key.text in _OF_PIPELINE:
            top.append(_as_top(key.text, text))
        else:
            own.append("".join(f"{_INDENT}{line}" if line.strip() else line for line in text.splitlines(keepends=True)))
    if not any(key.text == "type" for key, _ in pairs):
        top.insert(1 if pairs[0][0].text == "$schema" else 0, "type: pipeline\n")
    stage = "".join(f"  {line}" if line.strip() else line for line in dumped(steps).splitlines(keepends=True))
    head = source.text[: source.offset(heads[0], 1)]
    text = f"{head}{''.join(top)}jobs:\n{stage}  {name}:\n{_INDENT}type: command\n{''.join(own)}"
    return Edit(document.path, source.span(0, len(source.text)), text)


def _outputs(root: Node) -> tuple[str, ...] | None:
    """The outputs that the job declares, which stay those of the whole; None if that cannot be read."""
    key, outputs = root.pair("outputs")
    if not key or (not outputs and not outputs.written.strip()):
        return ()
    return tuple(outputs.fields) if outputs.kind == "map" and is_inside(outputs, root) else None


def _as_top(key: str, text: str) -> str:
    if key == "type":
        return re.sub(r"^(type:\s*[\"']?)command\b", r"\1pipeline", text, flags=re.MULTILINE)
    if key == "$schema":
        return re.sub(r"commandJob(\.schema\.json)", r"pipelineJob\1", text)
    return text


def _head(document: Document, line: int) -> int:
    """The first of the comment lines right above a line."""
    while line > 2 and document.source.line(line - 1).startswith("#"):
        line -= 1
    return line


def _offset(document: Document, line: int) -> int:
    source = document.source
    return source.offset(line, 1) if line <= len(source.line_starts) else len(source.text)
