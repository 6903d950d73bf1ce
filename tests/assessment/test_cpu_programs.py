"""Programs that compute on the CPU, whatever else they name, gain nothing on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, scan

TRAINING = """\
def main():
    {start}
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
EITHER = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
LOADER = IMAGES.replace("shuffle=True", "shuffle=True, num_workers=0")


def shown(folder: Path, files: dict[str, str]) -> list[str]:
    """The rules whose findings cost something."""
    found = (result.finding for result in scan(folder, files).results)
    return sorted({one.rule.code for one in found if str(one.impact.level) != "low"} - {"GPU411", "GPU415"})


@pytest.mark.parametrize(
    ("top", "start"),
    [
        ("", f'{EITHER}\n    print(device)\n    device = "cpu"'),
        (f'{EITHER}\nprint(device)\ndevice = torch.device("cpu")\n', "pass"),
        ("", 'torch.set_default_device("cpu")\n    device = torch.get_default_device()'),
        ('import os\nos.environ.setdefault("CUDA_VISIBLE_DEVICES", "")\n', EITHER),
        ("import os\n", f'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"\n    {EITHER}'),
        ('import os\nos.environ.update({"CUDA_VISIBLE_DEVICES": "-1"})\n', EITHER),
    ],
    ids=["assigned last", "assigned last in the module", "default device", "setdefault", "in main", "update"],
)
def test_a_program_on_the_cpu_shows_nothing(tmp_path: Path, top: str, start: str) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:4\npython train.py\n"
    program = top + HEAD + LOADER + TRAINING.format(start=start)
    assert shown(tmp_path, {"net.py": "", "train.py": program, "job.sh": job}) == []


@pytest.mark.parametrize(
    ("top", "start"),
    [
        ("", f'device = "cpu"\n    {EITHER}'),
        ("", f'{EITHER}\n    if not torch.cuda.is_available():\n        device = "cpu"'),
        (f'device = torch.device("cpu")\n{EITHER}\n', "pass"),
        ("", 'torch.set_default_device("cuda")\n    device = torch.get_default_device()'),
        ('import os\nos.environ.setdefault("CUDA_VISIBLE_DEVICES", "0,1,2,3")\n', EITHER),
    ],
    ids=["a GPU last", "the CPU without a GPU", "a GPU last in the module", "default device", "devices listed"],
)
def test_a_program_on_a_gpu_shows_its_loader(tmp_path: Path, top: str, start: str) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:4\npython train.py\n"
    program = top + HEAD + LOADER + TRAINING.format(start=start)
    found = shown(tmp_path, {"net.py": "", "train.py": program, "job.sh": job})
    # Workers cannot make the tensors of samples on a GPU, which is the default device of all of them.
    assert found == (["GPU413"] if "set_default_device" in start else ["GPU303", "GPU413"])


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("python train.py", ["GPU303", "GPU413"]),
        ("CUDA_VISIBLE_DEVICES= python train.py", []),
        ("export CUDA_VISIBLE_DEVICES=-1\npython train.py", []),
    ],
)
def test_starts_may_keep_a_program_on_the_cpu(tmp_path: Path, command: str, codes: list[str]) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:4\n{command}\n"
    program = HEAD + LOADER + TRAINING.format(start=EITHER)
    assert shown(tmp_path, {"net.py": "", "train.py": program, "job.sh": job}) == codes


@pytest.mark.parametrize(
    ("request_", "arguments", "codes"),
    [
        ("--cpus-per-task=8", "--device cpu", []),
        ("--cpus-per-task=8", "--no_cuda --epochs 3", []),
        ("--cpus-per-task=8", "trainer.accelerator=cpu", []),
        ("--nodes=2", "--cpu 4", ["GPU303"]),
        ("--nodes=2", '--device cpu "$@"', []),
        ("--nodes=2", "--device $DEVICE", ["GPU303"]),
        ("--gres=gpu:1", "--device cpu", ["GPU303"]),
    ],
)
def test_jobs_without_gpus_may_tell_a_program_to_use_the_cpu(
    tmp_path: Path, request_: str, arguments: str, codes: list[str]
) -> None:
    job = f"#!/bin/bash\n#SBATCH {request_}\nsrun python train.py {arguments}\n"
    program = HEAD + LOADER + TRAINING.format(start=EITHER)
    assert shown(tmp_path, {"net.py": "", "train.py": program, "job.sh": job}) == codes


