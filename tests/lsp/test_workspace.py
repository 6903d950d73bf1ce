"""What the editor sees is what a scan finds, after any sequence of edits."""

import contextlib
import gc
import itertools
import random
import shutil
from pathlib import Path

import pytest

from gpulint import engine
from gpulint.cli import inputs
from gpulint.launch.job_graph import JobLinker
from gpulint.lsp.checking import Checker
from gpulint.lsp.worker import Worker
from gpulint.lsp.workspace import Superseded, Workspace, Workspaces, _Parser

EXAMPLES = Path(__file__).parents[2] / "examples"
WASTEFUL = "from torch.utils.data import DataLoader\nloader = DataLoader(data)\nfor batch in loader:\n    model(batch.cuda()).backward()\n"


def scanned(folder):
    """What ``gpulint scan`` of the folder finds."""
    parser = _Parser()
    inputs.add_arguments(parser)
    inputs.add_settings(parser)
    read = inputs.gather(parser.parse_args([]), [folder], None)
    report = engine.run(read.project, read.found.files, read.rules, fixers=read.plugins.fixers)
    return shape(report)


def shape(report):
    """All that a reader of a report sees of it."""
    assert not report.errors
    found = [
        (str(r.finding.path), r.finding.span, r.finding.rule.code, r.finding.message, r.finding.related, r.fix)
        for r in report.results
    ]
    return found, [(str(p.path), p.line, p.message) for p in report.problems]


def edited(text, others, chance):
    """``text`` after one edit as people make them."""
    lines = text.splitlines(keepends=True)
    at = chance.randrange(len(lines) + 1)
    match chance.randrange(6):
        case 0:
            return "".join(lines[:at] + lines[at + 1 :])
        case 1:
            other = chance.choice(others).splitlines(keepends=True) or [""]
            start = chance.randrange(len(other))
            return "".join(lines[:at] + other[start : start + 8] + lines[at:])
        case 2:
            chosen = chance.randrange(len(text) + 1)
            return text[:chosen] + chance.choice(["(", "\n", "é", "😀", '"', "#", "    ", "x = 1\n"]) + text[chosen:]
        case 3:
            return "".join(lines[:at])
        case 4:
            return chance.choice(others)
        case _:
            return text.replace("train", "learn") if "train" in text else text.replace("learn", "train")


@pytest.mark.parametrize("seed", range(4))
def test_random_edits_give_what_a_fresh_scan_gives(tmp_path, seed):
    chance = random.Random(seed)
    for job in ("half-the-gpus", "one-gpu-of-two", "checkpoint-to-blob", "notebook", "debugging-left-on"):
        shutil.copytree(EXAMPLES / job / "wasteful", tmp_path / job)
    tree = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    others = [path.read_text() for path in tree]
    workspace, texts = Workspace(tmp_path, []), {}
    for _ in range(12):
        path = chance.choice(tree)
        text = edited(path.read_text(), others, chance)
        path.write_text(text)
        # The editor sends the text before or instead of saving it; a file that is not open changes on disk alone.
        if path in texts or chance.random() < 0.7:
            texts[path] = text.encode()
            if chance.random() < 0.2:
                del texts[path]
                workspace.refresh()
        else:
            workspace.refresh()
        if chance.random() < 0.1:
            gone = chance.choice(tree)
            tree.remove(gone)
            gone.unlink()
            texts.pop(gone, None)
            workspace.refresh()
        workspace.show(texts)
        files = workspace.inputs.found.files
        if chance.random() < 0.5:  # asking for one file first must not change what the others get
            workspace.check([path])
        assert shape(workspace.check(files)) == scanned(tmp_path)


