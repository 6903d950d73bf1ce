"""Loaders that get no workers, and batches that are not pinned, since that would gain nothing or stop the program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined
from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

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

POOLED = """\
from concurrent.futures import ProcessPoolExecutor

from torch.utils.data import DataLoader

def run(seed):
    loader = DataLoader(Images("data"), batch_size=64, shuffle=True, num_workers=0)
    for epoch in range(20):
        for x, y in loader:
            criterion(model(x.cuda()), y.cuda()).backward()
"""
IN_A_POOL = "each process of a pool makes the loader"

CASES = {
    "an object that holds two files, in batches of an unknown size": (
        "GPU303",
        {
            "train.py": """\
            import torchaudio
            from torch.utils.data import DataLoader, Dataset

            class Clips(Dataset):
                def __init__(self, files):
                    self.files = files

                def __len__(self):
                    return len(self.files)

                def __getitem__(self, index):
                    clip, rate = torchaudio.load(self.files[index])
                    return torchaudio.transforms.Resample(rate, 16000)(clip)

            loader = DataLoader(Clips(["owl.wav", "jay.wav"]), batch_size=args.batch_size, shuffle=True)
            for epoch in range(90):
                for clip in loader:
                    model(clip.cuda()).mean().backward()
            """,
        },
        "2 samples take less time than starting workers",
    ),
    "a function that an executor runs in several processes": (
        "GPU303",
        {"train.py": POOLED + "\nwith ProcessPoolExecutor(max_workers=3) as pool:\n    pool.submit(run, 1)\n"},
        IN_A_POOL,
    ),
    "a function of another module that an executor maps over seeds": (
        "GPU303",
        {
            "train.py": POOLED,
            "sweep.py": """\
            from concurrent.futures import ProcessPoolExecutor
            from train import run

            with ProcessPoolExecutor() as pool:
                list(pool.map(run, range(9)))
            """,
        },
        IN_A_POOL,
    ),
    "a function that joblib runs in several processes": (
        "GPU303",
        {"train.py": POOLED + "\nParallel(n_jobs=4)(delayed(run)(seed) for seed in range(9))\n"},
        IN_A_POOL,
    ),
    "a loader of which `itertools.cycle` keeps the batches": (
        "GPU303",
        {
            "train.py": """\
            from itertools import cycle

            from torch.utils.data import DataLoader

            def train(model, images, others):
                loader = DataLoader(Images(images), batch_size=64)
                for x, y in zip(cycle(loader), others):
                    criterion(model(x.cuda()), y.cuda()).backward()
            """
        },
        "`itertools.cycle` keeps the batches",
    ),
    "a program without a main guard whose lines end as on Windows": (
        "GPU303",
        {"train.py": LOADER.replace("num_workers=4", "num_workers=0").replace("\n", "\r\n")},
        "workers need where processes are spawned",
    ),
    "a main guard that starts the training alone, in a program of Windows": (
        "GPU303",
        {
            "train.py": """\
            from torch.utils.data import DataLoader

            images = Images(r"D:\\photos")

            def main(model):
                loader = DataLoader(images, batch_size=64)
                for x, y in loader:
                    criterion(model(x.cuda()), y.cuda()).backward()

            if __name__ == "__main__":
                main(Net().cuda())
            """
        },
        "line 3 makes the data set outside of `if __name__ == '__main__'`",
    ),
    "arrays in memory, in a program of a Mac": (
        "GPU303",
        {
            "train.py": """\
            import numpy as np
            from torch.utils.data import DataLoader

            class Scans:
                def __init__(self, path="/Users/me/scans.npy"):
                    self.scans = np.load(path)

                def __getitem__(self, index):
                    scan = self.scans[index]
                    return denoised(scan)

            def main(model):
                loader = DataLoader(Scans(), batch_size=64)
                for x in loader:
                    model(x.cuda()).backward()

            if __name__ == "__main__":
                main(Net().cuda())
            """
        },
        "the data set holds its samples in memory (`self.scans`)",
    ),
    "a table of arrays that are read from files into memory, in a program of Windows": (
        "GPU303",
        {
            "train.py": """\
            import h5py
            import torch
            from torch.utils.data import DataLoader

            class Events:
                def __init__(self, paths):
                    self.runs = {}
                    for path in paths:
                        with h5py.File(path, "r") as file:
                            self.runs[path] = {"x": file["events"]["x"][()], "t": file["events"]["t"][()]}
                    self.samples = [(path, time) for path in paths for time in range(90)]

                def __getitem__(self, index):
                    path, time = self.samples[index]
                    run = self.runs[path]
                    return voxels(run["x"][time : time + 9])

            if __name__ == "__main__":
                model.load_state_dict(torch.load(r"checkpoints\\best.pth"))
                loader = DataLoader(Events(paths), batch_size=64)
                for x, y in loader:
                    criterion(model(x.cuda()), y.cuda()).backward()
            """
        },
        "the data set holds its samples in memory (`self.runs`)",
    ),
    "arrays in memory, in a program with a path of Windows that is relative": (
        "GPU303",
        {
            "train.py": """\
            import pickle
            import numpy as np
            from torch.utils.data import DataLoader

            class Panels:
                def __init__(self, path):
                    self.panels, self.labels = pickle.load(open(path, "rb"))
                    self.panels = self.panels.astype(np.uint8)

                def __getitem__(self, index):
                    return augment(self.panels[index]), self.labels[index]

            if __name__ == "__main__":
                loader = DataLoader(Panels(r"..\\panels_5cls\\train_panels.pkl"), batch_size=64)
                for x, y in loader:
                    criterion(model(x.cuda()), y.cuda()).backward()
            """
        },
        "the data set holds its samples in memory (`self.panels`)",
    ),
    "arrays that are filled in the constructor, in a program that the shell of Windows starts": (
        "GPU303",
        {
            "src/train.py": """\
            import numpy as np
            from PIL import Image
            from torch.utils.data import DataLoader

            class Signs:
                def __init__(self, paths, transform):
                    pictures = np.empty((len(paths), 64, 256, 3), dtype=np.uint8)
                    for number, path in enumerate(paths):
                        pictures[number] = np.array(Image.open(path))
                    self.pictures, self.transform = pictures, transform

                def __getitem__(self, index):
                    return self.transform(self.pictures[index])

            def main(model, paths):
                loader = DataLoader(Signs(paths, transform), batch_size=64)
                for x in loader:
                    model(x.cuda()).backward()

            if __name__ == "__main__":
                main(Net().cuda(), find())
            """,
            "all.py": """\
            import subprocess

            for script in ["src/train.py"]:
                subprocess.run(["cmd", "/c", f"call conda activate signs && python {script}"], check=True)
            """,
        },
        "the data set holds its samples in memory (`self.pictures`)",
    ),
    "a program without a main guard with a path of Windows in another folder": (
        "GPU303",
        {"train.py": LOADER.replace("num_workers=4", "num_workers=0").replace('"data"', r"'.\photos\train photos'")},
        "workers need where processes are spawned",
    ),
    "a program without a main guard whose byte code is from Windows": (
        "GPU303",
        {
            "train.py": LOADER.replace("num_workers=4", "num_workers=0"),
            "__pycache__/engine.cpython-37.pyc": "c\0\0>E:\\PycharmProject\\sites\\engine.py\0",
        },
        "workers need where processes are spawned",
    ),
    "a program without a main guard that the documentation sets up on Windows": (
        "GPU303",
        {
            "train.py": LOADER.replace("num_workers=4", "num_workers=0"),
            "README.md": "```bash\nsource venv/bin/activate  # on Linux\n.\\venv\\Scripts\\activate\n```\n",
        },
        "workers need where processes are spawned",
    ),
    "a transform that a function makes, where the documentation speaks to users of Windows": (
        "GPU303",
        {
            "train.py": """\
            from torch.utils.data import DataLoader
            from transforms import resized


            def main(paths, model):
                loader = DataLoader(Images(paths, resized(224)), batch_size=64, pin_memory=True)
                for epoch in range(90):
                    for x, y in loader:
                        criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()


            if __name__ == "__main__":
                main(["a", "b"], model)
            """,
            "transforms.py": """\
            def resized(size):
                def transform(image):
                    return image.resize((size, size))

                return transform
            """,
            "README.md": "For Windows users, the recommended version is 0.1.0.\n",
        },
        "`dataset` holds a lambda, or a function or class that is local to a function",
    ),
    "a lock that the data set keeps, where the documentation speaks to users of Windows": (
        "GPU303",
        {
            "train.py": """\
            import threading
            import cv2
            from torch.utils.data import DataLoader, Dataset


            class Frames(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.lock = threading.Lock()

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return cv2.resize(cv2.imread(self.paths[index]), (224, 224)), index


            def main(model):
                loader = DataLoader(Frames(["a.png"] * 90), batch_size=8)
                for epoch in range(90):
                    for x, y in loader:
                        criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()


            if __name__ == "__main__":
                main(model)
            """,
            "README.md": "For Windows users, the recommended version is 0.1.0.\n",
        },
        "`dataset` holds a lock or a thread (line 9), which cannot be sent to workers that are spawned: make it in each",
    ),
    "a function that makes batches within another one, where a module names the device of a Mac": (
        "GPU303",
        {
            "train.py": """\
            from torch.utils.data import DataLoader
            from devices import choose


            def main(paths, model, pad):
                def collate(rows):
                    return pad_rows(rows, pad)

                device = choose("cuda")
                loader = DataLoader(Images(paths), batch_size=64, pin_memory=True, collate_fn=collate)
                for epoch in range(90):
                    for x, y in loader:
                        criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()


            if __name__ == "__main__":
                main(["a", "b"], model, 0)
            """,
            "devices.py": """\
            import torch


            def choose(name):
                return torch.device("mps" if name == "mps" else "cuda")
            """,
        },
        "`collate` is a lambda, or a function or class that is local to a function (line 6)",
    ),
    "a lambda that is given what the object gets later": (
        "GPU303",
        {
            "train.py": """\
            from torch.utils.data import DataLoader
            from batches import collate


            class Run:
                def __init__(self, paths):
                    self.loader = DataLoader(
                        Images(paths), batch_size=64, pin_memory=True, collate_fn=lambda rows: collate(rows, pad=self.pad)
                    )
                    self.pad = 0

                def train(self, model, device="mps"):
                    for epoch in range(90):
                        for x, y in self.loader:
                            criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()


            if __name__ == "__main__":
                Run(["a", "b"]).train(model)
            """,
            "batches.py": """\
            import torch


            def collate(rows, pad):
                return torch.nn.utils.rnn.pad_sequence(rows, padding_value=pad)
            """,
        },
        "`collate_fn` is a lambda, or a function or class that is local to a function (line 8)",
    ),
    "a reason in the documentation": (
        "GPU303",
        {
            "train.py": LOADER.replace("num_workers=4", "num_workers=0"),
            "DOCUMENTATION.md": "| Problem | Answer |\n|---|---|\n| Shared memory full | `num_workers: 0` everywhere |\n",
        },
        "DOCUMENTATION.md:3 says why there are no workers",
    ),
    "a command that passes 0 over another default": (
        "GPU303",
        {
            "train.py": "import argparse\n\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--workers', type=int, default=4)\nargs = parser.parse_args()\n"
            + LOADER.replace("num_workers=4", "num_workers=args.workers"),
            "run.sh": "#SBATCH --gres=gpu:1\npython train.py --workers 0\n",
        },
        "run.sh:2 passes 0 in place of the program's default of 4: a choice",
    ),
    "a command that passes 0 over what the settings have": (
        "GPU303",
        {
            "train.py": "import hydra\nimport torch\nfrom torch.utils.data import DataLoader\n\n"
            '@hydra.main(config_path="conf", config_name="train")\ndef main(cfg):\n'
            '    loader = DataLoader(Images("data"), batch_size=64, num_workers=cfg.data.num_workers)\n'
            "    for x, y in loader:\n        criterion(model(x.cuda()), y.cuda()).backward()\n\nmain()\n",
            "conf/train.yaml": "data:\n  num_workers: 8\n",
            "run.sh": "#SBATCH --gres=gpu:1\npython train.py data.num_workers=0\n",
        },
        "run.sh:2 passes 0 in place of the program's default of 8: a choice",
    ),
    "a reason in the settings of the program": (
        "GPU303",
        {
            "train.py": LOADER.replace("num_workers=4", "num_workers=0"),
            "config/large.yaml": "data:\n  num_workers: 0  # stability on Windows\n",
            "config/small.yaml": "data:\n  num_workers: 0\n",
        },
        "config/large.yaml:2 says why there are no workers",
    ),
    "settings beside others that say why they name no workers": (
        "GPU303",
        {
            "config/train_large.yaml": "model: large\ndata:\n  batch_size: 64\n  num_workers: 0  # preloaded in RAM\n",
            "config/train_small.yaml": "model: small\ndata:\n  batch_size: 64\n  num_workers: 0\n",
            "train.py": LOADER.replace("num_workers=4", "num_workers=config['data']['num_workers']"),
        },
        "says why there are no workers",
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
    "pinning of samples that a model of the caller may have encoded": (
        "GPU301",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader, Dataset


            class Words(Dataset):
                def __init__(self, root, clip_model):
                    self.rows = read(root)
                    self.features = [clip_model(row.to("cuda")) for row in self.rows]

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    return self.features[index], index


            loader = DataLoader(Words("data", clip_model=clip_model), batch_size=64, num_workers=4)
            model = model.cuda()
            for x, y in loader:
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
            """
        },
        "a device or model is passed",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_break_or_gain_nothing_is_left_alone(job: MakeJob, case: str) -> None:
    check_declined(job, *CASES[case])


