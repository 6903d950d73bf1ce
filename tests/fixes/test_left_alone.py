"""What fixers leave alone, because the change would stop the program or gain nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gpulint import fixing, plugins
from gpulint.finding import Finding
from gpulint.fix import Edit, Fix, Fixer, Safety
from gpulint.outcomes import State
from gpulint.project import Project
from gpulint.report import Result
from gpulint.selection import select
from gpulint.source import Span
from tests.fixes.training_jobs import check_declined, loop

MakeJob = Callable[..., Any]

CASES = {
    "two models that exchange gradients": (
        "GPU353",
        {
            "train.py": """\
            import torch
            import torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel as DDP


            def main(loader, accum=4):
                dist.init_process_group("nccl")
                encoder = DDP(torch.nn.Linear(3, 3).cuda())
                decoder = DDP(torch.nn.Linear(3, 3).cuda())
                optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
                for index, x in enumerate(loader):
                    (decoder(encoder(x.cuda())).mean() / accum).backward()
                    if (index + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """
        },
        "is wrapped as well",
    ),
    "a comment on pinned memory": (
        "GPU301",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            model = torch.nn.Linear(3, 3).cuda()
            # pinned memory doubles what our nodes need, leave it off
            loader = DataLoader(ImageFolder("data"), batch_size=64, num_workers=8)
            for x, y in loader:
                model(x.cuda()).sum().backward()
                optimizer.step()
            """
        },
        "may say why its memory is not pinned",
    ),
    "the order of devices is set beside the visible ones": (
        "GPU412",
        {
            "train.py": """\
            import os
            import torch

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            x = torch.zeros(1, device=device)
            os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
            os.environ["CUDA_VISIBLE_DEVICES"] = "1"
            model = torch.nn.Linear(3, 3).to(device)
            model(torch.ones(3, 3, device=device)).sum().backward()
            """
        },
        "move them all",
    ),
    "a model of the tree on a mount, once per epoch": (
        "GPU211",
        {
            "train.py": """\
            import torch


            class Net(torch.nn.Module):
                def __init__(self, layers):
                    super().__init__()
                    self.layers = torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(layers)])


            def train(loader, optimizer, args):
                model = Net(args.layers).cuda()
                for epoch in range(10):
                    for x in loader:
                        model(x.cuda()).sum().backward()
                        optimizer.step()
                    torch.save({"model": model.state_dict()}, "/mnt/blob/model.pt")
            """
        },
        "size is unknown",
    ),
    "cuDNN is off for a reason that a comment gives": (
        "GPU414",
        {
            "train.py": """\
            import torch

            # the fused kernel crashes with cuDNN
            torch.backends.cudnn.enabled = False
            """
        },
        "may say why",
    ),
    "the end of a block under the anomaly mode is a comment": (
        "GPU414",
        {
            "train.py": """\
            import torch

            for x in loader:
                with torch.autograd.set_detect_anomaly(True):
                    model(x.cuda()).sum().backward()
                    # model.check()
                optimizer.step()
            """
        },
        "a comment ends the block",
    ),
    "a job that sets an environment up": (
        "GPU401",
        {
            "train.py": "import torch\n\ntorch.zeros(1).cuda()\n",
            "setup_env.sh": "#!/bin/bash\n#SBATCH --gres=gpu:1\npip install -r requirements.txt\npython train.py\n",
        },
        "to set an environment up",
    ),
    "the visible devices are a setting of the program": (
        "GPU411",
        {
            "train.py": """\
            import json
            import os

            with open("config.json") as file:
                config = json.load(file)
            os.environ["CUDA_VISIBLE_DEVICES"] = config["gpu"]

            import torch

            model = torch.nn.Linear(2, 2).cuda()
            for x in loader:
                model(x.cuda()).sum().backward()
                optimizer.step()
            """,
            "config.json": '{"gpu": "0,0"}',
        },
        "comes from a setting",
    ),
    "a meter of what is on the host in some rounds": (
        "GPU305",
        {
            "train.py": """\
            import torch


            class Meter:
                def __init__(self):
                    self.sum = self.count = self.avg = 0

                def update(self, val, n=1):
                    self.sum += val * n
                    self.count += n
                    self.avg = self.sum / self.count


            def train(model, loader, optimizer):
                meter = Meter()
                for x, y in loader:
                    output = model(x.cuda())
                    output.mean().backward()
                    optimizer.step()
                    if len(x) > 1:
                        spread = output.std()
                    else:
                        spread = torch.tensor(0.0)
                    meter.update(spread.item(), len(x))
                print(meter.avg)
            """
        },
        "on the host in some rounds",
    ),
    "an install that depends on the GPU of the job": (
        "GPU401",
        {
            "train.py": "import torch\n\ntorch.zeros(1).cuda()\n",
            "job.sh": """\
            #!/bin/bash
            #SBATCH --gres=gpu:1
            GPU=$(nvidia-smi --query-gpu=gpu_name --format=csv,noheader)
            pip install "torch-for-$GPU"
            python train.py
            """,
        },
        "only known in the job",
    ),
}


