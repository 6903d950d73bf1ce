"""What loading in the training process costs where workers would do little, or would not start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.finding import Finding
from tests.assessment.scans import HEAD, IMAGES, IN_USE, TRAINING, bases, levels, scan

_LAPTOP = "paths = sorted(Path('/Users/ada/photos').glob('*'))\n"


def _in_main(program: str) -> str:
    lines = "".join(f"    {line}\n" if line else "\n" for line in program.splitlines())
    return f'if __name__ == "__main__":\n{lines}'


def test_an_app_in_a_browser_trains_on_little(tmp_path: Path) -> None:
    (found,) = bases(tmp_path / "a", {"app.py": "import streamlit as st\n" + HEAD + IMAGES + TRAINING}, "GPU303")
    assert found.startswith("low") and found.endswith("in a web app")


def test_workers_stay_for_all_epochs(tmp_path: Path) -> None:
    def advice(folder: str, training: str) -> str:
        report = scan(tmp_path / folder, {"net.py": "", "train.py": HEAD + IMAGES + training})
        (found,) = [one.finding for one in report.results if one.finding.rule.code == "GPU303"]
        return found.help

    once = TRAINING.replace("for epoch in range(90):\n", "if True:\n")
    assert advice("epochs", TRAINING).endswith("and `persistent_workers=True` to keep them for all epochs")
    assert "persistent_workers" not in advice("once", once)
    head, _, steps = TRAINING.partition("for epoch in range(90):\n")
    epoch = f"{head}def train(loader):\n{steps}"
    assert advice("calls", f"{epoch}for epoch in range(90):\n    train(loader)\n").endswith("for all epochs")
    assert "persistent_workers" not in advice("call", f"{epoch}train(loader)\n")


def test_a_sampler_that_makes_batches_makes_some_as_large_as_others_of_the_data_set(tmp_path: Path) -> None:
    """The training loader leads, not another one that draws from the same data set with a size that is written."""
    images = IMAGES.partition("loader =")[0].replace("Photos(Dataset)", "CIFAR10Photos(Dataset)")
    made = """\
