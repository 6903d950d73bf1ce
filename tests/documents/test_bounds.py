"""What is bounded in shell, Dockerfiles and YAML: ordinary input keeps its exact values, and past a bound all is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.documents import load
from gpulint.documents.base import Document
from gpulint.documents.shell import Script, parse_script
from gpulint.documents.shell.walk import MAX_COMMANDS
from gpulint.launch.working_directory import MAX_CHANGES, working_dir
from gpulint.rule import Kind
from gpulint.source import Fragment, SourceText


def parse(text: str) -> Script:
    return parse_script(Fragment(text, SourceText(text)))


def last(text: str) -> list[str | None]:
    """Expanded words of the last command, None where unknown."""
    script = parse(text)
    return [word.value for word in script.argv(script.commands[-1])]


def read(name: str, text: str, kind: Kind) -> Document:
    document = load(Path("/p") / name, text.encode(), kind)
    assert document is not None
    _ = document.scripts, document.tasks
    return document


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["a=(x y)", *['a=("${a[@]}" "${a[@]}")'] * 4], ["x", "y"] * 16),
        (["A=x", *["A=$A$A"] * 6], ["x" * 64]),
        (["A='x y'", *['A="$A $A"'] * 4], ["x", "y"] * 16),
        (
            [f"A+=' --a{number} {number}'" for number in range(500)],
            [w for n in range(500) for w in (f"--a{n}", str(n))],
        ),
        ([f"a+=(--a{number})" for number in range(500)], [f"--a{number}" for number in range(500)]),
        (["A=x", *["if [ -f f ]; then B=1; fi"] * 500], ["x"]),
        (["A=y", *["(A=x)", "A=x | cat", 'case "$1" in a) ;; b) B=x;; esac'] * 50], ["y"]),
        (["A=1", *["A=$((A+1))"] * 20], ["21"]),
        ([f"A='{' '.join(['word'] * 2000)}'"], ["word"] * 2000),
    ],
)
def test_what_real_scripts_do_is_followed_exactly(lines: list[str], words: list[str]) -> None:
    name = '"${a[@]}"' if lines[-1].startswith("a") else "$A"
    script = parse("\n".join([*lines, f"x {name}"]))
    found = script.argv(script.commands[-1])
    assert [word.value for word in found] == ["x", *words]


@pytest.mark.parametrize(
    "text",
    [
        "a=(x x)\n" + 'a=("${a[@]}" "${a[@]}")\n' * 30 + 'x before "${a[@]}" after',
        "A=xx\n" + "A=$A$A\n" * 40 + "x before $A after",
        "A=1\n" + "A=$((A*A+A*9))\n" * 30 + "x before $A after",
        "".join(f"if [ -f {n} ]; then A={n}; fi\n" for n in range(1000)) + "x before $A after",
        "for i in 1 2; do\n" + "A=$A$A\n" * 1000 + "done\nx before $A after",
    ],
)
def test_a_value_past_the_bound_is_unknown_and_the_rest_of_the_command_is_not(text: str) -> None:
    first, before, *unknown, after = last(text)
    assert (first, before, after) == ("x", "before", "after")
    assert unknown and not any(unknown)


def test_the_bound_does_not_depend_on_what_is_asked_first() -> None:
    text = "A=xx\n" + "A=$A$A\nx $A\n" * 40
    forwards, backwards = parse(text), parse(text)
    expected = [[word.value for word in forwards.argv(command)] for command in forwards.commands]
    backwards.expander().settle()
    found = [[word.value for word in backwards.argv(command)] for command in reversed(backwards.commands)]
    assert found[::-1] == expected
    assert expected[2] == ["x", "x" * 16]
    assert expected[-1] == ["x", None]


def test_a_note_names_the_line_that_is_too_much() -> None:
    lines = ["#!/bin/bash", "A=xx", *["A=$A$A"] * 40, "python train.py $A"]
    (problem,) = read("x.sh", "\n".join(lines), Kind.SHELL).problems
    assert not problem.is_error
    assert problem.message.startswith("a variable expands to more than ")
    assert problem.line is not None and 10 < problem.line < 40


def test_a_script_that_is_too_long_ends_in_a_command_of_which_nothing_is_known() -> None:
    document = read("x.sh", "echo a\n" * (MAX_COMMANDS + 5) + "python train.py\n", Kind.SHELL)
    commands = document.scripts[0].commands
    assert len(commands) == MAX_COMMANDS + 1
    assert commands[-1].argv[0].value is None
    assert [(problem.line, problem.is_error) for problem in document.problems] == [(MAX_COMMANDS + 1, False)]


def test_a_folder_is_followed_back_to_the_bound() -> None:
    def ends_in(changes: int) -> str | None:
        script = parse("cd a\n" * changes + "x")
        return working_dir(script.commands[-1])

    assert ends_in(MAX_CHANGES) == "/".join(["a"] * MAX_CHANGES)
    assert ends_in(MAX_CHANGES + 1) is None
    assert working_dir(parse("cd a\n" * 500 + "cd /b\ncd c\nx").commands[-1]) == "/b/c"


def test_variables_of_an_image_are_followed_exactly_up_to_the_bound() -> None:
    lines = ["FROM x", "ENV A=a", "ARG C=c", *["ENV A=$A$A"] * 5, "ENV B=$A/$C", "CMD python"]
    small = read("Dockerfile", "\n".join(lines), Kind.DOCKERFILE)
    assert {item.name: item.value for item in small.tasks[-1].env} == {"A": "a" * 32, "B": "a" * 32 + "/c"}
    assert not small.problems

    lines = ["FROM x", "ENV A=a Z=z", *["ENV A=$A$A"] * 60, "ENV B=$A", "CMD python"]
    large = read("Dockerfile", "\n".join(lines), Kind.DOCKERFILE)
    assert {item.name: item.value for item in large.tasks[-1].env} == {"A": None, "Z": "z", "B": None}
    assert [problem.is_error for problem in large.problems] == [False]


def test_merge_keys_are_followed_exactly_up_to_the_bound() -> None:
    pod = "kind: Pod\nspec:\n  containers:\n"
    gpu = "resources: {limits: {nvidia.com/gpu: 2}}"
    small = read("x.yaml", f"b: &b {{image: y, {gpu}}}\n{pod}" + "  - {<<: *b, name: c}\n" * 50, Kind.JOBSPEC)
    assert [(task.image, task.resources.gpus and task.resources.gpus.value) for task in small.tasks] == [("y", 2)] * 50

    wide = "b: &b\n" + "".join(f"  k{n}: v\n" for n in range(9000))
    own = f"  - {{<<: *b, image: own, {gpu}}}\n"
    large = read("x.yaml", wide + pod + own * 1000, Kind.JOBSPEC)
    assert {task.image for task in large.tasks} == {"own"}
    assert ["merge keys" in problem.message for problem in large.problems] == [True]


def test_aliases_of_a_script_share_it() -> None:
    pod = "s: &s |\n  python train.py\nspec:\n  containers:\n"
    text = (
        pod + "  - {image: x, command: [bash, -c, *s]}\n" * 3 + "  - {image: nvidia, command: [bash, -c, python b.py]}"
    )
    scripts = [task.scripts[0] for task in read("x.yaml", text, Kind.JOBSPEC).tasks]
    assert scripts[0] is scripts[1] is scripts[2] is not scripts[3]
    assert scripts[0].commands[0].span.line == 2
