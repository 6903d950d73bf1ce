"""What findings of loaders, copies, waits and passes over data cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, WAITS, bases, impacts, levels, scan

NUMBERS = """\
class Rows(Dataset):
    def __getitem__(self, index):
        return torch.from_numpy(read_csv(index))

loader = DataLoader(Rows(), batch_size=128, shuffle=True)
"""

CUT = """\
from torchvision import transforms

transform = transforms.Compose([transforms.RandomCrop({}), transforms.ToTensor()])
"""
"""A chain of which each part is known."""

KNOWN = IMAGES.replace("(self.paths[index])", "(self.paths[index]).convert('RGB')")
"""Images of which the channels are known."""

LARGE = CUT.format(512) + KNOWN.replace("=128, shuffle=True)", "=512, shuffle=True, pin_memory=True, num_workers=4)")
"""Batches of which a copy takes more than a tenth of a step."""


def test_decoding_images_in_the_training_process_costs_much_and_reading_rows_little(tmp_path: Path) -> None:
    assert levels(tmp_path / "a", {"net.py": "", "train.py": HEAD + IMAGES + TRAINING}, "GPU303") == ["high"]
    assert levels(tmp_path / "b", {"net.py": "", "train.py": HEAD + NUMBERS + TRAINING}, "GPU303") == ["low"]


def test_the_bytes_of_a_batch_decide_what_a_copy_costs(tmp_path: Path) -> None:
    workers = IMAGES.replace("=128, shuffle=True", "=256, num_workers=8")
    (photos,) = impacts(tmp_path / "a", {"net.py": "", "train.py": HEAD + workers + TRAINING})["GPU301"]
    assert str(photos.level) == "medium"
    assert photos.basis == "every step, batches of 256 from pageable memory"
    (alone,) = bases(tmp_path / "c", {"train.py": HEAD + IMAGES + TRAINING}, "GPU301")
    assert alone.startswith("low, every step, batches of 128 from pageable memory, no workers pin it ahead")
    (rows,) = impacts(tmp_path / "b", {"net.py": "", "train.py": HEAD + NUMBERS + TRAINING})["GPU301"]
    assert str(rows.level) == "low"


@pytest.mark.parametrize(
    ("more", "basis"),
    [
        ("", "low, every step, batches of 128"),
        (CUT.format(64), "low, every step, 6 MB"),
        (CUT.format(512), "high, every step, 403 MB"),
        # Nothing tells that these are the images.
        ("parser.add_argument('--img_size', type=int, default=512)\n", "medium, every step, batches of 128"),
    ],
)
def test_the_side_of_images_decides_what_a_copy_costs(tmp_path: Path, more: str, basis: str) -> None:
    text = HEAD + more + KNOWN.replace("shuffle=True", "num_workers=8") + TRAINING
    (found,) = bases(tmp_path, {"train.py": text}, "GPU301")
    assert found.startswith(f"{basis} from pageable memory")


@pytest.mark.parametrize(
    ("getter", "basis"),
    [
        ("image = cv2.resize(crop(cv2.imread(path), 896), (64, 64)) / 255\n        return to(image)", ""),
        ("image = cv2.resize(cv2.imread(path), (96, 64))\n        return to_tensor(image), self.labels[index]", "9 MB"),
        (
            "image = cv2.resize(cv2.imread(path), self.size)\n        return to_tensor(image), self.labels[index]",
            "9 MB",
        ),
        ("image = cv2.resize(cv2.imread(path), self.given)\n        return to_tensor(image), self.labels[index]", ""),
        ("image = to_tensor(cv2.resize(cv2.imread(path), (64, 64)))\n        return image[:, ::2], 0", ""),
        ("image = to_tensor(cv2.resize(cv2.imread(path), (64, 64)))\n        return np.zoom(image, 2)", ""),
        ("image = to_tensor(Image.open(path).convert('RGB').resize((64, 64)))\n        return image", "6 MB"),
        ("image = to_tensor(Image.open(path).convert('L').resize((64, 64)))\n        return image", "2 MB"),
        ("image = to_tensor(Image.open(path).resize((64, 64)))\n        return image", ""),
        ("image = Image.open(path).convert('RGB')\n        return resize(image, (64, 64)), ''", ""),
        (
            "image = cv2.imread(path)\n        if self.cut:\n            image = self.cut(image)\n"
            "        return to_tensor(cv2.resize(image, (64, 64))), self.masks[index]",
            "",
        ),
        (
            "image = augment(image=cv2.imread(path))['image']\n        return {'image': image, 'mask': read(path)}",
            "at least 25 MB",
        ),
        ("return self.read(path)\n\n    def read(self, path):\n        return cut(Image.open(path)), 1", "6 MB"),
        ("return two(Image.open(path).convert('RGB')), 1", ""),
    ],
)
def test_a_size_is_only_told_where_each_step_to_the_sample_is_known(tmp_path: Path, getter: str, basis: str) -> None:
    text = f"""\
import albumentations as A
import cv2
from PIL import Image
from albumentations.pytorch import ToTensorV2
from torchvision import transforms
from torchvision.transforms.functional import to_tensor

cut = transforms.Compose([transforms.Resize(512), transforms.CenterCrop(64), transforms.ToTensor(),
                          transforms.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])])
two = Twice(cut)
augment = A.Compose([A.RandomCrop(512, 512), A.Resize(128, 128), A.HorizontalFlip(), A.Normalize(), ToTensorV2()])

