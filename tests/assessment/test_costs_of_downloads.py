"""What downloads and installations cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.assessment.items import download_seconds
from gpulint.cli import main
from tests.assessment.scans import HEAD, IMAGES, TRAINING, bases, impacts, levels, scan

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


@pytest.mark.parametrize(("head", "low"), [("", True), ("#SBATCH --gres=gpu:8\n#SBATCH --time=10:00:00\n", False)])
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
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:2\n{image}{line}\npython train.py\n"
    files = {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("limit", "line", "level"),
    [
        ("#SBATCH --time=2-00:00:00", "pip install --upgrade einops wandb torchmetrics", "low"),
        ("#SBATCH -t 2880", "pip install --upgrade einops wandb torchmetrics", "low"),
        ("", "pip install --upgrade einops wandb torchmetrics", "low"),
        ("", "pip install uv", "low"),
        ("", "pip install -r requirements.txt", "medium"),
        ("", "pip install -r requirements.txt\npip install -e .", "medium low"),
        ("", "pip install -e .", "medium"),
        ("#SBATCH --time=0", "pip install --upgrade torch", "medium"),
        ("#SBATCH --time=2-00:00:00", "pip install --upgrade flash-attn", "medium"),
    ],
)
def test_seconds_are_not_worth_a_change_whatever_number_of_gpus_waits(
    tmp_path: Path, limit: str, line: str, level: str
) -> None:
    image = "#SBATCH --container-image=pytorch/pytorch"
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:8\n{limit}\n{image}\n{line}\npython train.py\n"
    files = {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == level.split()


@pytest.mark.parametrize(
    ("gpus", "line", "level"),
    [
        (1, "pip install torch pandas", "low"),
        (2, "pip install torch pandas", "medium"),
        (1, "pip install -r requirements.txt", "low"),
        (2, "pip install -r requirements.txt", "medium"),
        (1, "pip install vllm", "medium"),
        (1, "pip install flash-attn", "medium"),
        (1, "pip install torch transformers datasets deepspeed", "medium"),
    ],
)
def test_one_gpu_that_waits_for_a_usual_installation_costs_little(
    tmp_path: Path, gpus: int, line: str, level: str
) -> None:
    job = (
        f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\n#SBATCH --container-image=pytorch/pytorch\n{line}\npython train.py\n"
    )
    files = {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("listed", "level"),
    [
        ("# small\nregex\nboto3>=1.26 ; python_version > '3'\n", "low"),
        ("regex\nsome-package\n", "low"),
        ("a\nb\nc\nd\n", "medium"),
        ("regex\ntorch\n", "medium"),
        ("regex\n-r more.txt\n", "medium"),
    ],
)
def test_files_of_small_packages_alone_take_seconds(tmp_path: Path, listed: str, level: str) -> None:
    job = (
        "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --container-image=nvcr.io/nvidia/pytorch:24.01-py3\n"
        "pip install -r requirements.txt\npython train.py\n"
    )
    files = {"job.sh": job, "requirements.txt": listed, "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("name", "head", "line", "level"),
    [
        ("job.sh", "#SBATCH --gres=gpu:2", "pip install torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:2", "pixi install --frozen", "low"),
        ("job.sh", "#SBATCH --gres=gpu:2", "pip install --upgrade torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:2", "conda create -y -n net torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:2", "conda create -qy -n net torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:2", "conda create -n net torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:2", "conda env create -f environment.yml", "low"),
        ("job.sh", "#SBATCH --gres=gpu:2", "conda env create -f environment.yml --force", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:2", "yes | conda create -n net torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:2", "export CONDA_ALWAYS_YES=1\nconda create -n net torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:2", "conda env remove -n net\nconda create -n net torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:2", "conda create -p $SLURM_TMPDIR/net torch pandas", "medium"),
        (
            "job.sh",
            "#SBATCH --gres=gpu:2\n#SBATCH --container-image=nvcr.io/nvidia/pytorch:24.01-py3",
            "conda create -n net torch pandas",
            "medium",
        ),
        (
            "job.sh",
            "#SBATCH --gres=gpu:2",
            "conda activate net || {\n    conda create -n net -y\n    conda activate net\n}\npip install torch pandas",
            "low",
        ),
        (
            "job.sh",
            "#SBATCH --gres=gpu:2",
            "if ! source activate net; then\n  conda create -n net -y\nfi\npip install torch pandas",
            "low",
        ),
        (
            "job.sh",
            "#SBATCH --gres=gpu:2",
            "conda activate net || {\n    conda create -n net -y\n}\npip install --upgrade torch pandas",
            "medium",
        ),
        ("job.sh", "#SBATCH --gres=gpu:2", "pip install --prefix $SLURM_TMPDIR/env torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:8", "pip install torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:8", "mkdir -p /tmp/links\npip install --user torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:8", "cd /tmp/work\npip install --user torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:8", "export HOME=/tmp/me\npip install --user torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:8", "cp data.tar $SLURM_TMPDIR\npip install torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:8", "export TRITON_CACHE_DIR=/tmp/me\npip install torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:8\n#SBATCH --error=/tmp/e.log", "pip install torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:8", ". /tmp/env/bin/activate\npip install torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:8", "mkdir /tmp/me && cd /tmp/me\npip install torch pandas", "medium"),
        ("job.sh", "#SBATCH --gres=gpu:8", "pip install --upgrade torch pandas", "medium"),
        ("setup_env.sh", "#SBATCH --gres=gpu:8", "pip install --upgrade torch pandas", "low"),
        ("provision_node.sh", "#SBATCH --gres=gpu:8", "pip install --upgrade torch pandas", "low"),
        ("runpod_setup.sh", "set -e", "pip install --upgrade torch pandas", "low"),
        ("run.sh", "set -e", "pip install --upgrade torch pandas", "low"),
        ("job.sh", "#SBATCH --gres=gpu:2", "virtualenv $SLURM_TMPDIR/env\npip install --upgrade torch pandas", "low"),
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
    job = f"on: push\njobs:\n  train:\n    {keys}\n    steps:\n      - run: pip install torch vllm\n      - run: python train.py\n"
    files = {".github/workflows/train.yml": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("call", "basis"),
    [
        ("AutoModel.from_pretrained('org/net-70b')", "about 140 GB"),
        ("PeftModel.from_pretrained(model, 'org/net-70b-adapter')", "a download"),
        ("AutoModel.from_pretrained('openai/gpt-oss-120b')", "about 60 GB"),
        ("AutoProcessor.from_pretrained('org/net-70b')", "a small download"),
        ("hf_hub_download('org/net-70b', 'head.pt')", "a download"),
        ("load_dataset('org/tokens-600b')", "a download"),
        ("torch.hub.load_state_dict_from_url('https://example.com/net-68b4160fff.pth')", "a download"),
        ("torch.hub.load_state_dict_from_url('https://example.com/birds-2011b.pth')", "a download"),
        ("AutoModel.from_pretrained('org/net-1b-2019b')", "about 2 GB"),
    ],
)
def test_only_whole_models_are_as_large_as_their_names_say(tmp_path: Path, call: str, basis: str) -> None:
    heads = "from transformers import AutoConfig, AutoModel\nfrom peft import PeftModel\n"
    heads += "from datasets import load_dataset\nfrom huggingface_hub import hf_hub_download\n"
    text = HEAD + heads + f"loaded = {call}\n" + IMAGES + TRAINING
    (impact,) = impacts(tmp_path, {"net.py": "", "train.py": text})["GPU331"]
    assert f"once per run, {basis}" in impact.basis


def test_the_name_of_an_archive_says_nothing_of_parameters() -> None:
    call = "download_and_extract_archive"
    assert download_seconds((call, "https://example.com/planes-40b.tar.gz")) is None
    found = download_seconds((call, "https://example.com/net-40b.bin"))
    assert found is not None
    assert found[1] == "about 80 GB where no cache has it"


def test_the_arms_of_a_choice_fetch_one_model(tmp_path: Path) -> None:
    loads = """model_id = "org/net-70b"
