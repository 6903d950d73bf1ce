"""Launchers are linked to the scripts they call and the programs they start."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.launch.job import Job
from gpulint.launch.job_index import JobIndex
from gpulint.project import Project
from gpulint.values.constants import Constants
from tests.trees import Tree


def project(root: Path, **files: str) -> Project:
    """A tree of the given files (``__`` in a name stands for ``/``, the last ``_`` for the dot)."""
    return Tree(root, {".".join(name.replace("__", "/").rsplit("_", 1)): text for name, text in files.items()}).project


def only(found: Project) -> Job:
    (job,) = found.fact(JobIndex).jobs()
    return job


def programs(found: Project, job: Job) -> list[str]:
    return [path.relative_to(found.root).as_posix() for path in job.programs]


POD = """\
kind: Pod
apiVersion: v1
metadata: {name: train}
spec:
  containers:
  - name: main
    image: me/train
    command: %s
    resources: {limits: {nvidia.com/gpu: 4}}
"""


def test_a_batch_script_starts_a_program_beside_it(tmp_path: Path) -> None:
    found = project(tmp_path, job_sh="#SBATCH --gres=gpu:4\n#SBATCH --nodes=2\nsrun python train.py\n", train_py="")
    job = only(found)
    assert programs(found, job) == ["train.py"]
    assert job.gpus is not None and job.gpus.value == 4 and job.gpus.place.span.line == 1
    assert job.nodes is not None and job.nodes.value == 2


@pytest.mark.parametrize(
    "script",
    [
        "cd src && python train.py",
        "python src/train.py",
        "python -m src.train",
        "cd src\ntorchrun train.py",
        "python ../job/src/train.py",
    ],
)
def test_the_program_is_found_wherever_the_script_goes(tmp_path: Path, script: str) -> None:
    found = project(tmp_path, job__run_sh=script + "\n", job__src__train_py="", other__train_py="")
    assert programs(found, only(found)) == ["job/src/train.py"]


def test_a_path_counts_from_the_root_when_that_is_where_the_file_is(tmp_path: Path) -> None:
    found = project(tmp_path, scripts__run_sh="python tools/train.py\n", tools__train_py="")
    assert programs(found, only(found)) == ["tools/train.py"]


@pytest.mark.parametrize(
    "command", ['["python", "/app/train.py"]', '["bash", "-c", "cd /workspace/src && python train.py"]']
)
def test_a_path_in_a_container_is_matched_by_its_end(tmp_path: Path, command: str) -> None:
    found = project(tmp_path, k8s__pod_yaml=POD % command, k8s__src__train_py="")
    assert programs(found, only(found)) == ["k8s/src/train.py"]


def test_an_ambiguous_container_path_stays_unknown(tmp_path: Path) -> None:
    found = project(tmp_path, pod_yaml=POD % '["python", "/app/train.py"]', a__train_py="", b__train_py="")
    job = only(found)
    assert programs(found, job) == [] and not job.complete


def test_called_and_sourced_scripts_belong_to_the_job(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        job_sh="#SBATCH --gpus-per-node=2\nsource env.sh\nbash run.sh 8\n",
        env_sh="export NPROC=2\n",
        run_sh="torchrun --nproc_per_node=$NPROC train.py --batch-size $1\n",
        train_py="",
    )
    job = only(found)
    assert programs(found, job) == ["train.py"]
    start = next(item for item in job.launches if item.program is not None)
    assert start.launch.processes_per_node is not None and start.launch.processes_per_node.value == 2
    assert start.place.path.name == "run.sh"
    (launched,) = found.fact(JobIndex).launches_of(tmp_path / "train.py")
    assert [text for text, _ in launched.option(("--batch-size",))] == ["8"]


def test_a_called_script_with_directives_is_a_job_too(tmp_path: Path) -> None:
    found = project(tmp_path, a_sh="sbatch b.sh\n", b_sh="#SBATCH --gres=gpu:1\npython t.py\n", t_py="")
    assert [job.document.path.name for job in found.fact(JobIndex).jobs()] == ["a.sh", "b.sh"]
    assert found.fact(JobIndex).jobs()[0].programs == ()


def test_what_sbatch_overrides_is_unknown(tmp_path: Path) -> None:
    found = project(tmp_path, a_sh="sbatch --gres=gpu:8 b.sh\n", b_sh="#SBATCH --gres=gpu:1\npython t.py\n", t_py="")
    gpus = found.fact(JobIndex).jobs()[1].gpus
    assert gpus is not None and gpus.value is None


def test_what_sbatch_requests_again_stays_known(tmp_path: Path) -> None:
    script = "#SBATCH --gres=gpu:1\n#SBATCH -N 1\npython t.py\n"
    found = project(tmp_path, a_sh="sbatch --gres=gpu:1 -p long -n 1 b.sh\n", b_sh=script, t_py="")
    job = found.fact(JobIndex).jobs()[1]
    assert job.gpus is not None and job.gpus.value == 1
    assert job.nodes is not None and job.nodes.value == 1


@pytest.mark.parametrize("options", ["--gres=gpu:$N", "--gres gpu:1 -N 2", "--gres=gpu:1 --exclusive"])
def test_what_one_of_several_submissions_overrides_is_unknown(tmp_path: Path, options: str) -> None:
    script = "#SBATCH --gres=gpu:1\npython t.py\n"
    found = project(tmp_path, a_sh=f"sbatch --gres=gpu:1 b.sh\nsbatch {options} b.sh\n", b_sh=script, t_py="")
    gpus = found.fact(JobIndex).jobs()[1].gpus
    assert gpus is not None and gpus.value is None


def test_scripts_that_call_each_other_come_to_an_end(tmp_path: Path) -> None:
    found = project(tmp_path, a_sh="bash b.sh\n", b_sh="bash a.sh\npython t.py\n", t_py="")
    assert {path for job in found.fact(JobIndex).jobs() for path in job.programs} == {tmp_path / "t.py"}


def test_slurm_variables_come_from_the_directives(tmp_path: Path) -> None:
    text = "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\nsrun torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE t.py\n"
    job = only(project(tmp_path, a_sh=text, t_py=""))
    processes = job.launches[0].launch.processes_per_node
    assert processes is not None and processes.value == 4


def test_python_in_a_config_map_is_the_program(tmp_path: Path) -> None:
    text = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: code}\ndata:\n  train.py: |\n    import torch\n---\n"
    job = only(project(tmp_path, pod_yaml=text + POD % '["python", "/code/train.py"]'))
    assert job.launches[0].module is not None and job.complete


def test_a_spec_without_command_runs_what_its_image_starts(tmp_path: Path) -> None:
    spec = POD.replace("    command: %s\n", "")
    image = 'FROM python\nCOPY . /app\nWORKDIR /app\nCMD ["python", "train.py"]\n'
    found = project(tmp_path, d__pod_yaml=spec, d__train_py="", d__Dockerfile_gpu=image)
    job = next(job for job in found.fact(JobIndex).jobs() if job.gpus is not None)
    assert programs(found, job) == ["d/train.py"] and job.image is not None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--lr 0.1", ["0.1"]), ("--lr=0.1", ["0.1"]), ("--lr 0.1 --lr 0.2", ["0.2"]), ("--lr $LR", [None]),
        ("--lr", ["true"]), ("--lr --x", ["true"]), ("--other 1", []), ("--lr -1", ["-1"]),
    ],
)  # fmt: skip
def test_options_on_the_command_line(tmp_path: Path, arguments: str, expected: list[str | None]) -> None:
    found = project(tmp_path, run_sh=f"python t.py {arguments}\n", t_py="")
    (launched,) = found.fact(JobIndex).launches_of(tmp_path / "t.py")
    assert [text for text, _ in launched.option(("--lr",))] == expected


def test_the_launcher_decides_an_option_of_an_imported_module(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        run_sh="python main.py --workers 8\n",
        main_py="from options import parser\nargs = parser.parse_args()\n",
        options_py="import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--workers', type=int, default=0)\n",
    )
    assert [start.job.document.path.name for start in found.fact(JobIndex).launches_of(tmp_path / "options.py")] == [
        "run.sh"
    ]


def test_an_environment_variable_reaches_the_program(tmp_path: Path) -> None:
    found = project(tmp_path, run_sh="export A=1\nB=2 python t.py\n", t_py="")
    (launched,) = found.fact(JobIndex).launches_of(tmp_path / "t.py")
    values = [launched.environment(name) for name in "ABC"]
    assert [value and value.value for value in values] == ["1", "2", None]


OPTION = """\
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--fast", action="store_true")
args = parser.parse_args()
print(args.workers, args.fast, os.environ["MODE"])
"""


def printed(found: Project, index: int) -> set[tuple[object, str]]:
    """Values and sources of an argument of the ``print`` in ``t.py``."""
    module = found.module_at(found.root / "t.py")
    assert module is not None
    (call,) = module.calls_by_name["print"]
    return {(value.value, value.source) for value in found.fact(Constants).of(module, call.args[index]).values}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("python t.py --workers 8\n", {(8, "launcher")}),
        ("python t.py --workers 8\npython t.py\n", {(8, "launcher"), (0, "default")}),
        ("python t.py --workers $N\npython t.py --workers 8\n", set()),
        ("python t.py\n", {(0, "default")}),
    ],
)
def test_what_the_launcher_passes_comes_before_the_default(
    tmp_path: Path, script: str, expected: set[tuple[object, str]]
) -> None:
    assert printed(project(tmp_path, run_sh=script, t_py=OPTION), 0) == expected


def test_a_switch_on_the_command_line_is_on(tmp_path: Path) -> None:
    assert printed(project(tmp_path, run_sh="python t.py --fast\n", t_py=OPTION), 1) == {(True, "launcher")}


def test_the_launcher_sets_the_environment(tmp_path: Path) -> None:
    assert printed(project(tmp_path, run_sh="export MODE=full\npython t.py\n", t_py=OPTION), 2) == {
        ("full", "launcher")
    }


def test_an_environment_that_is_also_set_to_something_unknown_is_unknown(tmp_path: Path) -> None:
    found = project(tmp_path, a_sh="MODE=full python t.py\n", b_sh="MODE=$1 python t.py\n", t_py=OPTION)
    assert printed(found, 2) == set()


def test_accelerate_reads_its_configuration(tmp_path: Path) -> None:
    found = project(
        tmp_path, run_sh="accelerate launch --config_file conf/a.yaml t.py\n", conf__a_yaml="x: 1\n", t_py=""
    )
    assert found.fact(JobIndex).jobs()[0].launches[0].config == tmp_path / "conf" / "a.yaml"


def test_accelerate_reads_a_copy_of_its_configuration(tmp_path: Path) -> None:
    run = (
        "CONFIG=/data/repo/single.yaml\ncp $CONFIG /data/repo/temp.yaml\nsed -i 's/^gpu_ids.*/gpu_ids: 1/' "
        "/data/repo/temp.yaml\naccelerate launch --config_file /data/repo/temp.yaml t.py\n"
    )
    found = project(tmp_path, run_sh=run, single_yaml="x: 1\n", t_py="")
    assert found.fact(JobIndex).jobs()[0].launches[0].config == tmp_path / "single.yaml"


def test_a_copy_whose_number_of_processes_is_edited_is_unknown(tmp_path: Path) -> None:
    run = (
        'cp single.yaml /tmp/a.yaml\nsed -i "s/num_processes: .*/num_processes: $N/" /tmp/a.yaml\n'
        "accelerate launch --config_file /tmp/a.yaml t.py\n"
    )
    found = project(tmp_path, run_sh=run, single_yaml="x: 1\n", t_py="")
    assert found.fact(JobIndex).jobs()[0].launches[0].config is None
