"""Job specs: tasks, GPUs and commands of every system, with the places they came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.documents.jobspec import JobSpecDocument
from gpulint.documents.tasks import Task
from gpulint.source import Span


def read(text: str) -> JobSpecDocument:
    return JobSpecDocument(Path("job.yaml"), text)


def only(text: str) -> Task:
    (task,) = read(text).tasks
    return task


def commands(task: Task) -> list[str]:
    return [" ".join(word.raw for word in command.words) for script in task.scripts for command in script.commands]


def gpus(task: Task) -> int | None:
    assert task.resources.gpus is not None
    return task.resources.gpus.value


def excerpt(text: str, span: Span) -> str:
    lines = text.split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec:
  nodeSelector:
    cloud.google.com/gke-accelerator: nvidia-tesla-t4
  initContainers:
  - name: fetch
    image: busybox
    command: [sh, -c, "wget http://x/y"]
  containers:
  - name: train
    image: torch:2
    command: ["/bin/bash", "-c", "--"]
    args:
    - |
      pip install -r requirements.txt
      torchrun --nproc_per_node 4 train.py
    env:
    - {name: CUDA_VISIBLE_DEVICES, value: "0,1"}
    - name: TOKEN
      valueFrom: {secretKeyRef: {name: s, key: k}}
    resources:
      limits:
        cpu: 3500m
        nvidia.com/gpu: "8"
  - name: logger
    image: fluentd
    args: [--tail]
"""


def test_pod_has_a_task_per_container_with_roles() -> None:
    assert [(task.name, task.role) for task in read(POD).tasks] == [
        ("fetch", "init"),
        ("train", "main"),
        ("logger", "sidecar"),
    ]


def test_pod_resources_environment_and_commands() -> None:
    fetch, train, _ = read(POD).tasks
    assert gpus(train) == 8
    assert train.resources.gpus and excerpt(POD, train.resources.gpus.span) == 'nvidia.com/gpu: "8"'
    assert train.resources.cpus and train.resources.cpus.value == 3
    assert train.resources.gpu_model == "nvidia-tesla-t4"
    assert [(variable.name, variable.value) for variable in train.env] == [
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("TOKEN", None),
    ]
    assert commands(train) == ["pip install -r requirements.txt", "torchrun --nproc_per_node 4 train.py"]
    assert gpus(fetch) == 8, "the pod holds its GPUs while init containers run"


def test_commands_point_into_the_file() -> None:
    train = read(POD).tasks[1]
    spans = [command.span for command in train.scripts[0].commands]
    assert [excerpt(POD, span) for span in spans] == commands(train)


@pytest.mark.parametrize(
    ("limits", "count", "fractional", "vendor"),
    [
        ("amd.com/gpu: 2", 2, False, "amd"),
        ("gpu.intel.com/i915: 1", 1, False, "intel"),
        ("nvidia.com/mig-1g.5gb: 3", 3, True, "nvidia"),
        ("aliyun.com/gpu-mem: 16", None, True, "nvidia"),
        ("volcano.sh/vgpu-number: 1", 1, True, "nvidia"),
        ("nvidia.com/gpu: $GPUS", None, False, "nvidia"),
        ("nvidia.com/gpu: 0", 0, False, "nvidia"),
    ],
)
def test_gpu_resource_names(limits: str, count: int | None, fractional: bool, vendor: str) -> None:
    task = only(f'containers:\n- image: gpu\n  resources: {{limits: {{"{limits.replace(": ", chr(34) + ": ", 1)}}}}}\n')
    assert gpus(task) == count
    assert (task.resources.fractional, task.resources.vendor) == (fractional, vendor)


def test_requests_count_where_no_limit_is_set() -> None:
    assert gpus(only("containers:\n- image: a\n  resources: {requests: {nvidia.com/gpu: 2}}\n")) == 2