if quantised:
    model = AutoModel.from_pretrained(args.name if args.name else model_id, dtype="int8")
else:
    model = AutoModel.from_pretrained(args.name if args.name else model_id)
"""
    options = "import argparse\nparser = argparse.ArgumentParser()\n"
    options += "parser.add_argument('--name', default='org/net-70b')\nargs = parser.parse_args()\n"
    text = HEAD + "from transformers import AutoModel\n" + options + loads + IMAGES + TRAINING
    job = "#!/bin/bash\n#SBATCH --gres=gpu:8\npython train.py\n"
    assert levels(tmp_path, {"net.py": "", "train.py": text, "job.sh": job}, "GPU331") == ["medium", "low"]


def test_a_download_in_no_job_is_kept_after_the_first_run(tmp_path: Path) -> None:
    text = HEAD + "from transformers import AutoModel\nloaded = AutoModel.from_pretrained('org/net-540b')\n" + TRAINING
    basis = "once per run, about 1080 GB where no cache has it, in no job, kept after the first run"
    assert bases(tmp_path, {"train.py": text}, "GPU331") == [f"low, {basis}"]


@pytest.mark.parametrize(("told", "level"), [("--assets tokenizer", "low"), ("--assets weights", "medium")])
def test_a_tokenizer_is_brought_in_seconds(tmp_path: Path, told: str, level: str) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:8\npython download_files.py {told}\npython train.py\n"
    files = {"job.sh": job, "download_files.py": "import sys\n", "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU332") == [level]


@pytest.mark.parametrize(
    ("gpus", "command", "level"),
    [
        (8, "cp -r /project/imagenet $SLURM_TMPDIR/", "low"),
        (8, "tar xf /project/imagenet.tar -C /dev/shm/data", "low"),
        (8, "rsync -a storage:/project/imagenet /scratch/$USER/", "low"),
        (8, "tar xf imagenet.tar -C /project/data", "medium"),
        (8, "aws s3 sync s3://acme/imagenet /scratch/imagenet", "medium"),
        (4, "aws s3 sync s3://acme/imagenet /project/imagenet", "low"),
        (8, "aws s3 sync s3://acme/imagenet /project/imagenet", "low"),
        (8, "rsync -a storage:/archive/imagenet $WORK/", "low"),
        (8, "aws s3 cp --recursive s3://acme/imagenet /project/imagenet", "medium"),
        (8, "rm -rf /project/imagenet\naws s3 sync s3://acme/imagenet /project/imagenet", "medium"),
        (8, "aws s3 sync s3://acme/imagenet $TMPDIR/imagenet", "medium"),
    ],
)
def test_a_copy_to_the_disk_of_the_node_and_one_that_few_gpus_wait_for_cost_little(
    tmp_path: Path, gpus: int, command: str, level: str
) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\n{command}\npython train.py\n"
    files = {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU332") == [level]


@pytest.mark.parametrize(
    ("volume", "level"),
    [("persistentVolumeClaim: {claimName: data}", "low"), ("emptyDir: {}", "medium")],
)
def test_a_copy_into_a_claimed_volume_is_made_once(tmp_path: Path, volume: str, level: str) -> None:
    spec = f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  template:
    spec:
      initContainers:
      - name: fetch
        image: amazon/aws-cli
        command: ["sh", "-c", "aws s3 sync s3://acme/images /data/images"]
      containers:
      - name: train
        image: org/train:1
        command: [torchrun, --nproc_per_node=8, train.py]
        resources: {{limits: {{nvidia.com/gpu: 8}}}}
        volumeMounts: [{{name: data, mountPath: /data}}]
      volumes:
      - name: data
        {volume}
"""
    files = {"job.yaml": spec, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU332") == [level]


@pytest.mark.parametrize(
    ("folder", "options", "level"),
    [("/data/venv", "", "low"), ("/data/venv", "--upgrade ", "medium"), ("/opt/venv", "", "medium")],
)
def test_an_environment_in_a_claimed_volume_is_kept(tmp_path: Path, folder: str, options: str, level: str) -> None:
    spec = f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  template:
    spec:
      containers:
      - name: train
        image: org/train:1
        command: [bash, -c]
        args:
        - |
          if [ ! -d {folder} ]; then python -m venv {folder}; fi
          source {folder}/bin/activate
          pip install {options}-r requirements.txt
          torchrun --nproc_per_node=8 train.py
        resources: {{limits: {{nvidia.com/gpu: 8}}}}
        volumeMounts: [{{name: data, mountPath: /data}}, {{name: shm, mountPath: /dev/shm}}]
      volumes:
      - name: data
        persistentVolumeClaim: {{claimName: data}}
      - name: shm
        emptyDir: {{medium: Memory}}
"""
    files = {"job.yaml": spec, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("options", "install", "level"),
    [
        ("", "pip install -r requirements.txt", "low"),
        ("--bind /data:/data ", "python3 -m pip install -r requirements.txt", "low"),
        ("--writable-tmpfs ", "pip install -r requirements.txt", "medium"),
        ("--containall ", "pip install -r requirements.txt", "medium"),
        ("--no-home ", "pip install -r requirements.txt", "medium"),
        ("", "pip install --upgrade -r requirements.txt", "medium"),
    ],
)
def test_what_pip_installs_in_an_image_file_stays_in_the_home_folder(
    tmp_path: Path, options: str, install: str, level: str
) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:8\nsingularity exec --nv {options}a.sif bash -c '{install} && python train.py'\n"
    files = {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


@pytest.mark.parametrize(
    ("line", "basis"),
    [
        ("pip install torch -r requirements.txt", "1 package and a file of requirements"),
        ("pip install -e .[train]", "a project"),
        ("curl -fsSL https://get.acme.ai/install.sh | bash", "an install script from the network"),
    ],
)
def test_what_is_installed_is_named_for_what_it_is(tmp_path: Path, line: str, basis: str) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:8\n#SBATCH --container-image=org/net\n{line}\npython train.py\n"
    files = {"job.sh": job, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    (found,) = impacts(tmp_path, files)["GPU401"]
    assert found.basis == f"once per run, {basis}, 8 GPUs"


@pytest.mark.parametrize(("options", "level"), [("", "low"), ("--upgrade ", "medium")])
def test_an_environment_is_kept_for_jobs_that_a_script_submits_as_text(
    tmp_path: Path, options: str, level: str
) -> None:
    job = f"#SBATCH --gres=gpu:4\nsource ~/env/bin/activate\npip install {options}-r requirements.txt\npython train.py"
    script = f"#!/bin/bash\nfor lr in 1 2; do\nsbatch <<EOT\n#!/bin/bash\n{job} --lr $lr\nEOT\ndone\n"
    files = {"submit.sh": script, "net.py": "", "train.py": HEAD + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU401") == [level]


def test_the_gpus_of_a_finding_are_those_of_its_own_job(tmp_path: Path) -> None:
    flow = (
        'process TRAIN {\n    accelerator 2\n    script:\n    """\n    torchrun --nproc_per_node=2 train.py\n'
        '    """\n}\nprocess QC {\n    accelerator 1\n    script:\n    """\n    fastqc a.fq\n    """\n}\n'
    )
    (found,) = impacts(tmp_path, {"main.nf": flow, "net.py": "", "train.py": HEAD + IMAGES + TRAINING})["GPU106"]
    assert found.basis == "the whole run, GPUs without work, 1 GPU"


