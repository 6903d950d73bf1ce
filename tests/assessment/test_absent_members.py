"""A method that reads what nothing gives its object, or that is called with arguments it does not take, ends the program
where it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, bases

TRAINER = """\
import glob

from PIL import Image


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        return Image.open(self.paths[index]), index


class Trainer{base}:
    def __init__(self, paths):
        self.loader = DataLoader(Photos(paths), batch_size=128, shuffle=True)
        self.model = Net().cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self):
        for epoch in range(90):
            {call}
            for images, labels in self.loader:
                loss = nn.functional.cross_entropy(self.model(images.cuda()), labels.cuda())
                loss.backward()
                self.optimizer.step()

    def arrange(self, epoch):
        print(epoch)

    def show(self):
        print(self.rate)

PATHS = glob.glob("photos/*.png")
{more}
"""
NAMES = "".join(f"NAME{number} = 1\nprint(NAME{number})\n" for number in range(30))
"""A module that reads fewer names is an excerpt, of which others have the rest."""
NET = "from torch.nn import Linear as Net\n"
STARTS = "trainer = Trainer(PATHS)\ntrainer.train()\n"
SUBCLASS = "class Slow(Trainer):\n    {}\n\n\nSlow(PATHS).train()\n"


@pytest.mark.parametrize(
    ("call", "base", "more", "fails"),
    [
        ("self.arrange(epoch)", "", STARTS, False),
        ("self.arrange()", "", STARTS, True),
        ("self.arrange(epoch, 1)", "", STARTS, True),
        ("self.arrange(*[epoch])", "", STARTS, False),
        ("self.arrange(epoch, 1)", "", SUBCLASS.format("def arrange(self, epoch, other): pass"), False),
        ("self.arrange(epoch, 1)", "", "Trainer.arrange = print\n" + STARTS, False),
        ("self.begin(epoch)", "", STARTS, True),
        ("self.begin(epoch)", "(nn.Module)", STARTS, True),
        ("self.begin(epoch)", "", SUBCLASS.format("def begin(self, epoch): pass"), False),
        ("self.begin(epoch)", "", SUBCLASS.format("begin = print"), False),
        (
            "self.begin(epoch)",
            "",
            "from library import Base\nclass Own(Trainer, Base): pass\nOwn(PATHS).train()\n",
            False,
        ),
        ("self.begin(epoch)", "", "", False),  # others may derive from it
        ("self.begin(epoch)", "(Base)", "from library import Base\n" + STARTS, False),
        (
            "self.begin(epoch)",
            "",
            "class Own(Trainer):\n    def __getattr__(self, name):\n        return print\n\n\n" + STARTS,
            False,
        ),
        ("self.begin(epoch)", "", "setattr(Trainer, 'be' + 'gin', print)\n" + STARTS, False),
        ("self.cuda()", "(nn.Module)", STARTS, False),
        ("self._name", "(nn.Module)", STARTS, False),
        ("self.show()", "", STARTS, True),
        ("self.show()", "", "trainer = Trainer(PATHS)\ntrainer.rate = 0.1\ntrainer.train()\n", False),
        ("self.show() if epoch else None", "", STARTS, False),
        ("print(hasattr(self, 'rate') and self.rate)", "", STARTS, False),
        ("print(self.loader)", "", STARTS, False),
    ],
)
def test_a_method_that_reads_what_nothing_gives(tmp_path: Path, call: str, base: str, more: str, fails: bool) -> None:
    program = HEAD + NAMES + TRAINER.format(call=call, base=base, more=more)
    (found,) = bases(tmp_path, {"net.py": NET, "train.py": program}, "GPU303")
    assert ("raises an error" in found) is fails
    assert found.startswith("low") or not fails
    assert found.startswith("high") or fails or not more


def test_an_excerpt_lacks_what_others_have(tmp_path: Path) -> None:
    program = HEAD + TRAINER.format(call="self.begin(epoch)", base="", more=STARTS)
    (found,) = bases(tmp_path, {"net.py": NET, "train.py": program}, "GPU303")
    assert found.startswith("high")


@pytest.mark.parametrize(
    ("names", "given", "fails"),
    [
        (NAMES, "", True),
        (NAMES, "from setup import paths, transform\n", False),
        ("", "", False),  # an excerpt
        (NAMES, "if NAME1:\n    from setup import paths, transform\n", False),
    ],
)
def test_a_program_with_names_that_nothing_defines(tmp_path: Path, names: str, given: str, fails: bool) -> None:
    program = HEAD + names + given + IMAGES + "total = 0\n" + TRAINING
    (found,) = bases(tmp_path, {"net.py": NET, "train.py": program}, "GPU303")
    assert ("raises an error" in found) is fails
    assert found.startswith("low" if fails else "high")


def test_a_program_runs_in_the_namespace_of_another(tmp_path: Path) -> None:
    program = HEAD + NAMES + IMAGES + "total = 0\n" + TRAINING
    runs = "from pathlib import Path\n\nfrom setup import paths, transform\n\nexec(Path('train.py').read_text())\n"
    found = bases(tmp_path, {"net.py": NET, "train.py": program, "run_all.py": runs}, "GPU303")
    assert not any("raises an error" in one for one in found)
