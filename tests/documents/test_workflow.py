"""Makefiles, Snakemake's and Nextflow's files, HTCondor's submit files and Terraform: tasks with exact places."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.documents import kind_of, load
from gpulint.documents.base import Document
from gpulint.rule import Kind


def read(name: str, text: str) -> Document:
    return load(Path(name), text.encode(), Kind.WORKFLOW)


def shell(document: Document) -> list[str]:
    """What the file has at the place of each command."""
    lines = document.source.text.splitlines()
    spans = [command.span for task in document.tasks for script in task.scripts for command in script.commands]
    return [lines[span.line - 1][span.column - 1 :] for span in spans]


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("Makefile", b"", Kind.WORKFLOW),
        ("rules/train.smk", b"", Kind.WORKFLOW),
        ("main.nf", b"", Kind.WORKFLOW),
        ("main.tf", b"", Kind.WORKFLOW),
        ("train.sub", b"universe = docker\nexecutable = x.sh\n", Kind.WORKFLOW),
        ("subtitles.sub", b"{0}{25}Hello\n", None),
    ],
)
def test_files_are_told_by_name_and_content(name: str, head: bytes, kind: Kind | None) -> None:
    assert kind_of(Path(name), head) is kind


def test_a_makefile_has_a_task_for_each_recipe() -> None:
    text = "PY = python3\n\nall: train\n\ntrain: a.txt\n\t@$(PY) train.py --n $$N\n\t-rm -f a.txt\n"
    document = read("Makefile", text)
    assert [task.name for task in document.tasks] == ["train"]
    assert shell(document) == ["$(PY) train.py --n $$N", "rm -f a.txt"]
    (script,) = document.tasks[0].scripts
    first = script.argv(script.commands[0], {"PY": "python3"})
    assert [word.text for word in first] == ["python3", "train.py", "--n", "$N"]


def test_variables_of_a_makefile_are_known_as_far_as_the_file_says() -> None:
    document = read("Makefile", "A ?= 4\nB := $(A)x\nC = $(shell nproc)\nrun:\n\tpython a.py $(A)\n")
    assert {item.name: item.value for item in document.tasks[0].env} == {"A": "4", "B": "4x", "C": None}


def test_places_in_strings_of_snakemake_and_nextflow() -> None:
    rule = 'rule train:\n    resources: gpu=2\n    shell:\n        "cd a && "\n        "python b.py {output}"\n'
    document = read("Snakefile", rule)
    assert shell(document) == ['cd a && "', 'python b.py {output}"']
    assert document.tasks[0].resources.gpus is not None
    assert document.tasks[0].resources.gpus.value == 2
    process = 'process T {\n  accelerator 4\n  script:\n  """\n  python a.py \\$X\n  """\n}\n'
    assert shell(read("main.nf", process)) == ["python a.py \\$X"]


def test_a_submit_file_runs_its_executable_with_its_arguments() -> None:
    text = 'executable = train.sh\narguments = "--epochs 3"\nrequest_GPUs = 2\nenvironment = "A=1 B=\'x y\'"\nqueue\n'
    (task,) = read("train.sub", text).tasks
    assert [word.text for word in task.scripts[0].commands[0].argv] == ["./train.sh", "--epochs", "3"]
    assert task.resources.gpus is not None
    assert task.resources.gpus.value == 2
    assert [(item.name, item.value) for item in task.env] == [("A", "1"), ("B", "x y")]


def test_a_heredoc_of_terraform_is_a_script() -> None:
    text = 'resource "aws_instance" "a" {\n  instance_type = "p3.2xlarge"\n  user_data = <<-EOF\n    python a.py\n  EOF\n}\n'
    document = read("main.tf", text)
    assert shell(document) == ["python a.py"]
    assert document.tasks[0].resources.gpu_model == "v100"


@pytest.mark.parametrize("name", ["Makefile", "Snakefile", "x.smk", "main.nf", "main.tf", "train.sub"])
@pytest.mark.parametrize(
    "text",
    [
        "", "{" * 3000, "rule a:\n" * 900, "process p {\n" * 900, 'resource "a" "b" {\n' * 900, "/*" * 5000, "<<A\n" * 5000,
        "a = [" * 5000, '"${' * 5000, "'''\n\"\"\"\n" * 900, "t:\n\tx\n" * 900, "A=$(A)$(A)\n" * 900, "\\\n" * 5000,
        "executable = \nqueue\n", "a" + " " * 90_000 + "b", "a = x" + " " * 90_000 + "y", "a[" * 30_000, "a(" * 5000, "\x00\ufeff\u2028",
    ],
)  # fmt: skip
def test_hostile_files_cost_a_note_at_most(name: str, text: str) -> None:
    document = read(name, text)
    assert len(document.tasks) <= 500
    assert document.failures == []
    assert all(not problem.is_error or "binary" in problem.message for problem in document.problems)


def test_more_tasks_than_are_read_are_a_note() -> None:
    document = read("Makefile", "".join(f"t{number}:\n\tpython a.py\n" for number in range(600)))
    assert len(document.tasks) == 500
    assert [problem.message for problem in document.problems] == ["only the first 500 tasks were analysed"]