class Photos(Dataset):
    size = 96, 64
    given = sys.argv[1]

    def __getitem__(self, index):
        path = self.paths[index]
        {getter}

loader = DataLoader(Photos(), batch_size=128, num_workers=8)
"""
    (found,) = bases(tmp_path, {"train.py": HEAD + text + TRAINING}, "GPU301")
    assert f"every step, {basis or 'batches of 128'} from pageable memory" in found
    assert basis or not found.startswith("high")


@pytest.mark.parametrize(("more", "level"), [("", "low"), ("cut = transforms.Resize(512)\n", "medium")])
def test_images_of_unknown_size_are_taken_for_small_ones(tmp_path: Path, more: str, level: str) -> None:
    images = IMAGES.replace("batch_size=128, shuffle=True", "batch_size=64, num_workers=8")
    assert levels(tmp_path, {"net.py": "", "train.py": HEAD + images + more + TRAINING}, "GPU301") == [level]


ELSEWHERE = """\
large = transforms.Resize((768, 768))

def show(image):
    save(large(image), np.ones((16, 3, 512, 512)))

def make_loader(paths):
    return DataLoader(Photos(paths), batch_size=128, num_workers=8)

loader = make_loader(paths)
"""


@pytest.mark.parametrize(
    ("cut", "basis"),
    [
        ("", "batches of 128"),
        ("small = transforms.Compose([transforms.Resize((64, 64)), transforms.ToTensor()])\n", "6 MB"),
    ],
)
def test_the_side_of_other_images_of_a_module_does_not_count(tmp_path: Path, cut: str, basis: str) -> None:
    classes = KNOWN.split("loader =")[0].replace("transform(", "small(" if cut else "transform(")
    text = f"{HEAD}import numpy as np\nfrom torchvision import transforms\n{cut}{classes}{ELSEWHERE}{TRAINING}"
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU301"]
    assert f" {basis} from pageable memory" in impact.basis


@pytest.mark.parametrize(("cut", "level"), [("[:, :, index]", "low"), ("", "medium")])
def test_slices_of_volumes_are_images(tmp_path: Path, cut: str, level: str) -> None:
    data = (
        "import nibabel as nib\n\nclass Scans(Dataset):\n    def __getitem__(self, index):\n"
        f"        return torch.from_numpy(nib.load(self.paths[index]).get_fdata(){cut})\n\n"
        "net3d = None\nloader = DataLoader(Scans(), batch_size=16, num_workers=8)\n"
    )
    assert levels(tmp_path, {"net.py": "", "train.py": HEAD + data + TRAINING}, "GPU301") == [level]


def test_each_wait_of_a_step_counts(tmp_path: Path) -> None:
    one = HEAD + IMAGES + TRAINING
    three = one + "        right += (output == labels.cuda()).sum().item()\n        top = loss.item()\n"
    (single,) = impacts(tmp_path / "a", {"net.py": "", "train.py": one})["GPU305"]
    assert single.basis == "every step, the host waits for the GPU"
    assert {impact.basis for impact in impacts(tmp_path / "b", {"net.py": "", "train.py": three})["GPU305"]} == {
        "every step, 3 waits, 2 of them brief, right after another one"
    }


FACTORY = """\
import torch
from torch.utils.data import DataLoader
from net import Net, Birds

def made(mode):
    if mode == "train":
        train_loader = DataLoader(Birds("train"), 64, num_workers=4)
        return train_loader
    if mode == "test":
        test_loader = DataLoader(Birds("test"), 64, num_workers=4)
        return test_loader

model = Net().cuda()
for images in made(split):
    model(images.cuda()).backward()
    optimizer.step()
"""


def test_a_loader_that_is_made_for_the_test_is_not_read_in_every_step(tmp_path: Path) -> None:
    found = impacts(tmp_path, {"net.py": "", "train.py": FACTORY})["GPU301"]
    assert [impact.basis.partition(",")[0] for impact in found] == ["every step", "every evaluation batch"]


WARM_UP = """\
import torch
from torch.utils.data import DataLoader
from net import Net, Birds

def made(mode):
    if mode == "warmup":
        first_loader = DataLoader(Birds("train"), 64, num_workers=4)
        return first_loader
    elif mode == "train":
        train_loader = DataLoader(Birds("train"), 64, num_workers=4)
        return train_loader

def warm_up(loader):
    for images in loader:
        model(images.cuda()).backward()
        optimizer.step()

def train(loader):
    for images in loader:
        model(images.cuda()).backward()
        optimizer.step()

model = Net().cuda()
for epoch in range(80):
    if {test}:
        warm_up(made("warmup"))
    else:
        train(made("train"))
