"""What a scan says findings cost, and what makes them cost less."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.assessment import constants
from gpulint.cli import main
from gpulint.config import Config
from gpulint.documents import Document
from gpulint.finding import Finding
from gpulint.impact import Cost, Impact
from gpulint.project import Project
from gpulint.source import Span

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from net import Net
"""
TRAINING = """\
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        total += loss.item()
"""
IMAGES = """\
from PIL import Image

class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        return transform(Image.open(self.paths[index]))

loader = DataLoader(Photos(paths), batch_size=128, shuffle=True)
"""
NUMBERS = """\
class Rows(Dataset):
    def __getitem__(self, index):
        return torch.from_numpy(read_csv(index))

loader = DataLoader(Rows(), batch_size=128, shuffle=True)
"""


def scan(folder: Path, files: dict[str, str]) -> engine.Report:
    """The report of a tree."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    loaded = plugins.load()
    paths = sorted(folder / name for name in files)
    project = Project(folder, paths, Config(base=folder))
    report = engine.run(project, paths, [rule for rule in loaded.rules if rule.default])
    assert not report.errors, report.errors
    return report


def impacts(folder: Path, files: dict[str, str]) -> dict[str, list[Impact]]:
    """Impacts of a tree's findings, by the code of their rule."""
    found: dict[str, list[Impact]] = {}
    for result in scan(folder, files).results:
        found.setdefault(result.finding.rule.code, []).append(result.finding.impact)
    return found


def levels(folder: Path, files: dict[str, str], code: str) -> list[str]:
    """Levels of the findings of one rule."""
    return [str(impact.level) for impact in impacts(folder, files).get(code, [])]


def test_a_self_test_belongs_to_jobs_that_start_it(tmp_path: Path) -> None:
    """A job that only imports the module does not run what is below ``if __name__ == "__main__"``."""
    classes, loader = IMAGES.split("loader =")
    program = textwrap.indent(f"loader ={loader}{TRAINING}", "    ")
    blocks = f"{HEAD}{classes}if __name__ == '__main__':\n{program}"
    train = f"from blocks import Photos\n{HEAD}loader = DataLoader(Photos(paths), num_workers=4)\n{TRAINING}"

    def found(program: str) -> list[str]:
        job = f"#!/bin/bash\n#SBATCH --gres=gpu:8\npython {program}\n"
        report = scan(tmp_path, {"blocks.py": blocks, "train.py": train, "net.py": "", "job.sh": job})
        impacts = [one.finding.impact for one in report.results if one.finding.rule.code == "GPU303"]
        return [f"{impact.level}, {impact.basis}" for impact in impacts]

    work = "every step, batches of 128 images in the training process"
    assert found("blocks.py") == [f"high, {work}, 8 GPUs"]
    assert found("train.py") == [f"low, {work}, in a self-test that no job runs"]


def test_json_has_level_and_basis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --gres=gpu:8\ntorchrun --nproc_per_node=2 train.py\n")
    (tmp_path / "train.py").write_text(HEAD + IMAGES + TRAINING)
    (tmp_path / "net.py").write_text("from torch.nn.parallel import DistributedDataParallel\n")
    assert main(["scan", str(tmp_path), "--output-format", "json", "--exit-zero", "--isolated"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = printed["findings"] if isinstance(printed, dict) else printed
    (impact,) = (finding["impact"] for finding in found if finding["code"] == "GPU103")
    assert impact == {
        "level": "high",
        "basis": "once per run, 2 of 8 GPUs in use, 8 GPUs",
        "gpu_share": [0.75, 0.75],
        "gpu_hours": None,
    }


def test_decoding_images_in_the_training_process_costs_much_and_reading_rows_little(tmp_path: Path) -> None:
    assert levels(tmp_path / "a", {"net.py": "", "train.py": HEAD + IMAGES + TRAINING}, "GPU303") == ["high"]
    assert levels(tmp_path / "b", {"net.py": "", "train.py": HEAD + NUMBERS + TRAINING}, "GPU303") == ["low"]


def test_the_bytes_of_a_batch_decide_what_a_copy_costs(tmp_path: Path) -> None:
    (photos,) = impacts(tmp_path / "a", {"net.py": "", "train.py": HEAD + IMAGES + TRAINING})["GPU301"]
    assert str(photos.level) == "medium"
    assert photos.basis == "every step, 77 MB from pageable memory"
    (rows,) = impacts(tmp_path / "b", {"net.py": "", "train.py": HEAD + NUMBERS + TRAINING})["GPU301"]
    assert str(rows.level) == "low"


@pytest.mark.parametrize(
    ("more", "basis"),
    [
        ("", "77 MB"),
        ("cut = transforms.RandomCrop(64)\n", "6 MB"),
        ("parser.add_argument('--img_size', type=int, default=512)\n", "403 MB"),
    ],
)
def test_the_side_of_images_decides_what_a_copy_costs(tmp_path: Path, more: str, basis: str) -> None:
    text = HEAD + IMAGES.replace("shuffle=True", "num_workers=8") + more + TRAINING
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU301"]
    assert f" {basis} from pageable memory" in impact.basis


def test_each_wait_of_a_step_counts(tmp_path: Path) -> None:
    one = HEAD + IMAGES + TRAINING
    three = one + "        right += (output == labels.cuda()).sum().item()\n        top = loss.item()\n"
    (single,) = impacts(tmp_path / "a", {"net.py": "", "train.py": one})["GPU305"]
    assert single.basis == "every step, the host waits for the GPU"
    assert {impact.basis for impact in impacts(tmp_path / "b", {"net.py": "", "train.py": three})["GPU305"]} == {
        "every step, 3 waits"
    }


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("third_party/lib/train.py", ""),
        ("train_old.py", ""),
        ("benchmark_train.py", ""),
        ("train.py", "data = MNIST('data')\n"),
        ("debug/train.py", ""),
    ],
)
def test_what_is_not_the_users_training_costs_little(tmp_path: Path, name: str, head: str) -> None:
    usual = levels(tmp_path / "usual", {"net.py": "", "train.py": HEAD + IMAGES + TRAINING}, "GPU303")
    assert usual == ["high"]
    found = impacts(tmp_path / "other", {"net.py": "", name: HEAD + head + IMAGES + TRAINING})["GPU303"]
    assert [str(impact.level) for impact in found] == ["low"]


