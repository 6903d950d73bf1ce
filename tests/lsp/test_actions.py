"""Code actions and hover texts. Sessions with the server as a process."""

import shutil

import pytest
from lsprotocol import types

from tests.lsp.conftest import CAPABILITIES, EVERYTHING, LOADER, REPOSITORY, WASTEFUL, applied, place


async def test_a_quick_fix_repairs_its_finding(editor, program, tmp_path):
    await editor.initialize(tmp_path)
    uri = editor.open(program)
    await editor.codes(uri)
    fix, *_ = await editor.actions(uri, LOADER)
    assert fix.kind == types.CodeActionKind.QuickFix and fix.is_preferred
    assert "unsafe" not in fix.title
    assert fix.diagnostics[0].code == "GPU301"
    (change,) = fix.edit.document_changes
    assert change.text_document == types.OptionalVersionedTextDocumentIdentifier(uri, 1)
    text = applied(WASTEFUL, change.edits)
    assert "pin_memory=True" in text
    editor.change(uri, 2, text)
    assert "GPU301" not in await editor.codes(uri, 2)


async def test_actions_of_a_text_that_has_just_changed(editor, program, tmp_path):
    await editor.initialize(tmp_path)
    uri = editor.open(program, "\n" + WASTEFUL)
    editor.change(uri, 2, WASTEFUL)
    fix, *_ = await editor.actions(uri, LOADER)
    assert "pin_memory=True" in applied(WASTEFUL, fix.edit.document_changes[0].edits)


async def test_an_unsafe_fix_says_so(editor, tmp_path):
    shutil.copy(REPOSITORY / "examples/half-the-gpus/wasteful/job.yaml", tmp_path)
    path = tmp_path / "job.yaml"
    await editor.initialize(tmp_path)
    uri = editor.open(path, language="yaml")
    where = place(path.read_text(), "sleep 3600")
    fix = next(action for action in await editor.actions(uri, where) if "(unsafe)" in action.title)
    assert not fix.is_preferred
    params = types.DidChangeConfigurationParams({"gpulint": {"unsafeFixes": False}})
    editor.client.workspace_did_change_configuration(params)
    assert not [action for action in await editor.actions(uri, where) if "unsafe" in action.title]


async def test_fix_all_does_what_is_safe(editor, program, tmp_path):
    await editor.initialize(tmp_path)
    uri = editor.open(program)
    (action,) = await editor.actions(uri, EVERYTHING, only=["source.fixAll"])
    assert action.kind == "source.fixAll.gpulint"
    text = applied(WASTEFUL, action.edit.document_changes[0].edits)
    assert "pin_memory=True" in text and "non_blocking=True" in text and "empty_cache" in text
    editor.change(uri, 2, text)
    assert await editor.codes(uri, 2) == ["GPU207"]
    assert await editor.actions(uri, EVERYTHING, only=["source.fixAll"]) == []


async def test_an_editor_that_asks_later_gets_the_edit_later(editor, program, tmp_path):
    capabilities = types.ClientCapabilities(
        text_document=types.TextDocumentClientCapabilities(
            code_action=types.CodeActionClientCapabilities(
                resolve_support=types.ClientCodeActionResolveOptions(properties=["edit"])
            )
        )
    )
    await editor.initialize(tmp_path, capabilities=capabilities)
    uri = editor.open(program)
    (action,) = await editor.actions(uri, EVERYTHING, only=["source.fixAll.gpulint"])
    assert action.edit is None
    action = await editor.client.code_action_resolve_async(action)
    assert "pin_memory=True" in applied(WASTEFUL, action.edit.changes[uri])