"""


@pytest.mark.parametrize(("test", "first"), [("epoch < 1", True), ("epoch == 0", True), ("epoch % 2 == 0", False)])
def test_a_loader_of_one_epoch_is_not_read_in_every_step(tmp_path: Path, test: str, first: bool) -> None:
    found = impacts(tmp_path, {"net.py": "", "train.py": WARM_UP.format(test=test)})["GPU301"]
    every = [impact.basis.partition(",")[0] for impact in found]
    assert sorted(every) == (["every step", "every step of some passes"] if first else ["every step", "every step"])


@pytest.mark.parametrize(("rows", "low"), [(20, True), (400_000, False)])
def test_a_pass_over_a_small_file_of_the_tree_costs_little(tmp_path: Path, rows: int, low: bool) -> None:
    text = (
        "import datasets, torch\nfrom net import Net\n\ntokenizer = BertTokenizer.from_pretrained('bert')\nrows = datasets.load_dataset('json', data_files='data/rows.jsonl')\n"
        "train = rows.map(lambda row: tokenizer(row['text']))\nmodel = Net().cuda()\n"
        "for batch in train:\n    model(batch.cuda()).backward()\n    optimizer.step()\n"
    )
    job = "#!/bin/bash\n#SBATCH --gres=gpu:8\npython train.py\n"
    files = {"net.py": "", "run.sh": job, "train.py": text, "data/rows.jsonl": '{"text": ""}\n' * rows}
    (impact,) = impacts(tmp_path, files)["GPU311"]
    assert ("a small file of the tree" in impact.basis) is low


@pytest.mark.parametrize(("rows", "low"), [(900, True), (400_000, False)])
def test_the_folder_that_a_program_names_holds_its_small_corpus(tmp_path: Path, rows: int, low: bool) -> None:
    program = """\
import os
import torch
from net import Net

tokenizer = BertTokenizer.from_pretrained("bert")

def read(folder, name):
    return open(os.path.join(folder, name)).readlines()

def convert_examples_to_features(examples):
    features = []
    for text in examples:
        features.append(tokenizer.tokenize(text))
    return features

train_examples = read("data/hotel", "train.txt")
others = read("data/hotel", "dev.txt")
train_features = convert_examples_to_features(train_examples)
model = Net().cuda()
for batch in batches(train_features):
    model(batch.cuda()).backward()
    optimizer.step()
"""
    long = "a clean room\t1\n" * 400_000
    files = {
        "data/hotel/train.txt": "a clean room\t1\n" * rows,
        "data/hotel/dev.txt": long,
        "data/other/train.txt": long,
    }
    job = "#!/bin/bash\n#SBATCH --gres=gpu:8\npython train.py\n"
    (impact,) = impacts(tmp_path, {"net.py": "", "run.sh": job, "train.py": program, **files})["GPU311"]
    assert ("a small file of the tree" in impact.basis) is low


def test_only_the_first_of_several_copies_keeps_its_level(tmp_path: Path) -> None:
    text = HEAD + IMAGES + TRAINING
    report = scan(tmp_path, {"net.py": "", **{f"exp{n}/train.py": text + f"seed = {n}\n" for n in range(3)}})
    found = [
        (result.finding.path.parent.name, str(result.finding.impact.level))
        for result in report.results
        if result.finding.rule.code == "GPU303"
    ]
    assert found == [("exp0", "high"), ("exp1", "low"), ("exp2", "low")]


@pytest.mark.parametrize(
    ("reads", "level", "basis"),
    [
        ("    total += loss.item()\n", "low", "every step, the host waits for the GPU"),
        # The queue is empty when the second value is read.
        (
            "    total += loss.item()\n    bar.set_postfix(loss=loss.item())\n",
            "low",
            "every step, 2 waits, 1 of them brief, right after another one, line 11 waits in any case (`loss.item()`)",
        ),
        (
            "    total += loss.item()\n    real = critic(labels)\n    real.backward()\n    other += real.item()\n",
            "low",
            "every step, 2 waits",
        ),
        (
            "    for loss in output:\n        total += loss.item()\n",
            "medium",
            "every step, a wait in an inner loop",
        ),
        (
            "    for row in range(40):\n        total += output[row].item()\n",
            "medium",
            "every step, a wait in an inner loop, 40 per step",
        ),
        # What a loop goes through is copied once.
        (
            "    for row in labels.tolist():\n        rows.append(row)\n",
            "low",
            "every step, a wait, work on the host and a copy back",
        ),
        (
            "    if epoch > 3:\n        total += loss.item()\n    else:\n        loss.backward()\n        other += loss.item()\n",
            "low",
            "every step that gets there, the host waits for the GPU",
        ),
    ],
)
def test_reads_that_follow_each_other_wait_once(tmp_path: Path, reads: str, level: str, basis: str) -> None:
    found = impacts(tmp_path, {"net.py": "", "train.py": WAITS + reads})["GPU305"]
    assert (level, basis) in {(str(impact.level), impact.basis) for impact in found}
    assert {str(impact.level) for impact in found} == {level}


@pytest.mark.parametrize(
    ("release", "basis"),
    [
        ("2.6", "the pipeline and the GPU take turns"),
        # From 2.12 on TensorFlow prefetches by itself.
        ("2.15", "one core maps the samples of the batches that are prepared ahead"),
    ],
)
def test_a_pipeline_takes_turns_with_the_gpu_only_where_nothing_prefetches(
    tmp_path: Path, release: str, basis: str
) -> None:
    text = (
        "import tensorflow as tf\n\n\ndef load(path):\n    return tf.py_function(load_video, [path], tf.float32)\n\n\n"
        "data = tf.data.Dataset.list_files('videos/*.mpg').map(load).batch(2)\nmodel.fit(data)\n"
    )
    files = {"train.py": text, "requirements.txt": f"tensorflow=={release}\n"}
    assert {f"every step, {basis}, seldom worth a change"} == {
        impact.basis for impact in impacts(tmp_path, files)["GPU307"]
    }


def test_a_copy_that_a_solver_needs_is_in_no_inner_loop(tmp_path: Path) -> None:
    reads = "    near = linear_sum_assignment(output.detach().cpu().numpy())\n"
    text = f"from scipy.optimize import linear_sum_assignment\n{WAITS}{reads}"
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU305"]
    assert impact.basis == "every step, the host needs the value"


@pytest.mark.parametrize(
    ("name", "more", "counts"),
    [
        ("sample.sh", " --eval_batch_size=16", False),
        ("train.sh", " --eval_batch_size=16", True),
        ("train.sh", " --eval_batch_size=2", False),
        ("train.sh", "", False),
    ],
)
def test_a_small_batch_counts_where_more_is_seen_to_fit_in_training(
    tmp_path: Path, name: str, more: str, counts: bool
) -> None:
    files = {
        "sample.py": "import torch\nmodel = torch.load('model.pt').cuda()\nprint(model(4))\n",
        name: f"#!/bin/sh\n#SBATCH --gpus=1\npython sample.py --batch_size=1{more}\n",
    }
    (impact,) = impacts(tmp_path, files)["GPU201"]
    assert ("seldom worth a change" in impact.basis) is counts


@pytest.mark.parametrize(("pinned", "level"), [("", "low"), (", pin_memory=True", "medium")])
def test_a_blocking_copy_from_pageable_memory_counts_where_the_loader_is(
    tmp_path: Path, pinned: str, level: str
) -> None:
    loader = CUT.format(512)
    loader += KNOWN.replace("shuffle=True", f"shuffle=True, num_workers=8{pinned}").replace("=128", "=512")
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": HEAD + loader + TRAINING})["GPU302"][:1]
    assert str(impact.level) == level


@pytest.mark.parametrize(("side", "level"), [(256, "low"), (512, "medium"), (1024, "high")])
def test_a_blocking_copy_counts_from_a_tenth_of_a_step(tmp_path: Path, side: int, level: str) -> None:
    text = HEAD + LARGE.replace("(512)", f"({side})") + TRAINING
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU302")[:1] == [level]


def test_zero_workers_of_a_configuration_cost_little_and_images_much(tmp_path: Path) -> None:
    files = {
        "net.py": "",
        "train.py": HEAD + IMAGES + TRAINING,
        "config/train.yaml": "batch_size: 64\nlearning_rate: 0.1\nepochs: 3\nnum_workers: 0\n",
    }
    assert sorted(str(impact.level) for impact in impacts(tmp_path, files)["GPU303"]) == ["high", "low"]


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    text = """\
import torch
from torchvision import transforms
from torchvision.datasets import ImageFolder
from net import model