PROGRAM = """\
import os
import torch
from torch.utils.data import DataLoader

WORKERS = 0
BATCH = 8


class Trainer:
    rate = 0.1

    def __init__(self, data, model):
        self.loader = DataLoader(data, batch_size=BATCH, num_workers=WORKERS)
        self.model = model.cuda()

    @torch.no_grad()
    def evaluate(self):
        def one(batch):
            return self.model(batch.cuda()).item()

        return [one(batch) for batch in self.loader]

    def train(self, epochs=3):
        \"\"\"Train for some epochs.\"\"\"
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.rate)
        for epoch in range(epochs):
            for batch in self.loader:
                loss = self.model(batch.cuda()).mean()
                loss.backward()
                optimizer.step()
                print(epoch, loss.item())
            torch.save(self.model.state_dict(), "last.pt")


if __name__ == "__main__":
    Trainer(range(10), torch.nn.Linear(1, 1)).train()
"""
TYPED = (  # (line that the place is in or below, text typed there character by character)
    ("            for batch in self.loader:", "  # batches"),
    ("loss = self.model", "  # gpulint: ignore[GPU302]"),
    ("import os", "  # gpulint: ignore-file"),
    ("WORKERS = 0", "  # no workers: debugging"),
    ("loss.backward()", "\n                x = loss.cpu()"),
    ("def one(batch):", "\n            print(batch)"),
    ("BATCH = 8", "0"),
    ("import torch", "\nimport wandb"),
    ("class Trainer:", "\n    size = 4"),
    ("    @torch.no_grad()", "\n    @staticmethod"),
    ("def train(self, epochs=3):", "\n        self.rate = 2"),
    ("Train for some", " on TPU"),
    ("num_workers=WORKERS)", "  "),
    ("optimizer = ", "   # 30x"),
)


@pytest.mark.parametrize("seed", range(3))
def test_typing_gives_what_a_fresh_scan_gives(tmp_path, seed):
    """Characters of comments, statements, signatures, imports, constants, decorators and strings, some deleted again.
    A second file uses what the first one defines."""
    chance = random.Random(seed)
    path, user = tmp_path / "train.py", tmp_path / "main.py"
    text = PROGRAM if seed else PROGRAM.replace("\n", "\r\n")
    path.write_bytes(text.encode())
    user.write_text("from train import Trainer\n\nfor _ in range(3):\n    Trainer([], None).train(epochs=90)\n")
    workspace = Workspace(tmp_path, [])
    workspace.check([path, user])
    for place, typed in chance.sample(TYPED, len(TYPED)):
        line = next(line for line in text.splitlines() if place in line)
        at = text.index(line) + len(line)
        stages = [text[:at] + typed[:size] + text[at:] for size in range(1, len(typed) + 1)]
        if chance.random() < 0.5:
            stages += [*reversed(stages), text]
        for number, stage in enumerate(stages):
            text = stage
            workspace.show({path: text.encode()})
            found = workspace.check([path, user])
            if number % 3 == 0 or number == len(stages) - 1:
                path.write_bytes(text.encode())
                assert shape(found) == scanned(tmp_path)


def codes(workspace, path):
    return [result.finding.rule.code for result in workspace.check([path]).results]


