"""Calls that fetch something, library by library: data sets, weights, URLs and commands."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import passed_as
from gpulint.documents.python import walk
from gpulint.launch.transfer_commands import OWN_HOST
from gpulint.libraries import downloads as tables
from gpulint.libraries.dataset_classes import GRAPH_BASE, class_name, is_class, library_data_set
from gpulint.semantic.points_to import Resolver
from gpulint.transfers.asked_weights import nobody_asks
from gpulint.transfers.download import Download, callee, is_small
from gpulint.transfers.download_table import SHELL_CALLS, URL_CALLS, DownloadTable
from gpulint.transfers.hub_downloads import HubDownloads
from gpulint.transfers.sdk_downloads import sdk_download
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.libraries.operations import Download as Row
    from gpulint.libraries.operations import SdkDownload
    from gpulint.project import Project


FETCHES = regex.compile(
    r"(^|_)(auto_?)?download|^fetch$|(^|_)fetch_(data|file|model|weights|checkpoint|url)", re.IGNORECASE
)
"""Names of functions that are there to download."""
_SHELL_FETCH = regex.compile(
    r"^(sudo )?(wget|curl|aria2c|gdown|axel)\s|^(kaggle|huggingface-cli|hf)\s.*\bdownload\b|"
    r"^(ba)?sh\s+\S*(get|download|fetch)_\w+\.sh\b|^git lfs (pull|clone)"
)
_VECTORS = regex.compile(r"^(glove|fasttext|charngram)\.", re.IGNORECASE)
_HOLDS_CLASS = regex.compile(r"(^|_)(cls|class|class_|dataset|data_set)$")
"""Names of what a class of data sets is kept under: ``self.dataset_cls(root, train=True, download=True)``."""
MAX_MEMBERS = 3
"""How many functions of a dictionary are looked at: they are of a kind."""
_TAKES_URL = regex.compile(r"url|archive|wget\.")
"""Functions whose first argument is a URL."""


class DownloadCalls:
    """Downloads that single calls make, in one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._table = project.models.derived(DownloadTable)
        self._hubs = HubDownloads(project)

    def of(self, module: ModuleIndex, call: ast.Call, offline: bool) -> Download | None:
        name = last_name(call.func)
        row = self._table.hub.get(name)
        if row is not None and not offline and (found := self._hubs.of(module, call, row)):
            return found
        if name == "download" and (found := self._hubs.artifact(module, call)):
            return found
        if (rows := self._table.sdk.get(name)) and (found := self._sdk(module, call, rows)):
            return found
        keywords = {keyword.arg for keyword in call.keywords}
        if "download" in keywords:
            known = self._project.fact(Arguments).value(module, call, "download")
            if known.any(lambda value: value is True):
                return self._data_set(module, call)
            if known.complete:
                return None
        names = self._project.fact(Resolver).call_names(module, call) | self._indirect(module, call.func)
        if not names:
            return self._vectors(module, call) if name == "load_vectors" else None
        return (
            self._always(module, call, names)
            or self._silent_data_set(module, call, names)
            or self._pretrained(module, call, names)
            or self._url(module, call, names)
            or self._shell(module, call, names)
            or (self._vectors(module, call) if name == "load_vectors" else None)
        )

    def _indirect(self, module: ModuleIndex, func: ast.expr) -> frozenset[str]:
        """``models.__dict__[arch]``, ``getattr(models, arch)`` (also kept under a name) and ``BY_NAME[arch]`` call some
        member."""
        names = self._project.fact(Resolver).names
        match func:
            case ast.Subscript(value=ast.Attribute(value=base, attr="__dict__")):
                return frozenset(f"{name}.?" for name in names(module, base))
            case ast.Subscript(value=ast.Name() | ast.Attribute() as table):
                origins = [(ref.module, ref.node) for ref in self._project.fact(Resolver).points_to(module, table)]
                members = ((home, node.values[:MAX_MEMBERS]) for home, node in origins if isinstance(node, ast.Dict))
                return frozenset(name for home, values in members for value in values for name in names(home, value))
            case ast.Call(func=ast.Name(id="getattr"), args=[base, *_]):
                return frozenset(f"{name}.?" for name in names(module, base))
            case ast.Name():
                return frozenset(
                    name
                    for ref in self._project.fact(Resolver).points_to(module, func)
                    if isinstance(ref.node, ast.Call) and last_name(ref.node.func) == "getattr"
                    for name in self._indirect(ref.module, ref.node)
                )
        return frozenset()

    # -- data sets -----------------------------------------------------------------------------------------------------

    def _data_set(self, module: ModuleIndex, call: ast.Call) -> Download | None:
        """``CIFAR10(..., download=True)``, of a library or of a class in the tree that hands the flag on."""
        name = last_name(call.func)
        names = self._project.fact(Resolver).call_names(module, call) | self._indirect(module, call.func)
        if not name[:1].isupper() and not any(
            ".datasets." in full or full.startswith("tensorflow_datasets.") for full in names
        ):
            options = {keyword.arg for keyword in call.keywords}
            if not (_HOLDS_CLASS.search(name) and options & {"train", "root", "split"}):
                return None
            name = "the data set's class"
        if isinstance(call.func, ast.Subscript) or any(full.endswith(".?") for full in names):
            name = "the data set's class"
        return Download(NodeRef(module, call), name, name, "", "data")

    def _silent_data_set(self, module: ModuleIndex, call: ast.Call, names: frozenset[str]) -> Download | None:
        for full in names:
            if (origin := library_data_set(self._project.models, full)) is not None:
                last = class_name(full)
                return Download(NodeRef(module, call), last, last, f"from {origin}", "data")
            if full.endswith(".load_data") and full.startswith(tables.KERAS_DATA_SETS):
                return Download(
                    NodeRef(module, call), callee(call), full.split(".")[-2], "from the Keras mirrors", "data"
                )
        return self._graph_data_set(module, call)

    def _graph_data_set(self, module: ModuleIndex, call: ast.Call) -> Download | None:
        """A class of the tree whose base downloads on first use, its own data or what the class's ``download`` says."""
        if not isinstance(call.func, ast.Name | ast.Attribute) or not is_class(last_name(call.func)):
            return None
        resolver = self._project.fact(Resolver)
        for ref in resolver.points_to(module, call.func):
            if not isinstance(ref.node, ast.ClassDef):
                continue
            bases = resolver.base_names(ref.module, ref.node)
            method = resolver.method(ref.module, ref.node, "download")
            name = ref.node.name
            if method is None or self._hands_up(method):
                origin = next(
                    (origin for base in bases if (origin := library_data_set(self._project.models, base)) is not None),
                    None,
                )
                if origin is not None:
                    return Download(NodeRef(module, call), name, name, f"from {origin}", "data")
            elif any(map(GRAPH_BASE.search, bases)) and self._fetches(method):
                return Download(NodeRef(module, call), name, name, "from the data set's own server", "data")
        return None

    @staticmethod
    def _hands_up(method: NodeRef) -> bool:
        """``super().download()``."""
        return any(
            method.module.function(call) is method.node
            and isinstance(call.func, ast.Attribute)
            and last_name(call.func.value) == "super"
            for call in method.module.calls_by_name.get("download", [])
        )

    def _fetches(self, method: NodeRef) -> bool:
        """Return whether the body of a ``download`` method calls anything that fetches."""
        function = method.node
        assert isinstance(function, FUNCTIONS)
        calls = method.module.calls_of(function)
        return any(self._table.may_fetch(call, False) or FETCHES.search(last_name(call.func)) for call in calls)

    def _vectors(self, module: ModuleIndex, call: ast.Call) -> Download | None:
        if not call.args:
            return None
        known = self._project.fact(Constants).of(module, call.args[0])
        for value in known.values:
            if isinstance(value.value, str) and _VECTORS.search(value.value):
                return Download(
                    NodeRef(module, call),
                    "load_vectors",
                    value.value,
                    "from the vectors' own server",
                    "weights",
                    value.place,
                )
        return None

    # -- weights -------------------------------------------------------------------------------------------------------

    def _pretrained(self, module: ModuleIndex, call: ast.Call, names: frozenset[str]) -> Download | None:
        name = last_name(call.func)
        for full in names:
            if full.startswith(tables.KERAS_MODELS) and name[:1].isupper():
                weights = self._project.fact(Arguments).of(module, call, "weights", 1)
                if weights.is_absent or self._project.fact(Arguments).value(module, call, "weights", 1).any(
                    lambda value: value == "imagenet"
                ):
                    return Download(NodeRef(module, call), name, name, "from the Keras mirrors", "weights")
                return None
        if not any(full.startswith(tables.PRETRAINED) for full in names) or name.startswith(tables.NOT_FACTORIES):
            return None
        for parameter in ("pretrained", "weights", "encoder_weights"):
            argument = self._project.fact(Arguments).of(module, call, parameter)
            if any(self._is_set(ref) for ref in argument.refs) and not nobody_asks(self._project, module, call):
                owner = next(full for full in sorted(names) if full.startswith(tables.PRETRAINED)).partition(".")[0]
                return Download(NodeRef(module, call), callee(call), "", f"pretrained weights of {owner}", "weights")
        return None

    def _is_set(self, ref: NodeRef) -> bool:
        """Return whether ``pretrained=`` or ``weights=`` requests weights."""
        node = ref.node
        if isinstance(node, ast.IfExp):
            test = self._project.fact(Constants).of(ref.module, node.test)
            if test.complete:
                return any(
                    self._is_set(NodeRef(ref.module, node.body if value.value else node.orelse))
                    for value in test.values
                )
            return self._is_set(NodeRef(ref.module, node.body))
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name | ast.Attribute)
            and "Weights" in last_name(node.value)
        ):
            return True
        known = self._project.fact(Constants).of(ref.module, node)
        if known.any(
            lambda value: (
                value is True or (isinstance(value, str) and not re.search(r"[/\\]|\.(pt|pth|h5|ckpt)$|^$", value))
            )
        ):
            return True
        return any(isinstance(r.node, ast.Attribute) and "Weights" in last_name(r.node.value) for r in known.unknown)

    # -- everything else -----------------------------------------------------------------------------------------------

    def _always(self, module: ModuleIndex, call: ast.Call, names: frozenset[str]) -> Download | None:
        for full in sorted(names & self._table.always.keys()):
            first = self._project.fact(Constants).of(module, call.args[0]) if call.args else None
            texts = [value.value for value in first.values if isinstance(value.value, str)] if first is not None else []
            row = self._table.always[full]
            if row.named:
                return self._asset(module, call, row)
            known = first is not None and first.values
            if (
                known
                and _TAKES_URL.search(full)
                and not any("://" in text or "{" in text or not text for text in texts)
            ):
                return None  # a file, or None, by default: whoever runs the program names what it fetches
            if texts and all(text.startswith((".", "/", "~", "gs://")) or is_small(text) for text in texts):
                return None
            if full.startswith("tensorflow_hub.") and not any(text.startswith("http") for text in texts):
                return None
            given = self._project.fact(Arguments)
            if given.value(module, call, "source").any(lambda value: value == "local"):
                return None
            if given.value(module, call, "pretrained").every(lambda value: not value):
                return None
            what = texts[0] if texts and not row.unnamed else ""
            return Download(NodeRef(module, call), callee(call), what, f"from {row.origin}", row.what)
        return None

    def _asset(self, module: ModuleIndex, call: ast.Call, row: Row) -> Download | None:
        """``YOLO("yolo11n.pt")``: a name that the library knows, of which the tree has no file."""
        named = [keyword.value for keyword in call.keywords if (keyword.arg or "").startswith("model")]
        for given in [*call.args[:1], *named]:
            for value in self._project.fact(Constants).of(module, given).values:
                text = value.value
                if not isinstance(text, str) or not re.fullmatch(row.named, text):
                    continue
                if not any(self._project.exists(near / text) for near in (self._project.root, module.path.parent)):
                    place = value.place if value.place.path != module.path else None
                    return Download(NodeRef(module, call), callee(call), text, f"from {row.origin}", row.what, place)
        return None

    def _url(self, module: ModuleIndex, call: ast.Call, names: frozenset[str]) -> Download | None:
        from gpulint.transfers.downloads import Downloads

        if not names & URL_CALLS:
            return None
        argument = passed_as(call, "url", 0)
        if argument is None:
            return None
        texts = [
            value.value
            for value in self._project.fact(Constants).of(module, argument).values
            if isinstance(value.value, str)
        ]
        if not texts and isinstance(argument, ast.BinOp):  # the head of an address with an unknown rest
            heads = self._project.fact(Constants).of(module, argument.left).constants
            texts = [f"{head}{{}}" for head in heads if isinstance(head, str)]
        if any(re.match(r"https?://(localhost|127\.|0\.0|\[|169\.254|metadata)", text) for text in texts):
            return None
        if texts and all(map(is_small, texts)):
            return None
        function = module.function(call)
        is_data = any(text.split("?")[0].lower().endswith(tuple(tables.DATA_SUFFIX)) for text in texts)
        named = function is not None and bool(FETCHES.search(function.name))
        if is_data or named or names & {"urllib.request.urlretrieve", "urllib.urlretrieve"}:
            what = next((text for text in texts if "://" in text), "")
            if not what and not is_data and not self._project.fact(Downloads).is_program(module):
                return None  # a tool for anybody, who knows for what
            return Download(NodeRef(module, call), callee(call), what, "from the internet", "data")
        return None

    def _sdk(self, module: ModuleIndex, call: ast.Call, rows: list[SdkDownload]) -> Download | None:
        from gpulint.transfers.downloads import Downloads

        if module.function(call) is not None and not self._project.fact(Downloads).is_program(module):
            return None  # a tool for anybody, who knows for what
        if module.path.suffix == ".ipynb":
            rows = [row for row in rows if not row.results]
        return sdk_download(self._project, module, call, rows)

    def _shell(self, module: ModuleIndex, call: ast.Call, names: frozenset[str]) -> Download | None:
        if not names & SHELL_CALLS or not call.args:
            return None
        first = call.args[0]
        if isinstance(first, ast.List | ast.Tuple):
            text = " ".join(self._word(module, part) for part in first.elts)
        else:
            text = self._word(module, first)
        if (match := _SHELL_FETCH.search(text)) and not OWN_HOST.search(text):
            return Download(
                NodeRef(module, call),
                match[0].split()[0] if match[2] else "a download script",
                "",
                "from the internet",
                "data",
            )
        return None

    def _word(self, module: ModuleIndex, node: ast.expr) -> str:
        known = self._project.fact(Constants).of(module, node)
        text = next((value.value for value in known.values if isinstance(value.value, str)), None)
        if text is not None:
            return text
        strings = [part.value for part in walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        return "".join(strings)
