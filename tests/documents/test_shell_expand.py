"""Expansion: known values are followed, everything else stays unknown."""

from __future__ import annotations

import pytest

from gpulint.documents.shell import ALL_GPUS, SCRIPT_DIR, START_DIR, Script, parse_script
from gpulint.source import Fragment, SourceText, Span


def parse(text: str) -> Script:
    return parse_script(Fragment(text, SourceText(text)))


def last(text: str, **env: str) -> list[str | None]:
    """Expanded words of the last command, None where unknown."""
    script = parse(text)
    command = [one for one in script.commands if not one.in_substitution][-1]
    return [word.value for word in script.argv(command, env)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=4; x $A ${A} a${A}b \"$A\" '$A'", ["x", "4", "4", "a4b", "4", "$A"]),
        ("A=1; A=2; x $A", ["x", "2"]),
        ("x $A", ["x", None]),
        ("x ${A:-4} ${A-5} ${A:=6}", ["x", "4", "5", "6"]),
        ("A=3; x ${A:-4} ${A:+yes}", ["x", "3", "yes"]),
        ("A=${A:-4}; x $A", ["x", "4"]),
        ("B=2; x ${A:-$B}", ["x", "2"]),
        (": ${A:=8}; x $A", ["x", "8"]),
        ("export A=1 B=$A; x $B", ["x", "1"]),
        ("declare -i N=4; readonly M=5; x $N $M", ["x", "4", "5"]),
        ("A='--n 8 --m 2'; x $A", ["x", "--n", "8", "--m", "2"]),
        ("A='--n 8'; x \"$A\"", ["x", "--n 8"]),
        ("A=(--n 8 'a b'); x \"${A[@]}\" ${A[1]} $A", ["x", "--n", "8", "a b", "8", "--n"]),
        ("A=(1); A+=(2 3); x ${A[@]}", ["x", "1", "2", "3"]),
        ("A='a'; A+=' b'; x $A", ["x", "a", "b"]),
        ("A=; x $A b", ["x", "b"]),
        ("G=4; N=2; x $((G*N)) $(( G * (N + 1) )) $((7/2)) $((G*U))", ["x", "8", "12", "3", None]),
        ("read A; x $A", ["x", None]),
        ("A=1; unset A; x $A", ["x", None]),
        ("A=1; ((A++)); x $A", ["x", None]),
        ("A=$(date); x $A", ["x", None]),
        ("A=1 x $A", ["x", None]),
        ("x --seed={1..5} {a,b} '{a,b}' {}", ["x", None, None, "{a,b}", "{}"]),
        ("A=2; (A=1); x $A", ["x", "2"]),
        ("A=2; A=1 | y; x $A", ["x", "2"]),
        ("A=$B; x $A; B=1", ["x", None]),
        ("A=$A$A; B=$B; x $A", ["x", None]),
    ],
)
def test_words_become_what_the_script_says(text: str, expected: list[str | None]) -> None:
    if text.endswith("; B=1"):
        text = text.removesuffix("; B=1") + "; B=1; y"
        script = parse(text)
        assert [word.value for word in script.argv(script.commands[0])] == expected
    else:
        assert last(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1; if t; then A=2; fi; x $A", None),
        ("A=2; if t; then A=2; fi; x $A", "2"),
        ("if t; then A=2; x $A; fi", "2"),
        ("if t; then A=1; else A=2; x $A; fi", "2"),
        ("if t; then A=1; else A=2; fi; x $A", None),
        ("for A in 8; do x $A; done", "8"),
        ("for A in 1 2; do x $A; done", None),
        ("A=1; for i in 1 2; do x $A; A=$((A+1)); done", None),
        ("case $1 in a) A=1;; *) A=2;; esac; x $A", None),
        ("A=1; t || A=2; x $A", None),
        ("cd y && A=2; x $A", "2"),
        ('if [ -z "$A" ]; then A=4; fi; x $A', "4"),
        ('[[ -z "${A}" ]] && A=4; x $A', "4"),
        ("A=4; f() { x $A; }; f", "4"),
        ("f() { x $A; }; A=4; f", "4"),
        ("f() { x $A; }; A=4; f; A=5; f", None),
        ("f() { A=4; }; A=1; f; x $A", None),
        ("f() { local A=4; }; A=1; f; x $A", "1"),
        ("f() { local A=4; x $A; }; A=1; f", "4"),
    ],
)
def test_a_value_counts_only_where_every_way_there_agrees(text: str, expected: str | None) -> None:
    script = parse(text)
    user = next(one for one in script.commands if one.words[0].value == "x")
    assert [word.value for word in user.argv] == ["x", expected]


