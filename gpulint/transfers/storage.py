"""Where a path leads: object stores and network mounts, the machine's own disks, or nobody can tell."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_URL = regex.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://")
_LOCAL_SCHEMES = frozenset({"file", "sqlite", "memory", "data", "env", "tcp"})
_MOUNTS = regex.compile(
    r"^/(?:gpfs\w*|lustre\w*|nfs\w*|blob\w*|efs|fsx|dbfs|gcs\w*|ceph\w*|weka\w*|beegfs|panfs|afs|gluster\w*|juicefs|"
    r"netscratch|network|nas|s3\w*|goofys|hdfs|cfs|filestore|content/drive)(?:/|$)"
)
_SHARED_MNT = regex.compile(
    r"^/mnt/([^/]*[_-])?(blob|nfs|gpfs|lustre|gcs|s3|efs|fsx|ceph|cephfs|weka|beegfs|gluster|juicefs|hdfs|bucket|azure|aws|gcp|oss|cos"
    r"|minio|remote|network|net|nas|smb|cifs|samba|fuse|gdrive|drive|onedrive|dropbox|cluster|filestore|storage|share|shared)"
    r"(s?|fs|[\d]+)([_-][^/]*)?(?=$|/)",
    re.IGNORECASE,
)
"""Folders below ``/mnt`` that are named for a network or a bucket; a disk of the machine may be any other."""
_LOCAL_MNT = regex.compile(
    r"(^|[/_.-])(local\w*|nvme\w*|ssds?|tmp|temp|scratch|ramdisk|tmpfs|shm|disks?|data|hdds?|[a-z])(?=$|[/_.-])",
    re.IGNORECASE,
)
_LOCAL = regex.compile(r"^/(?:tmp|var/tmp|dev/shm|local\w*|localscratch|localdisk|nvme\w*|ssd|run/shm|opt/ml)(?:/|$)")
_LOCAL_VARIABLE = regex.compile(r"^\$\{?(?:TMPDIR|TMP|TEMP|SLURM_TMPDIR|PBS_JOBFS|LOCALDIR|L_SCRATCH|LOCAL_SCRATCH)\b")
_REMOTE_VARIABLES = frozenset(
    (
        "AMLT_OUTPUT_DIR AMLT_DATA_DIR PT_OUTPUT_DIR PT_DATA_DIR AIP_MODEL_DIR AIP_CHECKPOINT_DIR "
        "AIP_TENSORBOARD_LOG_DIR AZUREML_DATAREFERENCE_OUTPUT"
    ).split()
)
"""Variables that a platform sets to a mounted bucket or blob container."""
_REMOTE_VARIABLE = regex.compile(r"^\$\{?(\w+)")
_TEMPORARY = frozenset(
    (
        "tempfile.mkdtemp tempfile.gettempdir tempfile.TemporaryDirectory tempfile.NamedTemporaryFile "
        "tempfile.mkstemp tempfile.TemporaryFile io.BytesIO io.StringIO"
    ).split()
)

_PATH_CALLS = frozenset(
    (
        "join Path PurePath PosixPath UPath CloudPath S3Path str fspath abspath expanduser normpath realpath open "
        "GFile FileSystemWriter FsspecWriter"
    ).split()
)
_PATH_METHODS = frozenset(
    {"joinpath", "with_suffix", "with_name", "as_posix", "resolve", "absolute", "expanduser", "open", "format"}
)


class Storage(enum.Enum):
    """Where a path leads."""

    REMOTE = "remote"
    LOCAL = "local"
    UNKNOWN = "unknown"
    """A relative path, a home folder, or a value that nothing in the tree decides."""


@dataclass(frozen=True, slots=True)
class Location:
    """A path's storage. ``text`` is the path as known (``{}`` for unknown parts), ``place`` where it is set."""

    storage: Storage
    text: str = ""
    place: Place | None = None

    @property
    def is_remote(self) -> bool:
        return self.storage is Storage.REMOTE

    @property
    def is_local(self) -> bool:
        return self.storage is Storage.LOCAL


UNKNOWN = Location(Storage.UNKNOWN)


