"""A validation every N epochs never runs in fewer epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, bases

TRAIN = """\
{options}

def train(model, loader, val_loader, optimizer):
    for epoch in range({rounds}):
        for images in loader:
            model(images.cuda()).mean().backward()
            optimizer.step()
        if {test}:
            model.eval()
            losses = []
            for images in val_loader:
                losses.append(model(images.cuda()).mean())
            print(sum(losses))


train(Net().cuda(), DataLoader(data, batch_size=64), DataLoader(val_data, batch_size=64), optimizer)
"""
OPTION = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--epochs', type=int, default=2)\n"
OPTION += "args = parser.parse_args()"


@pytest.mark.parametrize(
    ("options", "rounds", "test", "never"),
    [
        ("EPOCHS = 2", "EPOCHS", "(epoch + 1) % 5 == 0", True),
        ("EPOCHS = 2", "1, EPOCHS + 1", "epoch % 5 == 0", True),
        ("EPOCHS = 5", "EPOCHS", "(epoch + 1) % 5 == 0", False),
        ("EPOCHS = 2", "EPOCHS", "epoch % 5 == 0", False),
        (OPTION, "args.epochs", "(epoch + 1) % 5 == 0", False),
    ],
)
def test_what_is_due_after_the_last_round_never_runs(
    tmp_path: Path, options: str, rounds: str, test: str, never: bool
) -> None:
    program = HEAD + TRAIN.format(options=options, rounds=rounds, test=test)
    files = {"net.py": "from torch.nn import Linear as Net\n", "train.py": program}
    found = bases(tmp_path, files, "GPU203")
    assert len(found) == 1
    assert ("every N rounds of a loop that has fewer" in found[0]) is never
