"""Rows of models from settings and plugins: what they change, and how mistakes in them are reported."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest

from gpulint import plugins
from gpulint.cli import main
from gpulint.documents.specs.gpu_syntax import PARSERS
from gpulint.hooks import hookimpl
from gpulint.libraries import BUILT_IN, FILES, kind_of_rows
from gpulint.libraries.jobs import GpuSyntax

ROW = """
name = "launchpad"
requires = ["launchpad.run", "flavor"]
gpus = { at = "flavor", syntax = "count-of-model" }
commands = "launchpad.run"
"""
JOB = """\
flavor: A100:8
launchpad:
  run: |
    pip install -r requirements.txt
    python train.py
"""


def scan(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[tuple[str, int]], str]:
    """Exit code, code and line of each finding, and standard error."""
    code = main(["scan", "--impact", "low", "--output-format", "json", str(folder), *more])
    out, error = capsys.readouterr()
    return code, [(found["code"], found["line"]) for found in json.loads(out)] if out else [], error


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def test_without_a_row_the_job_is_unknown(tree: Path, capsys: Any) -> None:
    assert scan(tree, capsys)[:2] == (0, [])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("gpulint.toml", f"[[models.format]]{ROW}"),
        ("gpulint.toml", 'models = ["rows.toml"]\n'),
        ("gpulint.toml", '[models]\nfiles = ["rows.toml"]\n'),
        ("pyproject.toml", f"[[tool.gpulint.models.format]]{ROW}"),
        ("pyproject.toml", '[tool.gpulint]\nmodels = ["rows.toml"]\n'),
    ],
)
def test_rows_of_the_settings(tree: Path, capsys: Any, settings: str, text: str) -> None:
    (tree / settings).write_text(text)
    (tree / "rows.toml").write_text(f"[[format]]{ROW}")
    assert scan(tree, capsys)[:2] == (1, [("GPU401", 4)])


def test_a_row_takes_over_from_one_of_gpulint(tree: Path, capsys: Any) -> None:
    row = 'name = "mine"\nextends = "skypilot"\nrequires = ["launchpad"]\ncommands = "launchpad.run"\n'
    (tree / "gpulint.toml").write_text(f"[[models.format]]\n{row}")
    (tree / "job.yaml").write_text(JOB.replace("flavor", "resources: {accelerators").replace(":8", ":8}"))
    assert scan(tree, capsys)[:2] == (1, [("GPU401", 4)])


@pytest.mark.parametrize(
    ("rows", "line", "message"),
    [
        (f"[[format]]{ROW}gpu = 3\n", 6, "'gpu' is unknown; did you mean 'gpus'?"),
        (f"[[format]]{ROW}\n[[format]]\nname = 1\n", 8, "'name' must be a string, not 1"),
        ('[[format]]\nname = "x"\n', 1, "'requires' is missing"),
        ('[[format]]\nname = "x"\nrequires = "a["\n', 3, "'requires' is no path: unexpected the end in 'a['"),
        (
            '[[format]]\nname = "x"\nrequires = "a"\ngpus = {at = "b", syntax = "c"}\n',
            4,
            "'gpus.syntax' must be one of",
        ),
        ('[[format]]\nname = "x"\nrequires = "a"\nextends = "b"\n', 4, "'extends' names no row before this one: 'b'"),
        (
            '[[new-api]]\nwritten = ["persistent_workers="]\npackages = ["torch"]\nsince = "new"\n',
            4,
            "'since' must be a release such as '1.7', not 'new'",
        ),
        ("[[formats]]\n", 1, "unknown kind of rows 'formats'; did you mean 'format'?"),
        ('format = "x"\n', 1, "must be a table"),
    ],
)
def test_a_wrong_row_is_named_by_file_line_and_field(
    tree: Path, capsys: Any, rows: str, line: int, message: str
) -> None:
    (tree / "gpulint.toml").write_text('models = ["rows.toml"]\n')
    (tree / "rows.toml").write_text(rows)
    code, _, error = scan(tree, capsys)
    assert code == 2
    assert f"{tree / 'rows.toml'}:{line}: " in error
    assert message in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = 3\n", "'models' must be a list of files, or a table of rows"),
        ("models = [3]\n", "'models' must be a list of files, or a table of rows"),
        ('models = ["../rows.toml"]\n', "which is not in the folder of the settings file"),
        ('models = ["none.toml"]\n', "cannot be read: No such file"),
        ('models = ["job.yaml"]\n', "not valid TOML"),
    ],
)
def test_a_wrong_setting(tree: Path, capsys: Any, text: str, message: str) -> None:
    (tree / "gpulint.toml").write_text(text)
    code, _, error = scan(tree, capsys)
    assert code == 2
    assert message in error


def test_the_cache_notices_changed_rows(tree: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULINT_CACHE_DIR", str(tree / "cache"))
    (tree / "gpulint.toml").write_text('models = ["rows.toml"]\n')
    (tree / "rows.toml").write_text(f"[[format]]{ROW}")
    assert scan(tree, capsys)[1] == scan(tree, capsys)[1] == [("GPU401", 4)]
    (tree / "rows.toml").write_text(f"[[format]]{ROW}".replace("launchpad.run", "launchpad.none"))
    assert scan(tree, capsys)[1] == []


def test_the_settings_are_shown_by_name(tree: Path, capsys: Any) -> None:
    (tree / "gpulint.toml").write_text(f"[[models.format]]{ROW}")
    main(["config", "show", "--output-format", "json", str(tree)])
    assert json.loads(capsys.readouterr().out)["settings"]["models"]["value"] == {"format": ["launchpad"]}


def plugin(name: str, *items: object) -> types.ModuleType:
    module = types.ModuleType(name)
    module.gpulint_models = hookimpl(lambda: list(items))  # type: ignore[attr-defined]
    return module


def test_rows_of_plugins(tmp_path: Path) -> None:
    (tmp_path / "rows.toml").write_text(f"[[format]]{ROW}")
    table = {"format": [{"name": "other", "requires": ["a"]}]}
    loaded = plugins.load([plugin("good", tmp_path / "rows.toml", table)])
    assert [row.name for row in loaded.models["format"]] == ["launchpad", "other"]
    assert not loaded.failures


def test_a_wrong_row_costs_the_rows_of_its_plugin_alone(tmp_path: Path) -> None:
    (tmp_path / "rows.toml").write_text(f"[[format]]{ROW}gpu = 3\n")
    right = {"format": [{"name": "right", "requires": ["a"]}]}
    loaded = plugins.load([plugin("bad", right, tmp_path / "rows.toml"), plugin("worse", 3), plugin("good", right)])
    assert [row.name for row in loaded.models["format"]] == ["right"]
    reasons = {failure.name: failure.reason for failure in loaded.failures}
    assert reasons["bad"] == f"{tmp_path / 'rows.toml'}:6: format: 'gpu' is unknown; did you mean 'gpus'?"
    assert reasons.keys() == {"bad", "worse"}


@pytest.mark.parametrize("kind", FILES)
def test_each_kind_has_a_schema_and_rows_with_a_name_of_their_own(kind: str) -> None:
    labels = [row.label for row in BUILT_IN.rows(kind)]
    assert labels
    assert all(isinstance(row, kind_of_rows(kind)) for row in BUILT_IN.rows(kind))


def test_each_gpu_syntax_has_a_parser() -> None:
    assert set(GpuSyntax.__args__) == set(PARSERS)  # type: ignore[attr-defined]


ROWS_AND_CODE = {
    "installer": (
        '[[models.installer]]\nprograms = "acme-get"\nverbs = "bring"\n',
        "# train.sh\n#SBATCH --gres=gpu:8\nacme-get bring wheels\npython train.py\n",
        "GPU401",
    ),
    "downloader": (
        '[[models.downloader]]\nprograms = "acme-data"\n',
        "# train.sh\n#SBATCH --gres=gpu:8\nacme-data faces\npython train.py\n",
        "GPU331",
    ),
    "hub-program": (
        '[[models.hub-program]]\nprograms = "acme-tune"\nmodels = "--base"\n',
        "# train.sh\n#SBATCH --gres=gpu:8\nacme-tune --base acme/seven-b\n",
        "GPU331",
    ),
    "launcher": (
        '[[models.launcher]]\nprograms = "acme-start"\nruns = "python"\ndistributed = true\ntraining = true\n'
        'processes = "ranks"\n',
        "# train.sh\n#SBATCH --gres=gpu:8\nacme-start --ranks 4 train.py\n",
        "GPU103",
    ),
    "scheduler": (
        '[[models.scheduler]]\nname = "acme"\nprefix = "#ACME"\nresources = { options = "want", gpus = "card" }\n',
        "# train.sh\n#ACME --want=card=8,memory=64\ntorchrun --nproc_per_node 4 train.py\n",
        "GPU103",
    ),
    "sdk-download": (
        '[[models.sdk-download]]\nmethods = "obtain"\nof = "acme.Store"\n',
        'import acme\n\nacme.Store().obtain("faces")\nfor x in loader:\n    model(x.cuda()).sum().backward()\n'
        "    optimizer.step()\n",
        "GPU331",
    ),
    "submitter": (
        '[[models.submitter]]\nprograms = "acme-run"\ngpus = "--cards"\nlast = true\n',
        '# train.sh\nacme-run --cards 4 "pip install peft; python train.py"\n',
        "GPU401",
    ),
    "loader": (
        '[[models.loader]]\nclasses = "acme.FastFeed"\nsignature = ["dataset", "batch_size"]\n',
        "from acme import FastFeed\n\nfor x in FastFeed(data, 64):\n    model(x.cuda()).sum().backward()\n",
        "GPU301",
    ),
    "mover": (
        '[[models.mover]]\nname = "acme"\nmethods = "learn"\nof = "acme.Coach"\n',
        "from acme import Coach\nfrom torch.utils.data import DataLoader\n\ncuda = True\n"
        "Coach(model).learn(DataLoader(data, batch_size=64))\n",
        "GPU301",
    ),
    "hook": (
        '[[models.hook]]\nname = "acme"\nbases = "acme.Course"\nstep = "lesson"\nbatch = "on-gpu"\n'
        '[[models.library]]\nname = "acme"\ngpu-words = "acme"\ncompute-words = "lesson"\n',
        "from acme import Course\n\n\nclass Mine(Course):\n    def lesson(self, batch):\n"
        "        self.total += batch.sum().item()\n",
        "GPU305",
    ),
    "sync": (
        '[[models.sync]]\ncalls = "acme.settle"\nkind = "barrier"\n',
        "import acme\n\nfor x in loader:\n    model(x.cuda()).sum().backward()\n    optimizer.step()\n    acme.settle()\n",
        "GPU305",
    ),
    "saver": (
        '[[models.saver]]\ncalls = "acme.persist"\npath = "where"\nposition = 1\n',
        "import acme\n\nfor epoch in range(9):\n    for x in loader:\n        model(x.cuda()).sum().backward()\n"
        '        optimizer.step()\n        acme.persist(model, "s3://bucket/model")\n',
        "GPU211",
    ),
    "upload": (
        '[[models.upload]]\ncalls = "acme.ship"\n',
        "import acme\n\nfor x in loader:\n    model(x.cuda()).sum().backward()\n    optimizer.step()\n    acme.ship(out)\n",
        "GPU341",
    ),
    "download": (
        '[[models.download]]\ncalls = "acme.obtain"\norigin = "Acme"\n',
        'import acme\n\ndata = acme.obtain("faces")\nfor x in loader:\n    model(x.cuda()).sum().backward()\n'
        "    optimizer.step()\n",
        "GPU331",
    ),
    "collective": (
        '[[models.collective]]\nmodules = "acme."\nreductions = "pool_over_ranks"\n',
        "import acme\n\nfor x in loader:\n    loss = model(x.cuda()).sum()\n    loss.backward()\n    optimizer.step()\n"
        "    shown = acme.pool_over_ranks(loss)\n    print(shown)\n",
        "GPU354",
    ),
}
"""A row of the kind, a program, and the rule that finds something in it because of the row."""


@pytest.mark.parametrize("kind", ROWS_AND_CODE)
def test_a_row_of_the_user_makes_a_finding(kind: str, tmp_path: Path, capsys: Any) -> None:
    rows, code, rule = ROWS_AND_CODE[kind]
    (tmp_path / ("train.sh" if code.startswith("# train.sh") else "train.py")).write_text(code)
    assert rule not in {found for found, _ in scan(tmp_path, capsys)[1]}
    (tmp_path / "gpulint.toml").write_text(rows)
    assert rule in {found for found, _ in scan(tmp_path, capsys)[1]}


def test_a_layer_without_weights_makes_no_model_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A small checkpoint on a mount, once per epoch, is no finding."""
    (tmp_path / "train.py").write_text(
        "import torch\nfrom acme import Wave\n\nmodel = torch.nn.Sequential(torch.nn.Linear(8, 2), Wave())\n"
        "for epoch in range(9):\n    for x in loader:\n        model(x.cuda()).sum().backward()\n"
        "        optimizer.step()\n    torch.save(model.state_dict(), '/mnt/blob/model.pt')\n"
    )
    assert scan(tmp_path, capsys, "--select", "GPU211")[1] == [("GPU211", 9)]
    row = '[[models.layers-without-weights]]\nmodules = "acme"\nnames = "Wave"\n'
    (tmp_path / "gpulint.toml").write_text(row)
    assert scan(tmp_path, capsys, "--select", "GPU211")[1] == []


def test_a_package_that_others_copy_is_not_the_users_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = tmp_path / "tools" / "acme"
    package.mkdir(parents=True)
    (package / "train.py").write_text(
        "import torch\n\nmodel = torch.nn.Conv2d(3, 8, 3).cuda()\nfor x in loader:\n"
        "    model(x.cuda()).sum().backward()\n    optimizer.step()\n    torch.cuda.empty_cache()\n"
    )
    assert scan(tmp_path, capsys, "--impact", "medium", "--select", "GPU207")[1] == [("GPU207", 7)]
    (tmp_path / "gpulint.toml").write_text('[[models.library]]\nname = "acme"\ncopied-packages = "acme"\n')
    assert scan(tmp_path, capsys, "--impact", "medium", "--select", "GPU207")[1] == []
