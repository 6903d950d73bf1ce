"""Copies and reads of training steps that fixers leave alone, because the change would stop the program or gain nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import STEP, check_declined, loop

MakeJob = Callable[..., Any]

CASES = {
    "an override of the step that is there for the memory alone": (
        "GPU207",
        {
            "train.py": """\
            import gc
            import torch
            from transformers import Trainer


            class PairTrainer(Trainer):
                def training_step(self, model, inputs):
                    loss = super().training_step(model, inputs)
                    gc.collect()
                    torch.cuda.empty_cache()
                    return loss


            PairTrainer(torch.nn.Linear(8, 8).cuda(), train_dataset=rows).train()
            """
        },
        "`training_step` overrides another one only to free memory",
    ),
    "a permutation on whose order nothing depends": (
        "GPU306",
        {
            "train.py": """\
            import torch


            def train(train_loader):
                for x, y in train_loader:
                    output = model(x.cuda(non_blocking=True))
                    order = torch.randperm(len(x)).cuda()
                    picked = output[order]
                    loss = torch.max(picked) - picked.min() + output[order].sum()
                    loss.backward()
                    optimizer.step()
            """
        },
        "nothing depends on the order",
    ),
    "a value of which a model's function may return a number": (
        "GPU305",
        {
            "model.py": """\
            from torch import nn


            class Model(nn.Module):
                def forward(self, x):
                    penalty = x.var().item() if self.measures else x.var()
                    return {"loss": x.mean(), "penalty": penalty}
            """,
            "train.py": """\
            import torch
            from model import Model

            model = Model().cuda()
            total = 0.0
            for x, y in train_loader:
                outputs = model(x.cuda(non_blocking=True))
                outputs["loss"].backward()
                optimizer.step()
                total += float(outputs["penalty"])
            print(total)
            """,
        },
        "may be a plain number",
    ),
    "an entry of what an unknown model returns": (
        "GPU305",
        {
            "train.py": """\
            import torch

            total = 0.0
            for x, y in train_loader:
                outputs = model(x.cuda(non_blocking=True))
                outputs["loss"].backward()
                optimizer.step()
                total += float(outputs["replaced"])
            print(total)
            """,
        },
        "may be a plain number",
    ),
    "a list that a caller hands in and may read": (
        "GPU305",
        {
            "train.py": """\
            import torch


            def train(train_loader, distances):
                for x, y in train_loader:
                    output = model(x.cuda(non_blocking=True))
                    loss = criterion(output, y.cuda(non_blocking=True))
                    loss.backward()
                    optimizer.step()
                    distances.append(loss.item())


            distances = []
            for epoch in range(10):
                train(train_loader, distances)
            print(distances)
            """
        },
        "distances",
    ),
    "a table that a caller hands in and may read": (
        "GPU305",
        {
            "train.py": """\
            import torch


            def train(train_loader, totals):
                for x, y in train_loader:
                    output = model(x.cuda(non_blocking=True))
                    loss = criterion(output, y.cuda(non_blocking=True))
                    loss.backward()
                    optimizer.step()
                    totals["loss"] += loss.item()


            totals = {"loss": 0.0}
            for epoch in range(10):
                train(train_loader, totals)
            print(totals)
            """
        },
        "totals",
    ),
    "a number of an unknown type that is an index": (
        "GPU305",
        {
            "train.py": """\
            import torch


            def train(train_loader):
                last = 0
                for x, y in train_loader:
                    output = model(x.cuda(non_blocking=True))
                    loss = criterion(output, y.cuda(non_blocking=True))
                    loss.backward()
                    optimizer.step()
                    last = output[0].item()
                return NAMES[last]
            """
        },
        "used as an integer",
    ),
    "a sum of an unknown type that counts rounds": (
        "GPU305",
        {
            "train.py": """\
            import torch


            def train(train_loader):
                rounds = 0
                for x, y in train_loader:
                    output = model(x.cuda(non_blocking=True))
                    loss = criterion(output, y.cuda(non_blocking=True))
                    loss.backward()
                    optimizer.step()
                    rounds += output[0].item()
                return [1 for _ in range(rounds)]
            """
        },
        "used as an integer",
    ),
    "a list of truth values": (
        "GPU305",
        {
            "train.py": """\
            import torch


            def train(train_loader):
                flags = []
                for x, y in train_loader:
                    output = model(x.cuda(non_blocking=True))
                    loss = criterion(output, y.cuda(non_blocking=True))
                    loss.backward()
                    optimizer.step()
                    flags.append((output > 0).any().item())
                return flags
            """
        },
        "truth values",
    ),
    "values of a table that are only listed": (
        "GPU305",
        {
            "train.py": """\
            import torch

            for x, y in train_loader:
                losses = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
                losses.total_loss.backward()
                optimizer.step()
                for name, loss in losses.__dict__.items():
                    trainer.history[name].append(loss.item())
            """
        },
        "the list is not one entry of a table",
    ),
    "a loop of few rounds": (
        "GPU305",
        {
            "train.py": """\
            import torch

            for step in range(8):
                loss = criterion(model(images.cuda(non_blocking=True)))
                loss.backward()
                optimizer.step()
                print(step, loss.item())
            """
        },
        "has 8 rounds, too few",
    ),
    "a mask that may have fewer axes than what it picks from": (
        "GPU305",
        {
            "train.py": """\
            import torch

            for x, y in train_loader:
                losses = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
                known = y.cuda(non_blocking=True) != 255
                loss = losses[known].sum()
                loss.backward()
                optimizer.step()
            """
        },
        "decides what the program does next",
    ),
    "the step formats the tensor that it adds up": (
        "GPU305",
        {"train.py": loop("total = 0.0\n", '    total += loss.item()\n    keep("{:.3f}".format(loss))\n')},
        "formats the same tensors in line 12",
    ),
    "a function that the step calls reads": (
        "GPU305",
        {
            "train.py": loop(
                "from edges import borders\n\ntotal = 0.0\n", "    total += loss.item()\n    keep(borders(y))\n"
            ),
            "edges.py": "import numpy as np\n\n\ndef borders(labels):\n    return np.diff(labels.cpu().numpy())\n",
        },
        "every step waits in line 5 of edges.py as well",
    ),
    "another loop counts epochs by the same interval": (
        "GPU305",
        {
            "train.py": """\
            import torch

            log_interval = 1
            for epoch in range(90):
                for step, (x, y) in enumerate(train_loader):
                    loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
                    loss.backward()
                    optimizer.step()
                    if step % log_interval == 0:
                        print(step, loss.item())
                if epoch % log_interval == 0:
                    print(evaluate(model))
            """
        },
        "an N that is too small",
    ),
    "the step formats a tensor that it trains on": (
        "GPU305",
        {"train.py": loop("total = 0.0\n", '    total += other.item()\n    info += "loss {} ".format(loss)\n')},
        "formats the same tensors in line 12",
    ),
    "a switch that no step changes is on": (
        "GPU305",
        {
            "train.py": loop(
                "total = 0.0\nnoisy = hasattr(model, 'noise')\n",
                "    total += loss.item()\n    if noisy:\n        keep(y.sum().item())\n",
            )
        },
        "every step waits in line 14",
    ),
    "a function without gradients reads in each step": (
        "GPU305",
        {
            "train.py": loop(
                "from scores import scores\n\ntotal = 0.0\n",
                "    total += loss.item()\n    keep(scores(model(x), y))\n",
            ),
            "scores.py": "import torch\n\n\ndef scores(output, labels):\n    with torch.no_grad():\n"
            "        return (output.argmax(1) == labels).float().mean().item()\n",
        },
        "of scores.py as well",
    ),
    "an object that is not there by default reads in each step": (
        "GPU305",
        {
            "train.py": """\
            import torch


            class Trainer:
                def __init__(self, model, tracker=None):
                    self.model = model
                    self.tracker = tracker

                def train(self, train_loader):
                    total = 0.0
                    for x, y in train_loader:
                        loss = criterion(self.model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
                        loss.backward()
                        optimizer.step()
                        total += loss.item()
                        if self.tracker is not None:
                            self.tracker.add(loss.item())
                    print(total)
            """
        },
        "every step waits in line 17",
    ),
    "both branches read": (
        "GPU305",
        {
            "train.py": loop(
                "total = 0.0\n",
                "    if words:\n        keep(loss.item())\n    else:\n        show(loss.item())\n    total += loss.item()\n",
            )
        },
        "every step waits in line 1",
    ),
    "a function that waits is called in another branch, too": (
        "GPU305",
        {
            "train.py": loop(
                "def positive(y):\n    return y.sum().item() > 0\n\n\ntotal = 0.0\n",
                "    if words:\n        keep(positive(y))\n    else:\n        show(positive(y))\n"
                "    total += loss.item()\n",
            )
        },
        "every step waits in line 6",
    ),
    "a function returns what it reads beside a wait that stays": (
        "GPU305",
        {
            "train.py": "import torch\n\n\ndef step(x, y):\n"
            + STEP.replace("optimizer.step()\n", "optimizer.step()\n    if loss > 9:\n        reset()\n")
            + "    return loss.item()\n\n\ntotal = 0.0\nfor x, y in train_loader:\n    total += step(x, y)\nprint(total)\n"
        },
        "every step waits in line 9",
    ),
    "another loss of the same call is read where it is a tensor": (
        "GPU305",
        {
            "train.py": """\
                import torch


                class Losses:
                    def __init__(self, main, others):
                        self.main, self.others = main, others
                        self.total = 0.0
                        self.sums = {name: 0.0 for name in others}

                    def add(self, output, target, size):
                        value = self.main(output, target)
                        if isinstance(value, torch.Tensor):
                            self.total += value.item() * size
                        for name, criterion in self.others.items():
                            other = criterion(output, target)
                            if torch.is_tensor(other):
                                self.sums[name] += other.item() * size

                    def means(self, count):
                        return {"main": self.total / count, **{name: x / count for name, x in self.sums.items()}}


                losses, count = Losses(criterion, auxiliary), 0
                for x, y in loader:
                    output, y = model(x.cuda()), y.cuda()
                    loss = losses.main(output, y)
                    losses.add(output, y, len(x))
                    loss.backward()
                    optimizer.step()
                    count += len(x)
                print(losses.means(count))
                """
        },
        "every step waits in line 17",
    ),
    "the test of a module of functions makes up its batches": (
        "GPU306",
        {
            "steps.py": """\
                import torch


                def step(model, x):
                    model(x).sum().backward()


                if __name__ == "__main__":
                    model = torch.nn.Linear(8, 8).cuda()
                    optimizer = torch.optim.SGD(model.parameters())
                    for _ in range(10):
                        x = torch.randn(4, 8).cuda()
                        step(model, x)
                        optimizer.step()
                """,
            "train.py": "from steps import step\n\nmodel.cuda()\nfor x in loader:\n    step(model, x.cuda())\n",
        },
        "only the module's own test",
    ),
    "the weights of a loss that is no number are saved": (
        "GPU305",
        {
            "train.py": loop(
                "total = 0.0\n",
                "    total += loss.item()\n    if torch.isnan(loss):\n        torch.save(model.state_dict(), 'bad.pt')\n"
                "        raise ValueError('explosion')\n",
            )
        },
        "every step waits in line 12",
    ),
    "the branch that waits is the only one that goes on": (
        "GPU305",
        {
            "train.py": loop(
                "total = 0.0\n",
                "    total += loss.item()\n    if model.kind in ('a', 'b'):\n        keep(y.sum().item())\n"
                "    else:\n        raise ValueError(model.kind)\n",
            )
        },
        "every step waits in line 13",
    ),
    "one batch holds all samples": (
        "GPU305",
        {
            "train.py": """\
            import argparse

            import torch
            from torch.utils.data import DataLoader, TensorDataset, random_split

            parser = argparse.ArgumentParser()
            parser.add_argument("--batch-size", type=int, default=100000)
            parser.add_argument("--samples", type=int, default=10000)
            args = parser.parse_args()
            data, _ = random_split(TensorDataset(torch.randn(args.samples, 3)), [9000, 1000])
            loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
            for epoch in range(500):
                total = 0.0
                for (x,) in loader:
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    optimizer.step()
                    total += loss.item()
                print(total)
            """
        },
        "one batch holds all samples",
    ),
    "the mask makes the host wait anyway": (
        "GPU306",
        {
            "train.py": """\
                import torch

                for x, y in train_loader:
                    new = model(x.cuda(non_blocking=True))
                    unknown = new.sum(1) < 1
                    new[unknown] = torch.randint(0, 9, size=new[unknown].shape).to("cuda")
                    new.sum().backward()
                    optimizer.step()
                """
        },
        "waits for the GPU anyway",
    ),
    "what a mask has picked above is not pinned": (
        "GPU302",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader

                loader = DataLoader(data, pin_memory=True, num_workers=4)
                for images, labels in loader:
                    images, labels = images[labels >= 0], labels[labels >= 0]
                    images, labels = images.to("cuda"), labels.to("cuda")
                    criterion(model(images), labels).backward()
                    optimizer.step()
                """
        },
        "not in pinned memory",
    ),
    "channels that were repeated above are not pinned": (
        "GPU302",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader

                loader = DataLoader(data, pin_memory=True, num_workers=4)
                for images, labels in loader:
                    images = images.repeat(1, 3, 1, 1)
                    criterion(model(images.to("cuda")), labels.to("cuda", non_blocking=True)).backward()
                    optimizer.step()
                """
        },
        "not in pinned memory",
    ),
    "a batch that may be an object of a class from elsewhere": (
        "GPU302",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader

                from somewhere import Latents

                loader = DataLoader(data, pin_memory=True, num_workers=4)
                for batch in loader:
                    if isinstance(batch, Latents):
                        batch = batch.to("cuda")
                    model(batch).mean().backward()
                    optimizer.step()
                """
        },
        "the value may be a `Latents`",
    ),
    "a copy before a search that waits at every token": (
        "GPU302",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader

                loader = DataLoader(data, pin_memory=True, num_workers=4)
                model.cuda().eval()
                with torch.no_grad():
                    for batch in loader:
                        tokens = batch["tokens"].to("cuda")
                        found = beam_search(model, tokens, beam=5)
                        results.extend(found)
                """
        },
        "beside which the copy takes no time",
    ),
    "a batch whose own method forwards the choice of its callers": (
        "GPU302",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader


                def move(batch, device, non_blocking=False):
                    return batch.to(device, non_blocking=non_blocking)


                loader = DataLoader(data, pin_memory=True, num_workers=4)
                for images, labels in loader:
                    images, labels = move(images, "cuda"), move(labels, "cuda")
                    criterion(model(images), labels).backward()
                    optimizer.step()
                """
        },
        "callers choose `non_blocking`",
    ),
    "a copy beside one of what was computed from the batch": (
        "GPU302",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader

                loader = DataLoader(data, pin_memory=True, num_workers=4)
                for images, labels in loader:
                    images = 2 * images - 1
                    images = images.to("cuda")
                    labels = labels.to("cuda")
                    criterion(model(images), labels).backward()
                    optimizer.step()
                """
        },
        "was computed from the batch",
    ),
    "the loss of a closure that the optimizer reads itself": (
        "GPU305",
        {
            "train.py": """\
                import torch

                image = torch.rand(1, 3, 8, 8, device="cuda", requires_grad=True)
                optimizer = torch.optim.LBFGS([image])
                for step in range(1000):

                    def closure():
                        optimizer.zero_grad()
                        loss = model(image).mean()
                        loss.backward()
                        print(loss.item())
                        return loss

                    optimizer.step(closure)
                """
        },
        "the optimizer reads the loss",
    ),
    "each round asks which entries are set": (
        "GPU305",
        {
            "train.py": """\
                import torch


                def missed(masks, labels):
                    loss, size = 0.0, 0
                    for at in range(len(masks)):
                        for label in labels[at]:
                            others = label.nonzero(as_tuple=False).view(-1)
                            size += masks[at].sum().item()
                            loss = loss + masks[at, others].max()
                    return loss / size


                for x, labels in loader:
                    loss = missed(model(x.cuda()), labels.cuda())
                    loss.backward()
                    optimizer.step()
                """
        },
        "each round waits in line",
    ),
    "two calls of the loop lead to the wait": (
        "GPU305",
        {
            "train.py": """\
                import torch


                def numbers(losses):
                    out = []
                    for loss in losses:
                        loss = torch.mean(loss).cpu().item()
                        out.append(loss)
                    return out


                def write(writer, losses, step):
                    for at, number in enumerate(numbers(losses)):
                        writer.add_scalar(str(at), number, step)


                for step, x in enumerate(loader):
                    losses = model(x.cuda())
                    sum(losses).backward()
                    optimizer.step()
                    print(numbers(losses))
                    record(numbers(losses), step)
                """
        },
        "leads to the same wait in every step",
    ),
    "what a mask picks is not pinned": (
        "GPU302",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader

                loader = DataLoader(data, pin_memory=True, num_workers=4)
                for x, mask in loader:
                    kept = (x[~mask] if masked else x).cuda()
                    model(kept).sum().backward()
                    optimizer.step()
                """
        },
        "no longer in pinned memory",
    ),
    "what `torch.cat` makes is not pinned": (
        "GPU302",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader

                loader = DataLoader(data, pin_memory=True, num_workers=4)
                for x, y in loader:
                    both = torch.cat([x, y]).cuda()
                    model(both).sum().backward()
                    optimizer.step()
                """
        },
        "not in pinned memory",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_break_or_gain_nothing_is_left_alone(job: MakeJob, case: str) -> None:
    check_declined(job, *CASES[case])