grey = transforms.Compose([transforms.Grayscale(), transforms.Resize((256, 256)), transforms.ToTensor()])
loader = torch.utils.data.DataLoader(ImageFolder("data", transform=grey), batch_size=32)
for epoch in range(9):
    for x, y in loader:
        model(x.cuda()).sum().backward()
"""
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU301"]
    assert impact.basis == "every step, 8 MB from pageable memory"


_SIZED = """\
SIDE = 32

class Photos(Dataset):
    def __init__(self, paths, side):
        self.paths = paths
        self.{first} = transforms.Compose([transforms.Resize(256), transforms.CenterCrop({size}), transforms.ToTensor()])
        self.{second} = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])

    def __getitem__(self, index):
        return self.small(Image.open(self.paths[index]).convert("RGB"))

    def preview(self, index):
        return self.large(Image.open(self.paths[index]))
"""


@pytest.mark.parametrize(
    ("size", "attributes", "said"),
    [
        ("32", ("small", "large"), "2 MB from pageable memory"),
        ("(SIDE, SIDE)", ("small", "large"), "2 MB from pageable memory"),
        ("side", ("small", "large"), "2 MB from pageable memory"),
        ("32", ("large", "small"), "77 MB from pageable memory"),
    ],
)
def test_images_have_the_side_of_the_transforms_that_make_a_sample(
    tmp_path: Path, size: str, attributes: tuple[str, str], said: str
) -> None:
    first, second = attributes
    data = "from PIL import Image\nfrom torchvision import transforms\nfrom torch.utils.data import Dataset\n"
    data += _SIZED.format(size=size, first=first, second=second)
    text = HEAD + "from data import Photos\n\nloader = DataLoader(Photos(paths, 32), batch_size=128, num_workers=8)\n"
    (impact,) = impacts(tmp_path, {"net.py": "", "data.py": data, "train.py": text + TRAINING})["GPU301"]
    assert impact.basis == f"every step, {said}"


@pytest.mark.parametrize(
    ("sample", "level"),
    [
        ("np.load(self.image_paths[index])", "low"),
        ("transform(np.load(self.image_paths[index]))", "medium"),
        ("Image.open(self.image_paths[index])", "medium"),
    ],
)
def test_features_that_are_read_are_no_images(tmp_path: Path, sample: str, level: str) -> None:
    text = (HEAD + IMAGES + TRAINING).replace("self.paths", "self.image_paths")
    text = text.replace("128, shuffle=True", "512, num_workers=8")
    text = "import numpy as np\n" + text.replace("transform(Image.open(self.image_paths[index]))", sample)
    assert bases(tmp_path, {"train.py": text}, "GPU301") == [
        f"{level}, every step, batches of 512 from pageable memory"
    ]


def test_samples_that_are_joined_of_pieces_have_no_known_size(tmp_path: Path) -> None:
    def said(sample: str) -> str:
        text = (HEAD + CUT.format(224) + KNOWN + TRAINING).replace("batch_size=128", "batch_size=16, num_workers=4")
        text = text.replace("transform(Image.open(self.paths[index]).convert('RGB'))", sample)
        (impact,) = impacts(tmp_path / str(len(sample)), {"net.py": "", "train.py": text})["GPU301"]
        return impact.basis

    pieces = "torch.stack([transform(crop) for crop in crops(Image.open(self.paths[index]))])"
    assert said(pieces).startswith("every step, batches of 16 from pageable memory")
    assert said("transform(Image.open(self.paths[index]).convert('RGB'))") == "every step, 10 MB from pageable memory"


def test_volumes_come_in_small_batches(tmp_path: Path) -> None:
    text = (
        (HEAD + IMAGES + TRAINING)
        .replace("batch_size=128", "batch_size=size, num_workers=2")
        .replace("from PIL", "import nibabel\nfrom PIL")
    )
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text.replace("Image.open", "nibabel.load")})["GPU301"]
    assert str(impact.level) == "medium"
    assert impact.basis == "every step, batches from pageable memory"


def test_loaders_of_two_branches_count_once(tmp_path: Path) -> None:
    other = (
        "\nif weighted:\n    loader = DataLoader(Photos(paths), batch_size=128, sampler=weights)\nelse:\n    loader ="
    )
    files = {"train.py": HEAD + IMAGES.replace("\nloader =", other) + TRAINING}
    found = bases(tmp_path, files, "GPU303")
    assert [one.partition(",")[0] for one in found] == ["high", "low"]
    assert found[1].endswith("as in the branch above")


def test_a_loader_that_is_made_where_none_was_counts_once(tmp_path: Path) -> None:
    other = (
        "\nloader = None\nif weighted:\n    loader = DataLoader(Photos(paths), batch_size=128, sampler=weights)"
        "\nif loader is None:\n    loader ="
    )
    files = {"train.py": HEAD + IMAGES.replace("\nloader =", other) + TRAINING}
    found = bases(tmp_path, files, "GPU303")
    assert [one.partition(",")[0] for one in found] == ["high", "low"]
    assert found[1].endswith("as in the branch above")


@pytest.mark.parametrize(("sizes", "shown"), [((4, 128), 128), ((128, 4), 128), ((128, 128), 128)])
def test_of_loaders_set_up_alike_the_one_with_most_work_counts(
    tmp_path: Path, sizes: tuple[int, int], shown: int
) -> None:
    data, _ = IMAGES.split("loader =")
    makes = "".join(
        f"loader_{name} = DataLoader(Photos({name}), batch_size={size})\n"
        for name, size in zip(("old", "new"), sizes, strict=True)
    )
    loops = "".join(TRAINING.replace("in loader", f"in loader_{name}") for name in ("old", "new"))
    found = impacts(tmp_path, {"net.py": "", "train.py": HEAD + data + makes + loops})["GPU303"]
    (high,) = [one.basis for one in found if str(one.level) == "high"]
    assert f"batches of {shown} in" in high and len(found) == 2


@pytest.mark.parametrize(("switch", "level"), [("True", "low"), ("False", "high"), ("args.debug", "high")])
def test_a_switch_that_ends_the_first_round_leaves_little_to_wait_for(tmp_path: Path, switch: str, level: str) -> None:
    program = f"DEBUG = {switch}\n" + HEAD + IMAGES + TRAINING.rstrip("\n") + "\n"
    last = program.splitlines()[-1]
    indent = last[: len(last) - len(last.lstrip())]
    files = {"net.py": "", "train.py": f"{program}{indent}if DEBUG:\n{indent}    break\n"}
    (found,) = bases(tmp_path, files, "GPU303")
    assert found.startswith(level)


def test_one_evaluation_after_the_training_costs_little(tmp_path: Path) -> None:
    test = "\ntest_loader = DataLoader(Photos(held_out), batch_size=128)\nfor x, y in test_loader:\n    score(model(x.cuda()), y)\n"
    files = {"train.py": HEAD + IMAGES + TRAINING + test}
    found = bases(tmp_path, files, "GPU303")
    assert [one.partition(",")[0] for one in found] == ["high", "low"]
    assert found[1].startswith("low, every evaluation batch")


@pytest.mark.parametrize(("last", "level"), [("run(test_loader, train=False)", "low"), ("run(test_loader)", "high")])
def test_a_pass_without_steps_through_the_loop_of_the_training_costs_little(
    tmp_path: Path, last: str, level: str
) -> None:
    program = (
        "def run(loader, train=True):\n"
        "    for x, y in loader:\n"
        "        loss = criterion(model(x.cuda()), y.cuda())\n"
        "        if train:\n"
        "            loss.backward()\n"
        "            optimizer.step()\n"
        "\n\n"
        "def main():\n"
        "    train_loader = DataLoader(Photos(paths), batch_size=128, num_workers=8)\n"
        "    for epoch in range(90):\n"
        "        run(train_loader)\n"
        "    test_loader = DataLoader(Photos(held_out), batch_size=128)\n"
        f"    {last}\n"
        "\n\nmain()\n"
    )
    (found,) = bases(tmp_path, {"train.py": HEAD + IMAGES.partition("\nloader =")[0] + "\n" + program}, "GPU303")
    assert found.startswith(level), found


def test_loaders_for_evaluation_count_with_the_training_loader(tmp_path: Path) -> None:
    """Who sets the workers of one loader sets those of both."""
    held_out = "val_loader = DataLoader(Photos(held_out), batch_size=128)\n"
    evaluation = (
        "    model.eval()\n    with torch.no_grad():\n"
        "        for x, y in val_loader:\n            score(model(x.cuda()), y)\n"
    )
    text = HEAD + IMAGES + held_out + TRAINING + evaluation
    first, second = bases(tmp_path / "a", {"train.py": text}, "GPU303")
    assert first.startswith("high")
    assert second.startswith("low, every evaluation batch")
    (alone,) = bases(tmp_path / "b", {"train.py": text.replace("shuffle=True", "num_workers=8")}, "GPU303")
    assert alone.startswith("low"), alone


def test_samples_that_map_made_before_cost_little(tmp_path: Path) -> None:
    prepare = (
        "from datasets import load_dataset\nimport torchaudio\n"
        "data = load_dataset('speech').map(torchaudio_features, {}batched=True)\n"
        "loader = DataLoader(data, batch_size=16)\n"
    )
    (found,) = bases(
        tmp_path / "a", {"train.py": HEAD + prepare.format("remove_columns=['audio'], ") + TRAINING}, "GPU303"
    )
    assert found.startswith("low") and found.endswith("(nothing but look-ups is seen)")
    (found,) = bases(tmp_path / "b", {"train.py": HEAD + prepare.format("") + TRAINING}, "GPU303")
    assert found.startswith("low") and found.endswith("(what a sample costs is unknown)")


def test_a_helper_for_batches_of_several_forms_counts_once(tmp_path: Path) -> None:
    helper = (
        "def unpacked(batch):\n    if isinstance(batch, tuple):\n        return batch[0].to('cuda')\n"
        "    elif torch.is_tensor(batch):\n        return batch.to('cuda')\n"
    )
    steps = TRAINING.replace("images, labels in loader", "batch in loader").replace("images.cuda()", "unpacked(batch)")
    files = {"train.py": HEAD + LARGE + helper + steps.replace(", labels.cuda()", "")}
    found = bases(tmp_path, files, "GPU302")
    assert [one.partition(",")[0] for one in found] == ["medium", "low"]
    assert found[1].endswith("with the copy above it")


def test_copies_of_the_parts_of_a_batch_count_once(tmp_path: Path) -> None:
    steps = TRAINING.replace("images, labels in loader", "batch in loader").replace(
        "loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())",
        "images = batch['images'].cuda()\n"
        "        print(epoch)\n"
        "        parts = [part.cuda() for part in batch['parts']]\n"
        "        loss = model(images, parts).sum()",
    )
    first, *others = bases(tmp_path, {"train.py": HEAD + LARGE + steps}, "GPU302")
    assert first.startswith("medium"), first
    assert others and all(one.startswith("low") and one.endswith("with the copy above it") for one in others), others


def test_masks_have_a_byte_for_each_pixel(tmp_path: Path) -> None:
    steps = (
        "model = Net().cuda()\nfor images, masks in loader:\n"
        "    {}\n    model(images, masks).sum().backward()\n    optimizer.step()\n"
    )
    (found,) = bases(tmp_path / "a", {"train.py": HEAD + LARGE + steps.format("masks = masks.cuda()")}, "GPU302")
    assert found.startswith("low") and "26 MB in a blocking copy (a class per pixel)" in found
    (found,) = bases(tmp_path / "b", {"train.py": HEAD + LARGE + steps.format("images = images.cuda()")}, "GPU302")
    assert found.startswith("medium")


@pytest.mark.parametrize("model", ["UNet3DClassifier()", "nn.Sequential(nn.Conv3d(1, 8, 3))"])
def test_masks_of_volumes_have_no_size_by_their_name(tmp_path: Path, model: str) -> None:
    steps = (
        f"model = {model}.cuda()\nfor images, masks in loader:\n"
        "    masks = masks.cuda()\n    model(images, masks).sum().backward()\n    optimizer.step()\n"
    )
    (found,) = bases(tmp_path, {"train.py": HEAD + LARGE + steps}, "GPU302")
    assert "per pixel" not in found and "in a blocking copy" in found


@pytest.mark.parametrize("size", [12, 64])
def test_a_data_set_may_make_the_batches(tmp_path: Path, size: int) -> None:
    program = HEAD + "import webdataset\nfrom torchvision import transforms\n"
    program += "crop = transforms.Compose([transforms.RandomCrop(256), transforms.ToTensor()])\n"
    program += "samples = webdataset.WebDataset(urls).decode('pil').map(crop)\n"
    program += f"loader = DataLoader(samples.batched({size}), num_workers=8, batch_size=None)\n"
    (found,) = bases(tmp_path, {"train.py": program + TRAINING}, "GPU301")
    assert f"batches of {size} from pageable memory" in found


def test_the_largest_interval_of_several_configurations_counts(tmp_path: Path) -> None:
    saves = TRAINING.replace(
        "        total += loss.item()\n",
        "        if step % config['save_every'] == 0:\n            torch.save(model.state_dict(), 'last.pt')\n",
    ).replace("for images, labels in loader", "for step, (images, labels) in enumerate(loader)")
    text = (
        "import argparse\nimport yaml\n" + HEAD + IMAGES + "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--config')\nargs = parser.parse_args()\nconfig = yaml.safe_load(open(args.config))\n"
    )
    files = {
        "net.py": "",
        "train.py": text + saves,
        "train.sh": "python train.py --config train.yaml\n",
        "show.sh": "python train.py --config show.yaml\n",
        "train.yaml": "save_every: 500\n",
        "show.yaml": "save_every: 2\n",
    }
    (found,) = impacts(tmp_path, files)["GPU211"]
    assert found.basis.startswith("every 500 steps"), found.basis


def test_slices_of_volumes_are_as_large_as_images(tmp_path: Path) -> None:
    volumes = IMAGES.replace("from PIL import Image", "import nibabel").replace("Image.open", "nibabel.load")
    volumes = volumes.replace("shuffle=True", "num_workers=8").replace("=128", "=16")
    slices = volumes.replace("self.paths[index])", "self.paths[index], random_slice=True)")
    (whole,) = bases(tmp_path / "a", {"train.py": HEAD + volumes + TRAINING}, "GPU301")
    (flat,) = bases(tmp_path / "b", {"train.py": HEAD + slices + TRAINING}, "GPU301")
    assert whole == "medium, every step, batches of 16 from pageable memory"
    assert flat == "low, every step, batches of 16 from pageable memory"


@pytest.mark.parametrize(
    ("getter", "level"),
    [
        (
            "bars = self.bars[index]  # open, high, low, close, volume\n        return bars[['close', 'volume']]",
            "low",
        ),
        ("volume = self.rng.uniform(0.5, 2)\n        return librosa.load(self.paths[index])[0] * volume", "low"),
        ("path = self.paths[index]  # volume_1_slice_2.png\n        return transform(Image.open(path))", "low"),
        ("return transform(imread(self.volume_slices[index]))", "low"),
        ("volume, k = self.volumes[index], self.index[index]\n        return volume[k, ...], self.voxels", "low"),
        ("return self.volumes[index][np.newaxis, :, :, :], self.voxels", "medium"),
        ("return self.volumes[index][np.newaxis, :, :], self.voxels", "low"),
        ("volume = np.load(self.paths[index])\n        return crop(volume, self.voxel_size)", "medium"),
    ],
)
def test_only_what_is_said_of_space_makes_a_volume(tmp_path: Path, getter: str, level: str) -> None:
    data = f"class Data(Dataset):\n    def __getitem__(self, index):\n        {getter}\n\n"
    data += "loader = DataLoader(Data(), batch_size=16, num_workers=8)\n"
    (found,) = bases(tmp_path, {"net.py": "", "train.py": HEAD + data + TRAINING}, "GPU301")
    assert found == f"{level}, every step, batches of 16 from pageable memory"


def test_each_loader_has_the_transform_of_its_own_data_set(tmp_path: Path) -> None:
    program = HEAD + "from torchvision import transforms\nfrom torchvision.datasets import ImageFolder\n"
    program += "cut = {'train': transforms.Compose([transforms.RandomResizedCrop(128), transforms.ToTensor()]),\n"
    program += "       'val': transforms.Compose([transforms.Resize(512), transforms.CenterCrop(448)])}\n"
    program += "whole = transforms.Compose([transforms.Resize((512, 512)), transforms.ToTensor()])\n"
    program += "data, large = ImageFolder('a', transform=cut['train']), ImageFolder('b', transform=whole)\n"
    first = "loader = DataLoader(data, batch_size=128, num_workers=8)\n"
    (found,) = bases(tmp_path / "a", {"train.py": program + first + TRAINING}, "GPU301")
    assert "25 MB from pageable memory" in found
    second = first.replace("(data", "(large")
    (found,) = bases(tmp_path / "b", {"train.py": program + second + TRAINING}, "GPU301")
    assert "403 MB from pageable memory" in found


@pytest.mark.parametrize(
    ("chain", "basis"),
    [
        ("[transforms.Resize(256), transforms.CenterCrop(64), transforms.ToTensor()]", "6 MB"),
        (
            "[transforms.Resize((512, 512)), transforms.ToTensor(), transforms.RandomCrop(size)]",
            "batches of 128",
        ),
        ("[transforms.RandomCrop(256), transforms.Resize(64), transforms.ToTensor()]", "6 MB"),
        ("[transforms.RandomApply([transforms.RandomCrop(32)]), transforms.ToTensor()]", "batches of 128"),
        ("[transforms.RandomCrop(64), transforms.ToTensor(), transforms.Pad(64)]", "batches of 128"),
    ],
)
def test_images_that_are_cut_after_they_were_scaled_are_as_large_as_the_cut(
    tmp_path: Path, chain: str, basis: str
) -> None:
    text = f"{HEAD}from torchvision import transforms\ntransform = transforms.Compose({chain})\n"
    text += KNOWN.replace("shuffle=True", "num_workers=8") + TRAINING
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU301"]
    assert f" {basis} from pageable memory" in impact.basis


@pytest.mark.parametrize(("size", "level"), [("10000", "low"), ("len(data)", "medium")])
def test_a_part_of_the_data_for_a_few_epochs_takes_seconds(tmp_path: Path, size: str, level: str) -> None:
    program = (
        "import torch\nfrom torchvision import datasets, transforms\nfrom net import Net\n\n"
        "data = datasets.CIFAR10('data', transform=transforms.Compose([transforms.ToTensor()]))\n"
        f"part = torch.utils.data.Subset(data, torch.randperm(len(data))[:{size}])\n"
        "loader = torch.utils.data.DataLoader(part, batch_size=256, num_workers=0)\n"
    )
    program += TRAINING.replace("range(90)", "range(10)").replace("nn.functional", "torch.nn.functional")
    assert levels(tmp_path, {"net.py": "", "train.py": program}, "GPU303") == [level]


@pytest.mark.parametrize(("lines", "level"), [("", "medium"), ("for part in images.split(4):\n            ", "low")])
def test_a_copy_before_several_passes_costs_little(tmp_path: Path, lines: str, level: str) -> None:
    passes = f"        {lines}loss = model(images.cuda()).mean()\n".replace(
        "images.cuda()", "part" if lines else "images.cuda()"
    )
    program = HEAD + IMAGES.replace("=128, shuffle=True", "=256, num_workers=8")
    program += "model = Net().cuda()\nfor epoch in range(90):\n    for images in loader:\n"
    program += "        images = images.cuda()\n" if lines else ""
    program += passes + ("            " if lines else "        ") + "loss.backward()\n        optimizer.step()\n"
    assert levels(tmp_path, {"net.py": "", "train.py": program}, "GPU301") == [level]


def test_a_loader_of_graphs_that_a_trainer_predicts_with(tmp_path: Path) -> None:
    text = (
        "import lightning as L\nimport torch\nfrom torch_geometric.loader import DataLoader\n"
        "from utils import transforms\n\n\ndef sample(data, model):\n"
        "    loader = DataLoader([transforms.featurize(one) for one in data], batch_size=5)\n"
        "    return L.Trainer(accelerator='gpu').predict(model.cuda(), loader)\n"
    )
    (impact,) = impacts(tmp_path, {"sample.py": text})["GPU301"]
    assert impact.basis.startswith("every evaluation batch, batches of 5 from pageable memory")


@pytest.mark.parametrize(("library", "level"), [("torch_geometric.loader", "medium"), ("torch.utils.data", "low")])
def test_the_library_of_a_loader_tells_graphs_where_words_of_the_module_are_a_guess(
    tmp_path: Path, library: str, level: str
) -> None:
    loader = (
        f"from {library} import DataLoader\nfrom utils import transforms\n\n"
        "loader = DataLoader([transforms.featurize(one) for one in data], batch_size=1024, num_workers=4)\n"
    )
    (found,) = bases(tmp_path, {"train.py": HEAD + loader + TRAINING}, "GPU301")
    assert found == f"{level}, every step, batches of 1024 from pageable memory"


MANAGER = """\
import argparse
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

