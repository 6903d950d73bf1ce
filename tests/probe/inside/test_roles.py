"""What code is for, by where in the program it is: stacks of small programs, read together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("psutil")

from gpulint_probe.inside.readings import read_stacks
from gpulint_probe.inside.records import Stack, Statement
from gpulint_probe.inside.sources import Source

LOOP = """\
while True:
    batch = change(images)
    loss = step(batch)
    outputs = loss.outputs
    kept = select(outputs)
    show(step, 3)
"""
MODEL = [("torch.nn.modules.linear", "Linear.forward")]


class Program:
    """A source file, and stacks in it."""

    def __init__(self, folder: Path, source: str) -> None:
        self.file = folder / "train.py"
        self.file.write_text(source)
        self.stacks: list[Stack] = []
        self.statements: dict[tuple[int, int], Statement] = {}
        self._source = Source(str(self.file))

    def stack(
        self, *lines: int, call: str = "", inner: list[tuple[str, str]] | None = None, names: tuple[str, ...] = ()
    ) -> int:
        """Add one of the program's lines, outermost first, and of frames of libraries within; its number."""
        libraries = inner or []
        functions = [*(name for _, name in libraries), *reversed(names or ["main"] * len(lines))]
        modules = [*(module for module, _ in libraries), *["__main__"] * len(lines)]
        files = [*["/site-packages/x.py"] * len(libraries), *[str(self.file)] * len(lines)]
        numbers = [*[1] * len(libraries), *reversed(lines)]
        self.stacks.append(Stack(0.0, len(self.stacks), modules, functions, files, numbers, call))
        for line in lines:
            for found in self._source.news(line, 0.0):
                self.statements[found.function, found.first] = found
        return len(self.stacks) - 1

    def phase(self, number: int, *, ranks: bool = False) -> tuple[str, str]:
        readings = read_stacks(self.stacks, "/", ranks=ranks, statements=self.statements.values())
        return readings[number].phase.name, readings[number].phase.cause


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (2, "INPUT"),  # its result is an argument of the step
        (5, "HOST"),  # it uses what the step computed
        (6, "HOST"),
    ],
)
def test_code_whose_result_goes_into_the_step_prepares_input(tmp_path: Path, line: int, cause: str) -> None:
    program = Program(tmp_path, LOOP)
    program.stack(3, inner=MODEL)
    assert program.phase(program.stack(line))[1] == cause


def test_what_is_computed_after_a_step_for_the_next_one_is_input(tmp_path: Path) -> None:
    program = Program(tmp_path, "batch = first()\nwhile True:\n    loss = step(batch)\n    batch = change(images)\n")
    program.stack(3, inner=MODEL)
    assert program.phase(program.stack(4))[1] == "INPUT"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ("pairs = match(outputs)\n    loss = criterion(outputs, pairs)", "HOST"),
        ("pairs = match(images)\n    loss = criterion(outputs, pairs)", "INPUT"),
        ("images = play(outputs)\n    loss = criterion(outputs, images)", "INPUT"),  # for the next pass, too
    ],
)
def test_what_a_loss_needs_of_the_outputs_is_no_input(tmp_path: Path, lines: str, cause: str) -> None:
    program = Program(tmp_path, f"while True:\n    outputs = model(images)\n    {lines}\n    loss.backward()\n")
    program.stack(2, inner=MODEL)
    program.stack(4, inner=MODEL)
    assert program.phase(program.stack(3))[1] == cause


def test_what_runs_before_the_loop_of_training_has_no_role(tmp_path: Path) -> None:
    program = Program(tmp_path, "table = build()\nwhile True:\n    loss = step(table)\n")
    program.stack(3, inner=MODEL)
    assert program.phase(program.stack(1))[1] == "HOST"


def test_an_argument_of_the_step_is_input_and_what_is_called_with_its_result_is_not(tmp_path: Path) -> None:
    program = Program(
        tmp_path, "def main():\n    while True:\n        score(step(make(3)))\n\ndef make(n):\n    return n * 2\n"
    )
    program.stack(3, inner=MODEL)
    assert program.phase(program.stack(3, 6, names=("main", "make")))[1] == "INPUT"
    assert program.phase(program.stack(3, 6, names=("main", "score")))[1] == "HOST"


