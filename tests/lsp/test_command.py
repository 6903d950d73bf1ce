"""The command itself."""

import os
import subprocess
import sys

import pytest

from tests.lsp.conftest import environment


def python(code, cwd, **given):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment(), capture_output=True, text=True, **given
    )


@pytest.mark.parametrize("arguments", [["scan", "."], ["fix", "."], ["rules"], ["--help"]])
def test_no_other_command_imports_it(tmp_path, arguments):
    (tmp_path / "train.py").write_text("import torch\n")
    code = (
        f"import sys; from gpulint.cli import main; main({arguments!r});"
        " sys.exit(any(name.partition('.')[0] in ('pygls', 'lsprotocol') for name in sys.modules))"
    )
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_a_plugin_prints_does_not_reach_the_editor(tmp_path):
    """Standard output belongs to the messages; an editor that dies at once leaves nothing on it."""
    (tmp_path / "gpulint_acme.py").write_text(
        "from gpulint.hooks import hookimpl\nprint('imported')\n@hookimpl\ndef gpulint_rules():\n    print('asked')\n    return []\n"
    )
    info = tmp_path / "acme-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[gpulint]\nacme = gpulint_acme\n")
    body = (
        b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}',
        b'{"jsonrpc": "2.0", "method": "initialized", "params": {}}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": {"uri": "file:///a.py",'
        b' "languageId": "python", "version": 1, "text": ""}}}',
        b'{"jsonrpc": "2.0", "id": 2, "method": "textDocument/hover", "params": {"textDocument": {"uri":'
        b' "file:///a.py"}, "position": {"line": 0, "character": 0}}}',
    )
    environ = environment()
    environ["PYTHONPATH"] += os.pathsep + str(tmp_path)
    server = subprocess.Popen(
        [sys.executable, "-m", "gpulint", "lsp", "--stdio"],
        cwd=tmp_path, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    for message in body:
        server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(message) + message)
    server.stdin.flush()
    answers = b""
    while b'"id": 2' not in answers:  # the hover waits for the check, which loads the plugins
        line = server.stdout.readline()
        assert line, server.stderr.read()
        answers += line
        if line.startswith(b"Content-Length"):
            server.stdout.readline()
            server.stdout.readline()
            answers += server.stdout.read(int(line.split(b":")[1]))
    rest, errors = server.communicate()
    assert b"imported" not in answers + rest and b"asked" not in answers + rest
    assert b"imported" in errors and b"asked" in errors
