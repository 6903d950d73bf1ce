"""Whether changes to jobs, GPUs, numbers and debuggers are offered, and as safe or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix, Safety

MakeJob = Callable[..., Any]

FORKING = """\
import torch
import {module} as mp
from torch.utils.data import DataLoader

loader = DataLoader(dataset, batch_size=64)

def work(device):
    for images, labels in loader:
        loss = criterion(model(images.to(device)), labels.to(device))
        loss.backward()

for rank in range(2):
    mp.Process(target=work, args=("cuda" if use_gpu else "cpu",)).start()
"""


@pytest.mark.parametrize("module", ["multiprocessing", "torch.multiprocessing"])
def test_a_program_that_forks_is_not_made_to_ask_for_a_gpu_first(job: MakeJob, module: str) -> None:
    made = job({"train.py": FORKING.format(module=module)})
    made.repair("GPU301")
    assert "DataLoader(dataset, batch_size=64, pin_memory=True)" in made.text("train.py")


@pytest.mark.parametrize(("comment", "safety"), [("", Safety.SAFE), ("# find the hang\n", Safety.UNSAFE)])
def test_a_comment_goes_along_only_if_asked(job: MakeJob, comment: str, safety: Safety) -> None:
    switch = f'import os\n\n{comment}os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n'
    files = {"train.py": switch, "run.sh": "#SBATCH --gres=gpu:1\npython train.py\n"}
    assert job(files).offer("GPU414").safety is safety


JSRUN = """\
#BSUB -nnodes 1
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5
jsrun -n 1 --tasks_per_rs 1 --cpu_per_rs 42 --gpu_per_rs 1 python3 train.py
"""


def test_tasks_of_one_resource_set_are_not_multiplied(job: MakeJob) -> None:
    training = "for batch in loader:\n    model(batch.cuda()).backward()\n"
    assert "share the GPUs" in job({"job.sh": JSRUN, "train.py": f"import torch\n{training}"}).refusal("GPU103")


SEARCHING = """\
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(
    model,
    find_unused_parameters=True,{comment}
)
for batch in loader:
    model(batch.cuda()).backward()
"""


def test_a_search_with_a_comment_is_left_on(job: MakeJob) -> None:
    commented = job({"train.py": SEARCHING.format(comment="  # the second head is not always used")})
    assert "comment" in commented.refusal("GPU351")
    assert job({"train.py": SEARCHING.format(comment="")}).offer("GPU351").safety is Safety.UNSAFE


HIDDEN = """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "{listed}"
import torch

loss.backward()
"""


def test_gpus_stay_hidden_where_the_cpu_may_be_meant(job: MakeJob) -> None:
    assert "may be meant" in job({"train.py": HIDDEN.format(listed="-1")}).refusal("GPU411")
    assert job({"train.py": HIDDEN.format(listed="0,0")}).offer("GPU411").safety is Safety.UNSAFE


MADE = """\
import torch

for images in loader:
    steps = torch.{made}.to("cuda")
    model(images.cuda(), steps).backward()
"""


@pytest.mark.parametrize(("made", "safety"), [("zeros(8)", Safety.SAFE), ("linspace(0, 1, 8)", Safety.UNSAFE)])
def test_what_a_gpu_computes_may_be_rounded_otherwise(job: MakeJob, made: str, safety: Safety) -> None:
    assert job({"train.py": MADE.format(made=made)}).offer("GPU306").safety is safety


def test_what_to_wait_for_beside_a_server_is_not_chosen(job: MakeJob) -> None:
    script = "#!/bin/bash\n#SBATCH --gres=gpu:4\nvllm serve org/model &\npython train.py &\nwait\n"
    assert "only you know" in job({"run.sh": script}).refusal("GPU105")


TRAP = """\
import pdb

import torch

for images, labels in train_loader:
    loss = criterion(model(images.cuda()), labels.cuda())
    if labels.max() < 10:
        loss.backward()
    else:
        pdb.set_trace()
    optimizer.step()
"""


def test_a_debugger_for_a_case_that_must_not_happen_raises(job: MakeJob) -> None:
    fixes = [one.fix for one in job({"train.py": TRAP}).scan("GPU102")]
    assert any("raise " in edit.text for fix in fixes for edit in fix.edits)
    assert all(fix.safety is Safety.UNSAFE for fix in fixes)


IMPORTED = """\
import torch