def test_anchors_merge_keys_and_tags() -> None:
    text = """\
base: &base
  image: gpu
  resources: {limits: &l {nvidia.com/gpu: 4}}
containers:
- <<: *base
  command: !Sub "run.sh"
- <<: [*base]
  resources: {limits: *l}
"""
    assert [(gpus(task), task.image) for task in read(text).tasks] == [(4, "gpu"), (4, "gpu")]


def test_mpi_launcher_holds_what_its_workers_hold() -> None:
    text = """\
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: hvd}
spec:
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - image: hvd
            command: [mpirun, -np, "4", python, train.py]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - image: hvd
            resources: {limits: {nvidia.com/gpu: 2}}
"""
    launcher, worker = read(text).tasks
    assert (gpus(launcher), launcher.resources.nodes and launcher.resources.nodes.value) == (2, 2)
    assert worker.replicas and worker.replicas.value == 2


def test_pytorchjob_hands_processes_to_torchrun() -> None:
    text = """\
kind: PyTorchJob
spec:
  nprocPerNode: "4"
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{image: x, command: [torchrun, train.py]}]}}
"""
    task = only(text)
    assert [(variable.name, variable.value) for variable in task.env] == [("PET_NPROC_PER_NODE", "4")]
    assert task.resources.tasks_per_node and task.resources.tasks_per_node.value == 4


RAYJOB = """\
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: resnet}
spec:
  entrypoint: python train.py --lr 1
  runtimeEnvYAML: |
    pip:
      - torch
      - "torchvision==0.20"
    env_vars: {A: "1"}
  rayClusterSpec:
    headGroupSpec: {template: {spec: {containers: [{name: head, image: ray}]}}}
    workerGroupSpecs:
    - replicas: 2
      template:
        spec:
          containers:
          - name: worker
            image: ray
            resources: {limits: {nvidia.com/gpu: 4}}
"""


def test_ray_job_uses_the_gpus_of_its_workers_and_declares_packages() -> None:
    program, head, _ = read(RAYJOB).tasks
    assert (program.name, gpus(program), commands(program)) == ("resnet", 4, ["python train.py --lr 1"])
    assert head.resources.gpus is None
    assert [(name, excerpt(RAYJOB, span)) for name, span in program.packages] == [
        ("torch", "torch"),
        ("torchvision==0.20", '"torchvision==0.20"'),
    ]


def test_config_map_files_are_read_as_python_and_shell() -> None:
    text = """\
kind: ConfigMap
data:
  train.py: |
    import torch
    print(torch.cuda.is_available())
  run.sh: |
    python train.py
  broken.py: |
    x = 1
    def f(:
"""
    document = read(text)
    assert [name for name, _ in document.embedded] == ["train.py", "run.sh", "broken.py"]
    (module,) = document.modules
    assert module.span(module.tree.body[1]).line == 5
    assert [command.span.line for script in document.scripts for command in script.commands] == [7]
    assert [(problem.line, problem.message) for problem in document.problems] == [
        (10, "syntax error in broken.py: invalid syntax")
    ]


def test_argo_scripts() -> None:
    text = """\
kind: Workflow
spec:
  templates:
  - name: py
    script:
      image: python
      command: [python3]
      source: |
        import torch
  - name: sh
    script: {image: gpu, command: [bash], source: "pip install x", resources: {limits: {nvidia.com/gpu: 1}}}
"""
    document = read(text)
    assert [(task.name, commands(task)) for task in document.tasks] == [("py", []), ("sh", ["pip install x"])]
    assert len(document.modules) == 1


@pytest.mark.parametrize(
    ("written", "count", "model"),
    [
        ("A100:8", 8, "a100"),
        ("V100", 1, "v100"),
        ("{T4: 2}", 2, "t4"),
        ("[A100:8, H100:8]", 8, None),
        ("[L4:1, T4:2]", None, None),
    ],
)
def test_skypilot_accelerators(written: str, count: int | None, model: str | None) -> None:
    commands_of = "setup: pip install torch\nrun: |\n  cd src\n  python a.py\n"
    text = f"resources:\n  accelerators: {written}\nnum_nodes: 2\n{commands_of}"
    setup, run = read(text).tasks
    assert (setup.role, run.role) == ("init", "main")
    assert (gpus(run), run.resources.gpu_model) == (count, model)
    assert run.resources.nodes and run.resources.nodes.value == 2
    assert commands(run) == ["cd src", "python a.py"]


