"""Made-up rows in the columns of well-known data sets, and metrics that are not at hand."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
import functools
import re
import tempfile
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.script.imports import Action

_NOT_AT_HAND = frozenset(
    "ConnectionError DatasetNotFoundError OfflineModeIsEnabled FileNotFoundError LocalEntryNotFoundError".split()
)
_FORMATS = frozenset("json csv text parquet arrow imagefolder audiofolder pandas webdataset".split())
_MOST_ROWS = 1024
# Words of names and numbers, which are not worth telling.
_SHORT = 4
_MOST_WORDS = 1 << 18
_MOST_PIXELS = 1 << 22
Note = Callable[[str], None]


@functools.cache
def _known() -> dict[str, Any]:
    text = resources.files("gpulint_probe.estimator.script.hub").joinpath("datasets.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def schema_of(path: str, name: str | None = None) -> dict[str, Any] | None:
    """The splits and columns of a data set of the hub; None where it is not known. Owners are not compared."""
    known = _known()
    short = path.rpartition("/")[2]
    for key in (f"{short}/{name}", short):
        found = known["aliases"].get(key, key)
        if found in known and found != "aliases":
            return known[found]
    return None


def rows_of(schema: dict[str, Any], split: str) -> int:
    """Return how many rows are made up of a split: enough for some steps."""
    words = sum(_words(kind) for kind in schema["columns"].values())
    pixels = sum(_pixels(kind) for kind in schema["columns"].values())
    most = min(_MOST_ROWS, _MOST_WORDS // max(words, 1), _MOST_PIXELS * 16 // max(pixels, 1))
    return max(1, min(schema["splits"][split], max(most, 64)))


def _words(kind: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", kind)]
    return numbers[-1] if kind.startswith(("text", "chat", "strings")) else 0


def _pixels(kind: str) -> int:
    width, _, height = kind.partition(":")[2].partition("x")
    return int(width) * int(height) if kind.startswith("image") else 0


def value(kind: str, row: int) -> Any:
    """Return what a column of that kind has in a row."""
    name, _, size = kind.partition(":")
    if name == "text":
        return _text(int(size), row)
    if name == "chat":
        return [{"role": role, "content": _text(int(size), row)} for role in ("user", "assistant")]
    if name == "strings":
        return _text(int(size), row).split()
    if name == "label":
        return row % int(size)
    if name == "labels":
        classes, _, count = size.partition(":")
        return [(row + place) % int(classes) for place in range(int(count))]
    if name == "image":
        from PIL import Image

        width, _, height = size.partition("x")
        return Image.new("RGB", (int(width), int(height)))
    if name == "answers":
        return {"text": [_text(2, row)], "answer_start": [0]}
    return float(row % 7) if name == "float" else row


def _text(words: int, row: int) -> str:
    """Words that the made-up tokenizers know."""
    return " ".join(f"w{200 + (7 * row + place) % 20000}" for place in range(words))


def actions(
    folder: Path, note: Note, made_up: Note, line: Callable[[], str], stack: contextlib.ExitStack
) -> dict[str, Action]:
    """Return what is to be done when libraries of data sets and metrics are imported; files are made in ``folder``."""

    def datasets(module: ModuleType) -> None:
        load = _loading(module, folder, made_up, line)
        for owner in (module, module.load):
            stack.enter_context(mock.patch.object(owner, "load_dataset", load))
        module.disable_progress_bars()
        module.disable_caching()

    def evaluate(module: ModuleType) -> None:
        real = module.load

        def load(path: str, *args: Any, **options: Any) -> Any:
            try:
                return real(path, *args, **options)
            except Exception:
                note(f"the metric {path} is not at hand: it is 0{line()}")
                return _Metric(path)

        stack.enter_context(mock.patch.object(module, "load", load))

    return {"datasets": datasets, "evaluate": evaluate}


class _Metric:
    """A metric of evaluate that is always 0."""

    def __init__(self, name: str) -> None:
        self.name = name

    def add_batch(self, *_: Any, **__: Any) -> None:
        return

    add = add_batch

    def compute(self, *_: Any, **__: Any) -> dict[str, float]:
        return dict.fromkeys(("accuracy", "f1", self.name), 0.0)


def _loading(module: Any, folder: Path, made_up: Note, line: Callable[[], str]) -> Callable[..., Any]:
    real = module.load_dataset

    def load(path: Any, name: Any = None, *args: Any, **options: Any) -> Any:
        if len(args) < 4 and (
            str(path) in _FORMATS or Path(str(path)).exists()
        ):  # what is prepared from own files is written by a library in C++
            options.setdefault("cache_dir", tempfile.mkdtemp(prefix="rows-", dir=folder))
        try:
            return real(path, name, *args, **options)
        except Exception as error:
            if type(error).__name__ not in _NOT_AT_HAND:
                raise
            schema = schema_of(str(path), name or options.get("name"))
            if schema is None and (options.get("data_dir") or options.get("data_files") or "/" not in str(path)):
                raise
            if schema is None:
                raise EstimateError(
                    f"the columns of the data set {path} are not known{line()}; download it once, or pass local files"
                ) from None
            made = _made_up(module, schema, options.get("split"), options.get("streaming", False))
            made_up(f"{path} is not at hand: rows are made up, {_said(schema)}")
            return made

    return load


def _said(schema: dict[str, Any]) -> str:
    kinds = {"text": "words", "chat": "words a message", "strings": "words"}
    parts = []
    for column, kind in schema["columns"].items():
        name, _, size = kind.partition(":")
        if name in kinds and int(size) > _SHORT:
            parts.append(f"{column} of {size} {kinds[name]}")
        elif name == "image":
            parts.append(f"{column} of {size}")
    return ", ".join(parts)


def _made_up(module: Any, schema: dict[str, Any], split: Any, streaming: bool) -> Any:
    names = list(schema["splits"])

    def one(name: str, part: slice = slice(None)) -> Any:
        count = rows_of(schema, name)
        rows = range(count)[part]
        columns = {c: [value(kind, row) for row in rows] for c, kind in schema["columns"].items()}
        made = module.Dataset.from_dict(columns, features=_features(module, schema))
        return made.to_iterable_dataset() if streaming else made

    if split is None:
        kind = module.IterableDatasetDict if streaming else module.DatasetDict
        return kind({name: one(name) for name in names})
    if isinstance(split, list | tuple):
        return [one(*_part(str(item), schema)) for item in split]
    return one(*_part(str(split), schema))


def _part(split: str, schema: dict[str, Any]) -> tuple[str, slice]:
    """Name and rows of ``train``, ``train[:5%]``, ``train[100:200]``."""
    name, _, part = split.partition("[")
    name = name.partition("+")[0].strip()
    if name == "all" or name not in schema["splits"]:
        name = next(iter(schema["splits"]))
    if not part or schema["splits"][name] <= 1:
        return name, slice(None)
    count, given = rows_of(schema, name), schema["splits"][name]
    places = []
    for text in part.rstrip("]").split(":"):
        number = int(re.sub(r"\D", "", text) or 0)
        share = number / 100 if "%" in text else number / given
        places.append(round(share * count) if text else None)
    start, stop = (*places, None)[:2]
    if stop is not None:
        stop = max(stop, (start or 0) + min(64, count))
    return name, slice(None if start is None else min(start, count // 2), stop)


def _features(module: Any, schema: dict[str, Any]) -> Any:
    text, value = module.Value("string"), module.Value
    made: dict[str, Any] = {}
    for column, kind in schema["columns"].items():
        name, _, size = kind.partition(":")
        made[column] = {
            "text": lambda size: text,
            "label": lambda size: module.ClassLabel(num_classes=int(size)),
            "labels": lambda size: module.Sequence(module.ClassLabel(num_classes=int(size.partition(":")[0]))),
            "strings": lambda size: module.Sequence(text),
            "image": lambda size: module.Image(),
            "float": lambda size: value("float32"),
            "integer": lambda size: value("int32"),
            "chat": lambda size: [{"role": text, "content": text}],
            "answers": lambda size: module.Sequence({"text": text, "answer_start": value("int32")}),
        }[name](size)
    return module.Features(made)
