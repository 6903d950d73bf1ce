"""What GPUs that are held, exchanged over or saved from cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, bases, impacts, levels, scan

STEPS = """\
import argparse
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default={default})
args = parser.parse_args()
torch.distributed.init_process_group("nccl")
model = DDP(model)
for index, batch in enumerate(loader):
    {step}
"""

JOIN = "torch.distributed.init_process_group('nccl')"

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


@pytest.mark.parametrize(
    ("wrapper", "level", "text"),
    [("DDP", "medium", "gradients are exchanged"), ("FSDP", "low", "FSDP reduce-scatters")],
)
def test_skipping_an_exchange_costs_memory_where_gradients_are_sharded(
    tmp_path: Path, wrapper: str, level: str, text: str
) -> None:
    program = STEPS.format(default=4, step=IN_PARTS).replace("DDP(model)", f"{wrapper}(model)")
    program = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n" + program
    results = scan(tmp_path, {"train.py": program}).results
    (found,) = [r.finding for r in results if r.finding.rule.code == "GPU353"]
    assert found.impact is not None
    assert str(found.impact.level) == level
    assert found.message.startswith(text)


@pytest.mark.parametrize(("line", "level"), [("breakpoint()", "medium"), ("if odd: breakpoint()", "low")])
def test_a_debugger_for_what_was_not_foreseen_costs_less(tmp_path: Path, line: str, level: str) -> None:
    text = HEAD + IMAGES + f"odd = strange(loader)\n{line}\n" + TRAINING
    assert levels(tmp_path, {"net.py": "", "train.py": text}, "GPU102") == [level]


@pytest.mark.parametrize("gpus", ["--gres=gpu:1", "--gpus=2", "--gpus=$COUNT", "--gres=gpu:a100:4"])
@pytest.mark.parametrize("session", ["srun {} --pty /bin/bash", "salloc {} --time=4:00:00"])
def test_a_script_that_logs_in_costs_little(tmp_path: Path, session: str, gpus: str) -> None:
    assert levels(tmp_path, {"run.sh": session.format(gpus) + "\n"}, "GPU101") == ["low"]


@pytest.mark.parametrize(
    ("kind", "gpus", "notes", "level"),
    [
        ("Deployment", 1, "", "low"),
        ("Deployment", 8, "", "high"),
        ("Deployment", 8, "kubectl exec -it trainer -- bash", "low"),
        ("StatefulSet", 2, "", "low"),
        ("Job", 2, "", "high"),
    ],
)
def test_a_pod_that_a_person_enters_costs_little(tmp_path: Path, kind: str, gpus: int, notes: str, level: str) -> None:
    spec = (
        f"kind: {kind}\nmetadata: {{name: trainer}}\nspec:\n  template:\n    spec:\n      containers:\n"
        "      - name: trainer\n        image: org/net\n        command: [sleep, infinity]\n"
        f"        resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n"
    )
    files = {"trainer.yaml": spec, "README.md": notes + "\n"}
    assert levels(tmp_path, files, "GPU101") == [level]


@pytest.mark.parametrize(
    ("path", "beside", "level"),
    [
        ("train.py", "train_ddp.py", "low"),
        ("train.py", "evaluate_ddp.py", "low"),
        ("train.py", "train_more.py", "seldom"),
        ("Other-main/train.py", "more.py", "low"),
        ("Other-main/train.py", "Other-main/more.py", "seldom"),
    ],
)
def test_data_parallel_costs_little_beside_a_program_for_ddp(
    tmp_path: Path, path: str, beside: str, level: str
) -> None:
    own = HEAD + IMAGES + "model = torch.nn.DataParallel(Net().cuda(), device_ids=[0, 1, 2, 3])\n" + TRAINING
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


@pytest.mark.parametrize(
    ("path", "others", "low"),
    [
        ("v01/train.py", {"v02/train.py": "print(1)\n"}, True),
        ("code_v1/run/train.py", {"code_v2/run/train.py": "print(1)\n"}, True),
        ("train_v1.py", {"train_v3.py": "print(1)\n"}, True),
        ("v02/train.py", {"v01/train.py": "print(1)\n"}, False),
        ("v01/train.py", {"v02/other.py": "print(1)\n"}, False),
        ("v01/train.py", {"v02/train.py": "print(1)\n", "start.py": "import v01.train\n"}, False),
        (
            "v01/train.py",
            {"v02/train.py": "print(1)\n", "run.sh": "#SBATCH --gres=gpu:1\npython v01/train.py\n"},
            False,
        ),
        ("train_resnet_v1.py", {"train_resnet_v2.py": "print(1)\n"}, False),
        ("train.py", {}, False),
    ],
)
def test_a_program_with_a_newer_version_beside_it_costs_little(
    tmp_path: Path, path: str, others: dict[str, str], low: bool
) -> None:
    files = {"net.py": "", path: HEAD + IMAGES + TRAINING, **others}
    (found,) = bases(tmp_path, files, "GPU303")
    assert ("newer version" in found) is low
    assert found.startswith("low") is low


@pytest.mark.parametrize(("gpus", "level"), [(1, "low"), (2, "low"), (4, "seldom")])
def test_jobs_without_gpus_beside_others_say_nothing_of_their_number(tmp_path: Path, gpus: int, level: str) -> None:
    text = HEAD + IMAGES + TRAINING.replace("Net().cuda()", "nn.DataParallel(Net()).cuda()")
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\npython train.py\n"
    on_cpu = "#!/bin/bash\n#SBATCH --partition=medium\n#SBATCH --mem=75G\npython train.py --method forest\n"
    files = {"net.py": "", "train.py": text, "job.sbatch": job, "forest.sbatch": on_cpu}
    assert levels(tmp_path, files, "GPU352") == [level]


def test_a_trainer_that_starts_a_process_per_gpu_gets_the_model_unwrapped(tmp_path: Path) -> None:
    text = (
        "import torch\nfrom pytorch_lightning import Trainer\nfrom net import Net\n"
        "model = Net()\nmodel = torch.nn.DataParallel(model, device_ids=[0, 1])\n"
        "trainer = Trainer.from_argparse_args(options)\ntrainer.fit(model, data)\n"
    )
    report = scan(tmp_path, {"net.py": "", "train.py": text})
    (found,) = (one.finding for one in report.results if one.finding.rule.code == "GPU352")
    assert found.help == 'pass `model` to the Trainer unwrapped, with `strategy="ddp"`'


def test_models_that_are_wrapped_together_count_once_and_an_option_costs_less(tmp_path: Path) -> None:
    wrapped = "model = nn.DataParallel(Net()).cuda()\ncritic = nn.DataParallel(Net()).cuda()"
    text = HEAD + IMAGES + TRAINING.replace("model = Net().cuda()", wrapped)
    files = {"net.py": "", "job.sh": "#!/bin/bash\n#SBATCH --gres=gpu:4\npython train.py\n"}
    assert levels(tmp_path / "a", {**files, "train.py": text}, "GPU352") == ["seldom", "low"]
    option = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--multi_gpu', action='store_true')\n"
    )
    switched = TRAINING.replace(
        "model = Net().cuda()",
        "args = parser.parse_args()\nmodel = Net().cuda()\nif args.multi_gpu:\n    model = nn.DataParallel(model)",
    )
    files["train.py"] = option + HEAD + IMAGES + switched
    assert levels(tmp_path / "b", files, "GPU352") == ["low"]
    files["job.sh"] = files["job.sh"].replace("train.py", "train.py --multi_gpu")
    assert levels(tmp_path / "c", files, "GPU352") == ["seldom"]


@pytest.mark.parametrize(("gpus", "level"), [(1, "low"), (2, "low"), (4, "seldom")])
def test_plain_scripts_beside_jobs_say_nothing_of_their_gpus(tmp_path: Path, gpus: int, level: str) -> None:
    text = HEAD + IMAGES + TRAINING.replace("Net().cuda()", "nn.DataParallel(Net()).cuda()")
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\npython train.py\n"
    files = {"net.py": "", "train.py": text, "job.sbatch": job, "run.sh": "#!/bin/bash\npython train.py\n"}
    assert levels(tmp_path, files, "GPU352") == [level]


@pytest.mark.parametrize(
    ("beside", "level"),
    [
        ({"tools/run.sh": "python train.py --gpus 4\n"}, "seldom"),
        ({"tools/run.sh": "python train.py \\\n  --gpu_ids 0,1,2,3\n"}, "seldom"),
        ({"start.py": "from train import main\nmain(gpus=[0, 1, 2, 3])\n"}, "seldom"),
        ({"configs/base.yaml": "gpus: [0, 1, 2, 3]\n"}, "seldom"),
        ({"tools/run.sh": "python run.py --gpus 4\n"}, "low"),
        ({"run.py": "start(gpus=[0, 1, 2, 3])\n"}, "low"),
        ({"README.md": "We trained on 8 V100 GPUs.\n"}, "low"),
        ({"run.sh": "CUDA_VISIBLE_DEVICES=3 python train.py\n", "configs/base.yaml": "gpus: [0, 1, 2, 3]\n"}, None),
    ],
)
def test_what_others_run_on_several_gpus_says_nothing_of_the_program(
    tmp_path: Path, beside: dict[str, str], level: str | None
) -> None:
    text = HEAD + IMAGES + TRAINING.replace("Net().cuda()", "nn.DataParallel(Net()).cuda()")
    expected = [level] if level is not None else []
    assert levels(tmp_path, {"net.py": "", "train.py": text, **beside}, "GPU352") == expected


@pytest.mark.parametrize(("kind", "level"), [("Job", "medium"), ("Pod", "low")])
def test_a_job_that_only_prepares_and_sleeps_holds_gpus_for_nobody(tmp_path: Path, kind: str, level: str) -> None:
    pod = "restartPolicy: Never\ncontainers:\n- name: work\n  image: org/net\n  command: [sh, -c]\n"
    pod += "  args: ['pip install gdown && gdown 1yBy -O x.zip && unzip x.zip && sleep 360000']\n"
    pod += "  resources: {limits: {nvidia.com/gpu: 1}}\n"
    deep = (
        "template:\n    spec:\n      " + pod.replace("\n", "\n      ") if kind == "Job" else pod.replace("\n", "\n  ")
    )
    spec = f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: work}}\nspec:\n  {deep}\n"
    assert levels(tmp_path, {"work.yaml": spec}, "GPU101") == [level]


def test_a_pause_of_known_length_costs_gpu_hours(tmp_path: Path) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:4\npython train.py\nsleep 7200\n"
    (impact,) = impacts(tmp_path, {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING})["GPU105"]
    assert impact.gpu_hours == (8.0, 8.0)
    assert str(impact.level) == "high"


@pytest.mark.parametrize(("limit", "hours"), [("01:30:00", (6.0, 6.0)), ("08:00:00", (16.0, 16.0))])
def test_a_pause_costs_no_more_than_the_time_limit(tmp_path: Path, limit: str, hours: tuple[float, float]) -> None:
    script = f"#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --time={limit}\npython train.py\nsleep 4h\n"
    (result,) = [
        r for r in scan(tmp_path, {"job.sh": script, "train.py": TRAINING}).results if r.finding.path.suffix == ".sh"
    ]
    assert result.finding.message.startswith("`sleep 4h` keeps the GPUs")
    assert result.finding.impact is not None
    assert result.finding.impact.gpu_hours == hours


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
    assert "32 GPUs" in impact.basis


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


def test_data_parallel_sees_the_gpus_of_one_node(tmp_path: Path) -> None:
    job = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\npython train.py\n"
    program = PARALLEL.format(wrapped="model = nn.DataParallel(model).cuda()")
    (impact,) = impacts(tmp_path, {"job.sh": job, "net.py": "", "train.py": program})["GPU352"]
    assert ", 4 GPUs" in impact.basis


def test_a_module_that_may_be_imported_from_a_folder_on_the_path_is_none_that_nothing_imports(tmp_path: Path) -> None:
    program = f"{HEAD}\n\ndef train(paths):\n" + "".join(f"    {line}\n" for line in (IMAGES + TRAINING).split("\n"))
    files = {"net.py": "", "models/models/detector.py": program}
    (alone,) = impacts(tmp_path, files)["GPU303"]
    assert "nothing is seen to run it" in alone.basis
    files["run.py"] = "import sys\n\nsys.path.insert(0, folder)\nfrom lib.detector import train\n\ntrain(paths)\n"
    (found,) = impacts(tmp_path, files)["GPU303"]
    assert "nothing is seen to run it" not in found.basis


EITHER = """\
if args.distributed:
    model = nn.parallel.DistributedDataParallel(model.cuda())
