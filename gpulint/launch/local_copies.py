"""Shell commands that lay data out on a node's own disk: archives unpacked, folders copied to the job's scratch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gpulint import regex
from gpulint.launch.transfer_commands import copy_tool, words_of

if TYPE_CHECKING:
    from gpulint.documents.shell import Command
    from gpulint.launch.job import Job
    from gpulint.libraries import Models

LOCAL = regex.compile(
    r"TMPDIR|LOCAL_?SCRATCH|JOBFS|(?:SLURM|PBS|LSB)_?JOB|JOB_?ID|(?:^|/)(?:dev/shm|tmp|lscratch|local|nvme)(?:/|$)",
    re.IGNORECASE,
)
"""Words of paths that only the job's own node sees, or that go with the job."""
_NO_DATA = regex.compile(
    r"(?:^|[^a-z])(?:v?envs?|virtualenv|conda|python|site-packages|code|src|repo|scripts?|project|models?|checkpoints?|"
    r"ckpts?|weights|results?|outputs?|logs?|runs?|wandb|cuda|lib\w*|bin|sif|images?\.sif|apptainer|container)(?:[^a-z]|$)",
    re.IGNORECASE,
)
_LARGE = regex.compile(
    r"imagenet|ilsvrc|(?:^|[^a-z])coco|kitti|open_?images|laion|kinetics|places365|waymo|nuscenes|argoverse|voxceleb|"
    r"librispeech|ffhq|lsun|cityscapes|rsna|chexpert|mimic|audioset|youtube[-_]?8m|webvid|msmarco|visdrone",
    re.IGNORECASE,
)
"""Public data sets of many gigabytes."""
_HERE = regex.compile(r"[.*]|\$\{?(?:PWD|SLURM_SUBMIT_DIR|PBS_O_WORKDIR)\b")
"""The folder that the job was submitted from, which holds code."""
_COPIES = "copies a folder"
_ARCHIVE = regex.compile(r"\.(?:tar|zip|tgz|tar\.\w+)$")
_FILE = regex.compile(r"\.\w{1,5}$")


class _Staged:
    """What was asked of jobs."""

    def __init__(self, models: Models) -> None:
        self.of: WeakKeyDictionary[Job, list[tuple[Command, str]]] = WeakKeyDictionary()


def stages(models: Models, job: Job) -> list[tuple[Command, str]]:
    """Commands of a job that fill its own disk with data, each with what it does, where they are of weight.

    One archive may hold anything; several, a loop of them, or a public data set of known size take minutes.
    """
    known = models.derived(_Staged).of
    if job not in known:
        known[job] = _stages_of(models, job)
    return known[job]


def _stages_of(models: Models, job: Job) -> list[tuple[Command, str]]:
    entered = {name for item in job.commands if item.command.name in ("cd", "pushd") for name in _names(item.command)}
    found = [
        (item.command, text)
        for item in job.commands
        if (text := _stages(item.command)) and not (text == _COPIES and entered & set(_names(item.command)[:1]))
    ]
    before = any(copy_tool(models, item.command) or _brings_archive(item.command) for item in job.commands)
    weight = sum(2 if command.in_loop else 1 for command, _ in found) + before
    large = any(_LARGE.search(" ".join(_all_words(command))) for command, _ in found)
    return found if weight > 1 or large else []


def _stages(command: Command) -> str:
    words = words_of(command)
    if not words or command.in_function or command.in_substitution or command.background:
        return ""
    plain = [word for word in words[1:] if not word.startswith("-")]
    names = " ".join(word.rstrip("/").rpartition("/")[2] for word in _all_words(command))
    if _NO_DATA.search(names) and not _LARGE.search(names):
        return ""
    match words[0]:
        case "tar" if _extracts(words):
            return "unpacks an archive"
        case "unzip" | "unrar" if plain:
            return "unpacks an archive"
        case "rsync" | "cp" if len(plain) == 2 and recurses(words) and LOCAL.search(plain[1]):
            return "" if _FILE.search(plain[0]) or ":" in plain[0] or _HERE.match(plain[0]) else _COPIES
    return ""


def _brings_archive(command: Command) -> bool:
    """``cp data.zip $TMPDIR``: what is unpacked then was read twice."""
    plain = [word for word in words_of(command)[1:] if not word.startswith("-")]
    return (
        command.name in ("cp", "rsync")
        and len(plain) == 2
        and _ARCHIVE.search(plain[0]) is not None
        and LOCAL.search(plain[1]) is not None
        and not _NO_DATA.search(plain[0].rpartition("/")[2])
    )


def _names(command: Command) -> list[str]:
    """Last parts of the paths that a command is given; a folder of code is one that the job goes into afterwards."""
    plain = [word for word in words_of(command)[1:] if not word.startswith("-")]
    return [word.rstrip("/").rpartition("/")[2] for word in plain]


def _extracts(words: tuple[str, ...]) -> bool:
    mode = words[1] if len(words) > 1 else ""
    return "--extract" in words or (not mode.startswith("--") and "x" in mode and not set("ct") & set(mode))


def recurses(words: tuple[str, ...]) -> bool:
    """Return whether a copy (``cp``, ``rsync``) takes folders with all that is in them."""
    short = "".join(word for word in words[1:] if re.fullmatch(r"-[A-Za-z]+", word))
    return bool(set("rRa") & set(short)) or "--recursive" in words or "--archive" in words


def _all_words(command: Command) -> list[str]:
    """The command's words, with those of what feeds it (``pv data.tar | tar xf -``)."""
    before = command.piped_from
    return [word for one in (before, command) if one is not None for word in words_of(one)]
