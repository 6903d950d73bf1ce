"""Trees that are hard to follow: every rule runs over them, nothing crashes, and nothing is claimed that cannot be known."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.project import Project

LOOP = """\
for epoch in range(10):
    for images, labels in loader:
        loss = model(images.to("cuda"), labels)
        loss.backward()
        optimizer.step()
"""
LOADER = "from torch.utils.data import DataLoader\n"
SBATCH = "#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\n"


@pytest.fixture(scope="module")
def loaded() -> plugins.Plugins:
    return plugins.load()


def scan(loaded: plugins.Plugins, root: Path, files: dict[str, str]) -> list[str]:
    """``code path:line`` of all findings of all rules; fails on any internal error."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    project = Project(root, paths, Config(base=root))
    report = engine.run(project, paths, loaded.rules, fixers=loaded.fixers)
    assert report.errors == []
    found = [result.finding for result in report.results]
    return [f"{one.rule.code} {one.path.relative_to(root).as_posix()}:{one.span.line}" for one in found]


def test_circular_imports_keep_what_is_known(loaded: plugins.Plugins, tmp_path: Path) -> None:
    found = scan(
        loaded,
        tmp_path,
        {
            "train.py": "from data import loader, model, optimizer\n" + LOOP,
            "data.py": LOADER + "from train import epoch\nloader = DataLoader(images, num_workers=4)\n",
        },
    )
    assert "GPU301 data.py:3" in found
    assert "GPU302 train.py:4" in found


def test_star_imports_are_followed(loaded: plugins.Plugins, tmp_path: Path) -> None:
    found = scan(
        loaded,
        tmp_path,
        {"train.py": "from common import *\nloader = DataLoader(images, num_workers=4)\n" + LOOP, "common.py": LOADER},
    )
    assert "GPU301 train.py:2" in found


@pytest.mark.parametrize(
    "shadow",
    [
        "def DataLoader(data, **options):\n    return data\n",
        "class DataLoader:\n    def __init__(self, data, **options):\n        self.data = data\n",
        "DataLoader = None\n",
    ],
)
def test_a_shadowed_name_is_not_the_library_s(loaded: plugins.Plugins, tmp_path: Path, shadow: str) -> None:
    code = LOADER + shadow + "loader = DataLoader(images, num_workers=4)\n" + LOOP
    assert not [found for found in scan(loaded, tmp_path, {"train.py": code}) if found.startswith("GPU301")]


def test_conditional_imports_count_as_possible(loaded: plugins.Plugins, tmp_path: Path) -> None:
    code = "try:\n    from fast import DataLoader\nexcept ImportError:\n    from torch.utils.data import DataLoader\n"
    found = scan(loaded, tmp_path, {"train.py": code + "loader = DataLoader(images, num_workers=4)\n" + LOOP})
    assert "GPU302 train.py:8" in found


def test_a_generated_file_of_twenty_thousand_lines(loaded: plugins.Plugins, tmp_path: Path) -> None:
    body = "".join(f"x{number} = layer(x{number - 1}, {number})\n" for number in range(1, 20_000))
    found = scan(
        loaded,
        tmp_path,
        {"train.py": LOADER + "x0 = 1\n" + body + "loader = DataLoader(images, num_workers=4)\n" + LOOP},
    )
    assert "GPU301 train.py:20002" in found


def test_deep_nesting_is_a_note_and_the_rest_is_scanned(loaded: plugins.Plugins, tmp_path: Path) -> None:
    deep = "x = " + "f(" * 3000 + ")" * 3000 + "\n"
    found = scan(
        loaded,
        tmp_path,
        {"deep.py": deep, "train.py": LOADER + "import deep\nloader = DataLoader(images, num_workers=4)\n" + LOOP},
    )
    assert "GPU301 train.py:3" in found


def test_a_program_outside_of_the_tree_stays_unknown(loaded: plugins.Plugins, tmp_path: Path) -> None:
    script = SBATCH.format(gpus=8) + "python /opt/elsewhere/train.py\npython $HOME/other.py\nexec $1\n"
    assert scan(loaded, tmp_path, {"job.sh": script}) == []


def test_several_programs_of_one_launcher(loaded: plugins.Plugins, tmp_path: Path) -> None:
    clean = "import torch\nprint(torch.cuda.device_count())\n"
    found = scan(
        loaded,
        tmp_path,
        {
            "job.sh": SBATCH.format(gpus=1) + "python prepare.py\npython train.py --batch-size 256\n",
            "prepare.py": clean,
            "train.py": LOADER + "loader = DataLoader(images, num_workers=4)\n" + LOOP,
        },
    )
    assert "GPU301 train.py:2" in found
    assert not [one for one in found if "prepare.py" in one]


def test_two_jobs_share_a_program_with_different_gpus(loaded: plugins.Plugins, tmp_path: Path) -> None:
    program = (
        "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
        "dist.init_process_group('nccl')\nmodel = DDP(model.cuda())\n" + LOOP
    )
    found = scan(
        loaded,
        tmp_path,
        {
            "small.sh": SBATCH.format(gpus=2) + "torchrun --nproc_per_node=2 train.py\n",
            "large.sh": SBATCH.format(gpus=8) + "torchrun --nproc_per_node=2 train.py\n",
            "train.py": program,
        },
    )
    assert [one for one in found if one.startswith("GPU103")] == ["GPU103 large.sh:3"]


def test_the_order_of_files_and_processes_changes_nothing(loaded: plugins.Plugins, tmp_path: Path) -> None:
    files = {
        "train.py": "from data import make\nfrom steps import step\nloader = make(images)\n"
        "for epoch in range(3):\n    for batch in loader:\n        step(model, batch)\n",
        "data.py": LOADER + "def make(images, **options):\n    return DataLoader(images, num_workers=2, **options)\n",
        "steps.py": "def step(model, batch):\n    loss = model(batch.to('cuda'))\n    loss.backward()\n"
        "    print(loss.item())\n",
    }
    first = scan(loaded, tmp_path, files)
    paths = sorted(tmp_path.rglob("*.py"), reverse=True)
    backwards = engine.run(Project(tmp_path, paths, Config(base=tmp_path)), paths, loaded.rules, jobs=2)
    again = [
        f"{one.finding.rule.code} {one.finding.path.relative_to(tmp_path).as_posix()}:{one.finding.span.line}"
        for one in backwards.results
    ]
    assert again == first
    assert "GPU302 steps.py:2" in first
