"""What batch directives ask for, per node."""

from __future__ import annotations

import pytest

from gpulint.documents.shell import parse_script
from gpulint.documents.shell.scheduler_directives import request
from gpulint.source import Fragment, SourceText, Span


def read(text: str) -> tuple[str, int | None, int | None, int | None, int | None]:
    """(system, GPUs, nodes, tasks per node, CPUs)."""
    found = request(parse_script(Fragment(text, SourceText(text))))
    resources = found.resources
    counts = (resources.gpus, resources.nodes, resources.tasks_per_node, resources.cpus)
    return found.system, *(count.value if count is not None else None for count in counts)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("flags", "gpus"),
    [
        ("--gres=gpu:4", 4),
        ("--gres=gpu:a100:4", 4),
        ("--gres gpu:2", 2),
        ("--gres=gpu", 1),
        ("--gres=gpu:a100", 1),
        ("--gres=gpu:a100:2,gpu:v100:1,nvme:1", 3),
        ("--gres=nvme:1", None),
        ('--gres="gpu:4"', 4),
        ("--gres=gpu:4(S:0-1)", 4),
        ("--gres=gpu:$N", None),
        ("--gpus-per-node=4", 4),
        ("--gpus-per-node a100:4", 4),
        ("--gpus=8 --nodes=2", 4),
        ("--gpus=7 --nodes=2", None),
        ("-N 2 -G 8", 4),
        ("-G4", 4),
        ("--gpus-per-task=1 --ntasks-per-node=4", 4),
        ("--gpus-per-task=2 --ntasks=4 --nodes=2", 4),
        ("--gpus-per-task=1", 1),
        ("--gpus-per-task=1 --ntasks=8", None),
        ("--gpus-per-task=l40s:1 --ntasks=1", 1),
        ("--mem=4G", None),
    ],
)
def test_slurm_gpus_per_node(flags: str, gpus: int | None) -> None:
    assert read(f"#!/bin/bash\n#SBATCH {flags}\n")[1] == gpus


def test_slurm_nodes_tasks_and_cores() -> None:
    text = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=4 # all of it\n#SBATCH -c8\n#SBATCH -J fit -D sub\n"
    assert read(text) == ("slurm", None, 2, 4, 8)
    found = request(parse_script(Fragment(text, SourceText(text))))
    assert (found.name, found.working_dir) == ("fit", "sub")


@pytest.mark.parametrize(
    ("flags", "tasks"),
    [
        ("-n 8 -N 2", 4),
        ("--ntasks=8 --nodes=3", None),
        ("--ntasks=8", None),
        ("--ntasks=1", 1),
        ("-n 4 --tasks-per-node 2", 2),
    ],
)
def test_slurm_tasks_per_node(flags: str, tasks: int | None) -> None:
    assert read(f"#SBATCH {flags}\n")[3] == tasks


def test_the_last_of_two_directives_holds() -> None:
    assert read("#SBATCH --gres=gpu:1\n#SBATCH --gres=gpu:4\n")[1] == 4


def test_comments_and_late_directives_are_ignored() -> None:
    gpus = "SBATCH --gres=gpu:8\n"
    text = f"#!/bin/bash\n##{gpus}# {gpus}#SBATCH -n 1 # --gres=gpu:8\nset -e\n#{gpus}"
    assert read(text) == ("slurm", None, None, 1, None)


def test_the_model_and_the_place_are_kept() -> None:
    text = "#!/bin/bash\n#SBATCH -N1 --gres=gpu:A100:4\n"
    found = request(parse_script(Fragment(text, SourceText(text)))).resources
    assert found.gpus is not None
    assert (found.gpu_model, found.gpus.text, found.gpus.span) == ("a100", "--gres=gpu:A100:4", Span(2, 13, 2, 30))


