"""Turn on the caches that libraries have for the remote data that they read."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from urllib.parse import quote

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import PythonModule, walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.libraries.samples import DataCache
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.transfers.data_caches import DataCaches, writes
from gpulint.transfers.shard_counts import in_braces, made_from
from gpulint.transfers.storage import StorageLocations
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, ModuleIndex, NodeRef, last_name
from gpulint_fixers.edits.calls import line_width, set_keyword, with_keywords
from gpulint_fixers.edits.imports import import_module
from gpulint_fixers.edits.statements import insert_above
from gpulint_fixers.loading.chained_addresses import PREFIX, chained
from gpulint_fixers.loading.node_folders import NodeFolder, folder_for, rank_variable

_WRITERS = frozenset(
    "put put_file upload upload_file upload_fileobj upload_from_filename put_object pipe pipe_file to_csv to_json "
    "to_parquet savetxt copy_file".split()
)
_PER_ITEM = frozenset({"__getitem__", "__iter__"})
_OF_FSSPEC = frozenset({"chain", "copy", "wrapper"})
"""Copies that fsspec writes in their place, where another process would read one that is not complete."""
_FOLDER = "cache_dir"
_LONGEST = 100
"""Characters behind the number of a shard in an address; webdataset names a pipe's copy by its last 128."""


def keep_copies(project: Project, module: ModuleIndex, call: ast.Call) -> Fix | Declined:
    """Let the library of a call keep what it reads in a folder on the node."""
    caches = project.fact(DataCaches)
    row = caches.of(module, call)
    moved = any(call is one for one, _, _ in caches.remote_folders(module))
    if row is None or (row.by in ("nothing", "default") and not moved):
        return Declined("the library has no cache that a change of this call turns on; stage the data before the job")
    if caches.is_cached(module, call, row) and not moved:
        return Declined("the program keeps copies already")
    if caches.is_drawn(module, call, row):
        return Declined("samples are drawn at random, so that few of the copies would be read again")
    source = caches.source(call, row)
    if source is None or any(keyword.arg is None for keyword in call.keywords):
        return Declined("which address the call reads could not be determined")
    if any(keyword.arg in row.options for keyword in call.keywords):
        return Declined("the call passes options of the storage, which belong to `s3={...}` behind a cache")
    if not moved and (why := _changing(project, module, call, source)) is not None:
        return Declined(why)
    folder = folder_for(project, module, f"{module.path.stem}-cache")
    if row.by in _OF_FSSPEC:
        rank = rank_variable(project, module)
        if rank is None:
            return Declined("the program starts its processes itself, which would read unfinished copies of each other")
        folder = replace(folder, rank=rank)
    make = {
        "default": _by_folder,
        "folder": _by_folder,
        "method": _by_method,
        "chain": _by_chain,
        "copy": _by_copy,
        "wrapper": _by_wrapper,
    }[row.by]
    made = make(project, module, call, row, source, folder)
    if isinstance(made, Declined):
        return made
    return Fix(_description(project, module, call, row, source, made[0]), Safety.UNSAFE, made[1])


def _description(
    project: Project, module: ModuleIndex, call: ast.Call, row: DataCache, source: ast.expr, folder: NodeFolder
) -> str:
    shards = _shards(project, module, source)
    what = f"all {shards} shards" if shards else "all files that are read"
    if row.limit and keyword_value(call, row.limit) is not None:
        what = f"`{row.limit}` allows"
    what = f"{what}, for each process" if folder.rank else what
    offered = f", of which a job requests {folder.space}" if folder.space else ""
    more = f"; {row.needs}" if row.needs else ""
    if row.by == "method" and not folder.ends_with_job:
        more += ", and the copy of each run stays there afterwards where nothing cleans the folder"
    return (
        f"keep what was read in {folder.shown} on the node, from the second epoch on read there; it needs as much "
        f"space as {what}{offered}, and files that change in the bucket are not read again{more}"
    )


