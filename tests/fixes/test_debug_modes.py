"""Debugging switches on which something else of a program depends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main
from gpulint.fix import Declined, Fix, Safety

MakeJob = Callable[..., Any]

CAUGHT = """\
import torch
from steps import step

torch.autograd.set_detect_anomaly(True)
for x, y in loader:
    try:
        step(x.cuda(non_blocking=True))
    except {kind}:
        {then}
"""
STEPS = """\
def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""
TRIED = """\
import torch
from steps import measure, step

torch.autograd.set_detect_anomaly(True)
for x, y in loader:
    step(x.cuda(non_blocking=True))
{more}"""
MEASURE = """

def measure(model, loader):
    for x, y in loader:
        try:
            model(x).sum().backward()
        except Exception:
            print("no gradient")
"""
BENCH = """\
from steps import measure

measure(model, loader)
"""
SWITCHED_OFF = """\
import torch
from net import Net

torch.backends.cudnn.enabled = False
net = Net().cuda()
for x, y in loader:
    net(x.cuda()).sum().backward()
    optimizer.step()
net.eval()
inputs = torch.randn(1, 8, 8, device="cuda"{more})
print(net(inputs).sum())
"""
SEEDED = """\
import os

import torch


def {name}(seed):
    torch.manual_seed(seed)
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"


{name}(3)
for x, y in loader:
    model(x.cuda()).sum().backward()
    optimizer.step()
"""
TRAINED = """\
import torch


def set_seed(seed):
{doc}    torch.manual_seed(seed)
    torch.backends.cudnn.enabled = False


set_seed(3)
net = torch.nn.Conv2d(3, 8, 3).cuda()
for x, y in loader:
    net(x.cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("kind", "then", "offered"),
    [
        ("RuntimeError", "continue", False),
        ("(ValueError, Exception)", "print(y)", False),
        ("RuntimeError as error", "raise ValueError(y) from error", True),
        ("KeyboardInterrupt", "break", True),
    ],
)
def test_anomaly_detection_whose_errors_are_caught_stays(job: MakeJob, kind: str, then: str, offered: bool) -> None:
    made = job({"train.py": CAUGHT.format(kind=kind, then=then), "steps.py": STEPS})
    if offered:
        assert made.offer("GPU414").safety is Safety.SAFE
    else:
        assert "catches the error" in made.refusal("GPU414")


def test_errors_that_only_another_program_catches_do_not_keep_anomaly_detection(job: MakeJob) -> None:
    files = {"train.py": TRIED.format(more=""), "steps.py": STEPS + MEASURE, "bench.py": BENCH}
    assert job(files).offer("GPU414").safety is Safety.SAFE
    called = files | {"train.py": TRIED.format(more="measure(model, loader)\n")}
    assert "catches the error" in job(called).refusal("GPU414")


@pytest.mark.parametrize(
    ("more", "lost"), [("", "NaN in a backward pass"), (", check_nan=False", "no longer name the")]
)
def test_a_fix_says_what_is_lost_with_anomaly_detection(job: MakeJob, more: str, lost: str) -> None:
    program = TRIED.format(more="").replace("(True)", f"(True{more})")
    (found,) = job({"train.py": program, "steps.py": STEPS}).scan("GPU414")
    assert isinstance(found.fix, Fix) and lost in found.fix.description


def test_cudnn_stays_off_for_gradients_of_inputs_through_recurrent_layers(job: MakeJob) -> None:
    net = "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        self.layer = torch.nn.{}(8, 8)\n"
    program = SWITCHED_OFF.format(more=", requires_grad=True")
    assert "recurrent layers" in job({"train.py": program, "net.py": net.format("GRU")}).refusal("GPU414")
    assert job({"train.py": program, "net.py": net.format("Conv1d")}).offer("GPU414").changes
    assert job({"train.py": SWITCHED_OFF.format(more=""), "net.py": net.format("GRU")}).offer("GPU414").changes


def test_blocking_launches_among_seeds_are_no_safe_fix(job: MakeJob) -> None:
    assert job({"train.py": SEEDED.format(name="set_seed")}).offer("GPU414").safety is Safety.UNSAFE
    assert job({"train.py": SEEDED.format(name="prepare")}).offer("GPU414").safety is Safety.SAFE


def test_cudnn_stays_off_where_a_copy_of_the_function_keeps_it_off(job: MakeJob) -> None:
    reasoned, plain = TRAINED.format(doc='    """Make runs reproducible."""\n'), TRAINED.format(doc="")
    assert "other.py" in job({"train.py": plain, "other.py": reasoned}).refusal("GPU414")
    assert job({"train.py": plain, "other.py": reasoned.replace("set_seed", "set_seeds")}).offer("GPU414").changes
    assert job({"train.py": plain, "other.py": plain}).repair("GPU414") == 2


NET = "import torch\n\n{comment}torch.autograd.set_detect_anomaly(True)\n\n\nclass {name}(torch.nn.Linear):\n    pass\n"
MAIN = """\
import torch
import {modules}