def test_an_unknown_piece_leaves_the_rest_of_the_arguments_readable() -> None:
    script = parse('ARGS="--n 8 --nodes $N --x=$Y"\nrun $ARGS z\n')
    assert [word.text for word in script.commands[0].argv] == ["run", "--n", "8", "--nodes", "$N", "--x=$Y", "z"]
    assert [word.known for word in script.commands[0].argv] == [True, True, True, True, False, False, True]


def test_a_word_that_comes_through_a_variable_is_placed_where_it_is_written() -> None:
    script = parse('ARGS="--n 8 --m=${M:-3}"\nrun $ARGS\n')
    words = script.commands[0].argv
    assert words[2].span == Span(1, 11, 1, 12)
    assert words[3].after(4).span == Span(1, 22, 1, 23)
    assert words[2].word.span == Span(2, 5, 2, 10)


def test_defaults_are_marked_and_the_caller_overrides_them() -> None:
    script = parse("N=${1:-4}\nx $N ${M:-2}\n")
    assert [word.from_default for word in script.commands[0].argv] == [False, True, True]
    given = script.argv(script.commands[0], {"1": "8", "M": "3"})
    assert [(word.value, word.from_default) for word in given[1:]] == [("8", False), ("3", False)]


def test_scheduler_variables_are_unknown_unless_the_caller_knows_them() -> None:
    text = "x $SLURM_NTASKS_PER_NODE $SLURM_GPUS_ON_NODE"
    assert last(text) == ["x", None, None]
    assert last(text, SLURM_NTASKS_PER_NODE="4") == ["x", "4", None]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("$(nvidia-smi -L | wc -l)", ALL_GPUS),
        ("$(nvidia-smi --list-gpus|wc -l)", ALL_GPUS),
        ("`nvidia-smi --query-gpu=name --format=csv,noheader | wc -l`", ALL_GPUS),
        ('$(python -c "import torch; print(torch.cuda.device_count())")', ALL_GPUS),
        ("$(nproc)", None),
        ('$(dirname "$0")/x', f"{SCRIPT_DIR}/x"),
        ('$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )', SCRIPT_DIR),
        ('$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)', f"{SCRIPT_DIR}/.."),
        ("${0%/*}", SCRIPT_DIR),
        ("$(pwd)/x", f"{START_DIR}/x"),
        ("$PWD", START_DIR),
        ("$SLURM_SUBMIT_DIR/x", f"{START_DIR}/x"),
        ("$(which python)", "python"),
    ],
)
def test_a_few_substitutions_are_understood(expression: str, expected: str | None) -> None:
    assert last(f"A={expression}; x $A") == ["x", expected]


def test_the_number_of_listed_devices_is_counted() -> None:
    devices = "export CUDA_VISIBLE_DEVICES=0,1,2; N=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\\n' | wc -l); x $N"
    assert last(devices) == ["x", "3"]


def test_the_current_folder_is_unknown_after_a_change() -> None:
    assert last("cd $X; x $(pwd) $PWD") == ["x", None, None]


def test_runaway_values_end() -> None:
    assert last("A=ab; " + 'A="$A $A $A"; ' * 60 + "x ${A}")[0] == "x"
