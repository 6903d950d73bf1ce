"""Steps of Kubernetes and SkyPilot jobs in job files of their own: valid, without GPUs, and what they do is the same."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

MakeJob = Callable[..., Any]

TRAIN = "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n"
POD = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml, labels: {kueue.x-k8s.io/queue-name: team, app: x}}
spec:
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {gpu: a100}
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      containers:
        - name: main
          image: pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime
          env:
            - {name: HF_HOME, value: /data/hf}
          command: ["bash", "-c"]
          args:
            - |
              mkdir -p /data/set
              # The shards.
              aws s3 sync s3://bucket/set /data/set
              python train.py --data /data/set
          resources:
            limits: {nvidia.com/gpu: 8}
          volumeMounts:
            - {name: data, mountPath: /data}
            - {name: shm, mountPath: /dev/shm}
      volumes:
        - name: data
          persistentVolumeClaim: {claimName: data}
        - name: shm
          emptyDir: {medium: Memory}
"""
SKY = """\
name: train
resources:
  accelerators: A100:8
  infra: aws/us-east-1
file_mounts:
  /data:
    source: s3://mine
    mode: MOUNT
setup: |
  pip install torch
run: |
  aws s3 sync s3://bucket/set /data/set
  python train.py --data /data/set
"""
AWS = '#!/bin/sh\nmkdir -p "$4" && echo data > "$4/shard"\n'
PYTHON = '#!/bin/sh\ncat "$3"/*\n'


def fixed(job: MakeJob, spec: str, code: str = "GPU332") -> Any:
    made = job({"train.py": TRAIN, "train.yaml": spec})
    assert made.repair(code) == 1
    return made


def container(spec: dict[str, Any]) -> dict[str, Any]:
    (found,) = spec["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def test_the_jobs_are_valid_and_only_the_second_requests_gpus(job: MakeJob) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    made = fixed(job, POD)
    first, second = (yaml.safe_load(made.text(name)) for name in ("train-prepare.yaml", "train.yaml"))
    for one in (first, second):
        kubernetes_validate.validate(one, "1.30", strict=True)
    assert "nvidia.com" not in made.text("train-prepare.yaml")
    assert container(second)["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    pod = first["spec"]["template"]["spec"]
    assert "nodeSelector" not in pod and "tolerations" not in pod
    assert [volume["name"] for volume in pod["volumes"]] == ["data"]
    assert first["metadata"] == {
        "name": "train-prepare",
        "namespace": "ml",
        "labels": {"kueue.x-k8s.io/queue-name": "team"},
    }


def test_both_containers_in_order_do_what_one_did(job: MakeJob, tmp_path: Path) -> None:
    made = fixed(job, POD)
    for name, text in (("aws", AWS), ("python", PYTHON)):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(folder: Path, *specs: str) -> str:
        shown = ""
        for text in specs:
            script = container(yaml.safe_load(text))["args"][0].replace("/data", str(folder))
            environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
            done = subprocess.run(["bash", "-ec", script], env=environment, capture_output=True, text=True, check=True)
            shown += done.stdout
        return shown

    after = run(tmp_path / "after", made.text("train-prepare.yaml"), made.text("train.yaml"))
    assert after == run(tmp_path / "before", POD) == "data\n"


def test_the_script_waits_for_the_stage_and_stops_when_it_fails(job: MakeJob, tmp_path: Path) -> None:
    made = fixed(job, POD)
    calls = tmp_path / "calls"
    kubectl = tmp_path / "bin/kubectl"
    kubectl.parent.mkdir()
    for fails in (False, True):
        calls.write_text("")
        kubectl.write_text(
            f'#!/bin/sh\necho "$@" >> {calls}\ncase "$*" in *=complete*) exit {int(fails)};; '
            f"*=failed*) exit {int(not fails)};; esac\n"
        )
        kubectl.chmod(0o755)
        environment = {"PATH": f"{kubectl.parent}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", made.root / "train-submit.sh"], env=environment, check=False)
        started = "apply -f train.yaml\n" in calls.read_text()
        assert (done.returncode, started) == ((1, False) if fails else (0, True))
        assert "--namespace=ml" in calls.read_text()
        assert calls.read_text().startswith(
            "delete --namespace=ml --ignore-not-found job/train-prepare\napply -f train-p"
        )


def test_a_job_whose_name_the_server_makes_is_created(job: MakeJob) -> None:
    made = fixed(job, POD.replace("name: train,", "generateName: train-,"))
    assert "kubectl create -f train.yaml\n" in made.text("train-submit.sh")
    assert yaml.safe_load(made.text("train-prepare.yaml"))["metadata"]["name"] == "train-prepare"


def test_a_task_of_skypilot_runs_on_a_machine_without_gpus_first(job: MakeJob) -> None:
    made = fixed(job, SKY)
    first, second = (yaml.safe_load(made.text(name)) for name in ("train-prepare.yaml", "train.yaml"))
    assert first["resources"] == {"infra": "aws/us-east-1", "cpus": "4+"}
    assert first["file_mounts"] == second["file_mounts"]
    assert first["run"] == "aws s3 sync s3://bucket/set /data/set\n"
    assert second["run"].splitlines()[-1] == "python train.py --data /data/set"
    assert "aws" not in second["run"]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("persistentVolumeClaim: {claimName: data}", "emptyDir: {}", "is gone with the container"),
        ("s3://bucket/set /data/set", "s3://bucket/set /root/set", "nothing shows that `aws` writes to a folder"),
        ("mountPath: /data}", "mountPath: /data, readOnly: true}", "is gone with the container"),
        (
            "aws s3 sync s3://bucket/set",
            "./list > shards.txt\n              aws s3 sync s3://bucket/set",
            "`list` runs",
        ),
        (
            "      containers:\n",
            '      initContainers: [{name: own, command: ["chown", "/data"]}]\n      containers:\n',
            "initContainers",
        ),
    ],
)
def test_what_the_next_container_would_not_see_stays(job: MakeJob, before: str, after: str, reason: str) -> None:
    assert before in POD
    made = job({"train.py": TRAIN, "train.yaml": POD.replace(before, after)})
    assert reason in made.refusal("GPU332")


