"""Move installs from the launcher to a Dockerfile beside it."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise

from gpulint_rules.library.gpu401_install_at_start import Installed, installs
from gpulint_rules.library.install_words import short

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.shell.wrappers import unwrap
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, NewFile, Safety
from gpulint.launch.job import Job
from gpulint.launch.job_index import JobIndex
from gpulint.launch.transfer_commands import INSTALL_SCRIPT, makes_image, words_of
from gpulint.launch.working_directory import working_dir
from gpulint.programs.gpu_jobs import GpuJobCommand
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint_fixers.edits.entries import remove_block
from gpulint_fixers.edits.images import NAME, Step, addition, built, find, new_dockerfile
from gpulint_fixers.edits.statements import without_gaps
from gpulint_fixers.library import conda_files
from gpulint_fixers.library.declared_packages import move
from gpulint_fixers.library.removed_installs import own_comments, refreshes, removal, removed, without_parts
from gpulint_fixers.library.set_up_steps import set_up_by_hand
from gpulint_fixers.stages.slurm import in_container
from gpulint_fixers.stages.split import split

_ASKS = regex.compile(r"\b(apt|apt-get) install (?!(?:.*\s)?(?:-\w*y\w*|--yes|--assume-yes)\b)")
"""Waits for an answer, which nobody gives when an image is built."""
_SYSTEM = {
    "apt": "apt-get update && {} && rm -rf /var/lib/apt/lists/*",
    "apt-get": "apt-get update && {} && rm -rf /var/lib/apt/lists/*",
}
_TOOLS = frozenset({"pip", "uv pip", "conda", "mamba", "micromamba", "yum", "dnf", "apk", *_SYSTEM})
_ELSEWHERE = frozenset({"--python", "--target", "--prefix", "--root", "-t"})
"""Options of pip and uv for another folder or environment than the one in use."""
_ENVIRONMENTS = frozenset({"activate", "virtualenv", "venv", "module", "ml"})
_PATHS = frozenset({"PATH", "PYTHONPATH", "PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_PREFIX", "PIP_TARGET"})
_FILES = ("-r", "--requirement", "-c", "--constraint")
_SETS_UP = regex.compile(r"(^|[_-])(set_?up|install|bootstrap|create_env|make_env|build_env)([_-]|$)", re.IGNORECASE)
"""Names of scripts that are run once, by hand."""
_BRINGS = regex.compile(
    r"^(sudo )?((apt|apt-get|yum|dnf|apk) (-\w+ )*(update|install|add)|git clone|pip3? config set|pip3? uninstall)\b"
)
"""What belongs to the installs beside it."""
_FEW_JOBS = 3
"""From more jobs with the same install on, a stage for each is more to maintain than it saves."""
_MAX_MOVED = 100


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Move all the installs of the launcher that can be moved, so that one image serves it."""
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Installed) or document is None:
        return Declined("the packages are not installed by a command of the launcher")
    if found.held is None:
        return move(finding, project, document)
    if document.kind in (Kind.PYTHON, Kind.NOTEBOOK):
        return Declined("the command is text within a Python program")
    job = found.held.job
    if _SETS_UP.search(document.path.stem):
        return Declined("the job is there to set an environment up, once: submit it without GPUs")
    if job.task.system == "slurm" and (same := _jobs_with(project, document, finding)) > _FEW_JOBS:
        return Declined(f"{same} jobs run the same command: prepare the environment once, in one job for all of them")
    if job.task.system == "slurm" and (reason := in_container(job)):
        return Declined(reason)
    if job.task.system == "slurm" and (text := set_up_by_hand(project, found.held)):
        return Declined(f"{text} has it as a step of the set-up, after which it finds nothing to do: leave it out here")
    if job.task.system == "slurm" and isinstance(staged := split(finding, project), Fix):
        return staged
    if job.task.system == "skypilot" and not job.task.image:
        return Declined("the job runs on a plain machine: name an image with the packages (`image_id: docker:...`)")
    if reason := _stays(_around(project, document, job), found.held, found.tool):
        return Declined(reason)
    return _moved(project, document, job)


def _jobs_with(project: Project, document: Document, finding: Finding) -> int:
    """Return how many scripts of jobs have the line of an install."""
    line = document.source.line(finding.span.line).strip()
    scripts = {job.document.path: job.document for job in project.fact(JobIndex).jobs()}
    return sum(line in {one.strip() for one in other.source.text.splitlines()} for other in scripts.values())


