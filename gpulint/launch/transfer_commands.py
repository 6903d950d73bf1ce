"""Shell commands that bring something onto the machine: installs, downloads and copies from storage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gpulint import regex
from gpulint.launch.program_launches import innermost
from gpulint.libraries import Models
from gpulint.libraries.commands import Tool
from gpulint.libraries.names import matches
from gpulint.query import asked_once

if TYPE_CHECKING:
    from gpulint.documents.shell import Command

INSTALL_SCRIPT = "an install script"
"""What a command runs that fetches a script of unknown content."""
_PYTHON = regex.compile(r"(python|pypy)[\d.]*")
_TRIALS = frozenset(
    "--help --version --synthetic --dry-run --dry_run --smoke --smoke-test --self-test --selftest".split()
)
"""Options of programs that are started to see whether they run."""
_PIP = regex.compile(r"pip[\d.]*")
_SMALL = regex.compile(
    r"\.(sh|txt|json|ya?ml|py|cfg|toml|md|asc|gpg|key|pem|cer|crt|list|deb|patch|html?)(\?|$)|/(releases|api|"
    r"health|status|metrics)\b|/(tarball|zipball)/",
    re.IGNORECASE,
)
_RELEASED = regex.compile(
    r"/releases/download/(.*\.(pt|pth|ckpt|h5|hdf5|safetensors|npz|npy|pkl|mat|weights|onnx)$|"
    r".*(data|weights|models?|checkpoint|images)[^/]*\.(zip|tar|tgz|tar\.(gz|bz2|xz)|7z)$)",
    re.IGNORECASE,
)
"""Weights and data among what GitHub's releases hold; the rest are tools."""
OWN_HOST = regex.compile(r"localhost|127\.0\.0\.1|169\.254\.|metadata\.google|\$\{?HOST|0\.0\.0\.0")
"""Servers on this machine and those that tell a virtual machine of itself."""
_BUCKET = regex.compile(r"^(s3|gs|gcs|wasbs?|abfss?|az|oss|hdfs)://|\.blob\.core\.windows\.net")
_NAMED_BUCKET = regex.compile(r"^\$\{?\w*(?<![A-Za-z])(?:s3|gcs|gs|bucket)(?![A-Za-z])\w*", re.IGNORECASE)
"""A variable for one: ``${gcs_path}``."""
_HOST_PATH = regex.compile(r"^[\w.@-]+:(/|~|\w)")
_BULK = regex.compile(
    r"\.(zip|tar|tgz|tbz2?|gz|bz2|xz|7z|rar|pt|pth|ckpt|h5|hdf5|bin|safetensors|npz|npy|parquet|tfrecords?|pkl|mat|"
    r"caffemodel|weights|arrow|lmdb|nemo)(\?|$)",
    re.IGNORECASE,
)
_CODE = regex.compile(r"github\.com/[^/]+/[^/]+/archive/|\.(whl|deb|sh)(\?|$)")
_SHELLS = frozenset({"sh", "bash", "zsh"})
_PREPARES = frozenset(
    "module ml source . export unset set cd pushd popd mkdir rm ls pwd date echo printf which hash ulimit nvidia-smi"
    " exit activate deactivate virtualenv venv conda mamba micromamba pip uv git cmake make ninja tar unzip wget"
    " curl".split()
)

_BUILDS = frozenset({"make", "cmake", "ninja"})
"""Programs that run whatever their files say."""
_UNPACKS = frozenset(
    "7z 7za 7zr unrar gunzip bunzip2 unxz xz zstd unzstd pigz dpkg add-apt-repository apt-key gpg gdown kaggle"
    " ssh-keyscan ssh-keygen locale-gen ldconfig chown install mount".split()
)
"""Programs that unpack archives or set up the machine."""


@asked_once
def words_of(command: Command) -> tuple[str, ...]:
    """The command's words, wrappers and a runner such as ``uv run`` or ``srun`` taken off; the first as a base name."""
    argv = [word.text for word in innermost(command)]
    if not argv:
        return ()
    return (argv[0].rstrip("/").rpartition("/")[2], *argv[1:])


