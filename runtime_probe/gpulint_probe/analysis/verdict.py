"""The verdict: causes ranked by the GPU time that they cost, each with the static findings that explain it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpulint_probe.analysis.causes import Cause, Piece
from gpulint_probe.analysis.pauses import Rhythm, rhythm
from gpulint_probe.analysis.program import StaticFinding
from gpulint_probe.analysis.words import duration, listed, number, percent

_MOST_REASONS = 5
"""Reasons of single pauses differ in their figures only."""
WORTH_NAMING = 0.01
"""Causes of a smaller share are left out of the page, not of the JSON."""

CODES: dict[Cause, tuple[str, ...]] = {
    Cause.UNUSED: ("GPU103", "GPU104", "GPU411", "GPU413", "GPU415", "GPU412", "GPU352", "GPU106"),
    Cause.INSTALL: ("GPU401",),
    Cause.DOWNLOAD: ("GPU331", "GPU332"),
    Cause.START: ("GPU401", "GPU331", "GPU332", "GPU311", "GPU101", "GPU102"),
    Cause.TAIL: ("GPU105", "GPU341", "GPU102", "GPU101"),
    Cause.CHECKPOINT: ("GPU211", "GPU341"),
    Cause.EVALUATION: ("GPU202", "GPU203"),
    Cause.INPUT: ("GPU303", "GPU311", "GPU304", "GPU321", "GPU307", "GPU301", "GPU302", "GPU306"),
    Cause.TRANSFER: ("GPU302", "GPU301", "GPU306", "GPU305"),
    Cause.SMALL_BATCH: ("GPU201", "GPU202", "GPU305", "GPU207", "GPU414", "GPU303", "GPU311", "GPU302", "GPU301"),
    Cause.PAUSES: ("GPU211", "GPU341", "GPU304", "GPU321", "GPU202", "GPU207", "GPU102"),
    Cause.LOW: ("GPU305", "GPU302", "GPU207", "GPU414", "GPU355", "GPU352", "GPU354", "GPU353", "GPU303", "GPU201"),
    Cause.BUSY: (),
}
"""The rules whose findings explain a cause, the most telling first."""


@dataclass(frozen=True, slots=True)
class Loss:
    """GPU time lost to one cause: ``gpu_seconds``, and as a share of all seen GPU time; ``seconds`` is how long it
    took on the GPU that it hit most. ``certain`` where the series or the log says so, not only the host."""

    cause: Cause
    gpu_seconds: float
    share: float
    seconds: float
    gpus: tuple[int, ...]
    rhythm: Rhythm | None
    reasons: tuple[str, ...]
    certain: bool
    findings: tuple[StaticFinding, ...] = ()

    @property
    def sentence(self) -> str:
        """``31% of GPU time lost in 96 s pauses every 168 s: train.py:140: ... (GPU211)``."""
        text = f"{percent(self.share)} of GPU time lost {_how(self)}"
        if self.findings:
            text += f": {self.findings[0]}"
        return text


def losses(
    pieces: Sequence[Piece], seen_gpu_seconds: float, findings: Iterable[StaticFinding] = ()
) -> tuple[Loss, ...]:
    """One loss for each cause, the largest first; their GPU seconds add up to all that was lost."""
    by_cause: dict[Cause, list[Piece]] = {}
    for piece in pieces:
        by_cause.setdefault(piece.cause, []).append(piece)
    known = list(findings)
    found = [_loss(cause, group, seen_gpu_seconds, known) for cause, group in by_cause.items()]
    return tuple(
        sorted((loss for loss in found if loss.gpu_seconds > 0), key=lambda loss: (-loss.gpu_seconds, loss.cause))
    )


def worth_naming(found: Sequence[Loss]) -> tuple[Loss, ...]:
    """The losses that a reader can act on."""
    return tuple(loss for loss in found if loss.cause is not Cause.BUSY and loss.share >= WORTH_NAMING)


def _loss(cause: Cause, pieces: list[Piece], whole: float, findings: list[StaticFinding]) -> Loss:
    by_gpu: dict[int, list[Piece]] = {}
    for piece in pieces:
        by_gpu.setdefault(piece.stretch.gpu, []).append(piece)
    times = {gpu: _joined(group) for gpu, group in by_gpu.items()}
    worst = max(times.values(), key=lambda ranges: sum(end - start for start, end in ranges))
    lost = sum(piece.stretch.lost for piece in pieces)
    codes = CODES[cause]
    explaining = [finding for finding in findings if finding.code in codes]
    return Loss(
        cause,
        lost,
        lost / whole if whole else 0.0,
        sum(end - start for start, end in worst),
        tuple(sorted(by_gpu)),
        rhythm(worst),
        tuple(dict.fromkeys(piece.reason for piece in pieces if piece.reason))[:_MOST_REASONS],
        all(piece.certain for piece in pieces),
        tuple(sorted(explaining, key=lambda finding: codes.index(finding.code))),
    )


def _joined(pieces: list[Piece]) -> list[tuple[float, float]]:
    """(start, end) of adjoining pieces, in order of time."""
    found: list[tuple[float, float]] = []
    for piece in sorted(pieces, key=lambda piece: piece.stretch.start):
        if found and piece.stretch.start - found[-1][1] < 1e-6:
            found[-1] = found[-1][0], piece.stretch.end
        else:
            found.append((piece.stretch.start, piece.stretch.end))
    return found


def _how(loss: Loss) -> str:
    """How the time was lost, as the end of a sentence."""
    gpus = f"GPU {listed([str(gpu) for gpu in loss.gpus])}"
    match loss.cause:
        case Cause.UNUSED:
            return f"on {number(len(loss.gpus), 'GPU')} that did nothing ({gpus})"
        case Cause.INSTALL:
            return f"in {duration(loss.seconds)} of package installation at the start"
        case Cause.DOWNLOAD:
            return f"in {duration(loss.seconds)} of downloads at the start"
        case Cause.START:
            return f"in {duration(loss.seconds)} of start-up before the first work on the GPU"
        case Cause.TAIL:
            return f"in {duration(loss.seconds)} after the last work on the GPU"
        case Cause.CHECKPOINT:
            # A finding says itself that it saves a checkpoint.
            return f"in {_pauses(loss, '')}" + ("" if loss.findings else f", for checkpoints{_likely(loss)}")
        case Cause.PAUSES:
            return f"in {_pauses(loss, '')}, cause not seen"
        case Cause.EVALUATION:
            return f"in {_pauses(loss, 'evaluation ')}"
        case Cause.INPUT:
            return f"waiting for input{_likely(loss)}"
        case Cause.TRANSFER:
            return f"in transfers between host and GPU{_likely(loss)}"
        case Cause.SMALL_BATCH:
            return f"to batches that are small for the card{_likely(loss)}"
        case Cause.LOW:
            return "to steadily low activity, cause not seen"
        case Cause.BUSY:
            return "to the distance from full activity while busy"


def _likely(loss: Loss) -> str:
    return "" if loss.certain else " (likely)"


def _pauses(loss: Loss, kind: str) -> str:
    found = loss.rhythm
    assert found is not None
    if found.period_s is not None:
        return f"{duration(found.length_s)} {kind}pauses every {duration(found.period_s)}"
    if found.count == 1:
        return f"one {kind}pause of {duration(found.length_s)}"
    return f"{found.count} {kind}pauses of {duration(found.length_s)}"