photos = CIFAR10Photos(paths)
loader = DataLoader(photos, batch_sampler=balanced(photos), num_workers=0)
plain = DataLoader({drawn}, batch_size=512)
"""
    steps = TRAINING.replace("in loader", "in plain")
    found = {
        drawn: levels(
            tmp_path / folder,
            {"net.py": "", "train.py": HEAD + images + made.format(drawn=drawn) + TRAINING + steps},
            "GPU303",
        )
        for folder, drawn in (("a", "photos"), ("b", "CIFAR10Photos(others)"))
    }
    assert found == {"photos": ["high", "low"], "CIFAR10Photos(others)": ["low", "high"]}


def test_the_loader_with_most_work_says_it_for_others_of_its_program(tmp_path: Path) -> None:
    """Who sets the workers of one sets those of the other, whatever its samples are."""
    small = "tuned = DataLoader(datasets.CIFAR10('data', transform=transforms.ToTensor()), batch_size=128)\n"
    steps = TRAINING.replace("in loader", "in tuned")
    text = "from torchvision import datasets, transforms\n" + HEAD + IMAGES + small + TRAINING + steps
    assert levels(tmp_path / "a", {"net.py": "", "train.py": text}, "GPU303") == ["high", "low"]
    workers = text.replace("ToTensor()), batch_size=128)", "ToTensor()), batch_size=128, num_workers=0)")
    assert levels(tmp_path / "b", {"net.py": "", "train.py": workers}, "GPU303") == ["high", "medium"]


def test_workers_that_would_be_spawned_need_a_guard(tmp_path: Path) -> None:
    data, loader = IMAGES.split("loader =")
    program = f"loader ={loader}{TRAINING}"
    (found,) = bases(tmp_path / "a", {"train.py": HEAD + data + _LAPTOP + program}, "GPU303")
    assert found.startswith("low") and "__main__" in found
    assert levels(tmp_path / "b", {"net.py": "", "train.py": HEAD + data + _LAPTOP + _in_main(program)}, "GPU303") == [
        "high"
    ]
    job = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n"
    files = {"net.py": "", "job.sh": job, "train.py": HEAD + data + _LAPTOP + program}
    assert levels(tmp_path / "c", files, "GPU303") == ["high"]


def test_a_program_without_a_guard_that_calls_what_makes_the_loader_needs_one(tmp_path: Path) -> None:
    body = (IMAGES + TRAINING).split("loader =")
    fit = "def fit(folder):\n" + "".join(f"    {line}\n" for line in f"loader ={body[1]}".splitlines())
    module = HEAD + body[0] + fit
    calls = "import work\nwork.fit('data' + '\\\\train')\n"

    def found(folder: str, program: str) -> list[str]:
        return bases(tmp_path / folder, {"net.py": "", "work.py": module, "train.py": program}, "GPU303")

    (unguarded,) = found("a", calls)
    assert unguarded.startswith("low") and "__main__" in unguarded
    (guarded,) = found("b", "import work\n" + _in_main(calls.partition("\n")[2]))
    (linux,) = found("c", calls.replace("\\\\", "/"))
    assert guarded.startswith("high") and linux.startswith("high")


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("photo = Image.open('data\\\\ada.jpg')\n", "low"),
        ("workers = 0 if os.name == 'nt' else 8\n", "low"),
        ("photo = Image.open('data/ada.jpg')\n", "medium"),
    ],
)
def test_workers_cannot_import_what_a_notebook_on_windows_defines(tmp_path: Path, line: str, level: str) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": HEAD + IMAGES + line + TRAINING}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (found,) = bases(tmp_path, {"train.ipynb": json.dumps(notebook)}, "GPU303")
    assert found.startswith(level)
    assert ("cannot be sent" in found) is (level == "low")


@pytest.mark.parametrize(
    ("output", "level"),
    [
        ("/Users/ada/lib/python3.10/site-packages/torch/functional.py:890: UserWarning", "low"),
        ("C:\\Users\\ada\\train.py", "low"),
        ("Using device: mps", "low"),
        ("3.11.5 (main, Aug 24 2023, 15:09:45) [Clang 14.0.3 (clang-1403.0.22.14.1)]", "low"),
        ("3.10.9 (tags/v3.10.9, Dec  6 2022, 20:01:21) [MSC v.1934 64 bit (AMD64)]", "low"),
        ("3.10.12 (main, Nov 20 2023, 15:14:05) [GCC 11.4.0]", "medium"),
        ("/home/ada/lib/python3.10/site-packages/torch/functional.py:890: UserWarning", "medium"),
        ("Using device: cuda", "medium"),
    ],
)
def test_the_output_of_a_notebook_tells_where_it_ran(tmp_path: Path, output: str, level: str) -> None:
    shown = {"output_type": "stream", "name": "stderr", "text": [output]}
    cell = {"cell_type": "code", "metadata": {}, "outputs": [shown], "source": HEAD + IMAGES + TRAINING}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (found,) = bases(tmp_path, {"train.ipynb": json.dumps(notebook)}, "GPU303")
    assert found.startswith(level)


@pytest.mark.parametrize(
    ("files", "level"),
    [
        ({"run.bat": "@echo off\npython .\\other.py --epochs 3\npause\n"}, "low"),
        ({"run.bat": "python .\\train.py\n", "run.sh": "echo\n"}, "high"),
        ({"clean.bat": "del /q out\n"}, "high"),
        ({"all.py": "run(['cmd', '/c', f'call conda activate {ENV} && python train.py'])\n"}, "low"),
        ({"all.py": "os.system('cmd.exe /c python train.py')\n"}, "low"),
        ({"all.py": "SCRIPT = 'train.py'\nsubprocess.run(['tools\\\\start.bat', SCRIPT])\n"}, "low"),
        (
            {
                "all.py": "first = ['cmd', '/c'] if platform.system() == 'Windows' else []\nrun([*first, 'python', 'train.py'])\n"
            },
            "high",
        ),
        ({"all.py": "run(['bash', '-c', 'python train.py'])\n"}, "high"),
        ({"all.py": "run(['cmd', '/c', 'python train.py'])\n", "all.sh": "echo\n"}, "high"),
        ({"environment.yml": "dependencies:\n  - python=3.10\nprefix: C:\\Users\\ada\\envs\\net\n"}, "low"),
        ({"environment.yml": "dependencies:\n  - vs2015_runtime=14.27=h5e58377_2\n"}, "low"),
        ({"requirements.txt": "torch==2.1.0\npywin32==306\n"}, "low"),
        ({"requirements.txt": 'torch==2.1.0\npywin32==306; sys_platform == "win32"\n'}, "high"),
        ({"environment.yml": "dependencies:\n  - python=3.10\nprefix: /home/ada/envs/net\n"}, "high"),
    ],
)
def test_files_beside_a_program_tell_where_it_runs(tmp_path: Path, files: dict[str, str], level: str) -> None:
    (found,) = bases(tmp_path / "a", {**files, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}, "GPU303")
    assert found.startswith(level), found
    data, loader = IMAGES.split("loader =")
    guarded = HEAD + data + _in_main(f"loader ={loader}{TRAINING}")
    (found,) = bases(tmp_path / "b", {**files, "net.py": "", "train.py": guarded}, "GPU303")
    assert found.startswith("high"), found


@pytest.mark.parametrize(("folder", "level"), [("d:\\\\photos", "low"), ("/data/photos", "high")])
@pytest.mark.parametrize("inner", [True, False])
def test_workers_cannot_be_sent_what_a_function_defines(tmp_path: Path, folder: str, level: str, inner: bool) -> None:
    data, loader = IMAGES.split("loader =")
    head, data = data[: data.index("class ")], data[data.index("class ") :]
    body = f"loader ={loader}{TRAINING}"
    lines = [f"FOLDER = '{folder}'\n{head}", *([] if inner else [data]), "def fit():\n"]
    lines += [f"    {line}\n" for line in ((data if inner else "") + body).splitlines() if line]
    (found,) = bases(tmp_path, {"net.py": "", "train.py": HEAD + "".join(lines) + _in_main("fit()\n")}, "GPU303")
    assert found.startswith(level if inner else "high"), found


@pytest.mark.parametrize(("workers", "level"), [("4", "low"), ("0", "medium")])
def test_a_command_in_the_notes_sets_the_option(tmp_path: Path, workers: str, level: str) -> None:
    option = 'parser.add_argument("--num_workers", type=int, default=0)\nargs = parser.parse_args()\n'
    program = IN_USE + HEAD + "import argparse\nparser = argparse.ArgumentParser()\n" + option + IMAGES + TRAINING
    (tmp_path / "README.md").write_text(f"```\npython train.py --num_workers {workers}\n```\n")
    files = {"train.py": program.replace("shuffle=True", "shuffle=True, num_workers=args.num_workers")}
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith(level)


@pytest.mark.parametrize(("cores", "level"), [("1", "low"), ("8", "high")])
def test_simulated_clients_share_the_cores(tmp_path: Path, cores: str, level: str) -> None:
    simulation = f"fl.simulation.start_simulation(client_fn=make, client_resources={{'num_cpus': {cores}}})\n"
    files = {"train.py": "import flwr as fl\n" + HEAD + IMAGES + TRAINING, "sim.py": "import flwr as fl\n" + simulation}
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith(level)


@pytest.mark.parametrize(("workers", "level"), [("8", "low"), ("0", "medium")])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dockerfile", "FROM pytorch/pytorch\nENV NUM_WORKERS={}\n"),
        ("Makefile", "WORKERS ?= {}\ntrain:\n\tpython train.py --workers $(WORKERS)\n"),
        ("configs/train.txt", "lr = 0.1\nworkers = {}\n"),
        ("args.txt", "--num_workers\n{}\n"),
        ("cfg/base.json", '{{"lr": 0.1,\n"loader_workers": {}}}\n'),
        ("launch.py", "BASE = dict(num_workers={})\ncommand = [f'--{{k}}={{v}}' for k, v in BASE.items()]\n"),
    ],
)
def test_what_builds_starts_or_configures_sets_the_option(
    tmp_path: Path, name: str, text: str, workers: str, level: str
) -> None:
    option = 'parser.add_argument("--num_workers", type=int, default=0)\nargs = parser.parse_args()\n'
    program = HEAD + "import argparse\nparser = argparse.ArgumentParser()\n" + option + IMAGES + TRAINING
    files = {
        "train.py": program.replace("shuffle=True", "shuffle=True, num_workers=args.num_workers"),
        name: text.format(workers),
    }
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith(level)


def test_a_server_has_workers_of_its_own(tmp_path: Path) -> None:
    option = 'parser.add_argument("--num_workers", type=int, default=0)\nargs = parser.parse_args()\n'
    program = HEAD + "import argparse\nparser = argparse.ArgumentParser()\n" + option + IMAGES + TRAINING
    files = {
        "train.py": program.replace("shuffle=True", "shuffle=True, num_workers=args.num_workers"),
        "Dockerfile": "FROM pytorch/pytorch\nCMD gunicorn --workers 4 app:app\n",
    }
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith("medium")


@pytest.mark.parametrize(("workers", "level"), [("8", "low"), ("0", "medium")])
def test_a_command_sets_the_field_of_a_class_of_options(tmp_path: Path, workers: str, level: str) -> None:
    options = "import tyro\n@dataclass\nclass Options:\n    num_workers: int = 0\nargs = tyro.cli(Options)\n"
    program = IN_USE + HEAD + "from dataclasses import dataclass\n" + options + IMAGES + TRAINING
    (tmp_path / "README.md").write_text(f"```\npython train.py --data.num-workers {workers}\n```\n")
    files = {"train.py": program.replace("shuffle=True", "shuffle=True, num_workers=args.num_workers")}
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith(level)


@pytest.mark.parametrize(("workers", "level"), [("8", "low"), ("0", "medium")])
def test_a_script_that_puts_the_command_together_sets_the_option(tmp_path: Path, workers: str, level: str) -> None:
    option = 'parser.add_argument("--workers", type=int, default=0)\nargs = parser.parse_args()\n'
    program = HEAD + "import argparse\nparser = argparse.ArgumentParser()\n" + option + IMAGES + TRAINING
    files = {
        "train.py": program.replace("shuffle=True", "shuffle=True, num_workers=args.workers"),
        "submit.sh": f'WORKERS={workers}\nCOMMAND="python train.py --workers ${{WORKERS}}"\necho "$COMMAND" | bsub\n',
    }
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith(level)


@pytest.mark.parametrize(("code", "workers"), [("GPU303", "0"), ("GPU304", "4")])
def test_samples_that_are_kept_lower_and_the_advice_says_whose_cache_it_is(
    tmp_path: Path, code: str, workers: str
) -> None:
    plain = (HEAD + IMAGES + TRAINING).replace("shuffle=True", f"shuffle=True, num_workers={workers}")
    load = "        return transform(Image.open(self.paths[index]))\n"
    keeping = plain.replace("self.paths = paths\n", "self.paths, self.kept = paths, {}\n").replace(
        load,
        "        if index not in self.kept:\n"
        "            self.kept[index] = transform(Image.open(self.paths[index]))\n"
        "        return self.kept[index]\n",
    )

    def found(folder: str, text: str) -> Finding:
        results = scan(tmp_path / folder, {"net.py": "", "train.py": text}).results
        (finding,) = [one.finding for one in results if one.finding.rule.code == code]
        return finding

    assert "cache of its own" not in found("plain", plain).help
    kept = found("kept", keeping)
    assert "cache of its own" in kept.help and str(kept.impact.level) == "low"


def test_a_loader_that_is_left_after_some_batches_is_not_helped_by_workers(tmp_path: Path) -> None:
    steps = (
        "for iteration in range(10_000):\n"
        "    for i, (images, labels) in enumerate(loader):\n"
        "        if i == 5:\n            break\n"
        "        critic(images.cuda()).mean().backward()\n"
        "        optimizer.step()\n"
        "    generator().mean().backward()\n"
    )
    (found,) = bases(tmp_path / "a", {"train.py": HEAD + IMAGES + "critic = Net().cuda()\n" + steps}, "GPU303")
    assert found.startswith("low") and found.endswith("restarted after some batches")


GRID = """\
class Grid(Dataset):
    def __init__(self, side):
        self.points = torch.cartesian_prod(torch.arange(side), torch.arange(side)).float()

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return {point}, torch.tensor(index)

