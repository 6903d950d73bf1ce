"""What a finding costs: how the impact is reported, and where its figures come from."""

from __future__ import annotations

import dataclasses
import json
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
from tests.assessment.scans import HEAD, IMAGES, TRAINING, impacts, scan


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
        "basis": "the whole run, 2 of 8 GPUs in use, 8 GPUs",
        "gpu_share": [0.75, 0.75],
        "gpu_hours": None,
    }


@pytest.mark.parametrize(
    ("code", "job", "line", "basis"),
    [
        ("GPU414", "python train.py", "torch.autograd.set_detect_anomaly(True)", "the whole run, a debug mode"),
        ("GPU105", "python train.py\nsleep infinity", "", "once per run, GPUs wait after the work"),
        ("GPU401", "pip install timm\npython train.py", "", "once per run, "),
    ],
)
def test_a_share_of_the_run_is_no_time_in_it(tmp_path: Path, code: str, job: str, line: str, basis: str) -> None:
    files = {
        "job.sh": f"#!/bin/bash\n#SBATCH --gres=gpu:1\n{job}\n",
        "train.py": HEAD + IMAGES + line + "\n" + TRAINING,
    }
    assert [impact.basis.startswith(basis) for impact in impacts(tmp_path, files)[code]] == [True]


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
