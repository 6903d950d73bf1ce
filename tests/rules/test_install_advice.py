"""What GPU401 writes of packages can be pasted: a shell reads the requirements as pip has to."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpulint_rules.library.install_words import items, pip

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.project import Project
from gpulint.selection import select

LOADED = plugins.load()
ANYSCALE = """\
name: {name}
entrypoint: python {name}.py --epochs 3
image_uri: anyscale/ray:{tag}
requirements:
{packages}
compute_config:
  worker_nodes:
    - instance_type: g4dn.12xlarge
      min_nodes: 1
      max_nodes: 1
"""


def helps(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """The help of each finding, by its file."""
    for name, text in files.items():
        (folder / name).write_text(text)
    paths = [folder / name for name in files]
    project = Project(folder, paths, Config(base=folder))
    report = engine.run(project, paths, select(LOADED.rules, ["GPU401"], (), ()))
    return {result.finding.path.name: result.finding.help for result in report.results}


def anyscale(name: str, *packages: str, tag: str = "2.53.0") -> str:
    """A job that lists packages."""
    return ANYSCALE.format(name=name, tag=tag, packages="\n".join(f"  - {package}" for package in packages))


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["torch>=2.9.1", "einops"], "RUN pip install 'torch>=2.9.1' einops"),
        (["numpy<2", "torch==2.1.*"], "RUN pip install 'numpy<2' torch==2.1.*"),
        (["torch >= 2.1"], "RUN pip install 'torch >= 2.1'"),
        (["tomli; python_version < '3.11'"], "RUN pip install 'tomli; python_version < '\"'\"'3.11'\"'\"''"),
        (["requirements.txt", ".[gpu]"], "RUN pip install -r requirements.txt .[gpu]"),
        (["-r requirements.txt", "-e .[gpu]"], "RUN pip install -r requirements.txt -e .[gpu]"),
        (["torch==2.1 einops"], "RUN pip install torch==2.1 einops"),
        (["$WHEELS/a b.whl; x"], 'RUN pip install "$WHEELS/a b.whl; x"'),
    ],
)
def test_requirements_are_in_quotes_where_a_shell_would_read_more(names: list[str], line: str) -> None:
    assert pip(names) == line


def test_quotes_are_no_part_of_what_is_installed() -> None:
    assert items(("RUN pip install 'torch>=2.9.1' \"numpy<2\" -r requirements.txt",)) == (
        "torch>=2.9.1",
        "numpy<2",
        "requirements.txt",
    )
    assert items(("RUN pip install 'torch",)) == ("'torch",)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "job.sh",
            '#!/bin/bash\n#SBATCH --container-image=a/b --gres=gpu:2\npip install "torch>=2.1,<3" einops\npython train.py\n',
            "`RUN pip install 'torch>=2.1,<3' einops`",
        ),
        (
            "train.py",
            'import subprocess, sys, torch\nsubprocess.run([sys.executable, "-m", "pip", "install", "einops>=0.8"])\n'
            "model = torch.nn.Linear(8, 8).cuda()\nfor batch in loader:\n    model(batch.cuda()).sum().backward()\n"
            "    optimizer.step()\n",
            "`RUN pip install 'einops>=0.8'`",
        ),
        ("job.yaml", anyscale("train", "torch>=2.9.1", "einops"), "`RUN pip install 'torch>=2.9.1' einops`"),
    ],
)
def test_advice_quotes_versions(tmp_path: Path, name: str, text: str, line: str) -> None:
    assert line in helps(tmp_path, {name: text, "setup.txt": ""})[name]


def test_an_image_has_what_all_jobs_that_start_from_it_list(tmp_path: Path) -> None:
    found = helps(
        tmp_path,
        {
            "plain.yaml": anyscale("plain", "torch>=2.9.1", "einops"),
            "sharded.yaml": anyscale("sharded", "torch>=2.9.1", "deepspeed>=0.18.3"),
        },
    )
    assert "'torch>=2.9.1' einops 'deepspeed>=0.18.3'`" in found["plain.yaml"]
    assert found["plain.yaml"].endswith("; these are the packages of sharded.yaml as well")
    assert "'torch>=2.9.1' 'deepspeed>=0.18.3' einops`" in found["sharded.yaml"]


@pytest.mark.parametrize(
    ("other", "tag"),
    [(("torch==2.8", "deepspeed"), "2.53.0"), (("torch>=2.9.1", "deepspeed"), "2.40.0"), (("jax",), "2.53.0")],
    ids=["another version", "another image", "nothing in common"],
)
def test_jobs_that_do_not_agree_have_images_of_their_own(tmp_path: Path, other: tuple[str, ...], tag: str) -> None:
    found = helps(
        tmp_path,
        {"plain.yaml": anyscale("plain", "torch>=2.9.1", "einops"), "other.yaml": anyscale("other", *other, tag=tag)},
    )
    assert "`RUN pip install 'torch>=2.9.1' einops`" in found["plain.yaml"]
    assert "as well" not in found["plain.yaml"]
