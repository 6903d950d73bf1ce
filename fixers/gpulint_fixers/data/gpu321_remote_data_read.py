"""Read through the cache that fsspec has itself."""

from __future__ import annotations

import ast

from gpulint.documents.python import PythonModule
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint.semantic.points_to import Resolver
from gpulint_fixers.edits.calls import add_keyword

_OPENERS = frozenset({"fsspec.open", "fsspec.core.open"})


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Put fsspec's ``simplecache::`` before the address, with a folder on the node's own disk."""
    document = project.document(finding.path)
    if document is None or document.kind is not Kind.PYTHON or document.python is None:
        return Declined("only the program that reads the bucket can cache it; stage the data before the job")
    syntax = document.python
    call = next((one for one in syntax.of(ast.Call) if syntax.span(one) == finding.span), None)
    module = project.module(document)
    if call is None or module is None or not project.fact(Resolver).call_names(module, call) & _OPENERS:
        return Declined("the library has no cache that a change of this call turns on; stage the data before the job")
    at = _start(syntax, call.args[0])
    if at is None or any(keyword.arg in (None, "protocol", "simplecache") for keyword in call.keywords):
        return Declined("the address is put together elsewhere; begin it with `simplecache::` there")
    if any(keyword.arg in ("anon", "key", "secret", "token", "client_kwargs") for keyword in call.keywords):
        return Declined("the call passes options of the storage, which belong to `s3={...}` behind a cache")
    folder = f'simplecache={{"cache_storage": "/tmp/{finding.path.stem}-cache"}}'
    return Fix(
        f"keep what was read in /tmp/{finding.path.stem}-cache on the node, from the second epoch on read there; it "
        "needs as much space as all files that are read, and files that change in the bucket are not read again",
        Safety.UNSAFE,
        (Edit(syntax.path, syntax.span_at(at, at), "simplecache::"), add_keyword(syntax, call, folder)),
    )


def _start(syntax: PythonModule, address: ast.expr) -> int | None:
    """The offset of the first character of a literal address."""
    text = syntax.source.text
    start, end = syntax.offsets(address)
    if not isinstance(address, ast.Constant | ast.JoinedStr):
        return None
    body = text[start:end].lstrip("rRfFbBuU")
    quote = body[:3] if body[:3] in ('"""', "'''") else body[:1]
    at = start + text[start:end].index(quote) + len(quote)
    return at if "://" in text[at : at + 10] else None


FIXER = Fixer("GPU321", fix)