else:
    model = nn.DataParallel(model).cuda()"""

AFTER = """\
if __name__ == "__main__":
    model = nn.DataParallel(model.cuda())
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model)"""

ONLY = "model = nn.DataParallel(model).cuda()"

GUARDED = "model = model.cuda()\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)"


@pytest.mark.parametrize(
    ("gpus", "wrapped", "expected"),
    [
        ("4", ONLY, ["seldom"]),
        ("1", ONLY, []),
        ("4", EITHER, ["low"]),
        ("4", AFTER, ["low"]),
        ("4", GUARDED, ["seldom"]),
    ],
)
def test_data_parallel_costs_nothing_on_one_gpu_and_little_beside_ddp(
    tmp_path: Path, gpus: str, wrapped: str, expected: list[str]
) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\npython train.py\n"
    files = {"net.py": "", "train.py": PARALLEL.format(wrapped=wrapped), "job.sh": job}
    assert levels(tmp_path, files, "GPU352") == expected


@pytest.mark.parametrize(("wrapped", "level"), [(ONLY, "seldom"), (GUARDED, "low")])
def test_data_parallel_costs_little_where_nothing_holds_the_gpus_that_it_asks_for(
    tmp_path: Path, wrapped: str, level: str
) -> None:
    files = {"net.py": "", "train.py": PARALLEL.format(wrapped=wrapped), "README.md": "python train.py --gpus 4"}
    assert levels(tmp_path, files, "GPU352") == [level]


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


@pytest.mark.parametrize(
    ("condition", "often"),
    [
        ("if is_best:", "not in every epoch"),
        ("if best_loss and rank == 0:", "not in every epoch"),
        ("if self.state.improved:", "not in every epoch"),
        ("if best_path:", "every epoch"),
        ("if args.keep_best or rank == 0:", "every epoch"),
    ],
)
def test_the_best_so_far_is_not_saved_in_every_epoch(tmp_path: Path, condition: str, often: str) -> None:
    saving = SAVING.replace("        {condition}\n    ", "    {condition}\n")
    text = HEAD + IMAGES + "model = Net().cuda()\n" + saving.format(condition=condition)
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU211"]
    assert impact.basis.startswith(often)


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
    ("setting", "expected"),
    [("export CUDA_VISIBLE_DEVICES=0", []), ("export CUDA_VISIBLE_DEVICES=0,1,2,3", ["seldom"])],
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


@pytest.mark.parametrize(("gpus", "level"), [(1, "low"), (4, "high")])
def test_one_gpu_for_a_person_is_what_development_needs(tmp_path: Path, gpus: int, level: str) -> None:
    job = f"#!/bin/bash\n#SBATCH --gpus={gpus}\njupyter lab --no-browser --ip=0.0.0.0\n"
    assert levels(tmp_path, {"job.sh": job}, "GPU101") == [level]


@pytest.mark.parametrize(
    ("name", "after", "level"),
    [
        ("train.py", "", "seldom"),
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
    assert levels(tmp_path, {"net.py": "", name: text, "README.md": f"python {name} --gpus 4"}, "GPU352") == [level]


@pytest.mark.parametrize(
    ("readme", "level"),
    [
        ("", "low"),
        ("Train on GPU 3.", "low"),
        ("We train on 4 A100 GPUs.", "low"),
        ("CUDA_VISIBLE_DEVICES=0,1,2 python train.py", "seldom"),
        ("CUDA_VISIBLE_DEVICES=0,1 python train.py", "low"),
        ("CUDA_VISIBLE_DEVICES=0,1,2 python other.py", "low"),
        ("python train.py --num_gpus 4", "seldom"),
        ("python train.py --multi_gpu", "low"),
    ],
)
def test_data_parallel_counts_where_something_shows_a_third_gpu(tmp_path: Path, readme: str, level: str) -> None:
    text = HEAD + IMAGES + TRAINING.replace("Net().cuda()", "nn.DataParallel(Net()).cuda()")
    assert levels(tmp_path, {"train.py": text, "net.py": "", "README.md": readme}, "GPU352") == [level]


def test_an_option_that_names_one_gpu_by_default_gives_data_parallel_one(tmp_path: Path) -> None:
    options = (
        "import argparse\n\n"
        "def parse():\n"
        "    parser = argparse.ArgumentParser()\n"
        "    parser.add_argument('--gpu_ids', default='0')\n"
        "    options = parser.parse_args()\n"
        "    options.gpu_ids = [int(one) for one in options.gpu_ids.split(',')]\n"
        "    return options\n"
    )
    train = (
        "import torch\nfrom net import Net\nfrom options import parse\n\n"
        "options = parse()\n"
        "model = torch.nn.DataParallel(Net().cuda(), options.gpu_ids)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for images, labels in loader:\n"
        "    loss = (model(images.cuda()) - labels.cuda()).sum()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    files = {"net.py": "", "README.md": "We used 4 GPUs.\n", "options.py": options, "train.py": train}
    assert levels(tmp_path / "one", files, "GPU352") == ["low"]
    several = {**files, "options.py": options.replace("default='0'", "default='0,1,2,3'")}
    assert levels(tmp_path / "several", several, "GPU352") == ["seldom"]
    commanded = {**files, "run.sh": "python train.py --gpu_ids 0,1,2,3\n"}
    assert levels(tmp_path / "commanded", commanded, "GPU352") == ["seldom"]
    beside = {
        **files,
        "other.py": "from options import parse\n\nparse()\n",
        "run.sh": "python other.py --gpu_ids 0,1\n",
    }
    assert levels(tmp_path / "beside", beside, "GPU352") == ["low"]


SPAWNS = """\
import argparse
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def run(rank, count):
    if count > 1:
        dist.init_process_group("gloo", rank=rank, world_size=count)
    model = DDP(Net().cuda(rank))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        loss = model(batch.cuda())
        loss.backward()
        optimizer.step()


