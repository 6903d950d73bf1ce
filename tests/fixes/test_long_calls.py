"""Calls whose line becomes too long are broken, and keep all that a fix adds to them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from gpulint_fixers.edits.calls import set_keyword, with_keywords
from gpulint_fixers.edits.long_calls import broken

from gpulint.documents.python import PythonModule
from gpulint.edits import apply
from gpulint.fix import Edit
from gpulint.source import SourceText

LONG = "source_images = source_samples_of_this_round[0].to(self.device_of_the_client, dtype=torch.float32)\n"
CONVERTED = (
    "result = compute_outputs_of_network(first_images.float().cuda(), second_images_of_this_round.float().cuda())\n"
)
HANGING = "f(\n    a,\n    b,\n)\n"


def module(text: str) -> PythonModule:
    return PythonModule(Path("train.py"), text, SourceText(text).span)


def calls(made: PythonModule, name: str) -> list[ast.Call]:
    return [
        node for node in ast.walk(made.tree) if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(name)
    ]


@pytest.mark.parametrize("more", ["", HANGING])
def test_a_keyword_of_the_call_itself_is_kept(more: str) -> None:
    made = module(LONG + more)
    (call,) = calls(made, ".to")
    edits = broken(made, [set_keyword(made, call, "non_blocking", "torch.cuda.is_available()")])
    new = apply(made.source.text, edits)
    assert "non_blocking=torch.cuda.is_available()" in new
    assert all(len(line) <= 120 for line in new.splitlines())


def test_what_moves_behind_an_argument_is_kept() -> None:
    made = module(CONVERTED)
    edits = []
    for call in calls(made, ".cuda"):
        start, end = made.offsets(call)
        at = made.source.text.index(".float()", start)
        edits += [
            set_keyword(made, call, "non_blocking", "True"),
            Edit(made.path, made.span_at(at, at + len(".float()")), ""),
            Edit(made.path, made.span_at(end, end), ".float()"),
        ]
    assert apply(made.source.text, broken(made, edits)) == (
        "result = compute_outputs_of_network(\n"
        "    first_images.cuda(non_blocking=True).float(),\n"
        "    second_images_of_this_round.cuda(non_blocking=True).float(),\n"
        ")\n"
    )


def test_a_keyword_beside_what_moves_behind_the_last_argument() -> None:
    made = module(LONG + HANGING)
    (call,) = calls(made, ".to")
    end = made.offsets(call.keywords[-1])[1]
    behind = Edit(made.path, made.span_at(end, end), ".real")
    edits = with_keywords(made, call, (behind,), "non_blocking=True", "memory_format=torch.channels_last")
    assert apply(made.source.text, edits).startswith(
        "source_images = source_samples_of_this_round[0].to(\n"
        "    self.device_of_the_client,\n"
        "    dtype=torch.float32.real,\n"
        "    non_blocking=True,\n"
        "    memory_format=torch.channels_last,\n"
        ")\n"
    )
