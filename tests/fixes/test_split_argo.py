"""First steps of Argo's templates in templates of their own: valid, without GPUs, and before the others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

MakeJob = Callable[..., Any]

TRAIN = "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n"
CLAIM = """\
  volumeClaimTemplates:
    - metadata: {name: work}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Gi}}}
"""
HEAD = f"""\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {{generateName: train-}}  # a name for each run
spec:
  entrypoint: main
  arguments: {{parameters: [{{name: set, value: imagenet}}]}}
{CLAIM}"""
BODY = """\
    # Trains.
    - name: train
      nodeSelector: {gpu: a100}
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      retryStrategy: {limit: "2"}
      metadata: {labels: {kueue.x-k8s.io/queue-name: team, app: x}}
      container:
        image: "pytorch/pytorch"  # with bash
        env: &env
          - {name: HF_HOME, value: /data/hf}
        command: [bash, -c]
        args:
          - |
            mkdir -p /data/set
            # The shards.
            aws s3 sync s3://bucket/set /data/set
            python train.py --data /data/set
        resources: {limits: {nvidia.com/gpu: 8}}
        volumeMounts:
          - {name: work, mountPath: /data}

    - name: check
      script: {image: busybox, command: [sh], env: *env, source: echo ok}
"""
STEPS = """\
  templates:
    - name: main
      steps:
        - - {name: check, template: check}
        # On GPUs.
        - - {name: train, template: train}
          - {name: beside, template: check}
        - - {name: report, template: check}
"""
DAG = """\
  templates:
    - name: main
      dag:
        tasks:
          - {name: check, template: check}
          - name: train  # on GPUs
            template: train
            dependencies: [check]
          - {name: report, template: check, dependencies: [train]}
"""
ENTRY = "  templates:\n"
WORKFLOWS = {
    "steps": HEAD + STEPS + BODY,
    "dag": HEAD + DAG + BODY,
    "dag without dependencies": HEAD + DAG.replace("            dependencies: [check]\n", "") + BODY,
    "dag in one line": HEAD + re.sub(r"- name: train  .*\n.*\n.*", "- {name: train, template: train}", DAG) + BODY,
    "dag with a list": HEAD + DAG.replace("[check]", "\n              - check  # first") + BODY,
    "dag with depends": HEAD
    + re.sub(r"dependencies: \[(\w+)\]", r"depends: \1", DAG).replace("depends: check", "depends: 'check || !check'")
    + BODY,
    "dag with a long list": HEAD
    + DAG.replace("[check]", "\n              [\n                check,\n              ]").replace("report", "more")
    + BODY.replace("[bash, -c]", "[sh, -c, -x]"),
    "entrypoint": HEAD.replace("entrypoint: main", "entrypoint: train") + ENTRY + BODY,
    "script": HEAD
    + STEPS
    + BODY.replace("container:", "script:")
    .replace("command: [bash, -c]", "command: [bash]")
    .replace("args:\n          - |\n", "source: |\n"),
    "twice": HEAD + STEPS.replace("beside, template: check", "more, template: train") + BODY,
    "two tasks": HEAD
    + DAG.replace("{name: report, template: check, dependencies: [train]}", "{name: more, template: train}").replace(
        "            dependencies: [check]\n", ""
    )
    + BODY,
    "loop": HEAD + DAG.replace("dependencies: [check]", "withItems: [1, 2]\n            dependencies: [check]") + BODY,
    "inputs": HEAD
    + STEPS.replace(
        "template: train}",
        'template: train, arguments: {parameters: [{name: set, value: "{{workflow.parameters.set}}"}]}}',
    )
    + BODY.replace("nodeSelector:", "inputs: {parameters: [{name: set}]}\n      nodeSelector:").replace(
        "bucket/set", "bucket/{{inputs.parameters.set}}"
    ),
    "entrypoint with inputs": HEAD.replace("entrypoint: main", "entrypoint: 'train'")
    + ENTRY
    + BODY.replace("nodeSelector:", "inputs: {parameters: [{name: set}]}\n      nodeSelector:").replace(
        "bucket/set", "bucket/{{inputs.parameters.set}}"
    ),
}


def scripts(spec: dict[str, Any]) -> Iterator[str]:
    """The scripts of a workflow's pods in the order in which they run; checks all calls on the way."""
    templates = {template["name"]: template for template in spec["templates"]}
    assert len(templates) == len(spec["templates"])
    given = {one["name"]: one["value"] for one in spec.get("arguments", {}).get("parameters", ())}

    def run(name: str, passed: dict[str, str]) -> Iterator[str]:
        template = templates[name]
        inputs = template.get("inputs", {}).get("parameters", ())
        values = {f"inputs.parameters.{one['name']}": passed.get(one["name"], one.get("value")) for one in inputs}
        assert None not in values.values()
        known = values | {f"workflow.parameters.{key}": value for key, value in given.items()}
        template = json.loads(re.sub(r"\{\{([\w.-]+)\}\}", lambda found: known[found[1]], json.dumps(template)))
        if "container" in template or "script" in template:
            pod = template.get("container") or template["script"]
            yield pod["source"] if "source" in pod else pod["args"][0]
        for group in template.get("steps", ()):
            for step in group:
                yield from call(step)
        done, tasks = set[str](), template.get("dag", {}).get("tasks", ())
        while len(done) < len(tasks):
            ready = [one for one in tasks if one["name"] not in done and waits_for(one) <= done]
            assert ready
            yield from call(ready[-1])
            done.add(ready[-1]["name"])

    def call(step: dict[str, Any]) -> Iterator[str]:
        for _ in step.get("withItems", [None]):
            parameters = step.get("arguments", {}).get("parameters", ())
            yield from run(step["template"], {one["name"]: one["value"] for one in parameters})

    def waits_for(task: dict[str, Any]) -> set[str]:
        return {*task.get("dependencies", ()), *re.findall(r"[\w-]+", task.get("depends", ""))}

    yield from run(spec["entrypoint"], given)


