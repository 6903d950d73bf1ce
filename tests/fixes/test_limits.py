"""What fixes leave alone because of the releases that a program is installed with, or of what stays beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

TABLES = """\
import torch


def train(model, criterion, optimizer, scaler, train_loader):
    for images in train_loader:
        losses = criterion(model(images.cuda(non_blocking=True)))
        {before}
        scaler.scale(losses["total"]).backward()
        {step}
        shown = {{k: v.item() for k, v in losses.items()}}
        if max(shown.values()) > 100:
            raise ValueError(shown)
"""
LOADER = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(Images("data"), batch_size=64, num_workers=4, pin_memory=True)
model = model.cuda()
for epoch in range(90):
    for x, y in loader:
        loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
"""
OWN_BATCH = """\
import argparse
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--eval_batch_size", type=int, default=64)
args = parser.parse_args()
train_loader = DataLoader(train_set, batch_size=args.batch_size)
val_loader = DataLoader(val_set, batch_size=args.eval_batch_size)
for images, labels in train_loader:
    model(images.cuda()).backward()
validate(model, val_loader)
"""
CASES = {
    "a scaler of gradients waits beside a table": (
        "GPU305",
        {"train.py": TABLES.format(before="pass", step="scaler.step(optimizer)")},
        "every step waits in line 9 as well",
    ),
    "the step needs a number of a mask beside a table": (
        "GPU305",
        {
            "train.py": TABLES.format(
                before='if "boxes" in losses:\n            model.limit(int(losses["boxes"].sum()))',
                step="optimizer.step()",
            )
        },
        "every step waits in line 8 as well",
    ),
    "requirements of an older PyTorch": (
        "GPU304",
        {"train.py": LOADER, "requirements.txt": "numpy\ntorch==1.3.0\n"},
        "`persistent_workers` needs torch 1.7, and the program is installed with `torch==1.3.0`",
    ),
    "an environment of an older PyTorch": (
        "GPU304",
        {"train.py": LOADER, "work.yml": "name: work\ndependencies:\n  - python=3.7\n  - pytorch=1.6.0=py3.7_cuda\n"},
        "the program is installed with `pytorch=1.6.0`",
    ),
    "a release of another library that needs an older PyTorch": (
        "GPU304",
        {"train.py": LOADER, "requirements.txt": "torchvision==0.4.1\ntorch\n"},
        "the program is installed with `torchvision==0.4.1`",
    ),
    "a container": (
        "GPU304",
        {"train.py": LOADER, "run.sh": '#!/bin/bash\ncreate --container "me/fastai:1.0-CUDA9.2" --command train.py\n'},
        "the program is installed with `fastai==1.0`",
    ),
    "a reason in the documentation": (
        "GPU303",
        {
            "train.py": LOADER.replace("num_workers=4", "num_workers=0"),
            "DOCUMENTATION.md": "| Problem | Answer |\n|---|---|\n| Shared memory full | `num_workers: 0` everywhere |\n",
        },
        "DOCUMENTATION.md:3 says why there are no workers",
    ),
    "a file that a part of a base of the data set opens": (
        "GPU303",
        {
            "train.py": """\
            import h5py
            import torch
            from torch.utils.data import DataLoader, Dataset, random_split


            class Store:
                def __init__(self, path):
                    self.file = h5py.File(path)
                    self.images = self.file["images"]

                def read(self, index):
                    return self.images[index]


            class Base(Dataset):
                def __init__(self, path):
                    self.store = Store(path)


            class Cases(Base):
                def __getitem__(self, index):
                    return prepared(self.store.read(index))

                def __len__(self):
                    return 9000


            train_set, val_set = random_split(Cases("cases.h5"), [8000, 1000])
            loader = DataLoader(train_set, batch_size=64)
            model = model.cuda()
            for epoch in range(90):
                for x, y in loader:
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
            """
        },
        "opens a file before its workers start",
    ),
    "samples that a model on the GPU has encoded": (
        "GPU303",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader


            def padded(samples):
                return {"image": torch.stack([crop(sample["image"]) for sample in samples])}


            def encoded(dataset, vae):
                found = []
                for index in range(len(dataset)):
                    sample = dataset[index]
                    latents = vae.encode(sample["image"].to(vae.device)).sample()
                    sample["image"] = latents.squeeze(0)
                    found.append(sample)
                return DataLoader(found, batch_size=4, collate_fn=padded)


            loader = encoded(images, vae)
            for epoch in range(90):
                for batch in loader:
                    loss = criterion(model(batch["image"].cuda()))
                    loss.backward()
                    optimizer.step()
            """
        },
        "forked workers cannot use a GPU",
    ),
    "pinning of samples that a model on the GPU has encoded": (
        "GPU301",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader


            def padded(samples):
                return {"image": torch.stack([crop(sample["image"]) for sample in samples])}


            def encoded(dataset, vae):
                found = []
                for index in range(len(dataset)):
                    sample = dataset[index]
                    latents = vae.encode(sample["image"].to(vae.device)).sample()
                    sample["image"] = latents.squeeze(0)
                    found.append(sample)
                return DataLoader(found, batch_size=4, num_workers=4)


            loader = encoded(images, vae)
            for epoch in range(90):
                for batch in loader:
                    loss = criterion(model(batch["image"].cuda()))
                    loss.backward()
                    optimizer.step()
            """
        },
        "which may be on the GPU already",
    ),
    "a bound below": (
        "GPU304",
        {"train.py": LOADER, "setup.py": 'setup(name="a", install_requires=["torch>=1.2,<1.7"])\n'},
        "the program is installed with `torch<1.7`",
    ),
    "a locked release": (
        "GPU304",
        {"train.py": LOADER, "poetry.lock": '[[package]]\nname = "torch"\nversion = "1.6.0"\n'},
        "the program is installed with `torch==1.6.0`",
    ),
    "an install line of the documentation": (
        "GPU304",
        {"train.py": LOADER, "README.md": "Install:\n\n    pip install torch==1.5.1 torchvision==0.6.1\n"},
        "the program is installed with `torch==1.5.1`",
    ),
}

