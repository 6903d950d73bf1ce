"""Which steps of a batch script stay in the job, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main

STAYS = {
    "DATA=$SLURM_TMPDIR/set\naws s3 sync s3://bucket/set $DATA": "`SLURM_TMPDIR`",
    "aws s3 sync s3://bucket/set /tmp/set": "`/tmp/set` is on the node",
    "cd $TMPDIR\naws s3 sync s3://bucket/set set": "is on the node",
    "DATA=set-$(date +%s)\naws s3 sync s3://bucket/set $DATA": "another value in every run",
    "./list > shards.txt\naws s3 sync s3://bucket/set set": "`list` runs before it",
    "aws s3 sync s3://bucket/set$SLURM_ARRAY_TASK_ID set": "`SLURM_ARRAY_TASK_ID`",
    "srun --ntasks=4 aws s3 sync s3://bucket/set set": "`srun` with tasks",
    "singularity exec image.sif aws s3 sync s3://bucket/set set": "in a container",
    "cd set && aws s3 sync s3://bucket/set .": "the folder or the environment",
    "fetch() {\n  aws s3 sync s3://bucket/set set\n}\nfetch": "in a function",
    "#SBATCH --dependency=singleton\naws s3 sync s3://bucket/set set": "depends on another one",
    "#SBATCH --container-image=torch.sqsh\npip install -r requirements.txt": "`--container-image` its script runs in",
    "#SBATCH --gpus=4 --container=/images/oci\naws s3 sync s3://bucket/set set": "`--container` its script runs in",
    "srun --container-image=torch.sqsh pip install -r requirements.txt": "in a separate container",
    "IN='--container-image=torch.sqsh'\nsrun $IN pip install -r requirements.txt": "in a separate container",
    "#SBATCH hetjob\n#SBATCH --ntasks=2\naws s3 sync s3://bucket/set set": "heterogeneous",
}


def _fix(folder: Path, script: str) -> None:
    (folder / "requirements.txt").write_text("einops\n")
    (folder / "train.py").write_text("import torch\n\ntorch.nn.Linear(2, 2).cuda()\n")
    (folder / "train.sbatch").write_text(f"#!/bin/bash\n#SBATCH --gres=gpu:4\n{script}\nsrun python train.py\n")
    arguments = ["--isolated", "--unsafe-fixes", "--select", "GPU332,GPU401", "--output-format", "json"]
    assert main(["fix", *arguments, str(folder)]) in (0, 1)


@pytest.mark.parametrize("script", STAYS)
def test_what_another_job_could_not_do_stays_with_the_reason(
    script: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _fix(tmp_path, script)
    (one,) = json.loads(capfd.readouterr().out)
    assert (one["state"], STAYS[script] in one["reason"]) == ("declined", True), one["reason"]


@pytest.mark.parametrize(
    ("options", "state"), [("--container-image=torch.sqsh train.sbatch", "declined"), ("train.sbatch --container", "")]
)
def test_the_command_that_submits_may_put_the_script_into_a_container(
    options: str, state: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "submit.sh").write_text(f"#!/bin/bash\nsbatch {options}\n")
    _fix(tmp_path, "pip install -r requirements.txt")
    (one,) = json.loads(capfd.readouterr().out)
    assert (one["state"] == "declined") is (state == "declined")
    assert state == "" or "`--container-image` in submit.sh" in one["reason"]


def test_a_script_of_very_many_steps_is_left_to_its_author(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _fix(tmp_path, "\n".join(f"aws s3 sync s3://bucket/set{number} set{number}" for number in range(120)))
    (reason,) = {one["reason"] for one in json.loads(capfd.readouterr().out)}
    assert "more than 100 call for a stage of your own" in reason


def test_a_script_of_the_user_is_not_overwritten(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train_submit.sh").write_text("mine\n")
    _fix(tmp_path, "aws s3 sync s3://bucket/set set")
    (one,) = json.loads(capfd.readouterr().out)
    assert (one["state"], one["reason"]) == ("declined", "train_submit.sh exists already")


def test_without_apply_nothing_is_written_and_with_it_all_three(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _fix(tmp_path, "aws s3 sync s3://bucket/set set")
    assert {path.name for path in tmp_path.iterdir()} == {"requirements.txt", "train.py", "train.sbatch"}
    capfd.readouterr()
    arguments = ["--isolated", "--unsafe-fixes", "--select", "GPU332", "--apply", "--allow-dirty", "--allow-no-vcs"]
    assert main(["fix", *arguments, str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "requirements.txt", "train.py", "train.sbatch", "train_prepare.sbatch", "train_submit.sh",
    }  # fmt: skip
    assert main(["scan", "--isolated", "--select", "ALL", "--impact", "low", str(tmp_path)]) == 0


def test_the_stage_makes_the_folder_of_an_argument(tmp_path: Path) -> None:
    script = 'DATA=$1\nmkdir -p "$DATA"\naws s3 cp s3://bucket/set.tar "$DATA/set.tar"'
    _fix(tmp_path, script)
    arguments = ["--isolated", "--unsafe-fixes", "--select", "GPU332", "--apply", "--allow-dirty", "--allow-no-vcs"]
    assert main(["fix", *arguments, str(tmp_path)]) == 0
    assert (
        (tmp_path / "train_prepare.sbatch")
        .read_text()
        .endswith(
            'DATA=$1\n\nset -e  # the job starts only if all of this succeeds\nmkdir -p "$DATA"\n'
            'aws s3 cp s3://bucket/set.tar "$DATA/set.tar"\n'
        )
    )


@pytest.mark.parametrize(
    ("after", "moves"), [("tar xf set.tar || { echo failed; exit 1; }", True), ("[ -f set.tar ] || exit 1", False)]
)
def test_an_archive_is_unpacked_in_the_stage_also_where_a_failure_ends_the_script(
    after: str, moves: bool, tmp_path: Path
) -> None:
    _fix(tmp_path, f"aws s3 cp s3://bucket/set.tar . || exit 1\n{after}")
    arguments = ["--isolated", "--unsafe-fixes", "--select", "GPU332", "--apply", "--allow-dirty", "--allow-no-vcs"]
    assert main(["fix", *arguments, str(tmp_path)]) == 0
    assert (f"{after}\n" in (tmp_path / "train_prepare.sbatch").read_text()) is moves
    assert (f"{after}\n" in (tmp_path / "train.sbatch").read_text()) is not moves


@pytest.mark.parametrize(
    ("output", "own"),
    [("logs/%A_%a.out", "logs/%j.out"), ("logs/%4A.out", "logs/%j.out"), ("run.out", "prepare-run.out")],
)
def test_the_output_of_the_stage_has_a_file_of_its_own(output: str, own: str, tmp_path: Path) -> None:
    _fix(tmp_path, f"#SBATCH --array=0-9\n#SBATCH --output={output}\naws s3 sync s3://bucket/set set")
    arguments = ["--isolated", "--unsafe-fixes", "--select", "GPU332", "--apply", "--allow-dirty", "--allow-no-vcs"]
    assert main(["fix", *arguments, str(tmp_path)]) == 0
    assert f"#SBATCH --output={own}\n" in (tmp_path / "train_prepare.sbatch").read_text()


def test_a_script_whose_name_is_as_long_as_names_may_be_stays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = "#!/bin/bash\n#SBATCH --gres=gpu:4\npip install torch\nsrun python train.py\n"
    (tmp_path / f"{'a' * 248}.sbatch").write_text(script)
    (tmp_path / "train.py").write_text("import torch\n\ntorch.nn.Linear(2, 2).cuda()\n")
    assert main(["fix", "--isolated", "--unsafe-fixes", "--impact", "low", str(tmp_path)]) in (0, 1)
    assert "_prepare.sbatch cannot be created: File name too long" in "".join(capfd.readouterr())


def test_the_stage_fills_the_disk_of_the_node_that_the_job_names(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hook = 'eval "$(conda shell.bash hook)"\nconda activate work\n'
    _fix(tmp_path, f"#SBATCH -w node7\n#SBATCH -p gpu\n{hook}rsync -a store:/data/set.lmdb /scratch/me")
    (one,) = json.loads(capfd.readouterr().out)
    assert one["state"] != "declined", one["reason"]
    arguments = ["--isolated", "--unsafe-fixes", "--select", "GPU332", "--apply", "--allow-dirty", "--allow-no-vcs"]
    assert main(["fix", *arguments, str(tmp_path)]) == 0
    lines = (tmp_path / "train_prepare.sbatch").read_text().splitlines()
    assert {"#SBATCH --nodelist=node7", "#SBATCH --partition=gpu"} <= {*lines}
    assert {'eval "$(conda shell.bash hook)"', "conda activate work", "rsync -a store:/data/set.lmdb /scratch/me"} <= {
        *lines
    }


@pytest.mark.parametrize(
    ("line", "kept", "left"),
    [
        ("--comment keliang", "--comment=keliang", ""),
        ('--comment="project of the group"', '--comment="project of the group"', ""),
        ("--wckey=vision", "--wckey=vision", ""),
        ("-A vision", "--account=vision", ""),
        ("-q normal", "--qos=normal", ""),
        ("--qos=qos_gpu-t3", "", "QoS"),
        ("-A abc@v100", "", "account"),
        ("-p batch,long", "--partition=batch,long", ""),
        ("-p g078t1", "", "partition"),
        ("-p gpu-long", "", "partition"),
        ("-C a100", "", ""),
        ("-C gpu&hbm80g", "", "constraint"),
        ("-p long -q a100-gpu -C gpu", "--partition=long", "QoS and constraint"),
    ],
)
def test_the_stage_is_paid_for_as_the_job_and_runs_where_it_can(
    line: str, kept: str, left: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _fix(tmp_path, f"#SBATCH {line}\naws s3 sync s3://bucket/set set")
    (one,) = json.loads(capfd.readouterr().out)
    assert one["fix"]["description"].partition("the new job takes the site's default ")[2] == left
    arguments = ["--isolated", "--unsafe-fixes", "--select", "GPU332", "--apply", "--allow-dirty", "--allow-no-vcs"]
    assert main(["fix", *arguments, str(tmp_path)]) == 0
    text = (tmp_path / "train_prepare.sbatch").read_text()
    named = "--job-name", "--nodes", "--ntasks"
    own = [row for row in text.splitlines() if row.startswith("#SBATCH") and row.split()[1].split("=")[0] not in named]
    assert own == ([f"#SBATCH {kept}"] if kept else [])
    assert (f"# It runs with the site's default {left}: " in text) is bool(left)
