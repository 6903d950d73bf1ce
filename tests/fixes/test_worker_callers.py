"""Numbers of workers that several programs pass to the function that makes their loaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix

MakeJob = Callable[..., Any]

FACTORY = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def make_loaders(batch_size, num_workers=0):
    train_loader = DataLoader(ImageFolder("train"), batch_size=batch_size, num_workers=num_workers, pin_memory=True)
    test_loader = DataLoader(ImageFolder("test"), batch_size=batch_size, num_workers=num_workers, pin_memory=True)
    return train_loader, test_loader
"""
TRAIN = """\
import torch
from loaders import make_loaders


def main():
    model = torch.nn.Linear(9, 9).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_loader, _ = make_loaders(64, num_workers=0)
    for epoch in range(90):
        for x, y in train_loader:
            loss = model(x.cuda(non_blocking=True)).sum()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
EVALUATE = """\
import torch
from loaders import make_loaders


def main():
    model = torch.nn.Linear(9, 9).cuda()
    _, test_loader = make_loaders(64, num_workers=0)
    with torch.no_grad():
        for x, y in test_loader:
            model(x.cuda(non_blocking=True))


if __name__ == "__main__":
    main()
"""
FILES = {"loaders.py": FACTORY, "evaluate.py": EVALUATE, "train.py": TRAIN}


def _of_training(job: Any) -> list[Any]:
    return [result for result in job.scan("GPU303") if "train_loader" in result.finding.message]


def _edited(job: Any) -> list[str]:
    (result,) = _of_training(job)
    assert isinstance(result.fix, Fix), result.fix
    return sorted(edit.path.name for edit in result.fix.edits)


def _named(job: Any) -> list[tuple[str, str]]:
    (result,) = _of_training(job)
    return [(place.path.name, place.message) for place in result.finding.related]


def test_the_call_that_trains_is_edited_and_named(job: MakeJob) -> None:
    made = job(FILES)
    assert _named(made) == [("train.py", "0 workers are set here")]
    assert _edited(made) == ["train.py"]


def test_all_calls_that_train_are_edited(job: MakeJob) -> None:
    assert _edited(job({**FILES, "finetune.py": TRAIN})) == ["finetune.py", "train.py"]


def test_a_number_that_is_handed_on_is_edited_where_the_training_writes_it(job: MakeJob) -> None:
    inner = FACTORY.replace("make_loaders", "inner_loaders") + (
        "\n\ndef make_loaders(size, num_workers):\n"
        "    train, test = inner_loaders(size, num_workers=num_workers)\n"
        "    return test, train\n"
    )
    swapped = {
        "loaders.py": inner,
        "evaluate.py": EVALUATE.replace("_, test_loader", "test_loader, _"),
        "train.py": TRAIN.replace("train_loader, _", "_, train_loader"),
    }
    assert _edited(job(swapped)) == ["train.py"]


def test_workers_of_an_evaluation_do_not_hide_a_training_without(job: MakeJob) -> None:
    files = {**FILES, "evaluate.py": EVALUATE.replace("num_workers=0", "num_workers=4")}
    assert len(_of_training(job(files))) == 1


def test_one_training_without_workers_is_reported_though_another_has_some(job: MakeJob) -> None:
    made = job({**FILES, "finetune.py": TRAIN.replace("num_workers=0", "num_workers=4")})
    assert _named(made) == [("train.py", "0 workers are set here")]
    assert _edited(made) == ["train.py"]


def test_an_evaluation_without_workers_is_no_finding_of_the_training(job: MakeJob) -> None:
    assert not _of_training(job({**FILES, "train.py": TRAIN.replace("num_workers=0", "num_workers=4")}))


def test_one_program_that_makes_its_loaders_with_and_without_is_left_alone(job: MakeJob) -> None:
    train = TRAIN.replace("    for epoch", "    held_out, _ = make_loaders(64, num_workers=4)\n    for epoch").replace(
        "            optimizer.step()\n",
        "            optimizer.step()\n        for x, y in held_out:\n            print(x.mean())\n",
    )
    assert not _of_training(job({"loaders.py": FACTORY, "train.py": train}))


HELD = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


class Data:
    def __init__(self, size, num_workers):
        self.size = size
        self.num_workers = num_workers

    def train(self):
        train_loader = DataLoader(ImageFolder("train"), batch_size=self.size, num_workers=self.num_workers)
        return train_loader

    def test(self):
        return DataLoader(ImageFolder("test"), batch_size=self.size, num_workers=self.num_workers)
"""
KEPT = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


class Data:
    def __init__(self, size, num_workers):
        self.train_loader = DataLoader(ImageFolder("train"), batch_size=size, num_workers=num_workers)
        self.test_loader = DataLoader(ImageFolder("test"), batch_size=size, num_workers=num_workers)
"""


def _with_objects(data: str, train: str, test: str) -> dict[str, str]:
    return {
        "loaders.py": data,
        "train.py": TRAIN.replace("train_loader, _ = make_loaders(64,", "train_loader = Data(64,")
        .replace("num_workers=0)", f"num_workers=0).{train}")
        .replace("make_loaders", "Data"),
        "evaluate.py": EVALUATE.replace("_, test_loader = make_loaders(64,", "test_loader = Data(64,")
        .replace("num_workers=0)", f"num_workers=0).{test}")
        .replace("make_loaders", "Data"),
    }


@pytest.mark.parametrize(
    "files", [_with_objects(HELD, "train()", "test()"), _with_objects(KEPT, "train_loader", "test_loader")]
)
def test_the_object_whose_loader_trains_is_edited(job: MakeJob, files: dict[str, str]) -> None:
    made = job(files)
    assert _named(made) == [("train.py", "0 workers are set here")]
    assert _edited(made) == ["train.py"]


def test_a_member_that_the_class_hands_on_may_be_any_objects(job: MakeJob) -> None:
    data = KEPT + "\n    def both(self):\n        return self.train_loader, self.test_loader\n"
    files = _with_objects(data, "both()[0]", "both()[1]")
    assert _edited(job(files)) == ["evaluate.py", "train.py"]
