"""Whether what a program would download is there before it starts: fetched by a separate step or staged by its
launcher."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.launch.hub_programs import hub_words
from gpulint.launch.job_index import JobIndex
from gpulint.launch.model_servers import model_of_image, served_model
from gpulint.launch.transfer_commands import download_tool
from gpulint.libraries.downloads import HUB
from gpulint.libraries.hub_ids import is_model_id
from gpulint.libraries.schedulers import batch_systems
from gpulint.programs.documented_fetchers import documented_fetchers
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.source import SourceText
from gpulint.transfers.downloads import OFFLINE_VARIABLES, Download, Downloads
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.documents.shell import ArgWord
    from gpulint.launch.job import Job
    from gpulint.programs.gpu_jobs import GpuJobCommand
    from gpulint.project import Project

_COPIES = frozenset({"cp", "rsync", "tar", "unzip", "mv", "ln", "scp", "pigz"})
_INLINE = regex.compile(r"python[\d.]* -c ")
"""A line of Python in a script that is named for fetching."""
_FOR_SCRIPTS = regex.compile(r"scripts?|bin|tools?|jobs?|slurm|sh|shell|data|setup|utils", re.IGNORECASE)
_FETCHES = regex.compile(
    r"(^|[_-])(download|downloads|downloader|fetch|prefetch|prepare|stage|cache)([_-]|$)", re.IGNORECASE
)
_BUILDS = regex.compile(r"^\s*RUN\b(?:[^\n]*\\\n)*[^\n]*python[\d.]*\s+(?:-c|-m)\s[^\n]*", re.MULTILINE)
"""What the build of an image runs by Python."""
_VOLUME = regex.compile(
    r"persistentVolumeClaim|claimName|volumeClaimTemplates|hostPath:|\bnfs:|\bcsi:|file_mounts:"
    r"|^\s*volumes:\s*\n\s*- [\w./~$-]+:",
    re.MULTILINE,
)
"""Storage of a service that outlives it."""
_SUBMITS = frozenset({b"sbatch", b"qsub", b"bsub", b"kubectl"})
_CACHES = frozenset({"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"})
_CACHE = regex.compile("|".join(sorted(_CACHES)) + r"|huggingface(/|$)|hf[_-]?(home|cache|hub)\b", re.IGNORECASE)
"""Folders that hold what was fetched from the hub."""
_OFF = frozenset({"", "0", "false", "no", "off"})


class Prefetching:
    """Staging in one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    def of(self, download: Download) -> Place | None:
        """Return what makes the data available before the program runs, if anything is seen to do so."""
        return (
            self._separate_step(download) or self._script(download) or self._launcher(download) or self._image(download)
        )

    def is_offline(self, program: Path) -> bool:
        """Return whether a launcher switches the hub off for the program."""
        for start in self._project.fact(JobIndex).launches_of(program):
            for name in OFFLINE_VARIABLES:
                setting = start.environment(name)
                if setting is not None and (setting.value or "").lower() not in _OFF:
                    return True
        return False

    def served(self, held: GpuJobCommand) -> ArgWord | None:
        """The model of a hub that a server in a job fetches when it starts, unless the job switches the hub off or has
        a volume that outlives it, where the model may be."""
        if held.job.task.system not in batch_systems(self._project.models) and held.job.document.matches(_VOLUME):
            return None
        word = served_model(held.command, _values(held))
        if word is None and held.job.task.image is not None:
            word = model_of_image(held.job.task.image, held.command.script.argv(held.command, _values(held)))
        if word is None or word.value is None or not is_model_id(word.value, (), self._project.is_dir):
            return None
        return None if self.is_switched_off(held) else word

    def loaded(self, held: GpuJobCommand) -> list[tuple[ArgWord, bool]]:
        """Identifiers of the hub that a known program in a job is given, unless the job switches the hub off, and
        whether each is one of a data set."""
        words = hub_words(self._project.models, held.command, self._project.is_dir)
        return [] if words and self.is_switched_off(held) else words

    def is_switched_off(self, held: GpuJobCommand) -> bool:
        """Return whether a job switches the hub off."""
        return any(item.name in OFFLINE_VARIABLES and (item.value or "").lower() not in _OFF for item in held.job.env)

    def _separate_step(self, download: Download) -> Place | None:
        """A program for it, by its name or the README, that makes the same call: of the same folder, or of one for
        scripts above it that names the same."""
        home = download.call.module.path
        for path in (path for paths in self._fetchers().values() for path in paths):
            above = bool(download.what) and _serves(path, home)
            if path == home or not (path.parent == home.parent or above):
                continue
            if not _FETCHES.search(path.stem) and self._is_program(path, home):
                continue
            other = self._project.module_at(path)
            for item in self._project.fact(Downloads).in_module(other) if other is not None else ():
                same = item.what == download.what
                if same if above else item.name == download.name and (not item.what or not download.what or same):
                    return Place(path, item.call.module.syntax.span(item.node), "fetched here, before the job")
        return None

    def _is_program(self, path: Path, home: Path) -> bool:
        """Return whether a file is a part of the program ``home``, or computes itself."""
        names_device = self._project.fact(GpuPrograms).words.names_device
        return path in self._project.imported(home) or names_device(self._project.data(path))

    @query
    def _fetchers(self) -> dict[Path, list[Path]]:
        """Folder -> its programs that are named for fetching, or that the README says to fetch."""
        table: dict[Path, list[Path]] = {}
        documented = documented_fetchers(self._project)
        for path in self._project.python_files:
            if _FETCHES.search(path.stem) or path in documented:
                table.setdefault(path.parent, []).append(path)
        return table

    def _script(self, download: Download) -> Place | None:
        """A shell script named for it, which holds no GPUs, that fetches the same."""
        names = [re.compile(rf"(?<![\w{before}-]){re.escape(word)}(?![\w/-])") for before, word in _wanted(download)]
        program = download.call.module.path
        for place, text in self._fetching_commands() if names else ():
            if all(name.search(text) for name in names) and (
                _serves(place.path, program) or self._is_beside_job(place.path, program)
            ):
                return place
        return None

    def _is_beside_job(self, script: Path, program: Path) -> bool:
        """Return whether a script lies beside a job that starts a program: ``jobs/cluster/fetch.sh`` serves it
        wherever it is."""
        starts = self._project.fact(JobIndex).launches_of(program)
        return any(start.job.document.path.parent == script.parent for start in starts)

    @query
    def _fetching_commands(self) -> list[tuple[Place, str]]:
        """Commands that download, in shell scripts that are named for it, or submit jobs, and hold no GPUs, with their
        words."""
        found = list[tuple[Place, str]]()
        for path in self._project.files:
            if self._project.kind(path) is not Kind.SHELL:
                continue
            if not _FETCHES.search(path.stem) and not self._project.word_index.holds_one(path, _SUBMITS):
                continue
            document = self._project.document(path)
            jobs = self._project.fact(JobIndex).jobs_in(path)
            if document is None or any(job.gpus is not None and job.gpus.value for job in jobs):
                continue
            for command in (command for script in document.scripts for command in script.commands):
                words = " ".join(word.text for word in command.argv)
                if download_tool(self._project.models, command) or _INLINE.match(words):
                    found.append((Place(path, command.span, "fetched here, before the job"), words))
        return found

    def _launcher(self, download: Download) -> Place | None:
        """A launcher that copies an archive of that name, or the cache of the hub, before it starts the program."""
        wanted = _plain(download.what.rpartition("/")[2])
        if len(wanted) < 4:
            return None
        for job in dict.fromkeys(
            start.job for start in self._project.fact(JobIndex).launches_of(download.call.module.path)
        ):
            for item in job.commands:
                words = [word.text for word in item.command.argv[1:]] if item.command.name in _COPIES else []
                if any(wanted in _plain(text) or (HUB in download.origin and _is_cache(job, text)) for text in words):
                    return item.place
        return None

    def _image(self, download: Download) -> Place | None:
        """A Dockerfile of the program's folder, or of one around it, whose build fetches the same by Python."""
        name = re.compile(rf"\b{re.escape(download.what)}\b")
        if len(download.what) < 4:
            return None
        program = download.call.module.path
        for folder in itertools.takewhile(lambda up: up != self._project.root.parent, program.parents):
            path = folder / "Dockerfile"
            if not self._project.exists(path):
                continue
            source = SourceText(self._project.data(path).decode("utf-8", "replace"))
            for run in _BUILDS.finditer(source.text):
                if name.search(run[0]):
                    return Place(path, source.span(run.start(), run.end()), "fetched when the image is built")
        return None


def _is_cache(job: Job, text: str) -> bool:
    """Return whether a word of a job's command is the folder in which the hub's files are kept."""
    words = (word.text.partition("=") for item in job.commands for word in item.command.argv)
    folders = (folder for name, _, folder in words if name in _CACHES and folder)
    return _CACHE.search(text) is not None or text.startswith(tuple(folders))


def _wanted(download: Download) -> list[tuple[str, str]]:
    """Words that a command has which fetches the same, and what does not stand before each: what is fetched, else the
    function and what it is told."""
    if download.what:
        return [("./", download.what)] if len(download.what) > 3 else []
    told = [arg.value for arg in download.node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return [("/", word) for word in (last_name(download.node.func), *told)] if download.kind == "weights" else []


def _serves(script: Path, program: Path) -> bool:
    """Return whether a script lies above a program, or in a folder for scripts there. Another folder may hold another
    version."""
    folder = script.parent.parent if _FOR_SCRIPTS.fullmatch(script.parent.name) else script.parent
    return folder in program.parents


def _values(held: GpuJobCommand) -> dict[str, str]:
    return {item.name: item.value for item in held.job.env if item.value is not None}


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
