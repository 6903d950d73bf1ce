"""Return what to do about a download of a GPU job: what to fetch before it, and how."""

from __future__ import annotations

import ast

from gpulint.libraries.downloads import HUB
from gpulint.project import Project
from gpulint.transfers.download import Download
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import ModuleIndex, last_name

BEFORE = "before the job (login node, CPU step, image build)"
STORAGE = "storage that the job sees"
_HUB_LINES = """{verb} it before the job, and forbid downloads in the job:
{line}  # on the login node or in the image, with {where} on storage that the job sees
export HF_HUB_OFFLINE=1  # in the job"""
_COPY = """pass the name of the copy that it loads, and download that before the job (`hf download`), with HF_HOME on \
storage that the job sees; HF_HUB_OFFLINE=1 then forbids downloads in the job"""
_HOME = "HF_HOME"
_LONGEST_CALL = 80
_PARTS = frozenset({"allow_patterns", "gguf_file", "filename"})
"""Arguments that pick files of a repository."""


def from_hub(name: str, is_data: bool = False) -> str:
    """Return how to fetch a model or a data set of the Hugging Face hub before the job."""
    return _data_set(name, "") if is_data else _download([name], _HOME)


def _data_set(name: str, more: str) -> str:
    """``load_dataset`` itself: in offline mode it finds what it has prepared, not what ``hf download`` has fetched."""
    line = f"python -c \"from datasets import load_dataset; load_dataset('{name}'{more})\""
    return _HUB_LINES.format(verb="prepare", line=line, where=_HOME)


def _download(words: list[str], where: str) -> str:
    return _HUB_LINES.format(verb="download", line=f"hf download {' '.join(words)}", where=where)


def names_part(item: Download) -> bool:
    """Return whether a call fetches only some files of a repository, so that its name does not say how large they
    are."""
    return (
        any(keyword.arg in _PARTS for keyword in item.node.keywords) or last_name(item.node.func) == "hf_hub_download"
    )


def advice(project: Project, module: ModuleIndex, item: Download) -> str:
    """Return what to do about a call of a program."""
    if HUB in item.origin:
        return _of_hub(project, module, item)
    if item.kind == "weights":
        return "fetch the weights before the job into a cache that the job sees (TORCH_HOME, KERAS_HOME, a local file)"
    call = " ".join(module.syntax.text(item.node).split())
    if "download" in {keyword.arg for keyword in item.node.keywords} and len(call) <= _LONGEST_CALL:
        return f"run `{call}` once {BEFORE}, with its folder on {STORAGE}, and pass `download=False` in the job"
    if item.what.startswith(("http://", "https://")) and "{" not in item.what:
        return f"fetch it with `curl -LO` {BEFORE} to {STORAGE}, and open that copy"
    what = repr(item.what) if item.what and item.what != item.name else f"what {item.name} downloads"
    return f"fetch {what} {BEFORE} to {STORAGE}, and read that copy"


def _of_hub(project: Project, module: ModuleIndex, item: Download) -> str:
    if item.origin.startswith("its copy"):
        return _COPY
    name = item.what if item.what and "{" not in item.what else "<id>"
    if item.kind == "metric":
        return f"load {name!r} once before the job so that it is cached, and set HF_HUB_OFFLINE=1 in the job"
    if last_name(item.node.func) == "load_dataset":
        return _data_set(name, _configuration(project, module, item.node))
    words = [name, *_file(project, module, item.node)]
    if item.kind == "data" or _constant(project, module, item.node, "repo_type") == "dataset":
        words += ["--repo-type", "dataset"]
    if not _is_absent(project, module, item.node, "revision"):
        words += ["--revision", _constant(project, module, item.node, "revision") or "<revision>"]
    if _is_absent(project, module, item.node, "cache_dir"):
        return _download(words, _HOME)
    folder = _constant(project, module, item.node, "cache_dir") or "<cache_dir>"  # HF_HOME does not count then
    return _download([*words, "--cache-dir", folder], "that folder")


def _file(project: Project, module: ModuleIndex, call: ast.Call) -> list[str]:
    """The file of the repository that a call fetches."""
    for name, position in (("filename", 1), ("gguf_file", None)):
        if name == "filename" and last_name(call.func) != "hf_hub_download":
            continue
        if not _is_absent(project, module, call, name, position):
            return [_constant(project, module, call, name, position) or "<file>"]
    return []


def _configuration(project: Project, module: ModuleIndex, call: ast.Call) -> str:
    """The configuration of a data set, as an argument."""
    if _is_absent(project, module, call, "name", 1):
        return ""
    known = _constant(project, module, call, "name", 1)
    return f", '{known}'" if known else ", ..."


def _is_absent(project: Project, module: ModuleIndex, call: ast.Call, name: str, position: int | None = None) -> bool:
    """Return whether a call has no such argument, or None as its default."""
    arguments = project.fact(Arguments)
    if arguments.of(module, call, name, position).is_absent:
        return True
    known = arguments.value(module, call, name, position)
    return known.complete and all(value.value is None for value in known.values)


def _constant(project: Project, module: ModuleIndex, call: ast.Call, name: str, position: int | None = None) -> str:
    """The only text that an argument may be, "" if it is unknown."""
    known = project.fact(Arguments).value(module, call, name, position)
    texts = {value.value for value in known.values if value.value is not None}
    only = texts.pop() if known.complete and len(texts) == 1 else None
    return only if isinstance(only, str) else ""
