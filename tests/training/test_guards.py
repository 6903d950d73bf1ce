"""Conditions around a statement, and variables set in any kind of document."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpulint.programs.environment_variables import settings
from gpulint.project import Project
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import ModuleIndex
from tests.trees import Tree


def asked(root: Path, code: str) -> tuple[Project, ModuleIndex, ast.Call]:
    """The project of one module and its only ``look()`` call."""
    made = Tree(root, {"main.py": code})
    (call,) = made.module().calls_by_name["look"]
    return made.project, made.module(), call


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("for i in x:\n    if i % 100 == 0:\n        look()", True),
        ("for i in x:\n    if i % 100:\n        continue\n    look()", True),
        ("for i in x:\n    look() if i % 100 == 0 else None", True),
        ("for i in x:\n    i % 100 == 0 and look()", True),
        ("for i in x:\n    if i == 0:\n        look()", True),
        ("for i in x:\n    if i % every == 0:\n        look()", True),
        ("every = 1\nfor i in x:\n    if i % every == 0:\n        look()", False),
        ("for i in x:\n    look()\n    if i % 100 == 0:\n        other()", False),
        ("for i in x:\n    if ready:\n        look()", False),
        ("def f():\n    look()\nfor i in x:\n    if i % 100 == 0:\n        f()", False),
        ("log = False\nfor i in x:\n    if i % 100 == 0:\n        log = True\n    if log:\n        look()", True),
        ("log = False\nfor i in x:\n    if i % 100 == 0:\n        log = True\n    if not log:\n        look()", False),
        (
            "log = False\nfor i in x:\n    if i % 100 == 0:\n        log = True\n    if not log:\n        continue\n    look()",
            True,
        ),
        ("logged = log = False\nfor i in x:\n    if not log:\n        look()\n        log = True", False),
        ("log = False\nfor i in x:\n    if log:\n        look()\n        log = True", False),
        ("for i in x:\n    log = not log\n    if log:\n        look()", False),
        ("for i in x:\n    if i // log_steps == last:\n        break\n    look()", False),
        ("for i in x:\n    if i // log_steps == last:\n        continue\n    look()", True),
        ("for i in x:\n    if i // log_steps != last:\n        look()\n        break", True),
        ("def f(log=False):\n    if log:\n        look()\n    f(log=not log)", False),
    ],
)
def test_periodic(tmp_path: Path, code: str, expected: bool) -> None:
    project, module, call = asked(tmp_path, code)
    assert project.fact(Guards).is_periodic(module, call) is expected


OFF = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--trace', action='store_true')\nargs = p.parse_args()\n"
OF_FILE = (
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('--file', default='')\nargs = p.parse_args()\n"
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (OFF + "if args.trace:\n    look()", True),
        (OFF + "if args.trace and other:\n    look()", True),
        (OFF + "if not args.trace:\n    look()", False),
        (OFF + "if args.trace or other:\n    look()", False),
        (OFF + "if args.trace:\n    pass\nelse:\n    look()", False),
        (OF_FILE + "if args.file != '':\n    look()", True),
        (OF_FILE + "if args.file == '':\n    pass\nelse:\n    look()", True),
        (OF_FILE + "if args.file == '':\n    look()", False),
        ("if unknown:\n    look()", False),
    ],
)
def test_off_by_default(tmp_path: Path, code: str, expected: bool) -> None:
    project, module, call = asked(tmp_path, code)
    assert project.fact(Guards).is_off_by_default(module, call) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import torch\nwith torch.no_grad():\n    look()", True),
        ("from torch import inference_mode as im\n@im()\ndef f():\n    look()", True),
        ("import torch\nwith torch.set_grad_enabled(False):\n    look()", True),
        ("import torch\nwith torch.set_grad_enabled(phase == 'train'):\n    look()", False),
        ("import torch\nwith torch.autocast('cuda'):\n    look()", False),
        ("look()", False),
    ],
)
def test_no_grad(tmp_path: Path, code: str, expected: bool) -> None:
    project, module, call = asked(tmp_path, code)
    assert project.fact(Guards).is_without_gradients(module, call) is expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", "import os\nos.environ['FLAG'] = '1'\n", [("1", 2, False)]),
        ("a.py", "import os as system\nsystem.environ.setdefault('FLAG', str(1))\n", [("1", 2, False)]),
        ("a.py", "import os\nif x:\n    os.environ['FLAG'] = value\n", [(None, 3, True)]),
        ("a.py", "import os\nos.environ.update({'FLAG': '1', 'OTHER': '2'})\n", [("1", 2, False)]),
        ("a.sh", "export FLAG=1\n", [("1", 1, False)]),
        ("a.sh", "A=1\nFLAG=$A python train.py\n", [("1", 2, False)]),
        ("a.sh", 'if [ -n "$X" ]; then\n  export FLAG=1\nfi\n', [("1", 2, True)]),
        ("a.sh", "env FLAG=0 python train.py\n", [("0", 1, False)]),
        ("a.sh", "srun --export=ALL,FLAG=1 python train.py\n", [("1", 1, False)]),
        ("a.sh", "echo FLAG\n# FLAG=1\n", []),
        ("Dockerfile", 'FROM x\nENV FLAG=1\nCMD ["python", "train.py"]\n', [("1", 2, False)]),
    ],
)
def test_environment_settings(
    tmp_path: Path, name: str, text: str, expected: list[tuple[str | None, int, bool]]
) -> None:
    project = Tree(tmp_path, {name: text}).project
    document = project.document(tmp_path / name)
    assert document is not None
    found = settings(document, project, frozenset({"FLAG"}))
    assert [(setting.value, setting.span.line, setting.conditional) for setting in found] == expected
