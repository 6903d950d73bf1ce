"""Programs that import modules of their own which the tree does not have cost little: nobody can run them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, levels

ROOT = {
    "net.py": "",
    "lib/__init__.py": "",
    "lib/unet.py": "class UNet:\n    pass\n",
    "train.py": "from lib.unet import UNet\n\nprint(UNet)\n",
    "tests_of_lib.py": "import lib.unet\n",
    "lib/ops.cpp": "PYBIND11_MODULE(fused_ops, m) {}\n",
}


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("from lib.unet import UNet", "high"),
        ("from lib.res2net import Network", "low"),  # of a package that others use
        ("from lib.fused_ops import forward", "high"),  # an extension that is built
        ("from lib.config_pb2 import Config", "low"),
        ("from lib.local_paths import ROOT", "high"),  # on this disk only
        ("from models.vindlu import VindLU", "low"),  # of a package of another tree
        ("from dataloading.photos import Photos", "low"),
        ("from photo_reader.photos import Photos", "high"),  # maybe installed
        ("import sys\nsys.path.append('../other')\nfrom models.vindlu import VindLU", "high"),
        ("from timm.models import create_model", "high"),
        ("try:\n    from lib.res2net import Network\nexcept ImportError:\n    Network = None", "high"),
    ],
)
def test_a_program_cannot_start_whose_modules_are_missing(tmp_path: Path, line: str, level: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "local_paths.py").write_text("ROOT = '/data'\n")
    (tmp_path / ".gitignore").write_text("local_paths.py\n")
    assert levels(tmp_path, {**ROOT, "segment.py": f"{HEAD}{line}\n{IMAGES}{TRAINING}"}, "GPU303") == [level]


DEEP = {
    "net.py": "",
    "lib/__init__.py": "",
    "lib/nn/unet.py": "class UNet:\n    pass\n",
    "train.py": "from lib.nn.unet import UNet\n\nprint(UNet)\n",
}


@pytest.mark.parametrize(
    ("name", "files", "level"),
    [
        ("lib.nn.res2net", {}, "low"),
        ("lib.nn.unet", {}, "high"),
        ("lib.nn.local_paths", {}, "high"),  # on this disk only
        ("lib.blocks.res2net", {}, "high"),  # a whole folder may be kept elsewhere
        ("lib.nn.res2net", {"build.sh": "python make.py lib/nn/res2net.py\n"}, "high"),  # written before
        ("lib.nn.res2net", {"train.py": "print('no one imports from there')\n"}, "high"),
    ],
)
def test_a_module_is_missing_in_a_package_of_a_package(
    tmp_path: Path, name: str, files: dict[str, str], level: str
) -> None:
    (tmp_path / "lib" / "nn").mkdir(parents=True)
    (tmp_path / "lib" / "nn" / "local_paths.py").write_text("ROOT = '/data'\n")
    (tmp_path / ".gitignore").write_text("local_paths.py\n")
    program = f"{HEAD}from {name} import UNet\n{IMAGES}{TRAINING}"
    assert levels(tmp_path, {**DEEP, **files, "scripts/segment.py": program}, "GPU303") == [level]


def test_what_all_programs_import_is_somewhere_else(tmp_path: Path) -> None:
    """A repository that is a part of another is run from there."""
    files = {"net.py": "", "segment.py": f"{HEAD}from models.vindlu import VindLU\n{IMAGES}{TRAINING}"}
    assert levels(tmp_path, files, "GPU303") == ["low"]
    files |= {f"{name}.py": "from models.vindlu import VindLU\n" for name in ("new", "run")}
    assert levels(tmp_path, files, "GPU303") == ["high"]


REACHED = {
    "net.py": "",
    "tools/ema.py": "class Average:\n    pass\n",
    "train.py": "from tools.ema import Average\n\nprint(Average)\n",
}


@pytest.mark.parametrize(
    ("files", "level"),
    [
        ({}, "low"),
        ({"tools/run.py": "import models.segment\n"}, "high"),  # started in that folder
        ({"tools/ema.py": "class Other:\n    pass\n"}, "high"),  # maybe that of a package
        ({"models/ema.py": "class Average:\n    pass\n"}, "high"),
        ({"old/ema.py": "class Average:\n    pass\n"}, "high"),
        ({"train.py": "import sys\n\nsys.path.append('tools')\n"}, "high"),
        ({"train.py": "print('no one imports it by its folder')\n"}, "high"),
        ({"run.sh": "export PYTHONPATH=tools\npython models/segment.py\n"}, "high"),
    ],
)
def test_a_module_of_a_folder_that_no_program_is_in_is_not_there(
    tmp_path: Path, files: dict[str, str], level: str
) -> None:
    text = f"{HEAD}from ema import Average\n{IMAGES}{TRAINING}"
    assert levels(tmp_path, {**REACHED, **files, "models/segment.py": text}, "GPU303") == [level]


INSERT = "import os\nimport sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), {}))\n"
MORE = {f"src/part{number}.py": "" for number in range(4)} | {
    "net.py": "",
    "util/__init__.py": "",
    "util/timer.py": "class Timer:\n    pass\n",
}
OWN = "from util.timer import Timer\n"


@pytest.mark.parametrize(
    ("lines", "others", "level"),
    [
        (f"{OWN}from loader import read_rows", {}, "low"),
        (f"{INSERT.format(repr('..'))}{OWN}from loader import read_rows", {}, "low"),
        (f"{INSERT.format(repr('../../shared'))}{OWN}from loader import read_rows", {}, "high"),
        (f"sys.path.append(ROOT)\n{OWN}from loader import read_rows", {}, "high"),
        (f"{OWN}from loader import read_rows", {"run.sh": "PYTHONPATH=$PYTHONPATH:./src python a.py\n"}, "low"),
        (f"{OWN}from loader import read_rows", {"run.sh": "PYTHONPATH=/opt/shared python a.py\n"}, "high"),
        (f"{OWN}from loader import read_rows", {"src/loader.py": "def read_rows(): pass\n"}, "high"),
        (f"{OWN}from loader import read_rows", {".gitignore": "loader.py\n"}, "high"),
        (f"{OWN}from rowreader import read_rows", {}, "high"),  # maybe installed
        (f"{OWN}from config import ROWS", {}, "high"),  # on the author's disk
        ("from loader import read_rows", {}, "high"),  # nothing says from where it imports
    ],
)
def test_a_module_of_its_own_may_be_left_out(tmp_path: Path, lines: str, others: dict[str, str], level: str) -> None:
    files = {
        **MORE,
        **others,
        "src/segment.py": f"{lines}\n{HEAD.replace('net import Net', 'torch.nn import Linear as Net')}{IMAGES}{TRAINING}",
    }
    assert levels(tmp_path, files, "GPU303") == [level]