for images, labels in train_loader:
    loss = criterion(model(images.cuda()), labels.cuda())
    if labels.max() < 10:
        loss.backward()
    else:
        {first}
        pdb.set_trace()
    print(loss.shape)
    import pdb
    pdb.set_trace()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "offered"),
    [
        ("import pdb", '        raise ValueError("none of the cases holds")'),
        ("import pdb, sys", "the debugger is all that the block does: raise an error for the case that it waits for"),
    ],
)
def test_a_branch_that_would_only_import_a_debugger_raises_or_stays(job: MakeJob, first: str, offered: str) -> None:
    stays, goes = job({"train.py": IMPORTED.format(first=first)}).scan("GPU102")
    text = stays.fix.reason if isinstance(stays.fix, Declined) else "".join(edit.text for edit in stays.fix.edits)
    assert offered.strip() in text
    (edit,) = goes.fix.edits
    assert (edit.span.line, edit.span.end_line, edit.text) == (11, 13, "")


def test_tasks_that_start_processes_themselves_stay_one_for_each_node(job: MakeJob) -> None:
    script = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
srun --ntasks-per-node=1 python - <<'PY'
import subprocess, sys
subprocess.call([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=4", "train.py"])
PY
"""
    program = """\
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
"""
    made = job({"train.sbatch": script, "train.py": program})
    assert not [result for result in made.scan("GPU103") if getattr(result.fix, "edits", ())]


def test_a_task_without_an_image_keeps_its_installs(job: MakeJob) -> None:
    task = "resources:\n  accelerators: A100:1\nsetup: |\n  pip install peft\nrun: |\n  python train.py\n"
    assert "plain machine" in job({"task.yaml": task, "train.py": "import torch\n"}).refusal("GPU401")


AVERAGED = """\
import torch

average = 0.0
for step, (x, y) in enumerate(train_loader):
    loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    average = average * 0.9 + loss.item() * 0.1
    bar.set_description(f"{average / (1 - 0.9 ** step):.3f}")
"""


def test_an_average_that_every_step_goes_on_from_stays_one_of_every_step(job: MakeJob) -> None:
    made = job({"train.py": AVERAGED})
    assert made.repair("GPU305") == 1
    assert "\n    average = average * 0.9 + loss.detach().double() * 0.1\n    if step % 50 == 0:\n" in made.text(
        "train.py"
    )


SWITCHED_OFF = """\
from torch.utils.data import DataLoader

if __name__ == "__main__":
    loader = DataLoader(
        dataset,
        batch_size=16,{comment}
    )
    for images in loader:
        model(images.cuda()).backward()
"""


def test_a_number_of_workers_that_was_commented_out_is_not_set_again(job: MakeJob) -> None:
    behind = SWITCHED_OFF.format(comment="").replace("    )\n    for", "    )  # , num_workers=args.workers)\n    for")
    assert "switched the workers off" in job({"train.py": behind}).refusal("GPU303")
    assert "switched the workers off" in job(
        {"train.py": SWITCHED_OFF.format(comment="\n        # num_workers=4,")}
    ).refusal("GPU303")
    assert job({"train.py": SWITCHED_OFF.format(comment="")}).offer("GPU303").safety is Safety.UNSAFE


LOGS_EACH_STEP = """\
import torch
import wandb

def train(model, loader):
    losses = {{}}
    for step, (images, labels) in enumerate(loader):
        parts = criterion(model(images.cuda()), labels.cuda())
        parts["overall"].backward()
        optimizer.step()
        wandb.log({{"loss": parts["overall"].item()}}, step={step}){more}
"""


def test_a_log_that_counts_its_own_steps_is_not_written_less_often(job: MakeJob) -> None:
    assert "counts its own steps" in job(
        {"train.py": LOGS_EACH_STEP.format(step="wandb.run.step + len(images)", more="")}
    ).refusal("GPU305")
    assert job({"train.py": LOGS_EACH_STEP.format(step="step", more="")}).offer("GPU305").safety is Safety.UNSAFE


def test_what_nothing_reads_is_only_removed_where_no_other_wait_stays(job: MakeJob) -> None:
    more = "\n        losses = {k: losses.get(k, 0) + v.item() for k, v in parts.items()}"
    program = LOGS_EACH_STEP.format(step="wandb.run.step + 1", more=more)
    results = job({"train.py": program}).scan("GPU305")
    assert not any(isinstance(result.fix, Fix) for result in results)
    alone = "\n".join(line for line in program.splitlines() if "wandb.log" not in line)
    results = job({"train.py": alone}).scan("GPU305")
    offers = [result.fix for result in results if isinstance(result.fix, Fix)]
    assert [offer.description for offer in offers] == ["remove `losses`, which nothing reads"]
    assert offers[0].safety is Safety.SAFE


TWO_SUMS = """\
import torch

def train(model, loader, writer, epoch):
    crack, inactive = 0.0, 0.0
    cracks, inactives = [], []
    for images, labels in loader:
        first, second = model(images.cuda())
        one, two = criterion(first, labels.cuda()), criterion(second, labels.cuda())
        {adds}
        {beside}
        (one + two).backward()
        optimizer.step()
    {end}
"""


@pytest.mark.parametrize(
    "end",
    [
        "return inactive / len(loader), labels, inactive / len(loader)",
        "print(f'crack {inactive:.3f}, inactive {inactive:.3f}')",
        "log(inactive, inactive)",
        "return {'crack': inactive, 'inactive': inactive}",
        "writer.add_scalar('crack', inactive, epoch); writer.add_scalar('inactive', inactive, epoch)",
        "history['crack'] = inactive / 9; history['inactive'] = inactive / 9",
    ],
)
def test_what_another_value_is_named_for_by_mistake_stays(job: MakeJob, end: str) -> None:
    sums = TWO_SUMS.format(adds="crack += one.item()", beside="inactive += two.item()", end=end)
    assert "`inactive` is handed on twice" in " ".join(_refusals(job, sums))


def test_a_list_that_another_one_is_named_for_by_mistake_stays(job: MakeJob) -> None:
    adds = {"adds": "cracks.append(one.item())", "beside": "inactives.append(two.item())"}
    lists = TWO_SUMS.format(**adds, end="return mean(inactives), mean(inactives)")
    assert "`inactives` is handed on twice" in " ".join(_refusals(job, lists))


@pytest.mark.parametrize(
    "end",
    [
        "return inactive / len(loader)",
        "print(f'{inactive}/{len(loader)} ({100 * inactive / len(loader)})')",
        "print(inactive); return inactive",
        "return epoch, epoch, inactive",
    ],
)
def test_what_nothing_reads_beside_a_value_that_is_read(job: MakeJob, end: str) -> None:
    sums = TWO_SUMS.format(adds="crack += one.item()", beside="inactive += two.item()", end=end)
    results = job({"train.py": sums}).scan("GPU305")
    (offer,) = (one.fix for one in results if isinstance(one.fix, Fix) and "nothing reads" in one.fix.description)
    assert "remove `crack`, which nothing reads" in offer.description


def _refusals(job: MakeJob, program: str) -> list[str]:
    return [one.fix.reason for one in job({"train.py": program}).scan("GPU305") if isinstance(one.fix, Declined)]


def test_what_takes_from_a_queue_is_not_removed(job: MakeJob) -> None:
    more = "\n        losses = {k: waiting.get() + v.item() for k, v in parts.items()}"
    results = job({"train.py": LOGS_EACH_STEP.format(step="wandb.run.step + 1", more=more)}).scan("GPU305")
    assert not any("remove" in result.fix.description for result in results if isinstance(result.fix, Fix))


@pytest.mark.parametrize(
    ("lines", "description"),
    [(5, "wrap the loop in `with torch.no_grad():`"), (45, "decorate 'main' with `@torch.no_grad()`")],
)
def test_a_program_is_decorated_where_a_block_would_be_long(job: MakeJob, lines: int, description: str) -> None:
    before = "".join(f"    print({number})\n" for number in range(100))
    inside = "".join(f"        print({number})\n" for number in range(lines))
    program = f"import torch\n\ndef main(model, loader):\n{before}    model.eval()\n    for images, labels in loader:\n"
    program += f"        scores = model(images.cuda())\n        print(scores.argmax(1).tolist())\n{inside}"
    offer = job({"test.py": f"{program}\nmain(torch.load('model.pt'), loader)\n"}).offer("GPU203")
    assert (offer.description, offer.safety) == (description, Safety.UNSAFE)


SHOWN_IN_BAR = """\
import torch
from tqdm import tqdm

def train(model, loader, show):
    bar = {bar}
    for {target} in bar:
        loss = criterion(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        bar.set_postfix(loss=loss.item())
"""


@pytest.mark.parametrize(
    ("target", "numbered"),
    [
        ("images, labels", "step, (images, labels)"),
        ("(images, labels)", "step, (images, labels)"),
        ("(images, others), labels", "step, ((images, others), labels)"),
        ("images, (labels, others)", "step, (images, (labels, others))"),
        ("(images, others), (labels, names)", "step, ((images, others), (labels, names))"),
        ("[images, others], labels", "step, ([images, others], labels)"),
        ("images,", "step, (images,)"),
        ("(images), labels", "step, ((images), labels)"),
        ("images", "step, images"),
    ],
)
def test_a_step_number_stands_before_what_a_round_gets(job: MakeJob, target: str, numbered: str) -> None:
    made = job({"train.py": SHOWN_IN_BAR.format(bar="tqdm(loader)", target=target)})
    assert made.repair("GPU305") == 1
    assert f"    for {numbered} in enumerate(bar):\n" in made.text("train.py")
    assert "        if step % 50 == 0:\n            bar.set_postfix(loss=loss.item())" in made.text("train.py")


@pytest.mark.parametrize(
    "bar",
    [
        "tqdm(enumerate(loader), total=len(loader)) if show else enumerate(loader)",
        "enumerate(loader) if not show else tqdm(enumerate(loader))",
        "tqdm(enumerate(loader))",
    ],
)
def test_a_bar_that_is_numbered_already_keeps_its_number(job: MakeJob, bar: str) -> None:
    program = SHOWN_IN_BAR.format(bar=bar, target="it, (images, labels)")
    made = job({"train.py": program})
    assert made.repair("GPU305") == 1
    assert "    for it, (images, labels) in bar:\n" in made.text("train.py")
    assert "        if it % 50 == 0:\n            bar.set_postfix(loss=loss.item())" in made.text("train.py")


WAITS_FOR_ALL = """\
import torch

def train(model, loader, average):
    for step, (images, labels) in enumerate(loader):
        loss = criterion(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
{wait}
        average.update(step)
"""


@pytest.mark.parametrize(
    "wait",
    [
        "        # \u540c\u6b65cuda \u7528\u4e8e\u8ba1\u65f6\n        torch.cuda.synchronize()",
        "        torch.cuda.synchronize()  # for accurate timing",
        "        # measure how long a step takes\n        torch.cuda.synchronize()",
        "        # otherwise the copies overtake the step\n        torch.cuda.synchronize()",
        "        # time of a step\n        if torch.cuda.is_available():\n            torch.cuda.synchronize()",
    ],
)
def test_a_wait_for_all_work_stays_where_a_comment_says_what_for(job: MakeJob, wait: str) -> None:
    assert "a comment says" in job({"train.py": WAITS_FOR_ALL.format(wait=wait)}).refusal("GPU305")


@pytest.mark.parametrize(
    "wait",
    [
        "        torch.cuda.synchronize()",
        "        torch.cuda.synchronize()  # sync",
        "        # wait for the GPU\n        torch.cuda.synchronize()",
        "        # synchronize CUDA\n        if torch.cuda.is_available():\n            torch.cuda.synchronize()",
    ],
)
def test_a_comment_that_says_what_a_removed_wait_does_goes_with_it(job: MakeJob, wait: str) -> None:
    made = job({"train.py": WAITS_FOR_ALL.format(wait=wait)})
    assert made.repair("GPU305") == 1
    assert made.text("train.py") == WAITS_FOR_ALL.replace("{wait}\n", "")


def test_a_comment_on_other_lines_stays_where_a_wait_is_removed(job: MakeJob) -> None:
    made = job({"train.py": WAITS_FOR_ALL.format(wait="        # the bar\n        torch.cuda.synchronize()")})
    assert made.repair("GPU305") == 1
    assert made.text("train.py") == WAITS_FOR_ALL.format(wait="        # the bar")


RAISED_ABOVE = """\
import torch
from tqdm import tqdm

def train(model, loader, epochs):
    {first}
    for epoch in range(epochs):
        {anew}
        bar = tqdm(loader)
        for {target} in {batches}:
            loss = criterion(model(images.cuda()), labels.cuda())
            loss.backward()
            optimizer.step()
            steps += 1
            bar.set_postfix(loss=loss.item(), mean=epoch / steps)
"""


@pytest.mark.parametrize(
    ("first", "anew", "target", "batches", "test"),
    [
        ("seen = 0", "steps = 0", "i, (images, labels)", "enumerate(bar)", "i % 50 == 0"),
        ("steps = 0", "seen = 0", "i, (images, labels)", "enumerate(bar)", "i % 50 == 0"),
        ("seen = 0", "steps = 0", "images, labels", "bar", "steps % 50 == 1"),
        ("steps = 0", "seen = 0", "images, labels", "bar", "step % 50 == 0"),
    ],
)
def test_an_epoch_of_few_steps_shows_its_first_one(
    job: MakeJob, first: str, anew: str, target: str, batches: str, test: str
) -> None:
    made = job({"train.py": RAISED_ABOVE.format(first=first, anew=anew, target=target, batches=batches)})
    assert made.repair("GPU305") == 1
    assert f"            if {test}:\n                bar.set_postfix(" in made.text("train.py")