def test_other_systems_get_advice_of_their_own(job: MakeJob) -> None:
    compose = """\
        services:
          train:
            image: me/train
            command: bash -c "aws s3 sync s3://bucket/set /data/set && python train.py"
            deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}
        """
    assert "one machine" in job({"train.py": TRAIN, "compose.yaml": compose}).refusal("GPU332")


def test_a_job_of_its_own_runs_before_one_of_volcano(job: MakeJob) -> None:
    volcano = """\
        apiVersion: batch.volcano.sh/v1alpha1
        kind: Job
        metadata: {name: train}
        spec:
          minAvailable: 1
          tasks:
            - name: main
              replicas: 1
              template:
                spec:
                  containers:
                    - name: main
                      image: pytorch/pytorch
                      command: [bash, -c]
                      args:
                        - |
                          aws s3 sync s3://bucket/set /data/set
                          python train.py --data /data/set
                      resources: {limits: {nvidia.com/gpu: 8}}
                      volumeMounts: [{name: data, mountPath: /data}]
                  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
        """
    made = job({"train.py": TRAIN, "train.yaml": volcano})
    made.repair("GPU332")
    assert yaml.safe_load(made.text("train-prepare.yaml"))["kind"] == "Job"
    submit = made.text("train-submit.sh")
    assert submit.index("train-prepare.yaml") < submit.index("condition=complete") < submit.index("-f train.yaml")


def test_a_template_of_a_flow_of_volcano_is_ordered_by_the_flow(job: MakeJob) -> None:
    flow = POD.replace("apiVersion: batch/v1\nkind: Job\n", "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobTemplate\n")
    assert "(`dependsOn.targets`)" in job({"train.py": TRAIN, "train.yaml": flow}).refusal("GPU332")


def test_a_variable_that_the_cluster_sets_for_each_pod_has_no_value_before(job: MakeJob) -> None:
    field = "- {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}"
    text = POD.replace("env:\n", f"env:\n            {field}\n").replace("bucket/set", "bucket/$POD")
    assert "`POD`, which differs between pods" in job({"train.py": TRAIN, "train.yaml": text}).refusal("GPU332")