def test_a_reason_beside_the_line_lowers_and_other_comments_do_not(tmp_path: Path) -> None:
    reason = IMAGES.replace("shuffle=True)", "shuffle=True)  # workers deadlock with this reader")
    note = IMAGES.replace("shuffle=True)", "shuffle=True)  # the training set")
    assert set(levels(tmp_path / "a", {"net.py": "", "train.py": HEAD + reason + TRAINING}, "GPU301")) == {"low"}
    assert levels(tmp_path / "b", {"net.py": "", "train.py": HEAD + note + TRAINING}, "GPU303") == ["high"]


@pytest.mark.parametrize(
    ("lines", "level"),
    [
        ("# Set to solve an issue\nimport os\nos.environ", "high"),
        ("# Set to solve an issue\nos.environ", "low"),
        ("# Launch one kernel at a time, rather than many\nos.environ", "low"),
        ("# Settings\nos.environ", "high"),
    ],
)
def test_a_comment_directly_above_tells_what_a_setting_is_for(tmp_path: Path, lines: str, level: str) -> None:
    text = f"import os\n{lines}['CUDA_LAUNCH_BLOCKING'] = '1'\n" + HEAD + IMAGES + TRAINING
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU414") == [level]


@pytest.mark.parametrize(
    ("comment", "level"),
    [("# Sync the counters once, now that the inner loop is over.", "low"), ("# counters of the step", "medium")],
)
def test_a_reason_above_several_lines_that_do_the_same_is_about_them_all(
    tmp_path: Path, comment: str, level: str
) -> None:
    real = "real = critic(labels)\n    real.backward()"
    reads = [f"{name} = float({name}_t.item())" for name in ("seen", "used", "lost")]
    text = WAITS + "    " + "\n    ".join(["total += loss.item()", real, comment, *reads]) + "\n"
    found = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU305"]
    assert [str(impact.level) for impact in found] == ["medium", level, level, level]


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
for images in made("train"):
    model(images.cuda()).backward()
    optimizer.step()
"""


def test_a_loader_that_is_made_for_the_test_is_not_read_in_every_step(tmp_path: Path) -> None:
    found = impacts(tmp_path, {"net.py": "", "train.py": FACTORY})["GPU301"]
    assert [impact.basis.partition(",")[0] for impact in found] == ["every step", "every evaluation batch"]


TOKENIZER = """\
import argparse
from transformers import AutoModel, AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("--model")
parser.add_argument("--tokenizer")
args = parser.parse_args()
tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
model = AutoModel.from_pretrained(args.model).cuda()
for batch in loader:
    model(**tokenizer(batch)).loss.backward()
    optimizer.step()
"""


def test_a_tokenizer_is_small_whatever_its_id_says_of_the_model(tmp_path: Path) -> None:
    job = (
        "#!/bin/bash\n#SBATCH --gres=gpu:4\npython train.py \\\n  --model org/base-7b \\\n  --tokenizer org/other-7b\n"
    )
    report = scan(tmp_path, {"train.py": TOKENIZER, "job.sh": job})
    found = {
        result.finding.message.split("'")[1]: result.finding.impact.basis
        for result in report.results
        if result.finding.rule.code == "GPU331" and result.finding.path.name == "job.sh"
    }
    assert "about 14 GB" in found["org/base-7b"]
    assert "a small download" in found["org/other-7b"]


def test_what_only_unused_modules_use_is_not_used(tmp_path: Path) -> None:
    helper = HEAD + "\ndef fit():\n" + "".join(f"    {line}\n" for line in (IMAGES + TRAINING).splitlines())
    unused = {"net.py": "", "loops.py": helper, "modes.py": "from loops import fit\n\ndef run():\n    fit()\n"}
    assert levels(tmp_path / "a", unused, "GPU303") == ["medium"]
    used = {**unused, "main.py": "from modes import run\n\nrun()\n"}
    assert levels(tmp_path / "b", used, "GPU303") == ["high"]


STEPS = """\
import argparse
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default={default})
args = parser.parse_args()
model = DDP(model)
for index, batch in enumerate(loader):
    {step}
