"""Images that a script or Makefile builds from a Dockerfile of the tree and runs on GPUs (``docker run --gpus``)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.launch.launchers import Launchers, options_of
from gpulint.launch.program_launches import is_uncalled
from gpulint.query import query
from gpulint.rule import Kind

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.documents.shell import Command
    from gpulint.project import Project

_TOOLS = frozenset({"docker", "podman", "nvidia-docker"})
_GPUS = regex.compile(rb"--gpus|nvidia-docker|runtime[= ]nvidia")
_GIVES_GPUS = regex.compile(r"--gpus(?!=(none|0)$)|--runtime=nvidia$|--device=nvidia\.com/gpu")


class ImageRuns:
    """Runs of images of one project on GPUs."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    def on_gpus(self, dockerfile: Path) -> Place | None:
        """Return where the default command of a Dockerfile's image is run on GPUs."""
        return self._runs().get(dockerfile)

    @query
    def _runs(self) -> dict[Path, Place]:
        found: dict[Path, Place] = {}
        for path in self._project.files:
            if self._project.kind(path) not in (Kind.SHELL, Kind.WORKFLOW) or not _GPUS.search(
                self._project.data(path)
            ):
                continue
            document = self._project.document(path)
            if document is None:
                continue
            commands = list(_commands(document))
            built = dict(item for command in commands for item in _built(document, command))
            for command in commands:
                image = _image(command)
                if image in built:
                    place = Place(path, command.span, "the image runs on GPUs here")
                    found.setdefault(built[image], place)
        return found


def _commands(document: Document) -> Iterator[Command]:
    scripts = [*document.scripts, *(script for task in document.tasks for script in task.scripts)]
    seen = set[int]()
    for script in scripts:
        for command in script.walk():
            if command.name in _TOOLS and id(command) not in seen and not is_uncalled(command):
                seen.add(id(command))
                yield command


def _built(document: Document, command: Command) -> Iterator[tuple[str, Path]]:
    """The tags that a command gives an image, and the Dockerfile that it builds."""
    words = [word.value or word.text for word in command.argv[1:]]
    if words[:1] == ["image"]:
        del words[0]
    if words[:1] != ["build"] or len(words) < 3:
        return
    tags, file = list[str](), ""
    for before, word in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = before.partition("=")
        value = value if equals else word
        if name in ("-t", "--tag"):
            tags.append(value)
        elif name in ("-f", "--file"):
            file = value
    if not file and words[-1].startswith("-"):
        return  # the Dockerfile comes from elsewhere
    name = file or f"{words[-1]}/Dockerfile"
    path = Path(posixpath.normpath(f"{document.path.parent.as_posix()}/{name}"))
    yield from ((tag.removesuffix(":latest"), path) for tag in tags)


def _image(command: Command) -> str | None:
    """The image whose default command is run on GPUs; None for any other command."""
    argv = command.argv
    if len(argv) < 3 or argv[1].text != "run":
        return None
    if command.name != "nvidia-docker" and not any(_GIVES_GPUS.match(word.text) for word in argv):
        return None
    found = command.script.models.derived(Launchers).find(argv)
    rest = options_of(found[0], argv[found[1] :]).rest if found is not None else ()
    if not rest or any(word.value for word in rest[1:]):
        return None  # another command than the image's own; `$ARGS` may be empty
    return (rest[0].value or rest[0].text).removesuffix(":latest")