def test_jobs_that_install_the_same_get_no_stage_each(job: MakeJob) -> None:
    script = "#!/bin/bash\n#SBATCH --gres=gpu:1\npip install -r requirements.txt\npython train.py\n"
    files = {f"train_{number}.sh": script for number in range(4)}
    made = job({"train.py": "import torch\n\ntorch.zeros(1).cuda()\n", **files})
    reasons = [result.fix.reason for result in made.scan("GPU401")]
    assert len(reasons) == 4
    assert all("4 jobs run the same command" in reason for reason in reasons)


@pytest.mark.parametrize("case", CASES)
def test_what_would_break_or_gain_nothing_is_left_alone(job: MakeJob, case: str) -> None:
    check_declined(job, *CASES[case])


def test_a_shuffled_list_of_steps_does_not_count_them(job: MakeJob) -> None:
    shuffled = "steps = list(range(len(train_loader)))\nrandom.shuffle(steps)\nbar = tqdm(steps)\n"
    program = loop("", "").replace(
        "for x, y in train_loader:\n", f"{shuffled}for step in bar:\n    x, y = batches[step]\n"
    )
    made = job({"train.py": program.replace("print(total)", "    print(step + 1, loss.item())")})
    assert made.repair("GPU305") == 1
    assert "for batch_idx, step in enumerate(bar):" in made.text("train.py")
    assert "if batch_idx % 50 == 0:" in made.text("train.py")


def test_copies_of_one_step_are_one_fix(job: MakeJob) -> None:
    program = """\
        import torch
        from torch.utils.data import DataLoader

        loader = DataLoader(data, pin_memory=True, num_workers=4)
        for x, y in loader:
            x = x.cuda()
            y = y.cuda()
            criterion(model(x), y).backward()
            optimizer.step()
        """
    results = job({"train.py": program}).scan("GPU302")
    assert [len(result.fix.edits) for result in results] == [2, 2]
    converted = job({"train.py": program.replace("y.cuda()", "y.float().cuda()")}).scan("GPU302")
    assert {result.fix.safety for result in converted} == {Safety.UNSAFE}  # converted on the GPU then


def test_findings_that_fixes_make_cheaper_are_fixed_as_well(job: MakeJob) -> None:
    """Each sum of a loop is shown for all waits together; the last one alone would be of low impact."""
    names = [f"part_{number}" for number in range(8)]
    sums = "".join(f"    sum_{name} += {name}.item()\n" for name in names)
    starts = "".join(f"sum_{name} = 0.0\n" for name in names)
    parts = "".join(f"    {name} = loss * 2\n" for name in names)
    shown = "".join(f"print(sum_{name})\n" for name in names)
    made = job({"train.py": loop(starts, parts + sums).replace("print(total)\n", shown)})
    assert made.repair("GPU305") == len(names)
    text = made.text("train.py")
    assert ".item()" not in text
    after = [line for line in text.splitlines() if "float(sum_" in line]
    assert after == sorted(after)


def test_what_was_shown_is_fixed_even_if_other_fixes_lower_its_impact(job: MakeJob) -> None:
    """Fixes that collide take several rounds, and each leaves fewer waits in the loop."""

    def repair(finding: Finding, project: Project) -> Fix:
        head = Span(1, 1, 1, 1)
        note = Edit(finding.path, head, f"# {finding.message}\n")
        return Fix("read nothing", Safety.SAFE, (note, Edit(finding.path, finding.span, "0")))

    scans = []

    def shown(results: Sequence[Result], project: Project) -> Sequence[Result]:
        scans.append(len(results))
        return results if len(scans) == 1 else []

    made = job({"train.py": loop("", "    keep(loss.item())\n    show((loss * 2).item())\n")})
    files, rules = made.files(), select(plugins.load().rules, ("GPU305",), (), ())
    project = Project(made.root, files, made.config)
    fixed = fixing.fix(project, files, rules, {"GPU305": Fixer("GPU305", repair)}, not_accepted=shown)
    assert [outcome.round for outcome in fixed.of(State.APPLIED)] == [1, 2]
    assert scans == [2, 1, 0]


