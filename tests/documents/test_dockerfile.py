"""Dockerfiles: instructions, what a RUN runs and what the image starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.documents.dockerfile import DockerfileDocument
from gpulint.documents.tasks import Task


def read(text: str) -> DockerfileDocument:
    return DockerfileDocument(Path("Dockerfile"), text)


def commands(task: Task) -> list[tuple[int, str]]:
    return [
        (command.span.line, " ".join(word.value or word.raw for word in command.words))
        for script in task.scripts
        for command in script.commands
    ]


def main(text: str) -> Task:
    *_, task = read(text).tasks
    assert task.role == "main"
    return task


def builds(text: str) -> list[list[tuple[int, str]]]:
    return [commands(task) for task in read(text).tasks if task.role == "build"]


def test_continuations_with_comments_and_blank_lines() -> None:
    text = "FROM a\nRUN pip install \\\n  # why\n\n    torch && \\  \n  make\n"
    assert builds(text) == [[(2, "pip install torch"), (6, "make")]]


def test_escape_directive() -> None:
    assert builds("# escape=`\nFROM a\nRUN pip install `\n  torch\n") == [[(3, "pip install torch")]]


def test_mount_flags_are_no_command() -> None:
    assert builds("FROM a\nRUN --mount=type=cache,target=/x \\\n  --network=none pip install y\n") == [
        [(3, "pip install y")]
    ]


def test_exec_form() -> None:
    assert builds('FROM a\nRUN ["pip", "install", "a b"]\n') == [[(2, "pip install a b")]]


@pytest.mark.parametrize("opening", ["<<EOF", "<<'EOF'", "<<-EOF"])
def test_heredoc_body_is_the_script(opening: str) -> None:
    text = f"FROM a\nRUN {opening}\npip install x\n# RUN no\nmake\nEOF\nRUN ls\n"
    assert builds(text) == [[(3, "pip install x"), (5, "make")], [(7, "ls")]]


def test_heredoc_of_another_interpreter_runs_no_shell() -> None:
    text = "FROM a\nRUN <<EOF\n#!/usr/bin/env python\npip = 1\nEOF\nRUN python3 <<EOF && make\nimport torch\nEOF\n"
    assert builds(text) == [[], [(6, "python3"), (6, "make")]]


def test_copied_heredoc_is_no_instruction() -> None:
    assert builds("FROM a\nCOPY <<EOF /run.sh\nRUN pip install x\nEOF\nRUN ls\n") == [[(5, "ls")]]


@pytest.mark.parametrize(
    ("lines", "started"),
    [
        ("CMD python a.py --x", ["python a.py --x"]),
        ('CMD ["python", "a.py"]', ["python a.py"]),
        ('ENTRYPOINT ["python", "a.py"]\nCMD ["--lr", "1"]', ["python a.py --lr 1"]),
        ('CMD ["ignored"]\nENTRYPOINT python a.py', ["python a.py"]),
        ('ENTRYPOINT ["bash", "-c"]\nCMD ["pip install x"]', ["pip install x"]),
        ("CMD first\nCMD second", ["second"]),
        ("HEALTHCHECK CMD curl x", []),
    ],
)
def test_what_the_image_starts(lines: str, started: list[str]) -> None:
    assert [text for _, text in commands(main(f"FROM a\n{lines}\n"))] == started


def test_last_stage_inherits_from_the_stage_it_is_built_on() -> None:
    text = 'FROM nvidia/cuda:12 AS Base\nENV A=1\nCMD ["x"]\nFROM alpine AS other\nCMD no\nFROM base\nENV B=$A/2\n'
    task = main(text)
    assert (task.image, [(variable.name, variable.value) for variable in task.env]) == (
        "nvidia/cuda:12",
        [("A", "1"), ("B", "1/2")],
    )
    assert commands(task) == [(3, "x")]


def test_new_entrypoint_drops_an_inherited_command() -> None:
    assert commands(main('FROM a AS b\nCMD ["x"]\nFROM b\nENTRYPOINT ["y"]\n')) == [(4, "y")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ENV A=1 B='x $C' C=\"y z\"", {"A": "1", "B": "x $C", "C": "y z"}),
        ("ENV CUDA_VISIBLE_DEVICES 0, 1", {"CUDA_VISIBLE_DEVICES": "0, 1"}),
        ("ARG V=3\nENV A=${V} B=${W:-4} C=${V:+set}", {"A": "3", "B": "4", "C": "set"}),
        ("ARG V\nENV A=$V", {"A": None}),
        ("ENV A=1 \\\n    B=2", {"A": "1", "B": "2"}),
    ],
)
def test_environment(line: str, expected: dict[str, str | None]) -> None:
    assert {variable.name: variable.value for variable in main(f"FROM a\n{line}\n").env} == expected


def test_image_from_a_global_argument() -> None:
    assert main("ARG BASE=pytorch/pytorch:2\nFROM --platform=linux/amd64 ${BASE} AS x\n").image == "pytorch/pytorch:2"
    assert main("ARG BASE\nFROM $BASE\n").image is None


def test_working_directory() -> None:
    assert main("FROM a\nWORKDIR /w\nWORKDIR sub\n").working_dir == "/w/sub"


def test_onbuild_run_is_a_build() -> None:
    assert builds("FROM a\nONBUILD RUN pip install x\n") == [[(2, "pip install x")]]


def test_environment_points_at_its_assignment() -> None:
    (variable,) = main("FROM a\nENV \\\n  NVIDIA_VISIBLE_DEVICES=none\n").env
    assert (variable.span.line, variable.span.column, variable.span.end_column) == (3, 3, 30)


def test_powershell_is_not_read_as_shell() -> None:
    assert builds('FROM a\nSHELL ["powershell", "-Command"]\nRUN pip install x\n') == [[]]


@pytest.mark.parametrize("text", ["just text\n", "{{ base }}\nRUN x\n", "RUN x\n"])
def test_other_files_are_a_note(text: str) -> None:
    document = read(text)
    assert document.tasks == ()
    assert [problem.is_error for problem in document.problems] == [False]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "FROM",
        "FROM a\nRUN",
        "FROM a\nRUN <<EOF",
        "FROM a\nRUN x \\",
        'FROM a\nCMD ["x", 1]',
        "FROM a\nENV",
        "FROM a\r\nRUN x \\\r\n y\r\n",
        "FROM a\nRUN []\nCMD []",
    ],
)
def test_odd_files_never_raise(text: str) -> None:
    document = read(text)
    assert isinstance(document.tasks, tuple)
    assert isinstance(document.scripts, tuple)