def storage_of(path: str, remote_prefixes: Iterable[str] = ()) -> Storage:
    """Storage of a path as written; ``remote_prefixes`` are the user's own (``remote-paths`` in the settings)."""
    if any(f"{path}/".startswith(prefix.rstrip("/") + "/") for prefix in remote_prefixes if prefix):
        return Storage.REMOTE
    if url := _URL.match(path):
        return Storage.LOCAL if url["scheme"].lower() in _LOCAL_SCHEMES else Storage.REMOTE
    if _MOUNTS.match(path):
        return Storage.REMOTE
    if _SHARED_MNT.match(path):
        return Storage.UNKNOWN if _LOCAL_MNT.search(path.removeprefix("/mnt/")) else Storage.REMOTE
    if _LOCAL.match(path) or _LOCAL_VARIABLE.match(path):
        return Storage.LOCAL
    if (variable := _REMOTE_VARIABLE.match(path)) and variable[1] in _REMOTE_VARIABLES:
        return Storage.REMOTE
    return Storage.UNKNOWN


class StorageLocations:
    """Storage of the path expressions of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def of_text(self, path: str, place: Place | None = None) -> Location:
        """Location of a path that is written out (a word of a shell command, a value of a YAML file)."""
        return Location(storage_of(path, self._project.config.remote_paths), path, place)

    def of(self, module: ModuleIndex, node: ast.expr) -> Location:
        """Location of a path expression: remote if any value it may have is, local only if every one is."""
        found = [self._of_origin(module, node)]
        found += [self._of_origin(module, part) for part in _heads(node)]
        remote = next((location for location in found if location.is_remote), None)
        return remote or next((location for location in found if location.is_local), found[0])

    def _of_origin(self, module: ModuleIndex, node: ast.expr) -> Location:
        known = self._project.fact(Constants).of(module, node)
        found = [self.of_text(value.value, value.place) for value in known.values if isinstance(value.value, str)]
        found += [self._of_expression(ref.module, ref.node) for ref in known.unknown]
        if remote := next((location for location in found if location.is_remote), None):
            return remote
        if found and all(location.is_local for location in found):
            return found[0]
        return next((location for location in found if location.text and not location.is_local), UNKNOWN)

    def _of_expression(self, module: ModuleIndex, node: ast.AST) -> Location:
        """Return what an expression without a constant value says itself: a temporary file, a platform's variable."""
        match node:
            case ast.Call(func=func, args=args):
                names = self._project.fact(Resolver).names(module, func)
                if names & _TEMPORARY:
                    return Location(Storage.LOCAL, ast.unparse(node))
                if names & {"os.environ.get", "os.getenv"} and args:
                    return self._variable(module, args[0])
            case ast.Subscript(value=base, slice=key) if "os.environ" in self._project.fact(Resolver).names(
                module, base
            ):
                return self._variable(module, key)
            case ast.BinOp(left=ast.Constant(value=str(head)), op=ast.Add()):
                return self.of_text(head, self._project.fact(Constants).place(NodeRef(module, node)))
        return UNKNOWN

    def _variable(self, module: ModuleIndex, key: ast.expr) -> Location:
        known = self._project.fact(Constants).of(module, key)
        names = [value.value for value in known.values if isinstance(value.value, str)]
        return next(
            (self.of_text(f"${name}", self._project.fact(Constants).place(NodeRef(module, key))) for name in names),
            UNKNOWN,
        )


def _heads(node: ast.expr) -> list[ast.expr]:
    """The leading parts of a path: ``base`` of ``join(base, name)``, ``base / name``, ``f"{base}/name"``."""
    match node:
        case ast.Call(func=func, args=[head, *_]) if last_name(func) in _PATH_CALLS:
            return [head, *_heads(head)]
        case ast.Call(func=ast.Attribute(value=head, attr=attr)) if attr in _PATH_METHODS:
            return [head, *_heads(head)]
        case ast.BinOp(left=head):
            return [head, *_heads(head)]
        case ast.JoinedStr(values=[ast.FormattedValue(value=head), *_]):
            return [head, *_heads(head)]
        case ast.Attribute(value=head, attr="name" | "parent" | "path"):
            return [head]
    return []