parser = argparse.ArgumentParser()
parser.add_argument("--np", type=int, default={default})
args = parser.parse_args()
if args.np > 1:
    mp.spawn(run, args=(args.np,), nprocs=args.np)
else:
    run(0, 1)
"""


@pytest.mark.parametrize(("default", "level"), [(1, "low"), (4, "seldom")])
def test_one_process_by_default_exchanges_nothing(tmp_path: Path, default: int, level: str) -> None:
    assert levels(tmp_path, {"train.py": SPAWNS.format(default=default)}, "GPU355") == [level]


@pytest.mark.parametrize(("shown", "level"), [("CUDA_VISIBLE_DEVICES=0 ", "low"), ("", "seldom")])
def test_commands_in_notes_say_how_many_gpus_a_program_gets(tmp_path: Path, shown: str, level: str) -> None:
    program = HEAD + IMAGES + TRAINING.replace("Net().cuda()", "nn.DataParallel(Net()).cuda()")
    notes = f"Start it:\n\n    {shown}python train.py --config a.yaml\n"
    files = {"net.py": "", "train.py": program, "a.yaml": "gpus: [0, 1, 2, 3]\n", "README.md": notes}
    assert levels(tmp_path, files, "GPU352") == [level]


@pytest.mark.parametrize(("gpus", "level"), [(1, "low"), (4, "high")])
def test_a_shell_on_many_gpus_costs_much_whatever_its_name(tmp_path: Path, gpus: int, level: str) -> None:
    pod = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: shell}\nspec:\n  template:\n    spec:\n      containers:\n"
        "      - name: shell\n        image: torch\n        command: ['sleep', 'inf']\n"
        f"        resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n"
    )
    assert levels(tmp_path, {"k8s/shell.yaml": pod}, "GPU101") == [level]


@pytest.mark.parametrize(
    ("notes", "level"),
    [
        ("```\ntrain.py --data images --gpu 0\n```\n", "low"),
        ("Run `python train.py --gpu=1 --data images`.\n", "low"),
        ("```\n$ python train.py \\\n    --gpu 0 \\\n    --data images\n```\n", "low"),
        ("```\npython train.py --data images --gpu 0 1 2 3\n```\n", "seldom"),
        ("```\npython train.py --gpu 0\npython train.py --data images\n```\n", "seldom"),
        ("The network is in train.py.\n", "seldom"),
    ],
)
def test_devices_of_an_option_without_default_are_those_of_the_commands_shown(
    tmp_path: Path, notes: str, level: str
) -> None:
    options = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--gpu', nargs='+', type=int)\n"
        "args = parser.parse_args()\n"
    )
    wrapped = TRAINING.replace("Net().cuda()", "nn.DataParallel(Net(), device_ids=args.gpu).cuda()")
    files = {"net.py": "", "train.py": options + HEAD + IMAGES + wrapped, "README.md": notes}
    assert levels(tmp_path, {**files, "other/config.yaml": "GPUS: (0,1,2,3)\n"}, "GPU352") == [level]


VISIBLE = """\
import os
import argparse
import torch
from net import wrapped


