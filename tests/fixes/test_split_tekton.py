"""First steps of a task of Tekton in a task of their own: without GPUs, before the others, and with their workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

MakeJob = Callable[..., Any]

TRAIN = "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n"
PIPELINE = """\
apiVersion: tekton.dev/v1
kind: Pipeline
metadata:
  name: train
spec:
  workspaces: [{name: shared}]
  tasks:
    - name: check
      taskSpec: {steps: [{name: check, image: busybox, script: echo ok}]}
    - name: train
      runAfter: [check]
      when: [{input: a, operator: in, values: [a]}]
      workspaces:
        - name: data
          workspace: shared
      taskSpec:
        workspaces: [{name: data}]
        steps:
          - name: fetch
            image: amazon/aws-cli
            script: |
              cd $(workspaces.data.path)
              aws s3 sync s3://bucket/set set
          - name: train
            image: pytorch/pytorch
            script: |
              python train.py --data $(workspaces.data.path)/set
            computeResources: {limits: {nvidia.com/gpu: 8}}
          - name: upload
            image: amazon/aws-cli
            script: aws s3 cp $(workspaces.data.path)/model s3://bucket/model --recursive
"""
RUN = PIPELINE.replace("kind: Pipeline\n", "kind: PipelineRun\n").replace(
    "spec:\n  workspaces: [{name: shared}]\n  tasks:",
    "spec:\n  workspaces: [{name: shared, persistentVolumeClaim: {claimName: data}}]\n"
    "  pipelineSpec:\n   workspaces: [{name: shared}]\n   tasks:",
)
TASK = """\
apiVersion: tekton.dev/v1
kind: Task
metadata: {name: train}
spec:
  workspaces: [{name: data}]
  steps:
    - name: train
      image: pytorch/pytorch
      script: |
        aws s3 sync s3://bucket/set $(workspaces.data.path)/set
        python train.py --data $(workspaces.data.path)/set
      computeResources: {limits: {nvidia.com/gpu: 8}}
"""
CALL = """\
apiVersion: tekton.dev/v1
kind: Pipeline
metadata: {name: all}
spec:
  workspaces: [{name: shared}]
  tasks:
    - name: best
      taskRef: {name: train}
      workspaces: [{name: data, workspace: shared}]
"""


def tasks(text: str) -> list[dict[str, Any]]:
    spec = yaml.safe_load(text)["spec"]
    found = spec.get("pipelineSpec", spec)["tasks"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("text", [PIPELINE, RUN])
def test_the_new_task_has_the_steps_the_workspace_and_the_conditions(job: MakeJob, text: str) -> None:
    made = job({"train.py": TRAIN, "train.yaml": text})
    assert made.repair("GPU332") == 1
    (_, before), (_, stage, after) = tasks(text), tasks(made.text("train.yaml"))
    assert stage["taskSpec"]["steps"] + after["taskSpec"]["steps"] == before["taskSpec"]["steps"]
    assert (stage["runAfter"], after["runAfter"]) == (["check"], ["train-prepare"])
    for key in ("when", "workspaces"):
        assert stage[key] == after[key] == before[key]
    assert stage["taskSpec"]["workspaces"] == before["taskSpec"]["workspaces"]
    assert "nvidia" not in str(stage)
    assert made.scan("GPU332") == []


@pytest.mark.parametrize("text", [PIPELINE, RUN])
def test_the_pods_are_valid(job: MakeJob, text: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    made = job({"train.py": TRAIN, "train.yaml": text})
    made.repair("GPU332")
    for task in tasks(made.text("train.yaml")):
        containers = [
            {{"computeResources": "resources"}.get(key, key): value for key, value in step.items() if key != "script"}
            for step in task["taskSpec"]["steps"]
        ]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers}}
        kubernetes_validate.validate(pod, "1.30", strict=True)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("workspaces: [{name: data}]", "workspaces: [{name: data, readOnly: true}]", "share a workspace"),
        ("cd $(workspaces.data.path)", "cd /tmp", "nothing shows that `aws` of fetch writes to a workspace"),
        ("set set\n", "set set && ./list /tmp/x\n", "nothing shows that `list` of fetch"),
        ("set set\n", "set set && echo 1 > $(results.n.path)\n", "`results`, which belongs to the pod"),
        (
            "image: amazon/aws-cli\n            script: |",
            "image: amazon/aws-cli\n            onError: continue\n            script: |",
            "has `onError`",
        ),
        ("      when:", "      matrix: {params: [{name: a, value: [b]}]}\n      when:", "has `matrix`"),
        (
            "        steps:\n          - name: f",
            "        sidecars: [{image: a}]\n        steps:\n          - name: f",
            "sidecars",
        ),
        ("- name: check\n", "- name: train-prepare\n", "a task train-prepare exists already"),
    ],
)
def test_what_is_not_certain_stays_with_the_reason(job: MakeJob, before: str, after: str, reason: str) -> None:
    assert before in PIPELINE
    made = job({"train.py": TRAIN, "train.yaml": PIPELINE.replace(before, after, 1)})
    assert reason in made.refusal("GPU332")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("persistentVolumeClaim: {claimName: data}", "emptyDir: {}", "is gone with the pod"),
        (
            "  pipelineSpec:",
            "  taskRunTemplate: {podTemplate: {nodeSelector: {pool: gpu}}}\n  pipelineSpec:",
            "for all",
        ),
        (
            "  pipelineSpec:",
            "  taskRunSpecs: [{pipelineTaskName: train, serviceAccountName: a}]\n  pipelineSpec:",
            "an account of its own",
        ),
    ],
)
def test_a_run_says_what_its_workspaces_and_pods_are(job: MakeJob, before: str, after: str, reason: str) -> None:
    assert before in RUN
    assert reason in job({"train.py": TRAIN, "train.yaml": RUN.replace(before, after, 1)}).refusal("GPU332")


def test_only_one_pipeline_of_the_tree_may_run_a_task(job: MakeJob) -> None:
    refused = {
        "no pipeline of the tree runs the task train": {},
        "several tasks of pipelines run the task train": {"a.yaml": CALL, "b.yaml": CALL},
        "the TaskRun in a.yaml runs the task alone": {
            "a.yaml": "apiVersion: tekton.dev/v1\nkind: TaskRun\nmetadata: {name: a}\nspec: {taskRef: {name: train}}\n"
        },
        "(`finally`) waits for no other": {"a.yaml": CALL.replace("  tasks:", "  finally:")},
    }
    for number, (reason, files) in enumerate(refused.items()):
        made = job({f"{number}.py": "", "train.py": TRAIN, "train.yaml": TASK, **files})
        assert reason in made.refusal("GPU332"), reason
        for name in files:
            (made.root / name).unlink()


def test_a_single_run_of_a_task_is_one_pod(job: MakeJob) -> None:
    run = TASK.replace("kind: Task\n", "kind: TaskRun\n").replace("spec:\n", "spec:\n taskSpec:\n")
    assert "make it a PipelineRun" in job({"train.py": TRAIN, "train.yaml": run}).refusal("GPU332")


def test_steps_after_the_one_with_gpus_are_no_preparation(job: MakeJob) -> None:
    text = PIPELINE.replace("aws s3 sync s3://bucket/set set", "echo ready")
    assert job({"train.py": TRAIN, "train.yaml": text}).scan("GPU332") == []
