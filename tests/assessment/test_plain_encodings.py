"""Text that becomes bytes or numbers by look-ups is not tokenised: it takes microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, TRAINING, impacts

DATA = """\
class Tokenizer:
    def encode(self, text):
        {body}

class Texts(Dataset):
    def __init__(self, lines):
        self.lines = lines
        self.tokenizer = {made}

    def __getitem__(self, index):
        return torch.tensor(self.tokenizer.encode(self.lines[index])), 0

loader = DataLoader(Texts(lines), batch_size=256)
"""
MERGES = "while self.pairs(text):\n            text = self.merge(text)\n        return text"


@pytest.mark.parametrize(
    ("body", "made", "level"),
    [
        ("return list(text.encode())", "Tokenizer()", "low"),
        ("return [self.ids.get(c, 0) for c in text]", "Tokenizer()", "low"),
        ("return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)", "Tokenizer()", "low"),
        ("return [self.ids[c] for c in text] + [0] * (64 - len(text))", "Tokenizer()", "low"),
        (MERGES, "Tokenizer()", "high"),
        ("return self.model.encode(self.clean(text))", "Tokenizer()", "high"),
        ("return text", "AutoTokenizer.from_pretrained('gpt2')", "high"),
    ],
)
def test_look_ups_are_no_tokenisation(tmp_path: Path, body: str, made: str, level: str) -> None:
    program = "from transformers import AutoTokenizer\n" + HEAD + DATA.format(body=body, made=made) + TRAINING
    (found,) = impacts(tmp_path, {"net.py": "from torch.nn import Linear as Net\n", "train.py": program})["GPU303"]
    assert (str(found.level), "tokenisation" in found.basis) == (level, level != "low")
