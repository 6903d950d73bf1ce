"""What findings tell to do is code in the program's own names where it can be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.finding import Finding
from gpulint.fix import Declined
from gpulint.project import Project
from gpulint.selection import select

LOADED = plugins.load()

CHECKPOINT = """\
import torch

for epoch in range(90):
    for images in train_loader:
        net(images.cuda()).backward()
        optimizer.step()
    torch.save(net.state_dict(), f"{out}/{epoch}.pt")
"""
IMAGES = """\
import torch
from PIL import Image


class Birds(torch.utils.data.Dataset):
    def __getitem__(self, at):
        name = self.files[at]
        photo = Image.open(name).convert("RGB").resize((224, 224))
        return photo, kind


for photos in torch.utils.data.DataLoader(Birds()):
    model(photos.cuda()).backward()
    optimizer.step()
"""
ACCUMULATION = """\
from torch.nn.parallel import DistributedDataParallel as DDP

net = DDP(net)
for index, batch in enumerate(loader):
    scaler.scale(net(batch)).backward()
    if (index + 1) % accumulate_steps == 0:
        scaler.step(optimizer)
"""
JAX_BESIDE = """\
import jax
import torch

jax.config.update("jax_platform_name", "cpu")
model = torch.nn.Linear(8, 8).cuda()
for batch in loader:
    loss = model(batch.cuda()).sum()
    loss.backward()
    optimizer.step()
    total += loss.item()
"""
HOST_TABLE = """\
import torch

for batch in loader:
    loss = net(batch.cuda()).sum()
    loss.backward()
    optimizer.step()
    labels = batch["labels"].cuda().cpu()[0]
    rows = table[labels]
"""
RECORDED = IMAGES.replace("return photo, kind", "return torch.tensor(to_array(photo)).requires_grad_()")
HUB = """\
from transformers import AutoModel

model = AutoModel.from_pretrained("org/large").cuda()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("code", "program", "parts"),
    [
        ("GPU211", CHECKPOINT, ["async_save({'model': net.state_dict()}, checkpoint_id=f'{out}/{epoch}.pt')"]),
        ("GPU311", IMAGES, ["def birds_pipeline():", "files=dataset.files", "['photo', 'kind']"]),
        ("GPU353", ACCUMULATION, ["if (index + 1) % accumulate_steps == 0 else net.no_sync():"]),
        ("GPU331", HUB, ["hf download org/large", "export HF_HUB_OFFLINE=1"]),
    ],
)
def test_help_speaks_of_the_program(tmp_path: Path, code: str, program: str, parts: list[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(program)
    project = Project(tmp_path, [path], Config(base=tmp_path))
    report = engine.run(project, [path], select(LOADED.rules, [code], (), ()))
    (advice,) = [result.finding.help for result in report.results]
    _, *snippet = advice.splitlines()
    assert snippet
    for part in parts:
        assert part.replace("'", '"') in advice.replace("'", '"')
    if code != "GPU331":
        ast.parse("\n".join(snippet))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("test.py", "import torch\n\nweights = torch.load('out/1.pt')\n"),
        ("requirements.txt", "torch==1.6.0\n"),
    ],
)
def test_no_writer_of_folders_where_files_are_read_or_pytorch_has_none(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "train.py").write_text(CHECKPOINT)
    (tmp_path / name).write_text(text)
    files = [tmp_path / "train.py", tmp_path / name]
    report = engine.run(
        Project(tmp_path, files, Config(base=tmp_path)), files[:1], select(LOADED.rules, ["GPU211"], (), ())
    )
    (advice,) = [result.finding.help for result in report.results]
    assert "background thread" in advice
    assert "async_save" not in advice


def test_no_writer_of_pytorch_for_keras(tmp_path: Path) -> None:
    text = """\
import tensorflow as tf

model.fit(rows, callbacks=[tf.keras.callbacks.ModelCheckpoint("/content/drive/MyDrive/unet.keras")])
"""
    (finding,) = found_in(tmp_path, "GPU211", text)
    assert "background thread" in finding.help
    assert "torch" not in finding.help


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return photo, kind", "return photo, Image.open(self.masks[at])"),
        ("return photo, kind", "return {'photo': photo, 'depth': kind}"),
        (".resize((224, 224))", ".rotate(random.uniform(-10, 10))"),
    ],
)
def test_no_pipeline_for_samples_that_it_would_not_make(tmp_path: Path, old: str, new: str) -> None:
    (finding,) = found_in(tmp_path, "GPU311", IMAGES.replace(old, new))
    assert "pipeline" not in finding.help