CASES |= {
    "a setting that reaches a stream": (
        "GPU303",
        {
            "train.py": """\
            import torch
            from omegaconf import OmegaConf
            from torch.utils.data import DataLoader, IterableDataset

            cfg = OmegaConf.load("config.yaml")


            class Lines(IterableDataset):
                def __iter__(self):
                    for line in open("lines.txt"):
                        yield parse(line)


            loader = DataLoader(Lines(), batch_size=64, num_workers=cfg.num_workers)
            model = model.cuda()
            for epoch in range(90):
                for x, y in loader:
                    loss = criterion(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
            """,
            "config.yaml": "lr: 0.1\nnum_workers: 0\n",
        },
        "a stream, all of which each of several workers would yield",
    ),
    "tests of a debugger that are all of a loop": (
        "GPU102",
        {
            "train.py": """\
            import pdb

            import torch

            for x, y in train_loader:
                losses = criterion(model(x.cuda()), y.cuda())
                for value in losses.values():
                    if torch.isnan(value).sum() > 0:
                        pdb.set_trace()
                    if torch.isinf(value).sum() > 0:
                        pdb.set_trace()
                losses["total"].backward()
                optimizer.step()
            """,
            "job.sh": "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n",
        },
        "raise an error for the case that it waits for",
    ),
    "samples that a program without training computes one by one": (
        "GPU202",
        {
            "generate.py": """\
            import pandas as pd
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

            df = pd.read_csv("terms.csv")
            tokenizer = AutoTokenizer.from_pretrained("/models/llama")
            model = AutoModelForCausalLM.from_pretrained("/models/llama").to("cuda")
            generator = pipeline("text-generation", model=model, tokenizer=tokenizer, max_new_tokens=40)
            rows = []
            for index, row in df.iterrows():
                text = generator(f"Explain {row['term']}.", temperature=0.8)[0]["generated_text"]
                rows.append({"term": row["term"], "text": text})
            """
        },
        "putting them into batches is your decision",
    ),
    "batches of a class without `pin_memory`": (
        "GPU301",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader


            class Padded:
                def __init__(self, images, mask):
                    self.images, self.mask = images, mask

                def to(self, device, non_blocking=False):
                    images = self.images.to(device, non_blocking=non_blocking)
                    return Padded(images, self.mask.to(device, non_blocking=non_blocking))


            def padded(images):
                return Padded(torch.stack(images), torch.ones(len(images)))


            def collate(samples):
                return padded([image for image, _ in samples]), [target for _, target in samples]


            device = torch.device("cuda")
            loader = DataLoader(Images("data"), batch_size=64, num_workers=4, collate_fn=collate)
            for images, targets in loader:
                images = images.to(device)
                targets = [target.to(device) for target in targets]
                loss = model(images, targets)
                loss.backward()
                optimizer.step()
            """
        },
        "objects of `Padded`, which has no method `pin_memory`",
    ),
}

CASES |= {
    "a comment behind that gives the reason for a switch": (
        "GPU414",
        {
            "actors.py": """\
            import torch


            class ExpActor(Actor):
                def __init__(self, space):
                    torch.autograd.set_detect_anomaly(
                        True
                    )  # the exponential is currently causing NaNs
                    super().__init__(space)

                def learn(self, loader):
                    for x in loader:
                        self.network(x.cuda()).sum().backward()
            """
        },
        "the comment beside it says why it is on",
    ),
    "a comment above that gives the reason for a switch": (
        "GPU414",
        {
            "train.py": """\
            import torch

            # Debug mode, because the loss becomes NaN
            # with long inputs.
            torch.autograd.set_detect_anomaly(True)
            for x in loader:
                model(x.cuda()).sum().backward()
            """
        },
        "the comment beside it says why it is on",
    ),
    "a job file that a script writes": (
        "GPU106",
        {
            "slurm/jobs/check_511_2022_09_28_05_17_AM.job.sh": """\
            #!/bin/bash
            #SBATCH --gres=gpu:1
            tar xzf data.tar.gz
            """,
            "run_check.sh": """\
            #!/bin/bash
            job_file="slurm/jobs/check_${task}_$(date +"%Y_%m_%d_%I_%M_%p").job.sh"
            echo "#!/bin/bash
            #SBATCH --gres=gpu:1
            tar xzf data.tar.gz
            " > $job_file
            sbatch $job_file
            """,
        },
        "run_check.sh writes this file; request no GPUs there",
    ),
    "a job file that somebody else's script wrote": (
        "GPU106",
        {
            "check_20221114170359.sh": """\
            #!/bin/bash
            #SBATCH --gres=gpu:1
            tar xzf data.tar.gz
            """
        },
        "a script wrote this file at the time in its name",
    ),
    "a program that computes on the CPU": (
        "GPU202",
        {
            "results.py": """\
            import torch
            from torch.utils.data import DataLoader

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            training_loader = DataLoader(training_set, batch_size=4, shuffle=True)
            validation_loader = DataLoader(validation_set, batch_size=4)
            for epoch in range(9):
                for x, y in training_loader:
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
                for x, y in validation_loader:
                    print(criterion(model(x), y))
            """
        },
        "nothing in the program moves the model or its batches to a GPU",
    ),
    "a size of evaluation that the launcher states": (
        "GPU202",
        {
            "train.py": OWN_BATCH,
            "train.sh": "#!/bin/bash\npython train.py --batch_size 64 --eval_batch_size 32\n",
        },
        "the launcher states how many samples",
    ),
    "a program that measures": (
        "GPU302",
        {
            "vram_profiler.py": """\
            import time

            import torch
            from torch.utils.data import DataLoader

            loader = DataLoader(Images("data"), batch_size=64, num_workers=4, pin_memory=True)
            for images, targets in loader:
                torch.cuda.synchronize()
                started = time.perf_counter()
                loss = criterion(model(images.cuda()), targets.cuda())
                loss.backward()
                torch.cuda.synchronize()
                print(time.perf_counter() - started)
            """
        },
        "the program measures",
    ),
    "a loader for explanations of some samples": (
        "GPU301",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader


            def run_xai(model):
                loader = DataLoader(Images("data"), batch_size=1, num_workers=2)
                for images, targets in loader:
                    save(explain(model, images.cuda()))


            def train(model, optimizer):
                for images, targets in DataLoader(Images("data"), batch_size=8, num_workers=2, pin_memory=True):
                    criterion(model(images.cuda(non_blocking=True)), targets.cuda(non_blocking=True)).backward()
                    optimizer.step()
            """
        },
        "a look at a few samples",
    ),
    "one read beside several steps": (
        "GPU305",
        {
            "train.py": """\
            import torch
            from tqdm import trange


            def train(net, outer, loaders, optimizer, inner_optimizer, criterion):
                progress = trange(1000)
                for step in progress:
                    with torch.no_grad():
                        x, y = next(iter(loaders[step % 8]))
                        known = (net(x.cuda()).argmax(1) == y.cuda()).sum().item() / len(y)
                    for _ in range(50):
                        x, y = next(iter(loaders[step % 8]))
                        loss = criterion(net(x.cuda()), y.cuda())
                        loss.backward()
                        inner_optimizer.step()
                    outer(net).backward()
                    optimizer.step()
                    progress.set_description(f"{known:.4f}")
            """
        },
        "each round trains for several steps",
    ),
    "a tensor whose elements the host compares": (
        "GPU306",
        {
            "train.py": """\
            import torch

            device = torch.device("cuda")
            for x in loader:
                largest = torch.zeros(64, 1).to(device)
                for _ in range(8):
                    losses = criterion(model(x.to(device)))
                    for i in range(64):
                        if losses[i] > largest[i]:
                            largest[i] = losses[i]
                largest.sum().backward()
                optimizer.step()
            """
        },
        "the host compares its elements one by one",
    ),
    "loaders that are each read once": (
        "GPU303",
        {
            "features.py": """\
            import torch
            from PIL import Image
            from torch.utils.data import DataLoader, Dataset


            class Images(Dataset):
                def __init__(self, paths):
                    self.paths = paths

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return transform(Image.open(self.paths[index]).convert("RGB"))


            loaders = {}
            for name, paths in sets.items():
                loaders[name] = DataLoader(Images(paths), batch_size=128)
            model = model.cuda()
            for name, loader in loaders.items():
                with torch.no_grad():
                    for x in loader:
                        features[name].append(model(x.cuda()).cpu().numpy())
            """
        },
        "reads each of many loaders once",
    ),
    "an image without CUDA": (
        "GPU411",
        {
            "src/train.py": """\
            import os

            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

            import tensorflow as tf

            model.fit(data)
            """,
            "Dockerfile": "FROM tensorflow/tensorflow\nCOPY src /src\n",
        },
        "built from `tensorflow/tensorflow`, which has no CUDA",
    ),
    "zero in the place of a model that is not there": (
        "GPU306",
        {
            "train.py": """\
            import torch

            magface = load("magface") if available("magface") else None
            device = torch.device("cuda")
            for x in loader:
                x = x.to(device)
                magnitude = magface(x) if magface else torch.tensor(0.0).to(device)
                loss = model(x) + magnitude
                loss.backward()
                optimizer.step()
            """
        },
        "it only stands in for what a model that is not there would compute",
    ),
}


