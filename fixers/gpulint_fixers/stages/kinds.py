"""What the commands of a batch script are to a stage before it: steps that can move, what these need, and the rest."""

from __future__ import annotations

import enum
import re

from gpulint.documents.shell import Command
from gpulint.launch.transfer_commands import copy_tool, download_tool, install_tool, words_of
from gpulint.libraries import Models
from gpulint.source import Span

_CONTEXT = frozenset(
    "export set cd pushd popd module ml source . ulimit shopt unset alias umask declare typeset readonly "
    "deactivate".split()
)
"""Change the shell for what follows."""
_SHOWS = frozenset(
    "echo printf date hostname whoami pwd ls nvidia-smi nvcc free df lscpu env printenv which type cat squeue scontrol "
    "sinfo sleep true : nproc uname id du tree wc head tail trap lsb_release gcc test [ [[ wait basename dirname "
    "realpath readlink seq".split()
)
"""Leave nothing behind that a step could need."""
_HELPS = frozenset(
    "mkdir tar unzip gunzip gzip pigz unpigz zcat unrar 7z mv cp rm ln chmod touch rsync virtualenv exit unxz xz "
    "bunzip2 false".split()
)
"""File commands that go along with the steps that they stand between."""
_CONDA = frozenset({"conda", "mamba", "micromamba"})
_SYSTEM = frozenset({"apt", "apt-get", "yum", "dnf", "apk", "dpkg", "snap"})
CONTAINERS = frozenset("docker podman singularity apptainer enroot shifter nerdctl charliecloud ch-run".split())
CONTAINER_OPTIONS = re.compile(r"--container-|\bsrun(?:\s+(?:\\\n\s*)?-\S+)*\s+(?:\\\n\s*)?--environment\b")
"""Options that have Pyxis, or another container engine of Slurm, run a command in a container."""
_PYTHON = re.compile(r"python[\d.]*|pypy3?")
_NAMED = re.compile(r"\$\{?(SLURM_\w+|JOB_COMPLETION_INDEX|AZUREML_\w+|AZ_BATCH\w+)")
_SAME = frozenset(
    {"SLURM_SUBMIT_DIR", "SLURM_JOB_ACCOUNT", "SLURM_JOB_USER", "SLURM_CLUSTER_NAME", "SLURM_CPUS_PER_TASK"}
)
"""Variables of Slurm that are the same in both jobs."""


class Role(enum.Enum):
    """What a command is to a stage before the job."""

    STEP = "step"
    HELPER = "helper"
    CONTEXT = "context"
    SHOWS = "shows"
    OTHER = "other"


def role(command: Command, models: Models, steps: frozenset[Span]) -> Role:
    """The role of a command; ``steps`` are the places of what a rule says is one."""
    if command.span in steps or any(tool(models, command) for tool in (download_tool, install_tool, copy_tool)):
        return Role.STEP
    words = words_of(command)
    if not words:
        return Role.SHOWS if command.heredoc is None and not command.redirects else Role.OTHER
    name, first = words[0], words[1] if len(words) > 1 else ""
    if name in _CONTEXT or (name in _CONDA and first in ("activate", "deactivate")):
        return Role.CONTEXT
    if name in _CONDA and first.startswith(("shell", "info")):  # `$(conda shell.bash hook)` only prints
        return Role.SHOWS
    if name.startswith(("eval", "$(", "`")) and re.search(r"\bhook\b|register-python|lmod|modulecmd", " ".join(words)):
        return Role.CONTEXT
    if (name in _SHOWS and command.heredoc is None) or _fetches_lists(words):
        return Role.SHOWS
    if name == "git":
        return Role.HELPER if first in ("clone", "lfs", "submodule") else Role.SHOWS if first in _ASKS else Role.OTHER
    if name in _HELPS or re.fullmatch(r"pip[\d.]*", name) or words[:2] == ("uv", "venv"):
        return Role.HELPER
    if _PYTHON.fullmatch(name):
        return _of_python(words)
    return Role.OTHER


_ASKS = frozenset({"rev-parse", "log", "status", "describe", "diff", "branch", "remote"})


def _of_python(words: tuple[str, ...]) -> Role:
    if words[1:3] in (("-m", "venv"), ("-m", "virtualenv"), ("-m", "pip")):
        return Role.HELPER
    if words[1:2] in (("-V",), ("--version",)):
        return Role.SHOWS
    if words[1:2] == ("-c",) and re.fullmatch(r"\s*import [\w., ]+[;\n]\s*print\([^;\n]*\)\s*", "".join(words[2:])):
        return Role.SHOWS
    return Role.OTHER


def handles_files(name: str) -> bool:
    """Return whether a command does something with files, and does not only end the script."""
    return name in _HELPS and name not in ("exit", "false")


def changes_system(command: Command) -> bool:
    """Return whether a command installs packages of the operating system."""
    words = words_of(command)
    return words[:1] != () and words[0] in _SYSTEM and not _fetches_lists(words)


def _fetches_lists(words: tuple[str, ...]) -> bool:
    """``apt-get update``, which only installs of the operating system's packages need."""
    return words[0] in ("apt", "apt-get") and [word for word in words[1:] if not word.startswith("-")] == ["update"]


def stays(command: Command, text: str) -> str | None:
    """Return why a step must stay in the job although it needs no GPU; None if it can move. ``text`` is as written."""
    words = words_of(command)
    name = words[0] if words else ""
    if command.in_background:
        return "it runs in the background"
    if command.script.outer is not None:
        return "it runs inside another command"
    if name in _SYSTEM:
        return f"`{name}` changes the node itself, and the job may get another one; put it into an image"
    if "setup.py" in words[:2] or any(word.endswith("/setup.py") for word in words[:2]):
        return "it may compile for the GPU that it finds"
    runner = re.match(r"\s*(?:sudo\s+)?(\S+)", text)
    start = runner[1].rpartition("/")[2] if runner else ""
    if start in CONTAINERS or CONTAINER_OPTIONS.search(text) or _is_given_container(command, text):
        return "it runs in a container, whose files are gone afterwards; put it into the image"
    if start in ("srun", "mpirun", "mpiexec") and re.search(
        r"\s(-n|-N|-G|--ntasks\S*|--nodes\S*|--gpus\S*|--gres\S*)\b", text
    ):
        return f"it runs under `{start}` with tasks or GPUs of its own"
    return None


def _is_given_container(command: Command, text: str) -> bool:
    """Return whether a variable in a command holds the options for a container (``srun $CONTAINER pip install``)."""
    named = frozenset(re.findall(r"\$\{?(\w+)", text))
    given = (one for one in command.script.assignments if one.name in named) if named else ()
    return any("--container-" in one.fragment.text[one.start : one.end] for one in given)


def differs(text: str) -> str | None:
    """The variable of a system in a text that is another one in another job."""
    return next((found for found in _NAMED.findall(text) if found not in _SAME), None)


_FAILS_AGAIN = re.compile(
    r"\bmkdir\s+(?!-\w*p)|\bunzip\s+(?!.*-\w*[no])|\bln\s+(?!-\w*f)|\bgit\s+clone\b|\brm\s+(?!-\w*f)|\bconda\s+(env\s+)?create\b"
)


def repeats(text: str) -> bool:
    """Return whether a step reports failure when it is done a second time (``mkdir data``, ``git clone``)."""
    return _FAILS_AGAIN.search(text) is not None