def _shards(project: Project, module: ModuleIndex, source: ast.expr) -> int:
    """Return how many shards an address stands for (``{000000..000100}``), 0 if that is unknown."""
    known = project.fact(Constants).of(module, source)
    texts = [value for value in known.constants if isinstance(value, str)]
    return (in_braces(texts[0]) or 0) if known.complete and len(texts) == 1 else 0


def _changing(project: Project, module: ModuleIndex, call: ast.Call, source: ast.expr) -> str | None:
    """Return why what an address names may change while the program runs."""
    function = module.function(call)
    per_item = function is not None and function.name in _PER_ITEM
    streams = any(call is one for one, _ in project.fact(DataCaches).streams(module))
    known = project.fact(Constants).of(module, source)
    if not per_item and not streams and known.complete and not _varies(module, source):
        return "the loop reads the same file in each round, as one reads a file that changes"
    locations = project.fact(StorageLocations)
    folder = _folder(locations.of(module, source).text)
    for other in (*module.syntax.of(ast.Call),) if folder else ():
        if not (writes(other) or last_name(other.func) in _WRITERS):
            continue
        for argument in (*other.args, *(keyword.value for keyword in other.keywords)):
            if not isinstance(argument, ast.Starred) and _folder(locations.of(module, argument).text) == folder:
                return "the program writes files there while it runs, and copies would not change"
    return None