def test_what_was_hidden_stays_even_if_other_fixes_raise_its_impact(job: MakeJob) -> None:
    """A copy of a file is none any more once the other one is fixed."""

    def shown(results: Sequence[Result], project: Project) -> Sequence[Result]:
        return [result for result in results if result.finding.path == results[0].finding.path]

    program = loop("torch.autograd.set_detect_anomaly(True)\n", "    keep(loss)\n")
    made = job({"copy_a.py": program, "copy_b.py": f"notes = 3\n{program}"})
    files, rules, fixers = made.files(), select(plugins.load().rules, ("GPU414",), (), ()), plugins.load().fixers
    project = Project(made.root, files, made.config)
    fixed = fixing.fix(project, files, rules, fixers, not_accepted=shown)
    assert [outcome.result.finding.path.name for outcome in fixed.of(State.APPLIED)] == ["copy_a.py"]
    assert [change.path.name for change in fixed.changes] == ["copy_a.py"]
    assert len(fixed.outcomes) == 1


NUMBERED = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", default=DEFAULT, type=int)
args = parser.parse_args()
model = torch.nn.Linear(4, 4).cuda(args.gpu)
for x in loader:
    target = torch.zeros(len(x), 4).cuda(args.gpu)
    (model(x.cuda(args.gpu)) - target).sum().backward()
    optimizer.step()
"""


def test_the_current_gpu_is_no_device_for_a_call_that_makes_a_tensor(job: MakeJob) -> None:
    assert "may be None" in job({"train.py": NUMBERED.replace("DEFAULT", "None")}).refusal("GPU306")
    made = job({"train.py": NUMBERED.replace("DEFAULT", "0")})
    made.repair("GPU306")
    assert "torch.zeros(len(x), 4, device=args.gpu)" in made.text("train.py")


@pytest.mark.parametrize(
    ("above", "wait"),
    [
        ('print("Viewer running... Ctrl+C to exit.")', "time.sleep(100000)"),
        ('logger.info("demo is available at http://localhost:7860")', "while True:\n    time.sleep(1)"),
        ('print("done")', 'input("Press enter to close the viewer")'),
        ("start(args)", "if args.gui:\n    time.sleep(100000)"),
    ],
)
def test_what_runs_for_a_person_goes_on(job: MakeJob, above: str, wait: str) -> None:
    """A wait that keeps a viewer or server alive is what the text beside it promises."""
    trains = "import time, torch\nmodel = torch.nn.Linear(2, 2).cuda()\nfor x in loader:\n    model(x).backward()\n"
    steps = f"{trains}    optimizer.step()\n"
    assert "for a person" in job({"train.py": f"{steps}{above}\n{wait}\n"}).refusal("GPU105")
    assert job({"train.py": f"{steps}print('done')\ntime.sleep(100000)\n"}).offer("GPU105").changes


@pytest.mark.parametrize(
    ("head", "offered"),
    [
        ("# Please do not change this file.\n# It grades your model.\n\n", False),
        ('#!/usr/bin/env python\n"""Grade a model.\n\nThis script must not be modified.\n"""\n', False),
        ("# Copyright (c) 2021\n#\n# DO NOT EDIT\n", False),
        ("# Don't touch anything in this file, it is kept in step with the server\n", False),
        ("# Do not change the seed\n", True),
        ("# You may not use this file except in compliance with the License\n", True),
        ("# This script can be modified for other data\n", True),
        ("import os\n\n# do not change this file\n", True),
    ],
)
def test_a_file_whose_head_forbids_changes_stays_as_it_is(job: MakeJob, head: str, offered: bool) -> None:
    made = job(
        {"train.py": head + "import torch\n\ntorch.autograd.set_detect_anomaly(True)\nmodel(x.cuda()).backward()\n"}
    )
    if offered:
        assert made.offer("GPU414").changes
    else:
        assert "asks not to change it" in made.refusal("GPU414")
