"""The byte gate saves time and changes nothing that is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("job", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_findings_are_those_of_the_reference_without_a_gate(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["scan", "--no-cache", "--select", "ALL", "--output-format", "json", str(EXAMPLES / job)]
    main(options)
    gated = capsys.readouterr()
    main([*options, "--no-gate"])
    assert capsys.readouterr() == gated


def test_a_syntax_error_is_reported_where_a_rule_could_fire_or_the_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.py"
    path.write_text("x = (\n")
    assert main(["scan", str(tmp_path)]) == 0
    assert "syntax error" not in capsys.readouterr().err
    assert main(["scan", str(path)]) == 1
    assert "settings.py:1:5: error: syntax error" in capsys.readouterr().err
    path.write_text("from torch.utils.data import DataLoader\nx = (\n")
    assert main(["scan", str(tmp_path)]) == 1
    assert "syntax error" in capsys.readouterr().err


def test_a_cell_that_is_one_string_is_read_like_one_of_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "from clip import *\n",
        "load('ViT-B/32')\n",
        "loss = net.cuda()(x)\n",
        "loss.backward()\n",
    ]
    for name, source in (("lines", lines), ("string", "".join(lines))):
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(notebook))
    main(["scan", "--no-cache", "--select", "GPU331", "--output-format", "concise", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "lines.ipynb" in shown
    assert "string.ipynb" in shown


def test_pictures_between_cells_hide_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBORw0KGgo" * 1000 + "\n"}}
    lines = [
        "from torch.utils.data import DataLoader",
        "for batch in DataLoader(data):\n    model(batch.cuda()).backward()",
    ]
    cells = [
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [picture], "source": [line]}
        for line in lines
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    main(("scan", "--isolated", "--no-cache", "--select", "GPU301", "--output-format", "json", str(tmp_path)))
    assert [item["code"] for item in json.loads(capsys.readouterr().out)] == ["GPU301"]
