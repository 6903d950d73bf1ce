"""Addresses that fsspec reads through its cache: ``simplecache::`` before the one of the storage."""

from __future__ import annotations

import ast

from gpulint.documents.python import PythonModule
from gpulint.fix import Edit
from gpulint.workspace.module_index import last_name

PREFIX = "simplecache::"
_TEXT_CALLS = frozenset({"join", "format", "str", "strip", "rstrip", "replace"})


def chained(syntax: PythonModule, address: ast.expr) -> Edit | None:
    """Put ``simplecache::`` before a literal or a text that is put together, and within a chain before its last part:
    the files of two archives may have the same names (``zip://a.png::s3://bucket/train.zip``)."""
    text = syntax.source.text
    start, end = syntax.offsets(_begins(address))
    if isinstance(_begins(address), ast.Constant | ast.JoinedStr):
        body = text[start:end].lstrip("rRfFbBuU")
        quote = body[:3] if body[:3] in ('"""', "'''") else body[:1]
        at = start + text[start:end].index(quote) + len(quote)
        if (link := text.rfind("::", at, end)) >= 0:
            at = link + 2
        if "://" in text[at : at + 10] or text[at] == "{":
            return Edit(syntax.path, syntax.span_at(at, at), PREFIX)
        return None
    start = syntax.offsets(address)[0]
    joined = isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add | ast.Mod)
    called = isinstance(address, ast.Call) and last_name(address.func) in _TEXT_CALLS
    if joined or called or isinstance(address, ast.Name | ast.Attribute | ast.Subscript):
        return Edit(syntax.path, syntax.span_at(start, start), f'"{PREFIX}" + ')
    return None


def _begins(address: ast.expr) -> ast.expr:
    """The part with which a text begins: ``"s3://bucket/{}"`` of ``"s3://bucket/{}".format(name)`` and of a sum."""
    while True:
        match address:
            case ast.BinOp(op=ast.Add() | ast.Mod(), left=inner):
                address = inner
            case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant() as inner)):
                address = inner
            case _:
                return address
