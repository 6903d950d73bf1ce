"""Pods of kube-state-metrics beside the figures of dcgm-exporter, recorded and served by a real Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("ibis")

from gpulint.cli import main
from tests.audit.planted import START
from tests.audit.servers import needs_prometheus, prometheus

Audit = Callable[..., tuple[int, Any, str]]
LIFE = 3600
EVERY = 15


class Exposition:
    """Lines of OpenMetrics by metric, as both exporters write them."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}

    def add(self, metric: str, labels: dict[str, str], value: float, at: int) -> None:
        inner = ",".join(f'{name}="{text}"' for name, text in labels.items())
        self.lines.setdefault(metric, []).append(f"{metric}{{{inner}}} {value:.15g} {at}")

    def pod(self, name: str, node: str, gpus: float, *, resource: str = "nvidia_com_gpu", owner: tuple[str, str] = ("", ""),
            end: int | None = START + LIFE, phase: str = "Succeeded") -> None:  # fmt: skip
        who = {"namespace": "team-a", "pod": name, "uid": f"uid-{name}"}
        container = {**who, "container": "main"}
        kind, owned_by = owner
        for at in range(START, START + LIFE + 1, 60):
            requested = {**container, "resource": resource, "unit": "integer", "node": node}
            self.add("kube_pod_container_resource_requests", requested, gpus, at)
            self.add("kube_pod_container_resource_requests", {**requested, "resource": "cpu", "unit": "core"}, 8, at)
            self.add(
                "kube_pod_info", {**who, "node": node, "created_by_kind": kind, "created_by_name": owned_by}, 1, at
            )
            about = {"owner_kind": kind or "<none>", "owner_name": owned_by or "<none>", "owner_is_controller": "true"}
            self.add("kube_pod_owner", {**who, **about}, 1, at)
            self.add("kube_pod_created", who, START - 120, at)
            self.add("kube_pod_start_time", who, START, at)
            if end is not None and at >= end:
                self.add("kube_pod_completion_time", who, end, at)
            for known in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
                now = phase if end is not None and at >= end else "Running"
                self.add("kube_pod_status_phase", {**who, "phase": known}, float(known == now), at)
            self.add("kube_pod_container_info", {**container, "image": "registry/train:1", "image_id": "x"}, 1, at)
            self.add("kube_pod_labels", {**who, "label_user": "ann", "label_kueue_x_k8s_io_queue_name": "gpu"}, 1, at)

    def gpu(self, pod: str, node: str, index: int, model: str, figures: Callable[[int], dict[str, float]], *,
            instance: tuple[str, str] = ("", "")) -> None:  # fmt: skip
        uuid = f"GPU-{node}-{index}"
        place = {"gpu": str(index), "UUID": uuid, "device": f"nvidia{index}", "modelName": model, "Hostname": node}
        if instance[0]:
            place |= {"GPU_I_ID": instance[0], "GPU_I_PROFILE": instance[1]}
        # What Prometheus makes of the exporter's labels: its own pod, and the job's as exported_*.
        place |= {"namespace": "gpu-operator", "pod": f"nvidia-dcgm-exporter-{node}", "container": "exporter"}
        if pod:
            place |= {"exported_namespace": "team-a", "exported_pod": pod, "exported_container": "main"}
        for at in range(START, START + LIFE, EVERY):
            for metric, value in figures(at - START).items():
                self.add(metric, place, value, at)

    def text(self) -> str:
        found = []
        for metric, lines in self.lines.items():
            found += [f"# TYPE {metric} gauge", *lines]
        return "\n".join([*found, "# EOF", ""])


def busy(level: float, total: float = 81559.0) -> Callable[[int], dict[str, float]]:
    return lambda at: {
        "DCGM_FI_DEV_GPU_UTIL": level,
        "DCGM_FI_DEV_FB_USED": 1000.0 if level else 0.0,
        "DCGM_FI_DEV_FB_FREE": total - (1000.0 if level else 0.0),
        "DCGM_FI_PROF_PCIE_RX_BYTES": 2e9 * (at < LIFE / 2),
        "DCGM_FI_PROF_PCIE_TX_BYTES": 1e9,
        "DCGM_FI_PROF_NVLINK_TX_BYTES": 5e9,
        "DCGM_FI_PROF_NVLINK_RX_BYTES": 6e9,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 1.0 if not level else 4.0 if at < 600 else 0x28 if at < 900 else 0.0,
        "DCGM_FI_DEV_XID_ERRORS": 79.0 if level and at >= 1800 else 0.0,
    }


def slice_of(level: float, total: float) -> Callable[[int], dict[str, float]]:
    return lambda _: {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": level,
        "DCGM_FI_DEV_FB_USED": 500.0,
        "DCGM_FI_DEV_FB_FREE": total - 500,
    }