@pytest.mark.parametrize(
    ("call", "part"),
    [
        ('AutoModel.from_pretrained("org/net", revision="v2")', "hf download org/net --revision v2  #"),
        ('AutoModel.from_pretrained("org/net", revision=chosen)', "hf download org/net --revision <revision>  #"),
        ('AutoModel.from_pretrained("org/net", gguf_file="net.gguf")', "hf download org/net net.gguf  #"),
        ('hf_hub_download("org/net", "net.pt")', "hf download org/net net.pt  #"),
        ('AutoModel.from_pretrained("org/net", cache_dir="kept")', "hf download org/net --cache-dir kept  #"),
        ('AutoModel.from_pretrained("org/net", cache_dir=None)', "hf download org/net  #"),
        ('snapshot_download("org/rows", repo_type="dataset")', "hf download org/rows --repo-type dataset  #"),
        ('load_dataset("org/rows")', "load_dataset('org/rows')\"  #"),
        ('load_dataset("org/rows", "fr")', "load_dataset('org/rows', 'fr')\"  #"),
        ('load_dataset("org/rows", chosen)', "load_dataset('org/rows', ...)\"  #"),
        ('FastModel.from_pretrained("org/net-7b")', "pass the name of the copy"),
    ],
)
def test_help_fetches_what_the_program_loads(tmp_path: Path, call: str, part: str) -> None:
    """``hf download`` prepares nothing for ``load_dataset``, which finds only its own cache in offline mode."""
    path = tmp_path / "train.py"
    heads = ["datasets import load_dataset", "huggingface_hub import hf_hub_download, snapshot_download"]
    heads += ["transformers import AutoModel", "unsloth import FastModel"]
    path.write_text("".join(f"from {head}\n" for head in heads) + f"loaded = {call}\nmodel.cuda()(1).backward()\n")
    project = Project(tmp_path, [path], Config(base=tmp_path))
    (found,) = engine.run(project, [path], select(LOADED.rules, ["GPU331"], (), ())).results
    assert part in found.finding.help


@pytest.mark.parametrize(
    ("head", "line", "expected"),
    [
        ("#SBATCH --gres=gpu:2", "pip install torch", "before the job, in an environment that it activates, or build"),
        ("#SBATCH --gres=gpu:2", "pip install $WHEELS/torch.whl", "build an image once that has them"),
        ("#SBATCH --gres=gpu:2", "pip install /sw/torch.whl", "build an image once that has them"),
        (
            "#SBATCH --gres=gpu:2",
            "apptainer exec --nv jax.sif bash -c 'curl -LsSf https://astral.sh/uv/install.sh | sh'",
            "once with `curl -LsSf https://astral.sh/uv/install.sh | sh` in the `%post` section of its definition file",
        ),
        (
            "#SBATCH --container-image=a/b --gres=gpu:2",
            "wget -qO- https://example.com/install.sh | bash -s -- -y",
            "`RUN wget -qO- https://example.com/install.sh | bash -s -- -y` in its Dockerfile",
        ),
        (
            "#SBATCH --gres=gpu:2",
            "time enroot import -o /tmp/a.sqsh docker://a/b",
            "make the image once before the job",
        ),
        (
            "#SBATCH --container-image=a/b --gres=gpu:2",
            "pip install torch",
            "build an image once with `RUN pip install",
        ),
    ],
)
def test_help_for_an_installation_fits_where_the_job_runs(tmp_path: Path, head: str, line: str, expected: str) -> None:
    path = tmp_path / "job.sh"
    path.write_text(f"#!/bin/bash\n{head}\n{line}\npython train.py\n")
    project = Project(tmp_path, [path], Config(base=tmp_path))
    (found,) = engine.run(project, [path], select(LOADED.rules, ["GPU401"], (), ())).results
    assert expected in found.finding.help


MOVING_COLLATE = """\
import torch
from transformers import AutoProcessor, Trainer, TrainingArguments

device = torch.device("cuda")
processor = AutoProcessor.from_pretrained("owls/captions")


def collate(examples):
    images = [example["image"].convert("RGB") for example in examples]
    return processor(images=images, return_tensors="pt"){}


args = TrainingArguments("out")
Trainer(model.to(device), args, train_dataset=owls, data_collator=collate).train()
"""


