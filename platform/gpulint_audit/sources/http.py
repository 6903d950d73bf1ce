"""Answers of a server that speaks Prometheus' query API: Prometheus, Thanos, VictoriaMetrics, Mimir.

https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from gpulint_audit.errors import AuditError

TOKEN = "GPULINT_PROMETHEUS_TOKEN"
_TIMEOUT_S = 60.0
_TRIES = 3
_BUSY = (429, 502, 503, 504)


class QueryFailed(Exception):
    """A query has no answer; the message is one line."""


class Server:
    """One server. ``warnings`` collects what it says about answers that may lack something."""

    def __init__(self, url: str, pause_s: float = 1.0) -> None:
        self.url = url.rstrip("/")
        self.warnings: dict[str, None] = {}
        self._pause_s = pause_s

    def labels(self, name: str, start: float, end: float) -> list[str]:
        """Values of a label. Raises QueryFailed."""
        data = self._get(f"label/{urllib.parse.quote(name)}/values", {"start": f"{start:.3f}", "end": f"{end:.3f}"})
        return [str(value) for value in data]

    def range(self, query: str, start: float, end: float, step: float) -> list[Mapping[str, Any]]:
        """Series of a range query. Raises QueryFailed."""
        asked = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        return self._result(self._get("query_range", asked), "matrix")

    def instant(self, query: str, at: float) -> list[Mapping[str, Any]]:
        """Series of a query at one time; of a range selector, all raw samples. Raises QueryFailed."""
        return self._result(self._get("query", {"query": query, "time": f"{at:.3f}"}), None)

    def check(self) -> None:
        """Raises AuditError if there is no such server."""
        try:
            self._get("query", {"query": "vector(1)"})
        except QueryFailed as error:
            raise AuditError(f"{self.url}: {error}") from error

    def _result(self, data: Any, wanted: str | None) -> list[Mapping[str, Any]]:
        if not isinstance(data, Mapping) or not isinstance(data.get("result"), list):
            raise QueryFailed("the answer is not that of a Prometheus server")
        if wanted is not None and data.get("resultType") != wanted:
            raise QueryFailed(f"the answer is a {data.get('resultType')}, not a {wanted}")
        result: list[Mapping[str, Any]] = data["result"]
        return result

    def _get(self, path: str, parameters: Mapping[str, str]) -> Any:
        request = urllib.request.Request(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        if token := os.environ.get(TOKEN):
            request.add_header("Authorization", f"Bearer {token}")
        for attempt in range(1, _TRIES + 1):
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                    body = json.load(answer)
                break
            except urllib.error.HTTPError as error:
                if error.code not in _BUSY or attempt == _TRIES:
                    raise QueryFailed(_said(error)) from error
                time.sleep(self._pause_s * attempt)
            except urllib.error.URLError as error:
                raise QueryFailed(
                    f"cannot be reached ({getattr(error.reason, 'strerror', None) or error.reason})"
                ) from error
            except (OSError, EOFError) as error:
                raise QueryFailed(f"the connection broke ({error or type(error).__name__})") from error
            except ValueError as error:
                raise QueryFailed("the answer is cut off, or not that of a Prometheus server") from error
        if not isinstance(body, Mapping) or body.get("status") != "success":
            said = body.get("error", "no reason") if isinstance(body, Mapping) else "not an object"
            raise QueryFailed(f"the server answered with an error: {said}")
        for warning in body.get("warnings") or []:
            self.warnings[str(warning)] = None
        if body.get("isPartial"):  # VictoriaMetrics
            self.warnings["the server answered in part (isPartial)"] = None
        return body.get("data")


def _said(error: urllib.error.HTTPError) -> str:
    """The status, and what the server says about it."""
    try:
        body = error.read(100_000)
        text = str(json.loads(body)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        text = str(error.reason)
    return f"HTTP {error.code}: {' '.join(text.split())[:300]}"
