"""What runs only for another choice than the default, by a table, a test of several switches or a command of notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, IN_USE, bases

FIT = """\

def {name}(args):
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Photos(paths), batch_size=128, shuffle=True{more})
    for epoch in range(90):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            loss.backward()
            optimizer.step()
"""
PHOTOS = IN_USE + HEAD + IMAGES.rpartition("\n\n")[0] + "\n"
METHODS = PHOTOS + FIT.format(name="usual", more=", num_workers=8") + FIT.format(name="distil", more="")
TABLE = (
    METHODS
    + """
METHODS = {"usual": usual, "distil": distil}
"""
)
MAIN = """\
import argparse
from methods import METHODS

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", default="usual", choices=list(METHODS))
    args = parser.parse_args()
    METHODS[args.method](args)
"""
OTHER = "a choice that is not the default"


@pytest.mark.parametrize(
    ("main", "notes", "level"),
    [
        (MAIN, "", "low"),
        (MAIN, "`--method` is usual or distil.\n", "low"),
        (MAIN, "    python main.py --method distil\n", "high"),
        (MAIN.replace('"usual"', '"distil"'), "", "high"),
        (MAIN.replace('default="usual"', "required=True"), "", "high"),
        (MAIN.replace("METHODS[args.method](args)", "[run(args) for run in METHODS.values()]"), "", "high"),
        (MAIN + "    METHODS.get(args.also)(args)\n", "", "high"),
        (MAIN.replace("import METHODS", "import METHODS, distil") + "    distil(args)\n", "", "high"),
    ],
)
def test_an_entry_of_a_table_that_no_default_takes_costs_little(
    tmp_path: Path, main: str, notes: str, level: str
) -> None:
    files = {"methods.py": TABLE, "main.py": main}
    if notes:
        (tmp_path / "README.md").write_text(notes)
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith(level)
    assert (OTHER in found) is (level == "low")


CHAIN = (
    METHODS
    + """
import argparse

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", default="usual")
    args = parser.parse_args()
    if args.method == "usual":
        usual(args)
    elif args.method == "distil":
        distil(args)
"""
)


@pytest.mark.parametrize(
    ("notes", "level"),
    [("", "low"), ("python main.py --method usual\n", "low"), ("python main.py --method=distil\n", "high")],
)
def test_a_choice_that_notes_pass_is_one_that_runs(tmp_path: Path, notes: str, level: str) -> None:
    (tmp_path / "README.md").write_text(notes)
    (found,) = bases(tmp_path, {"main.py": CHAIN}, "GPU303")
    assert found.startswith(level)


SEVERAL = (
    METHODS
    + """
import argparse

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", default="usual")
    parser.add_argument("--simple", action="store_true")
    parser.add_argument("--checked", default={checked})
    args = parser.parse_args()
    if args.simple or args.checked or args.method == "{method}":
        distil(args)
    else:
        usual(args)
"""
)


@pytest.mark.parametrize(
    ("checked", "method", "level"),
    [(False, "distil", "low"), (True, "distil", "high"), (False, "usual", "high")],
)
def test_one_of_several_switches_is_enough(tmp_path: Path, checked: bool, method: str, level: str) -> None:
    (found,) = bases(tmp_path, {"main.py": SEVERAL.format(checked=checked, method=method)}, "GPU303")
    assert found.startswith(level)
