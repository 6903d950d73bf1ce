"""Calls that send files to a server and return only when they are there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.libraries import Models
from gpulint.libraries.operations import Upload as Row
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.transfers.storage import StorageLocations
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import CallSite, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_COPIES = frozenset(
    (
        "shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.move tensorflow.io.gfile.copy "
        "tensorflow.gfile.Copy"
    ).split()
)
_RUNNERS = frozenset(
    "os.system os.popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output".split()
)
_SENDS = regex.compile(
    "|".join(
        # What the command reads, its first argument, is not on the server.
        rf"^{command}(?:\s+-\S+)*\s+(?!['\"]?{scheme})[^\s-].*\s['\"]?{scheme}"
        for command, scheme in (
            (r"gsutil\s(?:.*\s)?(?:cp|rsync)", "gs://"),
            (r"gcloud\s+storage\s+(?:cp|rsync)", "gs://"),
            (r"aws\s+s3\s+(?:cp|sync|mv)", "s3://"),
            (r"azcopy\s+(?:copy|cp|sync)", "https?://"),
        )
    )
    + r"|^(?:rclone\s+(?:copy|sync)|hdfs\s+dfs\s+-put|hadoop\s+fs\s+-put)\b"
)


_FOLDER = regex.compile(r"file:|sqlite:|\.{0,2}/|\w+$")
"""Tracking servers that are a folder of the machine."""


@dataclass(frozen=True, slots=True)
class Upload(CallSite):
    """One call that uploads; ``name`` is the callee as a reader knows it, or the tool that a command runs."""

    name: str


class UploadTable:
    """What the rows say of calls that upload."""

    def __init__(self, models: Models) -> None:
        rows: tuple[Row, ...] = models.rows("upload")
        self.calls = frozenset(name for row in rows for name in row.calls)
        self.methods = {name: row.owners for row in reversed(rows) for name in row.methods}
        """Method -> what the name of its receiver has in it."""
        self.last_names = frozenset(name.rpartition(".")[2] for name in (*self.calls, *_COPIES, *_RUNNERS))


class Uploads:
    """Uploads in the modules of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._table = project.models.derived(UploadTable)

    def in_module(self, module: ModuleIndex) -> Iterator[Upload]:
        """Uploads of a module in source order."""
        for call in module.calls:
            name = self._name(module, call)
            if not name or (name.startswith("mlflow.") and self._tracks_locally(module)):
                continue
            if self._waits(module, call) and not self.in_thread(module, call):
                yield Upload(NodeRef(module, call), name)

    def _name(self, module: ModuleIndex, call: ast.Call) -> str:
        last = last_name(call.func)
        if last in self._table.methods and isinstance(call.func, ast.Attribute):
            if self._project.fact(Resolver).callees(module, call):
                return ""  # a method of the tree: what it does is found inside
            owner = last_name(call.func.value)
            if owner and any(part in owner.lower() for part in self._table.methods[last]):
                return f"{owner}.{last}"
        if last not in self._table.last_names:
            return ""
        names = self._project.fact(Resolver).call_names(module, call)
        if found := sorted(names & self._table.calls):
            return found[0]
        if names & _COPIES and len(call.args) > 1:
            source, target = (self._project.fact(StorageLocations).of(module, path) for path in call.args[:2])
            return f"{last} to remote storage" if target.is_remote and not source.is_remote else ""
        if names & _RUNNERS and call.args and (match := _SENDS.search(_command(call.args[0]))):
            return match[0].split()[0]
        return ""

    def _tracks_locally(self, module: ModuleIndex) -> bool:
        """Return whether a module has MLflow keep its runs in a folder (``set_tracking_uri("file:./mlruns")``)."""
        calls = module.calls_by_name.get("set_tracking_uri", [])
        given = [self._project.fact(Arguments).value(module, call, "uri", 0) for call in calls]
        return bool(given) and all(
            one.every(lambda uri: isinstance(uri, str) and _FOLDER.match(uri) is not None) for one in given
        )

    def _waits(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether the call does not itself say that it returns at once."""
        for flag in ("blocking", "run_as_future"):
            known = self._project.fact(Arguments).value(module, call, flag)
            if known.any(lambda value: value is (flag == "run_as_future")):  # noqa: B023 - used at once
                return False
        return True

    @staticmethod
    def in_thread(module: ModuleIndex, call: ast.AST) -> bool:
        """Return whether a place is in a function that a thread runs."""
        function = module.function(call)
        if function is None:
            return False
        for start in (*module.calls_by_name.get("Thread", []), *module.calls_by_name.get("submit", [])):
            handed = [*start.args, *(keyword.value for keyword in start.keywords if keyword.arg == "target")]
            if any(last_name(value) == function.name for value in handed):
                return True
        return False


def _command(node: ast.expr) -> str:
    """The text of a command as far as it is written out; ``{}`` stands for what is not."""
    if isinstance(node, ast.List | ast.Tuple):
        return " ".join(_command(part) for part in node.elts)
    if isinstance(node, ast.JoinedStr):
        return "".join(_command(part) for part in node.values)
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.BinOp):
        return _command(node.left) + _command(node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _command(node.func.value)
    return "{}"