def test_the_iterator_of_the_loop_makes_input(tmp_path: Path) -> None:
    source = (
        "for batch in Reader(3):\n    step(batch)\n\nclass Reader:\n    def __next__(self):\n        return parse()\n"
    )
    program = Program(tmp_path, source)
    program.stack(2, inner=MODEL)
    assert program.phase(program.stack(1, 6, names=("<module>", "Reader.__next__")))[1] == "INPUT"


def test_attributes_carry_input_between_methods(tmp_path: Path) -> None:
    source = (
        "class Trainer:\n    def run(self):\n        while True:\n            self.advance()\n            self.learn()\n"
        "    def advance(self):\n        self.batch = change(self.images)\n"
        "    def report(self):\n        self.text = draw(self.images)\n"
        "    def learn(self):\n        self.model(self.batch)\n"
    )
    program = Program(tmp_path, source)
    program.stack(5, 11, inner=MODEL)
    assert program.phase(program.stack(4, 7))[1] == "INPUT"
    assert program.phase(program.stack(4, 9))[1] == "HOST"


@pytest.mark.parametrize(
    ("line", "call", "phase"),
    [
        (5, "os.write", "checkpoint"),  # of the weights
        (6, "file.write", "logging"),
        (6, "compute", "Python code"),
    ],
)
def test_what_is_written_after_a_step_is_a_checkpoint_or_logging(
    tmp_path: Path, line: int, call: str, phase: str
) -> None:
    source = (
        "while True:\n    loss = step(3)\n    weights = model.state_dict()\n    packed = pack(weights)\n"
        "    os.write(1, packed)\n    file.write(loss)\n"
    )
    program = Program(tmp_path, source)
    program.stack(2, inner=MODEL)
    assert program.phase(program.stack(line, call=call))[0] == phase


@pytest.mark.parametrize(
    ("sent", "phase"), [("client.put(buffer.getvalue())", "checkpoint"), ("client.put(epoch)", "logging")]
)
def test_what_a_saved_buffer_holds_is_sent_as_a_checkpoint(tmp_path: Path, sent: str, phase: str) -> None:
    source = (
        "while True:\n    loss = step(3)\n    buffer = BytesIO()\n"
        f"    torch.save({{'epoch': epoch, 'model': model.state_dict()}}, buffer)\n    {sent}\n"
    )
    program = Program(tmp_path, source)
    program.stack(2, inner=MODEL)
    answer = [("socket", "SocketIO.readinto"), ("http.client", "HTTPConnection.getresponse")]
    assert program.phase(program.stack(5, inner=answer))[0] == phase


def test_pictures_are_input_only_before_a_step(tmp_path: Path) -> None:
    program = Program(tmp_path, LOOP)
    program.stack(3, inner=MODEL)
    picture = [("PIL.Image", "resize")]
    assert program.phase(program.stack(2, inner=picture))[0] == "input"
    assert program.phase(program.stack(6, inner=picture))[0] == "Python code"


EVALUATION = """\
while True:
    loss = model(batch)
    loss.backward()
    score(7)

def score(n):
    model.eval()
    answers = model(n)
    found = compare(answers)
    model.train()
    return found
"""


def test_code_between_eval_and_train_is_evaluation_in_a_job_that_trains(tmp_path: Path) -> None:
    program = Program(tmp_path, EVALUATION)
    inference = program.stack(4, 8, inner=MODEL)
    program.statements = {key: found for key, found in program.statements.items() if found.function}
    assert program.phase(inference)[0] == "forward"  # nothing is trained
    program = Program(tmp_path, EVALUATION)
    program.stack(2, inner=MODEL)
    for line in (8, 9):
        assert program.phase(program.stack(4, line, inner=MODEL if line == 8 else None))[0] == "evaluation"
    assert program.phase(program.stack(4, 11))[0] != "evaluation"


