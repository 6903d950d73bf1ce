"""Rows that say how a system's job files are written: where GPUs, nodes, processes, commands and environment are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from gpulint.libraries.paths import parse_condition, parse_path
from gpulint.records import dataclass, field

Path = Annotated[str, parse_path]
Condition = Annotated[str, parse_condition]
GpuSyntax = Literal[
    "number", "one", "some", "count-of-model", "dstack", "k8s-resources", "machine-type", "named-for-gpus", "lightning",
    "compose-device", "gres",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gpus:
    """Where a task's GPUs per node are written, and how."""

    at: Path
    syntax: GpuSyntax = "number"
    most: int | None = None
    """A greater number is spread over nodes in an unknown way."""


@dataclass(frozen=True, slots=True)
class Command:
    """Where a task's command is: shell text (a list is lines of one script), or words that run without a shell."""

    at: tuple[Path, ...]
    """Words of several places follow one another (``entrypoint``, ``command``)."""
    role: Literal["main", "init", "sidecar"] = "main"
    syntax: Literal["shell", "words"] = "shell"
    interpreter: Path | None = None
    """What names the program that reads shell text, or the machine whose default it is; text for another shell than
    those of Unix is not read."""


@dataclass(frozen=True, slots=True)
class Program:
    """Where a call names the program that a job starts with Python."""

    at: Path
    """A file, or with ``kind`` a module or a function."""
    kind: Literal["file", "module", "function"] = "file"
    folder: Path | None = None
    """The folder that the file is in."""
    arguments: tuple[Path, ...] = ()
    """Options by name, or a list of words."""
    spread: Path | None = None
    """What makes the system start a process for each GPU."""


@dataclass(frozen=True, slots=True)
class Format:
    """One system's job files. Paths count from the item that is a task; a task is made of each command found.

    Conditions of ``requires`` hold at the document's root; the keys of the first one are what files are searched for
    before they are parsed. An item without any command is one task, too.
    """

    name: str
    requires: tuple[Condition, ...]
    system: str = ""
    """What the tasks are said to be written for; the name if nothing is given."""
    extends: str = ""
    """The format whose fields count where this row has none."""
    pods: Literal["", "plain", "mpi"] = ""
    """Tasks are the containers of a Kubernetes object; ``mpi``: a launcher uses the GPUs of its workers. What the other
    fields give is laid over the main containers."""
    each: tuple[Path, ...] = (".",)
    where: tuple[Condition, ...] = ()
    turns: Path | None = None
    """What tasks have in common that run one after another on a machine, which has the GPUs of all of them throughout:
    the list that they are in."""
    task: Path = "name"
    gpus: tuple[Gpus, ...] = ()
    """The first that is found counts."""
    gpu_model: Path | None = None
    nodes: Path | None = None
    replicas: Path | None = None
    """As many as nodes if nothing is given."""
    processes_per_node: Path | None = None
    cpus: Path | None = None
    commands: tuple[Command, ...] = ()
    env: Path | None = None
    """A map, a list of ``NAME=value``, or a list of maps with ``name`` and ``value``."""
    env_from: Mapping[str, Path] = field(default_factory=dict)
    """Variables that the system sets to what is written elsewhere."""
    image: Path | None = None
    image_prefix: str = ""
    """What precedes the name of an image."""
    working_dir: Path | None = None
    interactive: Path | None = None
    """What makes the task an interactive session by declaration."""
    packages: tuple[Path, ...] = ()
    """Packages that the system installs when the task starts; those of all places count."""
    build: Path | None = None
    """Folder or Dockerfile from which the image is built."""
    environment_file: Path | None = None
    """File of packages from which the system makes an environment of its own for the commands, beside the image's."""
    component: Path | None = None
    """The job file whose command runs with the resources written here."""
    component_prefix: str = ""
    """What precedes the name of that file."""
    resources_of: Path | None = None
    """Name of the object, in any file of the tree, that has the resources where the task itself gives none."""
    resource_kinds: tuple[str, ...] = ()
    """What ``kind`` such an object has."""
    parameters: Path | None = None
    """Where the file carries the program's own configuration."""
    terraform: bool = False
    """The document is a resource of a Terraform file."""
    calls: tuple[str, ...] = ()
    """The row is for Python: dotted names of functions, classes or decorators whose arguments are the document, with
    ``*`` for any part. ``modal.App().function`` is a method of what a call returns. The function that a decorator is
    on is the argument ``@function``."""
    imports: tuple[str, ...] = ()
    """Modules of which a file imports one, if the names in ``calls`` do not begin with them."""
    signature: tuple[str, ...] = ()
    """Names of the arguments that are passed by position; others have their number, from 0."""
    sets: tuple[str, ...] = ()
    """Methods of the object whose arguments count as well, under the method's name."""
    starts: tuple[str, ...] = ()
    """Methods of the object each call of which is a job; none without one."""
    document: Path | None = None
    """The argument that is the document, rather than all of them."""
    program: Program | None = None
    requirements: Path | None = None
    """Folder whose ``requirements.txt`` the system installs when the task starts."""
    elsewhere: tuple[Condition, ...] = ()
    """What says that nothing of it runs on GPUs, or not from this tree: no task."""
    only_if_training: bool = False
    """The system runs tests and builds, too: a task counts if it starts a program that uses GPUs."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.name

    @property
    def is_yaml(self) -> bool:
        """Whether the row is for YAML documents."""
        return not self.terraform and not self.calls


@dataclass(frozen=True, slots=True)
class Parts:
    """How one file says which of its parts run before others: the Jobs of a JobSet, the tasks of a pipeline.

    Paths count from the part.
    """

    each: Path
    """The parts, from the document's root."""
    name: Path = "name"
    after: str = ""
    """The key of a part under which the parts are that it waits for."""
    done: Path = ""
    """The names of those of them that have to be at their end."""
    reference: str = ""
    """How a part refers to what the part ``{name}`` has made, for whose end it waits, too."""
    waits: str = ""
    """What is under ``after`` of a part that waits for ``{name}``."""
    joins: bool = False
    """Parts that wait for none start at the same time, and go on doing so: all of them wait for the new one."""
    suffix: str = "-prepare"
    """What the name of a part that prepares another one ends with."""
    called: str = "a job"
    """What a part is called."""


@dataclass(frozen=True, slots=True)
class Split:
    """How what needs no GPU runs before the jobs of a system; only their own files say what both would see.

    Of the rows of a system the first counts whose ``requires`` hold at the document's root.
    """

    system: str
    name: str = ""
    """What tells the row from others of its system."""
    requires: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    """None of these hold."""
    expressions: tuple[str, ...] = ()
    """What expressions in double braces begin with that the system fills in; a file with others is a template."""
    within: Literal["", "argo", "jobset", "tekton", "azureml"] = ""
    """Whose parts of one file are written; a file of its own runs before the job otherwise."""
    parts: Parts | None = None
    """What is known of them."""
    submit: tuple[str, ...] = ()
    """Lines of shell that run ``{stage}``, wait for its end (``{name}``) and start ``{job}``, files of one folder;
    ``{options}`` say where (a namespace), and ``{verb}`` how."""
    instead: str = ""
    """What to do by hand where no such stage is written."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.name or self.system


KINDS = {"format": Format, "split": Split}
