"""First statements of commands of Azure ML in steps of their own, which hand on what they write."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

MakeJob = Callable[..., Any]

TRAIN = "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n"
JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
display_name: tune
description: >-
  All of it,
  every night.
code: .
command: COMMAND
inputs:
  set: imagenet
  raw: {type: uri_folder, path: "azureml:raw:1", mode: download}
outputs:
  model: {type: uri_folder, mode: rw_mount}
environment: azureml:pytorch@latest
environment_variables: {A: b}
identity: {type: managed}
resources: {instance_count: 2, shm_size: 16g}
compute: azureml:gpu-cluster
"""
COMMANDS = {
    "plain": "aws s3 sync s3://bucket/set data/set && python train.py --data data/set",
    "folded": ">-\n  aws s3 sync\n  s3://bucket/set data/set\n  && python train.py --data data/set",
    "folded and kept": ">\n  aws s3 sync s3://bucket/set ./data/set &&\n  python train.py --data=data/set\n",
    "lines": "|\n  aws s3 sync s3://bucket/set data/set\n  python train.py --data data/set",
    "continued": "|\n  aws s3 sync \\\n    s3://bucket/set data/set\n  python train.py \\\n    --data data/set",
    "double quotes": '"aws s3 sync \\"s3://bucket/set\\" data/set && python train.py --data data/set"',
    "single quotes": "'aws s3 sync s3://bucket/''set'' data/set && python train.py --data \"data/set\"'",
    "unpacked": ">-\n  aws s3 cp s3://bucket/set.tar set.tar && mkdir -p data/set && tar -xf set.tar -C data/set &&"
    "\n  python train.py --data data/set",
    "a file": "aws s3 cp s3://bucket/set data/set.csv && python train.py --data data/set.csv",
    "own disk": "aws s3 sync s3://bucket/set /tmp/set && python train.py --data /tmp/set",
    "below": "aws s3 sync s3://bucket/set data && python train.py --data data/set",
    "a folder": "aws s3 cp s3://bucket/set/shard data/ && python train.py --data data/",
    "variables": "|\n  SET=s3://bucket/set\n  aws s3 sync $SET data/set\n  python train.py --data data/set",
}
AWS = """\
#!/bin/bash
to="${@: -1}"
case "$2 $to" in
cp*.tar) mkdir -p x && echo data > x/shard && tar -cf "$to" -C x shard ;;
cp*/) mkdir -p "$to" && echo data > "$to/shard" ;;
cp*) mkdir -p "$(dirname "$to")" && echo data > "$to" ;;
*) mkdir -p "$to/set" && echo data > "$to/shard" && cp "$to/shard" "$to/set/shard" ;;
esac
"""
PYTHON = '#!/bin/bash\nto="${@: -1}"\nto="${to#--data=}"\nif [ -d "$to" ]; then cat "$to/shard"; else cat "$to"; fi\n'


def run(folder: Path, *commands: str) -> str:
    """Run commands as steps in folders of their own, which see one that is handed on."""
    bin_, prepared, shown = folder / "bin", folder / "prepared", ""
    for path in (bin_, prepared):
        path.mkdir(parents=True)
    for name, text in (("aws", AWS), ("python", PYTHON)):
        (bin_ / name).write_text(text)
        (bin_ / name).chmod(0o755)
    for number, command in enumerate(commands):
        (home := folder / f"step{number}").mkdir()
        text = re.sub(r"\$\{\{(?:in|out)puts\.prepared\}\}", str(prepared), command).replace("/tmp/", f"{folder}/tmp/")
        environment = {"PATH": f"{bin_}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", text], cwd=home, env=environment, capture_output=True, text=True, check=True
        )
        shown += done.stdout
    return shown


@pytest.mark.parametrize("shape", COMMANDS)
def test_both_steps_in_order_do_what_the_job_did(job: MakeJob, tmp_path: Path, shape: str) -> None:
    text = JOB.replace("COMMAND", COMMANDS[shape])
    made = job({"train.py": TRAIN, "job.yaml": text})
    assert made.repair("GPU332") >= 1
    before, after = yaml.safe_load(text), yaml.safe_load(made.text("job.yaml"))
    assert list(after["jobs"]) == ["train_prepare", "train"]
    stage, train = after["jobs"].values()
    assert "aws" not in train["command"] and "train.py" not in stage["command"]
    shown = run(tmp_path / "after", stage["command"], train["command"])
    assert shown == run(tmp_path / "before", before["command"]) == "data\n"
    assert made.scan("GPU332") == []


def test_what_names_the_job_stays_and_all_else_goes_to_the_step(job: MakeJob) -> None:
    text = JOB.replace("COMMAND", COMMANDS["folded"])
    made = job({"train.py": TRAIN, "job.yaml": text})
    made.repair("GPU332")
    before, after = yaml.safe_load(text), yaml.safe_load(made.text("job.yaml"))
    assert (after["type"], after["description"]) == ("pipeline", before["description"])
    assert after["$schema"].endswith("/pipelineJob.schema.json")
    stage, train = after["jobs"].values()
    assert train["inputs"] == {"prepared": "${{parent.jobs.train_prepare.outputs.prepared}}", **before["inputs"]}
    assert after["outputs"] == before["outputs"]
    assert train["outputs"] == {"model": "${{parent.outputs.model}}"}
    for key in ("environment", "environment_variables", "identity", "resources", "compute", "code"):
        assert train[key] == before[key]
    assert stage["outputs"] == {"prepared": {"type": "uri_folder"}}
    assert (stage["compute"], stage["environment"]) == ("azureml:cpu-cluster", before["environment"])
    assert "resources" not in stage and "inputs" not in stage