def test_eval_of_a_table_is_no_evaluation(tmp_path: Path) -> None:
    source = "def main():\n    while True:\n        step(3)\n        score(4)\n\ndef score(n):\n    rows = table.eval('a + b')\n    return n\n"
    program = Program(tmp_path, source)
    program.stack(3, inner=MODEL)
    assert program.phase(program.stack(4, 8, names=("main", "score")))[0] == "Python code"


def test_of_texts_only_names_of_commands_are_recorded(tmp_path: Path) -> None:
    program = Program(tmp_path, "run('curl -H secret', 'secret', token='hf_secret')\nlogin('sk-1')\n")
    program.stack(1)
    assert [found.words for found in program.statements.values()] == [["curl"], []]


def test_a_teacher_without_gradients_is_part_of_the_step(tmp_path: Path) -> None:
    source = (
        "while True:\n    with torch.no_grad():\n        target = soften(teacher(x))\n    loss = model(x, target)\n"
        "    loss.backward()\n    with torch.no_grad():\n        words = speak(model)\n"
    )
    program = Program(tmp_path, source)
    program.stack(4, inner=MODEL)
    assert program.phase(program.stack(3, call="soften"))[0] == "input"
    assert program.phase(program.stack(7, call="speak"))[0] == "evaluation"


@pytest.mark.parametrize(
    ("body", "call", "phase"),
    [
        ("speak(x)", "speak", "evaluation"),
        ("e.mul_(0.9) for e in weights.parameters()", "e.mul_", "forward"),  # an average of the weights
    ],
)
def test_functions_without_gradients_evaluate_unless_they_keep_weights(
    tmp_path: Path, body: str, call: str, phase: str
) -> None:
    source = (
        "def main():\n    while True:\n        loss = model(x)\n        loss.backward()\n        other(3)\n"
        f"@torch.no_grad()\ndef other(n):\n    return list({body})\n"
    )
    program = Program(tmp_path, source)
    program.stack(3, inner=MODEL)
    assert program.phase(program.stack(5, 8, call=call, names=("main", "other")))[0] == phase


def test_a_metric_of_a_steps_output_is_no_evaluation(tmp_path: Path) -> None:
    source = (
        "def main():\n    while True:\n        loss = model(x)\n        loss.backward()\n        hits = compare(loss)\n"
        "@torch.no_grad()\ndef compare(output):\n    return rank(output)\n"
    )
    program = Program(tmp_path, source)
    program.stack(3, inner=MODEL)
    assert program.phase(program.stack(5, 8, call="rank", names=("main", "compare")))[0] == "Python code"


def test_operators_on_tensors_launch_kernels(tmp_path: Path) -> None:
    source = (
        "def update(rate):\n    for p in parameters:\n        slope = p.grad\n        p.data -= rate * slope\n"
        "        count = rate * 2\n"
    )
    program = Program(tmp_path, source)
    assert program.phase(program.stack(4, names=("update",)))[0] == "forward"
    assert program.phase(program.stack(5, names=("update",)))[0] == "Python code"


@pytest.mark.parametrize(
    ("call", "phase"),
    [("torch.bincount", "forward"), ("x.unfold", "forward"), ("rows.unfold", "Python code"), ("len", "Python code")],
)
def test_calls_of_torch_and_of_tensors_launch_kernels(tmp_path: Path, call: str, phase: str) -> None:
    program = Program(tmp_path, "def update(rows):\n    x = torch.zeros(3)\n    return use(x, rows)\n")
    assert program.phase(program.stack(3, call=call, names=("update",)))[0] == phase


