"""What a fix writes has to be in the releases of the libraries that a program is installed with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

LOADER = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(Images("data"), batch_size=64, num_workers=4, pin_memory=True)
model = model.cuda()
for epoch in range(90):
    for x, y in loader:
        loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
"""

MAPPED = """\
import tensorflow as tf

data = tf.data.TFRecordDataset(files).map(parse).batch(64).prefetch(2)
with tf.Session() as session:
    model.fit(data)
"""

CASES = {
    "an image of a TensorFlow without AUTOTUNE": (
        "GPU307",
        {"train.py": MAPPED, "Dockerfile": "FROM nvidia/cuda:9.0\nRUN pip install tensorflow-gpu==1.11 numpy\n"},
        "TensorFlow 1.11, which the program requires, has no AUTOTUNE",
    ),
}
OLDER = {
    "requirements of an older PyTorch": {"train.py": LOADER, "requirements.txt": "numpy\ntorch==1.3.0\n"},
    "an environment of an older PyTorch": {
        "train.py": LOADER,
        "work.yml": "name: work\ndependencies:\n  - python=3.7\n  - pytorch=1.6.0=py3.7_cuda\n",
    },
    "a release of another library that needs an older PyTorch": {
        "train.py": LOADER,
        "requirements.txt": "torchvision==0.4.1\ntorch\n",
    },
    "a container": {
        "train.py": LOADER,
        "run.sh": '#!/bin/bash\ncreate --container "me/fastai:1.0-CUDA9.2" --command train.py\n',
    },
    "a bound below": {"train.py": LOADER, "setup.py": 'setup(name="a", install_requires=["torch>=1.2,<1.7"])\n'},
    "a locked release": {"train.py": LOADER, "poetry.lock": '[[package]]\nname = "torch"\nversion = "1.6.0"\n'},
    "an install line of the documentation": {
        "train.py": LOADER,
        "README.md": "Install:\n\n    pip install torch==1.5.1 torchvision==0.6.1\n",
    },
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_break_or_gain_nothing_is_left_alone(job: MakeJob, case: str) -> None:
    check_declined(job, *CASES[case])


@pytest.mark.parametrize("case", OLDER)
def test_workers_that_no_argument_keeps_are_not_reported(job: MakeJob, case: str) -> None:
    assert job(OLDER[case]).scan("GPU304") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "torch==1.10.0\n"),
        ("requirements.txt", "torch>=1.3\n"),
        ("requirements.txt", "torchvision==0.9.0\ntorch\n"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^1.3"\n'),
        ("environment.yml", "dependencies:\n  - pytorch::pytorch=1.8\n"),
        ("README.md", "Tested with torch 1.3.\n"),
    ],
)
def test_releases_that_have_it(job: MakeJob, name: str, text: str) -> None:
    assert job({"train.py": LOADER, name: text}).offer("GPU304").changes


def test_workers_do_not_stay_alive_where_an_older_release_is_allowed(job: MakeJob) -> None:
    program = LOADER.replace(", num_workers=4", "")
    texts = {
        bound: [
            edit.text for edit in job({"train.py": program, "requirements.txt": f"{bound}\n"}).offer("GPU303").edits
        ]
        for bound in ("torch>=1.0.0", "torch>=1.7", "torch")
    }
    assert all("num_workers=4" in text for (text,) in texts.values())
    assert [bound for bound, (text,) in texts.items() if "persistent_workers" in text] == ["torch>=1.7", "torch"]


def test_a_release_of_too_many_digits_is_none(job: MakeJob) -> None:
    lock = f'[[package]]\nname = "torch"\nversion = "{"9" * 5000}"\n'
    assert job({"train.py": LOADER, "poetry.lock": lock}).offer("GPU304").changes


NEXT = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(Images("data"), batch_size=64, pin_memory=True)
batches = iter(loader)
for step in range(90000):
    try:
        x, y = batches.next()
    except StopIteration:
        batches = iter(loader)
        x, y = batches.next()
    loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
"""
FLIPS = """\
import numpy as np
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose, ToTensor


class Flip:
    def __call__(self, image):
        return image[:, ::-1] if np.random.rand() < 0.5 else image


loader = DataLoader(ImageFolder("data", transform=Compose([ToTensor(), Flip()])), batch_size=64, shuffle=True)
for epoch in range(90):
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
"""
TOP = """\
def accuracy(output, target, topk=(1,)):
    _, found = output.topk(max(topk), 1, True, True)
    correct = found.t().eq(target.view(1, -1).expand_as(found.t()))
    return [correct[:k].view(-1).float().sum(0) for k in topk]
