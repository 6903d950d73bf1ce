"""GPUs that a job requests and its processes cannot use."""

from __future__ import annotations

import re
from itertools import pairwise

from gpulint import regex
from gpulint.finding import Place
from gpulint.launch.gpu_counts import PER_NODE
from gpulint.launch.job import DeclaredCount, JobLaunch
from gpulint.libraries.gpu_libraries import SECOND_DEVICE
from gpulint.programs.multi_gpu_use import Program
from gpulint.records import dataclass

_OF_DEVICES = regex.compile(r"-{0,2}\w{0,20}(gpu|device|cuda)", re.IGNORECASE)
"""Names of options for devices."""
_OTHER = regex.compile(r"[1-9]")
"""A device other than the first, or a number of several."""
_OTHER_DEFAULT = regex.compile(
    r"\w{0,20}(gpu|device|cuda)\w{0,20}[\"'][^\n]{0,80}\bdefault\s*=\s*[\"']?(cuda:)?[1-9]"
    r"|\bVISIBLE_DEVICES[\"']\]?[^\n]{0,9}[=,]\s*[\"'][\d, ]{0,20}[1-9]|\b(cuda|set_device|device)\([\"']?[1-9]",
    re.IGNORECASE,
)
"""An option, a variable or a call that names another device."""
_COUNT = regex.compile(
    r"-{0,2}([\w-]{0,30}[.])?(n|num|nr)[_-]?(of[_-])?(gpus?|devices?)|-{0,2}(gpus?|devices?)[_-](num|count|number)"
    r"|-{0,2}world[_-]?size",
    re.IGNORECASE,
)
"""Names of options for the number of devices."""
_LIST = regex.compile(
    r"-{0,2}([\w-]{0,30}[.])?(gpus?|devices?|(gpus?|cuda|devices?)[_-](ids?|list|index|indices|devices?))",
    re.IGNORECASE,
)
"""Names of options for the devices themselves, some of which take their number."""
_DEVICES = regex.compile(r"[\[\"']{0,2}(cuda:)?(\d{1,3}(, ?\d{1,3})*)[\]\"']{0,2}")


@dataclass(frozen=True, slots=True)
class Surplus:
    """Where GPUs are requested, how many, and the processes of a program that use one each and no more."""

    request: Place
    gpus: int
    processes: int
    passed_on: str = ""
    """What of the command names a number of GPUs or another one than the first, if anything."""


def surplus(start: JobLaunch, gpus: DeclaredCount, used: int, program: Program) -> Surplus | None:
    """Return the GPUs that a job could do without; None if it does not request them itself, or if its program names
    another device than the first ones."""
    if not gpus.value or gpus.text == PER_NODE or "VISIBLE" in gpus.text:
        return None
    if program.mentions(SECOND_DEVICE) or program.mentions(_OTHER_DEFAULT):
        return None
    named = (f"{option} {value}" for option, value in options(start) if of_devices(option) and _OTHER.search(value))
    return Surplus(gpus.place, gpus.value, used, next(named, ""))


def of_devices(option: str) -> bool:
    """Return whether an option is about devices: ``--gpus``, ``trainer.devices``."""
    return _OF_DEVICES.match(option) is not None


def options(start: JobLaunch) -> list[tuple[str, str]]:
    """Return what may be options of a program with their values: ``--gpus 4``, ``gpus=4``."""
    words = [word.text for word in start.launch.args]
    written = [word.partition("=") for word in words if word.count("=") == 1]
    return [*pairwise(words), *((option, value) for option, _, value in written)]


def limit(start: JobLaunch, devices: int) -> str:
    """Return the option that names so many devices to a program, whatever else it may see: ``--num_gpus 4``,
    ``device=0``; "" if there is none."""
    for option, value in options(start):
        named = _DEVICES.fullmatch(value)
        if named is None:
            continue
        listed = named[2].count(",") + 1
        is_one = listed == devices == 1 and (named[1] is not None or named[2] in ("0", "1"))
        is_number = listed == 1 and named[1] is None and named[2] == str(devices)
        if _COUNT.fullmatch(option):
            fits = is_number
        else:
            fits = _LIST.fullmatch(option) is not None and (is_one or is_number or 1 < listed == devices)
        if fits:
            return f"{option} {value}" if option.startswith("-") else f"{option}={value}"
    return ""