@pytest.mark.parametrize(
    ("nodes", "model", "level"), [(1, "org/net-8b", "low"), (1, "org/net-70b", "medium"), (16, "org/net-8b", "medium")]
)
def test_a_download_matters_where_many_gpus_wait_for_a_large_model(
    tmp_path: Path, nodes: int, model: str, level: str
) -> None:
    job = f"#!/bin/bash\n#SBATCH --nodes={nodes}\n#SBATCH --gres=gpu:8\nsrun python train.py\n"
    load = f"from transformers import AutoModel\nmodel = AutoModel.from_pretrained('{model}').cuda()\n"
    files = {"job.sh": job, "net.py": "", "train.py": HEAD + load + IMAGES + TRAINING}
    assert levels(tmp_path, files, "GPU331") == [level]


def test_what_machines_install_once_for_several_runs_costs_less(tmp_path: Path) -> None:
    spec = "resources:\n  accelerators: A100:4\nsetup: |\n  pip install vllm\nrun: |\n  pip install deepspeed\n  python a.py\n"
    found = scan(tmp_path, {"serve.yaml": spec}).results
    assert {result.finding.message.split("`")[1]: (str(result.finding.impact.level)) for result in found} == {
        "pip install vllm": "low",
        "pip install deepspeed": "medium",
    }


