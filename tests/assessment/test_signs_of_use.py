"""Programs that show few signs of regular use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, IN_USE, TRAINING, bases

SAYS = "few signs of regular use"
PROGRAM = HEAD + IMAGES + "total = 0.0\n" + TRAINING
TRACKING = "import wandb\n"
NOTES = {"README.md": "# Photos\n\nA network for photos.\n"}
SIGNS = [
    "import argparse\n",
    "torch.manual_seed(0)\n",
    'torch.save(model.state_dict(), "last.pt")\n',
    "model = torch.nn.parallel.DistributedDataParallel(model)\n",
    "with torch.autocast('cuda'): pass\n",
    'model.load_state_dict(torch.load("last.pt"))\n',
    "log = logging.getLogger(__name__)\n",
]


@pytest.mark.parametrize("count", range(len(SIGNS)))
def test_four_signs_are_enough(tmp_path: Path, count: int) -> None:
    program = PROGRAM + TRACKING
    shown = (SIGNS * 2)[count : count + 3]
    (few,) = bases(tmp_path / "few", {"train.py": program + "".join(shown[:2]), **NOTES}, "GPU303")
    (enough,) = bases(tmp_path / "enough", {"train.py": program + "".join(shown), **NOTES}, "GPU303")
    assert few.startswith("medium") and SAYS in few
    assert enough.startswith("high") and SAYS not in enough


@pytest.mark.parametrize(
    ("more", "notes", "is_enough"),
    [("", NOTES["README.md"], False), (TRACKING, NOTES["README.md"], True), ("", "Run `python train.py`.\n", True)],
)
def test_one_sign_is_that_someone_looks_at_the_results(tmp_path: Path, more: str, notes: str, is_enough: bool) -> None:
    files = {"train.py": PROGRAM + "".join(SIGNS[:5]) + more, "README.md": notes}
    (found,) = bases(tmp_path, files, "GPU303")
    assert (SAYS not in found) is is_enough


@pytest.mark.parametrize(("name", "is_sign"), [("args.use_fp16", True), ("cfg.resume_from", True), ("args.lr", False)])
def test_a_part_of_a_name_may_be_a_sign(tmp_path: Path, name: str, is_sign: bool) -> None:
    (found,) = bases(
        tmp_path, {"train.py": PROGRAM + TRACKING + "".join(SIGNS[:2]) + f"print({name})\n", **NOTES}, "GPU303"
    )
    assert (SAYS in found) is not is_sign


def test_a_command_of_the_notes_is_a_sign(tmp_path: Path) -> None:
    notes = {"README.md": "Train with `python train.py`.\n"}
    (found,) = bases(tmp_path, {"train.py": PROGRAM + "".join(SIGNS[:3]), **notes}, "GPU303")
    assert SAYS not in found


@pytest.mark.parametrize("name", ["train.py", "data.py"])
def test_the_programs_that_import_a_module_show_them(tmp_path: Path, name: str) -> None:
    start = IN_USE + "from data import fit\n\nif __name__ == '__main__':\n    fit()\n"
    body = "".join(f"    {line}\n" if line else "\n" for line in (IMAGES + "total = 0.0\n" + TRAINING).splitlines())
    files = {"data.py": f"{HEAD}\ndef fit():\n{body}", "train.py": start, **NOTES}
    (found,) = bases(
        tmp_path, files if name == "train.py" else files | {"train.py": start.removeprefix(IN_USE)}, "GPU303"
    )
    assert (SAYS in found) is (name == "data.py")


@pytest.mark.parametrize("more", [{}, {**NOTES, "job.sh": "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n"}])
def test_without_notes_or_with_a_job_nothing_is_lowered(tmp_path: Path, more: dict[str, str]) -> None:
    (found,) = bases(tmp_path, {"train.py": PROGRAM, **more}, "GPU303")
    assert found.startswith("high")
