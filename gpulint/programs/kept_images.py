"""Image files that a job fetches once: the command ends with an error where an earlier run has left the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.local_copies import LOCAL
from gpulint.launch.transfer_commands import makes_image, words_of
from gpulint.libraries.schedulers import batch_systems

if TYPE_CHECKING:
    from gpulint.documents.shell import Command
    from gpulint.launch.job import Job
    from gpulint.libraries import Models

_REPLACES = frozenset({"--force", "-F", "--update", "-u"})
"""Options with which they write the file again."""
_NEW_NAME = regex.compile(r"\$\$|\$\{?RANDOM\b|\$\(|`|\$\{?\w*(?:TEMP|TMP|SCRATCH_?DIR|RUN_?ID|UUID|DATE|TIME)\w*")
"""Parts of a path that are others in each run, or that name a folder of the run."""
_VARIABLE = regex.compile(r"\$\{?(\w+)")
_REMOVES = frozenset({"rm", "unlink", "mv", "shred"})
_ENTERS = frozenset({"cd", "pushd"})
_MAX_NAMES = 20
"""Variables that are followed from the path of an image."""


def keeps_image(models: Models, job: Job, command: Command) -> bool:
    """Return whether an image that a command of a job fetches is still there in the next run, so that the command does
    nothing then: the folder outlives the job, and nothing removes the file."""
    if not makes_image(models, command) or job.task.system not in batch_systems(models) or job.task.image is not None:
        return False
    words = words_of(command)[2:]
    if _REPLACES & set(words):
        return False
    paths = [word for word in words if "://" not in word]
    absolute = any(path.lstrip("\"'").startswith(("/", "$", "~")) for path in paths if not path.startswith("-"))
    folders = () if absolute else _entered_before(command)
    if any(_is_of_run(text) for path in (*paths, *folders) for text in _texts(command, path)):
        return False
    files = [path.strip("\"'") for path in paths if path.strip("\"'-")]
    return not any(_removes(item.command, files) for item in job.commands)


def _entered_before(command: Command) -> Iterator[str]:
    """Yield the folders that the script goes into above a command."""
    for other in command.script.commands:
        if other is command:
            return
        if other.name in _ENTERS:
            yield from (word.text for word in other.argv[1:])


def _texts(command: Command, text: str) -> Iterator[str]:
    """Yield a path and what is assigned to the variables in it."""
    waiting, seen = [text], set[str]()
    while waiting:
        yield (text := waiting.pop())
        for name in _VARIABLE.findall(text):
            if name not in seen and len(seen) < _MAX_NAMES:
                seen.add(name)
                found = command.script.assigned.get(name, ())
                waiting += [one.fragment.text[one.start : one.end].partition("=")[2] for one in found]


def _is_of_run(text: str) -> bool:
    """Return whether a path goes with the job (``$TMPDIR/x.sif``), or is another one in each run."""
    return bool(LOCAL.search(text) or _NEW_NAME.search(text))


def _removes(command: Command, paths: list[str]) -> bool:
    """Return whether a command removes an image by its name, with a folder that it lies in, or with all images
    (``rm -rf images``, ``trap 'rm -f x.sif' EXIT``)."""
    words = [word.strip("\"'").rstrip("/") for word in words_of(command)]
    names = [path.rpartition("/")[2] for path in paths]
    if words[:1] == ["trap"]:
        return any(name in words[1] for name in names) if len(words) > 1 else False
    return (
        words[:1] != []
        and words[0] in _REMOVES
        and any(
            word.endswith("*.sif")
            or word.rpartition("/")[2] in names
            or any(path.startswith(f"{word}/") for path in paths)
            for word in words[1:]
        )
    )
