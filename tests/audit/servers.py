"""Real Prometheus servers for tests."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None, reason="Prometheus is not installed"
)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


@contextlib.contextmanager
def prometheus(folder: Path, recorded: str, *options: str, config: str = "global: {}\n") -> Iterator[str]:
    """The address of a server that holds a recorded exposition (OpenMetrics with times; none if empty)."""
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    if recorded:
        (folder / "series.txt").write_text(recorded, encoding="utf-8")
        create = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "series.txt", "data"]
        subprocess.run(create, cwd=folder, check=True, capture_output=True)
    port = free_port()
    command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}",
               "--storage.tsdb.retention.time=100y", *options]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{url}/-/ready", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail((folder / "log").read_text())
        yield url
    finally:
        process.terminate()
        process.wait(30)
