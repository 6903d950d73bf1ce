"""Jobs on machines whose disks outlive them: what one run installs there, the next one finds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.transfer_commands import words_of
from gpulint.libraries.schedulers import batch_systems

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.documents.shell import Command
    from gpulint.documents.shell.script import Block
    from gpulint.launch.job import Job
    from gpulint.libraries import Models

_IMAGES = regex.compile(r"--container-image|\b(?:singularity|apptainer|enroot|shifter|podman|docker|charliecloud)\b")
_IMAGE_FILES = regex.compile(r"\b(?:singularity|apptainer)[ \t]+(?:-\S+[ \t]+)*(?:exec|run|shell|instance)\b")
"""Commands that start programs in an image file of Apptainer."""
_FRESH = regex.compile(
    r"\$\{?(?:SLURM_TMPDIR|TMPDIR|PBS_JOBFS|LOCAL_SCRATCH)\b|[= '\"]/(?:tmp|dev/shm)/|\brm\s+-rf?\s+\S*env\b"
)
"""Environments that are made again in every run."""
_DATA = regex.compile(
    r"^[ \t]*(?:#|(?:cp|df|du|echo|ln|ls|mkdir|mv|rsync|unzip)[ \t]"
    r"|export (?:\w*(?:CACHE|TMP|TEMP)\w*|(?:LD_)?LIBRARY_PATH|HF_HOME|TORCH_HOME|MPLCONFIGDIR|WANDB_DIR)=)[^\n;&|]*$",
    re.MULTILINE,
)
"""Lines that lay out files, or say where programs keep theirs, and comments: no environment comes of them."""
_IN_HOME = "--user"
"""The option of ``pip`` for the folder of the person, which all machines of a cluster share."""
_IN_FOLDER = ("uv sync", "uv run", "poetry install", "pdm install", "pdm sync", "pixi install")
"""Commands that fill an environment in the project's folder, or in the home folder; Apptainer shows programs both."""
_PIP = regex.compile(r"\bpip[\d.]*[ \t]+install\b")
_OTHER_HOME = regex.compile(
    r"\b(?:singularity|apptainer)[ \t](?:[^\n\\]|\\\n){0,400}?[ \t](?:--writable(?:-tmpfs)?|--no-home|--no-mount"
    r"|--contain(?:all)?|--home|--overlay|--fakeroot|-[wCHof]|(?<!sh )-c)[ \t=]"
)
"""Options of Apptainer by which an image takes what is installed, or programs do not see the home folder."""
_HOMES = regex.compile(r"\b(?:HOME|PYTHONUSERBASE)=")
_CREATES = frozenset({"conda", "mamba", "micromamba"})
_MAKES = regex.compile(
    r"\b(?:conda|mamba)[ \t]+(?:env[ \t]+)?create\b(?=[^\n]{0,300}[ \t](?:-n|-p|--name|--prefix|-f|--file)\b)"
)
_REPLACES = regex.compile(r"(?<!\S)(?:-y|-\w*y|--yes|--force)(?!\S)")
_ANSWERS = regex.compile(
    r"\bCONDA_ALWAYS_YES\b|\balways_yes\b|(?:\byes|\becho[ \t]+[\"']?y(?:es)?[\"']?)[ \t]*\|"
    r"|\b(?:conda|mamba)[ \t]+(?:env[ \t]+)?remove\b"
)
"""What answers the question whether an environment of Conda is to be replaced, or removes one."""
_PRESENCE = regex.compile(
    r"\bimport |command -v|\bwhich |pip show|env list|info --envs?\b|(?<!\S)-[def] "
    r"|\b(?:conda|mamba|micromamba|source) activate\b|bin/activate\b"
)
"""Tests for what is there already, and uses of it that fail where it is not."""
_NOT = regex.compile(r"(?<!\S)(?:!|not)(?!\S)|!(?=\[)")
_OWN_MACHINE = "self-hosted"
"""The label of runners that are no machines of the hosting service."""


