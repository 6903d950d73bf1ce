"""Whether changes of evaluation are offered: of its batch size, its number of batches, its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Safety

MakeJob = Callable[..., Any]

KERAS = """\
import tensorflow as tf

batch_size = 32
model.fit(
    train_gen.flow(x_train, y_train, batch_size=batch_size),
    validation_data=test_gen.flow(x_test, y_test, batch_size=batch_size),
    validation_steps={steps},
)
"""


def test_an_evaluation_that_counts_its_batches_keeps_their_size(job: MakeJob) -> None:
    assert "fixed number of batches" in job({"train.py": KERAS.format(steps="len(x_test) // batch_size")}).refusal(
        "GPU202"
    )
    assert job({"train.py": KERAS.format(steps="None")}).offer("GPU202").safety is Safety.UNSAFE


SPLITS = """\
from torch.utils.data import DataLoader

train_loader = DataLoader(train, batch_size=batch_size, drop_last=True)
val_loader = DataLoader(val, batch_size=batch_size, drop_last={drop})
for images, labels in train_loader:
    model(images.cuda()).backward()
validate(model, val_loader)
"""


def test_loaders_that_drop_the_last_batch_keep_their_size(job: MakeJob) -> None:
    assert "drop the last batch" in job({"train.py": SPLITS.format(drop=True)}).refusal("GPU202")
    assert job({"train.py": SPLITS.format(drop=False)}).offer("GPU202").safety is Safety.UNSAFE


STEPS = """\
train_loader = DataLoader(train, batch_size=batch_size)
val_loader = iter(DataLoader(val, batch_size=batch_size))
{name} = len(val) // batch_size
for images, labels in train_loader:
    model(images.cuda()).backward()
    for _ in range({name}):
        model(next(val_loader)[0].cuda())
"""


def test_evaluation_that_counts_its_steps_keeps_its_batch_size(job: MakeJob) -> None:
    head = "from torch.utils.data import DataLoader\n\n"
    assert "fixed number of batches" in job({"train.py": head + STEPS.format(name="steps_per_eval")}).refusal("GPU202")
    assert job({"train.py": head + STEPS.format(name="log_every")}).offer("GPU202").safety is Safety.UNSAFE


EXPLAINED = """\
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 2).to("cuda")
model.eval()
for images, labels in DataLoader(data, pin_memory=True):
    predicted = model(images.to("cuda", non_blocking=True))
    {more}
"""


def test_evaluation_that_explains_the_model_keeps_its_gradients(job: MakeJob) -> None:
    assert "`cam`" in job({"train.py": EXPLAINED.format(more="print(cam(x=images))")}).refusal("GPU203")
    assert job({"train.py": EXPLAINED.format(more="print(predicted)")}).offer("GPU203").safety is Safety.UNSAFE


EVALUATES = """\
import torch

def validate(model, loader):
    model.eval()
    for images, labels in loader:
        hits = (model(images.cuda()).max(1)[1] == labels.cuda()).sum(){old}
        print(hits)

model = net().cuda()
validate(model, test_loader)
"""


def test_code_for_the_first_versions_of_pytorch_gets_nothing_that_they_lack(job: MakeJob) -> None:
    assert "no_grad" in job({"test.py": EVALUATES.format(old="")}).offer("GPU203").description
    assert "before 0.4" in job({"test.py": EVALUATES.format(old=".data[0]")}).refusal("GPU203")


def test_of_long_loops_the_inner_one_runs_without_gradients(job: MakeJob) -> None:
    program = (
        "import torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\nmodel.eval()\nfor name in names:\n"
        + "".join(f"    note({number})\n" for number in range(70))
        + "    for x in loader(name):\n        keep(model(x.cuda()))\n"
    )
    made = job({"test.py": program})
    assert made.repair("GPU203") == 1
    lines = "    with torch.no_grad():\n        for x in loader(name):\n            keep(model(x.cuda()))\n"
    assert made.text("test.py").endswith(f"    note(69)\n{lines}")


FAR = """\
import torch

model, head = torch.nn.Linear(2, 2).cuda(), torch.nn.Linear(2, 2).cuda()
model.eval()
head.eval()
for x in loader:
    found = model(x.cuda())
{lines}
    keep(head(found).tolist())
"""
NOTHING = """\
import torch

class Net(torch.nn.Module):
    def infer(self, x):
        scores = self.forward(x)
        {end}

    def forward(self, x):
        return self.layers(x)

model = Net().cuda()
model.eval()
for x in loader:
    scores, rate = model.infer(x.cuda())
    keep(scores)
"""


def test_models_that_run_far_apart_in_a_long_loop_are_left_alone(job: MakeJob) -> None:
    lines = "\n".join(f"    note({number})" for number in range(18))
    assert "several places of a loop" in job({"test.py": FAR.format(lines=lines)}).refusal("GPU203")


@pytest.mark.parametrize(("end", "is_left"), [("return", True), ("return scores, 1", False)])
def test_a_call_whose_missing_result_is_unpacked_fails_in_any_case(job: MakeJob, end: str, is_left: bool) -> None:
    made = job({"test.py": NOTHING.format(end=end)})
    assert len(made.scan("GPU203")) == 1
    assert made.repair("GPU203") == (0 if is_left else 1)


DRIVES = """\
import torch

def main():
    world = connect()
    model = build().cuda()
    model.eval()
    {loop}
        world.show(model(frame))
{after}
if __name__ == "__main__":
    main()
"""


def test_a_function_that_goes_on_with_something_else_is_not_decorated_as_safe(job: MakeJob) -> None:
    plain = DRIVES.format(loop="for frame in frames:", after="")
    endless = DRIVES.format(loop="while frame := world.look():", after="")
    beside = DRIVES.format(loop="for frame in frames:", after="    while world.runs():\n        world.go_on()\n")
    assert job({"main.py": plain}).offer("GPU203").safety is Safety.SAFE
    assert job({"main.py": endless}).offer("GPU203").safety is Safety.UNSAFE
    assert job({"main.py": beside}).offer("GPU203").safety is Safety.UNSAFE


TRAINER = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model, args, train_dataset=train, eval_dataset=val).train()
"""
BOTH = "per_device_train_batch_size{0}12\nper_device_eval_batch_size{0}{1}\n"


@pytest.mark.parametrize("size", [4, 12])
@pytest.mark.parametrize("name", ["run.sh", "sft.yaml"])
def test_a_size_of_its_own_is_not_said_to_be_that_of_training(job: MakeJob, name: str, size: int) -> None:
    options = " ".join(f"--{line}" for line in BOTH.format(" ", size).splitlines())
    settings = f"python train.py --eval_strategy epoch {options}\n"
    if name == "sft.yaml":
        settings = "stage: sft\nmodel_name_or_path: org/m\neval_strategy: epoch\n" + BOTH.format(": ", size)
    refusal = job({"train.py": TRAINER, name: settings}).refusal("GPU202")
    assert "beside that for training" in refusal and "share" not in refusal


def test_one_size_for_both_is_said_to_be_shared(job: MakeJob) -> None:
    made = "loaders = {}\nfor split in ('train', 'val'):\n    loaders[split] = DataLoader(Pets(split), batch_size=32)\n"
    loop = (
        "for images in loaders['train']:\n    model(images.cuda()).sum().backward()\nvalidate(model, loaders['val'])\n"
    )
    text = f"from torch.utils.data import DataLoader\n\n{made}{loop}"
    assert "share one batch size" in job({"train.py": text}).refusal("GPU202")
