"""Positions in each encoding of characters. Sessions with the server as a process."""

import pytest
from lsprotocol import types

from tests.lsp.conftest import WASTEFUL

UNICODE = WASTEFUL.replace("loader = DataLoader", 'print("😀漢é"); loader = DataLoader').replace(
    "batch = batch.cuda()", 'print("😀"); batch = batch.cuda()'
)


@pytest.mark.parametrize(
    ("encodings", "chosen", "codec"),
    [
        (None, "utf-16", "utf-16-le"),
        (["utf-8", "utf-16"], "utf-8", "utf-8"),
        (["utf-32"], "utf-32", "utf-32-le"),
        (["utf-7"], "utf-16", "utf-16-le"),
    ],
)
async def test_places_behind_emoji_and_cjk(editor, tmp_path, encodings, chosen, codec):
    capabilities = types.ClientCapabilities(general=types.GeneralClientCapabilities(position_encodings=encodings))
    result = await editor.initialize(tmp_path, capabilities=capabilities)
    assert result.capabilities.position_encoding == chosen

    def units(text):
        return len(text.encode(codec)) // {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}[codec]

    lines = UNICODE.split("\n")
    uri = editor.open(tmp_path / "train.py", UNICODE)
    pin = (await editor.diagnostics(uri))[0]
    assert pin.range.start == types.Position(2, units(lines[2][: lines[2].index("DataLoader(")]))
    assert pin.range.end == types.Position(2, units(lines[2]))
    # The editor replaces the call behind the emoji by places in the same unit.
    start = units(lines[5][: lines[5].index("batch = ")])
    copy = "batch = batch.cuda(non_blocking=True)"
    editor.change(uri, 2, (types.Range(types.Position(5, start), types.Position(5, units(lines[5]))), copy))
    assert await editor.codes(uri, 2) == ["GPU301", "GPU207"]