async def test_a_quick_fix_that_changes_another_file_too(editor, tmp_path):
    data = "from torch.utils.data import DataLoader\n\n\ndef loader():\n    return DataLoader([1], num_workers=2)\n"
    train = "from data import loader\nfor batch in loader():\n    batch = batch.cuda()\n"
    (tmp_path / "data.py").write_text(data)
    await editor.initialize(tmp_path)
    uri = editor.open(tmp_path / "train.py", train)
    fix = next(item for item in await editor.actions(uri, place(train, "batch.cuda()")) if item.is_preferred)
    texts = {uri: train, (tmp_path / "data.py").as_uri(): data}
    for change in fix.edit.document_changes:
        texts[change.text_document.uri] = applied(texts[change.text_document.uri], change.edits)
        assert change.text_document.version == (1 if change.text_document.uri == uri else None)
    assert [*texts.values()] == [
        train.replace("cuda()", "cuda(non_blocking=True)"),
        data.replace("num_workers=2", "num_workers=2, pin_memory=True"),
    ]
    # "Fix all" stays within its document, where nothing can be done.
    assert await editor.actions(uri, EVERYTHING, only=["source.fixAll"]) == []


@pytest.mark.parametrize("makes_files", [True, False])
async def test_a_fix_with_a_new_file_needs_an_editor_that_makes_files(editor, tmp_path, makes_files):
    shutil.copytree(REPOSITORY / "examples/half-the-gpus/wasteful", tmp_path / "job")
    path = tmp_path / "job" / "job.yaml"
    await editor.initialize(tmp_path, capabilities=CAPABILITIES if makes_files else types.ClientCapabilities())
    uri = editor.open(path, language="yaml")
    actions = await editor.actions(uri, place(path.read_text(), "pip install"))
    fixes = [item for item in actions if "(unsafe)" in item.title]
    assert len(fixes) == makes_files
    for fix in fixes:
        create, fill, change = fix.edit.document_changes
        assert isinstance(create, types.CreateFile) and create.options.overwrite is False
        assert create.uri == fill.text_document.uri == (tmp_path / "job" / "Dockerfile.gpulint").as_uri()
        assert "RUN pip install -r requirements.txt" in fill.edits[0].new_text
        assert "pip install" not in applied(path.read_text(), change.edits)


async def test_only_the_kinds_that_are_asked_for(editor, program, tmp_path):
    await editor.initialize(tmp_path)
    uri = editor.open(program)
    assert await editor.actions(uri, EVERYTHING, only=["refactor"]) == []
    assert {item.kind for item in await editor.actions(uri, EVERYTHING, only=["quickfix"])} == {"quickfix"}


DOCKERFILE = """\
FROM pytorch/pytorch
ENV CUDA_LAUNCH_BLOCKING=1
RUN apt-get update && \\
    pip install timm
CMD ["python", "train.py"]
"""
WHOLE_JOBS = [
    ("train.py", "python", WASTEFUL),
    ("job.yaml", "yaml", (REPOSITORY / "examples/half-the-gpus/wasteful/job.yaml").read_text()),
    ("train.sbatch", "shellscript", (REPOSITORY / "examples/half-the-gpus/wasteful/train.sbatch").read_text()),
    ("Dockerfile", "dockerfile", DOCKERFILE),
]


@pytest.mark.parametrize(("name", "language", "text"), WHOLE_JOBS)
async def test_ignoring_each_finding_leaves_none(editor, tmp_path, name, language, text):
    shutil.copy(REPOSITORY / "examples/half-the-gpus/wasteful/train.py", tmp_path)
    await editor.initialize(tmp_path)
    uri, version = editor.open(tmp_path / name, text, language), 1
    left = len(await editor.codes(uri))
    assert left
    while found := await editor.diagnostics(uri, version):
        actions = await editor.actions(uri, found[0].range)
        ignore = next(item for item in actions if item.title == f"{found[0].code}: ignore this finding here")
        text, version = applied(text, ignore.edit.document_changes[0].edits), version + 1
        editor.change(uri, version, text)
        assert len(await editor.codes(uri, version)) < left
        left = len(await editor.codes(uri, version))


async def test_hover_explains_the_finding(editor, program, tmp_path):
    await editor.initialize(tmp_path)
    uri = editor.open(program)

    async def hover(position):
        params = types.HoverParams(types.TextDocumentIdentifier(uri), position)
        return await editor.client.text_document_hover_async(params)

    found = await hover(LOADER.start)
    assert "GPU301" in found.contents.value and "https://" in found.contents.value
    assert "page-locked" in found.contents.value or "pageable" in found.contents.value or "copy" in found.contents.value
    assert await hover(types.Position(0, 0)) is None
