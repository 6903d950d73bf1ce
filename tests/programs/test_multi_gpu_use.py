"""Whether programs use GPUs, how they spread over several, and how many a launch has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.documents.shell import parse_script
from gpulint.launch.gpu_counts import devices, visible
from gpulint.launch.idle_commands import endless, session, sleeps
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.gpu_libraries import Approach
from gpulint.programs.multi_gpu_use import MultiGpuUse, Use
from gpulint.project import Project
from gpulint.source import Fragment, SourceText
from tests.trees import Tree


def project(root: Path, files: dict[str, str]) -> Project:
    return Tree(root, files).project


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("import torch", Use.YES),
        ("def f():\n    from cuml import KMeans", Use.YES),
        ("import numpy\nimport json", Use.NO),
        ("import xgboost", Use.NO),
        ("import xgboost\nxgboost.train({'device': 'cuda'})", Use.UNKNOWN),
        ("import something_new", Use.UNKNOWN),
        ("import numpy, subprocess", Use.UNKNOWN),
        ("import os\nos.system('./run')", Use.UNKNOWN),
        ("def broken(:", Use.UNKNOWN),
    ],
)
def test_use_of_a_gpu(tmp_path: Path, text: str, use: Use) -> None:
    assert project(tmp_path, {"main.py": text + "\n"}).fact(MultiGpuUse).of(tmp_path / "main.py").use is use


def test_what_an_imported_module_of_the_tree_imports_counts(tmp_path: Path) -> None:
    found = project(
        tmp_path, {"main.py": "from pkg import engine\n", "pkg/__init__.py": "", "pkg/engine.py": "import jax\n"}
    )
    assert found.fact(MultiGpuUse).of(tmp_path / "main.py").use is Use.YES
    assert found.fact(MultiGpuUse).of(tmp_path / "main.py").libraries == {"jax"}


def test_modules_that_import_each_other_come_to_an_end(tmp_path: Path) -> None:
    found = project(tmp_path, {"a.py": "import b\n", "b.py": "import a\nimport numpy\n"})
    assert found.fact(MultiGpuUse).of(tmp_path / "a.py").use is Use.NO


@pytest.mark.parametrize(
    ("text", "approach"),
    [
        ("model = nn.DataParallel(model)", Approach.ONE_PROCESS),
        ("model = DistributedDataParallel(model)", Approach.PER_PROCESS),
        ("mp.spawn(f, nprocs=4)", Approach.SPAWN),
        ("m = from_pretrained('x', device_map='auto')", Approach.MODEL),
        ("layer.to('cuda:1')", Approach.MODEL),
        ("trainer = SFTTrainer(model)", Approach.FRAMEWORK),
    ],
)
def test_ways_to_use_several_gpus(tmp_path: Path, text: str, approach: Approach) -> None:
    (sign, *_) = (
        project(tmp_path, {"main.py": f"import torch\n{text}\n"}).fact(MultiGpuUse).of(tmp_path / "main.py").parallel
    )
    assert sign.approach is approach and sign.place.span.line == 2


def test_a_comment_is_no_parallel_work(tmp_path: Path) -> None:
    found = project(tmp_path, {"main.py": "import torch\n# DataParallel would help\nx.to('cuda:0')\n"})
    assert found.fact(MultiGpuUse).of(tmp_path / "main.py").parallel == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0,1", 2), ("", 0), ("-1", 0), ("0,-1,2", 1), ("GPU-1a, GPU-2b", 2), ("none", 0), ("0,x,1", 1)],
)
def test_devices_end_at_the_first_invalid_one(value: str, expected: int) -> None:
    assert len(devices(value)) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("#SBATCH --gres=gpu:4\npython t.py\n", 4),
        ("#SBATCH --gres=gpu:4\nCUDA_VISIBLE_DEVICES=0,1 python t.py\n", 2),
        ("#SBATCH --gres=gpu:4\nexport CUDA_VISIBLE_DEVICES=$X\npython t.py\n", None),
        ("docker run --gpus 2 image python t.py\n", 2),
        ("if true; then export CUDA_VISIBLE_DEVICES=0; fi\npython t.py\n", None),
    ],
)
def test_gpus_that_a_launch_sees(tmp_path: Path, script: str, expected: int | None) -> None:
    (job,) = project(tmp_path, {"run.sh": script}).fact(JobIndex).jobs()
    count = visible(job, job.launches[-1])
    assert (count.value if count is not None else None) == expected


def first(text: str) -> object:
    return parse_script(Fragment(text, SourceText(text))).commands[0]


@pytest.mark.parametrize(
    ("text", "seconds"), [("sleep 2m 5", 125), ("sleep infinity", float("inf")), ("sleep $N", None), ("echo 5", None)]
)
def test_seconds_of_a_sleep(text: str, seconds: float | None) -> None:
    assert sleeps(first(text)) == seconds  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "is_endless"),
    [
        ("sleep inf", True),
        ("sleep 30d", True),
        ("tail -f /dev/null", True),
        ("while true; do sleep 5; done", True),
        ("while ! test -f x; do sleep 5; done", False),
        ("tail -f log.txt", False),
        ("sleep 60", False),
    ],
)
def test_endless_waits(text: str, is_endless: bool) -> None:
    commands = parse_script(Fragment(text, SourceText(text))).commands
    assert any(endless(command) is not None for command in commands) is is_endless


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("jupyter lab", "Jupyter"),
        ("python -m jupyter notebook", "Jupyter"),
        ("jupyter nbconvert --execute x.ipynb", None),
        ("salloc --gres=gpu:1", "salloc"),
        ("salloc -N 1", None),
        ("srun --pty bash", "srun --pty"),
        ("srun --pty python x.py", None),
        ("/usr/sbin/sshd -D", "sshd"),
    ],
)
def test_interactive_sessions(text: str, name: str | None) -> None:
    assert session(first(text)) == name  # type: ignore[arg-type]
