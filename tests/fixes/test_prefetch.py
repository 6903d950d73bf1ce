"""What is fetched before jobs: models of several launchers, and who pays for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MakeJob = Callable[..., Any]

PROGRAM = """\
    import argparse

    import torch
    from transformers import AutoModelForCausalLM

    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="EleutherAI/pythia-70m")
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(args.model).cuda()
    for batch in loader:
        model(batch.cuda()).loss.backward()
        optimizer.step()
    """
LAUNCHER = "#!/bin/bash\n#SBATCH --gres=gpu:4\ntorchrun --nproc_per_node=4 train.py --model {}\n"


def test_the_models_of_all_launchers_are_listed_to_choose_from(job: MakeJob) -> None:
    files = {"small.sh": LAUNCHER.format("facebook/opt-125m"), "large.sh": LAUNCHER.format("facebook/opt-1.3b")}
    made = job({"train.py": PROGRAM, **files})
    assert made.repair("GPU331") == 1
    lines = made.text("prefetch_train.sh").splitlines()
    fetched = [line for line in lines if line.startswith("python -c")]
    assert [name for line in fetched for name in ("opt-125m", "opt-1.3b") if name in line] == ["opt-1.3b", "opt-125m"]
    assert "keep the lines of those that you start" in "\n".join(lines[:5])
    assert "offline" not in made.text("small.sh").lower()


def test_a_model_that_a_launcher_does_not_tell_leaves_it_to_the_user(job: MakeJob) -> None:
    files = {"one.sh": LAUNCHER.format("facebook/opt-125m"), "two.sh": LAUNCHER.format("$1")}
    made = job({"train.py": PROGRAM, **files})
    assert all(not getattr(result.fix, "files", ()) or "opt" not in str(result.fix) for result in made.scan("GPU331"))


def test_jobs_of_other_batch_systems_see_the_same_storage(job: MakeJob) -> None:
    script = "#!/bin/bash\n#PBS -l select=2:ngpus=4\npython train.py --model facebook/opt-125m\n"
    made = job({"train.py": PROGRAM, "train.sh": script})
    assert made.repair("GPU331") == 1
    assert "opt-125m" in made.text("prefetch_train.sh")


def test_hours_on_gpus_do_not_pay_for_a_stage_without(job: MakeJob) -> None:
    script = (
        "#!/bin/bash\n#SBATCH --account={}\n#SBATCH --gres=gpu:4\naws s3 sync s3://bucket/set set\npython train.py\n"
    )
    for account, kept in (("abc@v100", False), ("team_gpu", False), ("ab12", True)):
        made = job({"train.py": "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n", "job.sh": script.format(account)})
        (fix,) = [result.fix for result in made.scan("GPU332")]
        (stage,) = [new.text for new in fix.files if new.path.name == "job_prepare.sh"]
        assert (f"--account={account}" in stage) is kept
        assert ("default account" in stage) is not kept


def test_a_test_that_ends_the_script_is_in_both(job: MakeJob) -> None:
    script = (
        "#!/bin/bash\n#SBATCH --gres=gpu:4\nif [ ! -d .venv ]; then\n  echo missing\n  exit 1\nfi\n"
        "source .venv/bin/activate\naws s3 sync s3://bucket/set set\npython train.py\n"
    )
    made = job({"train.py": "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n", "job.sh": script})
    assert made.repair("GPU332") == 1
    assert all("if [ ! -d .venv ]" in made.text(name) for name in ("job.sh", "job_prepare.sh"))