class Tools:
    """What the rows say of programs that install or fetch, and what was asked of commands."""

    def __init__(self, models: Models) -> None:
        self.installers: tuple[Tool, ...] = models.rows("installer")
        self.image_makers = tuple(row for row in self.installers if row.image)
        self.downloaders: tuple[Tool, ...] = models.rows("downloader")
        self.copiers: tuple[Tool, ...] = models.rows("copier")
        self.installed: WeakKeyDictionary[Command, str] = WeakKeyDictionary()
        self.copied: WeakKeyDictionary[Command, str] = WeakKeyDictionary()
        self.downloaded: WeakKeyDictionary[Command, str] = WeakKeyDictionary()


def install_tool(models: Models, command: Command) -> str:
    """Name of the installer that a command runs to install or build packages, else ""."""
    tools = models.derived(Tools)
    if command not in tools.installed:
        tools.installed[command] = _install_tool(tools, command)
    return tools.installed[command]


def _install_tool(tools: Tools, command: Command) -> str:
    name, rest = program_of(command)
    if "--help" in rest or "--dry-run" in rest:
        return ""
    if _PYTHON.fullmatch(name) and "setup.py" in [part.rpartition("/")[2] for part in rest[:1]]:
        builds = {"install", "develop", "bdist_wheel", "build_ext", "build"}
        return "setup.py" if builds & set(rest) else ""
    if name in _SHELLS and rest and not rest[0].startswith("-"):
        name, rest = rest[0].rpartition("/")[2], rest[1:]
    if found := _tool(tools.installers, name, rest):
        return found
    piped = command.piped_to
    if name in ("curl", "wget") and piped is not None and words_of(piped)[:1] and words_of(piped)[0] in _SHELLS:
        return INSTALL_SCRIPT
    return ""


def makes_image(models: Models, command: Command) -> bool:
    """Return whether a command fetches or builds an image file (``apptainer pull``, ``enroot import``)."""
    return bool(_tool(models.derived(Tools).image_makers, *program_of(command)))


def program_of(command: Command) -> tuple[str, list[str]]:
    """Name and arguments of what a command runs, also as ``python -m NAME``."""
    words = words_of(command)
    if not words:
        return "", []
    name, rest = words[0], list(words[1:])
    # Also of interpreters by another name: ``/isaac-sim/python.sh -m pip``.
    if rest[:1] == ["-m"] and rest[1:2] and (_PYTHON.fullmatch(name) or _PIP.fullmatch(rest[1])):
        return rest[1], rest[2:]
    return name, rest


def _tool(rows: tuple[Tool, ...], name: str, rest: list[str]) -> str:
    """Name of the first tool among the rows that a program with these arguments is; "" for none."""
    told = [part for part in rest if not part.startswith("-")]
    for row in rows:
        if not matches(row.programs, (name,)) or (row.anywhere and not any(row.anywhere in part for part in rest)):
            continue
        if not row.verbs or any(told[: len(verb.split())] == verb.split() for verb in row.verbs):
            return row.shown or name
    return ""


def only_prepares(models: Models, command: Command) -> bool:
    """Return whether a command sets up an environment, or shows what there is, and computes nothing."""
    words = words_of(command)
    if not words or _PIP.fullmatch(words[0]) or install_tool(models, command):
        return True
    if words[0] in _PREPARES:
        return "run" not in words[1:2]
    if words[0] == "command":
        return words[1:2] in (("-v",), ("-V",))
    if not _PYTHON.fullmatch(words[0]):
        return False
    return words[1:2] in (("-c",), ("-V",), ("--version",)) or words[1:3] in (("-m", "venv"), ("-m", "pip"))


def only_tries(command: Command) -> bool:
    """Return whether a command tells its program to try out what was installed (``python demo.py --synthetic``)."""
    words = words_of(command)
    return not _TRIALS.isdisjoint(words) and not any("bench" in word for word in words)


def only_brings(models: Models, command: Command) -> bool:
    """Return whether a command sets up a machine, or brings data, weights or code onto it, and computes nothing."""
    words = words_of(command)
    if words and words[0] in _BUILDS:
        return "install" in words[1:]
    return (
        only_prepares(models, command)
        or words[0] in _UNPACKS
        or bool(download_tool(models, command) or copy_tool(models, command))
    )


def download_tool(models: Models, command: Command) -> str:
    """Name of the downloader that a command fetches data or weights with, else ""."""
    tools = models.derived(Tools)
    if command not in tools.downloaded:
        tools.downloaded[command] = _download_tool(tools, command)
    return tools.downloaded[command]


