"""What makes a finding cost less: whose code it is, what its author says, and what runs it."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, WAITS, bases, impacts, levels, scan


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

    work = "every step, batches of 128 images in the training process (image decoding and transforms)"
    assert found("blocks.py") == [f"high, {work}, 8 GPUs"]
    assert found("train.py") == [f"low, {work}, in a self-test that no job runs"]


NET = "from torch.nn import Conv2d as Net\n"


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


def test_a_program_that_names_no_device_wastes_no_gpu(tmp_path: Path) -> None:
    saving = "        torch.save(model.state_dict(), 'last.pt')\n"
    program = HEAD + TRAINING.replace("        total +=", f"{saving}        total +=")
    assert levels(tmp_path / "gpu", {"net.py": "", "train.py": program}, "GPU211") == ["medium"]
    found = levels(tmp_path / "cpu", {"net.py": "", "train.py": program.replace(".cuda()", "")}, "GPU211")
    assert found == ["low"]
    helper = "import torch\n\ndef placed(model):\n    return model.cuda()\n"
    lent = program.replace(".cuda()", "").replace("model = Net()", "model = placed(Net())")
    files = {"net.py": "", "place.py": helper, "train.py": "from place import placed\n" + lent}
    assert levels(tmp_path / "lent", files, "GPU211") == ["medium"]


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
    text = (
        WAITS + "    " + "\n    ".join(["for row in output: total += row.sum().item()", real, comment, *reads]) + "\n"
    )
    found = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU305"]
    assert [str(impact.level) for impact in found] == ["medium", level, level, level]


def test_what_only_unused_modules_use_is_not_used(tmp_path: Path) -> None:
    helper = HEAD + "\ndef fit():\n" + "".join(f"    {line}\n" for line in (IMAGES + TRAINING).splitlines())
    unused = {"net.py": "", "loops.py": helper, "modes.py": "from loops import fit\n\ndef run():\n    fit()\n"}
    assert levels(tmp_path / "a", unused, "GPU303") == ["medium"]
    used = {**unused, "main.py": "from modes import run\n\nrun()\n"}
    assert levels(tmp_path / "b", used, "GPU303") == ["high"]


def test_in_a_tree_with_programs_code_that_only_unused_code_uses_costs_little(tmp_path: Path) -> None:
    """Here of a package with a variant of the training for each framework, of which the program uses another one."""
    loop = "\ndef fit():\n" + "".join(f"    {line}\n" for line in (IMAGES + TRAINING).splitlines())
    files = {
        "net.py": "",
        "kit/__init__.py": "from kit.one import fit\nfrom kit.other import run\n",
        "kit/one.py": HEAD + loop,
        "kit/other.py": "def run():\n    print('other')\n",
        "kit/ready.py": "from kit import fit\n\ndef ready():\n    fit()\n",
        "main.py": "from kit import run\n\nif __name__ == '__main__':\n    run()\n",
    }
    assert levels(tmp_path / "a", files, "GPU303") == ["low"]
    called = {**files, "main.py": "from kit.ready import ready\n\nif __name__ == '__main__':\n    ready()\n"}
    assert levels(tmp_path / "b", called, "GPU303") == ["high"]


@pytest.mark.parametrize(
    ("use", "level"),
    [
        ("work.plan()", "low"),
        ("work.train_all()", "high"),
        ("getattr(work, 'train_all')()", "high"),
        ("class More(Work):\n    pass", "low"),
        ("class More(Work, lightning.LightningModule):\n    pass", "high"),
        ("fire.Fire(Work)", "high"),
    ],
)
def test_a_method_that_nothing_names_costs_little(tmp_path: Path, use: str, level: str) -> None:
    body = "".join(f"        {line}\n" for line in (IMAGES + TRAINING).splitlines())
    methods = f"class Work:\n    def plan(self):\n        return 1\n\n    def train_all(self):\n{body}"
    main = f"from work import Work\n\nif __name__ == '__main__':\n    work = Work()\n    work.plan()\n{use}\n"
    files = {"net.py": "", "work.py": HEAD + "\n" + methods, "main.py": main}
    assert levels(tmp_path, files, "GPU303") == [level]


@pytest.mark.parametrize(
    ("head", "decorator", "level"),
    [
        ("class Work(Base):", "", "low"),
        ("class Work(Base):", "@staticmethod", "low"),
        ("class Work(namedtuple('Work', 'a b')):", "@classmethod", "low"),
        ("class Work(Base):", "@step", "high"),
        ("class Work(keras.Model):", "", "high"),
    ],
)
def test_a_method_is_called_by_nothing_where_no_library_may_call_it(
    tmp_path: Path, head: str, decorator: str, level: str
) -> None:
    """Documentation calls no method."""
    body = "".join(f"        {line}\n" for line in (IMAGES + TRAINING).splitlines())
    doc = '    """Call ``Work.train_all()`` to train."""\n'
    method = f"    {decorator}\n    def train_all(one):\n{body}" if decorator else f"    def train_all(self):\n{body}"
    work = f"{HEAD}\nclass Base:\n    pass\n\n{head}\n{doc}\n    def plan(self):\n        return 1\n\n{method}"
    main = "from work import Work\n\nif __name__ == '__main__':\n    Work().plan()\n"
    assert levels(tmp_path, {"net.py": "", "work.py": work, "main.py": main}, "GPU303") == [level]


@pytest.mark.parametrize(
    ("main", "level"),
    [
        ("from loops import check\n\ndef run(model, split='train'):\n    model.train()\n    check()", "low"),
        ("from loops import check\n\ndef run(train):\n    return [check(one) for one in train]", "low"),
        ("from loops import check\n\ndef run(model):\n    model.loops.train()\n    check()", "low"),
        ("import loops\n\ndef run(model):\n    loops.train()", "high"),
        ("from loops import check\nfrom moved import train\n\ndef run(model):\n    train()", "high"),
        ("from loops import check\nfrom steps import train\n\ndef run(model):\n    train()", "low"),
        ("from loops import *\n\ndef run(model):\n    train()", "high"),
        ("from loops import train as fit\n\ndef run(model):\n    fit()", "high"),
        ("from kit import train\n\ndef run(model):\n    train()", "high"),
        ("import loops\n\ndef run(mode='train'):\n    getattr(loops, mode)()", "high"),
        ("import importlib\nfrom loops import check\n\ndef run(m):\n    importlib.import_module(m).train()", "high"),
        (
            "import os\nfrom loops import check\n\ndef run(m):\n    os.system('python -c \"from loops import train; train()\"')",
            "high",
        ),
    ],
)
def test_a_function_is_used_by_what_may_know_its_module(tmp_path: Path, main: str, level: str) -> None:
    """Methods, variables and texts of its name are others."""
    body = "".join(f"    {line}\n" for line in (IMAGES + TRAINING).splitlines())
    files = {
        "net.py": "",
        "loops.py": f"{HEAD}\ndef check(one=None):\n    return one\n\ndef train():\n{body}",
        "kit.py": "from loops import train\n",
        "steps.py": "def train():\n    return 1\n",
        "main.py": f"{main}\n\nif __name__ == '__main__':\n    run(None)\n",
        "settings.yaml": "train:\n  epochs: 3\n",
    }
    assert levels(tmp_path / "a", files, "GPU303") == [level]
    commands = {
        **files,
        "loops.py": f"import fire\n{files['loops.py']}\n\nif __name__ == '__main__':\n    fire.Fire()\n",
    }
    assert levels(tmp_path / "commands", commands, "GPU303") == ["high"]
    files["settings.yaml"] = "target: loops.train\n"
    assert levels(tmp_path / "b", files, "GPU303") == ["high"]


@pytest.mark.parametrize(
    ("calls", "level"),
    [
        ("Fit(photos, loader).run()", "low"),
        ("Fit(photos, loader).run()\nFit(photos).run()", "high"),
        ("Fit(photos, None).run()", "high"),
        ("Fit(photos, *more).run()", "high"),
    ],
)
def test_a_loader_for_callers_that_pass_none_costs_little_if_each_passes_one(
    tmp_path: Path, calls: str, level: str
) -> None:
    classes, _ = IMAGES.split("loader =")
    body = "".join(f"        {line}\n" for line in TRAINING.replace("in loader", "in self.drawn()").splitlines())
    fit = (
        "class Fit:\n    def __init__(self, data, loader=None):\n        self.data = data\n        self.loader = loader\n\n"
        "    def drawn(self):\n        if self.loader is None:\n            self.loader = self.made()\n"
        "        return self.loader\n\n    def made(self):\n        return DataLoader(Photos(self.data), batch_size=128)\n\n"
        f"    def run(self):\n{body}"
    )
    main = (
        "from fit import Fit\nfrom torch.utils.data import DataLoader\n\nloader = DataLoader(photos, num_workers=4,"
        f" pin_memory=True)\n{calls}\n"
    )
    files = {"net.py": "", "fit.py": HEAD + classes + fit, "main.py": main}
    assert levels(tmp_path, files, "GPU303") == [level]


@pytest.mark.parametrize(("splits", "level"), [("train_set", "low"), ("other_set", "high")])
def test_a_loader_whose_data_set_is_split_for_another_one_costs_little(tmp_path: Path, splits: str, level: str) -> None:
    classes, _ = IMAGES.split("loader =")
    made = (
        "class Zoo:\n    def __init__(self, paths):\n        self.train_set = Photos(paths)\n"
        "        self.train_loader = DataLoader(self.train_set, batch_size=128)\n"
    )
    parts = (
        "from torch.utils.data import DataLoader, random_split\n\ndef split(zoo, new, sizes):\n"
        f"    first, last = random_split(zoo.{splits}, sizes)\n"
        "    new.train_loader = DataLoader(first, batch_size=128, num_workers=4, pin_memory=True)\n    return new\n"
    )
    train = f"from zoo import Zoo\n{HEAD}loader = Zoo(paths).train_loader\n{TRAINING}"
    files = {"net.py": "", "zoo.py": HEAD + classes + made, "parts.py": parts, "train.py": train}
    assert levels(tmp_path, files, "GPU303") == [level]


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
    ("name", "function", "level"),
    [("cpu_settings.py", "apply", "low"), ("settings.py", "use_cpu", "low"), ("cpu_to_gpu.py", "apply", "high")],
)
def test_what_is_named_for_cpus_costs_no_gpu_time(tmp_path: Path, name: str, function: str, level: str) -> None:
    text = f"import torch\n\n\ndef {function}():\n    torch.backends.cudnn.enabled = False\n\n\n"
    files = {"net.py": NET, name: text + HEAD + IMAGES + f"{function}()\n" + TRAINING}
    assert levels(tmp_path, files, "GPU414") == [level]


@pytest.mark.parametrize("name", [".claude/skills/net/train.py", "skills/net/train.py", "net/train.py"])
def test_what_explains_a_task_to_assistants_is_documentation(tmp_path: Path, name: str) -> None:
    head = "import torch\ntorch.backends.cudnn.enabled = False\n"
    files = {"skills/net/SKILL.md": "---\nname: net\n---\n", "net.py": NET, name: head + HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU414") == ["high" if name.startswith("net") else "low"]


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
    job = "#!/bin/bash\n#SBATCH --nodes=256\n#SBATCH --gres=gpu:8\npython train.py\n"
    usual, other = impacts(tmp_path, {"job.sh": job, "train.py": program})["GPU331"]
    assert (str(usual.level), usual.basis) == ("medium", "once per run, a download, 2048 GPUs")
    assert (str(other.level), other.basis) == (
        "low",
        "once per run, a download, 2048 GPUs, a choice that is not the default",
    )


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


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("mmseg/apis/train.py", "a copy of a library"),
        ("ultralytics_custom/yolo/train.py", "a copy of a library"),
        (".claude/skills/train.py", "a vendored copy"),
    ],
)
def test_what_others_wrote_costs_little(tmp_path: Path, name: str, phrase: str) -> None:
    (found,) = bases(tmp_path, {name: HEAD + IMAGES + TRAINING}, "GPU303")
    assert found.startswith("low") and phrase in found


def test_a_library_counts_in_its_own_tree(tmp_path: Path) -> None:
    files = {"mmseg/apis/train.py": HEAD + IMAGES + TRAINING}
    (found,) = bases(tmp_path / "mmsegmentation", files, "GPU303")
    assert found.startswith("high")


def test_a_comment_on_another_setting_of_a_loader_is_no_reason(tmp_path: Path) -> None:
    dropped = "# The last batch of the dataset is dropped, which is necessary for the loss.\n"
    workers = "# No workers: the archive cannot be shared between processes.\n"
    for comment, level in ((dropped, "high"), (workers, "low")):
        text = HEAD + IMAGES.replace("loader =", f"{comment}loader =") + TRAINING
        assert levels(tmp_path / level, {"train.py": text, "net.py": ""}, "GPU303")[:1] in ([level], [])


@pytest.mark.parametrize(
    ("loop", "level"), [("for epoch in range(num_epochs)", "low"), ("for features, labels in loader", "medium")]
)
def test_what_happens_once_per_step_of_all_data_happens_seldom(tmp_path: Path, loop: str, level: str) -> None:
    text = (
        f"import torch\nfrom net import Net\n\nmodel = Net().cuda()\n{loop}:\n"
        "    loss = criterion(model(features.cuda()), labels.cuda())\n    loss.backward()\n    optimizer.step()\n"
        "    torch.cuda.empty_cache()\n"
    )
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU207") == [level]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("torch.autograd.set_detect_anomaly(\n    True\n)  # the exponential is causing NaNs", "low"),
        ("torch.autograd.set_detect_anomaly(\n    True\n)  # of autograd", "high"),
    ],
)
def test_a_reason_may_stand_at_the_end_of_a_call(tmp_path: Path, line: str, level: str) -> None:
    assert levels(tmp_path, {"net.py": "", "train.py": HEAD + line + "\n" + IMAGES + TRAINING}, "GPU414") == [level]


def test_a_call_for_another_version_of_a_library_counts_once(tmp_path: Path) -> None:
    made = "DataLoader(Photos(paths), batch_size=128, shuffle=True"
    images = IMAGES.replace(
        f"loader = {made})",
        f"try:\n    loader = {made}, in_order=False)\nexcept TypeError:\n    loader = {made})",
    )
    assert levels(tmp_path, {"net.py": "", "train.py": HEAD + images + TRAINING}, "GPU303") == ["high", "low"]


@pytest.mark.parametrize(("lines", "level"), [("# srun python train.py --gpu", "low"), ("# prepares the data", "high")])
def test_a_job_whose_program_is_commented_out_is_a_template(tmp_path: Path, lines: str, level: str) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:1\npip install datasets\n{lines}\necho done\n"
    assert levels(tmp_path, {"job.sh": job}, "GPU106") == [level]


def test_one_count_of_a_step_comes_once_per_epoch(tmp_path: Path) -> None:
    saved = "        if epoch % 2 == 0 and step == 0:\n            torch.save(model.state_dict(), 'model.pt')\n"
    loop = "for step, (images, labels) in enumerate(loader)"
    text = HEAD + IMAGES + TRAINING.replace("for images, labels in loader", loop) + saved
    (basis,) = bases(tmp_path, {"train.py": text}, "GPU211")
    assert basis.startswith("low, every 2 epochs, a checkpoint")


@pytest.mark.parametrize(("kept", "often"), [("top = loss", "not in every step"), ("other = loss", "every 5 steps")])
def test_only_the_best_so_far_is_saved_seldom(tmp_path: Path, kept: str, often: str) -> None:
    saved = (
        "        if step % 5 == 0 and loss < top:\n"
        f"            {kept}\n            torch.save(model.state_dict(), 'best.pt')\n"
    )
    text = (
        HEAD
        + IMAGES
        + TRAINING.replace("for images, labels in loader", "for step, (images, labels) in enumerate(loader)")
    )
    (basis,) = bases(tmp_path, {"train.py": text + saved}, "GPU211")
    assert f"{often}, a checkpoint" in basis


@pytest.mark.parametrize("name", ["user_in_the_loop_training.py", "lib/StyleCLIP/train.py"])
def test_what_few_samples_or_others_are_for_costs_little(tmp_path: Path, name: str) -> None:
    assert levels(tmp_path, {"net.py": "", name: HEAD + IMAGES + TRAINING}, "GPU303") == ["low"]


@pytest.mark.parametrize(("default", "level"), [("org/wide-70b", "medium"), ("org/deep-70b", "low")])
def test_a_branch_that_the_default_does_not_take_costs_little(tmp_path: Path, default: str, level: str) -> None:
    program = (
        "import argparse\nimport torch\nfrom transformers import AutoModel, AutoModelForCausalLM\n\n"
        f"parser = argparse.ArgumentParser()\nparser.add_argument('--model', default='{default}')\n"
        "args = parser.parse_args()\n"
        "if 'deep' in args.model or 'Deep' in args.model:\n"
        "    model = AutoModel.from_pretrained('org/fixed-tiny')\n"
        "else:\n    model = AutoModelForCausalLM.from_pretrained(args.model)\n"
        "model.cuda()\n"
    )
    job = "#!/bin/bash\n#SBATCH --gres=gpu:8\npython serve.py\n"
    results = scan(tmp_path, {"serve.py": program, "job.sh": job}).results
    found = [one.finding for one in results if default in one.finding.message]
    assert {str(finding.impact.level) for finding in found} in ({level}, set() if level == "low" else {level})


def test_a_function_that_only_a_notebook_calls_counts_as_a_notebook(tmp_path: Path) -> None:
    body = textwrap.indent(IMAGES.split("loader =")[1], "    ").lstrip()
    classes = IMAGES.split("loader =")[0]
    helper = (
        f"{HEAD}{classes}\ndef train_all(paths, loader=None):\n    loader ={body}{textwrap.indent(TRAINING, '    ')}"
    )
    cell = '{"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null, "source": '
    notebook = cell + '["from helper import train_all\\n", "train_all(paths)"]}], "metadata": {}, "nbformat": 4, '
    files = {
        "net.py": "",
        "helper.py": helper,
        "try.ipynb": notebook + '"nbformat_minor": 5}',
        "train.py": HEAD + TRAINING,
        "job.sh": "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n",
    }
    found = [one.finding for one in scan(tmp_path, files).results if one.finding.path.name == "helper.py"]
    assert ["only notebooks call it" in one.impact.basis for one in found if one.rule.code == "GPU303"] == [True]


@pytest.mark.parametrize(
    ("lines", "levels_of_both"),
    [
        ("vgg.eval()", ["high"]),
        ("vgg.eval()\nfor one in vgg.parameters():\n    one.requires_grad = False", ["high"]),
        ("vgg.eval()\nother = torch.optim.SGD(vgg.parameters(), lr=0.1)", ["high", "high"]),
        ("vgg.train()", ["high"]),
    ],
)
def test_a_frozen_network_needs_no_wrapper_of_its_own(tmp_path: Path, lines: str, levels_of_both: list[str]) -> None:
    both = f"vgg = nn.DataParallel(Net()).cuda()\n{lines}\nif several:\n    model = nn.DataParallel(model)\noptimizer"
    loop = TRAINING.replace("optimizer", both, 1).replace("loss.backward", "(loss + vgg(images).sum()).backward")
    job = "#!/bin/bash\n#SBATCH --gres=gpu:8\npython train.py\n"
    files = {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + loop}
    assert levels(tmp_path, files, "GPU352") == levels_of_both
    alone = {**files, "train.py": files["train.py"].replace("    model = nn.DataParallel(model)", "    pass")}
    assert levels(tmp_path / "alone", alone, "GPU352") == levels_of_both[1:]


@pytest.mark.parametrize(
    ("use", "level"),
    [
        ("", "low"),
        ("[GradientLogger] is what it logs", "low"),
        ("callbacks: [GradientLogger]", "medium"),
    ],
)
def test_a_callback_that_nothing_makes_costs_little(tmp_path: Path, use: str, level: str) -> None:
    callback = (
        "import torch\nfrom pytorch_lightning.callbacks import Callback\n\n\nclass GradientLogger(Callback):\n"
        "    def on_train_batch_end(self, trainer, module, outputs, batch, index):\n        total = 0.0\n"
        "        for one in module.parameters():\n            total += one.grad.norm(2).item() ** 2\n"
        f"        print(f'[GradientLogger] {{total}} {use}')\n"
    )
    files = {"net.py": "", "train.py": callback + HEAD + TRAINING.replace("loader:", "DataLoader(rows):")}
    if use.startswith("callbacks"):
        files["settings.yaml"] = f"{use}\n"
    found = [impact for impact in impacts(tmp_path, files)["GPU305"] if "inner loop" in impact.basis]
    assert [str(impact.level) for impact in found] == [level]


def test_what_stands_beside_generated_text_costs_little(tmp_path: Path) -> None:
    step = "        torch.cuda.empty_cache()\n        loss.backward()\n"
    emptied = HEAD + TRAINING.replace("        loss.backward()\n", step)
    assert levels(tmp_path / "usual", {"net.py": "", "train.py": emptied}, "GPU207") == ["medium"]
    generated = emptied.replace(step, f"        texts = model.generate(images, max_new_tokens=256)\n{step}")
    found = impacts(tmp_path / "generated", {"net.py": "", "train.py": generated})["GPU207"]
    assert [str(impact.level) for impact in found] == ["low"]
    assert "beside text that each step generates" in found[0].basis


@pytest.mark.parametrize(
    ("job", "level"),
    [
        ("#SBATCH -p core\n#SBATCH -n 16\npython train.py\n", "low"),
        ("#SBATCH -p a100\n#SBATCH -n 16\npython train.py\n", "high"),
        ("#SBATCH -p core\npython train.py\n", "high"),
        ("#SBATCH -n 16\nmodule load CUDA/12\npython train.py\n", "high"),
    ],
)
def test_jobs_that_request_cores_and_no_gpus_leave_none_idle(tmp_path: Path, job: str, level: str) -> None:
    files = {"net.py": "", "train.py": HEAD + IMAGES + TRAINING, "job.sh": f"#!/bin/bash\n{job}"}
    assert levels(tmp_path, files, "GPU303") == [level]


@pytest.mark.parametrize(("start", "level"), [("jupyter lab --no-browser", "low"), ("python serve.py", "medium")])
def test_packages_for_notebooks_of_a_person_cost_little(tmp_path: Path, start: str, level: str) -> None:
    compose = (
        "services:\n  dev:\n    image: team/dev:gpu\n"
        f'    command: bash -c "pip install jupyterlab torch flash-attn && {start}"\n'
        "    deploy:\n      resources:\n        reservations:\n          devices:\n"
        "            - {driver: nvidia, count: 1, capabilities: [gpu]}\n"
        "  train:\n    image: team/train:gpu\n    command: python train.py\n"
    )
    files = {"docker-compose.yml": compose, "serve.py": "import torch\n\nmodel.cuda()(batch)\n"}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(("indent", "once"), [("", True), ("    ", False)])
def test_a_cell_that_evaluates_once_costs_little(tmp_path: Path, indent: str, once: bool) -> None:
    training = f"{HEAD}loader = DataLoader(photos, num_workers=4)\n{TRAINING}"
    evaluation = "model.eval()\nfor images, labels in test_loader:\n    found.append(model(images.cuda()).cpu())\n"
    cells = [training + textwrap.indent(evaluation, indent)] if indent else [training, evaluation]
    code = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": one} for one in cells
    ]
    notebook = json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (found,) = impacts(tmp_path, {"train.ipynb": notebook})["GPU203"]
    assert str(found.level) == "low"
    assert ("one evaluation after the training" in found.basis) == once


@pytest.mark.parametrize(("figure", "level"), [("    plt.figure()\n", "low"), ("", "medium")])
def test_an_evaluation_for_a_figure_costs_little(tmp_path: Path, figure: str, level: str) -> None:
    compare = (
        "import matplotlib.pyplot as plt\n\n\ndef compare(test_loader):\n    model.eval()\n"
        f"{figure}    for images, labels in test_loader:\n        found.append(model(images.cuda()).cpu())\n"
        "    save(found)\n\n\ncompare(photos)\n"
    )
    program = f"{HEAD}model = Net().cuda()\ntest_loader = DataLoader(photos, num_workers=4)\n{compare}"
    assert levels(tmp_path, {"net.py": "", "train.py": program}, "GPU203") == [level]


@pytest.mark.parametrize(
    ("lines", "level"),
    [
        ("", "medium"),
        ("    rows = sampler.sample(features)\n", "medium"),
        ("    for frame in features:\n        seen.append(model.encode(frame))\n", "low"),
        ("    noise = sample_images(unet, features)\n", "low"),
        ("    for part in features:\n        names += model.parameters()\n", "medium"),
        ("    for part in features:\n        model(part).sum().backward()\n", "medium"),
    ],
)
def test_the_cache_matters_little_in_steps_of_many_passes(tmp_path: Path, lines: str, level: str) -> None:
    text = (
        "import torch\nfrom net import Net\n\nmodel = Net().cuda()\nfor features, labels in loader:\n"
        f"{lines}    loss = criterion(model(features.cuda()), labels.cuda())\n    loss.backward()\n"
        "    torch.cuda.empty_cache()\n    optimizer.step()\n"
    )
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU207") == [level]
