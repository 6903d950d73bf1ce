"""Programs that pass a text, a number or nothing where a function reads attributes, items or more of an object."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

PHOTOS = """\
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

CHANGE = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])


class Photos(Dataset):
    def __getitem__(self, index):
        return CHANGE(Image.open(paths[index]))

"""
LOADERS = """\
from photos import DataLoader, Photos


def describe(options, width):
    return options.root.ljust(width)


def loaders({parameters}):
{body}
    return DataLoader(Photos(), batch_size=64, shuffle=True)
"""
TRAIN = """\
import torch
import utils
from utils import loaders

FLAG = 3


def train(args, model, optimizer):
    loader = {call}
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    args = parse()
    model = torch.nn.Linear(2, 2).cuda()
    train(args, model, torch.optim.SGD(model.parameters(), lr=args.lr))
"""
READS = "    print(args.root)"
CHOSEN = """\
    if name == "voc":
        print(args.root)
    else:
        raise NotImplementedError"""
OTHERWISE = """\
    if name == "voc":
        print(args.root)"""
TRIED = """\
    try:
        print(args.root)
    except AttributeError:
        pass"""


def _found(folder: Path, parameters: str, body: str, call: str, **more: str) -> bool:
    files = {
        "utils.py": LOADERS.format(parameters=parameters, body=body),
        "train.py": TRAIN.format(call=call),
        **{f"{name}.py": text for name, text in more.items()},
    }
    return fails(folder, files)


def fails(folder: Path, files: dict[str, str]) -> bool:
    """Whether the loader is said to be in a program that raises an error."""
    (found,) = bases(folder, {"photos.py": PHOTOS, **files}, "GPU303")
    return "the loop or function around raises an error" in found


@pytest.mark.parametrize(
    ("parameters", "body", "call"),
    [
        ("args", READS, "utils.loaders('voc')"),
        ("args", READS, "loaders('voc')"),
        ("args=None", READS, "loaders()"),
        ("args, name='voc'", CHOSEN, "utils.loaders('voc')"),
        ("name, *, args", READS, "loaders('voc', args={'root': '.'})"),
        ("args", "    args.epochs = 3", "loaders([1, 2])"),
        ("args", "    print(args['root'])", "loaders('voc')"),
        ("args", "    print(args[0])", "loaders(None)"),
        ("make", "    print(make(3))", "loaders('resnet')"),
        ("names", "    for name in names:\n        print(name)", "loaders(3)"),
        ("args", "    if args is None:\n        raise ValueError\n    print(args.root)", "loaders('voc')"),
        ("args", "    print(describe(args, width=30))", "loaders('voc')"),
    ],
)
def test_a_value_without_what_the_function_reads_ends_the_program(
    tmp_path: Path, parameters: str, body: str, call: str
) -> None:
    assert _found(tmp_path, parameters, body, call)


@pytest.mark.parametrize(
    ("parameters", "body", "call"),
    [
        ("args", READS, "loaders(args)"),
        ("args", "    print(args.upper())", "loaders('voc')"),
        ("args", "    print(args.items(), args['root'])", "loaders({'root': '.'})"),
        ("args", "    print(args[0])", "loaders('voc')"),
        ("args, name='voc'", OTHERWISE, "loaders('voc')"),
        ("args", TRIED, "loaders('voc')"),
        ("args=None", "    args = args or parse()\n" + READS, "loaders()"),
        ("args=None", "    if args is None:\n        return data\n" + READS, "loaders()"),
        ("args=None", "    print(args.root if args else '.')", "loaders()"),
        ("args=None", "    print(args and args.root)", "loaders()"),
        ("args=None", "    print([args.root for _ in names])", "loaders()"),
        ("args", READS, "loaders(*parts)"),
        ("args", READS, "loaders(FLAG if test else args)"),
        ("names", "    for name in names:\n        print(name)", "loaders('abc')"),
    ],
)
def test_a_value_that_may_do_leaves_the_program_as_it_is(tmp_path: Path, parameters: str, body: str, call: str) -> None:
    assert not _found(tmp_path, parameters, body, call)


def test_another_program_that_passes_an_object_runs(tmp_path: Path) -> None:
    other = TRAIN.format(call="loaders(args)")
    assert not _found(tmp_path, "args", READS, "loaders('voc')", other=other)


@pytest.mark.parametrize(
    ("start", "end", "runs"),
    [
        ("pass", "print(args.root)", True),
        ("pass", "raise SystemExit(0)", True),
        ("model.train()\n    print(args.root)", "pass", False),
        ("trainer.train()\n    print(args.root)", "pass", True),
    ],
)
def test_what_fails_after_the_training_lets_it_run(tmp_path: Path, start: str, end: str, runs: bool) -> None:
    program = """\
