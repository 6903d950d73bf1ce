"""What is fetched before jobs: models of several launchers, and who pays for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

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


def test_no_script_is_written_that_nothing_starts(job: MakeJob) -> None:
    pbs = "#!/bin/bash\n#PBS -l select=2:ngpus=4\npython train.py --model facebook/opt-66b\n"
    two = {"small.sh": LAUNCHER.format("facebook/opt-66b"), "large.sh": LAUNCHER.format("facebook/opt-66b")}
    program = PROGRAM.replace("EleutherAI/pythia-70m", "facebook/opt-66b")
    check_declined(job, "GPU331", {"train.py": program, "train.sh": pbs}, "nothing in the tree starts a step")
    check_declined(job, "GPU331", {"train.py": program, **two}, "nothing in the tree starts a step")


def test_launchers_that_name_different_models_leave_it_to_the_user(job: MakeJob) -> None:
    for other in ("facebook/opt-30b", "$1"):
        files = {"one.sh": LAUNCHER.format("facebook/opt-66b"), "two.sh": LAUNCHER.format(other)}
        made = job({"train.py": PROGRAM, **files})
        assert not any(getattr(result.fix, "files", ()) for result in made.scan("GPU331"))


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


TOKENS = """\
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("org/words"{arguments})
model = AutoModel.from_pretrained("facebook/opt-66b").cuda()
for batch in loader:
    model(tokenizer(batch).cuda()).loss.backward()
    optimizer.step()
"""
BATCH = "#!/bin/bash\n#SBATCH --gres=gpu:4\n{}torchrun --nproc_per_node=4 train.py\n"


def _files(job: MakeJob, program: str, script: str, *codes: str) -> dict[str, str]:
    made = job({"train.py": program, "job.sh": BATCH.format(script)})
    fixes = [result.fix for result in made.scan(*codes) if getattr(result.fix, "files", ())]
    return {new.path.name: new.text for new in fixes[0].files}


@pytest.mark.parametrize(
    ("memory", "kept"), [("--mem=10G", True), ("--mem-per-cpu=4000M", True), ("--mem=400G", False)]
)
def test_a_stage_that_installs_keeps_the_memory_of_the_job_unless_it_is_that_of_a_training(
    job: MakeJob, memory: str, kept: bool
) -> None:
    program = "import torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\nmodel(x).backward()\n"
    files = _files(job, program, f"#SBATCH {memory}\npip install -r requirements.txt\n", "GPU401")
    assert (f"#SBATCH {memory}\n" in files["job_prepare.sh"]) is kept


def test_what_loads_with_code_of_the_hub_is_fetched_with_it(job: MakeJob) -> None:
    program = TOKENS.format(arguments=", trust_remote_code=True, revision='v2', token=True")
    stage = _files(job, program, "", "GPU331")["job_prepare.sh"]
    assert "from_pretrained('org/words', revision='v2', token=True, trust_remote_code=True)" in stage
    assert "org/words" not in _files(job, TOKENS.format(arguments=", token=args.token"), "", "GPU331")["job_prepare.sh"]


def test_an_installation_that_fails_stops_the_job_only_if_it_did_before(job: MakeJob) -> None:
    program = "import torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\nmodel(x).backward()\n"
    install = "pip install -r requirements.txt\n"
    files = _files(job, program, install, "GPU401")
    assert "set -e\n" not in files["job_prepare.sh"] and "set -e " not in files["job_prepare.sh"]
    assert "--dependency=afterany:" in files["job_submit.sh"]
    files = _files(job, program, f"set -e\n{install}", "GPU401")
    assert "set -e\n" in files["job_prepare.sh"] and "--dependency=afterok:" in files["job_submit.sh"]
    files = _files(job, TOKENS.format(arguments=""), install, "GPU401", "GPU331")
    stage = files["job_prepare.sh"]
    assert 0 < stage.index("pip install") < stage.index("set -e ") < stage.index("snapshot_download")


ENCODERS = """\
from torch import nn
from transformers import AutoModel


class Large(nn.Module):
    def __init__(self, name="facebook/opt-66b"):
        super().__init__()
        self.model = AutoModel.from_pretrained(name)


class Small(nn.Module):
    def __init__(self, name="facebook/opt-30b"):
        super().__init__()
        self.model = AutoModel.from_pretrained(name)


def medium(name="facebook/opt-13b"):
    return AutoModel.from_pretrained(name)
"""
MAKES = """\
import torch
import encoders

model = {}.cuda()
for batch in loader:
    model(batch.cuda()).loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("makes", "fetched"),
    [
        ("encoders.Large()", {"66b"}),
        ("encoders.medium()", {"13b"}),
        ("[encoders.Large(), encoders.Small()][0]", {"66b", "30b"}),
        ("getattr(encoders, {'a': 'Large', 'b': 'Small'}[kind])()", {"66b", "30b"}),
    ],
)
def test_a_job_fetches_what_its_own_program_makes(job: MakeJob, makes: str, fetched: set[str]) -> None:
    program, other = MAKES.format(makes), MAKES.format("[encoders.Large(), encoders.Small(), encoders.medium()][0]")
    files = {"train.py": program, "job.sh": BATCH.format(""), "other.py": other, "encoders.py": ENCODERS}
    fixes = [result.fix for result in job(files).scan("GPU331")]
    (stage,) = {new.text for fix in fixes for new in getattr(fix, "files", ()) if new.path.name == "job_prepare.sh"}
    assert {size for size in ("66b", "30b", "13b") if f"opt-{size}" in stage} == fetched


@pytest.mark.parametrize(
    "install", ["", "python -m venv venv\nsource venv/bin/activate\npip install -r requirements.txt\n"]
)
def test_a_stage_for_a_download_fetches_it(job: MakeJob, install: str) -> None:
    program = TOKENS.format(arguments="").replace("org/words", "facebook/opt-66b")
    made = job({"train.py": program, "job.sh": BATCH.format(install)})
    (new, *_) = made.offer("GPU331").files
    assert "snapshot_download('facebook/opt-66b'" in new.text


def test_other_steps_of_a_job_do_not_move_for_a_download_that_stays(job: MakeJob) -> None:
    program = TOKENS.format(arguments="").replace("org/words", "facebook/opt-66b")
    script = "pip install --target $SLURM_TMPDIR/packages -r requirements.txt\naws s3 sync s3://bucket/set set\n"
    script += "export HF_HOME=$SLURM_TMPDIR/hub\n"
    made = job({"train.py": program, "job.sh": BATCH.format(script)})
    assert "cannot be split" in made.refusal("GPU331")
