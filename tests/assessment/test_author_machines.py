"""Notebooks whose saved outputs name the machine that they ran on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.assessment.scans import HEAD, IMAGES, IN_USE, TRAINING, bases

SAYS = "its saved outputs name the CPU"
CHOOSES = "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n"


def _notebook(*cells: tuple[str, dict[str, Any] | str], **metadata: Any) -> str:
    made = []
    for source, shown in cells:
        output = {"output_type": "stream", "name": "stdout", "text": [shown]} if isinstance(shown, str) else shown
        made.append({"cell_type": "code", "metadata": {}, "outputs": [output] if shown else [], "source": source})
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def _found(folder: Path, *cells: tuple[str, dict[str, Any] | str], chooses: str = CHOOSES, **metadata: Any) -> str:
    work = (HEAD + IMAGES + chooses + TRAINING, "")
    (found,) = bases(folder, {"net.py": "", "train.ipynb": _notebook(*cells, work, **metadata)}, "GPU303")
    assert found.startswith("low") is (SAYS in found)
    return found


@pytest.mark.parametrize(
    "shown",
    [
        "Device: cpu\nDownloading: weights",
        "2025-11-06 22:58:55,417 - INFO - \N{FIRE} Device aktiv: cpu",
        "Using cpu device",
        "Using device: CPU",
        "\x1b[1mUsing device:\x1b[0m cpu",
        "device = 'cpu'",
        "Device set to use cpu",
        "Using {'cpu'} device",
        "\u4f7f\u7528\u8bbe\u5907: cpu",
        "Not using GPU",
        "Training the model on CPU...",
        "CUDA available: False",
        "CUDA available False",
        "torch.cuda.is_available(): False",
        "GPU available: False, used: False\nTPU available: False, using: 0 TPU cores",
        "Num GPUs Available:  0",
        "No GPU found, using the CPU instead",
        "UserWarning: 'pin_memory' argument is set as true but no accelerator is found, then device pinned memory",
        "UserWarning: User provided device_type of 'cuda', but CUDA is not available. Disabling",
        "FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated.\nusing device: cpu",
        "Could not find cuda drivers on your machine, GPU will not be used.",
        "Ultralytics 8.0.20 Python-3.10.9 torch-2.0.1+cpu CPU (Intel Core i7)",
        "/bin/bash: line 1: nvidia-smi: command not found",
        "cpu\nepoch 1: 0.34",
    ],
)
def test_a_notebook_that_has_run_without_a_gpu_waits_with_none(tmp_path: Path, shown: str) -> None:
    assert SAYS in _found(tmp_path, (CHOOSES + "print(device)", shown))


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("device", "device(type='cpu')"),
        ("device", "'cpu'"),
        ("torch.cuda.is_available()", "False"),
        ("print(torch.__version__)\nprint(torch.cuda.is_available())", "2.1.0\nFalse"),
        ("tf.config.list_physical_devices('GPU')", "[]"),
        ("torch.cuda.device_count()", "0"),
    ],
)
def test_the_value_of_a_cell_tells_the_device(tmp_path: Path, source: str, shown: str) -> None:
    value = {"output_type": "execute_result", "data": {"text/plain": [shown]}, "metadata": {}, "execution_count": 1}
    assert SAYS in _found(tmp_path, (source, value))


def test_the_message_of_an_error_tells_the_device_and_its_code_does_not(tmp_path: Path) -> None:
    error = {
        "output_type": "error",
        "ename": "AssertionError",
        "evalue": "Torch not compiled with CUDA enabled",
        "traceback": ["----> 1 model.to('cuda:0')"],
    }
    assert SAYS in _found(tmp_path, ("model.to('cuda:0')", error))


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("print(device)", "Using device: cuda"),
        ("print(device)", "cuda"),
        ("print(device)", "Device: cpu\nDevice: cuda:0"),
        ("!nvidia-smi", "| NVIDIA-SMI 535.104  Driver Version: 535.104 |\n|   0  Tesla T4   Off | 0MiB / 15360MiB |"),
        ("torch.cuda.is_available()", "True"),
        ("print(x)", "Using cpu device\nGPU available: True (cuda), used: True"),
        ("print(x)", "Num GPUs Available:  1"),
        ("print(t)", "Device tensor is stored on: cpu"),
        ("print(t)", "Tensor device: cpu"),
        ("t.device", "device(type='cpu')"),
        ("print(t.device)", "cpu"),
        ("print(x)", "Epoch 1/8: loss 0.5"),
        ("print(x)", "Using CPU cores: 8"),
        ("print(x)", "Wall time: 4 s, CPU times: user 3 s"),
        ("print(x)", "Device: mps"),
        ("print(x)", "Device: cpu\nMPS available: True"),
    ],
)
def test_a_notebook_that_shows_a_gpu_or_nothing_stays(tmp_path: Path, source: str, shown: str) -> None:
    assert SAYS not in _found(tmp_path, (source, shown))


def test_any_cell_that_names_a_gpu_counts(tmp_path: Path) -> None:
    assert SAYS not in _found(tmp_path, ("print(device)", "Device: cpu"), ("print(device)", "Device: cuda:0"))


def test_a_notebook_that_requests_a_gpu_stays(tmp_path: Path) -> None:
    assert SAYS not in _found(tmp_path, ("print(device)", "Device: cpu"), accelerator="GPU")


def test_a_notebook_that_fails_without_a_gpu_stays(tmp_path: Path) -> None:
    assert SAYS not in _found(tmp_path, ("print(net)", "Device: cpu"), chooses="")


def test_long_outputs_are_read_at_their_ends(tmp_path: Path) -> None:
    bar = "100%|#####| 10/10 [00:01<00:00]\r" * 20_000
    assert SAYS in _found(tmp_path / "a", ("print(device)", f"Device: cpu\n{bar}"))
    assert SAYS not in _found(tmp_path / "b", ("print(device)", f"Device: cpu\n{bar}\nDevice: cuda:0"))


@pytest.mark.parametrize(
    ("shown", "more", "expected"),
    [
        ("Device: cpu", {}, True),
        ("Device: cuda", {}, False),
        ("Device: cpu", {"main.py": "import work\nwork.train()\n"}, False),
    ],
)
def test_a_module_of_such_notebooks_waits_with_none(
    tmp_path: Path, shown: str, more: dict[str, str], expected: bool
) -> None:
    body = "".join(f"    {line}\n" for line in (CHOOSES + "total = 0.0\n" + TRAINING).splitlines())
    files = {"net.py": "", "work.py": HEAD + IMAGES + "def train():\n" + body} | more
    files["run.ipynb"] = _notebook(("import work", ""), ("print(device)", shown), ("work.train()", ""))
    (found,) = bases(tmp_path, files, "GPU303")
    assert (SAYS in found) is expected


def _program(folder: Path, **more: str) -> str:
    files = {"net.py": "", "train.py": IN_USE + HEAD + IMAGES + CHOOSES + "total = 0.0\n" + TRAINING}
    (found,) = bases(folder, files | {name.replace("__", "/"): text for name, text in more.items()}, "GPU303")
    return found


@pytest.mark.parametrize(
    "text",
    [
        "Trained for 20 epochs on CPU.",
        "The network was trained on a laptop CPU in two hours.",
        "All experiments were run on an Intel i7 CPU.",
        "No GPU needed.",
        "No GPU is required.",
        "The training does not require a GPU.",
        "I don't have a GPU, so the model is small.",
        "- **Hardware**: CPU",
        "This project is CPU-only.",
    ],
)
def test_a_readme_may_say_that_training_runs_on_a_cpu(tmp_path: Path, text: str) -> None:
    found = _program(tmp_path, **{"README.md": f"# Fish\n\n{text}\n"})
    assert found.startswith("low") and "its README says that it runs on a CPU" in found


@pytest.mark.parametrize(
    "text",
    [
        "Trained on a CPU; on a GPU it takes minutes.",
        "No GPU needed for inference.",
        "Training runs on CPU if there is no GPU.",
        "Trained on an RTX 3090. No GPU is needed for the demo.",
        "Runs on Colab. No GPU is required.",
        "Install the CPU-only version of PyTorch.",
        "Preprocessing uses all CPU cores.",
        "Training on CPU is slow.",
        "Training was run on a CPU cluster.",
        "It runs with or without a GPU.",
        "CPU-only machines are supported.",
    ],
)
def test_a_readme_that_speaks_of_gpus_or_of_something_else_leaves_findings(tmp_path: Path, text: str) -> None:
    assert _program(tmp_path, **{"README.md": f"# Fish\n\n{text}\n"}).startswith("high")


@pytest.mark.parametrize(
    ("name", "text", "level"),
    [
        ("train.log", "2025-01-01 INFO Using device: cpu\nepoch 1 loss 0.3\n", "low"),
        ("logs__run1.txt", "nothing\n", "high"),
        ("logs__train_1.txt", "Using cpu device\n", "low"),
        ("slurm-123.out", "GPU available: False, used: False\n", "low"),
        ("train.log", "Using device: cuda:0\n", "high"),
        ("notes.txt", "Using device: cpu\n", "high"),
    ],
)
def test_logs_tell_the_device_of_a_program(tmp_path: Path, name: str, text: str, level: str) -> None:
    assert _program(tmp_path, **{name: text}).startswith(level)


def test_logs_of_several_programs_are_told_apart_by_their_names(tmp_path: Path) -> None:
    other = {"other.py": "print('another one')\n"}
    assert _program(tmp_path / "a", **{"other.log": "Using device: cpu\n"}, **other).startswith("high")
    assert _program(tmp_path / "b", **{"train.log": "Using device: cpu\n"}, **other).startswith("low")


def test_a_job_that_requests_gpus_outweighs_notes_and_logs(tmp_path: Path) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython other.py\n"
    more = {
        "train.log": "Using device: cpu\n",
        "README.md": "`train.py`: trained on CPU.\n",
        "job.sh": job,
        "other.py": "",
    }
    assert _program(tmp_path, **more).startswith("high")


@pytest.mark.parametrize(
    ("source", "shown", "expected"),
    [
        ("!python train.py --epochs 3", "Using device: cpu\nepoch 1", True),
        ("%run train.py", "Using device: cpu", True),
        ("%%bash\npython train.py", "Using device: cpu", True),
        ("!python train.py", "Using device: cuda", False),
        ("!python other.py", "Using device: cpu", False),
        ("!python pretrain.py", "Using device: cpu", False),
        ("!cat train.py", "epoch 1", False),
    ],
)
def test_a_program_that_a_notebook_has_started_names_its_device_there(
    tmp_path: Path, source: str, shown: str, expected: bool
) -> None:
    assert (SAYS in _program(tmp_path, **{"run.ipynb": _notebook((source, shown))})) is expected