@pytest.mark.parametrize(
    ("command", "phase"),
    [
        ("['gcc', '-O2', 'x.c']", "compilation"),
        ("'/usr/bin/nvcc x.cu'", "compilation"),
        ("['curl', address]", "input"),  # its result goes into the step
        ("['grep', 'gcc-12', name]", "input"),
    ],
)
def test_commands_that_are_waited_for_have_phases(tmp_path: Path, command: str, phase: str) -> None:
    program = Program(tmp_path, f"while True:\n    x = subprocess.run({command})\n    step(x)\n")
    program.stack(3, inner=MODEL)
    wait = [("selectors", "select"), ("subprocess", "Popen.communicate"), ("subprocess", "run")]
    assert program.phase(program.stack(2, inner=wait))[0] == phase


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("save_snapshot", "checkpoint"), ("Trainer.saveModel", "checkpoint"), ("save_rows", "Python code"),
        ("dev_score", "evaluation"), ("device_score", "Python code"), ("Tracker.push", "logging"),
        ("log_prob", "Python code"), ("log_values", "logging"),
    ],
)  # fmt: skip
def test_names_of_own_functions_tell_what_no_step_needs(tmp_path: Path, name: str, phase: str) -> None:
    program = Program(tmp_path, "while True:\n    step(3)\n    other(4)\n\ndef other(n):\n    return n ** 2\n")
    program.stack(2, inner=MODEL)
    assert program.phase(program.stack(3, 6, names=("<module>", name)))[0] == phase


@pytest.mark.parametrize(("name", "cause"), [("crop", "INPUT"), ("Bleu.update", "HOST"), ("dev_rows", "EVALUATION")])
def test_what_is_computed_before_a_step_and_not_used_is_input_unless_it_is_a_metric(
    tmp_path: Path, name: str, cause: str
) -> None:
    program = Program(tmp_path, "while True:\n    x = other(4)\n    step(3)\n\ndef other(n):\n    return n ** 2\n")
    program.stack(3, inner=MODEL)
    assert program.phase(program.stack(2, 6, names=("<module>", name)))[1] == cause


@pytest.mark.parametrize(
    ("name", "call", "phase"),
    [("on_log", "", "logging"), ("on_end", "file.write", "logging"), ("on_end", "", "Python code")],
)
def test_hooks_that_a_library_calls_follow_its_steps(tmp_path: Path, name: str, call: str, phase: str) -> None:
    program = Program(tmp_path, "trainer.fit()\n\ndef hook(n):\n    return n ** 2\n")
    program.stack(1, inner=MODEL)
    number = program.stack(1, 4, call=call, names=("<module>", name))
    stack = program.stacks[number]
    program.stacks[number] = replace(
        stack, modules=["__main__", "library", "__main__"], functions=[name, "fit", "<module>"],
        files=[stack.files[0], "/site-packages/x.py", stack.files[1]], lines=[4, 1, 1],
    )  # fmt: skip
    assert program.phase(number)[0] == phase


def test_a_read_from_the_terminal_waits_for_a_person(tmp_path: Path) -> None:
    program = Program(tmp_path, "for line in sys.stdin:\n    step(line)\nfor line in pipe.stdin:\n    pass\n")
    assert program.phase(program.stack(1))[0] == "prompt"
    assert program.phase(program.stack(3))[0] == "Python code"


@pytest.mark.parametrize(
    ("loop", "cause", "waits"),
    [
        ("while not exists(path): time.sleep(0.1)", "INPUT", True),
        ("while not exists(path): pass", "INPUT", True),
        ("while exists('lock'): time.sleep(0.1)", "HOST", True),  # for no data
        ("while time.time() < end: time.sleep(0.1)", "HOST", False),
        ("while not exists(path): log[count] = 1", "INPUT", False),  # computes something before the step
    ],
)
def test_a_loop_that_computes_nothing_waits_for_others(tmp_path: Path, loop: str, cause: str, waits: bool) -> None:
    head, body = loop.split(": ")
    source = f"while True:\n    {head}:\n        {body}\n    x = read(path)\n    step(x)\n    time.sleep(1)\n"
    program = Program(tmp_path, source)
    program.stack(5, inner=MODEL)
    number = program.stack(3, call="time.sleep" if "sleep" in loop else "exists")
    assert program.phase(number)[1] == cause
    assert (program.phase(number)[0] == "waiting for another thread or process") is waits
    assert program.phase(number, ranks=True)[1] == ("COMMUNICATION" if waits else cause)
    assert program.phase(program.stack(6, call="time.sleep")) == ("Python code", "HOST")


