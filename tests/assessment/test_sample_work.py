"""What a loader without workers costs, by the work that is seen for each sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, bases, scan

ROWS = """\
class Rows(Dataset):
    def __init__(self, names):
        self.names = names
        self.kept = {{}}

    def __getitem__(self, index):
{body}

loader = DataLoader(Rows(names), batch_size=128, shuffle=True)
"""


def found(folder: Path, text: str) -> str:
    """The level and basis of the only loader without workers."""
    report = scan(folder, {"net.py": "", "train.py": HEAD + text + TRAINING})
    (impact,) = (one.finding.impact for one in report.results if one.finding.rule.code == "GPU303")
    return f"{impact.level}, {impact.basis}"


def rows(*lines: str) -> str:
    return ROWS.format(body="\n".join(f"        {line}" for line in lines))


@pytest.mark.parametrize(
    ("text", "level", "work"),
    [
        (
            rows("return cv2.imread(self.names[index]), 0").replace("class", "import cv2\n\nclass", 1),
            "high",
            "image decoding",
        ),
        (rows("return torch.load(self.names[index])"), "high", "file reading"),
        (
            "import torchvision\n"
            "loader = DataLoader(torchvision.datasets.ImageFolder('photos'), batch_size=128, shuffle=True)\n",
            "high",
            "image decoding",
        ),
    ],
)
def test_work_that_is_seen_for_each_sample_decides(tmp_path: Path, text: str, level: str, work: str) -> None:
    basis = found(tmp_path, text)
    assert basis == f"{level}, every step, batches of 128 in the training process ({work})"


@pytest.mark.parametrize(
    ("image", "work"),
    [
        ("Image.fromarray(self.names[index])", "transforms"),
        ("Image.fromarray(self.names[index]).resize((48, 48))", "transforms"),
        ("Image.new('L', (48, 48)) if index else Image.fromarray(self.names[index])", "transforms"),
        ("self.names[index]", "image decoding"),
        ("Image.open(self.names[index]).resize((48, 48))", "image decoding"),
        ("Image.fromarray(self.names[index]) if index else self.names[0]", "image decoding"),
    ],
)
def test_images_of_arrays_need_no_decoding(tmp_path: Path, image: str, work: str) -> None:
    text = "from PIL import Image\n\n" + rows(f"image = {image}", "return np.asarray(image.convert('RGB')), 0")
    assert f"every step, batches of 128 in the training process ({work})" in found(tmp_path, text)


def test_an_image_that_each_round_turns_is_followed_to_its_end(tmp_path: Path) -> None:
    lines = ("image = Image.fromarray(self.names[index])", "for _ in range(4):", "    image = image.rotate(90)")
    basis = found(tmp_path, "from PIL import Image\n\n" + rows(*lines, "return np.asarray(image.convert('RGB')), 0"))
    assert "every step, batches of 128 in the training process" in basis


@pytest.mark.parametrize(("saves", "decodes"), [("torch.save(image, kept)", False), ("print(kept)", True)])
def test_samples_that_are_saved_are_read_from_the_second_epoch_on(tmp_path: Path, saves: str, decodes: bool) -> None:
    lines = (
        "kept = self.names[index] + '.pt'",
        "if os.path.exists(kept):",
        "    return torch.load(kept), 0",
        "image = cv2.imread(self.names[index])",
        saves,
        "return image, 0",
    )
    basis = found(tmp_path, "import os\n\nimport cv2\n\n" + rows(*lines))
    assert "file reading" in basis
    assert ("image decoding" in basis) is decodes


@pytest.mark.parametrize("reader", ["pydicom.dcmread(name).pixel_array", "tifffile.imread(name)"])
def test_files_that_hold_an_image_as_a_rule_are_no_volumes(tmp_path: Path, reader: str) -> None:
    imports = f"import {reader.partition('.')[0]}\n\n"
    basis = found(tmp_path, imports + rows("name = self.names[index]", f"return {reader}, 0"))
    assert basis.endswith("(image decoding)")


def test_helpers_of_the_data_set_are_followed(tmp_path: Path) -> None:
    helper = "import cv2\n\ndef read(name):\n    return cv2.imread(name)\n\n"
    assert "image decoding" in found(tmp_path, helper + rows("return read(self.names[index]), 0"))


def test_a_data_set_that_keeps_its_samples_costs_little(tmp_path: Path) -> None:
    lines = (
        "if index not in self.kept:",
        "    self.kept[index] = cv2.imread(self.names[index])",
        "return self.kept[index], 0",
    )
    basis = found(tmp_path, "import cv2\n\n" + rows(*lines))
    assert basis.startswith("low") and basis.endswith("the data set keeps its samples")


@pytest.mark.parametrize(
    ("decorator", "level"),
    [("@functools.cache\n", "low"), ("@lru_cache(maxsize=None)\n", "low"), ("@lru_cache\n", "high"), ("", "high")],
)
def test_a_function_that_keeps_what_it_reads_decodes_once(tmp_path: Path, decorator: str, level: str) -> None:
    helper = f"import functools\nfrom functools import lru_cache\n\nimport cv2\n\n{decorator}def read(name):\n"
    basis = found(tmp_path, helper + "    return cv2.imread(name)\n\n" + rows("return read(self.names[index]), 0"))
    assert basis.startswith(level)
    assert ("image decoding" in basis) is (level == "high")


@pytest.mark.parametrize(
    ("stored", "level"), [("cv2.imread(self.names[index])", "low"), ("h5py.File(self.names[index])", "high")]
)
def test_a_method_that_keeps_samples_reads_them_once_but_not_one_that_keeps_files(
    tmp_path: Path, stored: str, level: str
) -> None:
    helper = (
        "return self.load(index), 0\n\n"
        "    def load(self, index):\n"
        "        if index not in self.kept:\n"
        f"            self.kept[index] = {stored}\n"
        "        return self.kept[index][index]"
    )
    assert found(tmp_path, "import cv2\nimport h5py\n\n" + rows(helper)).startswith(level)


@pytest.mark.parametrize(
    ("data_set", "steps", "level"),
    [
        ("CacheDataset", "LoadImaged('image'), Spacingd('image')", "low"),
        ("Dataset", "LoadImaged('image'), Spacingd('image')", "high"),
    ],
)
def test_a_data_set_that_holds_volumes_reads_none_in_a_step(
    tmp_path: Path, data_set: str, steps: str, level: str
) -> None:
    text = (
        f"import monai.data\nfrom monai.transforms import Compose, LoadImaged, Spacingd\n\n"
        f"volumes = monai.data.{data_set}(files, Compose([{steps}]))\nloader = DataLoader(volumes, batch_size=128)\n"
    )
    basis = found(tmp_path, text)
    assert basis.startswith(level)
    assert ("volume reading" in basis) is (level == "high")


CHOSEN_SET = """\
import monai.data
from monai.transforms import Compose, LoadImaged, Spacingd


