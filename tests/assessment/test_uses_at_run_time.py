"""What nothing calls: uses that never run, and those by names that programs or build files choose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, bases

PHOTOS = HEAD + IMAGES.rpartition("\n\n")[0] + "\n"
FIT = """\

class {name}:
    def __init__(self):
        self.model = Net().cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(Photos(paths), batch_size=128, shuffle=True{more})

    def fit(self):
        for epoch in range(90):
            for images, labels in self.loader:
                loss = nn.functional.cross_entropy(self.model(images.cuda()), labels.cuda())
                loss.backward()
                self.optimizer.step()
"""
TRAINER = PHOTOS + FIT.format(name="Trainer", more="")


@pytest.mark.parametrize(
    ("start", "level"),
    [
        ('import_module(f"trainers.{args.name}").Trainer().fit()', "medium"),
        ('import_module("trainers." + args.name).Trainer().fit()', "medium"),
        ('import_module(f"models.{args.name}").Trainer().fit()', "low"),
        ('import_module(f"trainers.{args.name}").Model().fit()', "low"),
    ],
)
def test_a_module_of_a_package_may_be_imported_by_a_chosen_name(tmp_path: Path, start: str, level: str) -> None:
    main = f'import sys\nfrom importlib import import_module\n\nif __name__ == "__main__":\n    {start}\n'
    files = {"trainers/__init__.py": "", "trainers/plain.py": TRAINER, "main.py": main}
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith(level)
    assert ("nothing calls it" in found) is (level == "low")


LOOP = (
    PHOTOS
    + """
def main():
    loader = DataLoader(Photos(paths), batch_size=128, shuffle=True)
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            loss.backward()
            optimizer.step()
"""
)


@pytest.mark.parametrize(("command", "level"), [("photo.train:main", "medium"), ("photo.show:main", "low")])
def test_a_build_file_makes_commands_of_functions(tmp_path: Path, command: str, level: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project.scripts]\nphoto-train = "{command}"\n')
    files = {"photo/__init__.py": "", "photo/train.py": LOOP, "photo/show.py": "def main():\n    print('photo')\n"}
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith(level)


@pytest.mark.parametrize(
    ("start", "level"),
    [
        ('if __name__ == "__main__":\n    main()\n', "high"),
        ('if __name__ == "__main_":\n    main()\n', "low"),
        ("if False:\n    main()\n", "low"),
        ("if False:\n    main()\nmain()\n", "high"),
    ],
)
def test_a_call_that_never_runs_is_no_use(tmp_path: Path, start: str, level: str) -> None:
    (found,) = bases(tmp_path, {"train.py": LOOP + "\n\n" + start}, "GPU303")
    assert found.startswith(level)


BOTH = TRAINER + FIT.format(name="Quick(Trainer)", more=", num_workers=8")


@pytest.mark.parametrize(
    ("trainers", "start", "level"),
    [
        (BOTH, "from trainers import Quick, Trainer\n\nQuick().fit()\n", "low"),
        (BOTH, "from trainers import Quick, Trainer\n\nTrainer().fit()\n", "high"),
        (BOTH, "from trainers import Trainer as Plain\n\nPlain().fit()\n", "high"),
        (
            BOTH.replace(
                "(Trainer):\n    def __init__(self):\n",
                "(Trainer):\n    def __init__(self):\n        super().__init__()\n",
            ),
            "from trainers import Quick, Trainer\n\nQuick().fit()\n",
            "high",
        ),
    ],
)
def test_a_constructor_that_all_subclasses_replace_never_runs(
    tmp_path: Path, trainers: str, start: str, level: str
) -> None:
    (found,) = bases(tmp_path, {"trainers.py": trainers, "train.py": start}, "GPU303")
    assert found.startswith(level)


def notebook(*lines: str) -> str:
    """A notebook of one cell, written as editors do: a line of the file for each line of the cell."""
    source = [f"{line}\n" for line in lines]
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


@pytest.mark.parametrize(
    ("lines", "calls"),
    [
        (("from train import main", "main()"), True),
        (("import train", "train.main()"), True),
        (("start = 'train:main'", "run(start)"), True),
        (("!python -c 'from train import main; main()'",), True),
        (("from train import main", "# main()"), False),
        (("# from train import main", "# main()"), False),
    ],
)
def test_a_notebook_that_only_imports_a_function_does_not_call_it(
    tmp_path: Path, lines: tuple[str, ...], calls: bool
) -> None:
    (found,) = bases(tmp_path, {"train.py": LOOP, "runs.ipynb": notebook(*lines)}, "GPU303")
    assert ("nothing calls it" in found) is not calls


def test_a_notebook_of_windows_starts_workers_without_a_main_guard(tmp_path: Path) -> None:
    used = LOOP.replace("class Photos", 'FOLDER = "D:/photos"\n\n\nclass Photos')
    program = {"train.py": used, "runs.py": "from train import main\n\nmain()\n"}
    (found,) = bases(tmp_path / "program", program, "GPU303")
    assert "workers need" in found
    (found,) = bases(
        tmp_path / "notebook", {"train.py": used, "r.ipynb": notebook("from train import main", "main()")}, "GPU303"
    )
    assert "workers need" not in found
    assert not found.startswith("low")