def runs_without_image(models: Models, job: Job) -> bool:
    """Return whether a batch job runs in what its cluster has installed, as far as its scripts say."""
    if job.task.system not in batch_systems(models) or job.task.image is not None:
        return False
    return not any(document.matches(_IMAGES) for document in _documents(job))


def runs_in_image_file(models: Models, job: Job) -> bool:
    """Return whether a batch job starts programs in images that are files, which no Dockerfile makes."""
    if job.task.system not in batch_systems(models) or job.task.image is not None:
        return False
    return any(document.matches(_IMAGE_FILES) for document in _documents(job))


def keeps_environment(models: Models, job: Job, install: str = "") -> bool:
    """Return whether packages that a job installs, by the command ``install``, are still there in its next run."""
    if job.task.system == "github":
        return job.task.image is None and job.gpus is not None and _OWN_MACHINE in job.gpus.text
    if runs_in_image_file(models, job) and install.lstrip().startswith(_IN_FOLDER):
        return not any(map(_is_fresh, _documents(job)))
    if runs_in_image_file(models, job) and _PIP.search(install):
        return not any(map(_installs_elsewhere, _documents(job)))
    if not runs_without_image(models, job):
        return False
    if _IN_HOME in install.split() and not any(document.matches(_HOMES) for document in _documents(job)):
        return True
    answered = any(document.matches(_ANSWERS) for document in _documents(job))
    return not any(map(_is_fresh, _documents(job))) and not any(
        _creates(item.command)
        and not is_only_if_missing(item.command)
        and (answered or not leaves_existing(" ".join(words_of(item.command))))
        for item in job.commands
    )


def _installs_elsewhere(document: Document) -> bool:
    """Return whether ``pip`` in an image file may install elsewhere than in the home folder, where it goes since the
    image is read-only."""
    return document.matches(_HOMES) or document.matches(_OTHER_HOME) or _is_fresh(document)


def _is_fresh(document: Document) -> bool:
    """Return whether a script makes or uses an environment in a folder of the run."""
    return document.matches(_FRESH) and bool(_FRESH.search(_DATA.sub("", document.source.text)))


def _creates(command: Command) -> bool:
    """``conda create``, ``conda env create``."""
    words = words_of(command)
    return bool(words) and words[0] in _CREATES and "create" in words[1:3]


def leaves_existing(line: str) -> bool:
    """Return whether a line makes an environment of Conda and leaves one that is there already as it is: without
    ``--yes`` or ``--force``, whether to replace it is answered with no where nobody types.

    https://docs.conda.io/projects/conda/en/stable/commands/create.html
    """
    return _MAKES.search(line) is not None and _REPLACES.search(line) is None


def is_only_if_missing(command: Command) -> bool:
    """``python -c 'import x' || pip install x``: nothing is installed where the image or an earlier run has it."""
    around = command.script.calls(command.in_function) if command.in_function else ()
    return _is_for_missing(command) or (bool(around) and all(map(_is_for_missing, around)))


def _is_for_missing(command: Command) -> bool:
    return any(map(_found_missing, command.conditions)) or any(map(_found_there, _left_before(command)))


def _left_before(command: Command) -> Iterator[Block]:
    """The tests that end the script where they hold, above a command (``if [ -f .ready ]; then exit 0; fi``)."""
    for other in command.script.commands:
        if other is command:
            return
        if other.name == "exit" and other.blocks and other.blocks[:-1] == command.blocks[: len(other.blocks) - 1]:
            yield other.blocks[-1]


def _found_missing(block: Block) -> bool:
    """``if ! command -v uv``, and the other arm of ``if conda env list | grep -q env``."""
    other = block.text.startswith("else of ")
    return (block.kind == "or" or bool(_NOT.search(block.text)) != other) and bool(_PRESENCE.search(block.text))


def _found_there(block: Block) -> bool:
    """``if [ -d env ]``, ``[ -d env ] &&``."""
    arm = block.kind == "and" or (block.kind == "if" and not block.text.startswith("else of "))
    return arm and not _NOT.search(block.text) and bool(_PRESENCE.search(block.text))


def _documents(job: Job) -> tuple[Document, ...]:
    return tuple(dict.fromkeys((job.document, *job.scripts)))
