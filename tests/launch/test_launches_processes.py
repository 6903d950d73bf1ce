"""How many processes a launch starts on each node."""

from __future__ import annotations

import pytest

from gpulint.documents.shell import parse_script
from gpulint.launch.program_launches import Launch, launches
from gpulint.source import Fragment, SourceText, Span


def only(text: str) -> Launch:
    (launch,) = launches(parse_script(Fragment(text, SourceText(text))))
    return launch


ALL = "all"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python x.py", 1),
        ("torchrun x.py", 1),
        ("torchrun --nproc_per_node=4 x.py", 4),
        ("torchrun --nproc-per-node 4 x.py", 4),
        ("torchrun --nproc_per_node ${NPROC:-4} x.py", 4),
        ("torchrun --nproc_per_node $NPROC x.py", None),
        ("torchrun --nproc_per_node=gpu x.py", ALL),
        ("torchrun --nproc_per_node=auto x.py", ALL),
        ("torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) x.py", ALL),
        ("torchrun --nproc_per_node=cpu x.py", None),
        ("torchrun $ARGS x.py", None),
        ("ARGS='--nnodes 1 --nproc_per_node 8'; torchrun $ARGS x.py", 8),
        ("A=(--nnodes $N --nproc_per_node 8); torchrun ${A[@]} x.py", 8),
        ("G=4; N=2; torchrun --nproc_per_node $((G * N)) x.py", 8),
        ("python -m torch.distributed.launch --nproc_per_node 2 x.py", 2),
        ("accelerate launch x.py", None),
        ("accelerate launch --config_file a.yaml x.py", None),
        ("accelerate launch --num_processes 8 x.py", 8),
        ("accelerate launch --num_processes=8 --num_machines 2 x.py", 4),
        ("accelerate launch --num_processes 8 --num_machines $N x.py", None),
        ("accelerate launch --multi_gpu x.py", ALL),
        ("accelerate launch --multi_gpu --gpu_ids 0,1 x.py", 2),
        ("deepspeed x.py", ALL),
        ("deepspeed --num_gpus=2 x.py", 2),
        ("deepspeed --include localhost:0,1,3 x.py", 3),
        ("deepspeed --hostfile h x.py", None),
        ("horovodrun -np 4 python x.py", 4),
        ("horovodrun -np 8 -H a:4,b:4 python x.py", 4),
        ("horovodrun -np 8 --hostfile h python x.py", None),
        ("mpirun -np 4 python x.py", 4),
        ("mpirun -n4 python x.py", 4),
        ("mpirun -np 8 -npernode 4 --hostfile h python x.py", 4),
        ("mpirun -np 8 --map-by ppr:2:node --hostfile h python x.py", 2),
        ("mpirun -np 8 --hostfile h python x.py", None),
        ("mpirun python x.py", None),
        ("srun -n4 -N2 python x.py", 2),
        ("srun --ntasks=8 --nodes=2 python x.py", 4),
        ("srun -N 2 --ntasks-per-node=4 python x.py", 4),
        ("srun python x.py", None),
        ("srun -n 8 python x.py", None),
        ("#SBATCH -N 2\nsrun -n 8 python x.py", 4),
        ("#SBATCH --ntasks-per-node=4\nsrun python x.py", 4),
        ("#SBATCH -N 2\nsrun python x.py", 1),
        ("#SBATCH --ntasks-per-node=4\npython x.py", 1),
        ("#SBATCH --nodes=2\nmpirun -np 8 --hostfile h python x.py", 4),
        ("srun -N2 --ntasks-per-node=1 torchrun --nproc_per_node=4 x.py", 4),
        ("srun -N1 -n2 torchrun --nproc_per_node=4 x.py", 8),
        ("#SBATCH --ntasks-per-node=1\nsrun torchrun --nproc_per_node=gpu x.py", ALL),
        ("srun torchrun --nproc_per_node=4 x.py", None),
        ("srun -n2 -N1 bash -c 'python x.py'", 2),
        ("jsrun -n 2 -r 1 -a 6 -g 6 python x.py", 6),
        ("jsrun -r 6 -a 1 -g 1 -c 7 python x.py", 6),
        ("#BSUB -nnodes 2\njsrun -n 12 -a 1 -g 1 python x.py", 6),
        ("aprun -n 8 -N 4 python x.py", 4),
        ("composer -n 8 x.py", 8),
        ("composer x.py", ALL),
        ("fabric run --devices=2 x.py", 2),
        ("fabric run x.py", None),
        ("docker run img torchrun --nproc_per_node 2 x.py", 2),
    ],
)
def test_processes_per_node(text: str, expected: int | str | None) -> None:
    processes = only(text).processes_per_node
    if expected is None:
        assert processes is None or (processes.value is None and not processes.all_gpus)
    elif expected == ALL:
        assert processes is not None
        assert processes.all_gpus
    else:
        assert processes is not None
        assert (processes.value, processes.all_gpus) == (expected, False)


def test_a_count_says_where_it_is_written_and_whether_it_may_be_overridden() -> None:
    processes = only('ARGS="--nproc_per_node ${N:-4}"\ntorchrun $ARGS x.py\n').processes_per_node
    assert processes is not None
    assert (processes.span, processes.from_default, processes.implicit) == (Span(1, 29, 1, 30), True, False)


def test_a_count_that_nothing_states_says_so() -> None:
    processes = only("torchrun x.py").processes_per_node
    assert processes is not None
    assert processes.implicit


def test_a_product_is_placed_at_the_innermost_count_that_is_stated() -> None:
    processes = only("srun -N1 --ntasks-per-node=1 torchrun --nproc_per_node=4 x.py").processes_per_node
    assert processes is not None
    assert processes.span == Span(1, 56, 1, 57)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("torchrun --nnodes=2 x.py", 2),
        ("torchrun --nnodes=1:4 x.py", 4),
        ("srun -N 3 python x.py", 3),
        ("deepspeed --num_nodes 2 x.py", 2),
    ],
)
def test_nodes(text: str, nodes: int) -> None:
    found = only(text).nodes
    assert found is not None
    assert found.value == nodes
