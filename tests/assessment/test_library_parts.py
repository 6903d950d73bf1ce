"""A published library whose whole package lies beside a few programs: what they do not import of it costs little."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, impacts

PART = "a part of a copied library that no program imports"
PACKAGE = {f"largelib/ops/op{number}.py": "def run(x):\n    return x\n" for number in range(120)}
FILES = {
    **PACKAGE,
    "largelib/__init__.py": "__version__ = '1.5.0'\n",
    "largelib/ops/__init__.py": "",
    "largelib/inpainting/__init__.py": "",
    "largelib/inpainting/fit.py": HEAD + IMAGES + TRAINING,
    "largelib/pipelines.py": "def make():\n    from largelib.inpainting.fit import model\n    return model\n",
    "net.py": "",
}


def _basis(folder: Path, files: dict[str, str]) -> tuple[str, bool]:
    [found] = impacts(folder, files)["GPU303"]
    return str(found.level), PART in found.basis


@pytest.mark.parametrize(
    ("more", "unused"),
    [
        ({"talk.py": "from largelib.ops.op7 import run\n"}, True),
        ({"talk.py": "import largelib\n", "say.py": "from largelib.ops import op1, op2\n"}, True),
        ({"talk.py": "from largelib.inpainting import fit\n"}, False),
        ({"talk.py": "def main():\n    from largelib.pipelines import make\n    make()\n"}, False),
        ({"talk.py": "from largelib.ops.op7 import run\nrun(make('inpainting'))\ninpainting = 1\n"}, False),
        ({"talk.py": "import largelib\n", "setup.py": "setup()\n"}, False),
        ({"talk.py": "import largelib\n", "largelib/__init__.py": ""}, False),
        ({f"run{number}.py": "import largelib\n" for number in range(40)}, False),
        (
            {"talk.py": "import largelib\n", "job.sh": "#SBATCH --gres=gpu:1\npython -m largelib.inpainting.fit\n"},
            False,
        ),
        ({}, False),
    ],
)
def test_a_part_that_no_program_imports_costs_little(tmp_path: Path, more: dict[str, str], unused: bool) -> None:
    files = {**FILES, **more}
    if not more:
        del files["net.py"]
    level, said = _basis(tmp_path, files)
    assert said is unused
    assert not unused or level == "low"