def commands(spec: dict[str, Any]) -> list[str]:
    return [line for text in scripts(spec) for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("shape", WORKFLOWS)
def test_the_new_template_runs_first_and_all_else_stays_as_it_is_written(job: MakeJob, shape: str) -> None:
    text = WORKFLOWS[shape]
    made = job({"train.py": TRAIN, "train.yaml": text})
    assert made.repair("GPU332") == 1
    fixed = made.text("train.yaml")
    before, after = (yaml.safe_load(one)["spec"] for one in (text, fixed))
    (stage,) = [template for template in after["templates"] if template["name"] == "train-prepare"]
    main = next(template for template in after["templates"] if template["name"] == "train")
    assert "gpu" not in json.dumps(stage) and "nvidia.com/gpu" in json.dumps(main)
    assert stage["retryStrategy"] == main["retryStrategy"]
    assert stage["metadata"] == {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
    assert after["volumeClaimTemplates"] == before["volumeClaimTemplates"]
    expected, found = commands(before), commands(after)
    if shape in ("loop", "twice", "two tasks"):
        prepares = [line for line in found if "python" not in line and "echo" not in line]
        assert prepares == ["mkdir -p /data/set", "aws s3 sync s3://bucket/set /data/set"]
        assert {*found[found.index(prepares[1]) + 1 :]} <= {"python train.py --data /data/set", "echo ok"}
        assert found.count("python train.py --data /data/set") == 2
    else:
        assert [line for line in found if line != "echo ok"] == [line for line in expected if line != "echo ok"]
        assert len(found) == len(expected)
    kept = [line for line in text.splitlines() if not re.search("mkdir|aws s3|The shards", line)]
    written = iter(fixed)
    assert all(character in written for character in "\n".join(kept))  # the rest is all there, in this order
    assert made.scan("GPU332") == []


@pytest.mark.parametrize("shape", WORKFLOWS)
def test_the_new_pod_is_valid(job: MakeJob, shape: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    made = job({"train.py": TRAIN, "train.yaml": WORKFLOWS[shape]})
    made.repair("GPU332")
    for template in yaml.safe_load(made.text("train.yaml"))["spec"]["templates"]:
        if "container" in template or "script" in template:
            container = {"name": "main", **template.get("container", template.get("script"))}
            container.pop("source", None)
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}
            kubernetes_validate.validate(pod, "1.30", strict=True)


def test_both_workflows_of_a_file_and_both_templates_of_one_get_a_stage(job: MakeJob) -> None:
    second = BODY.replace("name: train", "name: tune").replace("&env", "&more").replace("*env", "*more")
    second = second[: second.index("\n    - name: check")] + "\n"
    both = STEPS.replace("name: report, template: check", "name: tune, template: tune")
    made = job({"train.py": TRAIN, "train.yaml": f"{HEAD}{both}{second}{BODY}---\n{HEAD}{DAG}{BODY}"})
    assert made.repair("GPU332") == 3
    one, other = (document["spec"] for document in yaml.safe_load_all(made.text("train.yaml")))
    assert [template["name"] for template in one["templates"]] == [
        "main", "tune-prepare", "tune", "train-prepare", "train", "check",
    ]  # fmt: skip
    assert [template["name"] for template in other["templates"]] == ["main", "train-prepare", "train", "check"]
    assert [line[:3] for line in commands(one) if line != "echo ok"] == ["mkd", "aws", "pyt"] * 2
    assert [line[:3] for line in commands(other) if line != "echo ok"] == ["mkd", "aws", "pyt"]


@pytest.mark.parametrize(
    ("shape", "before", "after", "reason"),
    [
        ("steps", "name: check\n", "name: train-prepare\n", "a template train-prepare exists already"),
        ("steps", "name: report,", "name: train-prepare,", "a step train-prepare exists already"),
        ("steps", "name: report, template: check", "name: report, template: train", "called from several places"),
        ("two tasks", "name: more, template: train", "name: more, template: train, when: a", "in different ways"),
        ("steps", "template: train}", "template: train, continueOn: {failed: true}}", "`continueOn`"),
        ("steps", "template: train}", 'template: "{{workflow.parameters.set}}"}', "computes which template it calls"),
        ("steps", "entrypoint: main", "entrypoint: main\n  onExit: train", "when a step or the workflow ends"),
        ("steps", "template: train}", "template: other}", "nothing in this file calls train"),
        (
            "steps",
            "entrypoint: main",
            "entrypoint: main\n  nodeSelector: {pool: gpu}",
            "`nodeSelector` of the workflow",
        ),
        ("steps", "      retryStrategy", "      initContainers: [{name: a, image: b}]\n      retryStrategy", "initC"),
        ("steps", "- {name: work, mountPath", "- {name: other, mountPath", "is gone with the container"),
        ("steps", "      retryStrategy", "      volumes: {a: b}\n      retryStrategy", "was not found in the file"),
        ("steps", CLAIM, "  volumes: [{name: work, emptyDir: {}}]\n", "is gone with the container"),
        ("steps", "/data/set\n            python", "/data/{{pod.name}}\n            python", "`pod.name`"),
        ("steps", "- {name: HF_HOME, value: /data/hf}", "- {name: A, value: '{{ .Values.a }}'}", "lines of their own"),
        ("inputs", "template: train,", "template: train, withItems: [a], when: '{{item}} == a',", "items of a loop"),
        (
            "dag",
            "template: check, dependencies: [train]",
            "template: check, depends: train.Failed",
            "asks whether train",
        ),
        ("entrypoint with inputs", "inputs: {", "inputs: {artifacts: [{name: a, path: /a}], ", "other than parameters"),
    ],
)
def test_what_is_not_certain_stays_with_the_reason(
    job: MakeJob, shape: str, before: str, after: str, reason: str
) -> None:
    assert before in WORKFLOWS[shape]
    made = job({"train.py": TRAIN, "train.yaml": WORKFLOWS[shape].replace(before, after)})
    assert reason in made.refusal("GPU332")


@pytest.mark.parametrize(
    "caller",
    [
        HEAD + STEPS.replace("template: train}", "templateRef: {name: library, template: train}}"),
        HEAD.replace("entrypoint: main", "entrypoint: train\n  workflowTemplateRef: {name: library}"),
    ],
)
def test_a_template_that_other_workflows_call_stays(job: MakeJob, caller: str) -> None:
    library = WORKFLOWS["entrypoint"].replace("kind: Workflow", "kind: WorkflowTemplate")
    library = library.replace("metadata: {generateName: train-}", "metadata: {name: library}")
    made = job({"train.py": TRAIN, "train.yaml": library, "caller.yaml": caller})
    assert "caller.yaml calls the template as well" in made.refusal("GPU332")