@pytest.mark.parametrize(
    ("move", "advice"),
    [
        (".to(device)", "remove `.to(...)` of `collate`, as the trainer moves the batches, then set `dataloader_num_"),
        (".to(torch.bfloat16)", "set `dataloader_num_workers=`"),
    ],
)
def test_workers_of_a_trainer_come_after_the_move_that_they_cannot_make(tmp_path: Path, move: str, advice: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(MOVING_COLLATE.format(move))
    project = Project(tmp_path, [path], Config(base=tmp_path))
    (found,) = engine.run(project, [path], select(LOADED.rules, ["GPU303"], (), ()), fixers=LOADED.fixers).results
    assert found.finding.help.startswith(advice)
    assert isinstance(found.fix, Declined) is (move == ".to(device)")


STORED = """\
import torch


def step(batch):
    loss = net(batch["images"].cuda(non_blocking=True)).sum()
    loss.backward()
    optimizer.step()
    metrics = {"loss": loss.item(), "square": loss.square().item(), "half": (loss / 2).item()}
    return metrics


for batch in train_loader:
    metrics = step(batch)
    bar.set_postfix(metrics)
"""


@pytest.mark.parametrize("kept", ["history.append(metrics)", "history.append({'step': 1, **metrics})", "pass"])
def test_metrics_that_each_step_stores_are_copied_at_once(tmp_path: Path, kept: str) -> None:
    finding, *_ = found_in(tmp_path, "GPU305", f"{STORED}    {kept}\n")
    assert ("`torch.stack(values).tolist()`" in finding.help) is (kept != "pass")


LONG = """\
import torch

for batch in train_loader:
    loss = net(batch["images"].cuda(non_blocking=True)).sum()
    loss.backward()
    optimizer.step()
    kept.append({})
"""


@pytest.mark.parametrize(
    ("read", "shown"),
    [
        ("torch.where(loss.ge(0), torch.where(loss.ge(9), loss / 9, loss), loss).item()", "torch.where(...).item()"),
        ("((loss - loss.detach() / 1000) ** 2 + (loss.detach() - loss / 1000) ** 2).item()", "(...).item()"),
        (
            "loss.mul(torch.where(loss.ge(0), loss, loss / 9))[names['the first']].mean().item()",
            "loss.mul(...)[...].mean().item()",
        ),
        ("float(torch.where(loss.ge(0), torch.where(loss.ge(9), loss / 9, loss), loss))", "float(torch.where(...))"),
        ("loss.mul(factor).mean().item()", "loss.mul(factor).mean().item()"),
    ],
)
def test_long_expressions_are_shown_without_what_their_calls_get(tmp_path: Path, read: str, shown: str) -> None:
    """A message that ends within the arguments of a call does not tell what is read."""
    (finding,) = found_in(tmp_path, "GPU305", LONG.format(read))
    assert finding.message.startswith(f"'{shown}' makes the host wait")


MOVED = """\
import torch

device = torch.device("cuda")


def score(texts):
    return torch.tensor([float(len(text)) for text in texts])


for epoch in range(10):
    kept = []
    for batch in loader:
        rewards = score(batch["text"])
        rewards = {}
        loss = (model(batch["ids"].to(device)) * (rewards - rewards.mean())).mean()
        loss.backward()
        optimizer.step()
        kept.extend(rewards.tolist())
    print(sum(kept))
"""


@pytest.mark.parametrize(
    ("made", "advice"),
    [
        ("rewards.to(device)", "read it before it is moved to the GPU in line 14: it is in host memory until then"),
        ("judge(batch['ids']).loss", "keep the detached tensor on the GPU, and copy several at once"),
    ],
)
def test_a_value_is_read_before_it_is_moved(tmp_path: Path, made: str, advice: str) -> None:
    (finding,) = found_in(tmp_path, "GPU305", MOVED.format(made))
    assert finding.help.startswith(advice)


CLIP = '''\
def clip_gradients(model, clip):
    """Clip without ``.item()``."""
    for name, p in model.named_parameters():
        if p.grad is not None:
            param_norm = p.grad.data.norm(2)
            clip_coef = clip / (param_norm + 1e-6)
            if clip_coef < 1:
                p.grad.data.mul_(clip_coef)


'''
STEP = """\
import torch

for step, batch in enumerate(train_loader):
    loss = net(batch.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    {}
"""
SUMS = """\
import torch

{}
for step, batch in enumerate(train_loader):
    total, parts = compute(net, batch.cuda(non_blocking=True))
    total.backward()
    optimizer.step()
    for name in sums:
        sums[name] += parts[name].item()
    if step % 100 == 0:
        sums = {{name: 0.0 for name in sums}}


def compute(net, batch):
    output = net(batch)
    parts = {{"a": (output - batch).abs().mean(), "b": output.mean()}}
    return sum(parts.values()), parts
"""
ELEMENTS = """\
for i in range(len(loss)):
        sums[i] += loss[i].item()
"""
NORM = "norm = torch.norm(loss)"
COPY = """\
import torch
from torch.utils.data import DataLoader

for images, labels in DataLoader(birds, num_workers=8, pin_memory=True):
    net(images.cuda(), labels.cuda()).backward()
    optimizer.step()
"""
OPEN = """\
import boto3, cv2, h5py, netCDF4, rasterio, shelve, torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __init__(self, path, rows):
        self.rows = rows

    def __getitem__(self, index):
        return transforms.resize(Image.open(self.rows[index]))

loader = DataLoader(Rows("rows", {}), batch_size=64)
for batch in loader:
    net(batch.cuda()).backward()
    optimizer.step()
"""
MAP = """\
import datasets, torch

rows = datasets.load_from_disk("rows")
rows = rows.map(lambda row: tokenizer(row["text"]), num_proc=1)
for batch in rows:
    net(batch.cuda()).backward()
    optimizer.step()
"""
CALLED = """\
import torch
from torch import nn


def run(model, batch):
    parts = []
    for chunk in batch.split(8):
        {}
    return parts


def train(model: nn.Module, loader, criterion, optimizer):
    model.cuda()
    for batch, target in loader:
        loss = criterion(torch.cat(run(model, batch.cuda())), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
SET = """\
import torch, torchvision

birds = torchvision.datasets.CIFAR10("data", download=True)
for batch in torch.utils.data.DataLoader(birds):
    net(batch.cuda()).backward()
    optimizer.step()
"""
FETCH = SET.replace(
    'birds = torchvision.datasets.CIFAR10("data", download=True)', "urllib.request.urlretrieve(URL, path)"
).replace("import torch, torchvision", 'import torch, urllib.request\nURL = "https://example.org/birds.zip"')
SAVE = """\
import argparse, torch

parser = argparse.ArgumentParser()
parser.add_argument("--save-every", type=int, default=0)
args = parser.parse_args()
for epoch in range(90):
    for images in train_loader:
        net(images.cuda()).backward()
        optimizer.step()
    if args.save_every > 0 and epoch % args.save_every == 0:
        torch.save(net.state_dict(), "/mnt/blob/net.pt")
"""


@pytest.mark.parametrize(
    ("code", "program", "text"),
    [
        (
            "GPU305",
            STEP.format(f"{NORM}\n    if norm != 0 and not torch.isnan(norm): share = part / norm"),
            "divide by a bounded value",
        ),
        (
            "GPU305",
            STEP.format(f"{NORM}\n    if norm != 0 and not torch.isnan(norm): share = part / total"),
            "let `GradScaler` skip bad steps",
        ),
        ("GPU305", STEP.format("total += loss.item()"), "accumulate with `.detach()`"),
        ("GPU305", STEP.format("total += gap / (2 * rows.sum().item() * 8)"), "divide by the tensor itself"),
        ("GPU305", STEP.format("part = gap / loss.item()\n    total += part"), "divide by the tensor itself"),
        ("GPU305", STEP.format("rows = loss.item()\n    total += gap / rows"), "divide by the tensor itself"),
        ("GPU305", STEP.format("total += loss.item() / len(batch)"), "accumulate with `.detach()`"),
        ("GPU305", STEP.format("total += len(batch) / loss.item()"), "accumulate with `.detach()`"),
        ("GPU305", STEP.format("part = 2 * loss.item()\n    total += gap + part"), "accumulate with `.detach()`"),
        ("GPU305", STEP.format("last = loss.item()\n    total += gap / last + last"), "accumulate with `.detach()`"),
        ("GPU305", STEP.format("boxes = nms(net.boxes.cpu())"), "do this work on the GPU, or copy all that it needs"),
        ("GPU305", STEP.format("kept.append(loss.cpu())"), "append the detached tensor"),
        ("GPU305", STEP.format("kept.append(loss.item())"), "append the detached tensor"),
        (
            "GPU305",
            STEP.format("kept.append(net.aux(batch).cpu())\n    whole = sum(kept)\n    whole.backward()"),
            "compute with the tensor on the GPU, the loss as well",
        ),
        (
            "GPU305",
            STEP.format("whole += net.loss(batch).cpu()\n    whole.backward()"),
            "compute with the tensor on the GPU, the loss as well",
        ),
        (
            "GPU305",
            STEP.format("kept.append(net.aux(batch).detach().cpu())\n    whole = sum(kept)\n    whole.backward()"),
            "keep the detached tensor on the GPU, and copy",
        ),
        ("GPU305", STEP.format("loss = loss.item()"), "read it only where it is shown"),
        ("GPU305", STEP.format("last = net.means[loss.item()]"), "keep what it looks up on the GPU"),
        ("GPU305", STEP.format("last = net.means.get(loss.item(), 0)"), "keep what it looks up on the GPU"),
        ("GPU305", STEP.format("last = net.means[: loss.item()]"), "take the size from the host"),
        (
            "GPU305",
            STEP.format("start = 0\n    start += loss.item()\n    last = net.means[start:]"),
            "take the size from the host",
        ),
        ("GPU305", STEP.format("start += loss.item()\n    last = net.means[start:]"), "accumulate with"),
        (
            "GPU305",
            STEP.format("out = net(batch)\n    for row in out:\n        if row.item() in seen: stop()"),
            "copy the whole tensor once, before",
        ),
        (
            "GPU305",
            STEP.format("out = net(batch)\n    if isinstance(out, list): kept.append([row.item() for row in out])"),
            "append the detached tensor",
        ),
        (
            "GPU305",
            STEP.format("kept.append(net.boxes.cpu().numpy())"),
            "keep the detached tensor on the GPU, and copy",
        ),
        (
            "GPU305",
            STEP.format("out = net(batch)\n    for row in out: kept.append(row.cpu().numpy())"),
            "copy the whole tensor once, before",
        ),
        ("GPU305", CALLED.format("parts.append(model(chunk).cpu())"), "the loss as well, with the targets there"),
        ("GPU305", CALLED.format("parts.append(model(chunk).argmax(1).cpu())"), "keep the detached tensor on the GPU"),
        ("GPU305", STEP.format("image = net.boxes.cpu().numpy()\n    find(image)"), "do this work on the GPU, or copy"),
        ("GPU305", STEP.format("log({'loss': loss.item()})"), "read it only where it is shown: every N iterations"),
        ("GPU305", STEP.format("mean = 0.9 * mean + loss.item()\n    if mean > 2: stop()"), "accumulate with"),
        ("GPU305", STEP.format("last = loss.item()\n    kept.append(last)\n    log(last)"), "log every N iterations"),
        (
            "GPU305",
            STEP.format("for p in net.parameters():\n        if torch.isnan(p.grad).any(): bad = 1"),
            "test all parameters at once: stack their flags, and test `torch.stack(flags).any()`, or test the norm",
        ),
        (
            "GPU305",
            STEP.format("for p in net.parameters():\n        if torch.isnan(p).any(): bad = 1"),
            "test all parameters at once: stack their flags",
        ),
        (
            "GPU305",
            STEP.format("for p in net.parameters():\n        if p.grad.sum() == 0: p.grad = None"),
            "read the answers for all of them at once: stack the values, copy them before the loop",
        ),
        (
            "GPU305",
            CLIP + STEP.format("clip_gradients(net, 2.0)"),
            "decide on the GPU, without a test (`grad.mul_(factor.clamp(max=1))`",
        ),
        ("GPU305", STEP.format("batch.cuda().sum().item()"), "remove it: nothing reads the value"),
        ("GPU305", STEP.format("if loss.item() > best: best = 1"), "decide on the GPU"),
        ("GPU305", STEP.format("bad = late or not loss.item()\n    if bad: stop()"), "decide on the GPU"),
        (
            "GPU305",
            STEP.format("value = net(batch)\n    if is_tensor(value): value = value.item()"),
            "only where it is shown",
        ),
        (
            "GPU305",
            STEP.format("value = net(batch)\n    if is_tensor(value): value = value.item()\n    meter.update(value)"),
            "accumulate with",
        ),
        ("GPU305", STEP.format("if loss.item() > 9: raise ValueError()"), "decide on the GPU"),
        ("GPU305", SUMS.format("sums = {'a': 0.0, 'b': 0.0}"), "accumulate with `.detach()`"),
        ("GPU305", SUMS.format("sums = {name: 0.0 for name in ['a', 'b']}"), "accumulate with `.detach()`"),
        ("GPU305", STEP.format(ELEMENTS), "copy the whole tensor once"),
        ("GPU305", STEP.format("scale = net.boxes.cpu()\n    plt.imshow(scale)"), "draw it every N iterations"),
        ("GPU305", STEP.format("value = loss.item()\n    bar.set_postfix(loss=value)"), "show it every N iterations"),
        ("GPU305", STEP.format("n = int(loss.item()); rows = torch.zeros(n)"), "take the size from the host"),
        ("GPU302", COPY, "pass `non_blocking=True` to these copies"),
        ("GPU302", COPY.replace(", pin_memory=True", ""), "to these copies and pin the loader's memory"),
        ("GPU311", MAP, "set `num_proc=` of rows.map to the job's CPU cores"),
        ("GPU311", MAP.replace(", num_proc=1", ""), "pass `num_proc=` to rows.map with the job's CPU cores"),
        ("GPU303", OPEN.format("h5py.File(path)"), "open the data set's file in each worker"),
        ("GPU303", OPEN.format("shelve.open(path, 'r')"), "open the data set's file in each worker"),
        ("GPU303", OPEN.format("netCDF4.Dataset(path)"), "open the data set's file in each worker"),
        ("GPU303", OPEN.format("cv2.VideoCapture(path)"), "open the data set's file in each worker"),
        ("GPU303", OPEN.format("rasterio.open(path)"), "open the data set's file in each worker"),
        ("GPU303", OPEN.format("boto3.client(path)"), "make the data set's client in each worker"),
        ("GPU303", OPEN.format("path"), "set `num_workers=` of `loader`"),
        ("GPU306", STEP.format("start = torch.tensor(0.0).cuda()"), "`torch.full((), value, device=...)`"),
        (
            "GPU306",
            STEP.format("weight = torch.tensor([1.0, 2.0]).cuda()"),
            "make it once, before the loop: its values",
        ),
        ("GPU306", STEP.format("start = torch.zeros(3).cuda()"), "pass `device=...` to the call that creates it"),
        ("GPU305", STEP.format("loss += loss.item()"), "read it only where it is shown"),
        ("GPU305", STEP.format("share = np.tanh(loss.item())\n    if share < 1: stop()"), "decide on the GPU"),
        ("GPU305", STEP.format("num_nodes = int(loss.item()) + 1; draw(num_nodes)"), "take the size from the host"),
        ("GPU305", STEP.format("row = net.boxes.cpu()\n    if row.dtype == torch.uint8: stop()"), "keep the detached"),
        ("GPU331", SET, "with its folder on storage that the job sees, and pass `download=False` in the job"),
        ("GPU331", FETCH, "fetch it with `curl -LO` before the job (login node, CPU step, image build)"),
    ],
)
def test_advice_fits_the_case(tmp_path: Path, code: str, program: str, text: str) -> None:
    (finding,) = found_in(tmp_path, code, program)
    assert text in finding.help


def test_lightning_takes_the_tensor(tmp_path: Path) -> None:
    text = """\
import pytorch_lightning as pl

class Net(pl.LightningModule):
    def training_step(self, batch, number):
        loss = self.head(batch)
        self.log("loss", loss.item())
        return loss
"""
    (finding,) = found_in(tmp_path, "GPU305", text)
    assert "pass the tensor itself" in finding.help


def test_a_check_of_the_batch_belongs_to_the_host(tmp_path: Path) -> None:
    text = """\
import torch

net = Net().cuda()
for batch in loader:
    batch = batch.cuda()
    net(batch).backward()
    optimizer.step()
    if bool(torch.any(batch < 0).item()):
        raise ValueError()
"""
    (finding,) = found_in(tmp_path, "GPU305", text)
    assert "check the batch on the host, before it is moved" in finding.help


def test_a_function_that_trains_as_well_is_not_told_to_switch_gradients_off(tmp_path: Path) -> None:
    text = """\
import torch

def {name}(net, train_loader, val_loader):
    {body}
    net.eval()
    for images in val_loader:
        total.append(net(images.cuda()))
"""
    training = "for images in train_loader:\n        net(images.cuda()).backward()\n        optimizer.step()"
    (finding,) = found_in(tmp_path, "GPU203", text.format(name="run", body=training))
    assert finding.help == "wrap the loop in `with torch.no_grad():`"
    (finding,) = found_in(tmp_path, "GPU203", text.format(name="validate", body="pass"))
    assert "decorate 'validate'" in finding.help
    inside = text.replace("import torch\n", "").format(name="validate", body="import torch as th")
    (finding,) = found_in(tmp_path, "GPU203", inside)
    assert finding.help == "wrap the loop in `with th.no_grad():`"
    assert finding.cause is not None and finding.cause.span.line == finding.span.line


def test_advice_does_not_name_what_is_done_already(tmp_path: Path) -> None:
    (finding,) = found_in(tmp_path, "GPU302", COPY)
    assert "pin" not in finding.help


def test_a_copy_marks_all_that_it_names(tmp_path: Path) -> None:
    (finding,) = found_in(tmp_path, "GPU302", COPY)
    line = COPY.splitlines()[finding.span.line - 1]
    assert line[finding.span.column - 1 : finding.span.end_column - 1] == "images.cuda(), labels.cuda()"


def test_a_checkpoint_that_is_off_by_default_says_so(tmp_path: Path) -> None:
    assert [found.message.partition("; ")[2] for found in found_in(tmp_path, "GPU211", SAVE)] == ["off by default"]
    on = SAVE.replace("default=0", "default=5")
    assert [found.message.partition("; ")[2] for found in found_in(tmp_path, "GPU211", on)] == [""]


KEYED = """\
for images in train_loader:
    output = net(images.cuda())
    found = criterion(output, labels.cuda())
    found["total"].backward()
    optimizer.step()
    {loop}
        sums[key] += found[{key}].item() * len(images)
"""


@pytest.mark.parametrize(
    ("loop", "key"),
    [
        ("for key in found:", "key"),
        ("for key in found.keys():", "key"),
        ("for key, weight in weights.items():", "key"),
        ('for key in ("rain", "flow"):', "key"),
        ("for key in parts:", '"raw_" + key'),
        ("for key in parts:", 'f"raw_{key}"'),
    ],
)
def test_keys_of_a_dictionary_are_no_places_in_a_tensor(tmp_path: Path, loop: str, key: str) -> None:
    (finding,) = found_in(tmp_path, "GPU305", KEYED.format(loop=loop, key=key))
    assert finding.help.startswith("accumulate")


def test_elements_of_a_tensor_are_copied_at_once(tmp_path: Path) -> None:
    program = KEYED.replace("found[{key}]", "output[{key}]").format(loop="for key in range(8):", key="key")
    (finding,) = found_in(tmp_path, "GPU305", program)
    assert "tolist" in finding.help


WAITS = """for images in train_loader:
    loss = net(images.cuda())
    loss.backward()
    optimizer.step()
    total += loss.item()
    for row in net.best(images.cuda()):
        words.append([names[word.item()] for word in row])
"""


def test_waits_in_inner_loops_are_said_to_be_there(tmp_path: Path) -> None:
    (bases,) = {found.impact.basis for found in found_in(tmp_path, "GPU305", WAITS) if found.impact is not None}
    assert "2 waits, 1 of them in inner loops" in bases


def found_in(folder: Path, code: str, program: str) -> list[Finding]:
    path = folder / "train.py"
    path.write_text(program)
    project = Project(folder, [path], Config(base=folder))
    return [item.finding for item in engine.run(project, [path], select(LOADED.rules, [code], (), ())).results]


@pytest.mark.parametrize(
    ("program", "part"),
    [(JAX_BESIDE, "accumulate with `.detach()`"), (HOST_TABLE, "the indices from the host before the batch is moved")],
)
def test_help_fits_what_is_read(tmp_path: Path, program: str, part: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(program)
    project = Project(tmp_path, [path], Config(base=tmp_path))
    report = engine.run(project, [path], select(LOADED.rules, ["GPU305"], (), ()))
    (advice,) = [result.finding.help for result in report.results]
    assert part in advice


EVALUATION = """\
import torch

net = net.cuda()
net.eval()
scores = []
for images in test_loader:
    scores.append(net(images.cuda()))
"""
MAYBE_WRAPPED = """\
from torch.nn.parallel import DistributedDataParallel as DDP

if args.distributed:
    net = DDP(net)
for index, batch in enumerate(loader):
    net(batch).backward()
    if (index + 1) % accumulate_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("code", "program", "part", "said"),
    [
        ("GPU203", EVALUATION, "decorate", False),
        ("GPU353", MAYBE_WRAPPED, "Without DDP, the model has no `no_sync()`", True),
        ("GPU353", MAYBE_WRAPPED.replace("if args.distributed:\n    ", ""), "Without DDP", False),
    ],
)
def test_help_can_be_followed(tmp_path: Path, code: str, program: str, part: str, said: bool) -> None:
    path = tmp_path / "train.py"
    path.write_text(program)
    project = Project(tmp_path, [path], Config(base=tmp_path))
    report = engine.run(project, [path], select(LOADED.rules, [code], (), ()))
    (advice,) = [result.finding.help for result in report.results]
    assert (part in advice) is said