CLASS = """\
class Trainer:
    def __init__(self):
        self.model = Net()
        {place}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self):
        device = next(self.model.parameters()).device
        for epoch in range(90):
            for images, labels in loader:
                loss = nn.functional.cross_entropy(self.model(images.to(device)), labels.to(device))
                loss.backward()
                self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("place", "codes"),
    [
        ('self.model.to(torch.device("cpu"))', []),
        ('self.model = self.model.to("cpu")', []),
        ("self.model.cpu()", []),
        ("self.model.cuda()", ["GPU303"]),
        ('self.cpu = torch.device("cpu")\n        self.seen = seen.to(self.cpu)', ["GPU303"]),
        ("", ["GPU303"]),
    ],
)
def test_the_device_of_parameters_is_where_the_model_was_put(tmp_path: Path, place: str, codes: list[str]) -> None:
    files = {"net.py": "", "trainer.py": HEAD + LOADER + CLASS.format(place=place or "self.epoch = 0")}
    main = "from trainer import Trainer\n\nif __name__ == '__main__':\n    Trainer().train()\n"
    assert shown(tmp_path, {**files, "main.py": main}) == codes


@pytest.mark.parametrize(("gpus", "codes"), [("0", []), ("1", ["GPU303"])])
def test_workers_of_ray_without_gpus_run_what_they_import_on_the_cpu(
    tmp_path: Path, gpus: str, codes: list[str]
) -> None:
    place = 'self.model.to("cuda" if torch.cuda.is_available() else "cpu")'
    files = {"net.py": "", "trainer.py": HEAD + LOADER + CLASS.format(place=place)}
    worker = (
        f"import ray\nfrom trainer import Trainer\n\n@ray.remote(num_gpus={gpus})\nclass Worker:\n"
        "    def run(self):\n        Trainer().train()\n\n"
        "if __name__ == '__main__':\n    ray.get(Worker.remote().run.remote())\n"
    )
    assert shown(tmp_path, {**files, "main.py": worker}) == codes


SWITCHED = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--cuda", action="store_true")
args = parser.parse_args()
model = Net()
if args.cuda:
    model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for images, labels in loader:
        if args.cuda:
            images, labels = images.cuda(), labels.cuda()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("files", "codes"),
    [
        ({}, []),
        ({"README.md": "Run `python train.py`.\n"}, []),
        ({"README.md": "Set `--cuda` if you have a GPU.\n"}, ["GPU303"]),
        ({"run.sh": "python train.py --cuda\n"}, ["GPU303"]),
    ],
    ids=["no note", "a note without the option", "a note with it", "a command with it"],
)
def test_a_switch_that_is_off_leaves_a_program_on_the_cpu_unless_something_names_it(
    tmp_path: Path, files: dict[str, str], codes: list[str]
) -> None:
    assert shown(tmp_path, {"net.py": "", "train.py": HEAD + LOADER + SWITCHED, **files}) == codes


@pytest.mark.parametrize(("given", "codes"), [("cpu=True", []), ("", ["GPU303"])])
def test_the_device_of_an_accelerator_is_the_one_that_it_was_told(tmp_path: Path, given: str, codes: list[str]) -> None:
    start = f"accelerator = Accelerator({given})\n    device = accelerator.device"
    program = "from accelerate import Accelerator\n" + HEAD + LOADER + TRAINING.format(start=start)
    assert shown(tmp_path, {"net.py": "", "train.py": program}) == codes


@pytest.mark.parametrize(("device", "codes"), [("mps", []), ("cuda", ["GPU303"])])
def test_copies_that_do_not_block_may_be_for_the_gpu_of_a_mac(tmp_path: Path, device: str, codes: list[str]) -> None:
    start = f'device = torch.device("{device}" if torch.backends.{device}.is_available() else "cpu")'
    program = (
        HEAD
        + LOADER
        + TRAINING.format(start=start).replace("images.to(device)", "images.to(device, non_blocking=True)")
    )
    assert shown(tmp_path, {"net.py": "", "train.py": program}) == codes


STEPS = """\
def train(args, loader):
    model = Net().to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(args.device)), labels.to(args.device))
            loss.backward()
            optimizer.step()