"""
BY_SCALER = "loss_scaler(model(batch), optimizer, update_grad=(index + 1) % args.accumulate == 0)"
IN_PARTS = """\
for _ in range(args.accumulate):
        model(next(parts)).backward()
    optimizer.step()"""


@pytest.mark.parametrize("step", [BY_SCALER, IN_PARTS])
@pytest.mark.parametrize(("default", "level"), [(1, "low"), (4, "medium")])
def test_an_exchange_per_micro_step_costs_nothing_where_there_is_one_by_default(
    tmp_path: Path, step: str, default: int, level: str
) -> None:
    text = STEPS.format(default=default, step=step)
    assert levels(tmp_path, {"train.py": text}, "GPU353") == [level]


@pytest.mark.parametrize(("line", "level"), [("breakpoint()", "medium"), ("if odd: breakpoint()", "low")])
def test_a_debugger_for_what_was_not_foreseen_costs_less(tmp_path: Path, line: str, level: str) -> None:
    text = HEAD + IMAGES + f"odd = strange(loader)\n{line}\n" + TRAINING
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU102") == [level]


def test_a_session_of_a_person_on_few_gpus_costs_little(tmp_path: Path) -> None:
    session = "srun {} --mem=30000 --pty /bin/bash\n"
    for number, (gpus, low) in enumerate(
        [("--gres=gpu:1", True), ("--gpus=2", True), ("--gpus=$COUNT", True), ("--gres=gpu:a100:4", False)]
    ):
        found = levels(tmp_path / str(number), {"run.sh": session.format(gpus)}, "GPU101")
        assert found and (found == ["low"]) is low


@pytest.mark.parametrize(("head", "low"), [("", True), ("#SBATCH --gres=gpu:1\n#SBATCH --time=10:00:00\n", False)])
def test_a_download_in_a_plain_script_holds_no_gpus_for_sure(tmp_path: Path, head: str, low: bool) -> None:
    files = {
        "train.py": HEAD + IMAGES + TRAINING,
        "net.py": "",
        "download_data.py": "import urllib.request\nurllib.request.urlretrieve(url, 'a.zip')\n",
        "run.sh": f"#!/bin/bash\n{head}python download_data.py\npython train.py\n",
    }
    (found,) = levels(tmp_path, files, "GPU332")
    assert (found == "low") is low


@pytest.mark.parametrize(
    ("comment", "level"),
    [("# memory grows without this, see issue 12", "low"), ("# one step of the training", "medium")],
)
def test_a_reason_at_the_head_of_a_short_function_is_about_all_that_it_does(
    tmp_path: Path, comment: str, level: str
) -> None:
    text = (
        "import torch\nfrom net import Net\n\nmodel = Net().cuda()\n\n\ndef step(batch):\n"
        f"    {comment}\n    model(batch.cuda()).backward()\n    torch.cuda.empty_cache()\n\n\n"
        "for batch in loader:\n    step(batch)\n    optimizer.step()\n"
    )
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU207") == [level]


@pytest.mark.parametrize(
    ("path", "beside", "level"),
    [
        ("train.py", "train_ddp.py", "low"),
        ("train.py", "evaluate_ddp.py", "low"),
        ("train.py", "train_more.py", "high"),
        ("Other-main/train.py", "more.py", "low"),
        ("Other-main/train.py", "Other-main/more.py", "high"),
    ],
)
def test_data_parallel_costs_little_beside_a_program_for_ddp(
    tmp_path: Path, path: str, beside: str, level: str
) -> None:
    own = HEAD + IMAGES + "model = torch.nn.DataParallel(Net().cuda(), device_ids=[0, 1])\n" + TRAINING
    ddp = HEAD + IMAGES + "model = torch.nn.parallel.DistributedDataParallel(Net().cuda())\n" + TRAINING
    found = levels(tmp_path, {path.replace("train", "net"): "", path: own, beside: ddp}, "GPU352")
    assert found == [level]


@pytest.mark.parametrize(("started", "low"), [("train_ddp.py", True), ("train.py", False)])
def test_a_program_whose_distributed_version_jobs_start_costs_little(tmp_path: Path, started: str, low: bool) -> None:
    files = {
        "net.py": "",
        "train.py": HEAD + IMAGES + TRAINING,
        "train_ddp.py": HEAD + "model = torch.nn.parallel.DistributedDataParallel(Net().cuda())\n",
        "run.sh": f"#!/bin/bash\n#SBATCH --gres=gpu:4\npython {started}\n",
    }
    assert (levels(tmp_path, files, "GPU303") == ["low"]) is low


@pytest.mark.parametrize(("rows", "low"), [(20, True), (400_000, False)])
def test_a_pass_over_a_small_file_of_the_tree_costs_little(tmp_path: Path, rows: int, low: bool) -> None:
    text = (
        "import datasets, torch\nfrom net import Net\n\ntokenizer = BertTokenizer.from_pretrained('bert')\nrows = datasets.load_dataset('json', data_files='data/rows.jsonl')\n"
        "train = rows.map(lambda row: tokenizer(row['text']))\nmodel = Net().cuda()\n"
        "for batch in train:\n    model(batch.cuda()).backward()\n    optimizer.step()\n"
    )
    job = "#!/bin/bash\n#SBATCH --gres=gpu:8\npython train.py\n"
    files = {"net.py": "", "run.sh": job, "train.py": text, "data/rows.jsonl": '{"text": ""}\n' * rows}
    assert (levels(tmp_path, files, "GPU311") == ["low"]) is low


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
    ("line", "level"),
    [
        ("pip install tqdm", "low"),
        ("pip install --cache-dir /shared/pip torch pandas", "low"),
        ("pip install torch pandas", "medium"),
        ("pip install -r requirements.txt --no-index --find-links=wheels", "low"),
        ("pip install -r requirements.txt", "medium"),
        ("pip install flash-attn --no-build-isolation", "medium"),
        ('if [ "$SETUP" = 1 ]; then pip install -r requirements.txt; fi', "low"),
    ],
)
def test_installations_cost_what_their_packages_take(tmp_path: Path, line: str, level: str) -> None:
    image = "#SBATCH --container-image=nvcr.io/nvidia/pytorch:24.01-py3\n"
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:1\n{image}{line}\npython train.py\n"
    files = {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("listed", "level"),
    [
        ("# small\nregex\nboto3>=1.26 ; python_version > '3'\n", "low"),
        ("regex\nsome-package\n", "medium"),
        ("regex\ntorch\n", "medium"),
        ("regex\n-r more.txt\n", "medium"),
    ],
)
def test_files_of_small_packages_alone_take_seconds(tmp_path: Path, listed: str, level: str) -> None:
    job = (
        "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --container-image=nvcr.io/nvidia/pytorch:24.01-py3\n"
        "pip install -r requirements.txt\npython train.py\n"
    )
    files = {"job.sh": job, "requirements.txt": listed, "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("name", "head", "line", "level"),
    [
        ("job.sh", "#SBATCH --gres=gpu:1", "pip install torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:1", "pixi install --frozen", "low"),
        ("job.sh", "#SBATCH --gres=gpu:1", "pip install --upgrade torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:1", "conda create -y -n net torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:1", "pip install --prefix $SLURM_TMPDIR/env torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:8", "pip install torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:8", "pixi install --frozen", "medium"),
        ("setup_env.sh", "#SBATCH --gres=gpu:8", "pip install --upgrade torch pandas", "low"),
        ("runpod_setup.sh", "set -e", "pip install --upgrade torch pandas", "low"),
        ("run.sh", "set -e", "pip install --upgrade torch pandas", "medium"),
    ],
)
def test_an_environment_that_outlives_a_run_is_made_once(
    tmp_path: Path, name: str, head: str, line: str, level: str
) -> None:
    job = f"#!/bin/bash\n{head}\n{line}\npython train.py\n"
    files = {name: job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("keys", "level"),
    [
        ("runs-on: [self-hosted, gpu]", "low"),
        ("runs-on: [self-hosted, gpu]\n    container: pytorch/pytorch", "medium"),
        ("runs-on: gpu-t4", "medium"),
    ],
)
def test_a_runner_of_ones_own_keeps_packages(tmp_path: Path, keys: str, level: str) -> None:
    job = f"on: push\njobs:\n  train:\n    {keys}\n    steps:\n      - run: pip install torch\n      - run: python train.py\n"
    files = {".github/workflows/train.yml": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("call", "basis"),
    [
        ("AutoModel.from_pretrained('org/net-14b')", "about 28 GB"),
        ("PeftModel.from_pretrained(model, 'org/net-14b-adapter')", "a download"),
        ("AutoModel.from_pretrained('openai/gpt-oss-120b')", "about 60 GB"),
        ("AutoConfig.from_pretrained('org/net-14b')", "a small download"),
        ("hf_hub_download('org/net-14b', 'head.pt')", "a download"),
        ("torch.hub.load_state_dict_from_url('https://example.com/net-68b4160fff.pth')", "a download"),
    ],
)
def test_only_whole_models_are_as_large_as_their_names_say(tmp_path: Path, call: str, basis: str) -> None:
    heads = "from transformers import AutoConfig, AutoModel\nfrom peft import PeftModel\n"
    heads += "from huggingface_hub import hf_hub_download\n"
    text = HEAD + heads + f"loaded = {call}\n" + IMAGES + TRAINING
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU331"]
    assert f"once per run, {basis}" in impact.basis


def test_the_arms_of_a_choice_fetch_one_model(tmp_path: Path) -> None:
    loads = """model_id = "org/net-14b"
