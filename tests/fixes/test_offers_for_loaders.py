"""Whether changes of loaders and of the copies of their batches are offered, and as safe or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Safety

MakeJob = Callable[..., Any]

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
    assert "a device or model is passed" in job(
        {"train.py": MADE_BY.format(data="registry[name](options, device)")}
    ).refusal("GPU301")


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
    def pin_memory(self):
        return self

    def to(self, device{more}):
        return NestedTensor(self.tensors.to(device), self.mask.to(device))

    def pin_memory(self):
        return NestedTensor(self.tensors.pin_memory(), self.mask.pin_memory())


def collate(samples):
    return NestedTensor(samples), [sample.label for sample in samples]


for samples, targets in DataLoader(data, collate_fn=collate, pin_memory=True):
    model(samples.to("cuda")).backward()
"""


def test_a_class_of_the_program_may_not_know_the_option(job: MakeJob) -> None:
    assert "takes no `non_blocking`" in job({"train.py": NESTED.format(more="")}).refusal("GPU302")
    assert job({"train.py": NESTED.format(more=", **options")}).offer("GPU302").safety is Safety.SAFE


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


ARRAYS = """\
import torch
from torch.utils.data import DataLoader

for images, labels in DataLoader(data, batch_size=256, collate_fn=stack_arrays, num_workers=4):
    images = torch.from_numpy(images).to("cuda")
    model(images).backward()
"""


def test_tensors_of_arrays_have_to_be_pinned_first(job: MakeJob) -> None:
    assert "pinned memory" in job({"train.py": ARRAYS}).refusal("GPU302")


def test_pinning_that_a_configuration_switches_off_is_left_to_it(job: MakeJob) -> None:
    config = "lr: 0.1\nepochs: 3\npin_memory: false\n"
    program = "from torch.utils.data import DataLoader\nloader = DataLoader(data, pin_memory=config.pin_memory)\n"
    assert "created elsewhere" in job({"train.yaml": config, "train.py": program}).refusal("GPU301")


def test_samples_that_a_package_encodes_one_by_one_get_workers(job: MakeJob) -> None:
    program = """\
    import torch
    from encoders import Pairs
    from torch.utils.data import DataLoader, Dataset


    class Molecules(Dataset):
        def __init__(self, lines):
            self.lines, self.pairs = lines, Pairs("codes.txt")

        def __len__(self):
            return len(self.lines)

        def __getitem__(self, index):
            return torch.tensor(self.pairs.process_line(self.lines[index]))


    loader = DataLoader(Molecules(lines), batch_size=64, shuffle=True)
    for epoch in range(9):
        for molecules in loader:
            model(molecules.cuda()).sum().backward()
            optimizer.step()
    """
    assert "num_workers=4" in job({"train.py": program}).offer("GPU303").edits[-1].text


def test_the_loaders_of_one_function_pin_their_batches_together(job: MakeJob) -> None:
    program = """\
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    train_loader = DataLoader(ImageFolder("train"), batch_size=64, num_workers=4)
    val_loader = DataLoader(ImageFolder("val"), batch_size=64, num_workers=4)
    for images, labels in train_loader:
        model(images.cuda()).backward()
    for images, labels in val_loader:
        model(images.cuda())
    """
    train, val = (result.fix for result in job({"train.py": program}).scan("GPU301"))
    assert {*train.edits} == {*val.edits}
    assert sum("pin_memory" in edit.text for edit in train.edits) == 2


def test_loaders_of_one_function_ask_for_a_gpu_in_the_same_way(job: MakeJob) -> None:
    program = """\
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder


    def main():
        train_loader = DataLoader(ImageFolder("train"), batch_size=64, num_workers=4)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        val_loader = DataLoader(ImageFolder("val"), batch_size=64, num_workers=4)
        for images, labels in train_loader:
            model(images.to(device)).backward()
        for images, labels in val_loader:
            model(images.to(device))


    main()
    """
    made = job({"train.py": program})
    made.repair("GPU301")
    assert made.text("train.py").count("pin_memory=torch.cuda.is_available()") == 2


ORDERED = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

def main():
    loader = DataLoader(ImageFolder("train", transform=augment), batch_size=64{order})
    for epoch in range({epochs}):
        for images, labels in loader:
            model(images.cuda()).mean().backward()
            optimizer.step()

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (", shuffle=True", True),
        (", shuffle=args.shuffle", True),
        (", sampler=weighted", True),
        (", shuffle=False", False),
        ("", False),
    ],
)
def test_workers_change_the_order_only_of_what_is_shuffled(job: MakeJob, order: str, says: bool) -> None:
    offered = job({"train.py": ORDERED.format(order=order, epochs=10)}).offer("GPU303")
    assert ("later epochs are shuffled differently" in offered.description) is says
    assert "which have their own random states" in offered.description