def set_gpu(gpus):
    os.environ["CUDA_VISIBLE_DEVICES"] = {value}


parser = argparse.ArgumentParser()
parser.add_argument("--gpu", default="{default}")
args = parser.parse_args()
{called}
model = wrapped()
for images in loader:
    model(images.cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("value", "default", "called", "command", "level"),
    [
        ('"1"', "0", "set_gpu(args.gpu)", "", "low"),
        ("gpus", "0", "set_gpu(args.gpu)", "python train.py --gpu 2", "low"),
        ("gpus", "0,1,2", "set_gpu(args.gpu)", "", "seldom"),
        ("gpus", "0", "set_gpu(args.gpu)", "python train.py --gpu 0,1,2", "seldom"),
    ],
)
def test_a_program_that_leaves_itself_one_gpu_exchanges_nothing(
    tmp_path: Path, value: str, default: str, called: str, command: str, level: str
) -> None:
    net = "from torch import nn\n\n\ndef wrapped():\n    return nn.DataParallel(nn.Linear(8, 8)).cuda()\n"
    program = VISIBLE.format(value=value, default=default, called=called)
    notes = f"Trained on 4 GPUs.\n\n    {command}\n"
    assert levels(tmp_path, {"net.py": net, "train.py": program, "README.md": notes}, "GPU352") == [level]


