"""Calls that fetch data, weights or scripts from outside of the machine: which one, what, and where from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpulint.facts import download_tables as tables
from gpulint.facts.hub_ids import is_data_set_id, is_model_id
from gpulint.facts.resolve import Ref
from gpulint.facts.scopes import FUNCTIONS, FunctionNode, ModuleScopes, last_name
from gpulint.finding import Place

if TYPE_CHECKING:
    from gpulint.facts.values import Known
    from gpulint.project import Project

_FETCHES = re.compile(
    r"(^|_)(auto_?)?download|^fetch$|(^|_)fetch_(data|file|model|weights|checkpoint|url)", re.IGNORECASE
)
_SHELL = frozenset(
    "os.system subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen os.popen".split()
)
_SHELL_FETCH = re.compile(
    r"^(sudo )?(wget|curl|aria2c|gdown|axel)\s|^(kaggle|huggingface-cli|hf)\s.*\bdownload\b|^(ba)?sh\s+\S*(get|download|fetch)_\w+\.sh\b|^git lfs (pull|clone)"
)
_URL_CALLS = frozenset(
    "requests.get urllib.request.urlopen urllib.request.urlretrieve urllib.urlretrieve urllib2.urlopen six.moves.urllib.request.urlopen six.moves.urllib.request.urlretrieve httpx.get httpx.stream".split()
)
_VECTORS = re.compile(r"^(glove|fasttext|charngram)\.", re.IGNORECASE)
_GRAPH_BASE = re.compile(r"^(torch_geometric\.data\.|dgl\.data\.).*Dataset$")
_OFFLINE = re.compile(
    r"""(HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE|HF_DATASETS_OFFLINE)["']\]?\s*[,=:]+\s*["']?(1|true|on|yes)""",
    re.IGNORECASE,
)
_LIBRARIES = ("torch_geometric", "torchtext", "dgl", "ogb", "keras", "fastai")
_FLAGS = frozenset({"download", "pretrained", "weights", "encoder_weights"})
_NAMES = frozenset(
    {full.rpartition(".")[2] for full in (*tables.ALWAYS, *_SHELL, *_URL_CALLS)}
    | {*tables.HUB_CALLS, "load_data", "load_vectors"}
)
"""Last components of what may fetch something."""
MAX_HELPERS = 4
"""How many calls deep a download helper is followed."""
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


@dataclass(frozen=True, slots=True)
class Download:
    """One call that fetches ``what`` (empty when unknown) ``origin``; ``kind`` is ``data``, ``weights``, ``metric`` or ``file``."""

    call: Ref
    name: str
    """The callee as a reader knows it (``AutoModel.from_pretrained``)."""
    what: str
    origin: str
    kind: str
    place: Place | None = None
    """Where ``what`` is set, if that is elsewhere."""

    @property
    def node(self) -> ast.Call:
        assert isinstance(self.call.node, ast.Call)
        return self.call.node


