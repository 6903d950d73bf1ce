"""Jobs that Python code submits: GPUs, nodes, programs, commands and packages of each kind of call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.launch.job import Job
from gpulint.launch.job_index import JobIndex
from tests.trees import Tree

PROGRAM = "import torch\nmodel.cuda()\n"

ONE = {
    "sagemaker estimator": (
        """\
        from sagemaker.pytorch import PyTorch
        KIND = "ml.p3.8xlarge"
        PyTorch(entry_point="train.py", source_dir="src", instance_type=KIND, instance_count=2,
                hyperparameters={"epochs": 3, "name": "a b", "flag": True, "lr": rate}).fit()
        """,
        "sagemaker 4 GPUs 2 nodes: src/train.py --epochs 3 --name a b --flag true --lr ${rate}",
    ),
    "sagemaker estimator, old names, by position": (
        """\
        from sagemaker.tensorflow.estimator import TensorFlow
        TensorFlow("train.py", "src", train_instance_type="ml.p2.xlarge", train_instance_count=1)
        """,
        "sagemaker 1 GPUs 1 nodes: src/train.py",
    ),
    "sagemaker estimator with an image": (
        """\
        import sagemaker
        sagemaker.estimator.Estimator(uri, role, 1, "ml.g5.12xlarge", entry_point="src/train.py")
        """,
        "sagemaker 4 GPUs 1 nodes: src/train.py",
    ),
    "sagemaker, a process for each GPU": (
        """\
        from sagemaker.huggingface import HuggingFace
        HuggingFace("train.py", "src", instance_type="ml.p4d.24xlarge", instance_count=1,
                    distribution={"torch_distributed": {"enabled": True}})
        """,
        "sagemaker 8 GPUs 1 nodes: torchrun src/train.py",
    ),
    "sagemaker model trainer": (
        """\
        from sagemaker.modules.train import ModelTrainer
        from sagemaker.modules.configs import Compute, SourceCode
        ModelTrainer(source_code=SourceCode(source_dir="src", entry_script="train.py"),
                     compute=Compute(instance_type="ml.g6.xlarge", instance_count=1))
        """,
        "sagemaker 1 GPUs 1 nodes: src/train.py",
    ),
    "sagemaker training job": (
        """\
        import boto3
        boto3.client("sagemaker").create_training_job(
            TrainingJobName="big", ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1},
            AlgorithmSpecification={"TrainingImage": "i", "ContainerEntrypoint": ["python", "src/train.py"]})
        """,
        "sagemaker 8 GPUs 1 nodes: src/train.py",
    ),
    "azure ml command": (
        """\
        from azure.ai.ml import command
        size = 2
        command(code="src", command=f"python train.py --size {size}",
                compute="gpu-cluster", instance_count=2)
        """,
        "azureml some GPUs 2 nodes: src/train.py --size 2",
    ),
    "azure ml script": (
        """\
        from azureml.core import ScriptRunConfig
        ScriptRunConfig("src", "train.py", ["--epochs", 3], compute_target="gpu-nc6")
        """,
        "azureml some GPUs: src/train.py --epochs 3",
    ),
    "azure ml, a target by name": (
        """\
        from azureml.core import ComputeTarget, ScriptRunConfig
        ScriptRunConfig("src", "train.py", compute_target=ComputeTarget(workspace, "gpu-cluster"))
        """,
        "azureml some GPUs: src/train.py",
    ),
    "azure ml, a target of a workspace": (
        """\
        from azureml.core import ScriptRunConfig
        ScriptRunConfig("src", "train.py", arguments=options["train"], compute_target=ws.compute_targets["gpu-nc6"])
        """,
        "azureml some GPUs: src/train.py ${arguments}",
    ),
    "one of several machines": (
        """\
        from sagemaker.pytorch import PyTorch
        KINDS = {"small": "ml.g4dn.xlarge", "large": "ml.g4dn.12xlarge"}
        PyTorch("train.py", "src", instance_type=KINDS["large"])
        """,
        "sagemaker 4 GPUs: src/train.py",
    ),
    "vertex custom job": (
        """\
        from google.cloud import aiplatform
        machine = {"machine_type": "n1", "accelerator_type": "NVIDIA_TESLA_T4", "accelerator_count": 2}
        aiplatform.CustomJob(display_name="t", worker_pool_specs=[{
            "machine_spec": machine, "replica_count": 1,
            "container_spec": {"image_uri": "i", "command": ["python"], "args": ["src/train.py"]}}]).run()
        """,
        "vertex 2 GPUs 1 nodes: src/train.py",
    ),
    "vertex package": (
        """\
        from google.cloud import aiplatform
        aiplatform.CustomJob(worker_pool_specs=[{
            "machine_spec": {"accelerator_type": "NVIDIA_L4", "accelerator_count": 1},
            "python_package_spec": {"python_module": "src.train", "args": ["--epochs", "3"]}}])
        """,
        "vertex 1 GPUs: src/train.py --epochs 3",
    ),
    "vertex training job": (
        """\
        from google.cloud import aiplatform
        job = aiplatform.CustomTrainingJob("t", "src/train.py", image, requirements=["timm"])
        job.run(args=["--lr", "1"], replica_count=1, accelerator_type="NVIDIA_TESLA_V100", accelerator_count=4)
        """,
        "vertex 4 GPUs 1 nodes: src/train.py --lr 1 installs timm",
    ),
    "vertex job of a script": (
        """\
        from google.cloud import aiplatform
        aiplatform.CustomJob.from_local_script(
            display_name="t", script_path="src/train.py", container_uri=image, args=["--lr", "1"],
            accelerator_type="NVIDIA_TESLA_T4", accelerator_count=1).run()
        """,
        "vertex 1 GPUs: src/train.py --lr 1",
    ),
    "vertex container": (
        """\
        from google.cloud import aiplatform
        job = aiplatform.CustomContainerTrainingJob("t", image, command=["python3", "src/train.py"])
        job.run(args=["--lr", "1"], accelerator_type="NVIDIA_L4", accelerator_count=2)
        """,
        "vertex 2 GPUs: src/train.py --lr 1",
    ),
    "vertex source package": (
        """\
        from google.cloud import aiplatform
        aiplatform.CustomPythonPackageTrainingJob("t", where, "src.train", image).run(
            args=["--lr", "1"], accelerator_type="NVIDIA_L4", accelerator_count=2)
        """,
        "vertex 2 GPUs: src/train.py --lr 1",
    ),
    "submitit": (
        """\
        import argparse
        import submitit
        from src.train import main
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpus", type=int, default=8)
        args = parser.parse_args()
        executor = submitit.AutoExecutor(folder="logs")
        extra = {}
        if args.comment:
            extra["slurm_comment"] = args.comment
        executor.update_parameters(gpus_per_node=args.gpus, nodes=2, tasks_per_node=args.gpus, **extra)
        executor.submit(main, 1)
        """,
        "submitit 8 GPUs 2 nodes 8 tasks: src/train.py ${arguments}",
    ),
    "submitit with gres and a command": (
        """\
        import sys
        import submitit
        executor = submitit.SlurmExecutor("logs")
        executor.update_parameters(gres="gpu:a40:2")
        executor.submit(submitit.helpers.CommandFunction([sys.executable, "src/train.py"]))
        """,
        "submitit 2 GPUs: src/train.py",
    ),
    "simple slurm": (
        """\
        from simple_slurm import Slurm
        slurm = Slurm(job_name="train", gres="gpu:a100:2", ntasks_per_node=2, nodes=1)
        slurm.sbatch("srun python src/train.py")
        """,
        "slurm 2 GPUs 1 nodes 2 tasks: srun src/train.py",
    ),
    "slurmpy": (
        """\
        from slurmpy import Slurm
        Slurm("train", {"partition": "gpu", "gres": "gpu:4"}).run("python src/train.py --lr 1")
        """,
        "slurm 4 GPUs: src/train.py --lr 1",
    ),
    "modal": (
        """\
        import modal
        app = modal.App()
        @app.function(gpu="A100-80GB:4")
        def train(): pass
        """,
        "modal 4 GPUs: submit.py ${arguments}",
    ),
    "modal, an object for the GPU, and a command": (
        """\
        import modal, subprocess
        stub = modal.Stub("x")
        @stub.cls(gpu=modal.gpu.H100(count=8))
        class Trainer:
            def run(self):
                subprocess.run(["torchrun", "--nproc-per-node=8", "train.py"], cwd="/root/src", check=True)
        """,
        "modal 8 GPUs: torchrun src/train.py",
    ),
    "modal, a variable's default": (
        """\
        import modal, os
        app = modal.App()
        @app.function(gpu=os.environ.get("GPU", "T4:2"))
        def train(): pass
        """,
        "modal 2 GPUs: submit.py ${arguments}",
    ),
    "ray train": (
        """\
        from ray.train import ScalingConfig
        from ray.train.torch import TorchTrainer
        from src.train import main
        TorchTrainer(main, scaling_config=ScalingConfig(num_workers=4, use_gpu=True)).fit()
        """,
        "ray 1 GPUs 4 nodes: src/train.py ${arguments}",
    ),
    "ray task": (
        """\
        import ray
        @ray.remote(num_gpus=2, runtime_env={"pip": ["timm"]})
        def train(): pass
        """,
        "ray 2 GPUs: submit.py ${arguments} installs timm",
    ),
    "ray job": (
        """\
        from ray.job_submission import JobSubmissionClient
        client = JobSubmissionClient("http://head:8265")
        client.submit_job(entrypoint="python src/train.py", runtime_env={"working_dir": ".", "pip": "needs.txt"})
        """,
        "ray some GPUs: src/train.py installs needs.txt",
    ),
    "skypilot": (
        """\
        import sky
        task = sky.Task("t", run="torchrun --nproc-per-node=8 src/train.py", num_nodes=2)
        task.set_resources({sky.Resources(accelerators={"A100": 8})})
        """,
        "skypilot 8 GPUs 2 nodes: torchrun src/train.py",
    ),
    "dask": (
        """\
        from dask_jobqueue import SLURMCluster
        SLURMCluster(cores=8, job_extra_directives=["--gres=gpu:2"], job_script_prologue=["python src/train.py"])
        """,
        "dask jobqueue 2 GPUs: src/train.py",
    ),
    "kubernetes": (
        """\
        from kubernetes import client
        box = {"name": "main", "image": "i", "command": ["python", "src/train.py"],
               "resources": {"limits": {"nvidia.com/gpu": 2}}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": [box]}}}}
        client.BatchV1Api().create_namespaced_job(namespace="ml", body=job)
        """,
        "kubernetes 2 GPUs: src/train.py",
    ),
}


def jobs(root: Path, code: str, **files: str) -> tuple[Job, ...]:
    return Tree(root, {"submit.py": code, "src/train.py": PROGRAM, **files}).project.fact(JobIndex).jobs()


def shown(root: Path, job: Job) -> str:
    """What a job holds and starts, as one line."""
    parts = [job.task.system]
    if job.gpus is not None:
        parts.append(f"{'some' if job.gpus.value is None else job.gpus.value} GPUs")
    parts += [f"{job.nodes.value} nodes"] if job.nodes is not None else []
    parts += [f"{job.tasks_per_node.value} tasks"] if job.tasks_per_node is not None else []
    starts = []
    for start in job.launches:
        words = [start.launch.launcher] if start.launch.launcher != "python" else []
        words += [start.program.relative_to(root).as_posix()] if start.program is not None else ["?"]
        starts.append(" ".join([*words, *(word.text for word in start.launch.args)]))
    packages = [" installs " + " ".join(name for name, _ in job.task.packages)] if job.task.packages else []
    return " ".join(parts) + ": " + "; ".join(starts) + "".join(packages)


@pytest.mark.parametrize("name", ONE)
def test_a_call_is_a_job(tmp_path: Path, name: str) -> None:
    code, expected = ONE[name]
    (job,) = jobs(tmp_path, code)
    assert shown(tmp_path, job) == expected


NONE = {
    "a machine without GPUs": """\
        from sagemaker.pytorch import PyTorch
        PyTorch("train.py", instance_type="ml.m5.xlarge")
        """,
    "code of another repository": """\
        from sagemaker.pytorch import PyTorch
        PyTorch("train.py", instance_type="ml.p3.2xlarge", git_config={"repo": "https://example.org/x"})
        """,
    "arguments that the file does not tell": """\
        import sagemaker.pytorch
        sagemaker.pytorch.PyTorch(entry_point="train.py", instance_type="ml.p3.2xlarge", **load())
        """,
    "a class of the same name": """\
        from tools import PyTorch
        import sagemaker
        PyTorch(entry_point="train.py", instance_type="ml.p3.2xlarge")
        """,
    "nothing submitted": """\
        import submitit
        executor = submitit.AutoExecutor("logs")
        executor.update_parameters(gpus_per_node=4)
        """,
    "one script of several calls": """\
        from simple_slurm import Slurm
        slurm = Slurm(gres="gpu:2")
        slurm.add_cmd("python src/train.py")
        slurm.sbatch("echo done")
        """,
    "no GPU": """\
        import modal
        app = modal.App()
        @app.function(cpu=4)
        def prepare(): pass
        """,
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_job_on_gpus(tmp_path: Path, name: str) -> None:
    assert jobs(tmp_path, NONE[name]) == ()


UNKNOWN = {
    "one of two values": """\
        from sagemaker.pytorch import PyTorch
        kind = "ml.p3.8xlarge"
        if small:
            kind = "ml.g4dn.xlarge"
        PyTorch(entry_point="train.py", instance_type=kind)
        """,
    "an argument of a function": """\
        from sagemaker.pytorch import PyTorch
        def submit(kind="ml.p3.8xlarge"):
            PyTorch(entry_point="train.py", instance_type=kind)
        """,
    "a global that a function sets": """\
        from sagemaker.pytorch import PyTorch
        kind = "ml.p3.8xlarge"
        def choose():
            global kind
            kind = "ml.g4dn.xlarge"
        PyTorch(entry_point="train.py", instance_type=kind)
        """,
    "what a call returns": """\
        import modal
        app = modal.App()
        @app.function(gpu=choose(count=2))
        def train(): pass
        """,
    "a list that is changed": """\
        from google.cloud import aiplatform
        pools = [{"machine_spec": {"accelerator_type": "NVIDIA_L4", "accelerator_count": 1}}]
        pools.append(second)
        aiplatform.CustomJob(worker_pool_specs=pools)
        """,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_gpus_that_the_file_does_not_tell(tmp_path: Path, name: str) -> None:
    assert all(job.gpus is None for job in jobs(tmp_path, UNKNOWN[name]))


def test_the_last_value_before_a_call_counts(tmp_path: Path) -> None:
    code = """\
        from sagemaker.pytorch import PyTorch
        kind = "ml.p3.8xlarge"
        PyTorch(entry_point="src/train.py", instance_type=kind)
        kind = "ml.p3.16xlarge"
        PyTorch(entry_point="src/train.py", instance_type=kind)
        """
    assert [job.gpus and job.gpus.value for job in jobs(tmp_path, code)] == [4, 8]


def test_functions_with_unlike_gpus_are_not_told_apart(tmp_path: Path) -> None:
    code = """\
        import modal
        app = modal.App()
        @app.function(gpu="A100:8")
        def train(): pass
        @app.function(gpu="T4")
        def evaluate(): pass
        """
    found = jobs(tmp_path, code)
    assert [job.gpus and job.gpus.value for job in found] == [8, 1]
    assert [job.launches for job in found] == [(), ()]


def test_packages_that_sagemaker_installs(tmp_path: Path) -> None:
    code = """\
        from sagemaker.pytorch import PyTorch
        PyTorch("train.py", "src", instance_type="ml.p3.2xlarge")
        """
    (job,) = jobs(tmp_path, code, **{"src/requirements.txt": "timm\n"})
    assert [name for name, _ in job.task.packages] == ["src/requirements.txt"]


def test_places_in_strings(tmp_path: Path) -> None:
    code = '''\
        from azure.ai.ml import command
        extra = "pip install apex"
        command(
            command="""
                echo \\"start\\"
                python src/train.py """ "--epochs 3 && " + extra,
            compute="gpu",
        )
        '''
    (job,) = jobs(tmp_path, code)
    places = {item.command.name: item.command.span for item in job.commands}
    assert (places["echo"].line, places["echo"].column) == (5, 9)
    assert (places["python"].line, places["python"].end_line) == (6, 6)
    assert (places["pip"].line, places["pip"].column) == (2, 10)


def test_a_notebook_has_the_places_of_its_cells(tmp_path: Path) -> None:
    cells = [
        "%pip install sagemaker\nfrom sagemaker.pytorch import PyTorch\nkind = 'ml.p3.8xlarge'",
        "!ls\nPyTorch(entry_point='src/train.py',\n        instance_type=kind)",
    ]
    content = {
        "cells": [{"cell_type": "code", "source": cell, "metadata": {}} for cell in cells],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (job,) = jobs(tmp_path, "", **{"submit.ipynb": json.dumps(content)})
    assert job.gpus is not None
    span = job.gpus.place.span
    assert (job.gpus.value, span.cell, span.line, span.column) == (4, 1, 3, 9)
    assert [path.name for path in job.programs] == ["train.py"]
