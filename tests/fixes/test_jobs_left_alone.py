"""Jobs and programs that stay as they are, since a fix would gain nothing or stop them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

OWN_BATCH = """\
import argparse
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--eval_batch_size", type=int, default=64)
args = parser.parse_args()
train_loader = DataLoader(train_set, batch_size=args.batch_size)
val_loader = DataLoader(val_set, batch_size=args.eval_batch_size)
for images, labels in train_loader:
    model(images.cuda()).backward()
validate(model, val_loader)
"""

ON_ONE_GPU = """\
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpu_id", type=int, default=0)
args = parser.parse_args()
model = torch.nn.Linear(8, 8).cuda(args.gpu_id)
for x in batches:
    model(x.cuda(args.gpu_id)).sum().backward()
    optimizer.step()
"""

CASES = {
    "fewer GPUs where cores are counted by them": (
        "GPU103",
        {
            "train.py": ON_ONE_GPU,
            "job.sh": "#!/bin/bash\n#SBATCH --gpus=4\n#SBATCH --cpus-per-gpu=8\nsrun python train.py\n",
        },
        "counted by its GPUs",
    ),
    "fewer GPUs where the command names another device": (
        "GPU103",
        {"train.py": ON_ONE_GPU, "job.sh": "#!/bin/bash\n#SBATCH --gpus=4\nsrun python train.py --gpu_id 2\n"},
        "names devices itself",
    ),
    "a number of one machine that is passed as the total of two": (
        "GPU103",
        {
            "train.py": "import torch\n\ntorch.distributed.init_process_group('nccl')\n"
            "train(torch.nn.parallel.DistributedDataParallel(model))\n",
            "submit.py": "import subprocess\n\nimport modal\n\napp = modal.App('training')\neach = 8\n\n\n"
            "@app.function(gpu='H100:8')\ndef train(rank):\n"
            "    command = ['accelerate', 'launch', '--num_machines', '2',\n               '--num_processes',\n"
            "               str(each), '/root/train.py']\n    subprocess.run(command, check=True)\n",
        },
        "submit.py:6 sets the number, which may be that of one machine elsewhere",
    ),
    "fewer GPUs where a comment says why there are more": (
        "GPU103",
        {
            "train.py": ON_ONE_GPU,
            "job.sh": "#!/bin/bash\n# all 4 of the node, as nobody else may use its memory\n#SBATCH --gres=gpu:4\nsrun python train.py\n",
        },
        "the comment beside the request",
    ),
    "fewer GPUs where the default is another device": (
        "GPU103",
        {
            "train.py": ON_ONE_GPU.replace("default=0", "default=1"),
            "job.sh": "#!/bin/bash\n#SBATCH --gpus=4\nsrun python train.py\n",
        },
        "depends on the program",
    ),
    "fewer GPUs where the total is requested for several nodes": (
        "GPU103",
        {
            "train.py": ON_ONE_GPU,
            "job.sh": "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus=8\nsrun --ntasks-per-node=1 python train.py\n",
        },
        "the request is not a literal here",
    ),
    "tests of a debugger that are all of a loop": (
        "GPU102",
        {
            "train.py": """\
            import pdb

            import torch

            for x, y in train_loader:
                losses = criterion(model(x.cuda()), y.cuda())
                for value in losses.values():
                    if torch.isnan(value).sum() > 0:
                        pdb.set_trace()
                    if torch.isinf(value).sum() > 0:
                        pdb.set_trace()
                losses["total"].backward()
                optimizer.step()
            """,
            "job.sh": "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n",
        },
        "raise an error for the case that it waits for",
    ),
    "samples that a program without training computes one by one": (
        "GPU202",
        {
            "generate.py": """\
            import pandas as pd
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

            df = pd.read_csv("terms.csv")
            tokenizer = AutoTokenizer.from_pretrained("/models/llama")
            model = AutoModelForCausalLM.from_pretrained("/models/llama").to("cuda")
            generator = pipeline("text-generation", model=model, tokenizer=tokenizer, max_new_tokens=40)
            rows = []
            for index, row in df.iterrows():
                text = generator(f"Explain {row['term']}.", temperature=0.8)[0]["generated_text"]
                rows.append({"term": row["term"], "text": text})
            """
        },
        "putting them into batches is your decision",
    ),
    "a comment behind that gives the reason for a switch": (
        "GPU414",
        {
            "actors.py": """\
            import torch


            class ExpActor(Actor):
                def __init__(self, space):
                    torch.autograd.set_detect_anomaly(
                        True
                    )  # the exponential is currently causing NaNs
                    super().__init__(space)

                def learn(self, loader):
                    for x in loader:
                        self.network(x.cuda()).sum().backward()
            """
        },
        "the comment beside it says why it is on",
    ),
    "a comment above that gives the reason for a switch": (
        "GPU414",
        {
            "train.py": """\
            import torch

            # Debug mode, because the loss becomes NaN
            # with long inputs.
            torch.autograd.set_detect_anomaly(True)
            for x in loader:
                model(x.cuda()).sum().backward()
            """
        },
        "the comment beside it says why it is on",
    ),
    "a job file that a script writes": (
        "GPU106",
        {
            "slurm/jobs/check_511_2022_09_28_05_17_AM.job.sh": """\
            #!/bin/bash
            #SBATCH --gres=gpu:1
            tar xzf data.tar.gz
            """,
            "run_check.sh": """\
            #!/bin/bash
            job_file="slurm/jobs/check_${task}_$(date +"%Y_%m_%d_%I_%M_%p").job.sh"
            echo "#!/bin/bash
            #SBATCH --gres=gpu:1
            tar xzf data.tar.gz
            " > $job_file
            sbatch $job_file
            """,
        },
        "run_check.sh writes this file; request no GPUs there",
    ),
    "a job file that somebody else's script wrote": (
        "GPU106",
        {
            "check_20221114170359.sh": """\
            #!/bin/bash
            #SBATCH --gres=gpu:1
            tar xzf data.tar.gz
            """
        },
        "a script wrote this file at the time in its name",
    ),
    "a program that computes on the CPU": (
        "GPU202",
        {
            "results.py": """\
            import torch
            from torch.utils.data import DataLoader

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            training_loader = DataLoader(training_set, batch_size=4, shuffle=True)
            validation_loader = DataLoader(validation_set, batch_size=4)
            for epoch in range(9):
                for x, y in training_loader:
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
                for x, y in validation_loader:
                    print(criterion(model(x), y))
            """
        },
        "nothing in the program moves the model or its batches to a GPU",
    ),
    "a size of evaluation that the launcher states": (
        "GPU202",
        {
            "train.py": OWN_BATCH,
            "train.sh": "#!/bin/bash\npython train.py --batch_size 64 --eval_batch_size 32\n",
        },
        "the launcher states how many samples",
    ),
    "gloo in a program that is on the CPU unless told otherwise": (
        "GPU355",
        {
            "train.py": """\
            import argparse

            import torch
            import torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel

            parser = argparse.ArgumentParser()
            parser.add_argument("--gpu", action="store_true")
            args = parser.parse_args()
            dist.init_process_group(backend="gloo")
            model = torch.nn.Linear(8, 8)
            if args.gpu:
                model = model.cuda()
            model = DistributedDataParallel(model)
            for x in loader:
                if args.gpu:
                    x = x.cuda()
                model(x).mean().backward()
                optimizer.step()
            """
        },
        "only uses a GPU with an option that is off by default",
    ),
    "a sum of mean losses that a scheduler gets": (
        "GPU202",
        {
            "train.py": """\
            import torch
            from torch.utils.data import DataLoader


            def run(train, val_dataset, model, batch_size=32):
                loader = DataLoader(train, batch_size=batch_size)
                val_loader = DataLoader(val_dataset, batch_size=batch_size)
                for epoch in range(9):
                    for x, y in loader:
                        criterion(model(x.to("cuda")), y.to("cuda")).backward()
                        optimizer.step()
                    val_loss = 0.0
                    with torch.no_grad():
                        for x, y in val_loader:
                            loss = criterion(model(x.cuda()), y.cuda())
                            val_loss += loss.item()
                    scheduler.step(val_loss)
                    val_loss /= len(val_loader)
            """
        },
        "`val_loss` sums batch means and decides how training goes on",
    ),
    "a job that a script writes by a here-document": (
        "GPU106",
        {
            "set_up.sh": """\
            #!/bin/bash
            cat > $WORK/merge.py << 'END'
            import pandas as pd

            pd.read_csv('a.csv').to_parquet('b')
            END
            cat > $WORK/job.sh << 'END'
            #!/bin/bash
            #SBATCH --gres=gpu:1
            python merge.py
            END
            """
        },
        "the script writes the job that requests them",
    ),
    "a partition of nodes with GPUs": (
        "GPU106",
        {
            "merge.sh": "#!/bin/bash\n#SBATCH --partition=a100_normal_q\n#SBATCH --gres=gpu:1\npython merge.py\n",
            "merge.py": "import pandas as pd\n\npd.read_csv('a.csv').to_parquet('b')\n",
        },
        "partition 'a100_normal_q' seems to have GPUs",
    ),
    "a partition that all other jobs use with GPUs": (
        "GPU106",
        {
            "merge.sh": "#!/bin/bash\n#SBATCH -p full_node\n#SBATCH --gpus-per-node=4\npython merge.py\n",
            "merge.py": "import pandas as pd\n\npd.read_csv('a.csv').to_parquet('b')\n",
            "train.sh": "#!/bin/bash\n#SBATCH --partition=full_node\n#SBATCH --gres=gpu:4\npython train.py\n",
            "train.py": "import torch\n\nmodel = torch.nn.Linear(8, 8).cuda()\n",
        },
        "train.sh requests GPUs in partition 'full_node' too",
    ),
    "an evaluation in a loop over the one model that there is, detached at once": (
        "GPU203",
        {
            "sample.py": """\
            import torch


            def sample(encoder, generator, loader):
                for epoch in [600]:
                    encoder.load_state_dict(torch.load(f"{epoch}.pth"))
                    encoder.eval()
                    for captions in loader:
                        words, text = encoder(captions.cuda())
                        words, text = words.detach(), text.detach()
                        with torch.no_grad():
                            image = generator(words, text)
                        save(image.cpu().numpy())
            """
        },
        "detached in the next statement",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_break_or_gain_nothing_is_left_alone(job: MakeJob, case: str) -> None:
    check_declined(job, *CASES[case])


def test_code_with_rests_of_old_releases_gets_no_grad(job: MakeJob) -> None:
    files = {
        "evaluate.py": """\
import torch
from torch.autograd import Variable


def old(x):
    return Variable(x, volatile=True)


def validate(model, loader):
    model.eval()
    seen = []
    for x, y in loader:
        x = Variable(x.cuda(non_blocking=True))
        seen.append(model(x).argmax(1).cpu())
    return torch.cat(seen)


model = torch.load("model.pt").cuda()
print(validate(model, loader))
"""
    }
    assert "no_grad" in str(job(files).offer("GPU203"))


def test_a_mean_over_batches_that_a_scheduler_gets_stays_about_the_same(job: MakeJob) -> None:
    (_, files, _) = CASES["a sum of mean losses that a scheduler gets"]
    step, mean = "scheduler.step(val_loss)", "val_loss /= len(val_loader)"
    program = files["train.py"].replace(step, "").replace(mean, f"{mean}\n        {' ' * 12}{step}")
    assert job({"train.py": program}).offer("GPU202").changes
