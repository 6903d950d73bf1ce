"""Split jobs on a real Slurm: the stage holds no GPUs, ends before the job starts, and the job finds what it made."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from gpulint.cli import main
from tests.slurm_cluster import Cluster

TOOL = """\
#!/bin/sh
# Stands for a tool that fetches: notes where it ran, and makes the file that its last argument names.
echo "$(basename "$0") job=$SLURM_JOB_ID gpus=${SLURM_GPUS_ON_NODE:-none}" >> "$TRACE"
for last in "$@"; do :; done
mkdir -p "$(dirname "$FETCHED/$last")"
echo data > "$FETCHED/$last"
"""
TRAIN = """\
def train():
    import torch

    model = torch.nn.Linear(2, 2).cuda()
    model(torch.ones(2).cuda()).sum().backward()


"""
MODEL = """\
def train():
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-6.9b").cuda()
    model(1).loss.backward()


"""
NOTE = """\
import os
import pathlib
import sys

absent = [name for name in sys.argv[1:] if not pathlib.Path(name).exists()]
with open(os.environ["TRACE"], "a") as trace:
    trace.write(
        f"train job={os.environ['SLURM_JOB_ID']} gpus={os.environ.get('SLURM_GPUS_ON_NODE', 'none')} "
        f"absent={absent} venv={os.path.basename(os.environ.get('VIRTUAL_ENV', ''))} "
        f"offline={os.environ.get('HF_HUB_OFFLINE', '')}\\n"
    )
"""
CALL = """\
if "STEPS" in os.environ:
    train()
"""
PREPARE = """\
import os
import pathlib

pathlib.Path("tokens").mkdir(exist_ok=True)
pathlib.Path("tokens/train.bin").write_text("1 2 3")
with open(os.environ["TRACE"], "a") as trace:
    trace.write(f"prepare job={os.environ['SLURM_JOB_ID']} gpus={os.environ.get('SLURM_GPUS_ON_NODE', 'none')}\\n")
"""
HUB = """\
import os
import pathlib


def snapshot_download(name, ignore_patterns):
    (pathlib.Path(os.environ["FETCHED"]) / name).mkdir(parents=True)
    with open(os.environ["TRACE"], "a") as trace:
        trace.write(f"hub job={os.environ['SLURM_JOB_ID']} gpus={os.environ.get('SLURM_GPUS_ON_NODE', 'none')}\\n")
"""
HEAD = "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --time=10\n#SBATCH --output=%x-%j.out\n"

JOBS = {
    "copy": (
        "export DATA=$PWD/store\nmkdir -p $DATA\n# all of it\naws s3 sync s3://bucket/set store/set\nnvidia-smi || true\n"
        "python train.py $FETCHED/store/set store\n",
        ["aws"],
        "venv= offline=",
    ),
    "environment": (
        "python -m venv --without-pip env\nsource env/bin/activate\npip install -r requirements.txt\n"
        "python train.py env/bin/python $FETCHED/requirements.txt\n",
        ["pip"],
        "venv=env offline=",
    ),
    "tokens": (
        "set -e\ncd work\npython prepare_data.py\n\npython train.py tokens/train.bin\n",
        ["prepare"],
        "venv= offline=",
    ),
    "hub": (
        "export HF_HOME=$PWD/hub\npython model.py $FETCHED/EleutherAI/pythia-6.9b\n",
        ["hub"],
        "venv= offline=1",
    ),
    "array": (
        "#SBATCH --array=0-1\ngsutil -m rsync gs://bucket/faces faces\npython train.py $FETCHED/faces\n",
        ["gsutil"],
        "venv= offline=",
    ),
}


def _prepared(folder: Path, name: str) -> None:
    """The job's files in ``folder``, split by gpulint."""
    (folder / f"{name}.sbatch").write_text(HEAD + JOBS[name][0])
    work = folder / "work" if name == "tokens" else folder
    work.mkdir(exist_ok=True)
    (work / "train.py").write_text(TRAIN + NOTE)
    (work / "prepare_data.py").write_text(PREPARE)
    if name == "hub":
        (work / "model.py").write_text(MODEL + NOTE + CALL)
    (folder / "requirements.txt").write_text("numpy\n")
    arguments = ["--isolated", "--impact", "low", "--select", "GPU311,GPU331,GPU332,GPU401"]
    assert main(["fix", *arguments, "--unsafe-fixes", "--apply", "--allow-dirty", "--allow-no-vcs", str(folder)]) == 0


@pytest.mark.parametrize("name", JOBS)
def test_the_stage_prepares_the_job_without_gpus(name: str, cluster: Cluster, tmp_path: Path) -> None:
    _prepared(tmp_path, name)
    tools, trace = tmp_path / "tools", tmp_path / "trace"
    tools.mkdir()
    (tools / "huggingface_hub.py").write_text(HUB)
    for tool in ("aws", "pip", "gsutil"):
        (tools / tool).write_text(TOOL)
        (tools / tool).chmod(0o755)
    (tools / "python").symlink_to(sys.executable)
    env = {
        "PYTHONPATH": str(tools),
        "TRACE": str(trace),
        "FETCHED": str(tmp_path / "fetched"),
        "PATH": f"{tools}:{os.environ['PATH']}",
    }
    done = cluster.run("bash", f"{name}_submit.sh", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    count = 2 if name == "array" else 1
    lines = _lines(trace, len(JOBS[name][1]) + count, tmp_path)
    stage, job = lines[: len(JOBS[name][1])], lines[-count:]
    assert [line.split()[0] for line in stage] == JOBS[name][1]
    assert all(line.split()[2] == "gpus=none" for line in stage)
    assert all(line.startswith("train ") and "gpus=none" not in line for line in job)
    assert {line.split()[1] for line in stage}.isdisjoint(line.split()[1] for line in job)
    assert all(f"absent=[] {JOBS[name][2]}" in line for line in job)


def _lines(trace: Path, count: int, folder: Path) -> list[str]:
    """The lines of the trace once there are ``count``."""
    lines = list[str]()
    for _ in range(300):
        lines = trace.read_text().splitlines() if trace.exists() else []
        if len(lines) >= count:
            return lines
        time.sleep(0.2)
    outputs = "\n".join(f"{path.name}:\n{path.read_text()}" for path in sorted(folder.glob("*.out")))
    raise AssertionError(f"{len(lines)} of {count} lines: {lines}\n{outputs}")