def test_a_file_that_is_not_saved_yet_is_checked(tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    workspace = Workspace(tmp_path, [])
    path = tmp_path / "train.py"
    workspace.show({path: WASTEFUL.encode()})
    assert "GPU301" in codes(workspace, path)


def test_closing_a_document_brings_back_what_the_disk_holds(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(WASTEFUL)
    workspace = Workspace(tmp_path, [])
    workspace.show({path: b"x = 1\n"})
    assert codes(workspace, path) == []
    workspace.show({})
    assert "GPU301" in codes(workspace, path)


def test_a_file_that_a_scan_leaves_out_is_left_out(tmp_path):
    (tmp_path / "venv").mkdir()
    path = tmp_path / "venv" / "train.py"
    path.write_text(WASTEFUL)
    workspace = Workspace(tmp_path, [])
    workspace.show({path: path.read_bytes()})
    assert codes(workspace, path) == []


def test_a_file_of_no_project_is_judged_alone(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(WASTEFUL)
    workspaces = Workspaces()
    workspace = workspaces.of(path)
    workspace.show({path: path.read_bytes()})
    assert "GPU301" in codes(workspace, path)
    assert workspace.project.files == (path,)


def test_the_innermost_folder_counts(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "gpulint.toml").write_text('ignore = ["GPU301"]')
    workspaces = Workspaces()
    workspaces.configure([tmp_path, inner], [])
    path = inner / "train.py"
    path.write_text(WASTEFUL)
    assert workspaces.of(path).folder == inner
    assert "GPU301" not in codes(workspaces.of(path), path)
    assert workspaces.of(tmp_path / "train.py").folder == tmp_path


def test_broken_settings_keep_the_last_good_ones(tmp_path):
    settings, path = tmp_path / "gpulint.toml", tmp_path / "train.py"
    settings.write_text('select = ["GPU302"]')
    path.write_text(WASTEFUL)
    workspace = Workspace(tmp_path, [])
    settings.write_text("select = [")
    workspace.refresh()
    assert "gpulint.toml" in workspace.error
    assert set(codes(workspace, path)) <= {"GPU302"}
    settings.write_text('select = ["GPU301"]')
    workspace.refresh()
    assert workspace.error == ""
    assert set(codes(workspace, path)) == {"GPU301"}


def test_an_answer_that_nobody_wants_is_given_up(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(WASTEFUL)
    workspace = Workspace(tmp_path, [])
    with pytest.raises(Superseded):
        workspace.check([path], stop=lambda: True)
    assert "GPU301" in codes(workspace, path)


@pytest.fixture
def collected_by_hand():
    """Objects in cycles go when the test collects them: what a workspace holds of a module may depend on when they do."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("collected_by_hand")
def test_edits_leave_nothing_behind(tmp_path):
    shutil.copytree(EXAMPLES / "half-the-gpus/wasteful", tmp_path / "job")
    path = tmp_path / "job/train.py"
    text, workspace, counts = path.read_text(), Workspace(tmp_path, []), []
    for number in range(40):
        workspace.show({path: f"{text}\nx = {number % 2}\n".encode()})
        workspace.check([path])
        if number % 10 == 9:
            gc.collect()
            counts.append(len(gc.get_objects()))
    # A cache that drops something and reads it again moves one count; what an edit leaves behind raises each.
    assert min(later - earlier for earlier, later in itertools.pairwise(counts)) < 20, counts


# Python drops an interruption that strikes in a callback of its own, and says so; then it is repeated.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_check_that_was_interrupted_leaves_nothing_half_done(tmp_path):
    """Wherever it is interrupted, the next check finds what a fresh one finds."""
    for job in ("half-the-gpus", "checkpoint-to-blob"):
        shutil.copytree(EXAMPLES / job / "wasteful", tmp_path / job)
    paths = sorted(path for path in tmp_path.rglob("*.*") if path.is_file())
    texts = {path: path.read_bytes() for path in paths[:2]}
    expected = scanned(tmp_path)
    checker, worker = Checker(), Worker()
    checker.workspaces.configure([tmp_path], [])

    def check():
        return checker.check(texts, paths, stop=lambda: False)

    for seconds in (0.0, 0.002, 0.01, 0.03, 0.1, 0.2, 0.4):
        with contextlib.suppress(TimeoutError):
            await worker.run(check, seconds)
        assert shape((await worker.run(check)).report) == expected


def test_launchers_are_linked_again_only_if_one_of_them_changes(tmp_path, monkeypatch):
    shutil.copytree(EXAMPLES / "half-the-gpus" / "wasteful", tmp_path, dirs_exist_ok=True)
    linked = []
    jobs = JobLinker.jobs
    monkeypatch.setattr(JobLinker, "jobs", lambda linker: linked.append(1) or jobs(linker))
    program, (launcher,) = tmp_path / "train.py", tmp_path.glob("*.sbatch")
    workspace = Workspace(tmp_path, [])
    workspace.check([program])
    for number in range(3):
        workspace.show({program: program.read_bytes() + b"x = %d\n" % number})
        workspace.check([program])
    assert len(linked) == 1
    texts = {program: program.read_bytes(), launcher: launcher.read_bytes() + b"python other.py\n"}
    workspace.show(texts)
    workspace.check([program])
    assert len(linked) == 2