"""
OPTIONS = """\
import argparse
import torch


def read_options():
    parser = argparse.ArgumentParser()
    # parser.add_argument("--device", default=torch.device("cuda:0"))
    parser.add_argument("--device", default={default})
    args = parser.parse_args()
    {then}
    return args
"""
MAIN = """\
from options import read_options
from steps import loader, train

if __name__ == "__main__":
    train(read_options(), loader)
"""


@pytest.mark.parametrize(
    ("default", "then", "note", "codes"),
    [
        ('torch.device("cpu")', "pass", "", []),
        ('"cpu"', "pass", "", []),
        ('torch.device("cpu")', 'args.device = torch.device("cuda")', "", ["GPU303"]),
        ('torch.device("cuda")', "pass", "", ["GPU303"]),
        ('torch.device("cpu")', "pass", "python main.py --device cuda:0", ["GPU303"]),
    ],
)
def test_the_device_of_the_options_is_their_default(
    tmp_path: Path, default: str, then: str, note: str, codes: list[str]
) -> None:
    files = {"net.py": "", "steps.py": HEAD + LOADER + STEPS, "main.py": MAIN, "README.md": note}
    options = OPTIONS.format(default=default, then=then)
    assert shown(tmp_path, {**files, "options.py": options}) == codes


PLACED = """\
from net import Net
from data import loader
from place import set_device

{start}
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
"""
SET_DEVICE = """\
import torch


def set_device(device="cpu", index=0):
    {before}
    if device != "cpu":
        if torch.cuda.device_count() > index:
            device = f"cuda:{{index}}"
        else:
            print("no GPU")
    return device
"""


@pytest.mark.parametrize(
    ("start", "before", "codes"),
    [
        ("device = set_device()", "pass", []),
        ('device = set_device("cpu")', "pass", []),
        ("device = torch.device(set_device())", "pass", []),
        ('device = set_device("cuda")', "pass", ["GPU303"]),
        ("device = set_device(device=chosen)", "pass", ["GPU303"]),
        ("device = set_device()", 'device = "cuda"', ["GPU303"]),
    ],
)
def test_a_helper_that_is_not_asked_for_a_gpu_returns_the_cpu(
    tmp_path: Path, start: str, before: str, codes: list[str]
) -> None:
    files = {"net.py": "", "data.py": HEAD + LOADER, "place.py": SET_DEVICE.format(before=before)}
    assert shown(tmp_path, {**files, "train.py": HEAD + PLACED.format(start=start)}) == codes


@pytest.mark.parametrize(
    ("test", "start", "codes"),
    [
        ('device.lower() != "cpu"', "set_device()", []),
        ('device in ("cuda", "gpu")', "set_device()", []),
        ('device.startswith("cuda")', "set_device()", []),
        ('device.lower() in ["cuda", "gpu"]', 'set_device("CUDA")', ["GPU303"]),
        ('device not in ("cpu", "mps")', 'set_device("gpu")', ["GPU303"]),
        ("device in names", "set_device()", ["GPU303"]),
    ],
)
def test_a_helper_may_compare_the_device_in_other_ways(tmp_path: Path, test: str, start: str, codes: list[str]) -> None:
    helper = SET_DEVICE.format(before="pass").replace('device != "cpu"', test)
    files = {"net.py": "", "data.py": HEAD + LOADER, "place.py": helper}
    assert shown(tmp_path, {**files, "train.py": HEAD + PLACED.format(start=f"device = {start}")}) == codes
