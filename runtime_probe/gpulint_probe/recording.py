"""What a probe run saw, and its file: JSON lines, written during the run, so that a killed probe loses seconds at most.

The first line is the header (what ran, where the figures come from); then one line per sample, mark and note in the
order in which they came; the last line, missing where the probe was killed, has the end and the exit code.
Ratios are 0 to 1, times are Unix seconds, and None is always "not seen", never zero.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from gpulint.escaping import printable

VERSION = 1
FORMAT = "gpulint-recording"


class RecordingError(Exception):
    """A recording cannot be read or written; the message is one line that names the file."""


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """One GPU or MIG instance. ``index`` counts from 0 within the recording and is what samples refer to."""

    index: int
    uuid: str
    name: str
    memory_bytes: int
    mig: str | None = None
    """Profile such as 1g.10gb where this is an instance of a partitioned GPU."""
    vendor: str = "nvidia"


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU over the interval that ends at ``time_s``."""

    time_s: float
    gpu: int
    sm_activity: float | None = None
    """Share of cycles in which a streaming multiprocessor had a warp, mean over all of them."""
    sm_occupancy: float | None = None
    """Resident warps against the most that fit."""
    tensor_activity: float | None = None
    dram_activity: float | None = None
    utilization: float | None = None
    """Share of time in which any kernel ran: the coarse "GPU-Util", 1.0 for a single busy thread."""
    memory_used_bytes: int | None = None
    """Of the device, whoever holds it; without what the driver reserves."""
    process_memory_bytes: int | None = None
    """Of the processes of this job."""
    power_w: float | None = None
    energy_j: float | None = None
    """Counter since the driver was loaded."""
    pcie_rx_bytes_s: float | None = None
    """Into the GPU."""
    pcie_tx_bytes_s: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None


@dataclass(frozen=True, slots=True)
class HostSample:
    """The job's process tree over the interval that ends at ``time_s``; the network is that of the whole machine."""

    time_s: float
    cpu_cores_used: float
    """1.0 is one core busy throughout the interval."""
    cpu_count: int
    """Cores that the job may use."""
    memory_bytes: int
    """Resident, summed over the processes; shared pages count once per process."""
    disk_read_bytes_s: float | None = None
    disk_write_bytes_s: float | None = None
    net_rx_bytes_s: float | None = None
    net_tx_bytes_s: float | None = None
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of the job's output that says what it is doing."""

    time_s: float
    kind: str
    """epoch, step, install, download, checkpoint, eval or log."""
    text: str
    value: float | None = None
    """Number of the epoch or step, where the line has one."""


@dataclass
class Recording:
    """One run. ``ended`` and ``exit_code`` stay None where the run, or the probe, did not come to its end."""

    command: list[str]
    cwd: str
    started: float
    interval_s: float
    source: str
    """Where the GPU figures come from, such as nvml-gpm; none where there are none."""
    blind_spots: list[str] = field(default_factory=list)
    """What that source cannot see, in sentences for the report."""
    gpus: list[GpuInfo] = field(default_factory=list)
    gpu_samples: list[GpuSample] = field(default_factory=list)
    host_samples: list[HostSample] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What went wrong on the way, such as a GPU that was lost."""
    ended: float | None = None
    exit_code: int | None = None
    version: int = VERSION

    def write(self, path: Path) -> None:
        """Write the whole recording, which takes the place of an older file in one step. Raises RecordingError."""
        from gpulint_probe.replacing import replacing

        with replacing(path) as file, RecordingWriter(file, self, path) as writer:
            entries: list[Entry] = [*self.gpu_samples, *self.host_samples, *self.marks]
            for entry in sorted(entries, key=lambda entry: entry.time_s):
                writer.add(entry)
            for note in self.notes:
                writer.note(note)
            if self.ended is not None:
                writer.end(self.ended, self.exit_code)

    def readable(self) -> Recording:
        """The recording with escapes for what a terminal would obey in its names, notes and lines of the log; the
        command and its folder stay as they are, since they name files."""
        return replace(
            self,
            source=printable(self.source),
            blind_spots=[*map(printable, self.blind_spots)],
            gpus=[replace(gpu, name=printable(gpu.name), mig=gpu.mig and printable(gpu.mig)) for gpu in self.gpus],
            marks=[
                mark if mark.text.isprintable() else replace(mark, text=printable(mark.text)) for mark in self.marks
            ],
            notes=[*map(printable, self.notes)],
        )

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read a recording, also one that was cut off (a note says so). Raises RecordingError."""
        from gpulint_probe.parsing import read

        return read(path)


Entry = GpuSample | HostSample | Mark
_KINDS: dict[type[Any], str] = {GpuSample: "gpu", HostSample: "host", Mark: "mark"}


class RecordingWriter:
    """Streams a recording to its file: each line is flushed, so that what is on disk can be read at any time."""

    def __init__(self, path: Path, header: Recording, shown: Path | None = None) -> None:
        """``shown`` is named in messages. Raises RecordingError."""
        self._path = shown or path
        try:
            self._file: IO[str] = os.fdopen(open_for_writing(path), "w", encoding="utf-8")
        except OSError as error:
            raise RecordingError(f"{self._path}: {error.strerror}") from error
        kept = ("version", "command", "cwd", "started", "interval_s", "source", "blind_spots")
        self._line(
            {"format": FORMAT}
            | {name: getattr(header, name) for name in kept}
            | {"gpus": [_plain(gpu) for gpu in header.gpus]}
        )

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was written is complete at any time."""
        with contextlib.suppress(OSError):  # a line that did not fit was reported when it was written
            self._file.close()

    def add(self, entry: Entry) -> None:
        """Write one sample or mark. Raises RecordingError, for instance where the disk is full."""
        self._line({"line": _KINDS[type(entry)]} | _plain(entry))

    def note(self, text: str) -> None:
        """Write what went wrong. Raises RecordingError."""
        self._line({"line": "note", "text": text})

    def end(self, ended: float, exit_code: int | None) -> None:
        """Write the last line. Raises RecordingError."""
        self._line({"line": "end", "ended": ended, "exit_code": exit_code})

    def _line(self, data: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(data, allow_nan=False, separators=(",", ":")) + "\n")
            self._file.flush()
        except OSError as error:
            raise RecordingError(f"{self._path}: {error.strerror}") from error


def open_for_writing(path: Path) -> int:
    """A descriptor of an empty file; a pipe that nobody reads is an error, where ``open`` would wait for a reader."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "a pipe that nobody reads", str(path)) from None
        raise
    os.set_blocking(descriptor, True)
    return descriptor


def _plain(entry: Entry | GpuInfo) -> dict[str, Any]:
    """What is not seen takes no room."""
    return {name: value for name, value in asdict(entry).items() if value is not None}
