"""Reading the file of a recording, whoever wrote it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from gpulint import disk
from gpulint_probe.recording import (
    FORMAT,
    VERSION,
    GpuInfo,
    GpuSample,
    HostSample,
    Mark,
    Recording,
    RecordingError,
)

_LARGEST_FILE = 2_000_000_000
"""Bytes; eight GPUs fill that in ten days of samples each second."""
_LONGEST_LINE = 1_000_000
_LARGEST_NUMBER = 2**63 - 1
_SHORTEST_INTERVAL_S, _LONGEST_INTERVAL_S = 0.001, 86_400.0
_LONGEST_RUN_S = 10 * 366 * 86_400.0


def read(path: Path) -> Recording:
    """Read a recording, also one that was cut off (a note says so). Raises RecordingError."""
    recording = None
    for number, line in enumerate(_lines(path), 1):
        where = f"{path}:{number}"
        data = _parsed(line)
        if data is None and recording is not None and not line.endswith(b"\n"):
            recording.notes.append("the recording was cut off in its last line")
            break
        if data is None:
            raise RecordingError(f"{where}: not a line of a gpulint recording")
        if recording is None:
            recording = _header(data, where)
        else:
            _take(recording, data, where)
    if recording is None:
        raise RecordingError(f"{path}: empty, no gpulint recording")
    _check_times(recording, path)
    return recording


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file. Raises RecordingError."""
    try:
        _check(path, os.stat(path))  # noqa: PTH116 - opening some devices has effects, and a pipe may block
        with path.open("rb") as file:
            _check(path, os.fstat(file.fileno()))
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise RecordingError(f"{path}:{number}: not a line of a gpulint recording")
                yield line
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error


def _check(path: Path, found: os.stat_result) -> None:
    disk.check_regular(path, found.st_mode)
    if found.st_size > _LARGEST_FILE:
        raise OSError(errno.EFBIG, f"larger than {_LARGEST_FILE // 1_000_000_000} GB")


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The object in a line of JSON; None if there is none."""
    try:
        data = json.loads(line.decode("utf-8", "replace"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _check_times(recording: Recording, path: Path) -> None:
    """Refuse what no run lasts. Raises RecordingError."""
    if not _SHORTEST_INTERVAL_S <= recording.interval_s <= _LONGEST_INTERVAL_S:
        raise RecordingError(f"{path}: an interval of {recording.interval_s:g} s is not possible")
    times = [entry.time_s for entries in (recording.gpu_samples, recording.host_samples, recording.marks)
             for entry in entries]  # fmt: skip
    times += [recording.started] if recording.ended is None else [recording.started, recording.ended]
    if max(times) - min(times) > _LONGEST_RUN_S:
        raise RecordingError(f"{path}: its times are more than ten years apart")


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _header(data: dict[str, Any], where: str) -> Recording:
    version = data.get("version")
    if data.get("format") != FORMAT or not isinstance(version, int):
        raise RecordingError(f"{where}: not a gpulint recording")
    if version > VERSION:
        raise RecordingError(
            f"{where}: written by a newer gpulint (version {_shown(version)}, this one reads {VERSION})"
        )
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
            raise RecordingError(f"{where}: '{entry.name}' must be {entry.type}, not {_shown(value)}")
        values[entry.name] = value
    return cls(**values)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _fits(value: object, annotation: str) -> bool:
    if annotation.startswith("list["):
        inner = annotation.removeprefix("list[").removesuffix("]")
        return isinstance(value, list) and (inner not in _TYPES or all(_fits(item, inner) for item in value))
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float) and not abs(value) <= _LARGEST_NUMBER:  # nor what is no number
        return False
    return any(isinstance(value, _TYPES[name]) for name in annotation.split(" | "))
