"""Where a repair is offered as unsafe, or not at all, because of the code around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Safety

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
    assert "forks processes" in job({"train.py": FORKING.format(module=module)}).refusal("GPU301")


COLLATED = """\
from torch.utils.data import DataLoader

data = [1.0, 2.0]
loader = DataLoader(data, collate_fn=collate, pin_memory=True)
for {target} in enumerate(loader):
    loss = model(**batch.to("cuda"))
    loss.backward()
"""


@pytest.mark.parametrize(
    ("target", "safety"), [("step, batch", Safety.UNSAFE), ("step, (batch, weights)", Safety.SAFE)]
)
def test_a_whole_batch_from_a_collate_function_may_be_no_tensor(job: MakeJob, target: str, safety: Safety) -> None:
    assert job({"train.py": COLLATED.format(target=target)}).offer("GPU302").safety is safety
    unpinned = COLLATED.format(target=target).replace(", pin_memory=True", "")
    assert job({"train.py": unpinned}).offer("GPU301").safety is safety


MADE_BY = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
loader = DataLoader({data})
for batch in loader:
    model(batch.to(device)).backward()
"""


@pytest.mark.parametrize(
    ("data", "safety"),
    [
        ("TensorDataset(torch.randn(8, 2))", Safety.SAFE),
        ("TensorDataset(samples)", Safety.UNSAFE),
        ("registry[name](options)", Safety.UNSAFE),
    ],
)
def test_pinning_is_safe_where_the_samples_are_on_the_host(job: MakeJob, data: str, safety: Safety) -> None:
    assert job({"train.py": MADE_BY.format(data=data)}).offer("GPU301").safety is safety


def test_a_data_set_that_gets_a_device_is_not_pinned(job: MakeJob) -> None:
    assert "a device is passed" in job({"train.py": MADE_BY.format(data="registry[name](options, device)")}).refusal(
        "GPU301"
    )


LOADING = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
{before}
    loader = DataLoader(ImageFolder("train"), batch_size=64, pin_memory=True)
    for images, labels in loader:
        model(images.cuda(non_blocking=True)).backward()
"""


@pytest.mark.parametrize(
    ("before", "said"), [("def main():", False), ('if __name__ == "__main__":', False), ("with log():", True)]
)
def test_workers_of_a_script_without_main_guard_say_what_they_need(job: MakeJob, before: str, said: bool) -> None:
    fix = job({"train.py": LOADING.format(before=before)}).offer("GPU303")
    assert ("__main__" in fix.description) is said


@pytest.mark.parametrize(("comment", "safety"), [("", Safety.SAFE), ("# find the hang\n", Safety.UNSAFE)])
def test_a_comment_goes_along_only_if_asked(job: MakeJob, comment: str, safety: Safety) -> None:
    switch = f'import os\n\n{comment}os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n'
    files = {"train.py": switch, "run.sh": "#SBATCH --gres=gpu:1\npython train.py\n"}
    assert job(files).offer("GPU414").safety is safety


SPARSE = """\
import torch
import torch_geometric.transforms as T
from torch_geometric.loader import DataLoader

dataset = OGBG("ogbg-molhiv", pre_transform=T.ToSparseTensor())
loader = DataLoader(dataset, batch_size=32, shuffle=True)
for data in loader:
    loss = model(data.to("cuda"))
    loss.backward()
"""


def test_batches_that_may_hold_sparse_tensors_are_not_pinned(job: MakeJob) -> None:
    assert "sparse" in job({"train.py": SPARSE}).refusal("GPU301")


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


JSRUN = """\
#BSUB -nnodes 1
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5
jsrun -n 1 --tasks_per_rs 1 --cpu_per_rs 42 --gpu_per_rs 1 python3 train.py
"""


def test_tasks_of_one_resource_set_are_not_multiplied(job: MakeJob) -> None:
    training = "for batch in loader:\n    model(batch.cuda()).backward()\n"
    assert "share the GPUs" in job({"job.sh": JSRUN, "train.py": f"import torch\n{training}"}).refusal("GPU103")


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


MOVED = """\
import torch
from torch.utils.data import DataLoader


def to_device(batch, device):
    if isinstance(batch, dict):
        return {{key: to_device(value, device) for key, value in batch.items()}}
    return batch.to(device)


def train(model, data):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(data, pin_memory=True)
    for images, labels in loader:
        model(to_device(images, device)).backward()


def predict(model, images{default}):
    return to_device(model(images), {device}).numpy()