def _download_tool(tools: Tools, command: Command) -> str:
    name, rest = program_of(command)
    if not name or command.in_substitution:
        return ""
    text = " ".join(rest)
    if found := _tool(tools.downloaders, name, rest):
        return found
    if (_PYTHON.fullmatch(name) or name in _SHELLS) and rest and (script := rest[0].rpartition("/")[2]):
        return _tool(tools.downloaders, script, rest[1:])
    if name == "git" and rest[:1] == ["clone"] and "huggingface.co" in text:
        return "git lfs"
    if name not in ("wget", "curl", "aria2c", "axel") or OWN_HOST.search(text) or "--spider" in rest:
        return ""
    urls = [part for part in rest if "://" in part or part.startswith("$")]
    if not urls or all(_SMALL.search(url) and not _RELEASED.search(url.strip("'\"")) for url in urls):
        return ""
    piped = words_of(command.piped_to) if command.piped_to is not None else ()
    if piped:
        return name if piped[0] in ("tar", "unzip", "gunzip", "zcat", "tee", "pigz") else ""
    if "/dev/null" in rest or "-o/dev/null" in rest:
        return ""  # asks whether a server answers
    if name == "curl":
        if any(part in ("-X", "--request", "-d", "--data", "-I", "--head", "-F", "--form") for part in rest):
            return ""
        saves = any(re.match(r"-[A-Za-z]*[oO]|--output|--remote-name|-J", part) for part in rest) or bool(
            command.redirects
        )
        return name if saves else ""
    to_stdout = (
        "-O-" in rest or "-qO-" in rest or ("-O" in rest and rest[rest.index("-O") + 1 : rest.index("-O") + 2] == ["-"])
    )
    return "" if to_stdout and not command.redirects else name


def is_bulk(command: Command) -> bool:
    """Return whether a download fetches archives, weights or whole repositories of data, as far as names show."""
    words = words_of(command)
    if words[0] not in ("wget", "curl", "aria2c", "axel"):
        return True
    urls = [word for word in words[1:] if "://" in word]
    return any(_BULK.search(url.strip("'\"")) and not _CODE.search(url) for url in urls)


def copy_tool(models: Models, command: Command) -> str:
    """Name of the tool that copies from an object store or another host onto this machine, else ""."""
    tools = models.derived(Tools)
    if command not in tools.copied:
        tools.copied[command] = _tool(tools.copiers, *program_of(command)) or _copies(command)
    return tools.copied[command]


def _copies(command: Command) -> str:
    words = words_of(command)
    if not words:
        return ""
    name, rest = words[0], list(words[1:])
    plain = [part for part in rest if not part.startswith("-")]
    if name == "aws" and plain[:1] == ["s3"] and plain[1:2] and plain[1] in ("cp", "sync", "mv"):
        return "aws s3" if _comes_in(plain[2:]) else ""
    if name in ("gsutil", "s5cmd", "rclone") and any(verb in plain for verb in ("cp", "rsync", "copy", "sync")):
        verb = next(index for index, part in enumerate(plain) if part in ("cp", "rsync", "copy", "sync"))
        ends = plain[verb + 1 :]
        return (
            name
            if _comes_in(ends) or (name == "rclone" and ends[:1] and ":" in ends[0] and ":" not in ends[-1])
            else ""
        )
    if name == "gcloud" and plain[:1] == ["storage"] and plain[1:2] and plain[1] in ("cp", "rsync"):
        return "gcloud storage" if _comes_in(plain[2:]) else ""
    if name == "azcopy" and plain[:1] and plain[0] in ("copy", "cp", "sync"):
        return "azcopy" if _comes_in(plain[1:]) or (len(plain) > 2 and plain[1].startswith("http")) else ""
    if name in ("rsync", "scp"):
        ends = [part for part in plain if not part.startswith("$(")]
        return name if len(ends) > 1 and _HOST_PATH.match(ends[-2]) and not _HOST_PATH.match(ends[-1]) else ""
    if name in ("hdfs", "hadoop") and "-get" in rest:
        return name
    return ""


def _comes_in(ends: list[str]) -> bool:
    """Return whether the source is in a bucket and the target is not."""
    return len(ends) > 1 and _is_bucket(ends[0]) and not _is_bucket(ends[-1])


def _is_bucket(path: str) -> bool:
    return bool(_BUCKET.search(path) or _NAMED_BUCKET.match(path))