net = torch.nn.Linear(8, 8).cuda()
for x in loader:
    net(x.cuda()).sum().backward()
    optimizer.step()
"""
FILES = {
    "one.py": NET.format(name="One", comment=""),
    "other.py": NET.format(name="Other", comment=""),
    "train.py": MAIN.format(modules="one, other"),
}
"""Two modules that one program imports, and that both switch a mode on."""


def test_a_mode_that_several_modules_of_a_program_switch_on_goes_from_all_of_them(job: MakeJob) -> None:
    made = job(FILES)
    for result in made.scan("GPU414"):
        assert isinstance(result.fix, Fix)
        assert sorted(edit.path.name for edit in result.fix.edits) == ["one.py", "other.py"]
        assert "in 2 modules" in result.fix.description
    assert made.repair("GPU414") > 0
    assert not any("anomaly" in made.text(name) for name in ("one.py", "other.py"))


def test_it_stays_everywhere_where_one_of_the_modules_keeps_it(job: MakeJob) -> None:
    kept = "# anomaly detection, because the loss diverges otherwise\n"
    made = job(FILES | {"other.py": NET.format(name="Other", comment=kept)})
    found = {result.finding.path.name: result.fix for result in made.scan("GPU414")}
    one = found["one.py"]
    assert isinstance(one, Declined)
    assert "other.py:4 keeps it on" in one.reason
    (made.root / "train.py").write_text(MAIN.format(modules="one"))
    fixes = {result.finding.path.name: result.fix for result in made.scan("GPU414")}
    assert isinstance(fixes["one.py"], Fix)


def test_programs_of_their_own_are_changed_by_themselves(job: MakeJob) -> None:
    made = job(
        {
            "one.py": FILES["one.py"],
            "other.py": FILES["other.py"],
            "train_one.py": MAIN.format(modules="one"),
            "train_other.py": MAIN.format(modules="other"),
        }
    )
    for result in made.scan("GPU414"):
        assert isinstance(result.fix, Fix)
        assert {edit.path for edit in result.fix.edits} == {result.finding.path}


def test_one_finding_names_all_modules_that_switch_a_mode_on(tmp_path: Path, capsys: Any) -> None:
    toy = "from torchvision.datasets import MNIST\n" + FILES["other.py"]
    files = FILES | {"digits.py": toy, "train.py": MAIN.format(modules="one, other, digits")}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    main(["scan", "--isolated", "--no-cache", "--select", "GPU414", str(tmp_path)])
    out = " ".join(capsys.readouterr().out.split())  # lines are cut by the length of the path
    assert out.count("is left on") == 1
    assert "and 1 more" in out and out.count("the same switch") == 2


EPOCH = """\
import torch


def train_epoch(net, loader):
    for x in loader:
        {inner}
        net(x.cuda()).sum().backward()
        optimizer.step()
"""
RUN = """\
import torch
from epochs import train_epoch