"""
WITHOUT = LOADER.replace(", num_workers=4", "")


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": WITHOUT, "README.md": "## Requirements\n- Python 3.6+\n- PyTorch 1.0\n"},
        {"train.py": WITHOUT, "README.md": "* **PyTorch** >= 1.2\n"},
        {"train.py": WITHOUT, "README.md": "- [PyTorch](https://pytorch.org) (1.4.0)\n"},
        {"train.py": WITHOUT, "README.md": "| torch | 1.3.1 |\n"},
        {"train.py": WITHOUT, "README.md": "5. Clone it\n6. Install [PyTorch 1.0]\n"},
        {"train.py": WITHOUT, "README.md": "- Install **PyTorch>= 1.6** (tested on **1.6, 1.8**)\n"},
        {"train.py": WITHOUT, "README.md": "* tested with pytorch 0.4.0 and 1.0.0\n"},
        {"train.py": NEXT},
        {
            "train.py": WITHOUT,
            "README.md": "This is a PyTorch(0.4.0) implementation of [DeepLab](https://arxiv.org).\n",
        },
        {"train.py": WITHOUT, "README.md": "A PyTorch (v1.1) re-implementation.\n"},
        {"train.py": f"from utils import accuracy\n{WITHOUT}print(accuracy(y, x, topk=(1, 5)))\n", "utils.py": TOP},
        {"train.py": WITHOUT, "finetune.py": "import torch\n\nloss = criterion(y)\ntotal = loss.data[0]\n"},
        {"train.py": WITHOUT, "other.py": "import torch\n\nx = torch.ones(3).cuda(async=True)\n"},
    ],
)
def test_workers_do_not_stay_alive_where_a_text_or_old_code_allows_an_older_release(
    job: MakeJob, files: dict[str, str]
) -> None:
    (edit, *_) = job(files).offer("GPU303").edits
    assert "num_workers=4" in edit.text
    assert "persistent_workers" not in edit.text


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": WITHOUT, "README.md": "- PyTorch 1.12\n- torchvision 0.13\n"},
        {"train.py": WITHOUT, "README.md": "1. Install PyTorch >= 1.8\n2. Install torchvision 0.3\n"},
        {"train.py": WITHOUT, "README.md": "- Install our torch 1.2 plugin of 2017\n"},
        {"train.py": WITHOUT, "README.md": "- torchvision 0.2.2\n- PyTorch Lightning 1.1\n"},
        {"train.py": WITHOUT, "README.md": "- PyTorch 1.0\n", "requirements.txt": "torch>=2.0\n"},
        {"train.py": NEXT.replace("batches.next()", "next(batches)")},
        {"train.py": WITHOUT, "README.md": "A PyTorch (1.10) implementation.\n"},
        {"train.py": WITHOUT, "README.md": "Our PyTorch (0.4) results are below those of the implementation.\n"},
        {"train.py": f"from utils import accuracy\n{WITHOUT}print(accuracy(y, x))\n", "utils.py": TOP},
        {"train.py": f"{WITHOUT}print(accuracy(y, x, topk=(1, 5)))\n", "utils.py": TOP.replace("view", "reshape")},
        {"train.py": WITHOUT, "finetune.py": "import torch\n\n# total = loss.data[0]\ntotal = loss.item()\n"},
        {"train.py": f"{WITHOUT}torch.set_float32_matmul_precision('high')\n", "a.py": "import torch\nloss.data[0]\n"},
        {"train.py": WITHOUT, "old/a.py": "import torch\nprint(loss.data[0])\n"},
    ],
)
def test_workers_stay_alive_in_newer_releases(job: MakeJob, files: dict[str, str]) -> None:
    assert any("persistent_workers=True" in edit.text for edit in job(files).offer("GPU303").edits)


def test_workers_that_a_text_says_cannot_stay_alive_are_left_alone(job: MakeJob) -> None:
    files = {"train.py": LOADER, "README.md": "- PyTorch 1.0\n"}
    check_declined(job, "GPU304", files, "README.md:1 says PyTorch 1.0, and `persistent_workers` needs 1.7")


@pytest.mark.parametrize("line", ["+ torch: 1.5.0", "* PyTorch: 1.5", "torch: 1.5.0", "pytorch==1.5.1", "PyTorch 1.5"])
def test_a_line_of_the_documentation_names_a_release(job: MakeJob, line: str) -> None:
    files = {"train.py": LOADER, "README.md": f"# Requirements\n\n{line}\nand others\n"}
    assert "says PyTorch 1.5" in job(files).refusal("GPU304") if "==" not in line else not job(files).scan("GPU304")


@pytest.mark.parametrize("line", ["torch: 1.10.2", "torch: 15 minutes", "PyTorch 1.5 was faster"])
def test_other_lines_name_no_older_release(job: MakeJob, line: str) -> None:
    assert job({"train.py": LOADER, "README.md": f"# Requirements\n\n{line}\n"}).offer("GPU304").changes


@pytest.mark.parametrize(
    ("line", "packages", "is_old"),
    [
        ("total += loss.data[0]", "", True),
        ("error = (x - y).abs().mean().data[0]", "", True),
        ("total += loss.data[0]", "torch>=1.8\n", False),
        ("first = x.data[0]", "", False),
        ("first = x.mean(1).data[0]", "", False),
    ],
)
def test_elements_of_numbers_tell_of_an_older_release(job: MakeJob, line: str, packages: str, is_old: bool) -> None:
    made = job({"train.py": f"{LOADER}        {line}\n", "requirements.txt": packages})
    if is_old:
        assert "line 11 indexes the `.data` of a number" in made.refusal("GPU304")
    else:
        assert made.offer("GPU304").changes


def test_a_fix_says_what_allows_a_release_whose_workers_cannot_stay_alive(job: MakeJob) -> None:
    allowed = {"train.py": LOADER, "README.md": "- Install **PyTorch>= 1.6** (tested on **1.6, 1.8**)\n"}
    assert job(allowed).offer("GPU304").description.endswith("; needs PyTorch 1.7 (README.md:1 says PyTorch 1.6)")
    newer = {"train.py": LOADER, "README.md": "- Install **PyTorch>= 1.8**\n"}
    assert "needs PyTorch" not in job(newer).offer("GPU304").description


@pytest.mark.parametrize(
    "older", [{"README.md": "- Python 3\n- PyTorch 1.8\n"}, {"requirements.txt": "torch==1.8.1\n"}]
)
def test_workers_that_would_repeat_the_draws_of_numpy_are_left_alone(job: MakeJob, older: dict[str, str]) -> None:
    check_declined(
        job, "GPU303", {"train.py": FLIPS, **older}, "all workers draw the same numbers from `numpy.random.rand`"
    )


def test_a_fix_says_that_older_releases_repeat_the_draws_of_numpy(job: MakeJob) -> None:
    files = {"train.py": FLIPS, "requirements.txt": "torch>=1.4\n"}
    said = "before PyTorch 1.9 all of them draw the same numbers from `numpy.random.rand`"
    assert said in job(files).offer("GPU303").description


@pytest.mark.parametrize(
    ("program", "packages"),
    [
        (FLIPS, ""),
        (FLIPS, "torch==1.9.0\n"),
        (FLIPS.replace("shuffle=True", "shuffle=True, worker_init_fn=seed"), "torch>=1.4\n"),
        (FLIPS.replace("np.random.rand()", "torch.rand(1)"), "torch>=1.4\n"),
    ],
)
def test_other_workers_draw_their_own_numbers(job: MakeJob, program: str, packages: str) -> None:
    fix = job({"train.py": program, "requirements.txt": packages}).offer("GPU303")
    assert "draw the same" not in fix.description


@pytest.mark.parametrize(
    ("moved", "more", "repeats"),
    [
        ("Variable(x.cuda(), volatile=True)", "", True),
        ("Variable(x.cuda(), volatile=True)", ", worker_init_fn=seed", False),
        ("x.cuda()", "", False),
    ],
)
def test_workers_of_the_first_releases_have_no_random_states_of_their_own(
    job: MakeJob, moved: str, more: str, repeats: bool
) -> None:
    loader = f"loader = DataLoader(ImageFolder('data', RandomCrop(32)), batch_size=64{more})\n"
    imports = "import torch\nfrom torch.autograd import Variable\nfrom torch.utils.data import DataLoader\n"
    library = "from torchvision.datasets import ImageFolder\nfrom torchvision.transforms import RandomCrop\n\n"
    program = f"{imports}{library}{loader}for x, y in loader:\n    loss = criterion(model({moved}), y)\n"
    fix = job({"train.py": f"{program}    loss.backward()\n"}).offer("GPU303")
    assert (
        "before PyTorch 0.4, for which the program is written, all workers draw the same" in fix.description
    ) is repeats
    assert ("have their own random states" in fix.description) is not repeats


READ = """\
import tensorflow as tf