def test_one_pass_has_no_later_epochs(job: MakeJob) -> None:
    program = ORDERED.format(order=", shuffle=True", epochs=10).replace(
        "    for epoch in range(10):\n", "    if True:\n"
    )
    assert "later epochs" not in job({"train.py": program}).offer("GPU303").description


COLLATED_LOCALLY = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

DEVICES = ["cuda", "mps"]

def main():
    def collate(rows):
        return rows
    loader = DataLoader(ImageFolder("train"), batch_size=64, collate_fn=collate)
    for epoch in range(10):
        for images, labels in loader:
            model(images.cuda()).mean().backward()
            optimizer.step()

if __name__ == "__main__":
    main()
"""
SUBMITTED = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=4\npython train.py\n"


def test_a_mac_cannot_send_what_is_local(job: MakeJob) -> None:
    assert "cannot be sent" in job({"train.py": COLLATED_LOCALLY}).refusal("GPU303")


def test_jobs_of_clusters_run_on_linux(job: MakeJob) -> None:
    offered = job({"train.py": COLLATED_LOCALLY, "run.sh": SUBMITTED}).offer("GPU303")
    assert "num_workers=4" in "".join(edit.text for edit in offered.edits)


SET_LATER = """\
from PIL import Image
from torch.utils.data import DataLoader

from birds import Birds


def prepare(rows):
    return [Image.open(row).resize((224, 224)) for row in rows]


def main():
    def prepare_here(rows):
        return [Image.open(row).resize((224, 224)) for row in rows]

    birds = Birds("birds")
    others = Birds("others")
    {setting}
    loader = DataLoader(birds, batch_size=64)
    for epoch in range(90):
        for images in loader:
            loss = model(images.cuda()).sum()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
BIRDS = """\
from PIL import Image


class Birds:
    def __getitem__(self, at):
        return self.transform(Image.open(self.files[at]).resize((224, 224)))
"""


@pytest.mark.parametrize(
    ("setting", "forked"),
    [
        ("birds.set_transform(prepare_here)", True),
        ("birds.transform = prepare_here", True),
        ("birds.transform = lambda image: image.rotate(90)", True),
        ("birds.set_transform(prepare)", False),
        ("others.set_transform(prepare_here)", False),
    ],
)
def test_what_a_data_set_is_told_to_keep_is_sent_to_workers(job: MakeJob, setting: str, forked: bool) -> None:
    offered = job({"train.py": SET_LATER.format(setting=setting), "birds.py": BIRDS}).offer("GPU303")
    assert ("`birds` holds a lambda" in offered.description) is forked


FRAMES = """\
import {module}
import cv2
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self, path):
        self.frames = []
        {opened}

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, index):
        return cv2.resize(self.frames[index], (224, 224)), index


def main():
    loader = DataLoader(Frames("a.mp4"), batch_size=8)
    for epoch in range(90):
        for x, y in loader:
            loss = model(x.cuda()).sum()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("module", "opened", "what"),
    [
        ("os", "self.video = cv2.VideoCapture(path)", "what `cv2.VideoCapture` opened"),
        ("threading", "self.lock = threading.Lock()", "a lock or a thread"),
        ("os", "self.rows = (row for row in path)", "a generator"),
        (
            "os",
            "self.scale = lambda frame: frame / 255",
            "a lambda, or a function or class that is local to a function",
        ),
    ],
)
def test_what_cannot_be_pickled_is_named(job: MakeJob, module: str, opened: str, what: str) -> None:
    offered = job({"train.py": FRAMES.format(module=module, opened=opened)}).offer("GPU303")
    said = f"`dataset` holds {what} (line 9), which cannot be sent to workers that are spawned instead of forked"
    assert said in offered.description


@pytest.mark.parametrize(
    ("kept", "forked"),
    [
        ("sorted(os.listdir(root), key=lambda name: int(name[:-4]))", False),
        ("next((each for each in (root, 'birds') if os.path.isdir(each)), root)", False),
        ("table['label'].apply(lambda text: int(text == 'owl'))", False),
        ("table['label'].map(lambda text: int(text == 'owl'))", False),
        ("list(map(lambda name: os.path.join(root, name), os.listdir(root)))", False),
        ("pd.read_csv(root, converters={'label': lambda text: text.strip()})", False),
        ("map(lambda name: os.path.join(root, name), os.listdir(root))", True),
        ("Pipeline(root).map(lambda name: os.path.join(root, name))", True),
        ("list([lambda image: image.rotate(90)])", True),
        ("(each for each in os.listdir(root))", True),
    ],
)
def test_only_what_a_data_set_keeps_is_sent_to_workers(job: MakeJob, kept: str, forked: bool) -> None:
    offered = job({"train.py": KEPT, "birds.py": KEEPS.format(kept=kept)}).offer("GPU303")
    assert ("spawned instead of forked" in offered.description) is forked


KEPT = """\
import sys

