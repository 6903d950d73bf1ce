"""Recordings with a known truth, put together from phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpulint_probe.recording import GpuInfo, GpuSample, HostSample, Mark, Recording
from hypothesis import strategies as st

START = 1_700_000_000.0
CARD = 80 << 30


@dataclass(frozen=True)
class Phase:
    """What a job does for some seconds; ``mark`` is a (kind, text) line of its log at the beginning."""

    seconds: float
    activity: float | None = 0.9
    memory: float = 0.4
    """Share of the card."""
    cpu: float = 0.1
    """Share of the cores."""
    disk_write: float = 0.0
    disk_read: float = 0.0
    pcie: float = 1e8
    power_w: float = 300.0
    mark: tuple[str, str] | None = None
    unseen: bool = False
    """The GPU is lost: no samples of it."""


WORK = Phase(72, 0.9)
SAVE = Phase(96, 0.0, disk_write=200e6, power_w=100.0)


phases = st.builds(
    Phase,
    seconds=st.integers(1, 150),
    activity=st.none() | st.floats(0, 1),
    memory=st.floats(0, 1),
    cpu=st.floats(0, 1),
    disk_write=st.sampled_from([0.0, 5e6, 300e6]),
    pcie=st.sampled_from([0.0, 8e9]),
    mark=st.none()
    | st.tuples(st.sampled_from("epoch step install download checkpoint eval log".split()), st.just("x")),
    unseen=st.booleans(),
)
"""Any phase, for properties."""


def record(
    *gpus: Sequence[Phase], interval: float = 1.0, coarse: bool = False, command: Sequence[str] = (), cwd: str = "/",
    memory_bytes: int = CARD,
) -> Recording:  # fmt: skip
    """A recording of a job whose GPUs each go through phases; host and log follow those of GPU 0."""
    recording = Recording(list(command), cwd, START, interval, "nvml" if coarse else "nvml-gpm")
    for index, phases in enumerate(gpus):
        recording.gpus.append(GpuInfo(index, f"GPU-{index}", "Test Card", memory_bytes))
        for time_s, phase in _ticks(phases, interval):
            if phase.unseen:
                continue
            sample = GpuSample(
                time_s, index, utilization=phase.activity, memory_used_bytes=round(phase.memory * memory_bytes),
                power_w=phase.power_w, pcie_rx_bytes_s=phase.pcie,
            )  # fmt: skip
            recording.gpu_samples.append(sample if coarse else replace(sample, sm_activity=phase.activity))
    first = gpus[0] if gpus else ()
    for time_s, phase in _ticks(first, interval):
        recording.host_samples.append(
            HostSample(time_s, 16 * phase.cpu, 16, 8 << 30, phase.disk_read, phase.disk_write, 0.0, 0.0, 5)
        )
    at = START
    for phase in first:
        if phase.mark:
            recording.marks.append(Mark(at, *phase.mark))
        at += phase.seconds
    recording.ended = START + max((sum(phase.seconds for phase in phases) for phases in gpus), default=0.0)
    recording.exit_code = 0
    return recording


def _ticks(phases: Sequence[Phase], interval: float) -> list[tuple[float, Phase]]:
    found, at, n = [], 0.0, 0
    for phase in phases:
        at += phase.seconds
        while (n + 1) * interval <= at + 1e-9:
            n += 1
            found.append((START + n * interval, phase))
    return found