def test_installations_of_one_job_are_one_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = "#!/bin/bash\n#SBATCH --gpus=8\npip install torch\ncd code\npip install flash-attn\npython train.py\n"
    (tmp_path / "job.sh").write_text(job)
    main(["scan", "--isolated", "--no-cache", "--select", "GPU401", str(tmp_path)])
    assert capsys.readouterr().out.count("install-at-start (") == 1


@pytest.mark.parametrize(("cache", "level"), [("/scratch/hub", "low"), ("/tmp/hub", "medium")])
def test_a_cache_that_jobs_share_keeps_what_was_downloaded(tmp_path: Path, cache: str, level: str) -> None:
    files = {
        "job.sh": f"#!/bin/bash\n#SBATCH --gpus=8\nexport HF_HOME={cache}\npython train.py\n",
        "train.py": "import torch\nfrom transformers import AutoModel\n\n"
        'model = AutoModel.from_pretrained("org/large-70b").cuda()\nmodel(batch).loss.backward()\n',
    }
    assert levels(tmp_path, files, "GPU331") == [level]


def test_the_files_of_one_checkpoint_count_once(tmp_path: Path) -> None:
    saves = (
        "from transformers import AutoModel\nmodel = AutoModel.from_pretrained('some/model').cuda()\n"
        "for step, x in enumerate(loader):\n    model(x.cuda()).loss.backward()\n    optimizer.step()\n"
        "    if step % 4 == 0:\n        torch.save(model.state_dict(), 'model.pt')\n"
        "        torch.save(optimizer.state_dict(), 'optimizer.pt')\n"
    )
    once = "every 4 steps, a checkpoint to a disk"
    assert bases(tmp_path, {"train.py": f"import torch\n{saves}"}, "GPU211") == [
        f"medium, {once}",
        f"low, {once}, a part of the checkpoint above",
    ]