def recorded() -> str:
    made = Exposition()
    for rank, node in enumerate(("n0", "n1")):
        made.pod(f"train-worker-{rank}", node, 2, owner=("PyTorchJob", "train"))
        for gpu in range(2):
            made.gpu(f"train-worker-{rank}", node, gpu, "NVIDIA A100-SXM4-80GB", busy(80.0 - 60.0 * rank))
    made.pod("notebook-0", "n2", 1, end=None)
    made.gpu("notebook-0", "n2", 0, "NVIDIA L4", busy(0.0, 23034.0))
    made.gpu("", "n2", 1, "NVIDIA L4", busy(0.0))
    made.pod("web-5d4f-a", "n3", 1, owner=("ReplicaSet", "web-5d4f"), end=None)
    made.pod("web-5d4f-b", "n3", 1, owner=("ReplicaSet", "web-5d4f"), end=None)
    made.gpu("web-5d4f-a", "n3", 0, "NVIDIA H100 80GB HBM3", busy(50.0))
    made.gpu("web-5d4f-b", "n3", 1, "NVIDIA L4", busy(50.0, 23034.0))
    made.pod("mixed-0", "n3", 1, owner=("Job", "mixed"))
    made.pod("mixed-1", "n5", 1, owner=("Job", "mixed"))
    made.gpu("mixed-0", "n3", 2, "NVIDIA H100 80GB HBM3", busy(100.0))
    made.gpu("mixed-1", "n5", 0, "NVIDIA L4", busy(20.0, 23034.0))
    made.pod("small-0", "n4", 2, resource="nvidia_com_mig_1g_10gb", owner=("Job", "small"), phase="Failed")
    made.gpu("small-0", "n4", 0, "NVIDIA A100-SXM4-80GB", slice_of(0.5, 9728.0), instance=("7", "1g.10gb"))
    made.gpu("small-0", "n4", 0, "NVIDIA A100-SXM4-80GB", slice_of(0.1, 9728.0), instance=("8", "1g.10gb"))
    made.pod("blind-0", "n9", 4, owner=("Job", "blind"))
    return made.text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("kubernetes"), recorded()) as url:
        yield url


PERIOD = ["--since", str(START - 600), "--until", str(START + LIFE)]


@needs_prometheus
def test_pods_of_one_controller_are_one_job(server: str, audit: Audit) -> None:
    code, answer, _ = audit(server, *PERIOD)
    jobs = {job["job"]: job for job in answer["jobs"]}
    assert code == 0
    assert jobs.keys() == {"team-a/train", "team-a/notebook-0", "team-a/web-5d4f-a", "team-a/web-5d4f-b", "team-a/mixed",
                           "team-a/small", "team-a/blind"}  # fmt: skip
    train = jobs["team-a/train"]
    assert (train["user"], train["queue"], train["state"], train["gpus"]) == ("ann", "gpu", "COMPLETED", 4)
    assert (train["queue_seconds"], train["seconds"], train["coverage"]) == (120.0, 3600.0, 1.0)
    assert train["mean_utilization"] == pytest.approx(0.5)
    notebook = jobs["team-a/notebook-0"]
    assert (notebook["gpus"], notebook["never_used_gpus"], notebook["state"]) == (1, 1, "")
    blind = jobs["team-a/blind"]
    assert (blind["gpus"], blind["unknown_gpus"], blind["coverage"]) == (4, 4, 0.0)
    assert any("without a label of a job are left out" in note for note in answer["notes"])


@needs_prometheus
def test_ranks_on_several_nodes_are_compared(server: str, audit: Audit) -> None:
    _, answer, _ = audit(server, *PERIOD)
    jobs = {job["job"]: job for job in answer["jobs"]}
    train = jobs["team-a/train"]
    assert train["rank_imbalance"] == pytest.approx(0.6)
    assert (train["least_used_gpu"], train["most_used_gpu"]) == ("n1:GPU-n1-0", "n0:GPU-n0-1")
    assert jobs["team-a/notebook-0"]["rank_imbalance"] is None


@needs_prometheus
def test_cards_of_several_kinds_and_instances(server: str, audit: Audit) -> None:
    _, answer, _ = audit(server, *PERIOD, "--by", "gpu_type")
    jobs = {job["job"]: job for job in answer["jobs"]}
    mixed = jobs["team-a/mixed"]
    assert (mixed["gpu_type"], mixed["gpus"]) == ("NVIDIA H100 80GB HBM3, NVIDIA L4", 2)
    held = (1000 / 81559 + 1000 / 23034) / 2
    assert mixed["mean_gpu_memory"] == pytest.approx(held)
    assert mixed["stable_phases"]["t960_m8"] == 2 * LIFE
    small = jobs["team-a/small"]
    assert (small["state"], small["gpus"], small["unknown_gpus"]) == ("FAILED", 2, 0)
    assert small["mean_utilization"] == pytest.approx(0.3)
    assert small["gpu_hours"] == pytest.approx(2 / 7)
    by_kind = {row["gpu_type"]: row["gpu_hours"] for row in answer["groups"]["gpu_type"]}
    assert by_kind["NVIDIA A100-SXM4-80GB"] == pytest.approx(4 + 2 / 7)


@needs_prometheus
def test_traffic_throttling_and_errors_are_read(server: str, audit: Audit) -> None:
    _, answer, _ = audit(server, *PERIOD)
    jobs = {job["job"]: job for job in answer["jobs"]}
    train = jobs["team-a/train"]
    assert (train["mean_pcie_rx_bytes_s"], train["max_pcie_rx_bytes_s"]) == (1e9, 2e9)
    assert (train["mean_pcie_tx_bytes_s"], train["mean_nvlink_tx_bytes_s"], train["mean_nvlink_rx_bytes_s"]) == (
        1e9,
        5e9,
        6e9,
    )
    assert train["throttled_seconds"] == {"power": 4 * 600.0, "thermal": 4 * 300.0}
    assert train["xid_errors"] == [79]
    assert jobs["team-a/notebook-0"]["throttled_seconds"] == {"power": 0.0, "thermal": 0.0}
    assert jobs["team-a/notebook-0"]["xid_errors"] == []
    assert any("XID" in note and "team-a/train (79)" in note for note in answer["notes"])


@needs_prometheus
def test_the_page_shows_them(server: str, tmp_path: Path) -> None:
    assert main(["audit", server, *PERIOD, "-o", str(tmp_path / "a.html")]) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "1.0 GB/s received, 1.0 GB/s sent" in page
    assert "power 40 min, heat 20 min" in page
    assert "XID 79" in page