CASES |= {
    "gloo in a program that is on the CPU unless told otherwise": (
        "GPU355",
        {
            "train.py": """\
            import argparse

            import torch
            import torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel

            parser = argparse.ArgumentParser()
            parser.add_argument("--gpu", action="store_true")
            args = parser.parse_args()
            dist.init_process_group(backend="gloo")
            model = torch.nn.Linear(8, 8)
            if args.gpu:
                model = model.cuda()
            model = DistributedDataParallel(model)
            for x in loader:
                if args.gpu:
                    x = x.cuda()
                model(x).mean().backward()
                optimizer.step()
            """
        },
        "only uses a GPU with an option that is off by default",
    ),
    "a sum of mean losses that a scheduler gets": (
        "GPU202",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader


            def run(train, val_dataset, model, batch_size=32):
                loader = DataLoader(train, batch_size=batch_size)
                val_loader = DataLoader(val_dataset, batch_size=batch_size)
                for epoch in range(9):
                    for x, y in loader:
                        criterion(model(x.to("cuda")), y.to("cuda")).backward()
                        optimizer.step()
                    val_loss = 0.0
                    with torch.no_grad():
                        for x, y in val_loader:
                            loss = criterion(model(x.cuda()), y.cuda())
                            val_loss += loss.item()
                    scheduler.step(val_loss)
                    val_loss /= len(val_loader)
            """
        },
        "`val_loss` sums batch means and decides how training goes on",
    ),
    "a layer that the model does not use": (
        "GPU351",
        {
            "nets.py": """\
            import torch
            from torch import nn


            class Autoencoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.Linear(8, 8)
                    self.positions = nn.Parameter(torch.zeros(8), requires_grad=False)
                    self.mask_token = nn.Parameter(torch.zeros(8))
                    nn.init.normal_(self.mask_token)

                def forward(self, x):
                    return self.encoded(x)

                def encoded(self, x):
                    return self.encoder(x)


            def small(**kwargs):
                return Autoencoder(**kwargs)
            """,
            "train.py": """\
            import nets
            from torch.nn.parallel import DistributedDataParallel

            model = nets.__dict__[args.model](norm=args.norm).cuda()
            model = DistributedDataParallel(model, find_unused_parameters=True)
            for x in loader:
                model(x.cuda()).mean().backward()
            """,
        },
        "`forward` never reads `Autoencoder.mask_token`",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_break_or_gain_nothing_is_left_alone(job: MakeJob, case: str) -> None:
    check_declined(job, *CASES[case])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "torch==1.10.0\n"),
        ("requirements.txt", "torch>=1.3\n"),
        ("requirements.txt", "torchvision==0.9.0\ntorch\n"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^1.3"\n'),
        ("environment.yml", "dependencies:\n  - pytorch::pytorch=1.8\n"),
        ("README.md", "Tested with torch 1.3.\n"),
    ],
)
def test_releases_that_have_it(job: MakeJob, name: str, text: str) -> None:
    assert job({"train.py": LOADER, name: text}).offer("GPU304").changes


def test_two_statements_of_a_line_stay_on_it(job: MakeJob) -> None:
    files = {
        "train.py": """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
train_loader = DataLoader(Images("data"), batch_size=64, num_workers=4, pin_memory=True)
for images, labels in train_loader:
    images = images.to(device).float().contiguous().mul(255.0); labels = labels.to(device).long()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
"""
    }
    made = job(files)
    assert made.repair("GPU302")
    (line,) = [line for line in made.text("train.py").splitlines() if "images.to" in line]
    assert line.count("non_blocking=True") == 2


def test_code_with_rests_of_old_releases_gets_no_grad(job: MakeJob) -> None:
    files = {
        "evaluate.py": """\
import torch
from torch.autograd import Variable


def old(x):
    return Variable(x, volatile=True)


def validate(model, loader):
    model.eval()
    seen = []
    for x, y in loader:
        x = Variable(x.cuda(non_blocking=True))
        seen.append(model(x).argmax(1).cpu())
    return torch.cat(seen)


model = torch.load("model.pt").cuda()
print(validate(model, loader))
"""
    }
    assert "no_grad" in str(job(files).offer("GPU203"))


def test_a_model_that_is_wrapped_where_there_are_several_processes(job: MakeJob) -> None:
    files = {
        "train.py": """\
import torch
from torch.nn.parallel import DistributedDataParallel

import models


def main(args):
    torch.distributed.init_process_group("nccl")
    model = models.build(args).cuda()
    if args.distributed:
        model = DistributedDataParallel(model, device_ids=[args.gpu])
    for step, (x, y) in enumerate(train_loader):
        loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)) / 4
        loss.backward()
        if (step + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
        "models.py": "import torch\n\n\ndef build(args):\n    return torch.nn.Linear(args.size, 2)\n",
    }
    fix = job(files).offer("GPU353")
    assert any(edit.text.strip() == "model.require_backward_grad_sync = (step + 1) % 4 == 0" for edit in fix.edits)