def test_slices_of_a_gpu_are_marked() -> None:
    text = "#SBATCH --gres=gpu:a100_1g.5gb:1\n"
    assert request(parse_script(Fragment(text, SourceText(text)))).resources.fractional


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#PBS -l select=1:ngpus=4:ncpus=16\n", ("pbs", 4, 1, None, 16)),
        ("#PBS -l select=2:ncpus=8:mpiprocs=4:ngpus=4,walltime=1:00:00\n", ("pbs", 4, 2, 4, 8)),
        ("#PBS -l nodes=1:ppn=8:gpus=2\n", ("pbs", 2, 1, None, 8)),
        ("#PBS -l select=1:ngpus=4+2:ngpus=1\n", ("pbs", None, None, None, None)),
        ("#PBS -N fit\n#PBS -l walltime=1:00\n", ("pbs", None, None, None, None)),
        ('#BSUB -gpu "num=4:mode=exclusive_process"\n#BSUB -n 8\n', ("lsf", 4, None, None, 8)),
        ("#BSUB -nnodes 2\n#BSUB -W 1:00\n", ("lsf", None, 2, None, None)),
        ('#BSUB -R "rusage[ngpus_excl_p=2]"\n', ("lsf", 2, None, None, None)),
        ("#$ -l gpu=2\n", ("sge", 2, None, None, None)),
        ("#$ -cwd -l h_rt=1:00:00,ngpus=4\n", ("sge", 4, None, None, None)),
        ("#$ -cwd\n#$ -l rt_F=2,h_rt=1:00:00\n", ("sge", 4, 2, None, None)),
        ("#$-l rt_AF=1\n#$-cwd\n", ("sge", 8, 1, None, None)),
        ("#$ -l h_rt=1:00:00,rt_G.small=1\n", ("sge", 1, 1, None, None)),
        ("#$ -l node_q=1\n", ("sge", 1, 1, None, None)),
        ("#$ -l rt_C.small=1\n", ("sge", None, None, None, None)),
        ("#MSUB -l nodes=2:ppn=8:gpus=4\n", ("pbs", 4, 2, None, 8)),
        ("#FLUX: -N 2 --tasks-per-node=1 --gpus-per-task=4\n", ("flux", 4, 2, 1, None)),
        ("#FLUX: -N1 -n1 -g4\n", ("flux", 4, 1, 1, None)),
        ("#OAR -l /host=1/gpu=2,walltime=1:00:00\n", ("oar", 2, 1, None, None)),
        ('#PJM -L "node=1,gpu=8,elapse=1:00:00"\n', ("pjm", 8, 1, None, None)),
        ("#NOTE --gpus-per-node=8\npython x.py\n", ("", None, None, None, None)),
        ("python x.py\n", ("", None, None, None, None)),
    ],
)
def test_other_schedulers(text: str, expected: tuple[object, ...]) -> None:
    assert read("#!/bin/bash\n" + text) == expected


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("#SBATCH --time=48:00:00", 172800),
        ("#SBATCH -t 1-12", 129600),
        ("#SBATCH --time 90", 5400),
        ("#SBATCH -t 90:30", 5430),
        ("#SBATCH --time=2-00:30:05", 174605),
        ("#SBATCH --time=0", None),
        ("#SBATCH --time=<TIME>", None),
        ("#SBATCH --gres=gpu:1", None),
        ("#PBS -l select=1:ngpus=4,walltime=24:00:00", 86400),
        ("#PBS -l walltime=3600", 3600),
        ("#BSUB -W 12:30", 45000),
        ("#BSUB -W 90", 5400),
        ("#$ -l gpu=2,h_rt=10:00:00", 36000),
        ("#OAR -l /host=1/gpu=2,walltime=2:00:00", 7200),
        ('#PJM -L "node=1,elapse=1:00:00"', 3600),
    ],
)
def test_time_limits(line: str, seconds: int | None) -> None:
    text = f"#!/bin/bash\n{line}\n"
    assert request(parse_script(Fragment(text, SourceText(text)))).resources.seconds == seconds
