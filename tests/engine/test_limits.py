"""What goes past a limit of the analysis of Python counts as unknown, and a note says in which file."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from gpulint.cli import main

LOOP = """
    for step, batch in enumerate(DataLoader(dataset, batch_size=size)):
{exits}
        loss = model(batch.cuda())
        loss.backward()
        print(loss.item())
"""
HEAD = "import torch\nfrom torch.utils.data import DataLoader\n\n\ndef main(argv, dataset, model):\n"


def _assignments(count: int) -> str:
    lines = "".join(f"    if argv[{number}]:\n        size = {number + 1}\n" for number in range(count))
    return HEAD + "    size = 8\n" + lines + LOOP.format(exits="")


def _exits(count: int) -> str:
    lines = "\n".join(f"        if step == {number}:\n            continue" for number in range(count))
    return HEAD + "    size = 8\n" + LOOP.format(exits=lines)


def _loaders(count: int) -> str:
    lines = "".join(f"    if argv[{n}]:\n        loaders.append(DataLoader(dataset, {n + 1}))\n" for n in range(count))
    return (
        HEAD
        + "    loaders = []\n"
        + lines
        + "    for loader in loaders:\n        for batch in loader:\n            model(batch.cuda()).backward()\n"
    )


CASES = {
    "assignments": (_assignments, 61, "a name has more than 60 assignments that may reach one use"),
    "exits": (_exits, 51, "a block has more than 50 early exits"),
    "loaders": (_loaders, 101, "an expression may be any of more than 100 data loaders"),
}


def _scan(folder: Path, *options: str) -> tuple[list[tuple[str, str]], list[str]]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
        main(["scan", "--isolated", "--show-notes", "--output-format=json", *options, str(folder)])
    notes = [Path(path).name + text for path, text in re.findall(r"^(\S+): note(: .*)$", err.getvalue(), re.MULTILINE)]
    return [(Path(found["path"]).name, found["code"]) for found in json.loads(out.getvalue())], notes


@pytest.mark.parametrize("name", CASES)
def test_a_limit_is_a_note_on_its_file(name: str, tmp_path: Path) -> None:
    make, count, what = CASES[name]
    (tmp_path / "train.py").write_text(make(5))
    below = _scan(tmp_path, "--no-cache")
    (tmp_path / "train.py").write_text(make(count))
    (tmp_path / "other.py").write_text(make(5))
    found, notes = _scan(tmp_path, "--no-cache")
    assert below[1] == []
    assert notes == [f"train.py: {what}; not analyzed completely"]
    assert sorted(code for path, code in found if path == "other.py") == sorted(code for _, code in below[0])


def test_the_note_is_there_again_after_a_change_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULINT_CACHE_DIR", str(tmp_path / "cache"))
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "train.py").write_text(_assignments(61))
    (tree / "other.py").write_text(_assignments(5))
    first = _scan(tree)
    again = _scan(tree)
    (tree / "other.py").write_text(_assignments(6))
    changed = _scan(tree)
    assert first[1] == again[1] == changed[1] != []


def test_a_path_that_grows_by_itself_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import argparse\nimport os\nimport torch\n\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--folder", default="runs")\nargs = parser.parse_args()\n'
        'if args.linear:\n    args.folder = os.path.join(args.folder, "linear")\n'
        'else:\n    args.folder = os.path.join(args.folder, "whole", "mixup" if args.mixup else "plain")\n'
        "model = torch.nn.Linear(4096, 4096).cuda()\n"
        "for epoch in range(90):\n    for batch in loader:\n        model(batch.cuda()).sum().backward()\n"
        '    torch.save(model.state_dict(), os.path.join(args.folder, "last.pt"))\n'
    )
    found, notes = _scan(tmp_path, "--no-cache", "--impact=low")
    assert ("train.py", "GPU211") in found
    assert "train.py: an expression has more than 100 values; not analyzed completely" in notes
