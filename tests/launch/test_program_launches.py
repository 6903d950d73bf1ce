"""Which program a command starts, from where, and with what."""

from __future__ import annotations

import pytest

from gpulint.documents.shell import SCRIPT_DIR, START_DIR, parse_script
from gpulint.launch.program_launches import Launch, launches
from gpulint.source import Fragment, SourceText, Span


def read(text: str, **env: str) -> tuple[Launch, ...]:
    return launches(parse_script(Fragment(text, SourceText(text))), env)


def only(text: str, **env: str) -> Launch:
    (launch,) = read(text, **env)
    return launch


@pytest.mark.parametrize(
    ("text", "launcher", "program"),
    [
        ("python x.py", "python", "x.py"),
        ("python3.11 -u -O -W ignore x.py", "python", "x.py"),
        ("/opt/conda/bin/python x.py", "python", "x.py"),
        ("$PYTHON x.py", "python", "x.py"),
        ("${PY_BIN} -u x.py", "python", "x.py"),
        ('"$ROOT/.venv/bin/python" x.py', "python", "x.py"),
        ('"$ROOT/bin/torchrun" --nproc_per_node 2 x.py', "torchrun", "x.py"),
        ('"$RUNNER" x.py', "python", "x.py"),
        ("./tools/x.py --a", "python", "./tools/x.py"),
        ("torchrun --standalone x.py", "torchrun", "x.py"),
        ("torchrun --rdzv-backend c10d --rdzv_endpoint=$H:29500 --unknown 3 x.py", "torchrun", "x.py"),
        ("torchrun --no-python ./run.sh", "shell", "./run.sh"),
        ("python -u -m torch.distributed.run --nproc_per_node 2 x.py", "torchrun", "x.py"),
        ("python -m torch.distributed.launch --use_env x.py", "torchrun", "x.py"),
        ("accelerate launch --config_file a.yaml --fsdp_offload_params true x.py", "accelerate", "x.py"),
        ("python -m accelerate.commands.launch x.py", "accelerate", "x.py"),
        ("deepspeed --hostfile /job/hostfile --master_port 1 x.py --deepspeed", "deepspeed", "x.py"),
        ("horovodrun -np 4 python x.py", "horovodrun", "x.py"),
        ("mpirun -np 4 -H a:2,b:2 --bind-to none -x PATH -mca btl ^openib python x.py", "mpirun", "x.py"),
        ("mpiexec -n 4 ./a.out", "mpirun", "./a.out"),
        ("srun -N1 -n 4 --cpu-bind=cores python -u x.py", "srun", "x.py"),
        ("jsrun -n1 -a1 -c7 -g1 python x.py", "jsrun", "x.py"),
        ("aprun -n 4 -N 1 python x.py", "aprun", "x.py"),
        ("composer -n 8 x.py", "composer", "x.py"),
        ("colossalai run --nproc_per_node 4 --hostfile h x.py", "torchrun", "x.py"),
        ("fabric run --devices=2 x.py", "fabric", "x.py"),
        ("lightning run model --devices 2 x.py", "fabric", "x.py"),
        ("ray job submit --address http://h --working-dir . -- python x.py", "python", "x.py"),
        ("poetry run python x.py", "python", "x.py"),
        ("uv run --with torch x.py", "python", "x.py"),
        ("uv run bash x.sh", "shell", "x.sh"),
        ("conda run -n env --no-capture-output python x.py", "python", "x.py"),
        ("singularity exec --nv -B /a:/b img.sif python x.py", "python", "x.py"),
        ("apptainer run --nv docker://a/b torchrun x.py", "torchrun", "x.py"),
        ("docker run --gpus all --rm -it -v $PWD:/w -w /w img:1 python x.py", "python", "x.py"),
        ("shifter --image=a/b python x.py", "python", "x.py"),
        ("xvfb-run -s '-screen 0' python x.py", "python", "x.py"),
        ("nsys profile -o out --trace=cuda,nvtx python x.py", "python", "x.py"),
        ("ncu --set full python x.py", "python", "x.py"),
        ("time nohup timeout 3h env A=1 python x.py &", "python", "x.py"),
        ("$PROFILER python x.py", "python", "x.py"),
        ("torchrun $ARGS x.py", "torchrun", "x.py"),
        ("srun --mpi=pmix $OPTIONS torchrun x.py", "torchrun", "x.py"),
        ("srun -l --container-image ./image.sqsh --container-mounts=.:/w python x.py", "srun", "x.py"),
        ("bash x.sh 1", "shell", "x.sh"),
        ("bash -e -o pipefail x.sh", "shell", "x.sh"),
        ("./x.sh", "shell", "./x.sh"),
        ("source x.sh", "source", "x.sh"),
        (". ./x.sh", "source", "./x.sh"),
        ("sbatch -N 2 --export=ALL x.sbatch", "sbatch", "x.sbatch"),
        ("P=sub; python $P/x.py", "python", "sub/x.py"),
        ("python ${1:-x.py}", "python", "x.py"),
        ("python $SCRIPT --a", "python", None),
        ("bash -c 'python x.py'", "python", "x.py"),
        ("CMD='python x.py'; srun $CMD", "srun", "x.py"),
        ("CMD='cd a; python x.py'; bash -c \"$CMD\"", "python", "x.py"),
    ],
)
def test_the_program_is_found_behind_its_launchers(text: str, launcher: str, program: str | None) -> None:
    found = read(text)[-1]
    assert (found.launcher, found.program) == (launcher, program)


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("python -m pkg.mod --a", "pkg.mod"),
        ("torchrun --nproc_per_node 2 -m pkg.mod --a", "pkg.mod"),
        ("accelerate launch --module pkg.mod --a", "pkg.mod"),
        ("deepspeed --module pkg.mod --a", "pkg.mod"),
        ("srun python -u -m pkg.mod --a", "pkg.mod"),
    ],
)
def test_a_module_is_told_from_a_path(text: str, module: str) -> None:
    launch = only(text)
    assert (launch.module, launch.program) == (module, None)
    assert [word.value for word in launch.args] == ["--a"]


