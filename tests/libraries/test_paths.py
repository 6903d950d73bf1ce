"""The path language of job formats: what a path leads to, and what is no path."""

from __future__ import annotations

import pytest

from gpulint.documents.specs.lookup import Found, every, holds, text
from gpulint.documents.yamltree import parse
from gpulint.libraries.paths import PathError, parse_condition, parse_path
from gpulint.source import Fragment, SourceText

SPEC = """\
kind: Job
compute: everywhere
empty:
blank: " "
'nvidia.com/gpu': 3
jobs:
  train: {run: a, resources: {gpu: 4}, tags: [big, gpu]}
  eval: {run: b, compute: here, resources: {}}
list: [{name: x, size: 1}, {name: y, size: 2}]
"""


@pytest.fixture
def document() -> Found:
    return Found(parse(Fragment(SPEC, SourceText(SPEC)))[0])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("kind", ["Job"]),
        ("jobs.*.run", ["a", "b"]),
        ("list.*.name", ["x", "y"]),
        ("list.*[name=y].size", ["2"]),
        ("jobs.*[tags~gpu].resources.gpu", ["4"]),
        ("jobs.*[compute].run", ["b"]),
        ("jobs.*[run=a|b].run", ["a", "b"]),
        ("'nvidia.com/gpu'", ["3"]),
        ("missing | kind", ["Job"]),
        ("kind | compute", ["Job"]),
        ("empty | blank | kind", ["Job"]),
        ("**.size", ["1", "2"]),
        ("**[size=2].name", ["y"]),
        ("kind[=Job]", ["Job"]),
        ("kind[=Pod]", []),
        ("kind.deeper", []),
    ],
)
def test_what_a_path_leads_to(document: Found, path: str, expected: list[str]) -> None:
    assert [found.node.text for found in every(document, path)] == expected


def test_an_item_sees_its_key_what_is_around_it_and_the_root(document: Found) -> None:
    train, evaluate = every(document, "jobs.*")
    assert (text(train, "@key"), text(evaluate, "@key")) == ("train", "eval")
    assert (text(train, "^compute"), text(evaluate, "^compute")) == ("everywhere", "here")
    assert text(train, "/kind") == "Job"
    assert text(train, "kind") == ""


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("kind", True),
        ("empty", False),
        ("missing | kind", True),
        ("kind=Job", True),
        ("kind=Pod|Job", True),
        ("kind=job", False),
        ("kind~JO", True),
        ("kind^=J", True),
        ("kind^=o", False),
        ("missing^=o", False),
        ("list.*.size=2", True),
    ],
)
def test_conditions(document: Found, condition: str, expected: bool) -> None:
    assert holds(document, condition) is expected


@pytest.mark.parametrize("wrong", ["", "a.", ".a.b", "a[b", "a]b", "a b", "a..b", "a|", "a=b", "'a", "a[b=]"])
def test_what_is_no_path(wrong: str) -> None:
    with pytest.raises(PathError):
        parse_path(wrong)


@pytest.mark.parametrize("wrong", ["a=", "a=b=c", "=", "a^b"])
def test_what_is_no_condition(wrong: str) -> None:
    with pytest.raises(PathError):
        parse_condition(wrong)


def test_aliases_that_multiply_do_not(document: Found) -> None:
    layers = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 9))
    source = f"l0: &l0 [x]\n{layers}"
    root = Found(parse(Fragment(source, SourceText(source)))[0])
    assert sum(1 for _ in every(root, "l8.*.*.*.*.*.*.*.*")) == 100_000
