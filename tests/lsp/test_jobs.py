"""The request for the GPU jobs of the workspace."""

import shutil

import pytest
from pygls.exceptions import JsonRpcException

from tests.lsp.conftest import REPOSITORY, place


async def jobs(editor):
    return await editor.client.protocol.send_request_async("gpulint/jobs", None)


def part(item, name):
    return item[name] if isinstance(item, dict) else getattr(item, name)


async def test_jobs_lead_to_programs_and_findings(editor, tmp_path):
    shutil.copytree(REPOSITORY / "examples/half-the-gpus/wasteful", tmp_path / "job")
    await editor.initialize(tmp_path)
    found = await jobs(editor)
    launchers = {part(job, "uri").rpartition("/")[2]: job for job in found}
    job = launchers["job.yaml"]
    assert part(job, "gpus") == 8
    files = {part(file, "path"): file for file in part(job, "files")}
    assert part(files["job/job.yaml"], "role") == "launcher"
    assert part(files["job/train.py"], "role") == "program"
    codes = {part(one, "code"): one for one in part(files["job/job.yaml"], "findings")}
    assert {"GPU103", "GPU401"} <= codes.keys()
    assert part(codes["GPU103"], "impact") == "high"
    assert part(codes["GPU103"], "url").endswith("/gpu103-fewer-processes-than-gpus/")


async def test_unsaved_texts_count(editor, tmp_path):
    shutil.copytree(REPOSITORY / "examples/half-the-gpus/wasteful", tmp_path / "job")
    spec = tmp_path / "job/job.yaml"
    await editor.initialize(tmp_path)
    yaml = editor.open(spec, language="yaml")
    await editor.codes(yaml)
    editor.change(yaml, 2, (place(spec.read_text(), "nvidia.com/gpu: 8"), "nvidia.com/gpu: 4"))
    await editor.codes(yaml, 2)
    found = [job for job in await jobs(editor) if part(job, "uri") == yaml]
    assert [part(job, "gpus") for job in found] == [4]
    files = part(found[0], "files")
    assert "GPU103" not in {part(one, "code") for file in files for one in part(file, "findings")}


async def test_a_folder_without_jobs(editor, tmp_path):
    (tmp_path / "tool.py").write_text("print(1)\n")
    await editor.initialize(tmp_path)
    assert await jobs(editor) == []


async def test_without_a_folder(editor):
    await editor.initialize()
    assert await jobs(editor) == []


async def test_an_unknown_request_of_ours_is_refused(editor, tmp_path):
    await editor.initialize(tmp_path)
    with pytest.raises(JsonRpcException):
        await editor.client.protocol.send_request_async("gpulint/job", None)
