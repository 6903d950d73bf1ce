"""GPU401's repair moves what an image can hold, and nothing that depends on the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]


def pod(*commands: str) -> str:
    """A pod that names its image, and what its container runs."""
    lines = "".join(f"      {line}\n" if line else "\n" for line in commands)
    return (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: t}\nspec:\n  containers:\n  - name: main\n    image: me/train:1\n"
        f"    resources: {{limits: {{nvidia.com/gpu: 1}}}}\n    command:\n    - bash\n    - -c\n    - |\n{lines}"
    )


@pytest.mark.parametrize(
    ("before", "install", "reason"),
    [
        ("", "pip install $EXTRA", "only known in the job"),
        ("", "if true; then pip install wandb; fi", "is conditional"),
        ("", "pip install -e .", "code or files of the job"),
        ("", "pip install ./wheels/a.whl", "code or files of the job"),
        ("", "pip install -r ../requirements.txt", "not found in the tree"),
        ("", "uv sync", "own image"),
        ("", "pip install wandb; nvidia-smi", "shares its line"),
        ("conda activate train", "pip install wandb", "activates an environment"),
        ("source venv/bin/activate", "pip install wandb", "activates an environment"),
        ("export PATH=/opt/conda/bin:$PATH", "pip install wandb", "activates an environment"),
        ("export PATH=$HOME/.local/bin:$PATH", "pip install --user wandb", "home folder"),
        ("pip uninstall -y torch", "pip install torch==2.3", "uninstalls"),
    ],
)
def test_an_install_that_depends_on_the_job_stays(job: MakeJob, before: str, install: str, reason: str) -> None:
    script = f"#PBS -l select=1:ngpus=1\n{before}\n{install}\npython train.py\n"
    assert reason in job({"job.sh": script}).refusal("GPU401")


def test_a_dockerfile_of_that_name_is_never_overwritten(job: MakeJob) -> None:
    mine = {"Dockerfile.gpulint": "FROM scratch\n", "Dockerfile.gpulint-job": "FROM scratch\n"}
    made = job({"job.yaml": pod("pip install wandb", "python train.py"), **mine})
    assert "exists already" in made.refusal("GPU401")


def test_an_install_in_front_of_the_program_goes_from_its_line(job: MakeJob) -> None:
    made = job({"job.yaml": pod("pip install --user wandb && python train.py  # go")})
    assert made.repair("GPU401") == 1
    assert made.text("job.yaml") == pod("python train.py  # go")
    assert made.text("Dockerfile.gpulint").endswith("FROM ${BASE_IMAGE}\nRUN pip install wandb\n")


def test_what_a_string_needs_to_be_whole_stays_in_it(job: MakeJob) -> None:
    script = '#SBATCH --gres=gpu:8\nsrun bash -c "\n  ls &&\n  apt-get install -y infiniband-diags\n  "\nsrun python train.py\n'
    assert "shares its line" in job({"job.sh": script, "train.py": "import torch\n"}).refusal("GPU401")


def test_all_installs_of_a_launcher_share_one_repair(job: MakeJob) -> None:
    installs = [f"pip install package{number}" for number in range(100)]
    made = job({"job.yaml": pod(*installs, "python train.py")})
    made.repair("GPU401")
    assert made.text("job.yaml") == pod("python train.py")
    assert made.text("Dockerfile.gpulint").count("RUN pip install") == 100


def test_more_installs_than_a_repair_holds_are_left(job: MakeJob) -> None:
    installs = "".join(f"pip install package{number}\n" for number in range(101))
    results = job({"job.sh": f"#PBS -l select=1:ngpus=1\n{installs}python train.py\n"}).scan("GPU401")
    reasons = {result.fix.reason for result in results if isinstance(result.fix, Declined)}
    assert len(results) == 101
    assert len(reasons) == 1 and "has 101 installs" in reasons.pop()


def test_an_image_asks_no_questions_and_keeps_what_was_said_of_an_install(job: MakeJob) -> None:
    installs = ["apt install unzip", "", "# 2.0.5 cannot be built", "pip install pycocotools==2.0.4  # for COCO", ""]
    made = job({"job.yaml": pod("date", *installs, "python train.py")})
    assert made.repair("GPU401") == 2
    assert made.text("job.yaml") == pod("date", "", "python train.py")
    assert made.text("Dockerfile.gpulint").endswith(
        "RUN apt-get update && apt install -y unzip && rm -rf /var/lib/apt/lists/*\n"
        "# 2.0.5 cannot be built\n# for COCO\nRUN pip install pycocotools==2.0.4\n"
    )


@pytest.mark.parametrize(
    "other",
    [
        "apt-get upgrade -y && apt-get install -y wget",
        "pip3 config set global.index-url https://mirror.example.com/simple",
        "git clone https://example.com/org/tool.git && pip install -e tool",
        "pip install -r $REQUIREMENTS",
    ],
)
def test_installs_move_together_or_not_at_all(job: MakeJob, other: str) -> None:
    made = job({"job.yaml": pod(other, "pip install wandb", "python train.py")})
    reasons = [result.fix.reason for result in made.scan("GPU401") if isinstance(result.fix, Declined)]
    assert len(reasons) == len(made.scan("GPU401"))
    assert any("stays in the job" in reason for reason in reasons), reasons


def test_installs_around_a_command_that_stays_keep_their_order(job: MakeJob) -> None:
    script = (
        "#!/bin/bash\n#SBATCH --gres=gpu:1\npip install --user pyyaml\nfind ~/.local -name '*torch*' -exec rm -rf {} +\n"
        "pip install --user torch==2.2.0\nsrun python train.py\n"
    )
    made = job({"job.sh": script, "train.py": "import torch\n\ntorch.zeros(1).cuda()\n"})
    results = made.scan("GPU401")
    assert results and all(isinstance(result.fix, Declined) for result in results), results


def test_a_script_that_names_no_image_gets_none(job: MakeJob) -> None:
    made = job({"job.sh": "#PBS -l select=1:ngpus=1\npip install wandb\npython train.py\n"})
    assert "no image of the job" in made.refusal("GPU401")


@pytest.mark.parametrize(
    "environment", ["azureml:acpt-cuda@latest", "azureml:acpt-cuda:3", "{image: docker.io/me/train:1}"]
)
def test_only_an_image_of_azure_ml_is_what_a_dockerfile_starts_from(job: MakeJob, environment: str) -> None:
    text = (
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ntype: command\ncode: .\n"
        "command: |\n  pip install wandb\n  python train.py\n"
        f"environment: {environment}\ncompute: azureml:gpu-cluster\n"
    )
    made = job({"train.py": "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n", "job.yaml": text})
    (result,) = made.scan("GPU401")
    if environment.startswith("{"):
        made.repair("GPU401")
        assert "ARG BASE_IMAGE=docker.io/me/train:1\n" in made.text("Dockerfile.gpulint")
    else:
        assert isinstance(result.fix, Declined) and "no image of the job is named here" in result.fix.reason


@pytest.mark.parametrize(
    ("chain", "left"),
    [
        ("pip install wandb &&\npip install timm &&\npython train.py", "python train.py"),
        ("cd /data &&\npip install wandb &&\npython train.py", "cd /data &&\npython train.py"),
        ("cd /data && pip install wandb && python train.py", "cd /data && python train.py"),
        ("pip install wandb && \\\n  python train.py", "python train.py"),
    ],
)
def test_an_install_goes_from_a_chain_over_several_lines(job: MakeJob, chain: str, left: str) -> None:
    made = job({"job.yaml": pod(*chain.split("\n"))})
    made.repair("GPU401")
    assert made.text("job.yaml") == pod(*left.split("\n"))
    assert "RUN pip install wandb" in made.text("Dockerfile.gpulint")


def test_an_install_goes_from_a_folded_command(job: MakeJob) -> None:
    """Of Azure ML, whose commands are mostly written so."""
    text = (
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ntype: command\ncode: .\n"
        "command: >-\n  pip install wandb &&\n  pip install -r requirements.txt &&\n  python train.py\n  --lr 0.1\n"
        "environment: {image: docker.io/me/train:1}\ncompute: azureml:gpu-cluster\n"
    )
    program = (
        "import torch\n\nnet = torch.nn.Linear(2, 2).cuda()\nfor x in loader:\n    net(x.cuda()).sum().backward()\n"
    )
    made = job({"train.py": program, "requirements.txt": "timm\n", "job.yaml": text})
    made.repair("GPU401")
    assert "command: >-\n  python train.py\n  --lr 0.1\n" in made.text("job.yaml")


@pytest.mark.parametrize(
    "chain", ["cd /data || pip install wandb && python train.py", "yes | pip install wandb && python a.py"]
)
def test_an_install_of_another_chain_stays(job: MakeJob, chain: str) -> None:
    assert job({"job.yaml": pod(chain, "python train.py")}).refusal("GPU401")


CONDA = "name: a\ndependencies:\n  - python=3.10\n  - pip\n  - pip:\n      - torch==2.4\n      - wandb\n"


def conda_job(command: str, environment: str) -> str:
    return (
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ntype: command\ncode: .\n"
        f"command: >-\n  {command} &&\n  python train.py\nenvironment:\n  image: me/train:1\n"
        f"  conda_file: {environment}\ncompute: azureml:gpu-cluster\n"
    )


@pytest.mark.parametrize(
    ("command", "listed"),
    [
        ("pip install -q timm lightning==2.4", "      - timm\n      - lightning==2.4\n"),
        ("pip install wandb torch==2.4", ""),
        ("pip install Wandb timm", "      - timm\n"),
    ],
)
def test_packages_of_azure_ml_go_to_its_conda_file(job: MakeJob, command: str, listed: str) -> None:
    """The environment made from it does not see what the image beside it has."""
    program = (
        "import torch\n\nnet = torch.nn.Linear(2, 2).cuda()\nfor x in loader:\n    net(x.cuda()).sum().backward()\n"
    )
    made = job({"train.py": program, "azure/conda.yaml": CONDA, "job.yaml": conda_job(command, "azure/conda.yaml")})
    made.repair("GPU401")
    assert made.text("azure/conda.yaml") == CONDA + listed
    assert "command: >-\n  python train.py\n" in made.text("job.yaml")
    assert not (made.root / "Dockerfile.gpulint").exists()


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("pip install timm", "elsewhere.yaml"),
        ("pip install torch==2.5", "conda.yaml"),
        ("pip install -r requirements.txt", "conda.yaml"),
        ("pip install timm", "{name: a, dependencies: [python=3.10]}"),
    ],
)
def test_packages_that_a_conda_file_cannot_take_stay(job: MakeJob, command: str, environment: str) -> None:
    program = (
        "import torch\n\nnet = torch.nn.Linear(2, 2).cuda()\nfor x in loader:\n    net(x.cuda()).sum().backward()\n"
    )
    made = job(
        {
            "train.py": program,
            "requirements.txt": "timm\n",
            "conda.yaml": CONDA,
            "job.yaml": conda_job(command, environment),
        }
    )
    assert "list them there" in made.refusal("GPU401")


_STEPS = "# Set-up\n\n```bash\n$ uv sync --group cuda\npython -m pip install -r requirements.txt  # all of it\n```\n"


@pytest.mark.parametrize(
    ("before", "install", "after", "stays"),
    [
        ("", "uv sync --group cuda", "uv run python train.py", True),
        ("source ~/env/bin/activate", "pip install -r requirements.txt", "python train.py", True),
        ("source ~/env/bin/activate", "pip install -r more.txt", "python train.py", False),
        ("", "uv sync --group cuda --group dev", "uv run python train.py", False),
        ("export UV_PROJECT_ENVIRONMENT=$SLURM_TMPDIR/env", "uv sync --group cuda", "python train.py", False),
    ],
)
def test_a_step_of_the_documented_set_up_needs_no_stage(
    job: MakeJob, before: str, install: str, after: str, stays: bool
) -> None:
    script = f"#!/bin/bash\n#SBATCH --gres=gpu:1\n{before}\n{install}\n{after}\n"
    made = job({"job.sh": script, "README.md": _STEPS, "train.py": "import torch\n"})
    (one,) = made.scan("GPU401")
    declined = isinstance(one.fix, Declined) and "README.md has it as a step" in one.fix.reason
    assert declined is stays


def test_a_sync_that_the_start_of_the_program_does_again_moves(job: MakeJob) -> None:
    script = "#!/bin/bash\n#SBATCH --gres=gpu:1\nuv sync\nuv run python train.py\n"
    made = job({"job.sh": script, "README.md": "```\nuv sync\n```\n", "train.py": "import torch\n"})
    (one,) = made.scan("GPU401")
    assert not isinstance(one.fix, Declined)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("CMD pip install -r requirements.txt && python train.py", "does not copy `requirements.txt`"),
        ("COPY other /app\nCMD pip install -r requirements.txt && python train.py", "does not copy"),
        ("COPY --from=build . /app\nCMD pip install -r requirements.txt && python train.py", "does not copy"),
        ("COPY . .\nUSER me\nCMD pip install einops && python train.py", "another user than root"),
        ("COPY . .\nCMD cd $WORK && pip install -r requirements.txt && python train.py", "folder"),
        ("COPY . .\nCMD pip install einops; python train.py", "shares its line"),
    ],
)
def test_what_an_image_starts_keeps_an_install_that_its_build_could_not_do(
    job: MakeJob, lines: str, reason: str
) -> None:
    text = f"FROM nvidia/cuda:12.2.0 AS build\nFROM nvidia/cuda:12.2.0\nWORKDIR /app\n{lines}\n"
    program = (
        "import torch\n\nnet = torch.nn.Linear(2, 2).cuda()\nfor x in loader:\n    net(x.cuda()).sum().backward()\n"
    )
    made = job({"Dockerfile": text, "requirements.txt": "einops\n", "train.py": program})
    assert reason in made.refusal("GPU401")