def test_a_part_of_a_model_is_no_advice_for_ddp(tmp_path: Path) -> None:
    """Who wraps the encoder alone trains other weights beside it, which its DDP would leave out."""
    text = "import torch\n\nmodel = Net()\nmodel.encoder = torch.nn.DataParallel(model.encoder)\nmodel.cuda()\n"
    (found,) = scan(tmp_path, {"train.py": text}).results
    assert found.finding.help.startswith("wrap all that is trained (`model`, of which `model.encoder` is a part)")


@pytest.mark.parametrize(
    ("opens", "level"),
    [
        ('subprocess.call(["xdg-open", "out.pdf"])', "low"),
        ("plt.show()", "low"),
        ('subprocess.call(["gzip", "out.pdf"])', "medium"),
    ],
)
def test_a_program_that_shows_windows_waits_for_the_person_at_it(tmp_path: Path, opens: str, level: str) -> None:
    head = "import subprocess\nimport matplotlib.pyplot as plt\n"
    program = f"{head}{HEAD}{IMAGES}{TRAINING}{opens}\ninput('Press Enter')\n"
    assert levels(tmp_path, {"net.py": "", "train.py": program}, "GPU105") == [level]


@pytest.mark.parametrize(
    ("files", "level"),
    [
        ({"run.sh": "python train.py\n"}, "low"),
        ({"run.sh": "torchrun --nproc_per_node=4 train.py\n"}, "medium"),
        (
            {"run.sh": "python train.py\n", "README.md": "On several GPUs: `torchrun --nproc_per_node=4 train.py`\n"},
            "medium",
        ),
        (
            {
                "run.sh": "python train.py\n",
                "start.py": "import torch.multiprocessing as mp\nimport train\nmp.spawn(train.main)\n",
            },
            "medium",
        ),
        ({}, "low"),
        ({"README.md": "Train with `python train.py`.\n"}, "low"),
        ({"start.py": '"""Usage: torchrun --nproc_per_node=4 start.py"""\nimport train\n\ntrain.main()\n'}, "medium"),
        ({"start.py": "# torchrun --nproc_per_node=4 start.py\nimport train\n\ntrain.main()\n"}, "low"),
        ({"start.py": f"import train\n{JOIN}\n\ntrain.main()\n"}, "medium"),
        ({"start.py": f"import os\nimport train\nif 'RANK' in os.environ:\n    {JOIN}\n\ntrain.main()\n"}, "low"),
        ({"start.py": f"import train\n{JOIN}\n\ntrain.main()\n", "run.sh": "python start.py\n"}, "low"),
    ],
)
def test_a_program_that_runs_as_one_process_exchanges_nothing(
    tmp_path: Path, files: dict[str, str], level: str
) -> None:
    program = (
        "import torch\nfrom torch.nn.parallel import DistributedDataParallel\n\n\n"
        "def main(rank=0):\n    model = DistributedDataParallel(Net().cuda())\n"
        "    for step, x in enumerate(loader):\n        (model(x.cuda()).sum() / 8).backward()\n"
        "        if (step + 1) % 8 == 0:\n            optimizer.step()\n            optimizer.zero_grad()\n\n\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    assert levels(tmp_path, {**files, "train.py": program}, "GPU353") == [level]


@pytest.mark.parametrize(
    ("name", "level"),
    [("dummy_sbatch.sh", "low"), ("hold.sbatch", "low"), ("monitor.sh", "high"), ("threshold.sh", "high")],
)
def test_a_script_that_holds_gpus_by_its_name_does_so_on_purpose(tmp_path: Path, name: str, level: str) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:4\nwatch -n 1 nvidia-smi\n"
    assert levels(tmp_path, {name: job}, "GPU101") == [level]


@pytest.mark.parametrize(
    ("name", "head", "notes", "level"),
    [
        ("job.sh", "#SBATCH --gres=gpu:4", "", "high"),
        ("job.sh", "#SBATCH --gres=gpu:4  # 2 would do for a test", "", "high"),
        ("debug_train.sh", "#SBATCH --gres=gpu:4", "", "low"),
        ("job.sh", "#SBATCH --partition=gpu-debug\n#SBATCH --gres=gpu:4", "", "low"),
        ("job.sh", "#SBATCH --gres=gpu:4  # whole node, for its memory", "", "low"),
        ("job.sh", "#SBATCH --gres=gpu:4", "Submit with `sbatch --gres=gpu:1 job.sh`.", "low"),
        ("job.sh", "#SBATCH --gres=gpu:4", "Submit with `sbatch job.sh`.", "high"),
    ],
)
def test_gpus_of_trials_and_those_requested_for_the_node_cost_little(
    tmp_path: Path, name: str, head: str, notes: str, level: str
) -> None:
    job = f"#!/bin/bash\n{head}\npython train.py\n"
    program = "import torch\nmodel = torch.nn.Linear(2, 2)\nmodel = model.cuda()\n" + (
        "for batch in loader:\n    model(batch.cuda()).mean().backward()\n    optimizer.step()\n"
    )
    assert levels(tmp_path, {name: job, "train.py": program, "README.md": notes}, "GPU413") == [level]


def test_hidden_gpus_cost_nothing_in_a_file_that_no_job_with_gpus_runs(tmp_path: Path) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:4\npython {}\n"
    hidden = 'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "-1"\nimport tensorflow as tf\nmodel = net()\nmodel.fit(x, y)\n'
    for number, (started, level) in enumerate([("small.py", "high"), ("train.py", "low")]):
        files = {"job.sh": job.format(started), "small.py": hidden, "train.py": "import torch\n"}
        assert levels(tmp_path / str(number), files, "GPU411") == [level]


@pytest.mark.parametrize(
    ("script", "gpus"),
    [
        ("torchrun --standalone --nproc-per-node 4 train.py\n", 4),
        ("NUM_GPUS=2\ntorchrun --nproc_per_node=$NUM_GPUS train.py\n", 2),
        ("CUDA_VISIBLE_DEVICES=0,1,2 python train.py\n", 3),
        ("torchrun --nnodes 2 --nproc-per-node 4 train.py\n", 8),
        ("NODES=2\npython -m torch.distributed.launch --nnodes=$NODES --nproc_per_node=8 train.py\n", 16),
        ("srun -N 2 --ntasks-per-node=1 torchrun --nnodes 2 --nproc-per-node 8 train.py\n", 16),
        ("accelerate launch --num_processes 16 --num_machines 2 --machine_rank $1 train.py\n", 16),
        ("accelerate launch --config_file two.yaml train.py\n", 8),
        ("deepspeed --num_nodes 2 --num_gpus 8 train.py\n", 16),
        ("deepspeed --hostfile hosts --num_gpus 8 train.py\n", None),
        ("torchrun --nnodes=1:4 --nproc-per-node 8 train.py\n", None),
        ("torchrun --nnodes=$1 --nproc-per-node 8 train.py\n", None),
        ("torchrun --nproc-per-node $COUNT train.py\n", None),
        ("python train.py\n", None),
    ],
)
def test_a_script_without_a_request_holds_what_its_command_starts(
    tmp_path: Path, script: str, gpus: int | None
) -> None:
    two = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 8\n"
    files = {"net.py": "", "train.py": HEAD + IMAGES + TRAINING, "run.sh": f"#!/bin/bash\n{script}", "two.yaml": two}
    report = scan(tmp_path, files)
    assert [job.gpus for job in report.jobs] == [gpus]