def test_skypilot_without_accelerators_requests_no_gpu() -> None:
    assert only("resources:\n  cpus: 4\nrun: python a.py\n").resources.gpus is None


@pytest.mark.parametrize(
    ("written", "count", "model", "vendor"),
    [
        ("24GB", 1, None, "nvidia"),
        ("A100:80GB:4", 4, "a100", "nvidia"),
        ("amd:MI300X:8", 8, "mi300x", "amd"),
        ("MI300X", 1, "mi300x", "amd"),
        ("16GB..24GB", 1, None, "nvidia"),
        ("1..8", None, None, "nvidia"),
        ("{name: H100, count: 2}", 2, "h100", "nvidia"),
    ],
)
def test_dstack_gpus(written: str, count: int | None, model: str | None, vendor: str) -> None:
    task = only(f"type: task\ncommands:\n  - pip install x\n  - python a.py\nresources:\n  gpu: {written}\n")
    assert (gpus(task), task.resources.gpu_model, task.resources.vendor) == (count, model, vendor)
    assert commands(task) == ["pip install x", "python a.py"]
    assert len(task.scripts) == 1, "the commands share one shell"


def test_dstack_dev_environment_is_interactive() -> None:
    text = "type: dev-environment\nide: vscode\nresources: {gpu: 80GB}\n"
    task = only(text)
    assert task.interactive and excerpt(text, task.interactive) == "type: dev-environment"


@pytest.mark.parametrize(
    ("service", "count"),
    [
        ("deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]}}}", 2),
        ("deploy: {resources: {reservations: {devices: [{count: all, capabilities: [gpu]}]}}}", None),
        ("deploy: {resources: {reservations: {devices: [{device_ids: ['0', '3'], capabilities: [gpu]}]}}}", 2),
        ("runtime: nvidia", None),
    ],
)
def test_compose_gpus(service: str, count: int | None) -> None:
    text = (
        f"services:\n  train:\n    image: a\n    command: python train.py\n    environment: [A=1, B]\n    {service}\n"
    )
    task = only(text)
    assert (task.name, gpus(task), commands(task)) == ("train", count, ["python train.py"])
    assert [(variable.name, variable.value) for variable in task.env] == [("A", "1"), ("B", None)]


def test_azureml_job() -> None:
    text = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: >-
  python train.py
  --epochs 3
environment: azureml:torch:1
compute: azureml:gpu-cluster
distribution: {type: pytorch, process_count_per_instance: 4}
resources: {instance_count: 2, instance_type: Standard_NC24s_v3}
"""
    task = only(text)
    assert commands(task) == ["python train.py --epochs 3"]
    assert gpus(task) == 4
    assert task.resources.tasks_per_node and task.resources.tasks_per_node.value == 4
    assert task.resources.nodes and task.resources.nodes.value == 2


def test_sagemaker_machine_types_give_gpus() -> None:
    text = """\
Resources:
  Job:
    Properties:
      AlgorithmSpecification: {TrainingImage: img, ContainerEntrypoint: [python, train.py]}
      ResourceConfig: {InstanceType: ml.p3.8xlarge, InstanceCount: 2}