def test_an_event_loop_waits_for_what_the_coroutine_awaits(tmp_path: Path) -> None:
    source = "async def main():\n    while True:\n        shard = await fetch()\n        step(shard)\n{}\nasyncio.run(main())\n"
    wait = [("selectors", "EpollSelector.select"), ("asyncio.base_events", "BaseEventLoop._run_once")]
    for extra, expected in (("", "INPUT"), ("        await send(3)", "HOST")):  # two things that it may be
        folder = tmp_path / expected
        folder.mkdir()
        program = Program(folder, source.format(extra))
        program.stack(4, inner=MODEL)
        assert program.phase(program.stack(6, inner=wait))[1] == expected


def test_a_source_that_cannot_be_parsed_has_no_statements(tmp_path: Path) -> None:
    file = tmp_path / "old.py"
    file.write_text("print 'x'\n")
    assert list(Source(str(file)).news(1, 0.0)) == []
    assert list(Source(str(tmp_path / "none.py")).news(1, 0.0)) == []


@pytest.mark.parametrize(
    ("after", "call", "phase"),
    [
        ("finite = torch.isfinite(loss)\n    if not finite:\n        skip()", "", "synchronization"),
        ("mean = torch.mean(loss)\n    total += float(mean)", "float", "synchronization"),
        ("mean = torch.mean(loss)\n    total = total + mean", "", "forward"),
        ("words = split(3)\n    total += float(words)", "float", "Python code"),
    ],
)
def test_the_truth_and_the_number_of_a_tensor_wait_for_the_gpu(
    tmp_path: Path, after: str, call: str, phase: str
) -> None:
    program = Program(tmp_path, f"while True:\n    loss = step(3)\n    {after}\n")
    program.stack(2, inner=MODEL)
    assert program.phase(program.stack(4, call=call))[0] == phase


@pytest.mark.parametrize(
    ("name", "last", "phase"),
    [
        ("describe", "file.write(text)", "logging"),
        ("describe", "keep(text)", "Python code"),
        ("precision_metric", "file.write(text)", "Python code"),
    ],
)
def test_a_function_that_writes_also_prepares_what_it_writes(tmp_path: Path, name: str, last: str, phase: str) -> None:
    source = (
        f"while True:\n    loss = step(3)\n    {name}(loss)\n\ndef {name}(loss):\n    text = turn(loss)\n    {last}\n"
    )
    program = Program(tmp_path, source)
    program.stack(2, inner=MODEL)
    assert program.phase(program.stack(3, 6, names=("main", name)))[0] == phase


@pytest.mark.parametrize(
    ("written", "phase"),
    [
        ("name", "logging"),
        ("weight", "checkpoint"),
        ("size", "logging"),  # a figure of the weight
    ],
)
def test_names_and_figures_of_weights_are_no_checkpoint(tmp_path: Path, written: str, phase: str) -> None:
    source = (
        "while True:\n    loss = step(3)\n    for name, weight in model.named_parameters():\n"
        f"        size = weight.norm()\n        events.add({written})\n\ndef add(self, of):\n    os.write(3, of)\n"
    )
    program = Program(tmp_path, source)
    program.stack(2, inner=MODEL)
    assert program.phase(program.stack(5, 8, call="os.write", names=("main", "add")))[0] == phase


@pytest.mark.parametrize(("called", "cause"), [("train_step", "EVALUATION"), ("look", "")])
def test_evaluation_is_told_in_a_job_whose_steps_were_not_sampled(tmp_path: Path, called: str, cause: str) -> None:
    source = f"while True:\n    {called}(3)\n    model.eval()\n    loss = model(3)\n    model.train()\n"
    program = Program(tmp_path, source)
    assert program.phase(program.stack(4, inner=MODEL))[1] == cause