if quantised:
    model = AutoModel.from_pretrained(args.name if args.name else model_id, dtype="int8")
else:
    model = AutoModel.from_pretrained(args.name if args.name else model_id)
"""
    options = "import argparse\nparser = argparse.ArgumentParser()\n"
    options += "parser.add_argument('--name', default='org/net-14b')\nargs = parser.parse_args()\n"
    text = HEAD + "from transformers import AutoModel\n" + options + loads + IMAGES + TRAINING
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU331") == ["medium", "low"]


@pytest.mark.parametrize(
    ("name", "function", "level"),
    [("cpu_settings.py", "apply", "low"), ("settings.py", "use_cpu", "low"), ("cpu_to_gpu.py", "apply", "high")],
)
def test_what_is_named_for_cpus_costs_no_gpu_time(tmp_path: Path, name: str, function: str, level: str) -> None:
    text = f"import torch\n\n\ndef {function}():\n    torch.backends.cudnn.enabled = False\n\n\n"
    files = {"net.py": "", name: text + HEAD + IMAGES + f"{function}()\n" + TRAINING}
    assert levels(tmp_path, files, "GPU414") == [level]


@pytest.mark.parametrize(("told", "level"), [("--assets tokenizer", "low"), ("--assets weights", "medium")])
def test_a_tokenizer_is_brought_in_seconds(tmp_path: Path, told: str, level: str) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:2\npython download_files.py {told}\npython train.py\n"
    files = {"job.sh": job, "download_files.py": "import sys\n", "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU332") == [level]


@pytest.mark.parametrize(("gpus", "level"), [(1, "low"), (2, "high")])
def test_jobs_without_gpus_beside_others_say_nothing_of_their_number(tmp_path: Path, gpus: int, level: str) -> None:
    text = HEAD + IMAGES + TRAINING.replace("Net().cuda()", "nn.DataParallel(Net()).cuda()")
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\npython train.py\n"
    on_cpu = "#!/bin/bash\n#SBATCH --partition=medium\n#SBATCH --mem=75G\npython train.py --method forest\n"
    files = {"net.py": "", "train.py": text, "job.sbatch": job, "forest.sbatch": on_cpu}
    assert levels(tmp_path, files, "GPU352") == [level]


@pytest.mark.parametrize(("gpus", "level"), [(1, "low"), (2, "high")])
def test_plain_scripts_beside_jobs_say_nothing_of_their_gpus(tmp_path: Path, gpus: int, level: str) -> None:
    text = HEAD + IMAGES + TRAINING.replace("Net().cuda()", "nn.DataParallel(Net()).cuda()")
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\npython train.py\n"
    files = {"net.py": "", "train.py": text, "job.sbatch": job, "run.sh": "#!/bin/bash\npython train.py\n"}
    assert levels(tmp_path, files, "GPU352") == [level]


@pytest.mark.parametrize("name", [".claude/skills/net/train.py", "skills/net/train.py", "net/train.py"])
def test_what_explains_a_task_to_assistants_is_documentation(tmp_path: Path, name: str) -> None:
    head = "import torch\ntorch.backends.cudnn.enabled = False\n"
    files = {"skills/net/SKILL.md": "---\nname: net\n---\n", name: head + HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU414") == ["high" if name.startswith("net") else "low"]


def test_a_pause_of_known_length_costs_gpu_hours(tmp_path: Path) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:4\npython train.py\nsleep 7200\n"
    (impact,) = impacts(tmp_path, {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING})["GPU105"]
    assert impact.gpu_hours == (8.0, 8.0)
    assert str(impact.level) == "high"


@pytest.mark.parametrize(
    ("commands", "level", "hours"),
    [
        ("sleep 60", "medium", (0.0333, 0.0333)),
        ("for part in 1 2 3; do sleep 60; done", "high", None),
        ("sleep 60\ndu -sh .", "high", None),
    ],
)
def test_a_job_that_only_sleeps_costs_its_length(
    tmp_path: Path, commands: str, level: str, hours: tuple[float, float] | None
) -> None:
    (impact,) = impacts(tmp_path, {"job.sh": f"#!/bin/bash\n#SBATCH --gres=gpu:2\n{commands}\n"})["GPU106"]
    assert (str(impact.level), impact.gpu_hours) == (level, hours)


def test_gpus_of_all_nodes_count(tmp_path: Path) -> None:
    job = (
        "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:8\npip install -r requirements.txt\nsrun python train.py\n"
    )
    (impact,) = impacts(tmp_path, {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING})["GPU401"]
    assert impact.basis.endswith("32 GPUs")


def test_a_branch_for_another_choice_than_the_default_costs_little(tmp_path: Path) -> None:
    program = """import argparse
