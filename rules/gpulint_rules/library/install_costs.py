"""How long an install at start takes: what the image has already, the code of the tree alone, a single program."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.shell import Command
from gpulint.documents.tasks import Task
from gpulint.impact import Cost
from gpulint.launch.transfer_commands import install_tool, makes_image, words_of
from gpulint.programs.gpu_jobs import GpuJobCommand
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint_rules.library.install_words import items

_UNSEEN = Cost("install", seconds=(2, 100), basis="a set-up script outside of the tree")
"""What it does is unknown; many such scripts find that nothing is missing (assumed)."""
_OWN_CODE = regex.compile(r"\.{0,2}(/|$)")
_PROJECT = regex.compile(r"\.(?:\[|/?$)")
"""The project in the folder of the command."""
_LISTS = regex.compile(r"\.(?:txt|lock|toml)$")
"""Files that list what a project needs."""
_OWN = Cost("install", seconds=(2, 10), basis="code of the tree alone")
"""Without what it needs (assumed)."""
KEPT = Cost("install", seconds=(2, 10), basis="code of the tree, whose packages the image has")
_IMAGE = Cost("install", basis="the download or build of an image")
_PROGRAM = Cost("install", seconds=(1, 10), basis="the download of one program")
_AFTER_LIST = Cost("install", seconds=(2, 30), basis="code of the tree, after what it needs")
_FETCHED = Cost("install", basis="an install script from the network")
_SCRIPTS = regex.compile(
    r"\b(?:astral\.sh/(?:uv|ruff)|pixi\.sh|install\.python-poetry\.org|pdm-project\.org|get\.pnpm\.io|mise\.run|just\.systems"
    r"|micro\.mamba\.pm|rclone\.org)(?:[/\s\"']|$)"
)
"""Install scripts that put one program without packages in place."""


def cost(lines: tuple[str, ...], held: GpuJobCommand | None, project: Project) -> Cost:
    """Return how long the lines of a Dockerfile take that do the work of a command at start."""
    named = items(lines)
    if held is None:
        return Cost("install", items=named)
    if makes_image(project.models, held.command):
        return _IMAGE
    if held.command.name.endswith(".sh"):
        return _UNSEEN
    if held.command.name in ("curl", "wget"):
        return _PROGRAM if any(map(_SCRIPTS.search, lines)) else _FETCHED
    if "--no-deps" in words_of(held.command) and named and all(map(_OWN_CODE.match, named)):
        return _OWN
    if named and all(map(_PROJECT.match, named)) and _has_list_installed(held, project):
        return _AFTER_LIST
    return of_packages(named, held.job.task, project)


def _has_list_installed(held: GpuJobCommand, project: Project) -> bool:
    """Return whether a command above installs a list of what the project needs (``-r requirements.txt``)."""
    for item in held.job.commands:
        if item.command is held.command:
            return False
        named = items((" ".join(word.text for word in item.command.argv),))
        if any(map(_LISTS.search, named)) and install_tool(project.models, item.command):
            return True
    return False


def of_packages(named: tuple[str, ...], task: Task, project: Project) -> Cost:
    """Return how long it takes to install what a command names, or the spec of a job lists."""
    if named and all(map(_PROJECT.match, named)) and _has_project(task, project):
        return KEPT
    return Cost("install", items=named)


def _has_project(task: Task, project: Project) -> bool:
    """Return whether the job's image is one that the tree builds with the project and what it needs."""
    image = _name(task.image or "")
    if not image and not task.build:
        return False
    return any(
        _name(document.tasks[-1].image or "") != image and _has_own(document, project, image)
        for path in project.files
        if project.kind(path) is Kind.DOCKERFILE and (document := project.document(path)) is not None and document.tasks
    )


def _has_own(document: Document, project: Project, image: str) -> bool:
    """Return whether an image gets the project: by its folder, or as a copy of its repository that has the image's
    name (``RUN git clone .../net.git`` and ``RUN pip install ./net[all]`` for ``acme/net:1.0``)."""
    own = image.rpartition("/")[2]
    cloned = any(f"/{own}.git" in text or f"/{own} " in f"{text} " for text in _clones(document)) if own else False
    return any(_is_of_project(command, own if cloned else "") for command in _builds(document, project))


def _clones(document: Document) -> Iterator[str]:
    """Yield the commands of an image that copy a repository."""
    for task in document.tasks:
        for command in (one for script in task.scripts if task.role == "build" for one in script.commands):
            words = [word.text for word in command.argv]
            if words[:2] == ["git", "clone"]:
                yield " ".join(words)


def _name(image: str) -> str:
    """An image without its digest and tag."""
    head, slash, last = image.partition("@")[0].rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _builds(document: Document, project: Project) -> Iterator[Command]:
    """Yield the commands that install packages into an image."""
    for task in document.tasks:
        for command in (one for script in task.scripts if task.role == "build" for one in script.commands):
            if install_tool(project.models, command):
                yield command


def _is_of_project(command: Command, cloned: str) -> bool:
    """Return whether a command installs the project, its lock file or its requirements, or the copy of its repository
    in a folder."""
    named = items((" ".join(word.text for word in command.argv),))
    return any(
        _PROJECT.match(name)
        or _LISTS.search(name)
        or (bool(cloned) and re.match(rf"(?:\./)?{re.escape(cloned)}(?:/?$|\[|\$)", name) is not None)
        for name in named
    )
