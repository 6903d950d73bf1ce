"""What fixers leave alone, because the change would stop the program or gain nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import dedent
from typing import Any

import pytest

from gpulint import fixing, plugins
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.outcomes import State
from gpulint.project import Project
from gpulint.report import Result
from gpulint.selection import select
from gpulint.source import Span

MakeJob = Callable[..., Any]

STEP = """\
    x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def loop(before: str, after: str) -> str:
    """A training loop with lines before it and at the end of each step."""
    return f"import random\n\nimport torch\n\n{before}for x, y in train_loader:\n{STEP}{after}print(total)\n"


CASES = {
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
    "nothing overlaps with the copies of a loader without workers": (
        "GPU301",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            train_loader = DataLoader(ImageFolder("train"), batch_size=64, shuffle=True)
            for x, y in train_loader:
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
                print(loss.item())
            """
        },
        "line 10 waits for each batch",
    ),
    "a framework moves the batches of a loader without workers": (
        "GPU301",
        {
            "train.py": """\
            from accelerate import Accelerator
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            accelerator = Accelerator()
            train_loader = accelerator.prepare(DataLoader(ImageFolder("train"), batch_size=64, shuffle=True))
            for x, y in train_loader:
                accelerator.backward(criterion(model(x), y))
                optimizer.step()
            """
        },
        "the loader has no workers",
    ),
    "the copies of a loader without workers would still wait": (
        "GPU301",
        {
            "train.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            train_loader = DataLoader(ImageFolder("train"), batch_size=64, shuffle=True)
            for x, y in train_loader:
                loss = criterion(model(x.float().cuda()), y.cuda())
                loss.backward()
                optimizer.step()
            """
        },
        "still wait: what is converted first",
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
    "somebody has switched the workers off": (
        "GPU303",
        {
            "train.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            loader = DataLoader(
                ImageFolder("train"),
                # num_workers=config["num_workers"],
                num_workers=0,
                pin_memory=True,
            )
            for epoch in range(9):
                for x, y in loader:
                    criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
            """
        },
        "somebody has switched the workers off",
    ),
    "a loader for each of many targets": (
        "GPU303",
        {
            "predict.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder


            def predict(target, model):
                loader = DataLoader(ImageFolder(target), batch_size=8, pin_memory=True)
                for x, _ in loader:
                    yield model(x.cuda(non_blocking=True)).cpu()


            for target in targets:
                save(predict(target, model))
            """
        },
        "each of many short runs",
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
            "config.json": '{"gpu": ""}',
        },
        "comes from a setting",
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
    "what moves is a new tensor, which no loader pins": (
        "GPU301",
        {
            "train.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            train_loader = DataLoader(ImageFolder("train"), batch_size=64, shuffle=True, num_workers=4)
            for x, _ in train_loader:
                loss = criterion(model(x.double().cuda()))
                loss.backward()
                optimizer.step()
            """
        },
        "no longer in pinned memory",
    ),
    "another program of the tree says why there are no workers": (
        "GPU303",
        {
            "train.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            loader = DataLoader(ImageFolder("train"), num_workers=0, pin_memory=True)
            for epoch in range(9):
                for x, y in loader:
                    criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
            """,
            "pretrain.py": "loader = make(data, num_workers=0,  # Disabled: causes slowdown on Lustre\n)\n",
        },
        "beside another loader",
    ),
    "a comment beside the number of a configuration": (
        "GPU303",
        {
            "train.py": """\
            import yaml
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            with open("config.yaml") as file:
                config = yaml.safe_load(file)
            loader = DataLoader(ImageFolder("train"), num_workers=config["workers"], pin_memory=True)
            for epoch in range(9):
                for x, y in loader:
                    criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
            """,
            "config.yaml": "batch: 8\nworkers: 0  # 0 is safe on a laptop\n",
        },
        "the comment beside it",
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
    "labels become CUDA tensors in the default collate function": (
        "GPU301",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader
                from torchvision.datasets import ImageFolder

                torch.set_default_tensor_type("torch.cuda.FloatTensor")
                loader = DataLoader(ImageFolder("data"), num_workers=4)
                for x, y in loader:
                    model(x.cuda()).sum().backward()
                    optimizer.step()
                """
        },
        "may be on the GPU already",
    ),
    "the model's own methods are called through a table": (
        "GPU413",
        {
            "job.sh": "#SBATCH --gres=gpu:4\npython train.py\n",
            "train.py": """\
                import torch

                model = Net()
                model = model.to("cuda")
                parts = {"body": model}
                for images, labels in train_loader:
                    loss = criterion(parts["body"].encode(images.cuda()), labels.cuda())
                    loss.backward()
                    optimizer.step()
                """,
        },
        "put into a table or another variable",
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
    "one process has no group to debug": (
        "GPU414",
        {
            "run.sh": "#SBATCH --gres=gpu:1\nexport TORCH_DISTRIBUTED_DEBUG=DETAIL\naccelerate launch --num_processes 1 train.py\n",
            "train.py": "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n",
        },
        "starts one process",
    ),
    "a debugger that ends a module's own test": (
        "GPU102",
        {
            "words.py": """\
                PAD = 0


                def main():
                    ids = [1, 2]
                    breakpoint()


                if __name__ == "__main__":
                    main()
                """,
            "train.py": "import torch\n\nfrom words import PAD\n\ntorch.nn.Linear(2, 2).cuda().weight.sum().backward()\n",
        },
        "ends the module's own test",
    ),
    "settings without workers that should stay alive": (
        "GPU303",
        {
            "config.yaml": "batch_size: 1\nnum_workers: 0\npersistent_workers: False\n",
            "train.py": """\
                import torch
                import yaml
                from PIL import Image
                from torch.utils.data import DataLoader, Dataset

                config = yaml.safe_load(open("config.yaml"))


                class Images(Dataset):
                    def __getitem__(self, index):
                        return transform(Image.open(paths[index]))


                loader = DataLoader(Images(), num_workers=config["num_workers"], pin_memory=True)
                for x in loader:
                    model(x.cuda(non_blocking=True)).sum().backward()
                    optimizer.step()
                """,
        },
        "none should stay alive",
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
    "samples that are the next ones of an iterator": (
        "GPU303",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader, Dataset


                class Cases(Dataset):
                    def __init__(self, paths):
                        self.cases = iter(paths)

                    def __getitem__(self, index):
                        return prepare(next(self.cases))

                    def __len__(self):
                        return 1000


                loader = DataLoader(Cases(paths), batch_size=8)
                for x, y in loader:
                    criterion(model(x.to("cuda")), y.to("cuda")).backward()
                    optimizer.step()
                """
        },
        "the next of `self.cases`",
    ),
    "samples that count what was read before": (
        "GPU303",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader, Dataset


                class Cases(Dataset):
                    def __init__(self, paths):
                        self.paths, self.seen = paths, 0

                    def __getitem__(self, index):
                        return self.read(index)

                    def read(self, index):
                        self.seen += 1
                        return prepare(self.paths[self.seen % 10])

                    def __len__(self):
                        return 1000


                loader = DataLoader(Cases(paths), batch_size=8)
                for x, y in loader:
                    criterion(model(x.to("cuda")), y.to("cuda")).backward()
                    optimizer.step()
                """
        },
        "each sample changes `self.seen`",
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
    "samples that a client of the parent process fetches": (
        "GPU303",
        {
            "train.py": """\
                import torch
                from minio import Minio
                from torch.utils.data import DataLoader, Dataset


                class Cases(Dataset):
                    def __init__(self, store):
                        self.store = store

                    def __getitem__(self, index):
                        return prepare(self.store.get_object("cases", str(index)))

                    def __len__(self):
                        return 1000


                client = Minio("localhost:9000")
                loader = DataLoader(Cases(client), batch_size=8)
                for x, y in loader:
                    criterion(model(x.to("cuda")), y.to("cuda")).backward()
                    optimizer.step()
                """
        },
        "`self.store` is a client of the parent process",
    ),
    "mean losses that are added and divided by the number of samples": (
        "GPU202",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader


                def run(train, val_dataset, model, batch_size=32):
                    loader = DataLoader(train, batch_size=batch_size)
                    val_loader = DataLoader(val_dataset, batch_size=batch_size)
                    for x, y in loader:
                        criterion(model(x.to("cuda")), y.to("cuda")).backward()
                        optimizer.step()
                    model.eval()
                    total = 0.0
                    with torch.no_grad():
                        for x, y in val_loader:
                            loss = criterion(model(x.cuda()), y.cuda())
                            total += loss.item()
                    print(total / len(val_dataset))
                """
        },
        "`total` sums batch means and is divided by the number of samples",
    ),
    "samples of a file that is open already": (
        "GPU303",
        {
            "train.py": """\
                import h5py
                import torch
                from torch.utils.data import DataLoader, Dataset


                class Cases(Dataset):
                    def __init__(self, paths):
                        self.file = h5py.File(paths)

                    def __getitem__(self, index):
                        return prepare(self.file[str(index)])

                    def __len__(self):
                        return 1000


                loader = DataLoader(Cases(paths), batch_size=8)
                for x, y in loader:
                    criterion(model(x.to("cuda")), y.to("cuda")).backward()
                    optimizer.step()
                """
        },
        "`self.file` is an open file",
    ),
    "features that may be on the GPU by an option": (
        "GPU301",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader, TensorDataset


                def sweep(model, data, features_device):
                    features, labels = extract(model, data, gather_on_cpu=features_device == "cpu")
                    loader = DataLoader(TensorDataset(features, labels), batch_size=256, num_workers=4)
                    for x, y in loader:
                        criterion(model(x.to("cuda")), y.to("cuda")).backward()
                        optimizer.step()
                """
        },
        "may be on the GPU already",
    ),
    "a size of evaluation that a function computes with": (
        "GPU202",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader


                def patterns(rows, val_batch_size):
                    count = len(rows) // val_batch_size
                    return rows[: count * val_batch_size].reshape(count, val_batch_size, -1)


                def run(rows, model, batch_size=32):
                    loader = DataLoader(rows, batch_size=batch_size)
                    for x, y in loader:
                        criterion(model(x.to("cuda")), y.to("cuda")).backward()
                        optimizer.step()
                    model.eval()
                    with torch.no_grad():
                        for x in patterns(rows, val_batch_size=batch_size):
                            model(x.cuda())
                """
        },
        "makes no loader",
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
    "loaders of many files that are handed on for one pass": (
        "GPU303",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader


                def test(net, loader):
                    net.eval()
                    with torch.no_grad():
                        for batch in loader:
                            net(batch.to("cuda"))


                net.cuda()
                for path in paths:
                    loader = DataLoader(Images(path), batch_size=8)
                    test(net, loader)
                """
        },
        "made anew for each of many short runs",
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


def test_jobs_that_install_the_same_get_no_stage_each(job: MakeJob) -> None:
    script = "#!/bin/bash\n#SBATCH --gres=gpu:1\npip install -r requirements.txt\npython train.py\n"
    files = {f"train_{number}.sh": script for number in range(4)}
    made = job({"train.py": "import torch\n\ntorch.zeros(1).cuda()\n", **files})
    reasons = [result.fix.reason for result in made.scan("GPU401")]
    assert len(reasons) == 4
    assert all("4 jobs run the same command" in reason for reason in reasons)


@pytest.mark.parametrize("case", CASES)
def test_what_would_break_or_gain_nothing_is_left_alone(job: MakeJob, case: str) -> None:
    code, files, reason = CASES[case]
    results = job({name: dedent(text) for name, text in files.items()}).scan(code)
    assert results
    reasons = [result.fix.reason for result in results if isinstance(result.fix, Declined)]
    assert len(reasons) == len(results), [result.fix for result in results]
    assert any(reason in one for one in reasons), reasons


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
    assert all(isinstance(result.fix, Declined) for result in converted)


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