"""


@pytest.mark.parametrize(
    ("default", "device"), [("", '"cpu"'), ("", 'torch.device("cpu")'), (', device="cpu"', "device")]
)
def test_a_helper_that_also_brings_results_back_keeps_waiting(job: MakeJob, default: str, device: str) -> None:
    made = job({"train.py": MOVED.format(default=default, device=device)})
    assert "read too early" in made.refusal("GPU302")


def test_a_helper_that_only_moves_batches_does_not_wait(job: MakeJob) -> None:
    made = job({"train.py": MOVED.format(default="", device='"cpu"').partition("\n\ndef predict")[0]})
    assert made.offer("GPU302").safety is Safety.SAFE


PASSED_ON = """\
from torch.utils.data import DataLoader


def cuda(batch, *args, **kwargs):
    return batch.cuda({passed})


for images, labels in DataLoader(data, pin_memory=True):
    model(cuda(images, memory_format=layout)).backward()
"""


@pytest.mark.parametrize("passed", ["*args", "**kwargs"])
def test_options_that_callers_pass_are_not_passed_twice(job: MakeJob, passed: str) -> None:
    assert "callers' options" in job({"train.py": PASSED_ON.format(passed=passed)}).refusal("GPU302")


NESTED = """\
from torch.utils.data import DataLoader


class NestedTensor:
    def to(self, device{more}):
        return NestedTensor(self.tensors.to(device), self.mask.to(device))


def collate(samples):
    return NestedTensor(samples), [sample.label for sample in samples]


for samples, targets in DataLoader(data, collate_fn=collate, pin_memory=True):
    model(samples.to("cuda")).backward()
"""


def test_a_class_of_the_program_may_not_know_the_option(job: MakeJob) -> None:
    assert "takes no `non_blocking`" in job({"train.py": NESTED.format(more="")}).refusal("GPU302")
    assert job({"train.py": NESTED.format(more=", **options")}).offer("GPU302").safety is Safety.SAFE


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
# {comment}
import os
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch

loss.backward()
"""


def test_gpus_hidden_with_a_reason_stay_hidden(job: MakeJob) -> None:
    assert "intentional" in job({"train.py": HIDDEN.format(comment="Do not take the GPUs: slower here.")}).refusal(
        "GPU411"
    )
    assert job({"train.py": HIDDEN.format(comment="Which GPU to use.")}).offer("GPU411").safety is Safety.UNSAFE


GPU_OPTION = """\
import argparse
import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--use_cuda", type=bool, default={default})
args = parser.parse_args()
for images in DataLoader(data):
    if args.use_cuda:
        images = images.cuda()
    model(images).backward()
"""


@pytest.mark.parametrize(("default", "pinned"), [(True, "args.use_cuda"), (False, "True")])
def test_an_option_that_is_off_by_default_does_not_say_what_is_pinned(job: MakeJob, default: bool, pinned: str) -> None:
    made = job({"train.py": GPU_OPTION.format(default=default)})
    assert made.repair("GPU301") == 1
    assert f"DataLoader(data, pin_memory={pinned})" in made.text("train.py")


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


MADE = """\
import torch

for images in loader:
    steps = torch.{made}.to("cuda")
    model(images.cuda(), steps).backward()
"""


@pytest.mark.parametrize(("made", "safety"), [("zeros(8)", Safety.SAFE), ("linspace(0, 1, 8)", Safety.UNSAFE)])
def test_what_a_gpu_computes_may_be_rounded_otherwise(job: MakeJob, made: str, safety: Safety) -> None:
    assert job({"train.py": MADE.format(made=made)}).offer("GPU306").safety is safety


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


ARRAYS = """\
import torch
from torch.utils.data import DataLoader

for images, labels in DataLoader(data, batch_size=256, collate_fn=stack_arrays, num_workers=4):
    images = torch.from_numpy(images).to("cuda")
    model(images).backward()
"""


def test_tensors_of_arrays_have_to_be_pinned_first(job: MakeJob) -> None:
    assert "pinned memory" in job({"train.py": ARRAYS}).refusal("GPU302")


def test_what_to_wait_for_beside_a_server_is_not_chosen(job: MakeJob) -> None:
    script = "#!/bin/bash\n#SBATCH --gres=gpu:4\nvllm serve org/model &\npython train.py &\nwait\n"
    assert "only you know" in job({"run.sh": script}).refusal("GPU105")


def test_pinning_that_a_configuration_switches_off_is_left_to_it(job: MakeJob) -> None:
    config = "lr: 0.1\nepochs: 3\npin_memory: false\n"
    program = "from torch.utils.data import DataLoader\nloader = DataLoader(data, pin_memory=config.pin_memory)\n"
    assert "created elsewhere" in job({"train.yaml": config, "train.py": program}).refusal("GPU301")


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


def test_a_debugger_for_a_case_that_must_not_happen_stays(job: MakeJob) -> None:
    assert "raise an error" in job({"train.py": TRAP}).refusal("GPU102")


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
