"""Notebooks, whose cells are documents of their own. Sessions with the server as a process."""

import json
import shutil

from lsprotocol import types

from tests.lsp.conftest import ALL, EVERYTHING, REPOSITORY, WASTEFUL, applied, place

CELLS = ["import torch\nfrom torch.utils.data import DataLoader\n", "# Title", WASTEFUL.split("\n", 2)[2]]


def cell_uri(path, number):
    return f"vscode-notebook-cell:{path}#{number}"


def open_notebook(editor, path, cells):
    kinds = [types.NotebookCellKind.Markup if text.startswith("# ") else types.NotebookCellKind.Code for text in cells]
    uris = [cell_uri(path, number) for number in range(len(cells))]
    params = types.DidOpenNotebookDocumentParams(
        types.NotebookDocument(
            path.as_uri(),
            "jupyter-notebook",
            1,
            [types.NotebookCell(kind, uri) for kind, uri in zip(kinds, uris, strict=True)],
        ),
        [types.TextDocumentItem(uri, "python", 1, text) for uri, text in zip(uris, cells, strict=True)],
    )
    editor.client.notebook_document_did_open(params)
    return uris


def change_notebook(editor, path, version, **cells):
    params = types.DidChangeNotebookDocumentParams(
        types.VersionedNotebookDocumentIdentifier(version, path.as_uri()),
        types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(**cells)),
    )
    editor.client.notebook_document_did_change(params)


async def test_cells_of_a_notebook_have_their_own_diagnostics(editor, tmp_path):
    path = tmp_path / "train.ipynb"
    await editor.initialize(tmp_path)
    uris = open_notebook(editor, path, CELLS)
    assert await editor.codes(uris[2]) == ALL
    assert await editor.codes(uris[0]) == [] and await editor.codes(uris[1]) == []
    found = (await editor.diagnostics(uris[2]))[0]
    assert found.range.start == types.Position(0, 9)
    assert found.related_information[0].location.uri == uris[2]
    fix = (await editor.actions(uris[2], found.range))[0]
    (change,) = fix.edit.document_changes
    assert change.text_document.uri == uris[2]
    assert "pin_memory=True" in applied(CELLS[2], change.edits)


async def test_a_notebook_changes_cell_by_cell(editor, tmp_path):
    path = tmp_path / "train.ipynb"
    await editor.initialize(tmp_path)
    uris = open_notebook(editor, path, CELLS)
    await editor.codes(uris[2])
    text = types.NotebookDocumentCellContentChanges(
        types.VersionedTextDocumentIdentifier(2, uris[2]),
        [types.TextDocumentContentChangePartial(range=place(CELLS[2], "    torch.cuda.empty_cache()\n"), text="")],
    )
    change_notebook(editor, path, 2, text_content=[text])
    assert await editor.codes(uris[2], 2) == ["GPU301", "GPU302"]
    new = cell_uri(path, "new")
    structure = types.NotebookDocumentCellChangeStructure(
        types.NotebookCellArrayChange(0, 0, [types.NotebookCell(types.NotebookCellKind.Code, new)]),
        did_open=[types.TextDocumentItem(new, "python", 1, "x = (")],
    )
    change_notebook(editor, path, 3, structure=structure)
    await editor.settled(new, {"unreadable"})
    structure = types.NotebookDocumentCellChangeStructure(
        types.NotebookCellArrayChange(0, 1, []), did_close=[types.TextDocumentIdentifier(new)]
    )
    change_notebook(editor, path, 4, structure=structure)
    await editor.settled(new, set())
    await editor.settled(uris[2], {"GPU301", "GPU302"})
    params = types.DidCloseNotebookDocumentParams(
        types.NotebookDocumentIdentifier(path.as_uri()), [types.TextDocumentIdentifier(uri) for uri in uris]
    )
    editor.client.notebook_document_did_close(params)
    await editor.settled(uris[2], set())


async def test_fix_all_in_a_notebook(editor, tmp_path):
    path = tmp_path / "train.ipynb"
    await editor.initialize(tmp_path)
    uris = open_notebook(editor, path, CELLS)
    (action,) = await editor.actions(uris[2], EVERYTHING, only=["source.fixAll.gpulint"])
    (change,) = action.edit.document_changes
    assert change.text_document.uri == uris[2]
    text = applied(CELLS[2], change.edits)
    assert "pin_memory=True" in text and "empty_cache" in text


async def test_a_notebook_opened_as_the_json_it_is(editor, tmp_path):
    path = tmp_path / "train.ipynb"
    shutil.copy(REPOSITORY / "examples/notebook/wasteful/forecast.ipynb", path)
    await editor.initialize(tmp_path)
    uri, version, text = editor.open(path, language="json"), 1, path.read_text()
    for wanted in ("DataLoader(", "total +="):
        found = await editor.diagnostics(uri, version)
        lines = text.splitlines()
        shown = next(item for item in found if wanted in lines[item.range.start.line])
        fix = next(item for item in await editor.actions(uri, shown.range) if item.is_preferred)
        text, version = applied(text, fix.edit.document_changes[0].edits), version + 1
        assert json.loads(text)["cells"]
        editor.change(uri, version, text)
        assert len(await editor.codes(uri, version)) < len(found)
