"""Where figures of GPUs come from, and which source is taken: the one that sees most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpulint_probe.sources.base import NoSource, Source, SourceUnavailable

__all__ = ["CHOICES", "NoSource", "Source", "SourceOptions", "SourceUnavailable", "open_source"]

CHOICES = ("auto", "gpm", "nvml", "dcgm", "prometheus", "amd", "none")


@dataclass(frozen=True)
class SourceOptions:
    """What the sources need to know: the wanted GPUs (see selection.wanted_gpus) and where servers are."""

    wanted: list[str] | None = None
    dcgm_url: str | None = None
    prometheus_url: str | None = None
    prometheus_match: str | None = None
    interval_s: float = 1.0


def open_source(choice: str, options: SourceOptions) -> tuple[Source, list[str]]:
    """The chosen source, or with ``auto`` the first that works, and why better ones do not.

    Raises SourceUnavailable where a source was named that does not work; ``auto`` never fails.
    """
    if choice == "none":
        return NoSource(), []
    if choice != "auto":
        return _opener(choice, options)(), []
    reasons: list[str] = []
    # Coarse utilization comes after everything that sees the processors.
    order = ["gpm", "dcgm", *(["prometheus"] if options.prometheus_url else []), "nvml", "amd"]
    for name in order:
        try:
            return _opener(name, options)(), reasons
        except SourceUnavailable as error:
            reasons.append(str(error))
    return NoSource(), list(dict.fromkeys(reasons))


def _opener(choice: str, options: SourceOptions) -> Callable[[], Source]:
    # Each source imports its own library, and only when it is its turn.
    match choice:
        case "gpm" | "nvml":
            from gpulint_probe.sources.nvml import NvmlSource

            return lambda: NvmlSource(options.wanted, gpm=choice == "gpm")
        case "dcgm":
            from gpulint_probe.sources.dcgm import DEFAULT_URL, DcgmSource

            return lambda: DcgmSource(options.wanted, options.dcgm_url or DEFAULT_URL)
        case "prometheus":
            from gpulint_probe.sources.prometheus import PrometheusSource

            url = options.prometheus_url
            if url is None:
                raise SourceUnavailable("--source prometheus needs --prometheus URL")
            return lambda: PrometheusSource(
                options.wanted, url, match=options.prometheus_match, step_s=max(options.interval_s, 15.0)
            )
        case _:
            from gpulint_probe.sources.amd import AmdSource

            return lambda: AmdSource(options.wanted)