import torch
from datasets import load_dataset

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="usual")
args = parser.parse_args()
if args.data == "usual":
    data = load_dataset("org/usual")
elif args.data == "other":
    data = load_dataset("org/other")
model.cuda()
loss.backward()
"""
    job = "#!/bin/bash\n#SBATCH --nodes=8\n#SBATCH --gres=gpu:8\npython train.py\n"
    usual, other = impacts(tmp_path, {"job.sh": job, "train.py": program})["GPU331"]
    assert (str(usual.level), usual.basis) == ("medium", "once per run, a download, 64 GPUs")
    assert (str(other.level), other.basis) == (
        "low",
        "once per run, a download, 64 GPUs, a choice that is not the default",
    )


def test_jobs_that_hold_gpus_are_listed_with_their_files(tmp_path: Path) -> None:
    files = {
        "jobs/big.sh": "#!/bin/bash\n#SBATCH --job-name=big\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n"
        "bash scripts/run.sh\n",
        "scripts/run.sh": "python train.py --config configs/base.yaml\n",
        "train.py": HEAD + IMAGES + TRAINING,
        "net.py": "import layers\n",
        "layers.py": "",
        "configs/base.yaml": "lr: 0.1\n",
        "jobs/cpu.sh": "#!/bin/bash\n#SBATCH --cpus-per-task=4\npython prepare.py\n",
        "prepare.py": "print(1)\n",
    }
    report = scan(tmp_path, files)
    big = next(job for job in report.jobs if job.place.path.name == "big.sh")
    assert big.gpus == 8
    assert [path.relative_to(tmp_path).as_posix() for path in big.programs] == ["train.py"]
    assert {path.relative_to(tmp_path).as_posix() for path in big.files} == {
        "jobs/big.sh", "scripts/run.sh", "train.py", "net.py", "layers.py", "configs/base.yaml"
    }  # fmt: skip
    assert not any(job.place.path.name == "cpu.sh" for job in report.jobs)


def test_a_rule_without_a_cost_has_the_impact_of_its_severity(tmp_path: Path) -> None:
    from tests.engine.conftest import HINT, WASTE

    path = tmp_path / "notes.sh"
    path.write_text("echo WASTE HINT\n")
    project = Project(tmp_path, [path], Config(base=tmp_path))
    report = engine.run(project, [path], [WASTE, HINT])
    assert {result.finding.rule.code: str(result.finding.impact.level) for result in report.results} == {
        "TST101": "medium",
        "TST102": "low",
    }


def test_an_exception_costs_only_the_impact(tmp_path: Path) -> None:
    from tests.engine.conftest import WASTE

    def check(document: Document, project: Project) -> Iterator[Finding]:
        yield WASTE.finding(document.path, Span(1, 1, 1, 5), "waste", cost=Cost("nothing-we-know"))

    path = tmp_path / "notes.sh"
    path.write_text("echo WASTE\n")
    project = Project(tmp_path, [path], Config(base=tmp_path))
    report = engine.run(project, [path], [dataclasses.replace(WASTE, check=check)])
    assert [result.finding.impact for result in report.results] == [Impact()]
    assert [error.where for error in report.errors] == ["impact"]


def test_every_figure_has_a_source() -> None:
    for name, row in constants.table().items():
        rows = row.values() if name == "kind" else [row]
        assert all(one["source"] for one in rows), name


def test_every_rule_names_a_kind_of_cost_that_is_known() -> None:
    for rule in plugins.load().rules:
        assert rule.cost is not None, rule.code
        assert constants.kind(rule.cost.kind).source


PARALLEL = """\
import torch
from torch import nn

from net import Net

model = Net()
{wrapped}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""
EITHER = """\
if args.distributed:
    model = nn.parallel.DistributedDataParallel(model.cuda())
else:
    model = nn.DataParallel(model).cuda()"""
ONLY = "model = nn.DataParallel(model).cuda()"
GUARDED = "model = model.cuda()\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)"


@pytest.mark.parametrize(
    ("gpus", "wrapped", "expected"),
    [("4", ONLY, ["high"]), ("1", ONLY, []), ("4", EITHER, ["low"]), ("4", GUARDED, ["high"])],
)
def test_data_parallel_costs_nothing_on_one_gpu_and_little_beside_ddp(
    tmp_path: Path, gpus: str, wrapped: str, expected: list[str]
) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\npython train.py\n"
    files = {"net.py": "", "train.py": PARALLEL.format(wrapped=wrapped), "job.sh": job}
    assert levels(tmp_path, files, "GPU352") == expected


