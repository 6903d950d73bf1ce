"""``gpulint comment`` keeps one comment on a pull or merge request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main

MARK = "<!-- gpulint -->"


class Forge(HTTPServer):
    """Comments of one request, in the form that both GitHub and GitLab have."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str, str]] = []
        self.foreign: set[int] = set()
        self.status = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Forge

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        token = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
        self.server.asked.append((self.command, path, token))
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        status, answer = 200, None
        if self.server.status:
            status = self.server.status
        elif self.command == "GET":
            page = int(query.rpartition("page=")[2])
            answer = self.server.comments[(page - 1) * 100 : page * 100]
        elif self.command == "POST":
            answer = {"id": len(self.server.comments) + 1, **body}
            self.server.comments.append(answer)
        else:
            number = int(path.rpartition("/")[2])
            status = 403 if number in self.server.foreign else 200
            if status == 200:
                self.server.comments[number - 1] |= body
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    do_GET = do_POST = do_PATCH = do_PUT = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def forge() -> Iterator[Forge]:
    server = Forge()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def on_github(forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    monkeypatch.delenv("CI_PROJECT_ID", raising=False)
    monkeypatch.setenv("GITHUB_API_URL", forge.url)
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    return forge


def _report(tmp_path: Path, text: str) -> str:
    path = tmp_path / "report.md"
    path.write_text(f"{MARK}\n\n{text}\n")
    return str(path)


def test_each_run_updates_the_first_comment(on_github: Forge, tmp_path: Path) -> None:
    on_github.comments += [{"id": number, "body": "a remark"} for number in range(1, 131)]
    assert main(["comment", _report(tmp_path, "one")]) == 0
    assert main(["comment", _report(tmp_path, "two")]) == 0
    assert main(["comment", _report(tmp_path, "two")]) == 0
    ours = [comment["body"] for comment in on_github.comments if comment["body"].startswith(MARK)]
    assert ours == [f"{MARK}\n\ntwo\n"]
    assert [asked for asked in on_github.asked if asked[0] != "GET"] == [
        ("POST", "/repos/owner/name/issues/7/comments", "Bearer secret"),
        ("PATCH", "/repos/owner/name/issues/comments/131", "Bearer secret"),
    ]


def test_a_comment_of_somebody_else_stays(on_github: Forge, tmp_path: Path) -> None:
    on_github.comments.append({"id": 1, "body": f"{MARK} quoted"})
    on_github.foreign.add(1)
    assert main(["comment", _report(tmp_path, "one")]) == 0
    assert [comment["body"] for comment in on_github.comments] == [f"{MARK} quoted", f"{MARK}\n\none\n"]


def test_a_clean_change_gets_no_comment(on_github: Forge, tmp_path: Path) -> None:
    assert main(["comment", "--update-only", _report(tmp_path, "no new findings")]) == 0
    assert on_github.comments == []


def test_on_gitlab(forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    monkeypatch.setenv("CI_API_V4_URL", f"{forge.url}/api/v4")
    monkeypatch.setenv("CI_PROJECT_ID", "12")
    monkeypatch.setenv("CI_MERGE_REQUEST_IID", "3")
    monkeypatch.setenv("GITLAB_TOKEN", "secret")
    for text in ("one", "two"):
        assert main(["comment", _report(tmp_path, text)]) == 0
    assert [asked for asked in forge.asked if asked[0] != "GET"] == [
        ("POST", "/api/v4/projects/12/merge_requests/3/notes", "secret"),
        ("PUT", "/api/v4/projects/12/merge_requests/3/notes/1", "secret"),
    ]


def test_a_branch_without_a_pull_request(
    on_github: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    event = tmp_path / "push.json"
    event.write_text("{}")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    assert main(["comment", _report(tmp_path, "one")]) == 0
    assert "nothing to do" in capsys.readouterr().err
    assert on_github.asked == []


def test_a_server_that_refuses(on_github: Forge, tmp_path: Path, capsys: Any) -> None:
    on_github.status = 401
    assert main(["comment", _report(tmp_path, "one")]) == 1
    err = capsys.readouterr().err
    assert "HTTP 401" in err
    assert "secret" not in err


def test_a_server_that_is_gone(on_github: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    assert main(["comment", _report(tmp_path, "one")]) == 1
    assert "refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda env, path: env.setenv("GITHUB_TOKEN", ""), "GITHUB_TOKEN is not set"),
        (lambda env, path: env.delenv("GITHUB_REPOSITORY"), "runs in jobs of GitHub Actions and GitLab CI"),
        (lambda env, path: env.setenv("GITHUB_EVENT_PATH", "/nowhere"), "/nowhere: cannot be read"),
        (lambda env, path: path.write_text("# another report"), "no report of"),
        (lambda env, path: path.write_bytes(b"\xff"), "not UTF-8"),
        (lambda env, path: path.unlink(), "cannot be read"),
    ],
)
def test_mistakes(
    prepare: Any, said: str, on_github: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    report = _report(tmp_path, "one")
    prepare(monkeypatch, Path(report))
    assert main(["comment", report]) == 2
    assert said in capsys.readouterr().err
    assert on_github.asked == []
