"""Files of the tree that an image copies, and the Dockerfile that a fix writes or adds to."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpulint.documents import Document
from gpulint.documents.dockerlines import instructions
from gpulint.documents.shell import Command
from gpulint.fix import Edit
from gpulint.launch.job import Job
from gpulint.launch.transfer_commands import words_of
from gpulint.launch.working_directory import working_dir
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint.source import SourceText, Span

NAME = "Dockerfile.gpulint"
_IMAGE = re.compile(r"[\w.:/@-]+")
_USUAL = frozenset(
    {"docker", "image", "images", "build", "train", "training", "pytorch", "torch", "cuda", "latest", "python"}
)
"""Words that say nothing about whose image it is."""
_INSTRUCTION = re.compile(r"^[ \t]*([A-Za-z]+)[ \t]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of an image's build, and the files of the tree that it reads: as it names them, and where they are."""

    command: str
    files: tuple[tuple[str, Path], ...] = ()
    comments: tuple[str, ...] = ()
    """What the launcher says of the command."""


def find(project: Project, job: Job, document: Document, command: Command, name: str) -> Path | None:
    """The file of the tree that a command names in the folder in which it runs, if that can be told."""
    if name.startswith(("/", "~", "$", "http")) or ".." in name.split("/"):
        return None
    folder = document.path.parent
    where = working_dir(command, None, job.task.working_dir or ".")
    if where in (".", None) and project.is_file(folder / name):
        return folder / name
    for base in (folder, *folder.parents):
        if not base.is_relative_to(project.root):
            break
        for tail in _tails(where or ""):
            if project.is_file(base / tail / name):
                return base / tail / name
    near = [path.parent for path in job.programs] or [folder]
    started = {place / name for place in near if project.is_file(place / name)}
    return started.pop() if len(started) == 1 and where is not None else None


def _tails(folder: str) -> Iterator[str]:
    """Ends of a path, the longest first: ``code/runs/llm``, ``runs/llm``, ``llm``."""
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    if any(part.startswith("<") or part == ".." for part in parts):
        parts = []
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def new_dockerfile(project: Project, document: Document, job: Job, steps: Sequence[Step]) -> tuple[Path, str] | None:
    """Path and text of a Dockerfile beside a launcher, maybe one that another fix has written; None if none is free."""
    for name in (NAME, f"{NAME}-{document.path.stem}"):
        path = document.path.with_name(name)
        text = dockerfile(project, document, job, steps, path)
        if not project.exists(path) or (path in project.files and project.data(path) == text.encode()):
            return path, text
    return None


def dockerfile(project: Project, document: Document, job: Job, steps: Sequence[Step], path: Path) -> str:
    """The text of a new Dockerfile at ``path`` that starts from the job's image."""
    image = job.task.image if job.task.image and _IMAGE.fullmatch(job.task.image) else None
    context = _context(project, document, steps)
    here = "this folder" if context == path.parent else f"{_relative(context, project.root)}/"
    head = [
        f"# What jobs installed at every start while they held their GPUs. Build it in {here},",
        f"# and start them from the image:  docker build -f {_relative(path, context)} -t NAME .",
    ]
    if image is None:
        head.append("# Name an image with the CUDA and Python of the job:  --build-arg BASE_IMAGE=...")
    base = f"ARG BASE_IMAGE={image}" if image is not None else "ARG BASE_IMAGE"
    return "\n".join([*head, base, "FROM ${BASE_IMAGE}", *_instructions(steps, context)]) + "\n"


def _context(project: Project, document: Document, steps: Iterable[Step]) -> Path:
    """The nearest folder around the launcher that holds all files."""
    context = document.path.parent
    for _, file in (pair for step in steps for pair in step.files):
        while not file.is_relative_to(context) and context != project.root:
            context = context.parent
    return context


def _instructions(steps: Iterable[Step], context: Path) -> list[str]:
    lines = list[str]()
    for step in steps:
        lines += step.comments
        lines += [f"COPY {_relative(file, context)} {name}" for name, file in step.files]
        lines.append(f"RUN {step.command}")
    return list(dict.fromkeys(lines))


