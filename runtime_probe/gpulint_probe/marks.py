"""What a job's output says about what it is doing: epochs, steps, installs, downloads, checkpoints, evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpulint_probe.recording import Mark

_LONGEST = 2000
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_ENDS = re.compile(rb"[\r\n]+")  # progress bars end their lines with a carriage return

_BAR = re.compile(r"\d+%\|.*\| *(?P<value>\d+(?:\.\d+)?[kM]?)/\S+ \[")  # tqdm
_EPOCH = re.compile(r"(?<!num )(?<!max )(?<!total )\bepoch\b['\"]?[\s:=\[(#]*(?P<value>\d+(?:\.\d+)?)", re.I)
_STEP = re.compile(
    r"(?<!max )(?<!total )(?<!per )\b(?:global[_ ])?(?:step|iter|iteration|batch)\b['\"]?[\s:=\[(#]*(?P<value>\d+)",
    re.I,
)
_INSTALL = re.compile(
    r"\s*(?:Collecting \S|Downloading (?:\S+\.(?:whl|conda)|[^/\s]+\.tar\.gz)\b"
    r"|Installing collected packages|Successfully installed"
    r"|Requirement already satisfied|Building wheels?\b|Building editable|Preparing metadata|Solving environment"
    r"|Get:\d+ \S+://|Unpacking \S+ \(|Setting up \S+ \(|Resolved \d+ packages|Installed \d+ packages)"
)
_DOWNLOAD = re.compile(r"\bdownload(?:ing|ed)\b|\bfetching \d+ files\b", re.I)
_SAVING = r"(?:sav(?:e|ed|es|ing)|writing|wrote|written)"
_CHECKPOINT = re.compile(
    rf"\b{_SAVING}\b.*\b(?:checkpoints?|ckpt|models?|weights|state(?:[_ ]dict)?)\b"
    rf"|\b{_SAVING}\b.*\.(?:pt|pth|ckpt|safetensors|h5)\b"
    rf"|\bcheckpoint\b.*\b{_SAVING}\b",
    re.I,
)
_EVAL = re.compile(
    r"[\W\d]*(?:(?:running|start(?:ing)?|begin(?:ning)?|performing) )?"
    r"(?:validat(?:ion|ing|e)|evaluat(?:ion|ing|e)|eval)\b",
    re.I,
)
_LOG = re.compile(
    r"\b(?:load|prepar|preprocess|tokeniz|pars)(?:e|ing|ed) .*\b(?:data|dataset|samples)\b"
    r"|\b(?:start(?:ing|ed)?|begin(?:ning)?|finish(?:ed)?|done|end(?:ed)?) (?:of )?training\b"
    r"|\btraining (?:is )?(?:completed?|finished|done|started)\b",
    re.I,
)


def marks_in(line: str, time_s: float) -> Iterator[Mark]:
    """The marks of one line, without terminal escapes."""
    text = _ESCAPES.sub("", line).strip()
    if not text:
        return

    def mark(kind: str, value: str | None = None) -> Mark:
        return Mark(time_s, kind, text[:200], None if value is None else _number(value))

    if _INSTALL.match(text):
        yield mark("install")
        return
    bar = _BAR.search(text)
    if _DOWNLOAD.search(text):
        yield mark("download", bar["value"] if bar else None)
        return
    if _CHECKPOINT.search(text):
        yield mark("checkpoint")
    if _EVAL.match(text):
        yield mark("eval", bar["value"] if bar else None)
        return
    if found := _EPOCH.search(text):
        yield mark("epoch", found["value"])
    if found := bar or _STEP.search(text):
        yield mark("step", found["value"])
    elif _LOG.search(text):
        yield mark("log")


def _number(text: str) -> float:
    """tqdm may shorten 1500 to 1.5k."""
    return float(text.rstrip("kM")) * {"k": 1e3, "M": 1e6}.get(text[-1], 1)


class MarkFinder:
    """Marks of an output that comes in pieces; not more of one kind than one per interval, as bars redraw often.

    A new epoch always counts, and so does the first mark after one of another kind.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval = interval_s
        self._rest = b""
        self._last: dict[str, Mark] = {}
        self._kind = ""

    def feed(self, piece: bytes, time_s: float) -> list[Mark]:
        """The marks of the lines that ``piece`` completes, which was read at ``time_s``."""
        *lines, self._rest = _ENDS.split(self._rest + piece)
        self._rest = self._rest[-_LONGEST:]
        # Whoever prints thousands of lines at once says nothing more with the ones between.
        if len(lines) > 200:
            lines = lines[:100] + lines[-100:]
        found = []
        for line in lines:
            for mark in marks_in(line[:_LONGEST].decode("utf-8", errors="replace"), time_s):
                if self._counts(mark):
                    self._last[mark.kind] = mark
                    self._kind = mark.kind
                    found.append(mark)
        return found

    def _counts(self, mark: Mark) -> bool:
        last = self._last.get(mark.kind)
        if last is None or mark.time_s - last.time_s >= self._interval:
            return True
        return (mark.kind == "epoch" and mark.value != last.value) or (mark.kind not in ("epoch", "step", self._kind))