{top}
net = torch.nn.Linear(8, 8).cuda()
if args.train:
    train_epoch(net, loader)
"""
ON = "torch.autograd.set_detect_anomaly(True)"


@pytest.mark.parametrize("inner", [ON, "torch.autograd.anomaly_mode.set_detect_anomaly(True)"])
def test_a_mode_that_each_step_switches_on_again_goes_as_well(job: MakeJob, inner: str) -> None:
    made = job({"epochs.py": EPOCH.format(inner=inner), "train.py": RUN.format(top=ON)})
    found = {result.finding.path.name: result for result in made.scan("GPU414")}
    assert "(also in epochs.py:6)" in found["train.py"].finding.help
    assert "(also in train.py:4)" in found["epochs.py"].finding.help
    for result in found.values():
        assert isinstance(result.fix, Fix)
        assert {edit.path.name for edit in result.fix.edits} == {"epochs.py", "train.py"}
    assert made.repair("GPU414") > 0
    assert not made.scan("GPU414")


@pytest.mark.parametrize("condition", ["if step % 100 == 0:\n            ", "if args.debug:\n            "])
def test_a_mode_that_only_some_steps_switch_on_keeps_nothing(job: MakeJob, condition: str) -> None:
    made = job({"epochs.py": EPOCH.format(inner=condition + ON), "train.py": RUN.format(top=ON)})
    fix = next(one.fix for one in made.scan("GPU414") if one.finding.path.name == "train.py")
    assert isinstance(fix, Fix)
    assert {edit.path.name for edit in fix.edits} == {"train.py"}


def test_switches_of_one_module_go_together(job: MakeJob) -> None:
    program = (
        f"import torch\n\n{ON}\n\n\n" + EPOCH.format(inner=ON).partition("\n\n\n")[2] + "\n\ntrain_epoch(net, loader)\n"
    )
    made = job({"train.py": program})
    for result in made.scan("GPU414"):
        assert isinstance(result.fix, Fix)
        assert len(result.fix.edits) == 2
        assert "in 2 places" in result.fix.description
    assert made.repair("GPU414") > 0
    assert "anomaly" not in made.text("train.py")


TRAINER = """\
import lightning
import torch

{top}
trainer = lightning.Trainer(max_epochs=9{option})
trainer.fit(model)
"""


def test_an_option_of_a_trainer_and_a_call_go_together(job: MakeJob) -> None:
    made = job({"train.py": TRAINER.format(top=ON, option=", detect_anomaly=True")})
    found = made.scan("GPU414")
    assert len(found) == 2
    for result in found:
        assert isinstance(result.fix, Fix)
        assert len(result.fix.edits) == 2
    assert made.repair("GPU414") > 0
    assert "anomaly" not in made.text("train.py")


def test_one_finding_names_all_switches_of_a_module(tmp_path: Path, capsys: Any) -> None:
    program = f"import torch\n\n{ON}\n\n\n{EPOCH.format(inner=ON).partition('import torch')[2].strip()}\n\n\n"
    (tmp_path / "train.py").write_text(f"{program}train_epoch(torch.nn.Linear(8, 8), loader)\n")
    main(["scan", "--isolated", "--no-cache", "--select", "GPU414", str(tmp_path)])
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("is left on") == 1
    assert "train.py:8)" in out


def test_cudnn_stays_off_where_the_documentation_says_why(job: MakeJob) -> None:
    program = """\
    import torch

    torch.backends.cudnn.enabled = False
    model = torch.nn.Conv2d(3, 8, 3).cuda()
    for images, labels in loader:
        criterion(model(images.cuda()), labels.cuda()).backward()
        optimizer.step()
    """
    said = "`torch.backends.cudnn.enabled = False` is needed: torch 2.2.0 segfaults on the first convolution.\n"
    made = job({"train.py": program, "README.md": said})
    assert made.refusal("GPU414") == "the documentation says why cuDNN is off"
    assert job({"train.py": program, "README.md": "Needs cuDNN 8.\n"}).repair("GPU414") == 1