@pytest.mark.parametrize(("wrapped", "level"), [(ONLY, "high"), (GUARDED, "low")])
def test_data_parallel_costs_little_where_nothing_holds_the_gpus_that_it_asks_for(
    tmp_path: Path, wrapped: str, level: str
) -> None:
    files = {"net.py": "", "train.py": PARALLEL.format(wrapped=wrapped), "README.md": "Needs two GPUs."}
    assert levels(tmp_path, files, "GPU352") == [level]


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: gpu-pod}
spec:
  containers:
    - name: main
      image: ubuntu:22.04
      command: ["sleep", "infinity"]
      resources: {limits: {nvidia.com/gpu: 4}}
"""


@pytest.mark.parametrize(("path", "level"), [("deploy/pod.yaml", "high"), ("examples/pod.yaml", "low")])
def test_a_pod_that_only_shows_how_to_ask_for_gpus_costs_little(tmp_path: Path, path: str, level: str) -> None:
    assert levels(tmp_path, {path: POD}, "GPU101") == [level]


SAVING = """\
for epoch in range(90):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        {condition}
            torch.save(model.state_dict(), "/mnt/bucket/model.pt")
"""


@pytest.mark.parametrize(
    ("condition", "often"),
    [
        ("if rank == 0:", "every step"),
        ("if saving:", "not in every step"),
        ("if loss < best_loss:", "not in every step"),
    ],
)
def test_the_best_so_far_is_not_saved_in_every_step(tmp_path: Path, condition: str, often: str) -> None:
    text = HEAD + IMAGES + "model = Net().cuda()\n" + SAVING.format(condition=condition)
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU211"]
    assert impact.basis.startswith(often)


@pytest.mark.parametrize(("beside", "level"), [("setup.py", "low"), ("notes.txt", "high")])
def test_a_project_of_somebody_else_inside_the_tree_costs_little(tmp_path: Path, beside: str, level: str) -> None:
    files = {
        "prepare.py": "import os\n",
        "detector/LICENSE": "GPL",
        f"detector/{beside}": "",
        "detector/net.py": "",
        "detector/train.py": HEAD + IMAGES + TRAINING,
    }
    assert levels(tmp_path, files, "GPU303") == [level]


WAITS = """\
import torch
from net import Net

model, critic = Net().cuda(), Net().cuda()
for images, labels in loader:
    labels = labels.cuda()
    loss = model(images.cuda(), labels)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("reads", "level", "basis"),
    [
        ("    total += loss.item()\n", "low", "every step, the host waits for the GPU"),
        # The queue is empty when the second value is read.
        (
            "    total += loss.item()\n    bar.set_postfix(loss=loss.item())\n",
            "low",
            "every step, 2 waits, line 11 waits in any case",
        ),
        (
            "    total += loss.item()\n    real = critic(labels)\n    real.backward()\n    other += real.item()\n",
            "medium",
            "every step, 2 waits",
        ),
        (
            "    for loss in (loss, loss / 2):\n        total += loss.item()\n",
            "medium",
            "every step, a wait in an inner loop, about 8 per step",
        ),
        # What a loop goes through is copied once.
        (
            "    for row in labels.tolist():\n        rows.append(row)\n",
            "medium",
            "every step, a wait, work on the host and a copy back",
        ),
        (
            "    if epoch > 3:\n        total += loss.item()\n    else:\n        loss.backward()\n        other += loss.item()\n",
            "low",
            "every step, 2 waits",
        ),
    ],
)
def test_reads_that_follow_each_other_wait_once(tmp_path: Path, reads: str, level: str, basis: str) -> None:
    found = impacts(tmp_path, {"net.py": "", "train.py": WAITS + reads})["GPU305"]
    assert (level, basis) in {(str(impact.level), impact.basis) for impact in found}
    assert {str(impact.level) for impact in found} == {level}


@pytest.mark.parametrize(
    ("condition", "often"),
    [
        ("if self.unsaved:\n                self.unsaved = False", "not in every step"),
        ("if elapsed > limit:", "not in every step"),
        ("if self.unsaved:", "not in every step"),
        ("if self.rank == 0:", "every step"),
    ],
)
def test_a_checkpoint_under_a_condition_is_not_taken_in_every_step(tmp_path: Path, condition: str, often: str) -> None:
    text = (
        "import torch\n\nclass Trainer:\n    def run(self, loader):\n        self.unsaved = True\n"
        "        for batch in loader:\n            loss = self.model(batch.cuda())\n            loss.backward()\n"
        f"            self.optimizer.step()\n            {condition}\n"
        "                torch.save(self.model.state_dict(), 'last.pt')\n"
    )
    (impact,) = impacts(tmp_path, {"train.py": text})["GPU211"]
    assert impact.basis.startswith(often)


@pytest.mark.parametrize(
    ("name", "more", "level"),
    [
        ("sample.sh", " --eval_batch_size=16", "low"),
        ("train.sh", " --eval_batch_size=16", "medium"),
        ("train.sh", " --eval_batch_size=2", "low"),
        ("train.sh", "", "low"),
    ],
)
def test_a_small_batch_counts_where_more_is_seen_to_fit_in_training(
    tmp_path: Path, name: str, more: str, level: str
) -> None:
    files = {
        "sample.py": "import torch\nmodel = torch.load('model.pt').cuda()\nprint(model(4))\n",
        name: f"#!/bin/sh\n#SBATCH --gpus=1\npython sample.py --batch_size=1{more}\n",
    }
    assert [str(impact.level) for impact in impacts(tmp_path, files)["GPU201"]] == [level]