@query
def _installs(project: Project, document: Document) -> dict[int, list[tuple[GpuJobCommand, str]]]:
    """The installs in a document by the identity of the task that runs them."""
    found: dict[int, list[tuple[GpuJobCommand, str]]] = {}
    for held, tool in installs(document, project):
        found.setdefault(id(held.job.task), []).append((held, tool))
    return found


@query
def _moved(project: Project, document: Document, job: Job) -> Fix | Declined:
    """The fix that all the installs of a job share."""
    around = _around(project, document, job)
    own = _installs(project, document)[id(job.task)]
    moved = [(held, tool) for held, tool in own if not _stays(around, held, tool)]
    lists = refreshes(document, job, [held for held, _ in moved])
    if left := _left(around, job, [held for held, _ in own], [*lists, *(held for held, _ in moved)]):
        return Declined(
            f"`{left}` stays in the job, which would go on to install at every start: put all into an image"
        )
    if len(moved) > _MAX_MOVED:
        return Declined(f"the launcher has {len(moved)} installs; more than {_MAX_MOVED} call for a custom image")
    gone = [*lists, *(held for held, _ in moved)]
    found = without_parts(edit for held in gone if (edit := _whole_block(around, held) or removed(document, held)))
    edits = without_gaps(document.source, found)
    steps = [_step(around, held, tool) for held, tool in moved]
    if (file := job.task.environment_file) is not None:
        return conda_files.listed(project, document, file, [words_of(held.command) for held, _ in moved], edits)
    target = built(project, job)
    added = addition(target, steps) if target is not None else None
    if target is not None and isinstance(added, Edit):
        name = target.document.path.relative_to(project.root)
        return Fix(
            f"move {_count(len(moved))} to {name}, from which the image is built; the packages are missing until you "
            "have built it again",
            Safety.UNSAFE,
            (*edits, added),
        )
    if job.document.kind is Kind.DOCKERFILE:
        return Declined(str(added))
    if not job.task.image or job.task.image not in document.source.text:
        return Declined("no image of the job is named here: put the packages into the one that it starts from")
    new = new_dockerfile(project, document, job, steps)
    if new is None:
        return Declined(f"{NAME} exists already")
    path, text = new
    return Fix(
        f"move {_count(len(moved))} to {path.name}; build an image from it and start the job from that, as the "
        "packages are missing otherwise",
        Safety.UNSAFE,
        tuple(edits),
        () if project.exists(path) else (NewFile(path, text),),
    )


def _left(around: _Around, job: Job, own: list[GpuJobCommand], moved: list[GpuJobCommand]) -> str:
    """Return a command that would stay in the job although it installs, brings or sets up packages as well."""
    going = {held.command.span for held in moved}
    for held in own:
        if held.command.span not in going:
            return short(_text(around.document, held))
    for command in (item.command for item in job.commands):
        text = " ".join(word.text for word in command.argv)
        if command.span not in going and _BRINGS.search(text):
            return short(text)
    return ""


def _count(number: int) -> str:
    return "the install" if number == 1 else f"all {number} installs that can be moved"


@dataclass(frozen=True, slots=True)
class _Around:
    """What the other commands of a job mean for its installs."""

    project: Project
    document: Document
    uninstalls: bool
    chooses_environment: bool


@query
def _around(project: Project, document: Document, job: Job) -> _Around:
    before = [words_of(item.command) for item in job.commands]
    assigned = {item.name for script in document.scripts for item in script.assignments}
    return _Around(
        project,
        document,
        uninstalls=any("uninstall" in other[:4] for other in before),
        chooses_environment=bool(_PATHS & assigned)
        or any(_ENVIRONMENTS & {part.rpartition("/")[2] for part in other[:4]} for other in before),
    )


def _stays(around: _Around, held: GpuJobCommand, tool: str) -> str | None:
    """Return why an install has to stay where it is; None if it can move."""
    if reason := _refused(around, held, tool):
        return reason
    if removal(around.document, held) is None and _whole_block(around, held) is None:
        return "the install shares its line with another command, or is the only command of its block"
    return None