def read(path):
    {body}
    return points


def wrapped(path):
    return tf.py_function({named}, [path], tf.float32)


data = tf.data.Dataset.from_tensor_slices(files).map(lambda path: {mapped}(path)).batch(64).prefetch(2)
model.fit(data)
"""


def _read(body: str = "points = load(path)", named: str = "read", mapped: str = "wrapped") -> str:
    return READ.format(body=body, named=named, mapped=mapped)


@pytest.mark.parametrize(
    ("name", "text", "is_old"),
    [
        ("job.sh", "#!/bin/bash\n#SBATCH --gres=gpu:1\nmodule load volta cuda/10.0 cudnn\npython train.py\n", True),
        ("Dockerfile", "FROM nvidia/cuda:10.1-cudnn7-devel\nCOPY . .\n", True),
        ("job.sh", "#!/bin/bash\n#SBATCH --gres=gpu:1\nmodule load cuda/11.8\npython train.py\n", False),
        ("job.sh", "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --device cuda:0\n", False),
    ],
)
def test_maps_get_the_name_that_the_tensorflow_of_the_cuda_has(
    job: MakeJob, name: str, text: str, is_old: bool
) -> None:
    made = job({"train.py": _read(), name: text})
    assert made.repair("GPU307") == 1
    assert ("num_parallel_calls=tf.data.experimental.AUTOTUNE" in made.text("train.py")) is is_old
    assert ("num_parallel_calls=tf.data.AUTOTUNE" in made.text("train.py")) is not is_old


def test_maps_that_loop_in_python_stay_on_one_core(job: MakeJob) -> None:
    loops = "points = [scale(part) for part in load(path)]\n    for part in points:\n        part.add(1)"
    assert "loops of Python" in job({"train.py": _read(loops)}).refusal("GPU307")
    assert job({"train.py": _read(named="elsewhere.read")}).repair("GPU307") == 1