import torch
from photos import DataLoader, Photos


def run(name, model, optimizer, args=None):
    START
    for images, labels in DataLoader(Photos(), batch_size=64, shuffle=True):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
    END


if __name__ == "__main__":
    model = torch.nn.Linear(2, 2).cuda()
    run("voc", model, torch.optim.SGD(model.parameters(), lr=0.1))
"""
    program = program.replace("START", start).replace("END", end)
    assert fails(tmp_path, {"train.py": program}) is not runs


@pytest.mark.parametrize(("passed", "runs"), [("'voc'", False), ("args", True)])
def test_a_constructor_that_reads_more_than_it_gets(tmp_path: Path, passed: str, runs: bool) -> None:
    program = f"""\
import torch
from photos import DataLoader, Photos


class Trainer:
    def __init__(self, args):
        self.rate = args.lr

    def fit(self, model, optimizer):
        return model


model = torch.nn.Linear(2, 2).cuda()
trainer = Trainer({passed})
for images, labels in DataLoader(Photos(), batch_size=64, shuffle=True):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
    assert fails(tmp_path, {"train.py": program}) is not runs


@pytest.mark.parametrize(
    ("body", "call", "ends"),
    [
        ("    print(root + '/train')", "loaders(Path('photos'))", True),
        ("    root = root + '/train'", "loaders(root=Path('photos'))", True),
        ("    print('photos/' + root)", "loaders(FOLDER)", True),
        ("    print(f'{name}/' + root)", "loaders(3)", True),
        ("    print(root.endswith('/'))", "loaders(FOLDER)", True),
        ("    root = describe(root, 3)\n    print(root + '/train')", "loaders(FOLDER)", False),
        ("    root = str(root)\n    print(root + '/train')", "loaders(FOLDER)", False),
        ("    print(root / 'train', root.parent, root.walk)", "loaders(FOLDER)", False),
        ("    print(root + '/train')", "loaders('photos')", False),
        ("    print(root + name)", "loaders(FOLDER)", False),
        ("    print(root + '/train')", "loaders(OTHER)", False),
        ("    print(root + '/train')", "loaders(str(FOLDER))", False),
    ],
)
def test_a_path_is_no_text(tmp_path: Path, body: str, call: str, ends: bool) -> None:
    settings = "from pathlib import Path\nFOLDER = Path('photos')\nOTHER = Path('photos')\nOTHER = str(OTHER)\n"
    program = settings + TRAIN.format(call=call)
    assert fails(tmp_path, {"utils.py": LOADERS.format(parameters="root", body=body), "train.py": program}) is ends


@pytest.mark.parametrize(
    ("joined", "other", "before", "ends"),
    [
        ("root + '/train'", "root + '/rgb'", "train_transforms(9)", True),
        ("root + '/train'", "root / 'rgb'", "train_transforms(9)", False),
        ("root / 'train'", "root + '/rgb'", "train_transforms(9)", False),
        ("root + '/train'", "root + '/rgb'", "train_twice(9)", False),  # perhaps all that matters
    ],
)
def test_each_of_two_classes_fails(tmp_path: Path, joined: str, other: str, before: str, ends: bool) -> None:
    program = f"""\
from pathlib import Path
import torch
from photos import DataLoader, Photos


class Plain(Photos):
    def __init__(self, root):
        self.paths = {joined}


class Coloured(Photos):
    def __init__(self, root):
        self.paths = {other}


def prepare(rgb):
    chosen = Coloured if rgb else Plain
    transforms = {before}
    return chosen(root=Path("photos"))


def run(model, optimizer):
    loader = DataLoader(Photos(), batch_size=64, shuffle=True)
    more = prepare(True)
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()


model = torch.nn.Linear(2, 2).cuda()
run(model, torch.optim.SGD(model.parameters(), lr=0.1))
"""
    assert fails(tmp_path, {"train.py": program}) is ends