images = DataLoader(Photos(paths), batch_size=4, num_workers=4)
grid = DataLoader(Grid(256), batch_size=1024, shuffle=True)
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for batch in {outer}:
        for points, picked in grid:
            model(batch.cuda(), points.cuda(), picked.cuda()).mean().backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("outer", "point", "low"),
    [
        ("images", "self.points[index]", True),
        ("folds", "self.points[index]", False),
        ("images", "transform(Image.open(self.points[index]).resize((224, 224)))", False),
    ],
)
def test_rows_in_memory_that_each_step_of_another_loader_passes_over(
    tmp_path: Path, outer: str, point: str, low: bool
) -> None:
    images = IMAGES.partition("loader =")[0]
    program = HEAD + images + GRID.format(outer=outer, point=point)
    found = bases(tmp_path, {"train.py": program}, "GPU303")
    assert [one.startswith("low") for one in found] == [low]
    assert found[0].endswith("iterated over in each step of another loader") is low


EXTRA = """\
extra = DataLoader(Photos(more), batch_size=128)
def run({parameter}):
    for number, (images, labels) in enumerate(extra):
        loss = model(images.cuda()).mean()
        {test}
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("parameter", "test", "step", "epoch", "anew"),
    [
        ("single=False", "if single:\n            return loss", "run(single=True)", "run()", True),
        ("full=True", "if not full:\n            return loss", "run(False)", "run()", True),
        ("mode='all'", "if mode == 'one':\n            break", "run(mode='one')", "run()", True),
        ("most=9999", "if number >= most:\n            break", "run(1)", "run()", True),
        ("single=False, n=9", "if single or n == 0:\n            return loss", "run(True)", "run()", True),
        ("", "pass", "next(iter(extra))[0].cuda()", "run()", True),
        ("single=False", "if single:\n            return loss", "0", "run()", False),
        ("single=False", "if single:\n            return loss", "run(args.single)", "run()", False),
        ("most=9999", "if number >= most:\n            break", "0", "run(5000)", False),
    ],
)
def test_a_loader_of_which_each_step_takes_one_batch(
    tmp_path: Path, parameter: str, test: str, step: str, epoch: str, anew: bool
) -> None:
    training = TRAINING.replace("        loss.backward()", f"        loss = loss + {step}\n        loss.backward()")
    training = training.replace("    for images", f"    {epoch}\n    for images", 1)
    text = HEAD + IMAGES + EXTRA.format(parameter=parameter, test=test) + training
    found = bases(tmp_path, {"net.py": "", "train.py": text}, "GPU303")
    assert len(found) == 2 and not found[0].startswith("low")
    assert ("restarted after some batches" in found[1]) is anew


@pytest.mark.parametrize(
    ("samples", "level"),
    [
        ("samples = Photos(range(128))", "low"),
        ("samples = Photos(range(256))", "low"),
        ("samples = Photos(range(2176))", "high"),
    ],
)
def test_one_or_two_batches_of_all_samples_leave_little_to_prepare(tmp_path: Path, samples: str, level: str) -> None:
    counted = IMAGES.replace(
        "    def __getitem__", "    def __len__(self):\n        return len(self.paths)\n\n    def __getitem__"
    )
    text = HEAD + counted.replace("loader = DataLoader(Photos(paths)", f"{samples}\nloader = DataLoader(samples")
    assert levels(tmp_path, {"net.py": "", "train.py": text + TRAINING}, "GPU303") == [level]


@pytest.mark.parametrize(("limit", "level"), [(8, "low"), (80_000, "high")])
def test_a_limit_tells_how_many_samples_there_are(tmp_path: Path, limit: int, level: str) -> None:
    limited = IMAGES.replace("def __init__(self, paths)", "def __init__(self, paths, limit=None)")
    limited = limited.replace("self.paths = paths", "self.paths = paths[:limit] if limit is not None else paths")
    counted = limited.replace(
        "    def __getitem__", "    def __len__(self):\n        return len(self.paths)\n\n    def __getitem__"
    )
    text = HEAD + counted.replace("Photos(paths)", f"Photos(paths, limit={limit})")
    assert levels(tmp_path, {"net.py": "", "train.py": text + TRAINING}, "GPU303") == [level]


@pytest.mark.parametrize(
    ("comment", "level"),
    [
        ("# 4 is usually enough", "low"),
        ("# TODO: 4", "high"),
        ("# the photos", "high"),
        ("# one pass over the set, no benefit from more", "low"),
        ("# 我的电脑一开就报内存", "low"),
        ("# 캐싱 후엔 낮아도 충분", "low"),
        ("# 子进程数", "high"),
        ("# количество потоков для чтения данных", "high"),
    ],
)
def test_a_comment_that_names_the_number_shows_a_choice(tmp_path: Path, comment: str, level: str) -> None:
    text = IMAGES.replace("batch_size=128, shuffle=True)", f"batch_size=128,\n    num_workers=0,  {comment}\n)")
    assert levels(tmp_path, {"net.py": "", "train.py": HEAD + text + TRAINING}, "GPU303") == [level]


@pytest.mark.parametrize(("read", "opens"), [("[:]", False), ("", True)])
def test_only_a_file_that_samples_are_read_from_is_opened_in_each_worker(
    tmp_path: Path, read: str, opens: bool
) -> None:
    keeps = IMAGES.replace(
        "self.paths = paths\n",
        f'self.paths = paths\n        self.file = h5py.File("labels.h5")\n        self.labels = self.file["labels"]{read}\n',
    ).replace("return transform(", "return self.labels[index], transform(")
    report = scan(tmp_path, {"net.py": "", "train.py": "import h5py\n" + HEAD + keeps + TRAINING})
    (found,) = (one.finding for one in report.results if one.finding.rule.code == "GPU303")
    assert found.help.startswith("open the data set's file in each worker") is opens


@pytest.mark.parametrize(
    ("keeps", "passed", "opens"),
    [
        ("self.file = file", "", False),
        ("self.file = file", ", None", False),
        ("self.file = file", ", h5py.File('labels.h5')", True),
        ("self.file = h5py.File(file) if file is not None else None", "", False),
        ("self.file = h5py.File(file) if file is not None else None", ", 'labels.h5'", True),
        ("self.file = None\n        if file: self.file = h5py.File(file)", ", file=None", False),
        ("self.file = None\n        if file: self.file = h5py.File(file)", ", file=name()", True),
        ("file = file or h5py.File('labels.h5')\n        self.file = file", "", True),
    ],
)
def test_a_file_that_other_calls_pass_is_none_of_the_data_set(
    tmp_path: Path, keeps: str, passed: str, opens: bool
) -> None:
    photos = IMAGES.replace("def __init__(self, paths)", "def __init__(self, paths, file=None)")
    photos = photos.replace("self.paths = paths\n", f"self.paths = paths\n        {keeps}\n")
    photos = photos.replace("return transform(", "return self.file and self.file['labels'][index], transform(")
    data, loader = photos.split("loader =")
    head = f"import h5py\n{HEAD}"
    files = {
        "net.py": "",
        "data.py": head + data,
        "train.py": head
        + "from data import Photos\nloader ="
        + loader.replace("(paths)", f"(paths{passed})")
        + TRAINING,
        "embed.py": head
        + "from data import Photos\nphotos = Photos(paths, h5py.File('labels.h5'))\nprint(len(photos))\n",
    }
    report = scan(tmp_path, files)
    (found,) = (one.finding for one in report.results if one.finding.rule.code == "GPU303")
    assert found.help.startswith("open the data set's file in each worker") is opens


def test_a_loader_that_is_left_after_some_batches_needs_one_iterator(tmp_path: Path) -> None:
    steps = (
        "critic = Net().cuda()\n"
        "for iteration in range(10_000):\n"
        "    for i, (images, labels) in enumerate(loader):\n"
        "        if i >= 5:\n            break\n"
        "        critic(images.cuda()).mean().backward()\n"
        "        optimizer.step()\n"
    )
    report = scan(tmp_path, {"net.py": "", "train.py": HEAD + IMAGES + steps})
    (found,) = (one.finding for one in report.results if one.finding.rule.code == "GPU303")
    assert found.help.startswith("draw the batches of `loader` from one iterator")


def test_documentation_may_say_why_there_are_no_workers(tmp_path: Path) -> None:
    notes = "Shared memory is full on the GPU host, therefore `num_workers: 0` is the default.\n"
    files = {"net.py": "", "train.py": HEAD + IMAGES + TRAINING, "NOTES.md": notes}
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith("low") and "documentation" in found


_PART = """\
import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split
from torch.utils.data import Subset, random_split
from torchvision.datasets import CIFAR10