def build(files, cache=True):
    steps = Compose([LoadImaged('image'), Spacingd('image')])
    if cache:
        volumes = monai.data.CacheDataset(data=files, transform=stepsRATE)
    else:
        volumes = monai.data.Dataset(data=files, transform=steps)
    return DataLoader(volumes, batch_size=128)


loader = build(filesPASSED)
"""


@pytest.mark.parametrize(
    ("passed", "rate", "level"),
    [
        ("", "", "low"),
        (", cache=True", "", "low"),
        (", True", ", cache_rate=1.0", "low"),
        (", cache=False", "", "high"),
        ("", ", cache_rate=0.2", "high"),
    ],
)
def test_calls_choose_the_data_set(tmp_path: Path, passed: str, rate: str, level: str) -> None:
    text = CHOSEN_SET.replace("PASSED", passed).replace("RATE", rate)
    basis = found(tmp_path, text)
    assert basis.startswith(level)
    assert ("volume reading" in basis) is (level == "high")


@pytest.mark.parametrize(("said", "level"), [("0 on Windows", "low"), ("processes", "medium")])
def test_zero_workers_for_windows_cost_little(tmp_path: Path, said: str, level: str) -> None:
    option = (
        "import argparse\nimport cv2\n\nparser = argparse.ArgumentParser()\n"
        f"parser.add_argument('--num_workers', type=int, default=0, help='{said}')\nargs = parser.parse_args()\n\n"
    )
    data = rows("return cv2.imread(self.names[index]), 0").replace("size=128", "size=128, num_workers=args.num_workers")
    assert found(tmp_path, option + data).startswith(level)


@pytest.mark.parametrize(
    ("made", "large"),
    [
        ("adapters = LoraConfig(r=8)", True),
        ("trainer = trl.GRPOTrainer(net)", True),
        ("actor = AutoModelForCausalLMWithValueHead.from_pretrained(name)", True),
        ("net = timm.create_model('vit_large_patch16_224')", True),
        ("net = models.resnet152()", True),
        ("name = 'acme/novel-7b-chat'", True),
        ("import torchtune", True),
        ("net = timm.create_model('vit_tiny_patch16_224')", False),
        ("net = models.resnet18()", False),
        ("name = 'acme/novel-0b7'", False),
        ("# twice as fast as resnet152()", False),
    ],
)
def test_beside_a_large_model_loading_costs_little(tmp_path: Path, made: str, large: bool) -> None:
    text = rows("return torch.load(self.names[index])").replace("batch_size=128", "batch_size=16")
    basis = found(tmp_path, f"{made}\n\n" + text)
    assert basis.startswith("low" if large else "medium")
    assert ("long steps of a large model" in basis) is large


def test_the_size_is_that_of_loaders_whose_batches_are_all_drawn(tmp_path: Path) -> None:
    data = IMAGES.partition("loader =")[0] + (
        "def make_loader(paths, batch_size=4):\n    return DataLoader(Photos(paths), batch_size=batch_size)\n"
    )

    def said(folder: str, uses: str) -> str:
        program = HEAD + data + "def main(paths):\n" + "".join(f"    {line}\n" for line in uses.splitlines())
        (found,) = bases(tmp_path / folder, {"net.py": "", "train.py": program + "main(read())\n"}, "GPU303")
        return found

    loader = "loader = make_loader(paths)\n"
    first = "images, labels = next(iter(make_loader(paths, batch_size=5000)))\n"
    held = "held = make_loader(paths, 5000)\nlabels = held.dataset.labels\n"
    drawn = "for images, labels in make_loader(paths, 64):\n    score(model(images.cuda()), labels)\n"
    assert said("first", loader + first + TRAINING).startswith("medium, every step, batches of 4 in")
    assert said("held", loader + held + TRAINING).startswith("medium, every step, batches of 4 in")
    assert said("drawn", loader + first + TRAINING + drawn).startswith("high, every step, loading in")


@pytest.mark.parametrize(
    ("lines", "work"),
    [
        (("return cv2.imread(self.names[index]), 0",), "image decoding"),
        (("frames = decord.VideoReader(self.names[index])", "return frames[:33], 0"), "video decoding"),
        (("return np.load(self.names[index]), 0",), "file reading"),
        (("return nibabel.load(self.names[index]).get_fdata(), 0",), "volume reading"),
        (("scan = self.kept[index]  # of nibabel", "return self.transform(scan), 0"), "transforms"),
    ],
)
def test_what_a_data_set_reads_once_is_no_work_for_a_sample(tmp_path: Path, lines: tuple[str, ...], work: str) -> None:
    imports = "import cv2\nimport decord\nimport nibabel\nimport numpy as np\n\n"
    data = rows(*lines).replace("self.kept = {}", "self.kept = [nibabel.load(name) for name in names]")
    assert f" in the training process ({work})" in found(tmp_path, imports + data)


@pytest.mark.parametrize(
    ("transform", "work"),
    [
        ("v2.ColorJitter(0.2)", "work on every pixel"),
        (
            "v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(0.2), v2.Normalize(mean, std)])",
            "work on every pixel",
        ),
        ("v2.Compose([v2.GaussianBlur(3), v2.RandomAffine(10)])", "resampling"),
        ("v2.RandomResizedCrop(224)", "resampling"),
    ],
)
def test_what_resamples_is_told_from_what_changes_pixels_in_place(tmp_path: Path, transform: str, work: str) -> None:
    head = f"from torchvision.transforms import v2\n\ntransform = {transform}\n\n"
    basis = found(tmp_path, head + rows("return transform(self.names[index]), 0"))
    assert basis.endswith(f"({work} and transforms)")


@pytest.mark.parametrize(
    ("made", "level", "work"),
    [
        ("EMNIST(root, split='byclass', transform={turned})", "medium", "transforms"),
        ("EMNIST(root, split='byclass', transform={plain})", "low", "nothing but look-ups is seen"),
        ("EMNIST(root, split='letters', transform={turned})", "low", "transforms), a toy or smoke run"),
        ("FashionMNIST(root, transform={turned})", "low", "transforms), a toy or smoke run"),
    ],
)
def test_transforms_of_images_in_memory_are_work(tmp_path: Path, made: str, level: str, work: str) -> None:
    turned = "T.Compose([T.RandomRotation(15), T.RandomAffine(0, shear=10), T.ToTensor()])"
    call = made.format(turned=turned, plain="T.Compose([T.ToTensor()])")
    text = (
        "import torchvision\nfrom torchvision import transforms as T\n"
        f"loader = DataLoader(torchvision.datasets.{call}, batch_size=256, shuffle=True)\n"
    )
    basis = found(tmp_path, text)
    assert basis.startswith(f"{level}, ") and work in basis


_FIELDS = """\
a, b = self.names[index]
sample = {{}}
for key in {fields}:
    part = np.zeros((b - a,) + self.store[key].shape[1:])
    try:
        part[:] = self.store[key][a:b]
    except ValueError:
        pdb.set_trace()
    sample[key] = {work}