def _refused(around: _Around, held: GpuJobCommand, tool: str) -> str | None:
    """Return why an image could not do the install."""
    document = around.document
    command, words = held.command, words_of(held.command)
    if makes_image(around.project.models, command):
        return f"`{tool}` makes an image file; {'build' if 'build' in words else 'pull'} it once on the login node"
    if tool not in _TOOLS or "create" in words or "update" in words:
        name = tool if tool == INSTALL_SCRIPT else f"`{tool}`"
        return f"{name} sets up more than packages; put it into your own image"
    if command.conditional or command.in_loop or command.in_function or command.background or command.in_substitution:
        return "the install is conditional, in a loop or in a function"
    if around.uninstalls:
        return "the script uninstalls packages at start, which would also remove those in the image"
    if around.chooses_environment and "--user" in words:
        return "`--user` installs into the home folder, which keeps the packages; install them there once"
    if around.chooses_environment:
        return "the script activates an environment; install the packages there once"
    if tool in ("pip", "uv pip") and any(word.partition("=")[0] in _ELSEWHERE for word in words):
        return "the packages go to a folder or environment of the job"
    text = _text(document, held)
    if (unwrap(command.argv).argv[0].value or "").rpartition("/")[2] != words[0]:
        return "the install runs through a launcher or in a separate container"
    given = _split(text)[len(command.assignments) :]
    if command.redirects or re.search(r"[$`{}]", text) or given != _written(held):
        return "the install depends on values that are only known in the job"
    return _local(around, held, [*words])


def _local(around: _Around, held: GpuJobCommand, words: list[str]) -> str | None:
    """Files of the job that the install reads; requirements beside the launcher can be copied into the image."""
    if _other_folder(held) is None and any(word in _FILES for word in words):
        return "the folder in which it runs is not known"
    for at, word in enumerate(words[1:], 1):
        value = word
        if words[at - 1] in _FILES:
            if find(around.project, held.job, around.document, held.command, value) is None:
                return f"`{value}` was not found in the tree"
        elif (
            word in ("-e", "--editable") or value.startswith((".", "/", "~")) or value.endswith((".whl", ".gz", ".zip"))
        ):
            return "the install uses code or files of the job, which an image would freeze"
    return None


def _other_folder(held: GpuJobCommand) -> str | None:
    """Return the folder to which what an image starts changes before an install; None where that is unknown."""
    if held.job.document.kind is not Kind.DOCKERFILE:
        return ""
    home = held.job.task.working_dir or "."
    where = working_dir(held.command, None, home)
    return "" if where == home else where


def _text(document: Document, held: GpuJobCommand) -> str:
    """The command as written, on one line."""
    span, source = held.command.span, document.source
    text = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    return re.sub(r"\s*\\\r?\n\s*", " ", text)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _written(held: GpuJobCommand) -> list[str]:
    return [word.text for word in held.command.argv]


def _whole_block(around: _Around, held: GpuJobCommand) -> Edit | None:
    """Remove a set-up section of a job spec (``setup: |``) with its key, if all that it does is install."""
    document, source, line = around.document, around.document.source, held.command.span.line
    if document.kind is not Kind.JOBSPEC or (held.job.task.role != "init" and not _is_set_up(held)):
        return None
    return remove_block(document.path, source, line, _install_lines(around, held))


def _is_set_up(held: GpuJobCommand) -> bool:
    """Return whether a script of the task other than its last one has the command."""
    scripts = held.job.task.scripts
    return len(scripts) > 1 and held.command.script in scripts[:-1]


def _install_lines(around: _Around, held: GpuJobCommand) -> set[int]:
    """Lines with installs of the same task that could move."""
    found = set[int]()
    for other, tool in _installs(around.project, around.document)[id(held.job.task)]:
        span = other.command.span
        if _refused(around, other, tool) is None:
            found.update(range(span.line, span.end_line + 1))
    own = [other for other, _ in _installs(around.project, around.document)[id(held.job.task)]]
    found.update(one.command.span.line for one in refreshes(around.document, held.job, own))
    return found


def _step(around: _Around, held: GpuJobCommand, tool: str) -> Step:
    """The command for an image's build."""
    text = re.sub(r"^sudo\s+(-\w+\s+)*", "", _text(around.document, held))
    words = words_of(held.command)
    named = [value for option, value in pairwise(words) if option in _FILES]
    files = [(name, find(around.project, held.job, around.document, held.command, name)) for name in named]
    text = _ASKS.sub(lambda found: f"{found[0]}-y ", re.sub(r"\s--user\b", "", text))
    folder = _other_folder(held) if files else ""
    return Step(
        (f"cd {shlex.quote(folder)} && " if folder else "") + _SYSTEM.get(tool, "{}").replace("{}", text),
        tuple((name, path) for name, path in files if path),
        own_comments(around.document, held),
    )


FIXER = Fixer("GPU401", fix)
