"""What a script's reader sees: commands with their surroundings, places, directives; problems instead of failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulint.documents.shell import Command, Script, ShellDocument, parse_script, script_from_argv, statements
from gpulint.source import Fragment, SourceText, Span


def parse(text: str) -> Script:
    return parse_script(Fragment(text, SourceText(text)))


def command(script: Script, name: str) -> Command:
    return next(command for command in script.walk() if command.name == name)


@pytest.mark.parametrize(
    "text",
    [
        "env A=1 -u B python x.py",
        "sudo -u me python x.py",
        "time python x.py",
        "nohup python x.py &",
        "exec /usr/bin/python x.py",
        "timeout -k 5 3h python x.py",
        "nice -n 10 ionice -c 2 stdbuf -oL python x.py",
        "numactl --membind=0 python x.py",
        "PY=/opt/conda/bin/python; $PY x.py",
    ],
)
def test_a_command_is_named_after_the_program_that_runs(text: str) -> None:
    assert parse(text).commands[-1].name == "python"


def test_a_program_that_cannot_be_known_has_no_name() -> None:
    assert parse("$RUNNER x.py").commands[0].name == ""


def test_a_span_reaches_from_the_first_word_to_the_last_over_continued_lines() -> None:
    (only,) = parse("echo é; A=1 \\\n  python x.py \\\n  --lr 1 > log\n").commands[1:]
    assert only.span == Span(1, 9, 3, 9)


def test_columns_count_characters_not_bytes() -> None:
    script = parse("# données 😀\necho 'é' 😀; python é.py --x\n")
    words = script.commands[1].words
    assert [word.raw for word in words] == ["python", "é.py", "--x"]
    assert words[1].span == Span(2, 20, 2, 24)


def test_windows_line_ends_change_nothing() -> None:
    text = "A=1\ntorchrun \\\n  --n $A \\\n  x.py\n"
    unix, windows = parse(text), parse(text.replace("\n", "\r\n"))
    assert [[word.text for word in one.argv] for one in windows.commands] == [["torchrun", "--n", "1", "x.py"]]
    assert windows.commands[0].span == unix.commands[0].span


def test_guards_loops_and_functions_around_a_command_are_known() -> None:
    script = parse(
        "if [ ! -d data ]; then wget url; else tar x; fi\n"
        "[ -f out ] || mkdir out\n"
        "cd a && make\n"
        "for s in 1 2; do while true; do sleep 1; done; done\n"
        "f() { python x.py; }\n"
        "case $1 in train) srun y;; esac\n"
    )
    assert [guard.text for guard in command(script, "wget").conditions] == ["[ ! -d data ]"]
    assert command(script, "tar").conditions[0].text == "else of [ ! -d data ]"
    assert [(guard.kind, guard.text) for guard in command(script, "mkdir").conditions] == [("or", "[ -f out ]")]
    assert not command(script, "make").conditional
    sleep = command(script, "sleep")
    assert sleep.in_loop
    assert [block.text for block in sleep.blocks] == ["for s in 1 2", "while true"]
    assert command(script, "python").in_function == "f"
    assert command(script, "srun").conditions[0].text == "$1 in train"
    assert not command(script, "cd").in_loop


def test_background_pipes_subshells_and_redirections() -> None:
    script = parse("python a.py | tee a.log &\n(cd x; make)\nN=$(wc -l f)\nprog > out 2>&1 <in\n")
    python = command(script, "python")
    assert python.background
    assert python.piped_to is command(script, "tee")
    assert command(script, "make").in_subshell
    assert command(script, "wc").in_substitution
    assert not command(script, "prog").background
    found = [(one.operator, one.target and one.target.value) for one in command(script, "prog").redirects]
    assert found == [(">", "out"), (">&", "1"), ("<", "in")]


def test_words_after_a_redirection_still_belong_to_the_command() -> None:
    assert [word.value for word in parse("python x.py > log --lr 1").commands[0].words] == [
        "python",
        "x.py",
        "--lr",
        "1",
    ]


def test_a_here_document_keeps_its_text_and_place() -> None:
    script = parse("python - <<EOF && next\nimport torch\nEOF\necho\n")
    python = command(script, "python")
    assert python.heredoc is not None
    assert python.heredoc.text == "import torch\n"
    assert python.heredoc.span(7, 12) == Span(2, 8, 2, 13)
    assert [one.name for one in script.commands] == ["python", "next", "echo"]


def test_a_nested_script_is_walked_with_places_in_the_file() -> None:
    script = parse('N=4\nsrun bash -c "cd sub\n  pip install \\"x\\" && torchrun --nproc_per_node=$N t.py"\n')
    assert [one.name for one in script.walk()] == ["srun", "cd", "pip", "torchrun"]
    assert command(script, "pip").span == Span(3, 3, 3, 20)
    assert [word.text for word in command(script, "torchrun").argv] == ["torchrun", "--nproc_per_node=4", "t.py"]


def test_directives_count_only_before_the_first_command_and_only_with_one_hash() -> None:
    script = parse("#!/bin/bash\n#SBATCH -N 2\n##SBATCH -n 4\n#PBS -l x\necho\n#SBATCH -n 8\n")
    assert [(one.prefix, one.text, one.leading) for one in script.directives] == [
        ("#SBATCH", "-N 2", True),
        ("#PBS", "-l x", True),
        ("#SBATCH", "-n 8", False),
    ]
    assert script.shebang == "#!/bin/bash"
    assert script.comments[2].text == "##SBATCH -n 4"


def test_what_follows_a_comment_within_a_continued_command_is_not_part_of_it() -> None:
    names = [one.words[0].value for one in parse("torchrun a.py \\\n  # --x 1 \\\n  --y 2\n").commands]
    assert names == ["torchrun", "--y"]


@pytest.mark.parametrize(
    "word",
    [
        "${{inputs.data}}",
        "${{ inputs.data }}",
        '"${{ matrix.set || b }}"',
        "$(params.data)/set",
        "$(workspaces.my-data.path)",
        "--data=${{inputs.data}}/x",
    ],
)
def test_an_expression_that_another_system_fills_in_is_an_unknown_part_of_a_word(word: str) -> None:
    script = parse(f"fetch {word} end && python train.py --data {word} --lr 1\nlast")
    assert [[one.raw for one in command.words] for command in script.commands] == [
        ["fetch", word, "end"],
        ["python", "train.py", "--data", word, "--lr", "1"],
        ["last"],
    ]
    assert script.problems == () and script.commands[0].words[1].value is None


def test_a_command_substitution_with_a_dot_is_one_still() -> None:
    assert command(parse("x $(run.me a)"), "run.me").in_substitution


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a x && b &&\n(c && d)\npython t.py | tee x || exit 1; f",
            ["a x", "b", "(c && d)", "python t.py | tee x || exit 1", "f"],
        ),
        ("A=b && c > d", ["A=b", "c > d"]),
        ("a && b 2>&1 && c > d", ["a", "b 2>&1", "c > d"]),
        ("for i in a b; do x $i && y; done && z", ["for i in a b; do x $i && y; done", "z"]),
        ("a --x ${{inputs.y}} && b", ["a --x ${{inputs.y}}", "b"]),
        ("a & b", None),
        ("a <<E\nE", None),
        ("a && (", None),
    ],
)
def test_statements_of_the_top_level_end_at_and(text: str, expected: list[str] | None) -> None:
    places = statements(text)
    assert (places and [text[start:end] for start, end in places]) == expected


def test_a_placeholder_is_an_unknown_value_not_a_redirection() -> None:
    script = parse("DATA=<path to your data>\npython x.py --data $DATA --out <out_dir> --n 1\n")
    assert not script.problems
    assert [word.value for word in script.commands[0].argv] == [
        "python",
        "x.py",
        "--data",
        None,
        "--out",
        None,
        "--n",
        "1",
    ]
    assert script.commands[0].argv[5].text == "<out_dir>"


def test_a_broken_script_is_a_note_and_the_rest_is_still_read() -> None:
    document = ShellDocument(Path("job.sh"), "python a.py\nif [ x ]; then\n  python b.py\n)\npython c.py\n")
    assert [one.argv[1].text for one in document.scripts[0].commands if one.name == "python"] == [
        "a.py",
        "b.py",
        "c.py",
    ]
    (problem,) = document.problems
    assert not problem.is_error
    assert problem.line is not None
    assert 2 <= problem.line <= 5


@given(st.text("ab$(){}[]<>|&;\"'`\\\n #=é\r\ud800", max_size=40))
def test_any_text_is_read_without_failing_and_within_its_bounds(text: str) -> None:
    for one in parse(text).walk():
        assert one.span >= Span(1, 1, 1, 1)
        assert all(0 <= word.start < word.end <= len(text) for word in one.words)
        assert one.argv is not None


def argv(*words: str) -> Script:
    """An exec-form list as YAML has it: ``["a", "b"]``."""
    owner, fragments, at = SourceText("[" + ", ".join(f'"{word}"' for word in words) + "]"), list[Fragment](), 2
    for word in words:
        fragments.append(Fragment(word, owner, ((0, at),)))
        at += len(word) + 4
    return script_from_argv(fragments)


def test_an_exec_form_list_is_literal_and_each_word_keeps_its_place() -> None:
    (only,) = argv("python", "train.py", "a $HOME b", "--n=$(NPROC)").commands
    assert [word.value for word in only.words] == ["python", "train.py", "a $HOME b", None]
    assert only.words[1].span == Span(1, 13, 1, 21)
    assert only.span == Span(1, 3, 1, 50)
    assert only.script.argv(only, {"NPROC": "4"})[3].value == "--n=4"


@pytest.mark.parametrize(
    "prefix", [["bash", "-c"], ["/bin/bash", "-lc"], ["sh", "-e", "-c"], ["/sbin/tini", "--", "bash", "-c", "--"]]
)
def test_an_exec_form_shell_gives_the_script_in_it(prefix: list[str]) -> None:
    script = argv(*prefix, "pip install x && python t.py")
    assert [one.name for one in script.commands] == ["pip", "python"]
    start = sum(len(word) + 4 for word in prefix) + 3
    assert script.commands[1].span == Span(1, start + 17, 1, start + 28)


def test_an_empty_exec_form_list_is_an_empty_script() -> None:
    assert argv().commands == ()


def test_a_fragment_in_another_file_maps_every_place_back() -> None:
    owner = SourceText("run: >\n    echo é\n    python x.py\n")
    fragment = Fragment("echo é python x.py", owner, ((0, 11), (7, 22)))
    assert parse_script(fragment).commands[0].words[2].span == Span(3, 5, 3, 11)


def test_a_shell_document_is_one_task_with_its_requests() -> None:
    document = ShellDocument(Path("job.sbatch"), "#!/bin/bash\n#SBATCH --gres=gpu:4 -J fit\nsrun python x.py\n")
    (task,) = document.tasks
    assert (task.system, task.name) == ("slurm", "fit")
    assert task.resources.gpus is not None
    assert task.resources.gpus.value == 4
    assert task.resources.gpus.span == Span(2, 9, 2, 21)
    assert task.scripts == document.scripts
    assert document.problems == []