def test_a_model_that_uses_all_layers_needs_no_search(job: MakeJob) -> None:
    (_, files, _) = CASES["a layer that the model does not use"]
    used = files["nets.py"].replace("return self.encoder(x)", "return self.encoder(x) + self.mask_token")
    assert job({**files, "nets.py": used}).offer("GPU351").changes


def test_workers_do_not_stay_alive_where_an_older_release_is_allowed(job: MakeJob) -> None:
    program = LOADER.replace(", num_workers=4", "")
    texts = {
        bound: [
            edit.text for edit in job({"train.py": program, "requirements.txt": f"{bound}\n"}).offer("GPU303").edits
        ]
        for bound in ("torch>=1.0.0", "torch>=1.7", "torch")
    }
    assert all("num_workers=4" in text for (text,) in texts.values())
    assert [bound for bound, (text,) in texts.items() if "persistent_workers" in text] == ["torch>=1.7", "torch"]


def test_advice_for_other_machines_is_no_reason(job: MakeJob) -> None:
    files = {"train.py": LOADER.replace(", num_workers=4", ""), "README.md": "If it hangs, use `num_workers=0`.\n"}
    assert job(files).offer("GPU303").changes


def test_a_line_is_put_above_the_comment_of_the_next_one(job: MakeJob) -> None:
    made = job(
        {
            "train.py": """\
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(model, device_ids=[args.gpu])
for step, (x, y) in enumerate(train_loader):
    # a schedule by iterations
    # instead of epochs
    if step % 4 == 0:
        adjust(optimizer, step)
    loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)) / 4
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
        }
    )
    assert made.repair("GPU353")
    assert (
        "    model.require_backward_grad_sync = (step + 1) % 4 == 0\n    # a schedule by iterations\n"
        "    # instead of epochs\n    if step % 4 == 0:\n"
    ) in made.text("train.py")


def test_the_comment_behind_goes_with_the_line(job: MakeJob) -> None:
    made = job(
        {
            "train.py": """\
import torch

device = torch.device("cuda")
# all batches
for x in loader:
    x = x.to(device)
    beta = torch.tensor([1.0, 1.2]).to(device)  # the factors of the paper
    sigma = 0.05  # temperature
    loss = (model(x) * beta).sum() / sigma
    loss.backward()
    optimizer.step()
"""
        }
    )
    assert made.repair("GPU306")
    assert (
        "beta = torch.tensor([1.0, 1.2]).to(device)  # the factors of the paper\n# all batches\nfor x in loader:\n"
        "    x = x.to(device)\n    sigma = 0.05  # temperature\n"
    ) in made.text("train.py")


def test_a_mean_over_batches_that_a_scheduler_gets_stays_about_the_same(job: MakeJob) -> None:
    (_, files, _) = CASES["a sum of mean losses that a scheduler gets"]
    step, mean = "scheduler.step(val_loss)", "val_loss /= len(val_loader)"
    program = files["train.py"].replace(step, "").replace(mean, f"{mean}\n        {' ' * 12}{step}")
    assert job({"train.py": program}).offer("GPU202").changes


def test_equal_sums_of_a_loop_are_treated_alike(job: MakeJob) -> None:
    made = job(
        {
            "train.py": """\
import torch


def train(model, criterion, train_loader, optimizer):
    for epoch in range(90):
        run_a, run_b = 0.0, 0.0
        for step, (x, y) in enumerate(train_loader):
            loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            loss.backward()
            optimizer.step()
            run_a += loss.item(); run_b += loss.sqrt().item()
            if step % 50 == 0:
                print(f"{run_a / (step + 1):.4f}, {run_b / (step + 1):.4f}")
        print(run_a, run_b)
"""
        }
    )
    assert made.repair("GPU305")
    text = made.text("train.py")
    assert "float(" not in text.partition("if step % 50")[0]
    assert text.count("float(run_a)") == text.count("float(run_b)") == 1


@pytest.mark.parametrize("taken", ["samples.sample().cpu()", "samples.sample().squeeze(0).to('cpu')"])
def test_samples_that_come_back_to_the_host_get_workers(job: MakeJob, taken: str) -> None:
    (_, files, _) = CASES["samples that a model on the GPU has encoded"]
    program = files["train.py"].replace("latents.squeeze(0)", taken.replace("samples.sample()", "latents"))
    assert job({"train.py": program}).offer("GPU303").changes


def test_a_data_set_that_a_notebook_for_windows_defines_gets_no_workers(job: MakeJob) -> None:
    cells = [
        "import torch\nfrom PIL import Image\nfrom torch.utils.data import DataLoader, Dataset\nfrom torchvision.transforms import ToTensor",
        "class Images(Dataset):\n    def __init__(self, paths):\n        self.paths = paths\n\n"
        "    def __len__(self):\n        return 9000\n\n"
        "    def __getitem__(self, index):\n        return ToTensor()(Image.open(self.paths[index]))",
        "first = Image.open('data\\original\\Ian.jpg')\nloader = DataLoader(Images(paths), batch_size=64)",
        "model = model.cuda()\nfor epoch in range(90):\n    for x in loader:\n        loss = model(x.cuda()).mean()\n"
        "        loss.backward()\n        optimizer.step()",
    ]

    def notebook(texts: list[str]) -> str:
        parts = [
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text}
            for text in texts
        ]
        return json.dumps({"cells": parts, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})

    assert "the notebook defines `Images`" in job({"tune.ipynb": notebook(cells)}).refusal("GPU303")
    elsewhere = [text.replace("data\\original\\", "data/original/") for text in cells]
    assert job({"tune.ipynb": notebook(elsewhere)}).offer("GPU303").changes
