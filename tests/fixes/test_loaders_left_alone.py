"""Data loaders and batch sizes that fixers leave alone, because the change would stop the program or gain nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

CASES = {
    "a loader beside one whose batches are copied after they are computed": (
        "GPU301",
        {
            "data.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder


            def labeled():
                return DataLoader(ImageFolder("labeled"), batch_size=32, num_workers=4)


            class Unlabeled:
                def make(self):
                    return DataLoader(ImageFolder("more"), batch_size=32, num_workers=4)
            """,
            "train.py": """\
            import torch
            from data import Unlabeled, labeled

            more = Unlabeled().make()
            rest = iter(more)
            for x, y in labeled():
                u, _ = next(rest)
                y = y.view(-1, 1).type(torch.FloatTensor)
                x, y = x.cuda(), y.cuda()
                u = u.cuda()
                loss = criterion(model(x), y) + consistency(model(u))
                loss.backward()
                optimizer.step()
            """,
        },
        "the same step copies batches of another loader",
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
    "the loaders of a copy are made in many files": (
        "GPU302",
        {
            "cats.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            loader = DataLoader(ImageFolder("cats"), batch_size=64, num_workers=4)
            """,
            "dogs.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            loader = DataLoader(ImageFolder("dogs"), batch_size=64, num_workers=4)
            """,
            "frogs.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            loader = DataLoader(ImageFolder("frogs"), batch_size=64, num_workers=4)
            """,
            "birds.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder

            loader = DataLoader(ImageFolder("birds"), batch_size=64, num_workers=4)
            """,
            "train.py": """\
            import birds, cats, dogs, frogs

            LOADERS = {"birds": birds.loader, "cats": cats.loader, "dogs": dogs.loader, "frogs": frogs.loader}
            for images, labels in LOADERS[args.animal]:
                criterion(model(images.cuda()), labels.cuda()).backward()
                optimizer.step()
            """,
        },
        "5 files would change",
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
            for x, z, y in train_loader:
                loss = criterion(model(x.half().cuda(), z.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
            """
        },
        "still wait: what is converted first",
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
    "a loader for each of many groups, all of which stay": (
        "GPU303",
        {
            "train.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder


            def forever(loader):
                while True:
                    yield from loader


            tasks = []
            for group in groups:
                task = DataLoader(ImageFolder(group), batch_size=32, shuffle=True)
                tasks.append(forever(task))
            for epoch in range(90):
                for task in tasks:
                    for x, y in task:
                        criterion(model(x.cuda()), y.cuda()).backward()
                        optimizer.step()
            """
        },
        "the workers of all of them would stay alive",
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
    "samples that a cursor of the parent process fetches": (
        "GPU303",
        {
            "train.py": """\
                import psycopg2
                import torch
                from torch.utils.data import DataLoader, Dataset


                class Cases(Dataset):
                    def __init__(self, where):
                        self.connection = psycopg2.connect(where)
                        self.cursor = self.connection.cursor()

                    def __getitem__(self, index):
                        self.cursor.execute("select data from cases where id=%s", (index,))
                        return prepare(self.cursor.fetchone())

                    def __len__(self):
                        return 1000


                loader = DataLoader(Cases("dbname=cases"), batch_size=8)
                for x, y in loader:
                    criterion(model(x.to("cuda")), y.to("cuda")).backward()
                    optimizer.step()
                """
        },
        "a client of the parent process",
    ),
    "samples of a file system that refuses to work after a fork": (
        "GPU303",
        {
            "train.py": """\
                import s3fs
                import torch
                from PIL import Image
                from torch.utils.data import DataLoader, Dataset


                class Photos(Dataset):
                    def __init__(self, keys):
                        self.files, self.keys = s3fs.S3FileSystem(), keys

                    def __getitem__(self, index):
                        with self.files.open(self.keys[index]) as file:
                            return prepare(Image.open(file).convert("RGB"))

                    def __len__(self):
                        return len(self.keys)


                loader = DataLoader(Photos(keys), batch_size=8)
                for x, y in loader:
                    criterion(model(x.to("cuda")), y.to("cuda")).backward()
                    optimizer.step()
                """
        },
        "a client of the parent process",
    ),
    "a client of the module with which its samples are fetched": (
        "GPU303",
        {
            "train.py": """\
                import io

                import boto3
                import torch
                from PIL import Image
                from torch.utils.data import DataLoader, Dataset

                s3 = boto3.client("s3")


                class Photos(Dataset):
                    def __init__(self, keys):
                        self.keys = keys

                    def __getitem__(self, index):
                        body = s3.get_object(Bucket="photos", Key=self.keys[index])["Body"]
                        return prepare(Image.open(io.BytesIO(body.read())).convert("RGB"))

                    def __len__(self):
                        return len(self.keys)


                def main(keys, model, optimizer):
                    loader = DataLoader(Photos(keys), batch_size=8)
                    for x, y in loader:
                        criterion(model(x.to("cuda")), y.to("cuda")).backward()
                        optimizer.step()
                """
        },
        "a client of the parent process",
    ),
    "batches that the function which makes them pins": (
        "GPU303",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader
                from torchvision.datasets import ImageFolder


                def collate(samples):
                    images, labels = zip(*samples)
                    return torch.stack(images).pin_memory(), torch.tensor(labels).pin_memory()


                def main(model, optimizer):
                    loader = DataLoader(ImageFolder("photos", crop), batch_size=64, collate_fn=collate)
                    for x, y in loader:
                        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
                        criterion(model(x), y).backward()
                        optimizer.step()
                """
        },
        "`collate` pins what it makes",
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
    "samples that are slices of a series in memory": (
        "GPU303",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader, Dataset


            class Windows(Dataset):
                def __init__(self, series, length):
                    self.series, self.length = series, length

                def __len__(self):
                    return len(self.series) - self.length

                def __getitem__(self, index):
                    return standardise(self.series[index : index + self.length])


            def standardise(window):
                return (window - window.mean()) / window.std()


            loader = DataLoader(Windows(series, 64), batch_size=64, shuffle=True)
            for windows in loader:
                model(windows.cuda()).sum().backward()
                optimizer.step()
            """
        },
        "looked up in memory",
    ),
    "one batch holds all samples": (
        "GPU303",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader, Dataset

            samples = 5000
            bs, epochs = 5000, 1


            class Chains(Dataset):
                def __init__(self, count):
                    self.count = count

                def __len__(self):
                    return samples

                def __getitem__(self, index):
                    return walk(transitions, index)


            loader = DataLoader(Chains(samples), batch_size=bs, shuffle=True)
            for epoch in range(epochs):
                for chains in loader:
                    model(chains.cuda()).sum().backward()
                    optimizer.step()
            """
        },
        "one or two batches hold all samples",
    ),
    "the only program with these arguments passes its own loader": (
        "GPU303",
        {
            "trainer.py": """\
            import torch
            from torch.utils.data import DataLoader


            class Arguments:
                def __init__(self, batch_size=8, workers=0):
                    self.batch_size, self.workers = batch_size, workers


            class Trainer:
                def __init__(self, model, args, data=None, loader=None):
                    self.model, self.args, self.data = model, args, data
                    self.loader = loader

                def make_loader(self):
                    return DataLoader(self.data, batch_size=self.args.batch_size, num_workers=self.args.workers)

                def train(self):
                    if self.loader is None:
                        self.loader = self.make_loader()
                    for batch in self.loader:
                        self.model(batch.cuda()).sum().backward()
                        self.optimizer.step()
            """,
            "train.py": """\
            from torch.utils.data import DataLoader
            from torchvision.datasets import ImageFolder
            from trainer import Arguments, Trainer

            loader = DataLoader(ImageFolder("train"), batch_size=8, num_workers=8)
            Trainer(model, Arguments(batch_size=16), loader=loader).train()
            """,
            "old.py": """\
            from trainer import Trainer

            Trainer(model, options, images).train()
            """,
        },
        "passes a loader of its own",
    ),
    "a client that the program passes to what the data set reads from": (
        "GPU303",
        {
            "train.py": """\
            import torch
            from store import connect
            from torch.utils.data import DataLoader, Dataset


            class Bucket:
                def __init__(self, s3, name):
                    self.s3, self.name = s3, name

                def __getitem__(self, key):
                    return decode(self.s3.GetObject(self.name, key))


            class Images(Dataset):
                def __init__(self, s3, names):
                    self.bucket = Bucket(s3, "images")
                    self.names = names

                def __getitem__(self, index):
                    return augment(self.bucket[self.names[index]])


            loader = DataLoader(Images(connect(), names), batch_size=8, shuffle=True)
            for images in loader:
                model(images.cuda()).sum().backward()
                optimizer.step()
            """
        },
        "a client of the parent process",
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
    "samples that record gradients": (
        "GPU303",
        {
            "train.py": """\
                import torch
                from torch.utils.data import DataLoader, Dataset
                from torchvision.io import read_image


                class Pictures(Dataset):
                    def __init__(self, paths):
                        self.paths = paths

                    def __len__(self):
                        return len(self.paths)

                    def __getitem__(self, index):
                        return self.sample(read_image(self.paths[index]))

                    def sample(self, image):
                        return torch.tensor(image / 255, requires_grad=True)


                loader = DataLoader(Pictures(paths), batch_size=64, shuffle=True)
                for images in loader:
                    model(images.cuda()).sum().backward()
                    optimizer.step()
                """
        },
        "made with `requires_grad=True`",
    ),
    "samples of a session that computes in threads": (
        "GPU303",
        {
            "train.py": """\
                import onnxruntime
                import torch
                from torch.utils.data import DataLoader, Dataset
                from torchvision.io import read_image


                class Points(Dataset):
                    def __init__(self, paths):
                        self.paths = paths
                        self.net = onnxruntime.InferenceSession("a.onnx")

                    def __len__(self):
                        return len(self.paths)

                    def __getitem__(self, index):
                        return torch.tensor(self.net.run(None, {"x": read_image(self.paths[index]).numpy()})[0])


                loader = DataLoader(Points(paths), batch_size=64, shuffle=True)
                for points in loader:
                    model(points.cuda()).sum().backward()
                    optimizer.step()
                """
        },
        "`self.net` is bound to threads or a context of the parent process, which forked workers would lack",
    ),
    "samples of a pipeline that computes in threads": (
        "GPU303",
        {
            "train.py": """\
                import mediapipe as mp
                import torch
                from torch.utils.data import DataLoader, Dataset
                from torchvision.io import read_image


                class Points(Dataset):
                    def __init__(self, paths):
                        self.paths = paths
                        self.net = mp.solutions.pose.Pose()

                    def __len__(self):
                        return len(self.paths)

                    def __getitem__(self, index):
                        return torch.tensor(self.net.process(read_image(self.paths[index]).numpy()).landmarks)


                loader = DataLoader(Points(paths), batch_size=64, shuffle=True)
                for points in loader:
                    model(points.cuda()).sum().backward()
                    optimizer.step()
                """
        },
        "`self.net` is bound to threads",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_break_or_gain_nothing_is_left_alone(job: MakeJob, case: str) -> None:
    check_declined(job, *CASES[case])