return sample
"""


@pytest.mark.parametrize(
    ("fields", "work", "level"),
    [
        ("self.keys", "part", "low"),
        ("self.obs_keys", "part.astype(np.float32)", "low"),
        ("self.store.keys()", "torch.from_numpy(part)", "low"),
        ("sorted(self.store.keys())", "part", "low"),
        ('("image", "state", "action")', "part", "low"),
        ("self.camera_names", "part", "low"),
        ("self.names", "part + 1", "high"),
        ("range(a, b)", "part", "high"),
        ("self.keys", "parse(part)", "high"),
        ("self.keys", "[parse(one) for one in part]", "high"),
    ],
)
def test_a_round_for_each_field_that_slices_arrays_is_little_work(
    tmp_path: Path, fields: str, work: str, level: str
) -> None:
    lines = _FIELDS.format(fields=fields, work=work).splitlines()
    assert found(tmp_path, rows(*lines)).split(",")[0] == level


MAPPED = """\
import numpy as np

class Rows(Dataset):
    def __init__(self, path):
        self.data = np.memmap(path, dtype="float32", mode="r", shape=(1000000, 768))

    def __getitem__(self, index):
        return {sample}

    def __len__(self):
        return 1000000

loader = DataLoader(Rows("rows.bin"), batch_size={size}, shuffle=True, num_workers=0)
"""


@pytest.mark.parametrize(
    ("sample", "size", "level"),
    [
        ("torch.tensor(self.data[index]), 0", 4096, "medium"),
        ("torch.from_numpy(self.data[index].copy()), 0", 4096, "medium"),
        ("torch.from_numpy(self.data[index].copy()), 0", 64, "low"),
    ],
)
def test_a_tensor_for_each_row_of_a_large_batch(tmp_path: Path, sample: str, size: int, level: str) -> None:
    assert found(tmp_path, MAPPED.format(sample=sample, size=size)).startswith(f"{level},")


@pytest.mark.parametrize(("sample", "size"), [("torch.tensor(self.data[index]), 0", 64), ("self.data[index], 0", 4096)])
def test_rows_of_small_batches_and_rows_as_they_are(tmp_path: Path, sample: str, size: int) -> None:
    text = HEAD + MAPPED.format(sample=sample, size=size) + TRAINING
    report = scan(tmp_path, {"net.py": "", "train.py": text})
    assert not [one for one in report.results if one.finding.rule.code == "GPU303"]
