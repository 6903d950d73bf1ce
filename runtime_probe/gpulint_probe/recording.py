"""What a probe run saw, and its file: JSON lines, written during the run, so that a killed probe loses seconds at most.

The first line is the header (what ran, where the figures come from); then one line per sample, mark and note in the
order in which they came; the last line, missing where the probe was killed, has the end and the exit code.
Ratios are 0 to 1, times are Unix seconds, and None is always "not seen", never zero.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any, TypeVar

from gpulint.escaping import printable

VERSION = 1
_FORMAT = "gpulint-recording"


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
        """Write the whole recording. Raises RecordingError."""
        with RecordingWriter(path, self) as writer:
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
        try:
            lines = path.read_text("utf-8", errors="replace").splitlines(keepends=True)
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}") from error
        recording = None
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            try:
                data = json.loads(line, parse_constant=_no_constant)
            except ValueError:
                if recording and number == len(lines) and not line.endswith("\n"):
                    recording.notes.append("the recording was cut off in its last line")
                    break
                raise RecordingError(f"{where}: not a line of a gpulint recording") from None
            if not isinstance(data, dict):
                raise RecordingError(f"{where}: not a line of a gpulint recording")
            if recording is None:
                recording = _header(data, where)
            else:
                _take(recording, data, where)
        if recording is None:
            raise RecordingError(f"{path}: empty, no gpulint recording")
        return recording


Entry = GpuSample | HostSample | Mark
_KINDS: dict[type[Any], str] = {GpuSample: "gpu", HostSample: "host", Mark: "mark"}


class RecordingWriter:
    """Streams a recording to its file: each line is flushed, so that what is on disk can be read at any time."""

    def __init__(self, path: Path, header: Recording) -> None:
        self._path = path
        try:
            self._file: IO[str] = path.open("w", encoding="utf-8")
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}") from error
        kept = ("version", "command", "cwd", "started", "interval_s", "source", "blind_spots")
        self._line(
            {"format": _FORMAT}
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


def _plain(entry: Entry | GpuInfo) -> dict[str, Any]:
    """What is not seen takes no room."""
    return {name: value for name, value in asdict(entry).items() if value is not None}


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _header(data: dict[str, Any], where: str) -> Recording:
    version = data.get("version")
    if data.get("format") != _FORMAT or not isinstance(version, int):
        raise RecordingError(f"{where}: not a gpulint recording")
    if version > VERSION:
        raise RecordingError(f"{where}: written by a newer gpulint (version {version}, this one reads {VERSION})")
    gpus = data.get("gpus")
    if not isinstance(gpus, list) or not all(isinstance(gpu, dict) for gpu in gpus):
        raise RecordingError(f"{where}: gpus must be a list of objects")
    empty: dict[str, Any] = {"gpus": [], "gpu_samples": [], "host_samples": [], "marks": [], "notes": [], "ended": None}
    recording = _build(Recording, data | empty, where)
    recording.gpus = [_build(GpuInfo, gpu, where) for gpu in gpus]
    return recording


def _take(recording: Recording, data: dict[str, Any], where: str) -> None:
    match data.get("line"):
        case "gpu":
            recording.gpu_samples.append(_build(GpuSample, data, where))
        case "host":
            recording.host_samples.append(_build(HostSample, data, where))
        case "mark":
            recording.marks.append(_build(Mark, data, where))
        case "note":
            recording.notes.append(str(data.get("text")))
        case "end":
            end = _build(_End, data, where)
            recording.ended, recording.exit_code = end.ended, end.exit_code
        case _:
            pass  # of a later version that only adds kinds of lines


@dataclass(frozen=True)
class _End:
    ended: float
    exit_code: int | None = None


_T = TypeVar("_T")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int,
    "float": (int, float),
    "str": str,
    "None": type(None),
}


def _build(cls: type[_T], data: dict[str, Any], where: str) -> _T:
    """An instance from a line's keys; unknown keys are left out. Raises RecordingError."""
    values = {}
    for entry in fields(cls):  # type: ignore[arg-type]  # every caller passes a dataclass
        if entry.name not in data:
            if entry.default is MISSING and entry.default_factory is MISSING:
                raise RecordingError(f"{where}: '{entry.name}' is missing")
            continue
        value = data[entry.name]
        if not _fits(value, str(entry.type)):
            raise RecordingError(f"{where}: '{entry.name}' must be {entry.type}, not {value!r}")
        values[entry.name] = value
    return cls(**values)


def _fits(value: object, annotation: str) -> bool:
    if annotation.startswith("list["):
        inner = annotation.removeprefix("list[").removesuffix("]")
        return isinstance(value, list) and (inner not in _TYPES or all(_fits(item, inner) for item in value))
    if isinstance(value, bool):
        return False
    return any(isinstance(value, _TYPES[name]) for name in annotation.split(" | "))