ENGINE = """\
def train_one_epoch(net, loader, optimizer, accumulate_steps):
    for index, batch in enumerate(loader):
        net(batch.cuda()).backward()
        if (index + 1) % accumulate_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
WRAPS = """\
import torch
from engine import train_one_epoch

net = Net().cuda()
if args.distributed:
    net = torch.nn.parallel.DistributedDataParallel(net)
for epoch in range(90):
    train_one_epoch(net, loader, optimizer, 4)
"""


@pytest.mark.parametrize(
    ("main", "said"), [(WRAPS, True), (WRAPS.replace("if args.distributed:\n    net =", "net ="), False)]
)
def test_a_model_that_a_program_wraps_for_another_module_may_have_no_such_method(
    tmp_path: Path, main: str, said: bool
) -> None:
    paths = [tmp_path / "engine.py", tmp_path / "main.py"]
    for path, text in zip(paths, (ENGINE, main), strict=True):
        path.write_text(text)
    project = Project(tmp_path, paths, Config(base=tmp_path))
    report = engine.run(project, paths, select(LOADED.rules, ["GPU353"], (), ()))
    (advice,) = [result.finding.help for result in report.results]
    assert ("Without DDP, the model has no `no_sync()`" in advice) is said


@pytest.mark.parametrize(
    ("setting", "cost"),
    [
        ("torch.autograd.set_detect_anomaly(True)", "checks every gradient"),
        ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"', "wait for each kernel"),
    ],
)
def test_a_debug_mode_says_what_it_costs_itself(tmp_path: Path, setting: str, cost: str) -> None:
    program = f"import os\n\n{setting}\nimport torch\n\nfor x in loader:\n    model(x.cuda()).backward()\n    optimizer.step()\n"
    (finding,) = found_in(tmp_path, "GPU414", program)
    assert cost in finding.help
    assert "cuDNN" not in f"{finding.rule.why} {finding.help}"


LISTED = """\
def starts_of(masks, kept):
    starts = []
    for mask in masks:
        start = torch.nonzero(mask)[0].item()
        {0}
    {1}