data = CIFAR10("data", transform=transform)
folds = StratifiedKFold(n_splits=100)
splits = list(folds.split(np.arange(len(data)), np.array(data.targets)))
"""


@pytest.mark.parametrize(
    ("part", "level"),
    [
        ("chosen = splits[0][1]\npart = Subset(data, chosen)\n", "low"),
        ("chosen = splits[0][0]\npart = Subset(data, chosen)\n", "medium"),
        ("_, chosen = next(folds.split(data.targets, data.targets))\npart = Subset(data, chosen.tolist())\n", "low"),
        ("chosen, _ = next(folds.split(data.targets, data.targets))\npart = Subset(data, chosen)\n", "medium"),
        (
            "rows = splits[0][1]\nkept, other = train_test_split(np.arange(len(rows)), test_size=0.1)\n"
            "part = Subset(data, rows[kept])\n",
            "low",
        ),
        ("part, rest = random_split(data, [500, 49_500])\n", "low"),
        ("part, rest = random_split(data, [49_500, 500])\n", "medium"),
        ("kept, _ = train_test_split(range(len(data)), train_size=500)\npart = Subset(data, kept)\n", "low"),
        ("kept, _ = train_test_split(range(len(data)), test_size=500)\npart = Subset(data, kept)\n", "medium"),
    ],
)
def test_workers_start_in_the_time_of_an_epoch_of_few_samples(tmp_path: Path, part: str, level: str) -> None:
    loader = "loader = DataLoader(part, batch_size=128, shuffle=True)\n"
    training = TRAINING.replace("Net()", "Net(8)")
    (found,) = bases(tmp_path, {"net.py": "", "train.py": HEAD + _PART + part + loader + training}, "GPU303")
    assert found.startswith(level), found
    assert ("workers start" in found) == (level == "low")


PHOTOS = """\
from torchvision.datasets import ImageFolder
photos = ImageFolder("photos", transform)
LINE
loader = DataLoader(photos, batch_size=16, shuffle=True)
"""


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("photos.samples = photos.samples[:64]", "low"),
        ("COUNT = 64\nphotos.imgs = photos.samples = photos.samples[:COUNT]", "low"),
        ("photos.samples = photos.samples[:64_000]", "high"),
        ("photos.samples = photos.samples[:-64]", "high"),
        ("photos.samples = others.samples[:64]", "high"),
        ("if quick:\n    photos.samples = photos.samples[:64]", "high"),
        ("names = photos.samples[:64]", "high"),
    ],
)
def test_a_data_set_that_a_program_cuts_holds_what_is_left(tmp_path: Path, line: str, level: str) -> None:
    text = HEAD + PHOTOS.replace("LINE", line) + TRAINING
    (found,) = bases(tmp_path, {"net.py": "", "train.py": text}, "GPU303")
    assert found.startswith(level), found


@pytest.mark.parametrize(
    ("rows", "level"),
    [
        ("table.sample(n=200, random_state=1)", "low"),
        ("table.sample(200).reset_index(drop=True)", "low"),
        ("table.head(200).copy()", "low"),
        ("table.sample(n=min(LIMIT, len(table)))", "low"),
        ("table.sample(n=200_000)", "high"),
        ("table.sample(frac=0.5)", "high"),
        ("table.sample(n=len(table))", "high"),
        ("table.sample(n=min(len(table), len(other)))", "high"),
    ],
)
def test_rows_that_a_program_takes_of_a_table_are_counted(tmp_path: Path, rows: str, level: str) -> None:
    data = IMAGES.replace(
        "    def __getitem__", "    def __len__(self):\n        return len(self.paths)\n\n    def __getitem__"
    ).replace("Photos(paths)", "Photos(rows)")
    table = f"import pandas as pd\n\nLIMIT = 200\ntable = pd.read_csv('all.csv')\nrows = {rows}\n"
    text = HEAD + table + data + TRAINING.replace("range(90)", "range(2)")
    (found,) = bases(tmp_path, {"net.py": "", "train.py": text}, "GPU303")
    assert found.startswith(level), found


@pytest.mark.parametrize(("call", "level"), [("# train()", "low"), ("train()", "high"), ("main = train", "high")])
def test_a_loader_that_only_an_unused_function_reads_is_read_by_nothing(tmp_path: Path, call: str, level: str) -> None:
    body = "".join(f"    {line}\n" for line in TRAINING.splitlines())
    text = HEAD + IMAGES + f"images, labels = next(iter(loader))\n\ndef train():\n    total = 0\n{body}\n{call}\n"
    (found,) = bases(tmp_path, {"net.py": "", "train.py": text}, "GPU303")
    assert found.startswith(level), found


@pytest.mark.parametrize(("epochs", "level"), [("3", "low"), ("3000", "medium"), ("count()", "medium")])
def test_the_loops_that_call_an_epoch_count(tmp_path: Path, epochs: str, level: str) -> None:
    data = (
        "from torch.utils.data import Subset\nfrom torchvision.datasets import CIFAR10\n"
        "loader = DataLoader(Subset(CIFAR10('data', transform=transform), range(9000)), batch_size=128)\n"
    )
    setup, _, loop = TRAINING.partition("for epoch in range(90):\n")
    train = "def train(model, loader, optimizer):\n    total = 0\n" + loop
    calls = f"for epoch in range({epochs}):\n    train(model, loader, optimizer)\n"
    program = HEAD + data + train + setup.replace("Net()", "Net(8)") + calls
    (found,) = bases(tmp_path, {"net.py": "", "train.py": program}, "GPU303")
    assert found.startswith(level), found


@pytest.mark.parametrize(
    ("fill", "made", "level"),
    [
        ("for _ in range(count):\n            self.rows.append(write())", "count=1000", "low"),
        ("while len(self.rows) < count:\n            self.rows.append(write())", "1000", "low"),
        ("for _ in range(count):\n            self.rows.append(write())", "", "low"),
        ("for _ in range(count):\n            self.rows.append(write())", "count=10_000_000", "medium"),
        (
            "for _ in range(count):\n            for row in read():\n                self.rows.append(row)",
            "1000",
            "medium",
        ),
        ("for _ in range(count):\n            self.rows.extend(read())", "1000", "medium"),
        ("for _ in range(count):\n            self.rows.append(write())", "count=len(names)", "medium"),
    ],
)
def test_a_data_set_that_makes_some_samples_up_takes_seconds(tmp_path: Path, fill: str, made: str, level: str) -> None:
    data = (
        "class Stories(Dataset):\n    def __init__(self, count=500):\n        self.rows = []\n"
        f"        {fill}\n\n    def __len__(self):\n        return len(self.rows)\n\n"
        "    def __getitem__(self, index):\n        return tokenizer(self.rows[index])['input_ids']\n\n"
        f"loader = DataLoader(Stories({made}), batch_size=64, shuffle=True)\n"
    )
    head = f"{HEAD}from transformers import AutoTokenizer\n\ntokenizer = AutoTokenizer.from_pretrained('gpt2')\n\n"
    training = TRAINING.replace("range(90)", "range(10)").replace("Net()", "Net(8)")
    assert levels(tmp_path, {"net.py": "", "train.py": head + data + training}, "GPU303") == [level]


def test_a_loader_for_samples_that_a_training_shows_now_and_then_is_read_in_no_step(tmp_path: Path) -> None:
    loaders = IMAGES + "val_loader = DataLoader(Photos(checks), batch_size=128)\n"
    shown = (
        TRAINING
        + "        if total % 500 == 0:\n            for batch in val_loader:\n                show(model, batch[0].cuda())\n"
    )
    found = bases(tmp_path, {"net.py": "", "train.py": HEAD + loaders + shown}, "GPU303")
    assert sorted(", ".join(basis.split(", ")[:2]) for basis in found) == [
        "high, every step",
        "low, every evaluation batch",
    ]


@pytest.mark.parametrize(
    ("start", "level"),
    [
        ("Process(target=train, args=('a',), daemon=True).start()\n", "low"),
        ("worker = Process(target=train, args=('a',))\nworker.daemon = True\nworker.start()\n", "low"),
        ("worker = Process(target=train, args=('a',))\nworker.daemon = False\nworker.start()\n", "high"),
        ("Process(target=train, args=('a',)).start()\n", "high"),
    ],
)
def test_a_daemonic_process_may_not_start_workers(tmp_path: Path, start: str, level: str) -> None:
    data, loader = IMAGES.split("loader =")
    body = "".join(f"    {line}\n" for line in f"loader ={loader}{TRAINING}".splitlines())
    program = f"from multiprocessing import Process\n{HEAD}{data}def train(folder):\n{body}\n{start}"
    (found,) = bases(tmp_path, {"train.py": program}, "GPU303")
    assert found.startswith(level)
    assert ("may not start workers" in found) is (level == "low")


@pytest.mark.parametrize(("read", "level"), [("print(sum(photos.drawn))\n", "low"), ("print(len(photos))\n", "high")])
def test_workers_would_change_copies_of_what_the_program_reads(tmp_path: Path, read: str, level: str) -> None:
    getter = "    def __getitem__(self, index):\n"
    data = IMAGES.replace(getter, getter + "        self.drawn[index] += 1\n")
    data = data.replace("loader = DataLoader(Photos(paths)", "photos = Photos(paths)\nloader = DataLoader(photos")
    assert "photos = " in data
    (found,) = bases(tmp_path, {"train.py": HEAD + data + TRAINING + read}, "GPU303")
    assert found.startswith(level)


@pytest.mark.parametrize(
    ("counts", "level"),
    [
        ("self.at = (self.at + 1) % len(self.paths)", "low"),
        ("self.at = self.at + 1", "low"),
        ("self.at = index * 2 + 1", "high"),
    ],
)
def test_samples_that_take_the_next_whatever_their_index_need_one_process(
    tmp_path: Path, counts: str, level: str
) -> None:
    data = IMAGES.replace("self.paths = paths", "self.paths, self.at = paths, 0").replace(
        "        return transform(Image.open(self.paths[index]))",
        f"        {counts}\n        return transform(Image.open(self.paths[self.at]))",
    )
    assert counts in data
    assert levels(tmp_path, {"net.py": "", "train.py": HEAD + data + TRAINING}, "GPU303") == [level]


@pytest.mark.parametrize(("made", "level"), [("Held", "low"), ("Photos", "high")])
def test_a_method_counts_as_the_class_of_the_data_set_has_it(tmp_path: Path, made: str, level: str) -> None:
    held = (
        "    def read(self, index):\n        return Image.open(self.paths[index]).convert('RGB')\n\n"
        "class Held(Photos):\n    def read(self, index):\n        return self.images[index]\n\n"
    )
    data = IMAGES.replace("transform(Image.open(self.paths[index]))", "self.read(index)")
    data = data.replace("loader =", held + "loader =").replace("DataLoader(Photos", f"DataLoader({made}")
    assert levels(tmp_path, {"net.py": "", "train.py": HEAD + data + TRAINING}, "GPU303") == [level]


POSES = """\
class Poses:
    def __init__(self, name):
        self.library = mediapipe.solutions.pose
        self.pose = self.library.Pose()

    def run(self, image):
        return self.pose.process(image)


