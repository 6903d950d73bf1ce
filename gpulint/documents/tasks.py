"""What a launcher asks for: tasks (one script or container), the resources they hold and the shell they run.

A sbatch script is one task; a Kubernetes Job has one task per container; a Dockerfile's CMD is a task without
resources. Whatever could not be read off the text is None ("unknown"), never a guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.records import dataclass, field
from gpulint.source import Span

if TYPE_CHECKING:
    from gpulint.documents.shell import Script


@dataclass(frozen=True, slots=True)
class Count:
    """A number written somewhere in the task's own document. ``value`` is None when it could not be resolved."""

    value: int | None
    span: Span
    text: str = ""
    """As written, e.g. ``--gres=gpu:a100:4`` or ``nvidia.com/gpu: 8``."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one node (Slurm) or one replica (Kubernetes pod) of a task holds; None where nothing is said."""

    gpus: Count | None = None
    """GPUs per node. Devices that are fractions of a GPU (MIG slices, time-sliced) are counted with ``fractional``
    set."""
    nodes: Count | None = None
    tasks_per_node: Count | None = None
    cpus: Count | None = None
    """CPU cores per task (``--cpus-per-task``, Kubernetes CPU limit rounded down)."""
    gpu_model: str | None = None
    """Lower-case model as written, e.g. ``a100``, ``nvidia-l4``."""
    fractional: bool = False
    vendor: str = "nvidia"
    seconds: int | None = None
    """The longest time that it may take."""
    queue: str = ""
    """The queue, partition or features of the machines that it is for, as they are written."""


@dataclass(frozen=True, slots=True)
class EnvVar:
    """An environment variable that a spec or image sets for its task."""

    name: str
    value: str | None
    span: Span


@dataclass(frozen=True)
class Task:
    """One unit of a launcher document that runs commands.

    ``role``: ``main``, ``init`` (init container or set-up section), ``build`` (Dockerfile RUN: no GPU is held),
    ``sidecar`` or ``session`` (a notebook, whose cells compute beside the commands). ``scripts`` run in order;
    ``packages`` are installs declared as data (Ray ``runtime_env.pip``,
    SkyPilot ``setup`` is a script of role init instead).
    """

    name: str
    span: Span
    role: str = "main"
    resources: Resources = field(default_factory=Resources)
    scripts: tuple[Script, ...] = ()
    env: tuple[EnvVar, ...] = ()
    image: str | None = None
    working_dir: str | None = None
    replicas: Count | None = None
    packages: tuple[tuple[str, Span], ...] = ()
    requirements: tuple[str, Span] | None = None
    """Folder whose ``requirements.txt`` the system installs when the task starts."""
    interactive: Span | None = None
    """What makes the task an interactive session by declaration (dstack's ``type: dev-environment``); commands speak
    for themselves."""
    build: str | None = None
    """Folder or Dockerfile from which the image is built."""
    environment_file: str | None = None
    """File of packages from which the system makes an environment for the commands; "" where they are in the job
    file itself."""
    component: str | None = None
    """The job file whose command it runs."""
    resources_of: tuple[str, tuple[str, ...]] | None = None
    """(name, kinds) of the object that has its resources where it gives none itself."""
    carries_configuration: bool = False
    """The program's own configuration is in the same document."""
    named_models: tuple[tuple[str, Span], ...] = ()
    """Identifiers of the Hugging Face hub in that configuration."""
    only_if_training: bool = False
    """Tests and builds run in the same way: GPUs count only if a program that uses them is started."""
    system: str = ""
    """What the document is written for: ``slurm``, ``pbs``, ``lsf``, ``kubernetes``, ``ray``, ``azureml``,
    ``skypilot``,
    ``sagemaker``, ``dstack``, ``compose``, ``determined``, ``lightning``, ``docker``, or "" for a plain script."""