from torch.utils.data import DataLoader
from torchvision.models import resnet18

from birds import Birds


def main():
    model = resnet18().cuda()
    loader = DataLoader(Birds(sys.argv[1]), batch_size=64)
    for epoch in range(10):
        for images in loader:
            model(images.cuda()).mean().backward()


if __name__ == "__main__":
    main()
"""
KEEPS = """\
import os

import pandas as pd
from PIL import Image

from pipelines import Pipeline


class Birds:
    def __init__(self, root):
        table = pd.read_csv(root + "/birds.csv")
        self.files = list(table["file"])
        self.kept = {kept}

    def __len__(self):
        return len(self.files)

    def __getitem__(self, at):
        return Image.open(self.files[at]).resize((224, 224))
"""


PAIRS = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

labelled = DataLoader(ImageFolder("labelled", transform=plain), batch_size=64, num_workers=0)
unlabelled = DataLoader(ImageFolder("unlabelled", transform=plain), batch_size=64, num_workers=0)
valid = DataLoader(ImageFolder("valid", transform=plain), batch_size=64, num_workers={valid})
for epoch in range(9):
    pairs = zip(labelled, unlabelled)
    for (x, y), (u, v) in pairs:
        criterion(model(x.cuda()), y.cuda(), u.cuda()).backward()
        optimizer.step()
    for x, y in valid:
        model(x.cuda())
"""


@pytest.mark.parametrize(
    ("valid", "named"),
    [
        ("0", "line 4 (`labelled`), line 5 (`unlabelled`) and line 6 (`valid`)"),
        ("2", "line 4 (`labelled`) and line 5 (`unlabelled`)"),
    ],
)
def test_a_fix_names_all_loaders_that_it_changes(job: MakeJob, valid: str, named: str) -> None:
    fixes = [result.fix for result in job({"train.py": PAIRS.format(valid=valid)}).scan("GPU303")]
    assert len(fixes) == (3 if valid == "0" else 2)
    for fix in fixes:
        assert f"; it changes {named}" in fix.description
        assert {edit.span.line for edit in fix.edits} == ({4, 5, 6} if valid == "0" else {4, 5})


def test_a_fix_of_one_loader_names_no_other(job: MakeJob) -> None:
    text = PAIRS.format(valid="2").replace("zip(labelled, unlabelled)", "zip(labelled, others)")
    text = text.replace("plain), batch_size=64, num_workers=0)\nvalid", "plain), batch_size=64, num_workers=2)\nvalid")
    assert "it changes" not in job({"train.py": text}).offer("GPU303").description


LOCAL_COLLATE = """\
import cv2
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __getitem__(self, index):
        return cv2.imread(self.names[index])


class Strategy:
{function}
        return {given}


def main():
    loader = DataLoader(Frames(), batch_size=8, collate_fn=Strategy().get_collate())
    for epoch in range(90):
        for x in loader:
            loss = model(x.cuda()).sum()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
OF_METHOD = "    def get_collate(self):\n        def collate(batch):\n            return torch.stack(batch)\n"
OF_CLASS = "    def collate(self, batch):\n        return torch.stack(batch)\n\n    def get_collate(self):"


@pytest.mark.parametrize(
    ("function", "given", "is_local"), [(OF_METHOD, "collate", True), (OF_CLASS, "self.collate", False)]
)
def test_a_function_within_a_method_is_not_sent(job: MakeJob, function: str, given: str, is_local: bool) -> None:
    offered = job({"train.py": LOCAL_COLLATE.format(function=function, given=given)}).offer("GPU303")
    said = "`collate_fn` has to be a function of the module where workers are spawned instead of forked"
    assert (said in offered.description) is is_local


DRAWN_WHERE_MADE = """\
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def main():
    data = ImageFolder("train")
    for epoch in range(30):
        for images, labels in {loader}:
            model(images.cuda(non_blocking=True)).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "loader",
    [
        "DataLoader(data, batch_size=64, shuffle=True, pin_memory=True)",
        "tqdm(DataLoader(data, batch_size=64, shuffle=True, pin_memory=True))",
    ],
)
def test_a_loader_that_the_loop_over_it_makes_gets_workers(job: MakeJob, loader: str) -> None:
    fix = job({"train.py": DRAWN_WHERE_MADE.format(loader=loader)}).offer("GPU303")
    assert "num_workers=4" in fix.edits[-1].text
