"""Independent readers: bashlex for where commands, words and assignments are, bash itself for quote removal.

bashlex's own quote removal is not asked: it leaves ``'it'"'"'s'`` as it stands.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import bashlex
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulint.documents.shell import Script, parse_script
from gpulint.source import Fragment, SourceText

SNIPPETS = [
    "python train.py",
    "python -u train.py --lr 1e-3 --epochs=10",
    "CUDA_VISIBLE_DEVICES=0,1 python train.py",
    "OMP_NUM_THREADS=1 NCCL_DEBUG=INFO torchrun --nproc_per_node=4 train.py",
    "export CUDA_VISIBLE_DEVICES=0",
    'export WANDB_MODE=offline DATA="/data/my set"',
    "torchrun \\\n  --nproc_per_node 8 \\\n  --nnodes $SLURM_NNODES \\\n  train.py \\\n  --data $DATA\n",
    "NPROC=4\ntorchrun --nproc_per_node $NPROC train.py\n",
    'DATA="/scratch/$USER/set"\npython train.py --data "$DATA"\n',
    "pip install -r requirements.txt && python train.py",
    "pip install 'torch>=2.0' \"numpy<2\" && python train.py",
    "cd /workspace/app && python main.py; echo done",
    "mkdir -p logs || exit 1",
    "nvidia-smi -L | wc -l",
    "N=$(nvidia-smi -L | wc -l)",
    "python train.py > train.log 2>&1",
    "python train.py >> train.log 2> errors.log < input.txt",
    "python train.py > log.txt &",
    "python a.py | tee a.log | grep loss",
    "if [ ! -d data ]; then wget -q http://example.org/data.tar; fi",
    "if [ -f x ]; then python a.py; elif [ -f y ]; then python b.py; else python c.py; fi",
    "for seed in 1 2 3; do python train.py --seed $seed; done",
    "for f in data/*.tar; do\n  tar xf $f -C /scratch\ndone\n",
    "while true; do sleep 60; done",
    "until nc -z host 80; do sleep 1; done",
    "(cd sub && python train.py)",
    "{ echo a; echo b; } > out.txt",
    "train() { python train.py $1; }\ntrain 4\n",
    "function run { python run.py; }\nrun\n",
    "! grep -q ok log",
    "echo 'it'\"'\"'s done'",
    'echo a\\ b c\\"d',
    'echo "a \\" b \\$X c"',
    "echo \"$A\"b'c'$D",
    "A= B='' python x.py",
    "A=1 B=2",
    "PATH=$HOME/bin:$PATH",
    "srun --ntasks=4 bash -c 'cd sub && python train.py --n $SLURM_PROCID'",
    'sbatch --wrap="python train.py --epochs 3" job.sh',
    "echo `date` started",
    'LOG=log-$(date +%s).txt python x.py --log "$(pwd)/out"',
    "python train.py ${1:-4} ${BATCH:=32} ${NAME%.py}",
    "cat <<EOF\npython train.py\nEOF\necho next\n",
    "python - <<EOF\nimport torch\nEOF\n",
    "# a comment\npython x.py # another one\n",
    "nohup python train.py --é ünïcode 'données'\npython b.py\n",
    "ls *.py [ab]?.txt ~/x a=b --c=d",
    "a;b;c\nd",
    "python x.py 2>/dev/null || true",
    "test -d out || mkdir out",
    "source activate env\n. ./setup.sh\n",
    "kill %1",
    "echo one\n\n\necho two",
]

Read = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
"""Places of the assignments before a command, and of its words."""


def ours(script: Script) -> list[Read]:
    read = list[Read]()
    for command in script.commands:
        words = tuple((word.start, word.end) for word in command.words)
        read.append((tuple((item.start, item.end) for item in command.assignments), words))
    return sorted(read, key=lambda read: read[1][0])


def our_assignments(script: Script) -> list[tuple[int, int]]:
    """Statements that only assign (``export`` and its like are commands to bashlex, loop variables none)."""
    spans = {(command.start, command.end) for command in script.commands}
    alone = [item for item in script.assignments if item.choices is None]
    return [(i.start, i.end) for i in alone if not any(start <= i.start < end for start, end in spans)]


def theirs(nodes: list[Any]) -> tuple[list[Read], list[tuple[int, int]]]:
    commands, assignments = list[Read](), list[tuple[int, int]]()

    class Visitor(bashlex.ast.nodevisitor):  # type: ignore[misc]
        def visitcommand(self, node: Any, parts: list[Any]) -> None:
            own = [part for part in parts if part.kind == "assignment"]
            words = [part for part in parts if part.kind == "word"]
            if words:
                commands.append((tuple(part.pos for part in own), tuple(part.pos for part in words)))
            else:
                assignments.extend(part.pos for part in own)

    for node in nodes:
        Visitor().visit(node)
    commands.sort(key=lambda read: read[1][0])
    return commands, sorted(assignments)


def agree(text: str) -> Script:
    script = parse_script(Fragment(text, SourceText(text)))
    commands, assignments = theirs(bashlex.parse(text))
    assert ours(script) == commands
    assert our_assignments(script) == assignments
    return script


@pytest.mark.parametrize("text", SNIPPETS)
def test_commands_words_and_assignments_are_those_that_bashlex_reads(text: str) -> None:
    assert not agree(text).problems


_PLAIN = st.text("abzAZ09_-./:=,@%+é", min_size=1, max_size=8)
_QUOTED = st.one_of(
    st.text('ab $"\\;|&#<> é', max_size=6).map(lambda text: f"'{text}'"),
    st.text("ab ';|&#<>é", max_size=6).map(lambda text: f'"{text}"'),
    st.sampled_from(["$HOME", "${N}", '"$A"', '"${B:-4}"', "\\ ", "\\$", '"a\\"b"']),
)
# bashlex overlooks a substitution between quotes (''$(date)''), so these stand alone.
_SUBSTITUTION = st.sampled_from(["$(date)", '"$(date)"', "a$(pwd)/b"])
_WORD = st.one_of(st.lists(st.one_of(_PLAIN, _QUOTED), min_size=1, max_size=3).map("".join), _SUBSTITUTION)
_ARGUMENTS = st.lists(_WORD, max_size=5)
_PREFIX = st.lists(st.tuples(st.sampled_from(["A", "N_1", "PATH"]), _WORD).map("=".join), max_size=2)
_COMMAND = st.tuples(_PREFIX, st.sampled_from(["python", "srun", "./run.sh"]), _ARGUMENTS).map(
    lambda drawn: " ".join([*drawn[0], drawn[1], *drawn[2]])
)
_SCRIPT = st.tuples(_COMMAND, st.sampled_from(["\n", "; ", " && ", " || ", " | "]), _COMMAND).map("".join)


@settings(deadline=None)
@given(_SCRIPT)
def test_generated_commands_are_read_alike(text: str) -> None:
    agree(text)


_LITERAL = st.lists(
    st.one_of(
        st.text("abzAZ09_-./:=,@%+é", min_size=1, max_size=8),
        st.text('ab $"`\\;|&#<> é{}*', max_size=6).map(lambda text: f"'{text}'"),
        st.text("ab ';|&#<>é*{}", max_size=6).map(lambda text: f'"{text}"'),
        st.sampled_from(["\\ ", "\\$", '"a\\"b"', '"\\a\\$\\`\\\\"', "\\n", "$'t\\tn'", '\\"']),
    ),
    min_size=1,
    max_size=5,
).map("".join)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is the reference here")
@settings(max_examples=40, deadline=None)
@given(st.lists(_LITERAL, min_size=1, max_size=10))
def test_quotes_are_removed_as_bash_removes_them(words: list[str]) -> None:
    line = " ".join(words)
    ran = subprocess.run(["bash", "-fc", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    text = f"python {line}"
    (command,) = parse_script(Fragment(text, SourceText(text))).commands
    assert [word.value for word in command.words[1:]] == ran.stdout.decode().split("\0")[:-1]
