"""DCGM's figures from a real Prometheus server, whose past promtool writes."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from gpulint_probe.recording import Recording
from gpulint_probe.sources.base import SourceUnavailable
from gpulint_probe.sources.prometheus import POINTS, PrometheusSource

if shutil.which("promtool") is None or shutil.which("prometheus") is None:
    pytest.skip("prometheus and promtool are not installed (Debian: prometheus)", allow_module_level=True)

STEP = 15
COUNT = POINTS + 1500
HERE = socket.gethostname()


class Server(NamedTuple):
    url: str
    start: int
    end: int


def _activity(number: int) -> float:
    return (number % 100) / 100


def _past(start: int) -> Iterator[str]:
    """Two GPUs of this node and one of another, in the OpenMetrics text format; the pod changes half way."""
    gpus = [("0", "GPU-aaaa", HERE), ("1", "GPU-bbbb", HERE), ("0", "GPU-cccc", "elsewhere")]
    for metric in ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"):
        yield f"# TYPE {metric} gauge"
        for gpu, uuid, host in gpus:
            for pod, numbers in (("a", range(COUNT // 2)), ("b", range(COUNT // 2, COUNT))):
                labels = f'gpu="{gpu}",UUID="{uuid}",modelName="NVIDIA A100",Hostname="{host}",pod="{pod}"'
                for number in numbers:
                    value = _activity(number) if metric.endswith("ACTIVE") else 1024.0
                    yield f"{metric}{{{labels}}} {value} {start + number * STEP}"
    yield "# EOF\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("prometheus")
    start = (int(time.time()) - COUNT * STEP - 3600) // STEP * STEP
    (folder / "past").write_text("\n".join(_past(start)))
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", folder / "past", folder / "data"],
        check=True,
        capture_output=True,
    )
    (folder / "settings.yml").write_text("scrape_configs: []\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = {
        "config.file": folder / "settings.yml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    process = subprocess.Popen(
        ["prometheus", *(f"--{name}={value}" for name, value in arguments.items())], stderr=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(f"{url}/-/ready")
        yield Server(url, start, start + (COUNT - 1) * STEP)
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def test_the_server_does_refuse_more_points_than_a_block_has(server: Server) -> None:
    query = f"query_range?query=DCGM_FI_PROF_SM_ACTIVE&start={server.start}&end={server.end}&step={STEP}"
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"{server.url}/api/v1/{query}")
    assert "11,000 points" in json.load(error.value)["error"]


def test_a_long_past_comes_whole_and_once(server: Server) -> None:
    source = PrometheusSource(None, server.url, step_s=STEP, since=server.start, until=server.end)
    assert [(gpu.uuid, gpu.name, gpu.memory_bytes) for gpu in source.gpus] == [
        ("GPU-aaaa", "NVIDIA A100", 2 << 30),
        ("GPU-bbbb", "NVIDIA A100", 2 << 30),
    ]
    samples = [sample for sample in source.history() if sample.gpu == 1]
    assert [sample.time_s for sample in samples] == [server.start + number * STEP for number in range(COUNT)]
    assert [sample.sm_activity for sample in samples] == [_activity(number) for number in range(COUNT)]
    assert samples[0].memory_used_bytes == 1 << 30


def test_the_job_of_another_node_is_chosen_by_its_labels(server: Server) -> None:
    source = PrometheusSource(
        None, server.url, match='Hostname="elsewhere"', step_s=STEP, since=server.end - 600, until=server.end
    )
    assert [gpu.uuid for gpu in source.gpus] == ["GPU-cccc"]


def test_a_node_that_the_server_does_not_know_is_an_error_that_helps(server: Server) -> None:
    with pytest.raises(SourceUnavailable, match=r'no DCGM figures for \{Hostname="mars"\}; it has none'):
        PrometheusSource(None, server.url, match='Hostname="mars"')  # nothing is scraped any more
    with pytest.raises(SourceUnavailable, match=r"it knows Hostname .*elsewhere.*choose with --prometheus-match"):
        PrometheusSource(None, server.url, match='Hostname="mars"', since=server.start, until=server.end)
    with pytest.raises(SourceUnavailable, match="parse error"):
        PrometheusSource(None, server.url, match="Hostname=")


def test_other_servers_are_refused(server: Server) -> None:
    with pytest.raises(SourceUnavailable, match="HTTP 404"):
        PrometheusSource(None, f"{server.url}/nowhere")
    with pytest.raises(SourceUnavailable, match="refused"):
        PrometheusSource(None, "http://127.0.0.1:1")


def test_while_a_job_runs_each_scrape_comes_once_and_the_server_is_not_asked_at_every_tick(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [server.start + 1000.0]
    monkeypatch.setattr("gpulint_probe.sources.prometheus.time", SimpleNamespace(time=lambda: now[0]))
    source = PrometheusSource(["0"], server.url, step_s=STEP)
    first = now[0] // STEP * STEP + STEP
    seen: list[float] = []
    for ticks in range(120):
        now[0] += 1
        samples = source.sample((), final=ticks == 119)
        assert ticks % 15 == 14 or ticks == 119 or not samples
        seen += [sample.time_s for sample in samples]
    assert seen == list(range(int(first), int(now[0]) + 1, STEP))


def test_a_past_job_on_the_command_line(server: Server, tmp_path: Path) -> None:
    output = tmp_path / "past.jsonl"
    command = ["probe", "--prometheus", server.url, "--since", str(server.end - 600), "--until", str(server.end)]
    found = subprocess.run(
        [sys.executable, "-m", "gpulint", *command, "--gpus", "1", "-o", output], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    recording = Recording.read(output)
    assert recording.source == "prometheus"
    assert [gpu.uuid for gpu in recording.gpus] == ["GPU-bbbb"]
    assert len(recording.gpu_samples) == 600 // STEP + 1
    assert any("host" in text for text in recording.blind_spots)
