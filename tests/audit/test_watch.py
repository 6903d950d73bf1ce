"""The exporter, its alert rules and its dashboard, with a real Prometheus."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("ibis")

from gpulint.cli import main
from tests.audit.conftest import JOBS
from tests.audit.servers import needs_prometheus


@needs_prometheus
def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    assert main(["audit", "watch", "--write-rules", str(tmp_path)]) == 0
    shutil.copy(Path(__file__).with_name("alerts_test.yml"), tmp_path)
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        ran = subprocess.run(["promtool", *command], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_dashboard_is_whole(tmp_path: Path) -> None:
    assert main(["audit", "watch", "--write-rules", str(tmp_path / "rules")]) == 0
    dashboard = _dashboard(tmp_path)
    (variable,) = dashboard["templating"]["list"]
    source = {"type": variable["query"], "uid": f"${{{variable['name']}}}"}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in ("stat", "timeseries", "table")
        assert panel["targets"]
        assert all(target["datasource"] == source == panel["datasource"] for target in panel["targets"]), panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for first, second in itertools.combinations((panel["gridPos"] for panel in panels), 2):
        apart = any(
            one[at] + one[size] <= other[at]
            for at, size in (("x", "w"), ("y", "h"))
            for one, other in ((first, second), (second, first))
        )
        assert apart, (first, second)


def _dashboard(folder: Path) -> Any:
    return json.loads((folder / "rules" / "dashboard.json").read_text(encoding="utf-8"))


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def _await(condition: Callable[[], bool]) -> bool:
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="needs signals")
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")
def test_prometheus_alerts_on_the_exporters_verdicts(tmp_path: Path, folder: Path) -> None:
    now = int(time.time())
    (folder / "jobs.csv").write_text(f'{JOBS}"odd ""name""\\x",ann,q1,{now - 8000},{now - 7200},,2,train,RUNNING,,\n')
    rows = [
        f'{now - 7200 + 60 * i},"odd ""name""\\x",{gpu},{0.8 if i < 10 and gpu == 0 else 0},0\n'
        for i in range(118)
        for gpu in (0, 1)
    ]
    (folder / "samples.csv").write_text("timestamp,job,gpu,gpu_utilization,gpu_memory_bytes\n" + "".join(rows))
    command = [sys.executable, "-m", "gpulint", "audit", "watch", str(folder), "--listen", "127.0.0.1:0", "--every", "1",
               "--write-rules", str(tmp_path / "rules")]  # fmt: skip
    watch = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert watch.stderr is not None
    prometheus = None
    try:
        line = next(line for line in watch.stderr if line.startswith("serving"))
        address = line.split("http://")[1].split("/")[0]
        assert _await(lambda: "gpulint_job_never_used_gpus{" in _get(f"http://{address}/metrics"))
        subprocess.run(["promtool", "check", "metrics"], input=_get(f"http://{address}/metrics"), text=True, check=True)
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules/alerts.yml]\n"
            f"scrape_configs: [{{job_name: audit, static_configs: [{{targets: ['{address}']}}]}}]\n"
        )
        port = int(address.split(":")[1]) + 1
        with (tmp_path / "log").open("wb") as log:
            prometheus = subprocess.Popen(
                ["prometheus", "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}"],
                cwd=tmp_path, stdout=log, stderr=log,
            )  # fmt: skip

        def firing() -> bool:
            try:
                alerts = json.loads(_get(f"http://127.0.0.1:{port}/api/v1/alerts"))["data"]["alerts"]
            except OSError:
                return False
            names = {
                alert["labels"]["alertname"] for alert in alerts if alert["labels"].get("job_name") == 'odd "name"\\x'
            }
            return names >= {"GpuHeldIdleAfterActivity", "GpuNeverUsed"}

        assert _await(firing), (tmp_path / "log").read_text()[-2000:]
        for panel in _dashboard(tmp_path)["panels"]:
            for target in panel["targets"]:
                query = urllib.parse.urlencode({"query": target["expr"]})
                answer = json.loads(_get(f"http://127.0.0.1:{port}/api/v1/query?{query}"))
                assert answer["data"]["result"], panel["title"]
    finally:
        if prometheus is not None:
            prometheus.terminate()
            prometheus.wait(30)
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(60) == 0
        watch.stderr.close()