@pytest.mark.parametrize(
    "text", ["echo python x.py", "pip install x", "srun hostname", "cd x", "tar xf a.tar", "python=3", ""]
)
def test_other_commands_start_nothing(text: str) -> None:
    assert read(text) == ()


def test_arguments_are_those_of_the_program_alone_and_keep_their_places() -> None:
    launch = only('LR=0.1\nOPTS="--epochs 3"\ntorchrun --nnodes 2 x.py --lr $LR $OPTS --out $OUT --v\n')
    assert [word.text for word in launch.args] == ["--lr", "0.1", "--epochs", "3", "--out", "$OUT", "--v"]
    assert launch.args[5].value is None
    assert launch.args[3].span == Span(2, 16, 2, 17)
    assert launch.program_word is not None
    assert launch.program_word.span == Span(3, 21, 3, 25)


def test_code_on_the_command_line_is_kept() -> None:
    launch = only("python -uc 'import torch' a")
    assert launch.code is not None
    assert (launch.code.value, launch.program) == ("import torch", None)


def test_the_environment_is_what_was_exported_or_written_before_the_command() -> None:
    launch = only(
        "export A=1 B=2\nC=3\nexport D\nB=4\nsrun bash -c 'export G=7; F=6 env E=5 python x.py'\nexport H=1\n",
    )
    assert {name: word.value for name, word in launch.env.items()} == {"A": "1", "B": "4", "G": "7", "F": "6", "E": "5"}


def test_a_variable_exported_after_its_assignment_counts() -> None:
    assert (
        only("CUDA_VISIBLE_DEVICES=0,1\nexport CUDA_VISIBLE_DEVICES\npython x.py\n").env["CUDA_VISIBLE_DEVICES"].value
        == "0,1"
    )


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("python x.py", "."),
        ("cd a/b && python x.py", "a/b"),
        ("cd a; cd ../c; python x.py", "c"),
        ("cd /w; python x.py", "/w"),
        ('cd "$(dirname "$0")"; python x.py', SCRIPT_DIR),
        ("cd $(dirname $0)/..; cd y; python x.py", f"{SCRIPT_DIR}/../y"),
        ("cd $SLURM_SUBMIT_DIR/a; python x.py", f"{START_DIR}/a"),
        ("(cd a; y); python x.py", "."),
        ("(cd a; python x.py)", "a"),
        ("pushd a; y; popd; python x.py", "."),
        ("pushd a; cd b; python x.py", "a/b"),
        ("cd a; cd -; python x.py", "."),
        ("cd $X; python x.py", None),
        ("cd $X; cd /w; python x.py", "/w"),
        ("if t; then cd a; fi; python x.py", None),
        ("cd a || exit 1; python x.py", "a"),
        ("D=a; cd $D; bash -c 'cd b && python x.py'", "a/b"),
        ("cd; python x.py", None),
    ],
)
def test_the_folder_follows_changes_of_directory(text: str, folder: str | None) -> None:
    assert only(text).working_dir == folder


def test_a_path_from_the_scripts_own_folder_is_told_from_one_at_the_start() -> None:
    text = 'DIR="$(pwd)/$(dirname $0)"\npython $DIR/x.py\npython $(pwd)/y.py\n'
    assert [launch.program for launch in read(text)] == [f"{SCRIPT_DIR}/x.py", f"{START_DIR}/y.py"]


def test_launches_come_in_order_and_those_nothing_calls_are_marked() -> None:
    found = read("f() { python a.py; }\ng() { python b.py; }\ng\npython c.py\n")
    assert [(launch.program, launch.uncalled) for launch in found] == [("a.py", True), ("b.py", False), ("c.py", False)]


def test_a_function_that_may_be_called_by_name_is_not_marked() -> None:
    assert not read('f() { python a.py; }\n"$1"\n')[0].uncalled
    assert not read("f() { python a.py; }\ntrap f EXIT\n")[0].uncalled


def test_levels_tell_every_launcher_from_the_outside_in() -> None:
    launch = only("srun --gres=gpu:4 singularity exec --nv i.sif bash -c 'uv run torchrun --nproc_per_node 4 x.py'")
    assert [level.launcher for level in launch.levels] == ["srun", "singularity", "uv", "torchrun"]
    assert launch.gpus is not None
    assert launch.gpus.value == 4


def test_options_of_the_launcher_are_there_under_one_spelling() -> None:
    options = only("accelerate launch --config_file=a.yaml --mixed-precision bf16 x.py").options
    assert {name: word.value for name, word in options.items()} == {"config-file": "a.yaml", "mixed-precision": "bf16"}