class Manager:
    def __init__(self, args):
        self.data = ImageFolder(args.folder)

    def loader(self, batch_size):
        return DataLoader(self.data, batch_size=batch_size)

def try_it():
    args.batch_size = 60
    for images, labels in Manager(args).loader(batch_size=args.batch_size):
        print(images.shape)

if __name__ == "__main__":
    args = argparse.ArgumentParser().parse_args()
    try_it()
"""

MANAGED = """\
from data import Manager
from net import Net

def train(args):
    model = Net().cuda()
    for epoch in range(100):
        for images, labels in Manager(args).loader({size}):
            model(images.cuda()).mean().backward()
            optimizer.step()

train(read_options())
"""


@pytest.mark.parametrize(
    ("size", "basis"),
    [("128", "batches of 128"), ("args.size", "every step, loading in the training process")],
)
def test_the_self_test_of_a_module_says_nothing_of_the_batches(tmp_path: Path, size: str, basis: str) -> None:
    found = bases(tmp_path, {"data.py": MANAGER, "train.py": MANAGED.format(size=size)}, "GPU303")
    assert [basis in one for one in found] == [True]


def test_a_program_with_classes_for_others_says_its_own_batches(tmp_path: Path) -> None:
    program = MANAGER.replace("print(images.shape)", "model(images.cuda()).mean().backward()")
    (one,) = bases(tmp_path, {"data.py": program, "show.py": "from data import Manager\n\nshow(Manager)\n"}, "GPU303")
    assert "batches of 60" in one


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("from store import samples\n\ndef train():", "low, every step, batches of 512 from pageable memory"),
        ("def train():\n    samples = Photos(paths)", "medium, every step, batches of 512 from pageable memory"),
    ],
)
def test_words_of_a_module_say_nothing_of_an_unknown_data_set(tmp_path: Path, source: str, told: str) -> None:
    photos = "class Photos(Dataset):\n    def __getitem__(self, index):\n        return cv2.imread(self.paths[index])\n"
    loader = "    loader = DataLoader(samples, batch_size=512, num_workers=8)\n"
    training = "".join(f"    {line}\n" for line in TRAINING.splitlines())
    program = f"{HEAD}import cv2\n\n{photos}\n{source}\n{loader}{training}\ntrain()\n"
    (found,) = bases(tmp_path, {"train.py": program}, "GPU301")
    assert told in found


@pytest.mark.parametrize(
    ("copied", "loss", "is_number"),
    [
        ("labels", "nn.functional.mse_loss(model(images), labels)", True),
        ("target", "nn.functional.cross_entropy(model(images), target)", True),
        ("target", "nn.functional.mse_loss(model(images), target)", False),
        ("heatmap_target", "nn.functional.cross_entropy(model(images), heatmap_target)", False),
        ("label", "nn.functional.cross_entropy(model(images), label[:, :, 4])", False),
        ("y", "nn.functional.l1_loss(model(images), y)", False),
    ],
)
def test_only_what_is_known_to_be_a_label_is_a_number_per_sample(
    tmp_path: Path, copied: str, loss: str, is_number: bool
) -> None:
    steps = (
        f"model = Net().cuda()\nfor images, {copied} in loader:\n"
        f"    {copied} = {copied}.cuda()\n    loss = {loss}\n    loss.backward()\n    optimizer.step()\n"
    )
    (found,) = bases(tmp_path, {"train.py": HEAD + LARGE + steps}, "GPU302")
    assert ("a number per sample" in found) is is_number, found
