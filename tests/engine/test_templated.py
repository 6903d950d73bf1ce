"""Jobs whose text a template completes: what is said of them, and how loudly."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.finding import Severity
from gpulint.project import Project
from gpulint.selection import select

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: dev}}
spec:
  containers:
  - name: dev
    image: me/tools
    command: ["sleep", "infinity"]
    resources: {{limits: {{nvidia.com/gpu: {count}}}}}
"""


@pytest.mark.parametrize(
    ("count", "severity"),
    [("1", Severity.ERROR), ('"{{ gpus }}"', Severity.WARNING), ('"{{ .Values.gpus }}"', Severity.WARNING)],
)
def test_a_count_that_may_be_0_is_no_error(tmp_path: Path, count: str, severity: Severity) -> None:
    (tmp_path / "pod.yaml").write_text(POD.format(count=count))
    loaded = plugins.load()
    project = Project(tmp_path, [tmp_path / "pod.yaml"], Config(base=tmp_path))
    report = engine.run(project, [tmp_path / "pod.yaml"], select(loaded.rules, ["GPU101"], (), ()))
    assert [result.finding.severity for result in report.results] == [severity]