@pytest.mark.parametrize(
    "settings",
    [
        {"config/small.yaml": "data:\n  num_workers: 0  # number of workers\n"},
        {"config/small.yaml": "data:\n  num_workers: 0  # preloaded in RAM\n"},
        {"config/small.yaml": "data:\n  num_workers: 2  # crashes on Windows\n"},
        {"other/tool.yaml": "workers: 0  # crashes on Windows\n", "program/small.yaml": "num_workers: 0\n"},
    ],
)
def test_settings_that_give_no_reason_leave_the_loader_its_workers(job: MakeJob, settings: dict[str, str]) -> None:
    assert job({"program/train.py": LOADER.replace(", num_workers=4", ""), **settings}).offer("GPU303").changes


def test_advice_for_other_machines_is_no_reason(job: MakeJob) -> None:
    files = {"train.py": LOADER.replace(", num_workers=4", ""), "README.md": "If it hangs, use `num_workers=0`.\n"}
    assert job(files).offer("GPU303").changes


USED = """\
from tqdm import tqdm
from itertools import islice
from torch.utils.data import DataLoader

loader = DataLoader(Images("data"), batch_size=64)
{}
for epoch in range(90):
    for x, y in loader:
        criterion(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "kept",
    [
        "batches = list(iter(loader))",
        "batches = [batch for batch in loader]",
        "batches = [(x, y) for x, y in tqdm(loader)]",
        "batches = []\nbatches.extend(loader)",
        "batches = tuple(tqdm(loader))",
    ],
)
def test_no_worker_sends_batches_that_are_all_kept(job: MakeJob, kept: str) -> None:
    check_declined(job, "GPU303", {"train.py": USED.format(kept)}, "a list keeps the batches")


@pytest.mark.parametrize(
    "used",
    ["batches = list(islice(loader, 4))", "sizes = [len(x) for x, y in loader]", "parts = list(next(iter(loader)))"],
)
def test_workers_send_batches_of_which_few_are_kept(job: MakeJob, used: str) -> None:
    assert job({"train.py": USED.format(used)}).offer("GPU303").changes


HDF = """\
import h5py
import numpy as np
from torch.utils.data import DataLoader, Dataset