"""


@pytest.mark.parametrize(
    ("made", "first"),
    [
        ("onnxruntime.InferenceSession(name)", "make what the data set computes with in each worker"),
        ("Poses(name)", "make what the data set computes with in each worker"),
        ("Net(name)", "set "),
    ],
)
def test_what_computes_in_threads_of_its_own_is_made_in_each_worker(tmp_path: Path, made: str, first: str) -> None:
    data = IMAGES.replace("self.paths = paths", f"self.paths, self.net = paths, {made}").replace(
        "transform(Image", "self.net.run(Image"
    )
    report = scan(
        tmp_path, {"net.py": "", "train.py": "import mediapipe, onnxruntime\n" + POSES + HEAD + data + TRAINING}
    )
    (found,) = [one.finding for one in report.results if one.finding.rule.code == "GPU303"]
    assert found.help.startswith(first)


@pytest.mark.parametrize(
    ("command", "level"), [('["python", "train.py", "--workers", "8"]', "low"), ('["python", "train.py"]', "medium")]
)
def test_a_program_that_starts_the_training_gives_workers(tmp_path: Path, command: str, level: str) -> None:
    option = (
        "import argparse\n\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--workers', type=int, default=0)\nargs = parser.parse_args()\n"
    )
    training = (IMAGES + TRAINING).replace("shuffle=True", "num_workers=args.workers")
    files = {"train.py": HEAD + option + training, "sweep.py": f"import subprocess\n\nsubprocess.run({command})\n"}
    assert levels(tmp_path, files, "GPU303") == [level]


@pytest.mark.parametrize(("decorator", "level"), [("@app.task\n", "low"), ("@app.before\n", "high")])
def test_a_task_of_celery_may_not_start_workers(tmp_path: Path, decorator: str, level: str) -> None:
    data, loader = IMAGES.split("loader =")
    body = "".join(f"    {line}\n" for line in f"loader ={loader}{TRAINING}".splitlines())
    program = f"{HEAD}from celery import Celery\n\napp = Celery()\n\n{data}{decorator}def train(folder):\n{body}\ntrain('a')\n"
    assert levels(tmp_path, {"net.py": "", "train.py": program}, "GPU303") == [level]


_BASE = """\
class Base:
    def __init__(self, paths):
        self.paths, self.model = paths, Net().cuda()

    def loader(self):
        return DataLoader(Photos(self.paths), batch_size=128)

    def run(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for images, labels in self.loader():
            self.model(images.cuda()).sum().backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("subclass", "made", "level"),
    [
        ("def loader(self):\n        return DataLoader(Photos(self.paths), num_workers=8)", "Subclass", "low"),
        ("def loader(self):\n        return DataLoader(Photos(self.paths), num_workers=8)", "Base", "high"),
        ("def loader(self):\n        return wrap(super().loader())", "Subclass", "high"),
        ("def other(self):\n        return 0", "Subclass", "high"),
    ],
)
def test_a_method_that_all_subclasses_replace_makes_nothing(
    tmp_path: Path, subclass: str, made: str, level: str
) -> None:
    base = HEAD + IMAGES.split("loader =")[0] + _BASE
    program = f"from base import Base, DataLoader, Photos\n\n\nclass Subclass(Base):\n    {subclass}\n\n\n{made}(paths).run()\n"
    (found,) = [
        one
        for one in bases(tmp_path, {"net.py": "", "base.py": base, "train.py": program}, "GPU303")
        if "samples" not in one
    ]
    assert found.startswith(level)