for x in loader:
    x = x.cuda()
    starts = starts_of(x > 0, kept)
    model(x, starts).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("adds", "ends", "later"),
    [
        ("starts.append(start)", "return [one - min(starts) for one in starts]", False),
        ("starts.append(int(start) - 1)", "width = max(starts)", False),
        ("starts.append(start)", "return starts", True),
        ("kept.append(start)", "return starts", True),
    ],
)
def test_what_a_step_works_with_is_not_read_later(tmp_path: Path, adds: str, ends: str, later: bool) -> None:
    program = "import torch\n\n" + LISTED.format(adds, ends)
    finding = next(one for one in found_in(tmp_path, "GPU305", program) if "nonzero" in one.message)
    assert ("every N iterations" in finding.help) is later


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("DistributedDataParallel(net, find_unused_parameters=True)", "set `find_unused_parameters=False`; "),
        ("TrainingArguments('out', ddp_find_unused_parameters=True)", "set `ddp_find_unused_parameters=False`; "),
        ("Trainer(strategy='ddp_find_unused_parameters_true')", 'set `strategy="ddp"`; '),
    ],
)
def test_help_switches_the_search_off(tmp_path: Path, call: str, advice: str) -> None:
    head = "from torch.nn.parallel import DistributedDataParallel\nfrom transformers import TrainingArguments\n"
    path = tmp_path / "train.py"
    path.write_text(f"{head}from lightning import Trainer\n\nmodel = {call}\nmodel.fit(net)\n")
    project = Project(tmp_path, [path], Config(base=tmp_path))
    (found,) = engine.run(project, [path], select(LOADED.rules, ["GPU351"], (), ())).results
    assert found.finding.help.startswith(advice)


