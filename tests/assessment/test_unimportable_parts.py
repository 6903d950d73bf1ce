"""Functions and programs that cannot run because of what they import cost little: what a function needs is not there, a
relative import leaves its package, or two folders have to be the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, levels

PHOTOS = HEAD + IMAGES
CLASS, _, LOADER = PHOTOS.rpartition("\n\n")
LOOP = "".join(f"    {line}\n" for line in ("total = 0", *LOADER.splitlines(), *TRAINING.splitlines()))
REST = {f"part{number}.py": "" for number in range(4)}


@pytest.mark.parametrize(
    ("top", "first", "level"),
    [
        ("", "import Comparative_models.CE as CE", "low"),
        ("", "from Comparative_models.CE import Generator", "low"),
        ("", "import models.critic as critic", "low"),
        ("", "from lib.res2net import Network", "low"),
        ("import Comparative_models.CE as CE\n", "pass", "low"),
        ("", "import segmentation_models.base as base", "high"),  # maybe installed
        ("", "import comparative.critic as critic", "high"),
        ("", "try:\n        import Comparative_models.CE as CE\n    except ImportError:\n        pass", "high"),
        ("import sys\nsys.path.append('../other')\n", "import Comparative_models.CE as CE", "high"),
    ],
)
def test_a_function_ends_at_an_import_of_what_is_not_there(tmp_path: Path, top: str, first: str, level: str) -> None:
    files = {
        "net.py": "",
        **REST,
        "lib/__init__.py": "",
        "lib/unet.py": "class UNet:\n    pass\n",
        "show.py": "from lib.unet import UNet\n",
        "train.py": f"{top}{CLASS}\n\n\ndef compare():\n    {first}\n{LOOP}\n\ncompare()\n",
    }
    assert levels(tmp_path, files, "GPU303") == [level]


CALLED = "{photos}\n\n\ndef fit():\n{loop}\n\ndef compare():\n    {before}\n    fit()\n    {after}\n\ncompare()\n"


@pytest.mark.parametrize(("before", "after", "level"), [(True, False, "low"), (False, True, "high")])
def test_a_function_is_not_reached_behind_such_an_import(tmp_path: Path, before: bool, after: bool, level: str) -> None:
    failing = "import Comparative_models.CE as CE"
    text = CALLED.format(
        photos=CLASS, loop=LOOP, before=failing if before else "pass", after=failing if after else "pass"
    )
    assert levels(tmp_path, {"net.py": "", **REST, "train.py": text}, "GPU303") == [level]
    also = {"net.py": "", **REST, "train.py": f"{text}fit()\n"}
    assert levels(tmp_path, also, "GPU303") == ["high"]


PACKAGES = {
    "net.py": "",
    "vlbert/__init__.py": "",
    "vlbert/external/__init__.py": "",
    "vlbert/external/layers.py": "class Norm:\n    pass\n",
    "vlbert/common/__init__.py": "",
    "vlbert/common/bert.py": "from ..external.layers import Norm\n\n\nclass Bert(Norm):\n    pass\n",
    "vlbert/pretrain/__init__.py": "",
    "main.py": "from vlbert.common.bert import Bert\n\nprint(Bert)\n",
}


@pytest.mark.parametrize(
    ("line", "more", "level"),
    [
        ("from common.bert import Bert", {}, "low"),
        ("import common.bert", {}, "low"),
        ("from common import bert", {}, "low"),
        ("from pretrain.heads import Head", {"vlbert/pretrain/heads.py": "from common.bert import Bert\n"}, "low"),
        ("from .heads import Head", {"vlbert/pretrain/heads.py": "from common.bert import Bert\n"}, "low"),
        ("from vlbert.common.bert import Bert", {}, "high"),
        ("from ..common.bert import Bert", {}, "high"),
        ("try:\n    from common.bert import Bert\nexcept ImportError:\n    Bert = None", {}, "high"),
        ("from common.bert import Bert", {"old/common/bert.py": "class Bert:\n    pass\n"}, "high"),
        ("from common.bert import Bert", {"vlbert/common/bert.py": "from .layers import Norm as Bert\n"}, "high"),
    ],
)
def test_a_relative_import_leaves_the_package_of_a_shorter_name(
    tmp_path: Path, line: str, more: dict[str, str], level: str
) -> None:
    program = {"vlbert/pretrain/vis.py": f"{line}\n{PHOTOS}{TRAINING}"}
    files = {**PACKAGES, "vlbert/common/layers.py": "class Norm:\n    pass\n", **more, **program}
    assert levels(tmp_path, files, "GPU303") == [level]


COPIED = {
    "drums/net.py": "",
    "main.py": "from drums.utils import load\n\nprint(load)\n",
    "drums/__init__.py": "",
    "drums/README.md": "Run `python train.py`.\n",
    "drums/photos.py": "import drums.utils as utils\n\n\nclass Pairs:\n    pass\n",
    "drums/utils.py": "def load(path):\n    return path\n",
    "drums/models/tracker.py": "class Tracker:\n    pass\n",
}
BOTH = "from models.tracker import Tracker\nfrom photos import Pairs\n"


@pytest.mark.parametrize(
    ("lines", "more", "level"),
    [
        (BOTH, {}, "low"),
        ("import models.tracker\nimport drums.utils\n", {}, "low"),
        (BOTH, {"drums/photos.py": "import utils\n\n\nclass Pairs:\n    pass\n"}, "high"),
        (BOTH, {"run.sh": "PYTHONPATH=. python drums/train.py\n"}, "high"),
        (BOTH, {"setup.py": "from setuptools import setup\n\nsetup(name='drums')\n"}, "high"),
        ("import sys\nsys.path.append('..')\n" + BOTH, {}, "high"),
        ("from drums.photos import Pairs\n", {"net.py": ""}, "high"),
    ],
)
def test_a_copied_program_cannot_start_that_needs_two_roots(
    tmp_path: Path, lines: str, more: dict[str, str], level: str
) -> None:
    program = {"drums/train.py": f"{lines}{PHOTOS}{TRAINING}"}
    assert levels(tmp_path, {**COPIED, **more, **program}, "GPU303") == [level]


def test_an_editor_may_add_the_folders_of_a_program_without_a_readme(tmp_path: Path) -> None:
    files = {**COPIED, "drums/train.py": f"{BOTH}{PHOTOS}{TRAINING}"}
    del files["drums/README.md"]
    assert levels(tmp_path, files, "GPU303") == ["high"]