@pytest.mark.parametrize(
    ("argument", "low"), [("pin_memory=False", True), ("pin_memory=args.pin", False), ("drop_last=True", False)]
)
def test_pinning_that_is_switched_off_in_the_call_is_a_choice(tmp_path: Path, argument: str, low: bool) -> None:
    call = f"DataLoader(\n    Photos(paths),\n    batch_size=256,\n    num_workers=8,\n    {argument},\n)\n"
    program = HEAD + IMAGES.partition("loader =")[0] + f"loader = {call}" + TRAINING
    options = "parser.add_argument('--pin', action='store_true')\nargs = parser.parse_args()\n"
    (found,) = bases(tmp_path, {"net.py": "", "train.py": options + program}, "GPU301")
    assert (found.startswith("low") and found.endswith("pin_memory=False is written out")) is low


@pytest.mark.parametrize(("rounds", "several"), [("range(5)", True), ("range(1)", False), ("[given]", False)])
def test_a_loader_of_each_fold_loads_in_the_training_steps(tmp_path: Path, rounds: str, several: bool) -> None:
    data, loader = IMAGES.split("loader =")
    folds = "".join(f"    {line}\n" if line else "\n" for line in f"loader ={loader}{TRAINING}".splitlines())
    (found,) = bases(tmp_path, {"net.py": "", "train.py": f"{HEAD}{data}for fold in {rounds}:\n{folds}"}, "GPU303")
    assert ("one of several trainings" in found) is several and "outside" not in found, found


