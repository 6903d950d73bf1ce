"""Findings are shown with jobs whose options get to their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main

PROGRAM = """\
import argparse
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return prepared(Image.open(self.paths[index]))


def contrast(args):
    loader = DataLoader(Images(args.paths), batch_size=64)
    model = Net().cuda()
    for epoch in range(90):
        for x in loader:
            model(x.cuda()).mean().backward()
            optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--paths", nargs="+")
    parser.add_argument("--method", default="plain")
    parser.add_argument("--level", type=int, default=0)
    args = parser.parse_args()
    SET
    if TEST:
        contrast(args)
    elif args.method == "plain":
        train(args)


main()
"""
CONTRAST = 'args.method == "contrast"'


@pytest.mark.parametrize(
    ("test", "first", "second", "set_too", "headed"),
    [
        (CONTRAST, "", "--method contrast", "pass", "b_second.sh"),
        (CONTRAST, "--method plain", "--method contrast", "pass", "b_second.sh"),
        ('args.method != "plain"', "--method plain", "--method contrast", "pass", "b_second.sh"),
        (f"{CONTRAST} and args.level > 0", "", "--method contrast", "pass", "b_second.sh"),
        (CONTRAST, "--method contrast", "", "pass", "a_first.sh"),
        (CONTRAST, "--method $1", "--method contrast", "pass", "a_first.sh"),
        (CONTRAST, "", "--method contrast", "args.method = chosen(args)", "a_first.sh"),
        (CONTRAST, "", "--method contrast", "parser.set_defaults(**read())", "a_first.sh"),
        ("args.level > 0", "--level 0", "--level 2", "pass", "a_first.sh"),
        (f"{CONTRAST} or args.level > 0", "", "--method contrast", "pass", "a_first.sh"),
    ],
)
def test_a_job_that_chooses_another_branch_is_not_named(
    tmp_path: Path, capsys: Any, test: str, first: str, second: str, set_too: str, headed: str
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.replace("TEST", test).replace("SET", set_too))
    for name, options in (("a_first.sh", first), ("b_second.sh", second)):
        (tmp_path / name).write_text(f"#SBATCH --gres=gpu:1\npython train.py --paths a b {options}\n")
    main(["scan", "--isolated", "--no-cache", "--impact", "low", "--select", "GPU303", str(tmp_path)])
    [heading] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("==> Job")]
    assert headed.partition(".")[0] in heading