class Songs(Dataset):
    def __init__(self, path):
        self.path = path
        self.file = None

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        audio = np.pad(self.file[str(index)]["audio"][:].astype(np.float32), 4)
        {}

def collate(samples):
    return torch.stack([audio for audio, _ in samples]), [words for _, words in samples]

def main():
    loader = DataLoader(Songs("songs.hdf5"), batch_size=64, collate_fn=collate)
    for epoch in range(90):
        for audio, words in loader:
            criterion(model(audio.cuda()), words).backward()
            optimizer.step()

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "given",
    [
        "words = self.file[str(index)]['words']\n        return audio, words",
        "return {'audio': audio, 'words': self.file[f'{index}/words']}",
        "song = self.file[self.names[index]]\n        return audio, (index, song['words'])",
        "with h5py.File(self.path) as file:\n            words = file['words']\n        return audio, words",
    ],
)
def test_no_worker_sends_what_is_still_in_a_file(job: MakeJob, given: str) -> None:
    check_declined(job, "GPU303", {"train.py": HDF.format(given)}, "which is still in its file")


@pytest.mark.parametrize(
    "given",
    [
        "return audio, self.file[str(index)]['words'][:]",
        "words = self.file['words'][index]\n        return audio, words",
        "words = self.file[str(index)]['words']\n        return audio, np.array(words)",
        "words = self.file[str(index)]['words']\n        words = words[()]\n        return audio, words",
        "return audio, self.file[str(index)].attrs['words']",
    ],
)
def test_workers_send_what_is_read_from_a_file(job: MakeJob, given: str) -> None:
    assert job({"train.py": HDF.format(given)}).offer("GPU303").changes


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