@pytest.mark.parametrize(
    ("test", "other", "often"),
    [
        ('phase == "train"', "else", "every evaluation batch"),
        ('phase != "train"', "else", "every step"),
        ('phase == "train"', 'elif phase == "tune"', "every step"),
        ('kind == "large"', "else", "every step"),
    ],
)
def test_a_loader_for_no_training_costs_in_evaluation_only(tmp_path: Path, test: str, other: str, often: str) -> None:
    """A function that gives out loaders by phase says it; its callers may train with the other one."""
    photos, _, _ = IMAGES.partition("loader =")
    made = (
        f"def made(data, phase, kind):\n    if {test}:\n        return DataLoader(data, batch_size=128, num_workers=8)\n"
        f"    {other}:\n        return DataLoader(data, batch_size=1)\n\n"
    )
    loader = "loader = made(Photos(paths), config.phase, config.kind)\n"
    (found,) = bases(tmp_path, {"net.py": "", "train.py": HEAD + photos + made + loader + TRAINING}, "GPU303")
    assert often in found


@pytest.mark.parametrize(
    ("branch", "says"),
    [
        ("if self.drawn == len(self):\n            random.shuffle(self.paths)\n            self.drawn = 0", True),
        ("if self.drawn >= 100:\n            self.stage = 2", True),
        ("if self.drawn > 10_000:\n            self.reset()", True),
        ("if self.drawn % 100 == 0:\n            print(self.paths)\n            self.drawn = 0", False),
        ("self.seen = self.drawn", False),
    ],
)
def test_a_data_set_that_changes_itself_is_changed_in_the_loop_first(tmp_path: Path, branch: str, says: bool) -> None:
    """Workers, each of which counts a part, would never reach the number."""
    data = IMAGES.replace(
        "        return transform", f"        self.drawn += 1\n        {branch}\n        return transform"
    )
    report = scan(tmp_path, {"net.py": "", "train.py": "import random\n" + HEAD + data + TRAINING})
    (found,) = [one.finding for one in report.results if one.finding.rule.code == "GPU303"]
    assert found.help.startswith("change the data set in the loop over epochs") is says
    assert ("persistent_workers" in found.help) is not says