@pytest.mark.parametrize(("pinned", "level"), [("", "low"), (", pin_memory=True", "medium")])
def test_a_blocking_copy_from_pageable_memory_counts_where_the_loader_is(
    tmp_path: Path, pinned: str, level: str
) -> None:
    loader = IMAGES.replace("shuffle=True", f"shuffle=True, num_workers=8{pinned}").replace("128", "512")
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": HEAD + loader + TRAINING})["GPU302"][:1]
    assert str(impact.level) == level


@pytest.mark.parametrize(
    ("setting", "expected"), [("export CUDA_VISIBLE_DEVICES=0", []), ("export CUDA_VISIBLE_DEVICES=0,1", ["high"])]
)
def test_data_parallel_costs_nothing_where_launchers_show_one_gpu(
    tmp_path: Path, setting: str, expected: list[str]
) -> None:
    files = {
        "net.py": "",
        "train.py": HEAD + IMAGES + "model = nn.DataParallel(Net()).cuda()\n" + TRAINING.partition("\n")[2],
        "run.sh": f"{setting}\npython train.py\n",
    }
    assert levels(tmp_path, files, "GPU352") == expected


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

grey = transforms.Compose([transforms.Grayscale(), transforms.Resize(256), transforms.ToTensor()])
loader = torch.utils.data.DataLoader(ImageFolder("data", transform=grey), batch_size=32)
for epoch in range(9):
    for x, y in loader:
        model(x.cuda()).sum().backward()
