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
_OF_OTHERS = regex.compile(
    r"(?!-{0,2}(use|no|with)[_-])-{0,2}[\w.-]{0,30}[a-z][_.-]?(gpus?|devices?|cuda)([_-](ids?|index))?", re.IGNORECASE
)
"""Names of options for devices of something else, such as a teacher or an engine: ``--judge_gpu``."""
_PER_PROCESS = regex.compile(
    r"-{0,2}(n|num)?[_-]?(gpus?|devices?)[_-]per[_-](worker|process|task|rank|model)", re.IGNORECASE
)
"""Names of options for the number of devices that each process drives."""
_DEVICES = regex.compile(r"[\[\"']{0,2}(cuda:)?(\d{1,3}(, ?\d{1,3})*)[\]\"']{0,2}")


@dataclass(frozen=True, slots=True)
class Surplus:
    """Where GPUs are requested, how many, and the processes of a program that use one each and no more."""

    request: Place
    gpus: int
    processes: int
    passed_on: str = ""
    """What of the command names a number of GPUs or another one than the first, if anything."""
    limit: str = ""
    """The option of the command that names no more GPUs, if that is the reason."""


def limited(start: JobLaunch, gpus: DeclaredCount, used: int) -> Surplus | None:
    """Return the GPUs that a job could do without as a command's own option names no more; None if none does, or the
    job does not request them itself."""
    own = limit(start, used)
    if own is None or not gpus.value or gpus.text == PER_NODE or "VISIBLE" in gpus.text:
        return None
    return Surplus(gpus.place, gpus.value, used, own.text if own.others else "", own.text)


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


@dataclass(frozen=True, slots=True)
class Limit:
    """An option that names so many devices to a program, whatever else it may see."""

    text: str
    others: bool
    """Whether it names one that is not among the first ones."""


def limit(start: JobLaunch, devices: int) -> Limit | None:
    """Return the option of a command that names so many devices (``--num_gpus 4``, ``device=0``), if there is one."""
    for option, value in options(start):
        named = _DEVICES.fullmatch(value)
        if named is None:
            continue
        listed = [int(number) for number in named[2].split(",")]
        is_count = len(listed) == 1 and named[1] is None and listed[0] == devices
        counts, lists = _COUNT.fullmatch(option) is not None, _LIST.fullmatch(option) is not None
        if (counts and is_count) or (lists and (len(listed) == devices or is_count)):
            others = max(listed) >= devices and not (is_count and (counts or devices > 1))
            return Limit(f"{option} {value}" if option.startswith("-") else f"{option}={value}", others)
    return None


def names_more(start: JobLaunch, devices: int, used: int) -> bool:
    """Return whether an option of a command gives something else than its processes devices (``--teacher_devices
    2,3``), each process several, or names all devices."""
    for option, value in options(start):
        named = _DEVICES.fullmatch(value)
        if named is None:
            continue
        listed = [int(number) for number in named[2].split(",")]
        if _PER_PROCESS.fullmatch(option):
            more = len(listed) == 1 and used < listed[0] * used <= devices
        elif _COUNT.fullmatch(option):
            more = listed == [devices] and "world" not in option.lower()  # that counts the processes of all nodes
        elif _LIST.fullmatch(option):
            more = used < len(listed) <= devices
        else:
            beyond = used <= max(listed) < devices and (named[1] is not None or len(listed) > 1 or listed[0] > 1)
            more = _OF_OTHERS.fullmatch(option) is not None and beyond
        if more:
            return True
    return False