@pytest.mark.parametrize(
    ("sample", "level"),
    [
        ("self.transform(self.values[index])", "low"),
        ("self.transform(Image.open(self.values[index]))", "high"),
        ("self.transform(torch.load(self.values[index]))", "high"),
    ],
)
def test_samples_in_memory_that_are_only_transformed_gain_little(tmp_path: Path, sample: str, level: str) -> None:
    data = (
        "from PIL import Image\n\n\nclass Samples(Dataset):\n"
        "    def __init__(self, values, transform):\n        self.values, self.transform = values, transform\n\n"
        f"    def __getitem__(self, index):\n        return {sample}, 0\n\n\n"
        "loader = DataLoader(Samples(values, transforms.Normalize(0.5, 0.5)), batch_size=512)\n"
    )
    text = "from torchvision import transforms\n" + HEAD + data + TRAINING
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU303") == [level]


@pytest.mark.parametrize(("name", "level"), [("volumes", "medium"), ("values", "low")])
def test_transforms_of_volumes_in_memory_are_work(tmp_path: Path, name: str, level: str) -> None:
    data = (
        f"class Samples(Dataset):\n    def __init__(self, {name}, transform, voxels):\n"
        f"        self.{name}, self.transform, self.voxels = {name}, transform, voxels\n\n"
        f"    def __getitem__(self, index):\n        return self.transform(self.{name}[index][None, :, :, :]), 0\n\n\n"
        f"loader = DataLoader(Samples({name}, augment, 64), batch_size=64)\n"
    )
    text = HEAD + (data if name == "volumes" else data.replace("voxels", "bins")) + TRAINING
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU303") == [level]


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ("rows.append(self.values[at].view(-1))", "low"),
        (
            "row = self.values[at + 1]\n            if len(row.shape) > 1:\n                row = row.squeeze(0)\n            rows.append(row)",
            "low",
        ),
        ("rows.append(self.values[at] * self.weights[at])", "high"),
        ("rows.append(distort(self.values[at]))", "high"),
        ("rows.append(torch.load(self.values[at]))", "high"),
        ("for value in self.values[at]:\n                rows.append(float(value))", "high"),
    ],
)
def test_rows_in_memory_that_a_loop_picks_gain_little(tmp_path: Path, body: str, level: str) -> None:
    data = (
        "class Tuples(Dataset):\n    def __init__(self, values, tuples):\n"
        "        self.values, self.tuples = values, tuples\n\n    def __getitem__(self, index):\n"
        "        rows = []\n        for at in self.tuples[index]:\n"
        f"            {body}\n        return rows, 0\n\n\n"
        "loader = DataLoader(Tuples(values, tuples), batch_size=512)\n"
    )
    assert levels(tmp_path, {"net.py": "", "train.py": HEAD + data + TRAINING}, "GPU303") == [level]


@pytest.mark.parametrize(
    ("size", "workers", "level"),
    [
        (5, "", "medium"),
        (5, ", num_workers=args.workers", "low"),
        (128, ", num_workers=args.workers", "medium"),
        (2, "", "low"),
    ],
)
def test_a_default_that_a_command_may_change_is_one_level_lower(
    tmp_path: Path, size: int, workers: str, level: str
) -> None:
    options = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--workers', type=int, default=0)\nargs = parser.parse_args()\n"
    loader = IMAGES.replace("batch_size=128", f"batch_size={size}{workers}")
    assert levels(tmp_path, {"net.py": "", "train.py": HEAD + options + loader + TRAINING}, "GPU303") == [level]


@pytest.mark.parametrize(("given", "said"), [("", True), (", num_workers=0", True), (", num_workers=4", False)])
def test_pinning_pays_together_with_workers(tmp_path: Path, given: str, said: bool) -> None:
    text = HEAD + IMAGES.replace(", shuffle=True", f", shuffle=True{given}") + TRAINING
    results = scan(tmp_path, {"net.py": "", "train.py": text}).results
    (help_text,) = [one.finding.help for one in results if one.finding.rule.code == "GPU301"]
    assert ("together with workers (GPU303)" in help_text) is said


PHASES = """\
train_loader = DataLoader(Photos(paths), batch_size=128, num_workers=8)
val_loader = DataLoader(Photos(more), batch_size=128)
loaders = {"train": train_loader, "val": val_loader}
model = Net().cuda()
for epoch in range(90):
    for phase in PHASES:
        for images, labels in LOADER:
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            loss.backward()
            if phase == "train":
                optimizer.step()
"""


@pytest.mark.parametrize(
    ("phases", "loader", "often"),
    [
        ('["train", "val"]', "loaders[phase]", "every evaluation batch"),
        ('("train", "val")', "enumerate(loaders[phase])", "every evaluation batch"),
        ('["train", "val"]', "val_loader", "every step"),
    ],
)
def test_loaders_of_phases(tmp_path: Path, phases: str, loader: str, often: str) -> None:
    head, _, _ = IMAGES.partition("loader =")
    loops = PHASES.replace("PHASES", phases).replace("LOADER", loader)
    loops = loops.replace("for images, labels", "for _, (images, labels)") if "enumerate" in loader else loops
    report = scan(tmp_path, {"net.py": "", "train.py": HEAD + head + loops})
    found = [one.finding.impact.basis for one in report.results if one.finding.rule.code == "GPU303"]
    assert [basis.partition(",")[0] for basis in found] == [often]


def test_a_loop_in_a_folder_that_is_not_scanned(tmp_path: Path) -> None:
    """The folder is read for what the program calls in it."""
    head, _, loader = IMAGES.partition("loader =")
    body = f"from third_party.steps import train_epoch\n\nloader ={loader}train_epoch(3, loader, model=Net().cuda())\n"
    (tmp_path / "third_party").mkdir()
    for moves, number in (("images = images.cuda()", 1), ("pass", 0)):
        step = f"def train_epoch(epoch, batches, model):\n    for images, labels in batches:\n        {moves}\n"
        (tmp_path / "third_party/steps.py").write_text(f"{step}        model(images).sum().backward()\n")
        report = scan(tmp_path, {"net.py": "", "train.py": HEAD + head + body})
        found = [one for one in report.results if one.finding.rule.code == "GPU303"]
        assert len(found) == number
