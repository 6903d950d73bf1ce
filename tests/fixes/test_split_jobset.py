"""First steps of the Jobs of a JobSet in Jobs of their own: valid, without GPUs, and before the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

MakeJob = Callable[..., Any]

TRAIN = "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n"
SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
spec:
  replicatedJobs:
    - name: server
      template: &pod
        spec:
          template:
            spec:
              restartPolicy: Never
              containers: [{name: main, image: redis}]
    - name: workers
      dependsOn: [{name: server, status: Ready}]
      template:
        spec:
          template:
            spec:
              restartPolicy: Never
              containers:
                - name: main
                  image: pytorch/pytorch
                  env:
                    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
                    - {name: HF_HOME, value: /data/hf}
                  command: [bash, -c]
                  args:
                    - |
                      aws s3 sync s3://bucket/set /data/set
                      python train.py --data /data/set
                  resources: {limits: {nvidia.com/gpu: 8}}
                  volumeMounts: [{name: data, mountPath: /data}]
              volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""
CLAIMED = SET.replace("              volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n", "").replace(
    "  replicatedJobs:",
    "  volumeClaimPolicies:\n"
    "    - templates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteMany]}}]\n  replicatedJobs:",
)
ALONE = re.sub(r"    - name: server\n(?:      .*\n)*", "", SET).replace(
    "      dependsOn: [{name: server, status: Ready}]\n", ""
)


def jobs(text: str) -> list[dict[str, Any]]:
    found = yaml.safe_load(text)["spec"]["replicatedJobs"]
    assert isinstance(found, list)
    return found


def scripts(one: dict[str, Any]) -> list[str]:
    return [line for container in pod(one)["containers"] for line in container.get("args", [""])[0].splitlines()]


def pod(one: dict[str, Any]) -> dict[str, Any]:
    spec = one["template"]["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.mark.parametrize("text", [SET, CLAIMED, ALONE])
def test_the_new_job_is_valid_and_ends_before_the_one_with_gpus_starts(job: MakeJob, text: str) -> None:
    made = job({"train.py": TRAIN, "train.yaml": text})
    assert made.repair("GPU332") == 1
    before, after = jobs(text), jobs(made.text("train.yaml"))
    names = [one["name"] for one in after]
    assert names == [*(one["name"] for one in before[:-1]), "workers-prepare", "workers"]
    stage, workers = after[-2:]
    assert workers["dependsOn"] == [{"name": "workers-prepare", "status": "Complete"}]
    assert stage.get("dependsOn") == before[-1].get("dependsOn") and "dependsOn" not in after[0]
    assert "nvidia" not in str(stage) and scripts(stage)[0] == "aws s3 sync s3://bucket/set /data/set"
    assert [volume["name"] for volume in pod(stage).get("volumes", [])] == ([] if text is CLAIMED else ["data"])
    assert scripts(workers)[-1] == "python train.py --data /data/set"
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    if text is not CLAIMED:
        for one in after:
            whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **one["template"]}
            kubernetes_validate.validate(whole, "1.30", strict=True)
    assert made.scan("GPU332") == []


def test_kueue_admits_a_set_as_a_whole_so_that_a_job_of_its_own_is_queued_first(job: MakeJob) -> None:
    labels = "{kueue.x-k8s.io/queue-name: team, kueue.x-k8s.io/priority-class: low, app: x}"
    made = job({"train.py": TRAIN, "train.yaml": SET.replace("name: train\n", f"name: train\n  labels: {labels}\n", 1)})
    assert made.repair("GPU332") == 1
    stage = yaml.safe_load(made.text("train-prepare.yaml"))
    assert stage["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "team",
        "kueue.x-k8s.io/priority-class": "low",
    }
    assert len(jobs(made.text("train.yaml"))) == 2
    assert made.text("train-submit.sh").endswith("kubectl apply -f train.yaml\n")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("replicatedJobs:", "startupPolicy: {startupPolicyOrder: InOrder}\n  replicatedJobs:", "InOrder"),
        ("replicatedJobs:", "successPolicy: {operator: Any}\n  replicatedJobs:", "any of its Jobs"),
        (
            "name: train\n",
            "name: train\n  annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}\n",
            "`exclusive-topology`",
        ),
        ("fieldPath: metadata.name", "fieldPath: \"metadata.labels['jobset.sigs.k8s.io/job-global-index']\"", "counts"),
        ("bucket/set", "bucket/$POD", "`POD`, which differs between pods"),
        ("bucket/set", "bucket/$JOB_COMPLETION_INDEX", "`JOB_COMPLETION_INDEX`, which is another one"),
        ("persistentVolumeClaim: {claimName: data}", "emptyDir: {}", "is gone with the container"),
        ("/data/set\n", "/root/set\n", "nothing shows that `aws` writes"),
        ("name: server\n", "name: workers-prepare\n", "a Job workers-prepare exists already"),
    ],
)
def test_what_is_not_certain_stays_with_the_reason(job: MakeJob, before: str, after: str, reason: str) -> None:
    assert before in SET
    made = job({"train.py": TRAIN, "train.yaml": SET.replace(before, after, 1)})
    assert reason in made.refusal("GPU332")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("image: redis", "image: redis, command: [bash, -c], args: ['cd /'], volumeMounts: []"),
        ("image: pytorch/pytorch", "image: other"),
    ],
)
def test_a_job_that_differs_takes_no_steps_of_another(job: MakeJob, before: str, after: str) -> None:
    text = SET.replace("status: Ready", "status: Complete").replace(before, after)
    made = job({"train.py": TRAIN, "train.yaml": text})
    assert made.repair("GPU332") == 1
    assert len(jobs(made.text("train.yaml"))) == 3