"""
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU301"]
    assert impact.basis == "every step, 8 MB from pageable memory"


def test_volumes_come_in_small_batches(tmp_path: Path) -> None:
    text = (
        (HEAD + IMAGES + TRAINING)
        .replace("batch_size=128", "batch_size=size")
        .replace("from PIL", "import nibabel\nfrom PIL")
    )
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text.replace("Image.open", "nibabel.load")})["GPU301"]
    assert impact.basis == "every step, about 34 MB from pageable memory"


def test_what_machines_install_once_for_several_runs_costs_less(tmp_path: Path) -> None:
    spec = "resources:\n  accelerators: A100:1\nsetup: |\n  pip install vllm\nrun: |\n  pip install deepspeed\n  python a.py\n"
    found = scan(tmp_path, {"serve.yaml": spec}).results
    assert {result.finding.message.split("`")[1]: (str(result.finding.impact.level)) for result in found} == {
        "pip install vllm": "low",
        "pip install deepspeed": "medium",
    }


def test_installations_of_one_job_are_one_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = "#!/bin/bash\n#SBATCH --gpus=8\npip install torch\npip install flash-attn\npython train.py\n"
    (tmp_path / "job.sh").write_text(job)
    main(["scan", "--isolated", "--no-cache", "--select", "GPU401", str(tmp_path)])
    assert capsys.readouterr().out.count("install-at-start (") == 1


@pytest.mark.parametrize(("gpus", "level"), [(1, "low"), (4, "high")])
def test_one_gpu_for_a_person_is_what_development_needs(tmp_path: Path, gpus: int, level: str) -> None:
    job = f"#!/bin/bash\n#SBATCH --gpus={gpus}\njupyter lab --no-browser --ip=0.0.0.0\n"
    assert levels(tmp_path, {"job.sh": job}, "GPU101") == [level]


@pytest.mark.parametrize(
    ("name", "after", "level"),
    [
        ("train.py", "", "high"),
        ("train_data_parallel.py", "", "low"),
        ("train.py", "    if rank >= 0:\n        model = nn.parallel.DistributedDataParallel(model)\n", "low"),
    ],
)
def test_data_parallel_costs_little_in_lessons_and_where_ddp_follows(
    tmp_path: Path, name: str, after: str, level: str
) -> None:
    text = (
        "import torch\nfrom torch import nn\nfrom net import Net\n\ndef train(loader, optimizer, rank, count):\n    model = Net().cuda()\n"
        f"    if count > 1:\n        model = nn.DataParallel(model)\n{after}    for batch in loader:\n"
        "        model(batch.cuda()).sum().backward()\n        optimizer.step()\n\ntrain(data, sgd, -1, 4)\n"
    )
    assert levels(tmp_path, {"net.py": "", name: text, "README.md": "Needs two GPUs."}, "GPU352") == [level]


@pytest.mark.parametrize(("cache", "level"), [("/scratch/hub", "low"), ("/tmp/hub", "medium")])
def test_a_cache_that_jobs_share_keeps_what_was_downloaded(tmp_path: Path, cache: str, level: str) -> None:
    files = {
        "job.sh": f"#!/bin/bash\n#SBATCH --gpus=8\nexport HF_HOME={cache}\npython train.py\n",
        "train.py": "import torch\nfrom transformers import AutoModel\n\n"
        'model = AutoModel.from_pretrained("org/large-8b").cuda()\nmodel(batch).loss.backward()\n',
    }
    assert levels(tmp_path, files, "GPU331") == [level]


def bases(folder: Path, files: dict[str, str], code: str) -> list[str]:
    """Level and basis of the findings of a rule."""
    return [f"{one.level}, {one.basis}" for one in impacts(folder, {"net.py": "", **files})[code]]


def test_the_files_of_one_checkpoint_count_once(tmp_path: Path) -> None:
    saves = (
        "from transformers import AutoModel\nmodel = AutoModel.from_pretrained('some/model').cuda()\n"
        "for step, x in enumerate(loader):\n    model(x.cuda()).loss.backward()\n    optimizer.step()\n"
        "    if step % 20 == 0:\n        torch.save(model.state_dict(), 'model.pt')\n"
        "        torch.save(optimizer.state_dict(), 'optimizer.pt')\n"
    )
    once = "every 20 steps, a checkpoint to a disk"
    assert bases(tmp_path, {"train.py": f"import torch\n{saves}"}, "GPU211") == [
        f"medium, {once}",
        f"low, {once}, a part of the checkpoint above",
    ]


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


@pytest.mark.parametrize(
    ("name", "phrase"),
    [("mmseg/apis/train.py", "a copy of a library"), (".claude/skills/train.py", "a vendored copy")],
)
def test_what_others_wrote_costs_little(tmp_path: Path, name: str, phrase: str) -> None:
    (found,) = bases(tmp_path, {name: HEAD + IMAGES + TRAINING}, "GPU303")
    assert found.startswith("low") and phrase in found


def test_a_library_counts_in_its_own_tree(tmp_path: Path) -> None:
    files = {"mmseg/apis/train.py": HEAD + IMAGES + TRAINING}
    (found,) = bases(tmp_path / "mmsegmentation", files, "GPU303")
    assert found.startswith("high")


def test_one_evaluation_after_the_training_costs_little(tmp_path: Path) -> None:
    test = "\ntest_loader = DataLoader(Photos(held_out), batch_size=128)\nfor x, y in test_loader:\n    score(model(x.cuda()), y)\n"
    files = {"train.py": HEAD + IMAGES + TRAINING + test}
    found = bases(tmp_path, files, "GPU303")
    assert [one.partition(",")[0] for one in found] == ["high", "low"]
    assert found[1].endswith("one pass after the training")


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
    assert second.startswith("low") and second.endswith("set up as the loader beside it")
    (alone,) = bases(tmp_path / "b", {"train.py": text.replace("shuffle=True", "num_workers=8")}, "GPU303")
    assert alone.startswith("medium"), alone


def test_samples_that_map_made_before_cost_little(tmp_path: Path) -> None:
    prepare = (
        "from datasets import load_dataset\nimport torchaudio\n"
        "data = load_dataset('speech').map(torchaudio_features, {}batched=True)\n"
        "loader = DataLoader(data, batch_size=16)\n"
    )
    (found,) = bases(
        tmp_path / "a", {"train.py": HEAD + prepare.format("remove_columns=['audio'], ") + TRAINING}, "GPU303"
    )
    assert found.startswith("low") and found.endswith("samples that `map` made before")
    (found,) = bases(tmp_path / "b", {"train.py": HEAD + prepare.format("") + TRAINING}, "GPU303")
    assert not found.startswith("low")


def test_a_comment_on_another_setting_of_a_loader_is_no_reason(tmp_path: Path) -> None:
    dropped = "# The last batch of the dataset is dropped, which is necessary for the loss.\n"
    workers = "# No workers: the archive cannot be shared between processes.\n"
    for comment, level in ((dropped, "high"), (workers, "low")):
        text = HEAD + IMAGES.replace("loader =", f"{comment}loader =") + TRAINING
        assert levels(tmp_path / level, {"train.py": text, "net.py": ""}, "GPU303")[:1] in ([level], [])


@pytest.mark.parametrize(
    ("readme", "level"),
    [
        ("", "low"),
        ("Train on GPU 3.", "low"),
        ("We train on 4 A100 GPUs.", "high"),
        ("CUDA_VISIBLE_DEVICES=0,1", "high"),
        ("multi_gpu: true", "high"),
    ],
)
def test_data_parallel_counts_where_something_shows_a_second_gpu(tmp_path: Path, readme: str, level: str) -> None:
    text = HEAD + IMAGES + TRAINING.replace("Net().cuda()", "nn.DataParallel(Net()).cuda()")
    assert levels(tmp_path, {"train.py": text, "net.py": "", "README.md": readme}, "GPU352") == [level]


def test_a_helper_for_batches_of_several_forms_counts_once(tmp_path: Path) -> None:
    helper = (
        "def unpacked(batch):\n    if isinstance(batch, tuple):\n        return batch[0].to('cuda')\n"
        "    elif torch.is_tensor(batch):\n        return batch.to('cuda')\n"
    )
    pinned = IMAGES.replace("=128, shuffle=True)", "=512, shuffle=True, pin_memory=True, num_workers=4)")
    steps = TRAINING.replace("images, labels in loader", "batch in loader").replace("images.cuda()", "unpacked(batch)")
    files = {"train.py": HEAD + pinned + helper + steps.replace(", labels.cuda()", "")}
    found = bases(tmp_path, files, "GPU302")
    assert [one.partition(",")[0] for one in found] == ["medium", "low"]
    assert found[1].endswith("with the copy above it")


def test_copies_of_the_parts_of_a_batch_count_once(tmp_path: Path) -> None:
    pinned = IMAGES.replace("=128, shuffle=True)", "=512, shuffle=True, pin_memory=True, num_workers=4)")
    steps = TRAINING.replace("images, labels in loader", "batch in loader").replace(
        "loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())",
        "images = batch['images'].cuda()\n"
        "        print(epoch)\n"
        "        parts = [part.cuda() for part in batch['parts']]\n"
        "        loss = model(images, parts).sum()",
    )
    first, *others = bases(tmp_path, {"train.py": HEAD + pinned + steps}, "GPU302")
    assert first.startswith("medium"), first
    assert others and all(one.startswith("low") and one.endswith("with the copy above it") for one in others), others


def test_slices_of_volumes_are_as_large_as_images(tmp_path: Path) -> None:
    volumes = IMAGES.replace("from PIL import Image", "import nibabel").replace("Image.open", "nibabel.load")
    slices = volumes.replace("self.paths[index])", "self.paths[index], random_slice=True)")
    (whole,) = bases(tmp_path / "a", {"train.py": HEAD + volumes + TRAINING}, "GPU301")
    (flat,) = bases(tmp_path / "b", {"train.py": HEAD + slices + TRAINING}, "GPU301")
    assert "1 GB from pageable memory" in whole
    assert "77 MB from pageable memory" in flat