@pytest.mark.parametrize(
    ("line", "declined"),
    [
        ("### Windows", True),
        ("1. Install on Linux, macOS and Windows:", True),
        ("brew install libomp", True),
        ("$env:DATA = 'photos'", True),
        ("start `train.bat`", True),
        ("Windows is not supported.", False),
        ("It runs on Linux only, and on Windows through WSL.", False),
        ("### Sliding Windows", False),
        ("Windows of 512 samples are cut from each signal.", False),
        ("source venv/bin/activate", False),
    ],
)
@pytest.mark.parametrize("guarded", [True, False])
def test_documentation_tells_where_processes_are_spawned(
    job: MakeJob, line: str, declined: bool, guarded: bool
) -> None:
    program = LOADER.replace("num_workers=4", "num_workers=0")
    if guarded:
        head, _, body = program.partition("\n\n")
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        program = f"{head}\n\nif __name__ == '__main__':\n{lines}"
    (found,) = job({"train.py": program, "README.md": f"# Photos\n\n{line}\n"}).scan("GPU303")
    reason = found.fix.reason if isinstance(found.fix, Declined) else ""
    assert ("where processes are spawned" in reason) is (declined and not guarded)


@pytest.mark.parametrize(
    "start",
    [
        "with ProcessPoolExecutor(max_workers=1) as pool:\n    pool.submit(run, 1)",
        "Parallel(n_jobs=4, prefer='threads')(delayed(run)(seed) for seed in range(9))",
        "with ProcessPoolExecutor(4) as pool:\n    pool.map(convert, files)\nrun(1)",
    ],
)
def test_one_process_makes_the_loader(job: MakeJob, start: str) -> None:
    assert job({"train.py": f"{POOLED}\n{start}\n"}).offer("GPU303").changes