PARTS = """\
import torch

loader = torch.utils.data.DataLoader(Birds(), num_workers=4)
for {parts} in loader:
{moves}
    model(a, b).backward()
"""


@pytest.mark.parametrize(
    ("parts", "more"), [("abc", ""), ("abcd", ", and at 1 more place"), ("abcde", ", and at 2 more places")]
)
def test_copies_that_are_not_listed_are_counted(tmp_path: Path, parts: str, more: str) -> None:
    moves = "\n".join(f"    {name} = {name}.cuda()" for name in parts)
    (finding,) = found_in(tmp_path, "GPU301", PARTS.format(parts=", ".join(parts), moves=moves))
    said = "its batches move to the GPU here"
    assert [place.message for place in finding.related] == [said, said, said + more]


def test_samples_that_record_gradients_come_before_workers(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(RECORDED)
    project = Project(tmp_path, [path], Config(base=tmp_path))
    report = engine.run(project, [path], select(LOADED.rules, ["GPU303"], (), ()))
    (advice,) = [result.finding.help for result in report.results]
    assert advice.startswith("make the samples without `requires_grad=True` (workers cannot batch them), then set ")


BEFORE_WORKERS = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import io, models


class Birds(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.part = {made}

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = io.read_image(self.paths[index])
        return image, {used}


loader = DataLoader(Birds(paths), batch_size=64{more})
model = Net().cuda()
for epoch in range(90):
    for images, parts in loader:
        (model(images.cuda()) - parts.cuda()).mean().backward()
        optimizer.step()
"""
NO_GRADIENTS = "make the samples under `torch.no_grad()` (workers cannot batch what records gradients), then set "
SEEDS = "seed `self.part` in each worker (`worker_init_fn`; all would draw the same numbers), then set "


@pytest.mark.parametrize(
    ("made", "used", "more", "advice"),
    [
        ("models.resnet18(weights='DEFAULT')", "self.part(image[None])[0]", "", NO_GRADIENTS),
        ("models.resnet18(weights='DEFAULT')", "self.part(image[None])[0].detach()", "", "set `num_workers=` of `loader`"),
        ("np.random.RandomState(0)", "self.part.rand()", "", SEEDS),
        ("torch.Generator()", "torch.randperm(9, generator=self.part)", "", SEEDS),
        ("np.random.RandomState(0)", "self.part.rand()", ", worker_init_fn=seed", "set `num_workers=` of `loader`"),
        ("np.random.RandomState(0)", "np.random.rand()", "", "set `num_workers=` of `loader`"),
    ],
)  # fmt: skip
def test_what_samples_need_comes_before_workers(tmp_path: Path, made: str, used: str, more: str, advice: str) -> None:
    (finding,) = found_in(tmp_path, "GPU303", BEFORE_WORKERS.format(made=made, used=used, more=more))
    assert finding.help.startswith(advice)


TENSORFLOW = """\
import tensorflow as tf

class Run:
    def __init__(self, net, folder):
        self.checkpoint = tf.train.Checkpoint(model=net)
        self.manager = tf.train.CheckpointManager(self.checkpoint, folder, max_to_keep=3)
        self.saver = tf.compat.v1.train.Saver(max_to_keep=3)

    def train(self, data):
        for epoch in range(90):
            for images in data:
                with tf.GradientTape() as tape:
                    loss = self.net(images)
                self.optimizer.apply_gradients(zip(tape.gradient(loss, self.weights), self.weights))
            {}
"""


@pytest.mark.parametrize(
    ("save", "said", "unsaid"),
    [
        ("self.manager.save()", "CheckpointOptions(enable_async=True)", "move it"),
        ("self.checkpoint.save(path)", "CheckpointOptions(enable_async=True)", "move it"),
        ("self.saver.save(session, path)", "copies the files", "enable_async"),
        ("self.net.save_weights(path)", "move it", "enable_async"),
    ],
)
def test_what_names_and_deletes_its_own_files_is_not_moved(tmp_path: Path, save: str, said: str, unsaid: str) -> None:
    (found,) = found_in(tmp_path, "GPU211", TENSORFLOW.format(save))
    assert said in found.help and unsaid not in found.help


ANOMALY = """\
import torch
{before}
for images in train_loader:
    loss = net(images.cuda()).sum()
{backward}
    optimizer.step()
"""
INSIDE = "    with torch.autograd.detect_anomaly():\n        loss.backward()"
BESIDE = "    loss.backward()"


@pytest.mark.parametrize(
    ("before", "backward", "does"),
    [
        ("", INSIDE, "checks every gradient,"),
        (
            "torch.autograd.set_detect_anomaly(True)",
            BESIDE,
            "checks every gradient and keeps the stack of every operation,",
        ),
        ("torch.autograd.set_detect_anomaly(True, check_nan=False)", BESIDE, "keeps the stack of every operation,"),
    ],
)
def test_help_says_what_anomaly_detection_does_there(tmp_path: Path, before: str, backward: str, does: str) -> None:
    (found,) = found_in(tmp_path, "GPU414", ANOMALY.format(before=before, backward=backward))
    assert f"remove anomaly detection, which {does}" in found.help


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        (
            "run.yaml",
            "name: a\nimage: a/b:1\ncompute:\n  gpus: 8\ncommand: |\n  aws s3 sync s3://acme/birds data\n  composer train.py\n",
            "read the files from the bucket as the program needs them",
        ),
        (
            "job.sh",
            "#!/bin/bash\n#SBATCH --gres=gpu:8\naws s3 sync s3://acme/birds data\npython train.py\n",
            "copy in a job without GPUs that this one depends on (`sbatch --dependency=afterok:...`), or mount",
        ),
    ],
    ids=["MosaicML", "Slurm"],
)
def test_help_for_a_copy_names_what_the_platform_has(tmp_path: Path, name: str, text: str, advice: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    project = Project(tmp_path, [path], Config(base=tmp_path))
    (found,) = engine.run(project, [path], select(LOADED.rules, ["GPU332"], (), ())).results
    assert found.finding.help.startswith(advice)
