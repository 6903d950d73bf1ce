"""Commands that keep a job alive without computing: sleeps, endless waits, servers for people."""

from __future__ import annotations

from collections.abc import Mapping

from gpulint import regex
from gpulint.documents.shell import ArgWord, Command
from gpulint.documents.shell.wrappers import unwrap
from gpulint.launch.program_launches import innermost
from gpulint.query import asked_once

FOREVER = 86_400
"""Seconds from which a sleep is meant to last until somebody ends the job."""
SESSION = 600
"""Seconds from which a sleep that is all of a job's work keeps it open for somebody."""
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_NUMBER = regex.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_LOOPS = regex.compile(r"-l(?:ms)?(?:\d|$)|--loop(?:-ms)?(?:=|$)")
_ENDLESS = regex.compile(r"while\s+(?:true|:|\[\s*1\s*\]|\(\(\s*1\s*\)\)|sleep\b)")


def argv(command: Command) -> tuple[ArgWord, ...]:
    """The command's words without ``sudo``, ``env`` and their like."""
    return unwrap(command.argv).argv


@asked_once
def sleeps(command: Command) -> float | None:
    """Seconds that a ``sleep`` lasts, infinity where it has no end; None for anything else or an unknown length."""
    if command.name != "sleep":
        return None
    total = 0.0
    for word in argv(command)[1:]:
        if word.text.lower() in ("inf", "infinity"):
            return float("inf")
        match = _NUMBER.fullmatch(word.value or "")
        if match is None:
            return None
        total += float(match[1]) * _UNITS[match[2]]
    return total


def endless(command: Command) -> str | None:
    """Return how a command waits without end: ``sleep infinity``, ``tail -f /dev/null``, ``while true``; else None."""
    words = [word.text for word in argv(command)]
    seconds = sleeps(command)
    if seconds is not None and seconds >= FOREVER:
        return " ".join(words)
    if (
        words[:1] == ["tail"]
        and words[-1] == "/dev/null"
        and any(word.lower().startswith("-f") for word in words[1:-1])
    ):
        return " ".join(words)
    if _watches(command, words) and not command.in_background and command.piped_to is None:
        return " ".join(words)
    if in_endless_loop(command) and command.name in ("sleep", ":", "true"):
        return "while true; do sleep"
    return None


def _watches(command: Command, words: list[str]) -> bool:
    """Return whether a command shows what the GPUs do until somebody stops it (``nvidia-smi dmon``, ``watch
    nvidia-smi``)."""
    if any(word in ("-c", "--count") or word.startswith("--count=") for word in words):
        return False
    if command.name == "nvidia-smi":
        return words[1:2] in (["dmon"], ["pmon"]) or any(_LOOPS.match(word) for word in words[1:])
    return command.name in ("nvtop", "htop") or (command.name == "watch" and "nvidia-smi" in " ".join(words))


def stays_open(command: Command) -> bool:
    """Return whether a command waits without end, or so long that somebody is meant to work in the job meanwhile."""
    return endless(command) is not None or (sleeps(command) or 0) >= SESSION


def in_endless_loop(command: Command) -> bool:
    """Return whether the innermost loop around the command never ends, nor leaves itself."""
    loop = next((block for block in reversed(command.blocks) if block.kind == "loop"), None)
    if loop is None or _ENDLESS.match(loop.text) is None:
        return False
    inside = (other for other in command.script.commands if other.name in ("break", "exit"))
    return not any(block.key == loop.key for other in inside for block in other.blocks)


@asked_once
def session(command: Command) -> str | None:
    """Return what a command opens for a person to work in: Jupyter, an editor, a shell on a node; None for anything
    else."""
    texts = [word.text for word in argv(command)]
    if (asked := ALLOCATES.get(command.name)) is not None and any(_GPU_OPTION.match(text) for text in texts):
        opens = not any(map(_PROGRAM.fullmatch, texts[1:])) or _opens_shell(texts)
        return command.name if opens and (not asked or asked & set(texts)) else None
    if command.name == "srun" and "--pty" in texts and _opens_shell(texts):
        return "srun --pty"
    texts = [word.text for word in innermost(command)]
    name = texts[0].rpartition("/")[2] if texts else ""
    if name in ("jupyter", "jupyter-lab", "jupyter-notebook", "jupyterhub-singleuser", "start-notebook.sh"):
        runs = {"lab", "notebook", "server", "labhub"} & set(texts[1:2]) or name != "jupyter"
        return "Jupyter" if runs and "list" not in texts and "--version" not in texts else None
    if name in ("python", "python3") and texts[1:2] == ["-m"] and texts[2:3] and texts[2] in _JUPYTER_MODULES:
        return "Jupyter"
    if name in ("code-server", "openvscode-server", "rserver", "rstudio-server", "ttyd", "gotty"):
        return name
    if name == "marimo" and texts[1:2] == ["edit"]:
        return "marimo"
    if name == "code" and "tunnel" in texts:
        return "a VS Code tunnel"
    if "-D" in texts and (name == "sshd" or (name == "service" and {"ssh", "sshd"} & set(texts))):
        return "sshd"
    return None


def _opens_shell(texts: list[str]) -> bool:
    """Return whether an interactive launcher ends in a shell: ``bash``, ``/bin/bash -l``."""
    last = next((text for text in reversed(texts) if text not in _LOGIN), "")
    return last.rpartition("/")[2] in _SHELLS or texts[-1] in _LOGIN


_NO_OPTION = frozenset[str]()
ALLOCATES: Mapping[str, frozenset[str]] = {
    "salloc": _NO_OPTION,
    "sinteractive": _NO_OPTION,
    "sintr": _NO_OPTION,
    "interact": _NO_OPTION,
    "qlogin": _NO_OPTION,
    "qsub": frozenset({"-I"}),
    "oarsub": frozenset({"-I"}),
    "bsub": frozenset({"-Is", "-Ip", "-I", "-ISs"}),
}
"""Commands that open a shell on a node, with the options that ask for one; those of some sites beside Slurm's own."""
_JUPYTER_MODULES = frozenset({"jupyter", "notebook", "jupyterlab", "jupyter_core"})
_GPU_OPTION = regex.compile(r"--gres=gpu|--gpus|-G\d?|gpu:|-gpu$|(?:.*[:,])?n?gpus?=[1-9$]")
_PROGRAM = regex.compile(
    r"(?!-).+\.(?:py|sh)|(?:.*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|make|nsys|ncu)"
)
"""What an allocation runs instead of a shell."""
_SHELLS = frozenset({"bash", "sh", "zsh", "tcsh", "fish", "$SHELL"})
_LOGIN = frozenset({"-i", "-l", "-il", "-li", "--login"})