def test_a_step_without_gpus_builds_no_packages_for_them(job: MakeJob) -> None:
    installs = "pip install datasets flash-attn && python -m pip install flash_attn==2.5 --no-build-isolation"
    text = JOB.replace("COMMAND", f"{installs} && {COMMANDS['plain']}")
    made = job({"train.py": TRAIN, "job.yaml": text})
    made.repair("GPU332")
    stage, train = yaml.safe_load(made.text("job.yaml"))["jobs"].values()
    assert train["command"].startswith(installs)
    assert "pip install datasets" in stage["command"] and "flash_attn" not in stage["command"]


def test_the_fix_states_the_compute_target_that_it_assumes_or_takes_one_of_the_tree(job: MakeJob) -> None:
    text = JOB.replace("COMMAND", COMMANDS["plain"])
    assert (
        "`azureml:cpu-cluster`: name one without GPUs there"
        in job({"train.py": TRAIN, "job.yaml": text}).offer("GPU332").description
    )
    other = "type: command\ncommand: echo\nenvironment: x\ncompute: azureml:big-cpus  # cheap\n"
    made = job({"train.py": TRAIN, "job.yaml": text, "other.yaml": other})
    assert "azureml:big-cpus" in made.offer("GPU332").description


def test_an_input_that_only_the_moved_statements_use_is_no_longer_fetched_to_the_gpus(job: MakeJob) -> None:
    command = "aws s3 sync s3://${{inputs.set}} data/set && python train.py --data data/set --raw ${{inputs.raw}}"
    made = job({"train.py": TRAIN, "job.yaml": JOB.replace("COMMAND", command)})
    assert made.repair("GPU332") == 1
    stage, train = yaml.safe_load(made.text("job.yaml"))["jobs"].values()
    assert stage["inputs"] == {"set": "imagenet"} and list(train["inputs"]) == ["prepared", "raw"]


@pytest.mark.parametrize("shape", COMMANDS)
def test_azure_ml_reads_the_pipeline(job: MakeJob, shape: str) -> None:
    ml = pytest.importorskip("azure.ai.ml")
    made = job({"train.py": TRAIN, "job.yaml": JOB.replace("COMMAND", COMMANDS[shape])})
    made.repair("GPU332")
    loaded = ml.load_job(made.root / "job.yaml")
    assert list(loaded.jobs) == ["train_prepare", "train"]
    assert loaded._validate().error_messages == {}


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("aws s3 sync s3://b data && python train.py", "no folder is named by what it would hand on"),
        ("aws s3 sync s3://b data && python train.py --data data && rm -r data", "`rm` changes `data` later"),
        ("cd src && aws s3 sync s3://b data && python train.py --data data", "changes the folder"),
        ("aws s3 sync s3://b ../data && python train.py --data ../data", "`../data` is not a folder of its own"),
        ("aws s3 sync s3://b ${{outputs.model}} && python train.py --data data", "no folder is named"),
        ("hf download org/model && python train.py --model org/model", "no folder is named"),
        (
            "python -m kit.preprocess --model org/m --input_dir raw && torchrun other.py --model_path org/m --data raw",
            "no folder is named",
        ),
        (
            "aws s3 sync s3://b/${{outputs.model}} data && python train.py --data data",
            "`outputs.model`, which belongs to the job",
        ),
        ("aws s3 sync s3://b code && python train.py --data code", "no folder is named"),
        ("aws s3 sync s3://$AZUREML_RUN_ID data && python train.py --data data", "`AZUREML_RUN_ID`"),
        (
            "aws s3 sync s3://b data && aws s3 sync s3://c more && python train.py --data data",
            "nothing shows that the job reads what `aws` writes",
        ),
    ],
)
def test_what_is_not_certain_stays_with_the_reason(job: MakeJob, command: str, reason: str) -> None:
    files = {"train.py": TRAIN, "code/x.py": "", "job.yaml": JOB.replace("COMMAND", command)}
    made = job(files)
    results = [result.fix for result in made.scan("GPU311", "GPU331", "GPU332")]
    assert results and all(reason in getattr(fix, "reason", str(fix)) for fix in results)


def test_a_job_that_pipelines_take_for_a_component_stays(job: MakeJob) -> None:
    user = "type: pipeline\njobs:\n  a:\n    component: file:./job.yaml\n    compute: azureml:gpu-cluster\n"
    made = job({"train.py": TRAIN, "job.yaml": JOB.replace("COMMAND", COMMANDS["plain"]), "all.yaml": user})
    assert any("runs the command of the file as a step" in str(result.fix) for result in made.scan("GPU332"))
