"""Servers of language models that shell commands start: they end only when somebody stops them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.shell.nested import SHELLS
from gpulint.launch.option_parser import passed_option
from gpulint.launch.program_launches import innermost, launch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpulint.documents.shell import ArgWord, Command, Script

_SERVERS = (("vllm", "serve"), ("trl", "vllm-serve"), ("text-generation-launcher",), ("lmdeploy", "serve"))
_MODULES = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "sglang.launch_server"})
_PYTHON = regex.compile(r"python[\d.]*$")
_MODEL = ("--model", "--model-path", "--model-id")
_IMAGES = regex.compile(
    r"vllm-openai|text-generation-inference|text-embeddings-inference|sglang|lmdeploy|(?:^|/)vllm\b"
)
"""Images whose entry point is such a server."""
_OWN_FORMATS = frozenset({"tensorizer", "runai_streamer", "dummy"})
"""Ways to load weights that come from elsewhere than the hub."""
_ENDS = frozenset({"kill", "pkill", "killall", "scancel", "trap"})
"""Commands by which a script may end its servers."""


def server(command: Command, env: Mapping[str, str] | None = None) -> tuple[str, tuple[ArgWord, ...]] | None:
    """(how it is called, its arguments) of a server that a command starts, with the variables of a job's ``env``."""
    words = innermost(command, env)
    texts = tuple(word.text for word in words[:3])
    name = texts[0].rpartition("/")[2] if texts else ""
    if _PYTHON.fullmatch(name) and texts[1:2] == ("-m",) and texts[2:] and texts[2] in _MODULES:
        return texts[2], words[3:]
    for known in _SERVERS:
        if (name, *texts[1 : len(known)]) == known:
            return " ".join(known), words[len(known) :]
    return None


def served_model(command: Command, env: Mapping[str, str] | None = None) -> ArgWord | None:
    """The model that a server loads, if it is known."""
    found = server(command, env)
    if found is None:
        return None
    name, args = found
    if any(word.text.rpartition("=")[2] in _OWN_FORMATS for word in args):
        return None
    if name == "vllm serve" and args and not args[0].text.startswith("-"):
        return args[0] if args[0].known else None
    return next((word for text, word in passed_option(args, _MODEL) if text is not None), None)


def model_of_image(image: str, args: tuple[ArgWord, ...]) -> ArgWord | None:
    """The model that the server of an image is told to load, where a job gives arguments alone."""
    if not args or not args[0].text.startswith("-") or not _IMAGES.search(image):
        return None
    if any(word.text.rpartition("=")[2] in _OWN_FORMATS for word in args):
        return None
    return next((word for text, word in passed_option(args, _MODEL) if text is not None), None)


def waits_for_server(script: Script) -> tuple[Command, Command] | None:
    """(a ``wait`` for all that a script has started, the server among it that never ends), beside other work."""
    started: Command | None = None
    works = False
    for command in script.walk():
        if command.name in _ENDS or any(word.text == "timeout" for word in command.argv):
            return None
        if command.in_function is not None or command.in_substitution:
            continue
        if server(command) is not None:
            started = started or (command if command.in_background else None)
        elif started is not None and works and _waits_for_all(command):
            return command, started
        else:
            works = works or _works(command)
    return None


def _waits_for_all(command: Command) -> bool:
    return command.name == "wait" and len(command.argv) == 1 and not command.conditional


def _works(command: Command) -> bool:
    """Return whether a command starts a program, or a shell with some text."""
    words = innermost(command)
    if words and words[0].text.rpartition("/")[2] in SHELLS:
        return command.in_background
    started = launch(command)
    return started is not None and started.launcher not in ("source", "sbatch", "shell")