@pytest.mark.parametrize("pattern", [r"r'..\d+\.\w+'", r"r'.\bphoto\b'", "'../photos/train.pkl'"])
def test_patterns_are_no_paths_of_windows(job: MakeJob, pattern: str) -> None:
    program = LOADER.replace("num_workers=4", "num_workers=0").replace('"data"', f"named({pattern})")
    assert job({"train.py": program}).offer("GPU303").changes


HELPER = """\
from torch.utils.data import DataLoader

def loaders(paths):
    return DataLoader(Images(paths), batch_size=64, num_workers=0)
"""
DRAWS = """\
from helper import loaders

def main():
    for x, y in loaders("train"):
        criterion(model(x.cuda()), y.cuda()).backward()

"""


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("main()", "; `train.py` needs an `if __name__ == '__main__'` where processes are spawned"),
        ("if __name__ == '__main__':\n    main()", ""),
        ("", ""),
    ],
)
def test_a_fix_names_the_program_without_a_main_guard(job: MakeJob, start: str, said: str) -> None:
    description = job({"train.py": f"{DRAWS}{start}\n", "helper.py": HELPER}).offer("GPU303").description
    assert said in description
    assert ("__main__" in description) is bool(said)


def test_a_fix_names_two_programs_without_a_main_guard(job: MakeJob) -> None:
    made = job({"train.py": f"{DRAWS}main()\n", "test.py": f"{DRAWS}main()\n", "helper.py": HELPER})
    assert made.offer("GPU303").description.endswith(
        "`test.py` and `train.py` need an `if __name__ == '__main__'` where processes are spawned, as on Windows or macOS"
    )
