"""Programs that read an item, the length or an attribute of a generator end there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, levels

FUNCTIONS = """\
def create(width, path=None):
    model = nn.Linear(width, 2)
    if width > 1 and path:
        model.load_state_dict(torch.load(path))
        return model, {"base": model.parameters()}
    return model, model.parameters()


def parts(model):
    for part in model.children():
        yield part


def both(model):
    def inner():
        yield model
    return [model, *inner()]


"""
NO_PATH = "PATH = None\n"
LIST = "def parameters(self):\n    return []\n\n\n"
PADDLE = "import paddle\n"


@pytest.mark.parametrize(
    ("line", "fails"),
    [
        ("model, weights = create(9)\ngroups = [{'params': weights['base']}]", True),
        (f"{NO_PATH}model, weights = create(9, PATH)\ngroups = weights['base']", True),
        (f"{NO_PATH}model, weights = create(9, path=PATH)\ngroups = [weights['base']]", True),
        ("first = parts(Net())[0]", True),
        ("found = parts(Net())\nprint(len(found))", True),
        ("print(parts(Net()).shape)", True),
        ("weights = Net().parameters()\nprint(weights[0])", True),
        ("rows = (row for row in source)\nprint(rows[0])", True),
        ("model, weights = create(9, 'last.pt')\ngroups = weights['base']", False),
        ("model, weights = create(9, PATH)\ngroups = weights['base']", False),
        (f"{NO_PATH}PATH = find()\nmodel, weights = create(9, PATH)\ngroups = weights['base']", False),
        (
            f"{NO_PATH}\n\ndef load():\n    global PATH\n    PATH = 'a'\n\n\nload()\n"
            "model, weights = create(9, PATH)\ngroups = weights['base']",
            False,
        ),
        ("model, weights = create(9)\nprint(model.weight)", False),
        ("found = list(parts(Net()))\nprint(found[0], len(found))", False),
        ("print(next(parts(Net())), parts(Net()).send)", False),
        ("found = parts(Net())\nfound = [*found]\nprint(found[0])", False),
        ("parts = background(parts)\nprint(parts(Net())[0])", False),
        ("print(both(Net())[0])", False),
        ("if split:\n    print(parts(Net())[0])", False),
        ("try:\n    print(parts(Net())[0])\nexcept TypeError:\n    pass", False),
        (f"{LIST}weights = Net().parameters()\nprint(weights[0])", False),
        (f"{PADDLE}weights = Net().parameters()\nprint(weights[0])", False),
        ("weights = list(Net().parameters())\nprint(weights[0])", False),
        ("for weight in Net().parameters():\n    print(weight[0])", False),
    ],
)
def test_a_generator_has_no_items_and_no_length(tmp_path: Path, line: str, fails: bool) -> None:
    program = f"{HEAD.replace('from net import Net', 'from torch.nn import Linear as Net')}{FUNCTIONS}{line}\n{IMAGES}{TRAINING}"
    (level,) = levels(tmp_path, {"train.py": program}, "GPU303")
    assert (level == "low") is fails


def test_a_decorated_function_may_return_something_else(tmp_path: Path) -> None:
    imported = "import contextlib\n\n\n@contextlib.contextmanager\ndef timed():\n    yield 1\n\n\nprint(timed().gen)\n"
    (level,) = levels(tmp_path, {"net.py": "", "train.py": f"{HEAD}{imported}{IMAGES}{TRAINING}"}, "GPU303")
    assert level != "low"
