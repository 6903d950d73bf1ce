"""What to do about packages that a job installs, by where it runs: an image, a runner of one's own, a cluster."""

from __future__ import annotations

from gpulint import regex
from gpulint.programs.gpu_jobs import GpuJobCommand
from gpulint.programs.kept_environments import runs_without_image
from gpulint.project import Project

_OF_THE_JOB = regex.compile(r"\$(?!HOME\b|\{HOME\})|(?<![\w.:/-])/\S+\.(?:whl|tar\.gz)\b")
"""What the build of an image does not have: variables of the job, packages on its disk."""
_CONTAINER_KEYS = {"github": "container", "gitlab": "image"}
"""Keys that name an image in a job of continuous integration."""


def advice(lines: tuple[str, ...], held: GpuJobCommand | None, project: Project) -> str:
    """Return what to do instead; ``lines`` are those of a Dockerfile that does the same."""
    image = (
        "build an image once that has them and start the job from it"
        if any(_OF_THE_JOB.search(line) for line in lines)
        else f"build an image once with `{'; '.join(lines)}` in its Dockerfile and start the job from it"
    )
    if held is None or held.job.task.image is not None:
        return image
    if (key := _CONTAINER_KEYS.get(held.job.task.system)) is not None:
        return f"install them once on the runner, or {image} (`{key}:`)"
    if runs_without_image(project.models, held.job):
        return f"install them once before the job, in an environment that it activates, or {image}"
    return image