def _relative(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else posixpath.relpath(path, base)


# -- Dockerfiles of the tree -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Built:
    """A Dockerfile of the tree from which the job's image is built, and the folder that its files are copied from."""

    document: Document
    context: Path
    starts_job: bool = False
    """What it starts is the job: an install there finds the files that the image has."""


def built(project: Project, job: Job) -> Built | None:
    """The Dockerfile of the job's image, where the job or a script of the tree says so."""
    if job.document.kind is Kind.DOCKERFILE:
        return Built(job.document, job.document.path.parent, starts_job=True)
    if job.task.build:
        return _at(project, job.document.path.parent / job.task.build)
    image = (job.task.image or "").partition("@")[0]
    name = re.sub(r":[^:/]*$", "", image)
    if not name or not _IMAGE.fullmatch(name):
        return None
    found = {one.document.path: one for one in _builds(project, name)}
    if found:
        return next(iter(found.values())) if len(found) == 1 else None
    return _named_for(project, name)


def _named_for(project: Project, name: str) -> Built | None:
    """The only Dockerfile of the tree, if an image's name is that of the project or of the Dockerfile's folder."""
    paths = [path for path in project.files if project.kind(path) is Kind.DOCKERFILE and NAME not in path.name]
    last = _words(name.rpartition("/")[2])
    if len(paths) != 1 or "/" not in name or not last & (_words(project.root.name) | _words(paths[0].parent.name)):
        return None
    return _at(project, paths[0])


def _words(name: str) -> set[str]:
    return {word for word in re.split(r"[^a-z0-9]+", name.lower()) if len(word) > 3} - _USUAL


def _builds(project: Project, name: str) -> Iterator[Built]:
    """Commands of shell scripts that build an image of this name."""
    for path in project.files:
        if project.kind(path) is not Kind.SHELL or b"docker" not in project.data(path):
            continue
        document = project.document(path)
        for command in (
            one for script in (document.scripts if document is not None else ()) for one in script.commands
        ):
            words = words_of(command)
            if words[:2] != ("docker", "build") and words[:3] != ("docker", "buildx", "build"):
                continue
            tags = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-t", "--tag")]
            if not any(re.sub(r":[^:/]*$", "", tag) == name for tag in tags) or words[-1].startswith(("-", "$")):
                continue
            file = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-f", "--file")), None)
            folder = path.parent / words[-1]
            one = _at(project, path.parent / file if file else folder)
            if one is not None:
                yield Built(one.document, Path(posixpath.normpath(folder)))


def _at(project: Project, path: Path) -> Built | None:
    path = Path(posixpath.normpath(path))
    file = path / "Dockerfile" if project.is_dir(path) else path
    document = project.document(file) if file in project.files else None
    if document is None or document.kind is not Kind.DOCKERFILE:
        return None
    return Built(document, path if project.is_dir(path) else file.parent)


def addition(target: Built, steps: Sequence[Step]) -> Edit | str:
    """The edit that has a Dockerfile install the same, or why it cannot."""
    source: SourceText = target.document.source
    text = source.text
    found = [(match[1].upper(), source.position(match.start(1))[0]) for match in _INSTRUCTION.finditer(text)]
    found = [(name, line) for name, line in found if not source.line(line - 1).rstrip().endswith("\\")]
    froms = [line for name, line in found if name == "FROM"]
    if not froms or "<<" in text:
        return f"{target.document.path.name} is no plain Dockerfile"
    last = [(name, line) for name, line in found if line > froms[-1]]
    if any(name == "USER" for name, _ in last):
        return f"{target.document.path.name} installs as another user than root"
    at = next((line for name, line in last if name in ("CMD", "ENTRYPOINT")), len(source.line_starts) + 1)
    if target.starts_job:
        if missing := _uncopied(target.document, steps, froms[-1], at):
            return f"{target.document.path.name} does not copy `{missing}`, which the install reads when it starts"
        steps = [replace(step, files=()) for step in steps]
    elif not all(file.is_relative_to(target.context) for step in steps for _, file in step.files):
        return f"{target.document.path.name} is built from another folder than that of the requirements"
    while at > 1 and source.line(at - 1).lstrip().startswith("#"):
        at -= 1
    new = "\n".join(_instructions(steps, target.context)) + "\n"
    if at > len(source.line_starts) and not text.endswith("\n"):
        end = len(source.line_starts), len(source.line(len(source.line_starts))) + 1
        return Edit(target.document.path, Span(*end, *end), f"\n{new}")
    at = min(at, len(source.line_starts))
    return Edit(target.document.path, Span(at, 1, at, 1), new)


def _uncopied(document: Document, steps: Iterable[Step], first: int, last: int) -> str:
    """Return a file that steps read and that no line of a stage between two others copies; "" if there is none."""
    copied = list[str]()
    for item in instructions(document.source):
        words = item.arguments.text.replace("\\\n", " ").strip("[]").replace('"', "").replace(",", " ").split()
        if item.name in ("COPY", "ADD") and first < document.source.position(item.start)[0] < last:
            own = [word for word in words if not word.startswith("--")]
            copied += own[:-1] if not any(word.startswith("--from") for word in words) else []
    for name, file in (pair for step in steps for pair in step.files):
        if not any(_holds(source, file) for source in copied):
            return name
    return ""


def _holds(source: str, file: Path) -> bool:
    """Return whether what a Dockerfile copies is a file, or a folder that has it."""
    parts = [part for part in source.split("/") if part not in ("", ".")]
    if not parts or parts == ["*"]:
        return True
    tails = (file.parts[at : at + len(parts)] for at in range(len(file.parts)))
    return any([*tail] == parts for tail in tails)