@pytest.mark.parametrize(("folder", "level"), [("$SCRATCH/hub", "low"), ("$TMPDIR/hub", "medium")])
def test_a_cache_on_the_disk_of_a_cluster_is_kept(tmp_path: Path, folder: str, level: str) -> None:
    load = "from transformers import AutoModel\n\nnet = AutoModel.from_pretrained('org/large-70b').cuda()\n"
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:8\nexport HF_HOME={folder}\npython serve.py\n"
    assert set(levels(tmp_path, {"serve.py": load, "job.sh": job}, "GPU331")) == {level}


@pytest.mark.parametrize(
    ("commands", "level"),
    [
        ("sbatch job.sh model=org/small-1b\nsbatch job.sh model=checkpoints/stage1\n", "low"),
        ("sbatch job.sh model=org/small-1b\nsbatch job.sh model=org/large-70b\n", "medium"),
        ("sbatch job.sh\n", "medium"),
    ],
)
def test_a_model_that_each_command_replaces_costs_little(tmp_path: Path, commands: str, level: str) -> None:
    job = (
        '#!/bin/bash\n#SBATCH --gpus=8\neval "$@"\nexport model=${model:-"org/large-70b"}\n'
        "python train.py --model $model\n"
    )
    program = (
        "import argparse\nimport torch\nfrom transformers import AutoModel\n\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--model')\nargs = parser.parse_args()\n"
        "net = AutoModel.from_pretrained(args.model).cuda()\nnet(batch).loss.backward()\n"
    )
    (tmp_path / "stage1").mkdir()
    (tmp_path / "stage1" / "README.md").write_text(f"```\n{commands}```\n")
    files = {"job.sh": job, "train.py": program, "stage1/prepare.py": ""}
    assert levels(tmp_path, files, "GPU331") == [level]