"""
    task = only(text)
    assert (gpus(task), task.resources.gpu_model, commands(task)) == (4, "v100", ["python train.py"])


@pytest.mark.parametrize(
    ("text", "system", "count"),
    [
        ("machine: L4_X_2\nrun: pytest -v gpu\n", "lightning", 2),
        ("name: e\nentrypoint: python3 a.py\nsearcher: {}\nresources: {slots_per_trial: 8}\n", "determined", 8),
        ("hydra: {launcher: {gpus_per_node: 4}}\n", "slurm", 4),
        (
            "cluster_name: c\navailable_node_types: {w: {resources: {GPU: 2}}}\nsetup_commands: [pip install x]\n",
            "ray",
            2,
        ),
    ],
)
def test_smaller_systems(text: str, system: str, count: int) -> None:
    task = only(text)
    assert (task.system, gpus(task)) == (system, count)


def test_azureml_pipeline_on_a_cluster_that_is_named_for_gpus() -> None:
    text = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
settings:
  default_compute: azureml:a100-cluster
jobs:
  prepare:
    command: python prepare.py
    compute: azureml:cpu-cluster
  train:
    command: python train.py
  test:
    command: python test.py
    compute: azureml:nc24-spot
  other:
    command: python other.py
    compute: ${{parent.inputs.compute}}
"""
    tasks = {task.name: task.resources.gpus for task in read(text).tasks}
    assert {name: gpus and (gpus.value, gpus.span.line) for name, gpus in tasks.items()} == {
        "prepare": None,
        "train": (None, 4),
        "test": (None, 13),
        "other": None,
    }


def test_accelerate_config() -> None:
    config = read("compute_environment: LOCAL_MACHINE\ndistributed_type: multi_gpu\nnum_processes: 4\n").accelerate
    assert config and config.num_processes
    assert (config.num_processes.value, config.num_processes.span.line) == (4, 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lr: 0.1\nbatch_size: 32\n",
        "on: push\njobs:\n  t: {container: {image: gpu}, steps: [{run: python x.py}]}\n",
        "kind: CustomResourceDefinition\nspec: {containers: [{image: gpu}]}\n",
        "openapi: 3.0.0\npaths: {x: {container: {image: gpu}}}\n",
        "command: python x.py\n",
    ],
)
def test_other_yaml_launches_nothing(text: str) -> None:
    document = read(text)
    assert document.tasks == ()
    assert document.problems == []


def test_broken_document_is_one_placed_problem_and_costs_no_other() -> None:
    good = "---\ncontainers: [{image: gpu}]\n"
    document = read(good + "---\nkind: Job\ncontainers:\n\t- image: gpu\n" + good)
    assert len(document.tasks) == 2
    ((problem),) = document.problems
    assert (problem.line, problem.column, problem.is_error) == (6, 1, True)


@pytest.mark.parametrize("body", ["{{- if .Values.gpu }}\n  containers:\n", "containers: [\n{% for x in y %}\n"])
def test_templates_are_a_note(body: str) -> None:
    document = read("kind: Job\n" + body + "gpu: 1\n")
    assert document.tasks == ()
    assert [(problem.message, problem.is_error) for problem in document.problems] == [("template, skipped", False)]


def test_placeholders_within_values_are_read() -> None:
    task = only(
        'containers:\n- image: gpu\n  args: ["--lr", "{{inputs.parameters.lr}}"]\n'
        "  resources: {limits: {nvidia.com/gpu: {{n}}}}\n"
    )
    assert gpus(task) is None
    assert commands(task) == ["--lr {{inputs.parameters.lr}}"]


@pytest.mark.parametrize(
    "text",
    [
        "containers: &c [{image: gpu, containers: *c}]\n",
        "spec: &s\n  containers: [{image: gpu, <<: *s}]\n",
        "containers: " + "[" * 5_000 + "gpu\n",
        "containers: *nowhere\ngpu: 1\n",
        "services: {a: {image: gpu, deploy: [], command: {a: b}, gpus: [x]}}\n",
        "type: task\ncommands: {a: gpu}\nresources: {gpu: [1]}\n",
        "resources: {accelerators: [[1], {a: b}]}\nrun: gpu\n",
        "containers: gpu \x07\n",
    ],
)
def test_odd_documents_never_raise(text: str) -> None:
    document = read(text)
    assert isinstance(document.tasks, tuple)
    assert isinstance(document.scripts, tuple)
    assert isinstance(document.modules, tuple)
    assert document.accelerate is None
