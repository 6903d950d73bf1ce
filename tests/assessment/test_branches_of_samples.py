"""Of a sample, only the work of the branches counts that the arguments of its data set choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, TRAINING, impacts

DATA = """\
import h5py
from transformers import AutoTokenizer

class Texts(Dataset):
    def __init__(self, tokenizer, path=None, lines=None):
        if path is None and lines is None:
            raise ValueError("nothing to read")
        self.tokenizer = tokenizer
        self.lines = lines
        {init}

    def __getitem__(self, index):
        if {test}:
            return torch.tensor(self.rows[index]), 0
        return torch.tensor(self.tokenizer(self.lines[index])), 0

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
loader = DataLoader(Texts(tokenizer, {given}), batch_size=128)
"""
OPTION = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--path", default=None)
args = parser.parse_args()
"""
KEPT = "self.stored = path is not None"
OPENED = "self.rows = h5py.File(path)['rows'] if path is not None else None"
BRANCH = "self.file = None\n        if path is not None:\n            self.file = h5py.File(path)"
SELF = "self.file = None\n        if self.file is None:\n            self.file = path"
GIVEN = 'path="rows.h5"'


@pytest.mark.parametrize(
    ("init", "test", "given", "tokenises"),
    [
        (KEPT, "self.stored", GIVEN, False),
        (KEPT, "self.stored", "lines=lines", True),
        ("self.stored = bool(path)", "self.stored", GIVEN, False),
        ("self.stored = not lines", "self.stored", "lines=lines", True),
        (BRANCH, "self.file is not None", GIVEN, False),
        (BRANCH, "self.file is not None", "lines=lines", True),
        ("self.file = path", "self.file is not None", GIVEN, False),
        ("self.file = h5py.File(path) if path is not None else None", "self.file is not None", GIVEN, False),
        (SELF, "self.file is not None", GIVEN, True),
        (KEPT, "self.stored", "path=args.path, lines=lines", True),
    ],
)
def test_only_the_branch_that_runs_counts(tmp_path: Path, init: str, test: str, given: str, tokenises: bool) -> None:
    data = DATA.format(init=init, test=test, given=given)
    program = HEAD + OPTION + data + TRAINING
    (found,) = impacts(tmp_path, {"net.py": "from torch.nn import Linear as Net\n", "train.py": program})["GPU303"]
    assert ("tokenisation" in found.basis) == tokenises