def _varies(module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether an address is another one in each round of a loop around it (``f"part-{number}"``)."""
    for name in (part for part in walk(source) if isinstance(part, ast.Name)):
        for one in reaching(module, module.scope(name).lookup(name.id), name):
            value = one.value if one.kind is BindingKind.ASSIGN else None
            inner = [part for part in walk(value) if isinstance(part, ast.Name)] if value is not None else [name]
            bound = [module.scope(part).lookup(part.id) for part in inner]
            if any(other.kind is BindingKind.LOOP for others in bound for other in others):
                return True
    return False


def _folder(text: str) -> str:
    """Return what precedes the first unknown part, or the name of a file, in a remote address."""
    return re.split(r"\{", text, maxsplit=1)[0].rpartition("/")[0] if "://" in text else ""


Made = tuple[NodeFolder, tuple[Edit, ...]] | Declined


def _by_folder(
    project: Project, module: ModuleIndex, call: ast.Call, row: DataCache, source: ast.expr, folder: NodeFolder
) -> Made:
    """Pass a folder, which has to exist."""
    name = _own_name(project, module, call, row, source, folder)
    if isinstance(name, Declined):
        return name
    folder = replace(folder, name=name)
    if row.by == "default":  # the library makes it itself
        imported = import_module(module, "os") if folder.variable else ("os", ())
        if imported is None:
            return Declined("the module has another `os`")
        return folder, (*imported[1], set_keyword(module.syntax, call, row.argument, folder.code(imported[0])))
    statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), None)
    imported = import_module(module, "os")
    if statement is None or imported is None:
        return Declined("the folder has to be made before the call, for which the module has no place")
    os, edits = imported
    code, above = folder.code(os), ""
    if _FOLDER not in module.named:
        position = module.syntax.source.position(module.syntax.offsets(statement)[0])
        code, above = _FOLDER, f"{_FOLDER} = {code}\n{' ' * (position[1] - 1)}"
    made = insert_above(module.syntax, statement, f"{above}{os}.makedirs({code}, exist_ok=True)")
    if made is None:
        return Declined("the folder has to be made before the call, whose line has other statements")
    return folder, (*edits, made, set_keyword(module.syntax, call, row.argument, code))


def _by_method(
    project: Project, module: ModuleIndex, call: ast.Call, row: DataCache, source: ast.expr, folder: NodeFolder
) -> Made:
    """Keep what the source yields, before anything draws at random, in a file that no other process has locked."""
    if _is_mapped(module, call):
        return Declined(
            "the library calls this for each file, which would all be kept in one; cache the whole after it"
        )
    if _ends_early(project, module, call, row):
        return Declined("`take` or `skip` divides the records, and a pass that ends early keeps nothing")
    imported = import_module(module, "tempfile")
    around = import_module(module, "os") if folder.variable == "SLURM_TMPDIR" else ("os", ())
    if imported is None or around is None:
        return Declined("the module has no place for an import")
    inside = f', dir={around[0]}.environ.get("SLURM_TMPDIR")' if folder.variable == "SLURM_TMPDIR" else ""
    code = f'{imported[0]}.mkdtemp(prefix="{folder.name}-"{inside}) + "/data"'
    end = module.syntax.offsets(call)[1]
    text = _call(module.syntax, (end, end), f".{row.methods_of_result[0]}", code)
    edit = Edit(module.path, module.syntax.span_at(end, end), text)
    return replace(folder, name=f"{folder.name}-*"), (*imported[1], *around[1], edit)


def _ends_early(project: Project, module: ModuleIndex, call: ast.Call, row: DataCache) -> bool:
    """Return whether ``take`` or ``skip`` is called of a data set, or of what was made from it."""
    return any(
        made.node is call
        for other in (*module.calls_by_name.get("take", []), *module.calls_by_name.get("skip", []))
        if isinstance(other.func, ast.Attribute)
        for made in made_from(project, NodeRef(module, other.func.value), row.joins)
    )


def _is_mapped(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is in a lambda, or in a function that another call gets: ``files.interleave(read)``."""
    function = module.function(call)
    if any(isinstance(up, ast.Lambda) for up in module.syntax.ancestors(call)):
        return True
    return function is not None and any(
        isinstance(value, ast.Name) and value.id == function.name
        for other in module.calls
        for value in (*other.args, *(keyword.value for keyword in other.keywords))
    )


def _own_name(
    project: Project, module: ModuleIndex, call: ast.Call, row: DataCache, source: ast.expr, folder: NodeFolder
) -> str | Declined:
    """The name of a folder with no copies of other addresses that end alike; copies of pipes are named by all of it."""
    known = project.fact(Constants).of(module, source)
    texts = [value for value in known.constants if isinstance(value, str)]
    if not known.complete or len(texts) != len(known.values):
        return Declined("which shards the call reads is not known; two of one name would have one copy")
    if any(text.startswith("pipe:") and len(quote(text.rpartition("}")[2], "")) > _LONGEST for text in texts):
        return Declined("webdataset names copies by the ends of the commands, which are the same for all shards")
    plain = {f"{text}/" if row.by == "default" else text for text in texts if not text.startswith("pipe:")}
    homes = {text.rpartition("/")[0] for text in plain}
    if len({text.rpartition("/")[2] for text in plain}) < len(plain) or any("{" in home for home in homes):
        return Declined("shards of several folders have the same names, and would have one copy")
    kept = [one for one, other in project.fact(DataCaches).kept(module) if other is row]
    if len(homes) == 1 and all(value.source == "literal" for value in known.values):
        same = [one for one in kept if one is call or _reads(project, module, one, row) == texts]
        number = f"-{same.index(call) + 1}" if row.by == "default" and len(same) > 1 else ""  # it wants one for each
        return f"{folder.name}-{re.sub(r'[^A-Za-z0-9]+', '-', homes.pop().partition('://')[2])}{number}"
    if homes and not folder.private:
        return Declined("copies are named by the ends of addresses; choose a folder for each set of shards")
    return f"{folder.name}-{kept.index(call) + 1}" if len(kept) > 1 else folder.name


def _reads(project: Project, module: ModuleIndex, call: ast.Call, row: DataCache) -> list[object]:
    """The addresses that a call may read."""
    source = project.fact(DataCaches).source(call, row)
    return [] if source is None else [*project.fact(Constants).of(module, source).constants]


def _by_chain(
    project: Project, module: ModuleIndex, call: ast.Call, row: DataCache, source: ast.expr, folder: NodeFolder
) -> Made:
    """Put ``simplecache::`` before the address."""
    prefix = chained(module.syntax, source)
    setting = _setting(module, folder)
    if prefix is None or setting is None or _is_chain(project, module, source, prefix):
        return Declined("the address is put together elsewhere; begin it with `simplecache::` there")
    option, edits = setting
    return folder, (*edits, *with_keywords(module.syntax, call, (prefix,), f"simplecache={option}"))


def _is_chain(project: Project, module: ModuleIndex, source: ast.expr, prefix: Edit) -> bool:
    """Return whether the text that gets a prefix names an archive, whose files have names that others have as well."""
    return prefix.text != PREFIX and "::" in project.fact(StorageLocations).of(module, source).text


def _by_copy(
    project: Project, module: ModuleIndex, call: ast.Call, row: DataCache, source: ast.expr, folder: NodeFolder
) -> Made:
    """Read the copy that fsspec makes, instead of the address."""
    text = project.fact(StorageLocations).of(module, source).text
    end = source.values[-1] if isinstance(source, ast.JoinedStr) and source.values else source
    end = source.right if isinstance(source, ast.BinOp) and isinstance(source.op, ast.Add) else end
    last = end.value if isinstance(end, ast.Constant) and isinstance(end.value, str) else text
    if not last.endswith(row.ends):
        return Declined("the reader takes the kind of file from the end of its name, which the copy lacks")
    imported, setting, syntax = import_module(module, "fsspec"), _setting(module, folder), module.syntax
    prefix = chained(syntax, source)
    if imported is None or setting is None or prefix is None or not call.args or "::" in text:
        return Declined('the address is put together elsewhere; pass `fsspec.open_local("simplecache::...")` there')
    (fsspec, edits), (option, more) = imported, setting
    start, stop = syntax.offsets(source)
    at = syntax.source.offset(prefix.span.line, prefix.span.column)
    upto = syntax.source.offset(prefix.span.end_line, prefix.span.end_column)
    code = syntax.source.text
    changed = f"{code[start:at]}{prefix.text}{code[upto:stop]}"
    text = _call(syntax, (start, stop), f"{fsspec}.open_local", changed, f"simplecache={option}")
    whole = Edit(module.path, syntax.span_at(start, stop), text)
    return folder, (*edits, *more, whole)


def _by_wrapper(
    project: Project, module: ModuleIndex, call: ast.Call, row: DataCache, source: ast.expr, folder: NodeFolder
) -> Made:
    """Call the method of a file system that keeps what it reads of the other."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    imported, storage = import_module(module, "fsspec"), _storage(module, folder)
    if not isinstance(owner, ast.Name | ast.Attribute) or last_name(call.func) != "open" or imported is None:
        return Declined('wrap the file system where it is made: `fsspec.filesystem("simplecache", fs=fs)`')
    if storage is None:
        return Declined("the module has another `os`")
    (fsspec, edits), (code, more) = imported, storage
    arguments = ('"simplecache"', f"fs={ast.unparse(owner)}", f"cache_storage={code}")
    text = _call(module.syntax, module.syntax.offsets(owner), f"{fsspec}.filesystem", *arguments)
    return folder, (*edits, *more, Edit(module.path, module.syntax.span(owner), text))


def _call(syntax: PythonModule, replaced: tuple[int, int], function: str, *arguments: str) -> str:
    """A call in place of a range, with its arguments on lines of their own where the line becomes too long."""
    start, end = replaced
    line = syntax.source.line(syntax.source.position(start)[0])
    alone = f"{function}({', '.join(arguments)})"
    if len(line) - (end - start) + len(alone) <= line_width(syntax.source.text):
        return alone
    indent = line[: len(line) - len(line.lstrip())]
    inside = f"{indent}    {', '.join(arguments)}"
    if len(inside) > line_width(syntax.source.text):
        inside = "\n".join(f"{indent}    {argument}," for argument in arguments)
    return f"{function}(\n{inside}\n{indent})"


def _storage(module: ModuleIndex, folder: NodeFolder) -> tuple[str, tuple[Edit, ...]] | None:
    """The expression for a folder, and the import that it needs."""
    imported = import_module(module, "os") if folder.variable or folder.rank else ("os", ())
    return None if imported is None else (folder.code(imported[0]), imported[1])


def _setting(module: ModuleIndex, folder: NodeFolder) -> tuple[str, tuple[Edit, ...]] | None:
    """fsspec's options for a cache in a folder."""
    storage = _storage(module, folder)
    return None if storage is None else (f'{{"cache_storage": {storage[0]}}}', storage[1])
