"""What to do about packages that a job installs, by where it runs: an image, a runner of one's own, a cluster."""

from __future__ import annotations

from pathlib import Path

from gpulint import regex
from gpulint.launch.job import Job
from gpulint.launch.job_index import JobIndex
from gpulint.launch.transfer_commands import makes_image
from gpulint.programs.gpu_jobs import GpuJobCommand
from gpulint.programs.kept_environments import runs_in_image_file, runs_without_image
from gpulint.project import Project
from gpulint.query import query
from gpulint.source import joined
from gpulint_rules.library.install_words import pip

_OF_THE_JOB = regex.compile(r"\$(?!HOME\b|\{HOME\})|(?<![\w.:/-])/\S+\.(?:whl|tar\.gz)\b")
"""What the build of an image does not have: variables of the job, packages on its disk."""
_CONTAINER_KEYS = {"github": "container", "gitlab": "image"}
"""Keys that name an image in a job of continuous integration."""

OF_NEWER_CODE = (
    "build the image again when the code changes, or name the folder of the newer code in `PYTHONPATH`; the image has "
    "the packages that it needs"
)
"""What to do about an install of the project over the one that the image has."""


_MOST = 2
"""Most files of other jobs that an advice names."""
_NAME = regex.compile(r"[\w.-]+")
"""A package without its version."""


def advice_on_list(job: Job, project: Project) -> str:
    """Return what to do about the packages that the spec of a job lists: an image for all jobs that start from the same
    one, where none wants another version."""
    names = [name for name, _ in job.task.packages]
    given = {_package(name): name for name in names}
    paths: list[Path] = []
    for other, listed in _jobs_with_packages(project):
        if other is job or other.task.image != job.task.image or given.keys().isdisjoint(listed):
            continue
        if any(given.get(package, name) != name for package, name in listed.items()):
            continue  # another version
        if more := [name for package, name in listed.items() if package not in given]:
            given |= listed
            names += more
            paths.append(other.document.path)
    text = advice((pip(names),), None, project)
    places = list(dict.fromkeys(map(project.place, paths)))
    also = joined(places[:_MOST], len(places[_MOST:]))
    return f"{text}; these are the packages of {also} as well" if places else text


@query
def _jobs_with_packages(project: Project) -> tuple[tuple[Job, dict[str, str]], ...]:
    """Return the jobs whose specs list packages, with each package as listed."""
    jobs = project.fact(JobIndex).jobs()
    return tuple((job, {_package(name): name for name, _ in job.task.packages}) for job in jobs if job.task.packages)


def _package(name: str) -> str:
    """Return what a requirement is of, "." for the project in whatever form."""
    if name.startswith((".", "-e ", "--editable ")):
        return "."
    found = _NAME.match(name)
    return found[0].lower().replace("_", "-") if found is not None and not name.startswith("-") else name


def advice(lines: tuple[str, ...], held: GpuJobCommand | None, project: Project) -> str:
    """Return what to do instead; ``lines`` are those of a Dockerfile that does the same."""
    if held is not None and makes_image(project.models, held.command):
        return "make the image once before the job (login node, a job without GPUs), and start the job from it"
    pulled = held is not None and runs_in_image_file(project.models, held.job)
    written = "; ".join(line.removeprefix("RUN ") if pulled else line for line in lines)
    where = "the `%post` section of its definition file" if pulled else "its Dockerfile"
    image = (
        "build an image once that has them and start the job from it"
        if any(_OF_THE_JOB.search(line) for line in lines)
        else f"build an image once with `{written}` in {where} and start the job from it"
    )
    if held is None or held.job.task.image is not None:
        return image
    if (key := _CONTAINER_KEYS.get(held.job.task.system)) is not None:
        return f"install them once on the runner, or {image} (`{key}:`)"
    if pulled or runs_without_image(project.models, held.job):
        return f"install them once before the job, in an environment that it activates, or {image}"
    return image
