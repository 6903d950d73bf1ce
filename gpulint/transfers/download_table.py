"""What the rows say of calls that download, all libraries together."""

from __future__ import annotations

import ast

from gpulint.libraries import Models
from gpulint.libraries.dataset_classes import is_class
from gpulint.libraries.operations import DataSets, HubAlias, HubDownload, SdkDownload
from gpulint.libraries.operations import Download as Row
from gpulint.workspace.module_index import ModuleIndex, last_name

SHELL_CALLS = frozenset(
    (
        "os.system os.popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output "
        "subprocess.Popen"
    ).split()
)


URL_CALLS = frozenset(
    (
        "requests.get urllib.request.urlopen urllib.request.urlretrieve urllib.urlretrieve urllib2.urlopen "
        "six.moves.urllib.request.urlopen six.moves.urllib.request.urlretrieve httpx.get httpx.stream"
    ).split()
)


_UNASKED = frozenset({"keras", "fastai"})
"""Packages whose functions for data sets download unasked."""


_FLAGS = frozenset({"download", "pretrained", "weights", "encoder_weights"})


class DownloadTable:
    """What the rows say of calls that fetch something, by their names."""

    def __init__(self, models: Models) -> None:
        self.hub: dict[str, HubDownload] = {row.name: row for row in reversed(models.rows("hub-download"))}
        self.aliases: tuple[HubAlias, ...] = models.rows("hub-alias")
        rows: tuple[Row, ...] = models.rows("download")
        self.always = {name: row for row in reversed(rows) for name in row.calls}
        sdks: tuple[SdkDownload, ...] = models.rows("sdk-download")
        self.sdk: dict[str, list[SdkDownload]] = {}
        """Rows on clients of storage, by the method that fetches."""
        for sdk in sdks:
            for method in sdk.methods:
                self.sdk.setdefault(method, []).append(sdk)
        full = (*self.always, *SHELL_CALLS, *URL_CALLS)
        self.last_names = frozenset(
            {name.rpartition(".")[2] for name in full} | {*self.hub, *self.sdk, "load_data", "load_vectors"}
        )
        """Last components of what may fetch something."""
        sets: tuple[DataSets, ...] = models.rows("data-sets")
        self.packages = _UNASKED | {module.partition(".")[0] for row in sets for module in row.modules}
        """Packages whose data sets download unasked."""

    def may_fetch(self, call: ast.Call, silent: bool) -> bool:
        """A first look by names alone; ``silent``: the module uses a library whose data sets download unasked."""
        name = last_name(call.func)
        if name == "get":  # of dictionaries, most of the time
            return isinstance(call.func, ast.Attribute) and last_name(call.func.value) in ("requests", "httpx")
        return self._may_fetch(name, silent) or any(keyword.arg in _FLAGS for keyword in call.keywords)

    def calls(self, module: ModuleIndex, silent: bool) -> list[ast.Call]:
        """The calls of a module that may fetch something."""
        text = module.syntax.source.text
        if any(flag in text for flag in _FLAGS):
            return [call for call in module.calls if self.may_fetch(call, silent)]
        candidates = module.calls_where(lambda name: name == "get" or self._may_fetch(name, silent))
        return [call for call in candidates if self.may_fetch(call, silent)]

    def _may_fetch(self, name: str, silent: bool) -> bool:
        return name in self.last_names or (silent and (is_class(name) or name in ("splits", "iters")))
