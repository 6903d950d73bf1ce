"""The audit of a real Prometheus server that holds planted series, and of servers that fail."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("ibis")

from gpulint.cli import main
from tests.audit.comparing import equal
from tests.audit.planted import START, Maker, plant, write
from tests.audit.servers import free_port, needs_prometheus, prometheus

MIB = 2**20


def _mib(maker: Maker) -> None:
    """Round to what DCGM can say: whole percents and MiB."""
    for rows in maker.samples.values():
        for row in rows:
            row["cpu_utilization"] = None
            if row["gpu_utilization"] is not None:
                row["gpu_utilization"] = round(row["gpu_utilization"], 2)
            if row["gpu_memory_bytes"] is not None:
                row["gpu_memory_bytes"] = round(row["gpu_memory_bytes"] / MIB) * MIB
            if row.get("gpu_memory_total_bytes"):
                row["gpu_memory_total_bytes"] = 81559 * MIB


def _open_metrics(maker: Maker) -> str:
    columns = {
        "DCGM_FI_DEV_GPU_UTIL": ("gpu_utilization", 0.01),
        "DCGM_FI_DEV_FB_USED": ("gpu_memory_bytes", MIB),
        "DCGM_FI_DEV_FB_TOTAL": ("gpu_memory_total_bytes", MIB),
    }
    lines = []
    for metric, (column, factor) in columns.items():
        lines.append(f"# TYPE {metric} gauge")
        for job in maker.jobs:
            seen = {(row.get("node") or "", row["gpu"], row["timestamp"]): row for row in maker.samples[job["job"]]}
            for (node, gpu, at), row in sorted(seen.items()):
                if row.get(column) is None:
                    continue
                profile = gpu.rpartition(" ")[2] if "g." in gpu else ""
                place = f'UUID="{gpu.split(" ")[0]}"' + (f',GPU_I_ID="1",GPU_I_PROFILE="{profile}"' if profile else "")
                labels = f'hpc_job="{job["job"]}",user="{job["user"]}",Hostname="{node}",{place}'
                lines.append(f"{metric}{{{labels}}} {round(row[column] / factor, 6):.15g} {at:.3f}")
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def maker() -> Maker:
    made = plant(46, seed=3)
    # Where one GPU has several samples at a time, a server keeps one; samples before a job's start make its life longer.
    _mib(made)
    return made


@pytest.fixture(scope="module")
def server(maker: Maker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    with prometheus(folder, _open_metrics(maker), "--query.max-samples=20000") as url:
        yield url


PERIOD = ["--since", str(START - 3600), "--until", str(START + 200_000)]
FIGURES = ("mean_utilization coverage idle_slot_seconds never_used_gpus unknown_gpus fluctuating idle_at_end_seconds "
           "idle_at_start_seconds stable_phases low gpu_hours wasted_gpu_hours patterns memory_phases").split()  # fmt: skip


@needs_prometheus
def test_answers_are_those_of_the_same_samples_as_csv(
    server: str, maker: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(maker, tmp_path)
    assert main(["audit", str(tmp_path), "--output-format", "json"]) == 0
    of_csv = {job["job"]: job for job in json.loads(capsys.readouterr().out)["jobs"]}
    (tmp_path / "samples.csv").unlink()
    # The server refuses more than 20,000 samples at once, so that periods must be cut.
    assert main(["audit", server, str(tmp_path), *PERIOD, "--output-format", "json"]) == 0
    of_server = {job["job"]: job for job in json.loads(capsys.readouterr().out)["jobs"]}
    assert of_server.keys() == of_csv.keys()
    for name, job in of_csv.items():
        if maker.kinds[name] == "MIG":
            continue  # names of instances differ
        found = of_server[name]
        wrong = {key: (found[key], job[key]) for key in FIGURES if not equal(found[key], job[key])}
        assert not wrong, maker.kinds[name]


@needs_prometheus
def test_jobs_are_known_by_their_labels(server: str, maker: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", server, *PERIOD, "--output-format", "json"]) == 0
    jobs = {job["job"]: job for job in json.loads(capsys.readouterr().out)["jobs"]}
    assert jobs.keys() == {job["job"] for job in maker.jobs if maker.samples[job["job"]]}
    assert {job["user"] for job in jobs.values()} <= {job["user"] for job in maker.jobs}


@needs_prometheus
def test_no_figures_of_jobs_is_said(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", server, "--job-label", "nothing", *PERIOD]) == 2
    assert "without a label 'nothing': pass --job-label" in capsys.readouterr().err
    assert main(["audit", server, "--since", "1000", "--until", "2000"]) == 2
    assert "no DCGM figures of jobs in this period" in capsys.readouterr().err


class _Failing(http.server.BaseHTTPRequestHandler):
    """Answers for one metric, and fails for all others as the test says."""

    status = 503
    body = b"upstream is down"
    warnings: tuple[str, ...] = ()

    def do_GET(self) -> None:
        if "vector%281%29" in self.path:
            self._answer(200, _success([]))
        elif "DCGM_FI_DEV_GPU_UTIL" in self.path:
            metric = {"hpc_job": "a", "Hostname": "n0", "UUID": "GPU-0"}
            values = [[START + 15 * i, "50"] for i in range(40)]
            self._answer(200, _success([{"metric": metric, "values": values}], list(self.warnings)))
        else:
            self._answer(self.status, self.body)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _success(result: list[Any], warnings: list[str] | None = None) -> bytes:
    data = {"resultType": "matrix", "result": result}
    return json.dumps({"status": "success", "data": data, "warnings": warnings or []}).encode()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, b"upstream is down", "HTTP 503"),
        (422, b'{"status": "error", "error": "too many samples"}', "HTTP 422: too many samples"),
        (200, b'{"status": "success", "data": {"resultType": "matr', "the answer is cut off"),
        (200, b"<html>", "the answer is cut off, or not that of a Prometheus server"),
    ],
)
def test_what_a_server_does_not_answer_is_left_out_and_said(
    status: int, body: bytes, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    handler = type("Handler", (_Failing,), {"status": status, "body": body})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as fake:
        threading.Thread(target=fake.serve_forever, daemon=True).start()
        period = ["--since", str(START), "--until", str(START + 3600)]
        code = main(["audit", f"http://127.0.0.1:{fake.server_port}", *period, "--output-format", "json"])
        fake.shutdown()
    audit = json.loads(capsys.readouterr().out)
    assert (code, audit["partial"]) == (1, True)
    assert any(said in problem and "DCGM_FI_DEV_FB_USED" in problem for problem in audit["problems"])
    assert [(job["job"], job["mean_utilization"], job["idle_slot_seconds"]) for job in audit["jobs"]] == [
        ("a", 0.5, None)
    ]


def test_a_partial_answer_is_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    handler = type("Handler", (_Failing,), {"status": 200, "body": _success([]), "warnings": ("store 2 is down",)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as fake:
        threading.Thread(target=fake.serve_forever, daemon=True).start()
        period = ["--since", str(START), "--until", str(START + 3600)]
        assert main(["audit", f"http://127.0.0.1:{fake.server_port}", *period]) == 1
        fake.shutdown()
    out = capsys.readouterr().out
    assert out.startswith("Partial:")
    assert "store 2 is down" in out


def test_no_server_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", f"http://127.0.0.1:{free_port()}"]) == 2
    assert "cannot be reached" in capsys.readouterr().err