class Downloads:
    """Downloads in the modules of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._found: dict[int, tuple[Download, ...]] = {}
        self._primitives: dict[int, tuple[Download, ...]] = {}
        self._reaching: dict[FunctionNode, bool] = {}

    def in_module(self, scopes: ModuleScopes) -> tuple[Download, ...]:
        """Downloads of a module in source order; a download helper that other modules call is named where it is called."""
        if id(scopes) not in self._found:
            found = [item for item in self._own(scopes) if not self._hands_on(item)]
            taken = {item.node for item in found}
            found += [item for item in self._helpers(scopes) if item.node not in taken]
            found = [item for item in found if not self._is_helper_body(item)]
            found.sort(key=lambda item: (item.node.lineno, item.node.col_offset))
            self._found[id(scopes)] = tuple(found)
        return self._found[id(scopes)]

    def _own(self, scopes: ModuleScopes) -> tuple[Download, ...]:
        """Calls of known downloaders in a module."""
        if id(scopes) not in self._primitives:
            self._primitives[id(scopes)] = ()  # what asks while this is being found out gets no answer
            text = scopes.module.source.text
            offline = bool(_OFFLINE.search(text))
            silent = any(library in text for library in _LIBRARIES)
            calls = [call for call in scopes.calls if _may_fetch(call, silent)]
            found = (self._of_call(scopes, call, offline) for call in calls)
            self._primitives[id(scopes)] = tuple(item for item in found if item is not None)
        return self._primitives[id(scopes)]

    def _of_call(self, scopes: ModuleScopes, call: ast.Call, offline: bool) -> Download | None:
        name = last_name(call.func)
        if name in tables.HUB_CALLS and not offline and (found := self._hub(scopes, call, name)):
            return found
        keywords = {keyword.arg for keyword in call.keywords}
        if "download" in keywords:
            known = self._project.arguments.value(scopes, call, "download")
            if known.any(lambda value: value is True):
                return self._data_set(scopes, call)
            if known.complete:
                return None
        names = self._project.resolver.call_names(scopes, call) | self._indirect(scopes, call.func)
        if not names:
            return self._vectors(scopes, call) if name == "load_vectors" else None
        return (
            self._always(scopes, call, names)
            or self._silent_data_set(scopes, call, names)
            or self._pretrained(scopes, call, names)
            or self._url(scopes, call, names)
            or self._shell(scopes, call, names)
            or (self._vectors(scopes, call) if name == "load_vectors" else None)
        )

    def _indirect(self, scopes: ModuleScopes, func: ast.expr) -> frozenset[str]:
        """``models.__dict__[arch]`` and ``getattr(models, arch)`` call some member of ``models``."""
        names = self._project.resolver.names
        match func:
            case ast.Subscript(value=ast.Attribute(value=base, attr="__dict__")):
                return frozenset(f"{name}.?" for name in names(scopes, base))
            case ast.Call(func=ast.Name(id="getattr"), args=[base, *_]):
                return frozenset(f"{name}.?" for name in names(scopes, base))
        return frozenset()

    # -- hubs ----------------------------------------------------------------------------------------------------------

    def _hub(self, scopes: ModuleScopes, call: ast.Call, name: str) -> Download | None:
        prefixes, (parameter, position), kind = tables.HUB_CALLS[name]
        names = self._project.resolver.call_names(scopes, call)
        if not any(full.startswith(prefixes) for full in names) and "" not in prefixes:
            return None
        if not prefixes[0] and not self._is_hub_class(scopes, call):
            return None
        if self._project.arguments.value(scopes, call, "local_files_only").any(bool):
            return None
        if name == "load_dataset" and not self._project.arguments.of(scopes, call, "data_files").is_absent:
            return None
        if name == "from_pretrained" and last_name(getattr(call.func, "value", call.func)).startswith("Peft"):
            parameter, position = "model_id", 1
        known = self._identifier(scopes, call, parameter, position)
        near = (self._project.root, scopes.path.parent)
        for value in known.values:
            text = value.value
            if not isinstance(text, str) or self._is_written(scopes, call, text):
                continue
            if kind == "weights":
                hit = is_model_id(text, near) or (
                    name == "SentenceTransformer" and bool(re.fullmatch(r"[\w.-]*-[\w.-]+", text))
                )
            else:
                hit = text not in tables.LOCAL_BUILDERS and is_data_set_id(text, near)
            if hit:
                place = value.place if value.place.path != scopes.path or value.source != "literal" else None
                return Download(Ref(scopes, call), _callee(call), text, f"from {tables.HUB}", kind, place)
        return None

    def _identifier(self, scopes: ModuleScopes, call: ast.Call, parameter: str, position: int | None) -> Known:
        arguments = self._project.arguments
        names = (parameter, *tables.PRETRAINED_PARAMETERS)
        name = next((name for name in names if not arguments.of(scopes, call, name, position).is_absent), parameter)
        known = arguments.value(scopes, call, name, position)
        if known.values:
            return known
        for ref in known.unknown:
            if isinstance(ref.node, ast.arg) and (bound := self._bound(ref.scopes, ref.node)) is not None:
                return bound
        return known

    def _bound(self, scopes: ModuleScopes, parameter: ast.arg) -> Known | None:
        """What ``Actor.remote(...)`` or ``Deployment.bind(...)`` of Ray passes to the constructor of a class."""
        function, owner = scopes.function(parameter), scopes.class_of(parameter)
        if owner is None or function is None or function.name != "__init__":
            return None
        for call in (*scopes.calls_by_name.get("bind", []), *scopes.calls_by_name.get("remote", [])):
            if isinstance(call.func, ast.Attribute) and last_name(call.func.value) in (owner.name, "options"):
                for keyword in call.keywords:
                    if keyword.arg == parameter.arg:
                        return self._project.values.of(scopes, keyword.value)
        return None

    def _is_hub_class(self, scopes: ModuleScopes, call: ast.Call) -> bool:
        """False for a class of the tree that has no base from outside: its ``from_pretrained`` is its own."""
        if not isinstance(call.func, ast.Attribute):
            return False
        resolver = self._project.resolver
        owners = [ref for ref in resolver.origins(scopes, call.func.value) if isinstance(ref.node, ast.ClassDef)]
        for owner in owners:
            assert isinstance(owner.node, ast.ClassDef)
            bases = resolver.base_names(owner.scopes, owner.node)
            if not any(
                base.startswith(("transformers.", "diffusers.", "peft.", "huggingface_hub.", "trl.")) for base in bases
            ):
                return False
        return True

    def _is_written(self, scopes: ModuleScopes, call: ast.Call, text: str) -> bool:
        """Does the program itself save a model under that name before?"""
        for save in scopes.calls_by_name.get("save_pretrained", []):
            if save.lineno < call.lineno and save.args:
                if self._project.values.of(scopes, save.args[0]).any(lambda value: value == text):
                    return True
        return False

    # -- data sets -----------------------------------------------------------------------------------------------------

    def _data_set(self, scopes: ModuleScopes, call: ast.Call) -> Download | None:
        """``CIFAR10(..., download=True)``, of a library or of a class in the tree that hands the flag on."""
        name = last_name(call.func)
        names = self._project.resolver.call_names(scopes, call) | self._indirect(scopes, call.func)
        if not name[:1].isupper() and not any(
            ".datasets." in full or full.startswith("tensorflow_datasets.") for full in names
        ):
            return None
        return Download(Ref(scopes, call), name, name, "", "data")

    def _hands_on(self, item: Download) -> bool:
        """Does the call reach code of the tree whose own download is reported?"""
        callees = self._project.resolver.callees(item.call.scopes, item.node)
        return item.name == item.what and any(self._contains(callee) for callee in callees)

    def _silent_data_set(self, scopes: ModuleScopes, call: ast.Call, names: frozenset[str]) -> Download | None:
        for full in names:
            for prefix, (origin, made_up) in tables.DATA_SET_MODULES.items():
                if not full.startswith(prefix):
                    continue
                parts = full.removesuffix(".splits").removesuffix(".iters").rsplit(".", 1)
                last = parts[-1]
                if (
                    last[:1].isupper()
                    and last not in made_up
                    and last not in tables.NOT_DATA_SETS
                    and "utils" not in parts[0]
                ):
                    if prefix.startswith("ogb.") and not last.endswith("Dataset"):
                        continue
                    return Download(Ref(scopes, call), last, last, f"from {origin}", "data")
            if full.endswith(".load_data") and full.startswith(tables.KERAS_DATA_SETS):
                return Download(Ref(scopes, call), _callee(call), full.split(".")[-2], "from the Keras mirrors", "data")
        return self._graph_data_set(scopes, call)

    def _graph_data_set(self, scopes: ModuleScopes, call: ast.Call) -> Download | None:
        """A class of the tree whose base calls its ``download`` method on first use."""
        if not isinstance(call.func, ast.Name | ast.Attribute) or not last_name(call.func)[:1].isupper():
            return None
        resolver = self._project.resolver
        for ref in resolver.origins(scopes, call.func):
            if isinstance(ref.node, ast.ClassDef) and any(
                _GRAPH_BASE.search(base) for base in resolver.base_names(ref.scopes, ref.node)
            ):
                method = resolver.method(ref.scopes, ref.node, "download")
                if method is not None and self._contains(method):
                    return Download(
                        Ref(scopes, call), ref.node.name, ref.node.name, "from the data set's own server", "data"
                    )
        return None

    def _vectors(self, scopes: ModuleScopes, call: ast.Call) -> Download | None:
        if not call.args:
            return None
        known = self._project.values.of(scopes, call.args[0])
        for value in known.values:
            if isinstance(value.value, str) and _VECTORS.search(value.value):
                return Download(
                    Ref(scopes, call),
                    "load_vectors",
                    value.value,
                    "from the vectors' own server",
                    "weights",
                    value.place,
                )
        return None

    # -- weights -------------------------------------------------------------------------------------------------------

    def _pretrained(self, scopes: ModuleScopes, call: ast.Call, names: frozenset[str]) -> Download | None:
        name = last_name(call.func)
        for full in names:
            if full.startswith(tables.KERAS_MODELS) and name[:1].isupper():
                weights = self._project.arguments.of(scopes, call, "weights", 1)
                if weights.is_absent or self._project.arguments.value(scopes, call, "weights", 1).any(
                    lambda value: value == "imagenet"
                ):
                    return Download(Ref(scopes, call), name, name, "from the Keras mirrors", "weights")
                return None
        if not any(full.startswith(tables.PRETRAINED) for full in names) or name.startswith(("list_", "is_")):
            return None
        for parameter in ("pretrained", "weights", "encoder_weights"):
            argument = self._project.arguments.of(scopes, call, parameter)
            if any(self._is_set(ref) for ref in argument.refs):
                owner = "timm" if any(full.startswith("timm.") for full in names) else "torchvision"
                return Download(Ref(scopes, call), _callee(call), "", f"pretrained weights of {owner}", "weights")
        return None

    def _is_set(self, ref: Ref) -> bool:
        """Does ``pretrained=`` or ``weights=`` ask for weights?"""
        node = ref.node
        if isinstance(node, ast.IfExp):
            test = self._project.values.of(ref.scopes, node.test)
            if test.complete:
                return any(
                    self._is_set(Ref(ref.scopes, node.body if value.value else node.orelse)) for value in test.values
                )
            return self._is_set(Ref(ref.scopes, node.body))
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name | ast.Attribute)
            and "Weights" in last_name(node.value)
        ):
            return True
        known = self._project.values.of(ref.scopes, node)
        if known.any(
            lambda value: (
                value is True or (isinstance(value, str) and not re.search(r"[/\\]|\.(pt|pth|h5|ckpt)$|^$", value))
            )
        ):
            return True
        return any(isinstance(r.node, ast.Attribute) and "Weights" in last_name(r.node.value) for r in known.unknown)

    # -- everything else -----------------------------------------------------------------------------------------------

    def _always(self, scopes: ModuleScopes, call: ast.Call, names: frozenset[str]) -> Download | None:
        for full in sorted(names & tables.ALWAYS.keys()):
            first = self._project.values.of(scopes, call.args[0]) if call.args else None
            texts = [str(value.value) for value in first.values] if first is not None else []
            if texts and all(text.startswith((".", "/", "~", "gs://")) for text in texts):
                return None
            if full.startswith("tensorflow_hub.") and not any(text.startswith("http") for text in texts):
                return None
            if self._project.arguments.value(scopes, call, "source").any(lambda value: value == "local"):
                return None
            origin, kind = tables.ALWAYS[full]
            return Download(Ref(scopes, call), _callee(call), texts[0] if texts else "", f"from {origin}", kind)
        return None

    def _url(self, scopes: ModuleScopes, call: ast.Call, names: frozenset[str]) -> Download | None:
        if not names & _URL_CALLS:
            return None
        argument = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "url"), None)
        if argument is None:
            return None
        texts = [
            value.value for value in self._project.values.of(scopes, argument).values if isinstance(value.value, str)
        ]
        if any(re.match(r"https?://(localhost|127\.|0\.0|\[|169\.254|metadata)", text) for text in texts):
            return None
        function = scopes.function(call)
        is_data = any(text.split("?")[0].lower().endswith(tuple(tables.DATA_SUFFIX)) for text in texts)
        named = function is not None and bool(_FETCHES.search(function.name))
        if is_data or named or names & {"urllib.request.urlretrieve", "urllib.urlretrieve"}:
            what = next((text for text in texts if "://" in text), "")
            return Download(Ref(scopes, call), _callee(call), what, "from the internet", "data")
        return None

    def _shell(self, scopes: ModuleScopes, call: ast.Call, names: frozenset[str]) -> Download | None:
        if not names & _SHELL or not call.args:
            return None
        first = call.args[0]
        if isinstance(first, ast.List | ast.Tuple):
            text = " ".join(self._word(scopes, part) for part in first.elts)
        else:
            text = self._word(scopes, first)
        if match := _SHELL_FETCH.search(text):
            return Download(
                Ref(scopes, call),
                match[0].split()[0] if match[2] else "a download script",
                "",
                "from the internet",
                "data",
            )
        return None

    def _word(self, scopes: ModuleScopes, node: ast.expr) -> str:
        known = self._project.values.of(scopes, node)
        text = next((value.value for value in known.values if isinstance(value.value, str)), None)
        if text is not None:
            return text
        strings = [
            part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
        return "".join(strings)

    # -- helpers of the tree -------------------------------------------------------------------------------------------

    def _helpers(self, scopes: ModuleScopes) -> Iterator[Download]:
        """Calls of download helpers that stand in other modules."""
        for name, calls in scopes.calls_by_name.items():
            if not _FETCHES.search(name) and not name.startswith("check_"):
                continue
            for call in calls:
                for callee in self._project.resolver.callees(scopes, call):
                    if (
                        callee.scopes is scopes
                        or not isinstance(callee.node, FUNCTIONS)
                        or callee.node.name == "__init__"
                    ):
                        continue
                    if self._is_fetcher(callee.node) and self._reaches(callee):
                        yield Download(
                            Ref(scopes, call),
                            _callee(call),
                            "",
                            "from outside",
                            "data",
                            self._project.values.place(callee),
                        )
                        break

    @staticmethod
    def _is_fetcher(function: FunctionNode) -> bool:
        if _FETCHES.search(function.name):
            return True
        args = [*function.args.posonlyargs, *function.args.args]
        defaults = dict(
            zip([a.arg for a in args[len(args) - len(function.args.defaults) :]], function.args.defaults, strict=True)
        )
        return any(
            name in ("download", "autodownload", "auto_download")
            and isinstance(value, ast.Constant)
            and value.value is True
            for name, value in defaults.items()
        )

    def _contains(self, function: Ref) -> bool:
        return any(function.node in item.call.scopes.module.ancestors(item.node) for item in self._own(function.scopes))

    def _reaches(self, function: Ref) -> bool:
        """Does a function of the tree download something, itself or through functions that it calls?"""
        if not isinstance(function.node, FUNCTIONS):
            return False
        if function.node not in self._reaching:
            seen: set[ast.AST] = set()
            level = [function]
            for _ in range(MAX_HELPERS):
                level = [ref for ref in level if isinstance(ref.node, FUNCTIONS) and ref.node not in seen]
                if any(self._contains(ref) for ref in level):
                    break
                seen.update(ref.node for ref in level)
                level = [callee for ref in level for callee in self._callees(ref)]
            else:
                level = []
            self._reaching[function.node] = bool(level)
        return self._reaching[function.node]

    def _callees(self, function: Ref) -> Iterator[Ref]:
        for call in function.scopes.calls:
            if function.node in function.scopes.module.ancestors(call):
                yield from self._project.resolver.callees(function.scopes, call)

    def _is_helper_body(self, item: Download, depth: int = 3) -> bool:
        """Does the call stand in a download helper that only other modules (or other such helpers) call?"""
        scopes, function = item.call.scopes, item.call.scopes.function(item.node)
        if self._in_graph_data_set(scopes, item.node):
            return True
        return function is not None and self._is_called_elsewhere(scopes, function, depth)

    def _is_called_elsewhere(self, scopes: ModuleScopes, function: FunctionNode, depth: int) -> bool:
        if not depth or not self._is_fetcher(function):
            return False
        sites = self._project.resolver.call_sites(scopes, function)
        here = [site for site in sites if site.scopes is scopes]
        for site in here:
            outer = scopes.function(site.node)
            if outer is function:
                continue
            if outer is None or not self._is_called_elsewhere(scopes, outer, depth - 1):
                return False
        return bool(sites)

    def _in_graph_data_set(self, scopes: ModuleScopes, node: ast.AST) -> bool:
        owner = scopes.class_of(node)
        function = scopes.function(node)
        if owner is None or function is None or function.name not in ("download", "_download"):
            return False
        return any(_GRAPH_BASE.search(base) for base in self._project.resolver.base_names(scopes, owner))


def _may_fetch(call: ast.Call, silent: bool) -> bool:
    """A cheap first look, by names alone; ``silent`` when the module uses a library whose data sets download unasked."""
    name = last_name(call.func)
    if name == "get":  # of dictionaries, most of the time
        return isinstance(call.func, ast.Attribute) and last_name(call.func.value) in ("requests", "httpx")
    if name in _NAMES or any(keyword.arg in _FLAGS for keyword in call.keywords):
        return True
    return silent and (name[:1].isupper() or name in ("splits", "iters"))


def _callee(call: ast.Call) -> str:
    """The last two components of what is called."""
    func = call.func
    if isinstance(func, ast.Attribute) and (owner := last_name(func.value)) and owner != "__dict__":
        return f"{owner}.{func.attr}"
    if isinstance(func, ast.Subscript | ast.Call):
        return "the model factory"
    return last_name(func)
