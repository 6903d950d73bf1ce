"""YAML with places: every scalar leads back to its characters; configuration values by dotted key."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpulint.documents.yamltree import Node, YamlError, parse, split_documents
from gpulint.documents.yamlvalues import flatten
from gpulint.source import Fragment, SourceText


def root(text: str) -> Node:
    return parse(Fragment(text, SourceText(text)))[0]


def assert_leads_back(node: Node, text: str) -> None:
    """Each character of a value that is written as itself is found at its offset."""
    fragment = node.fragment
    for index, char in enumerate(fragment.text):
        there = text[fragment.owner_offset(index)]
        assert there == char or (char in " \n" and there in " \r\n\t") or there == "\\", (
            node.style,
            fragment.text,
            index,
        )


@pytest.mark.parametrize(
    "written",
    [
        "plain words",
        "plain\n   folded   \n\n   twice # comment",
        "'it''s   here\n\n   folded'",
        '"a\\tb \\x41 \\u00e9 c\\\n   continued\\\n\n   d"',
        "|\n    a\n      b\n\n    c\n",
        "|-\n    a\n",
        "|2+\n     kept\n   b\n\n",
        ">\n    a\n    b\n\n      more\n    c\n",
        ">1-\n   x\n  y\n",
        "&anchor !tag |\n    tagged\n",
        '"emoji 😀 then\n   é"',
        "|\r\n    windows\r\n    lines\r\n",
    ],
)
def test_every_scalar_style_leads_back(written: str) -> None:
    text = f"# é😀\nkey: {written}\n"
    value = root(text).at("key")
    assert value.fragment.text == yaml.safe_load(text.replace("!tag", "!!str"))["key"]
    assert_leads_back(value, text)


@given(
    st.text(st.sampled_from("ab 'é😀\"\\\n#:|>-{}\t"), max_size=40),
    st.sampled_from(["'", '"', "|", ">"]),
    st.integers(8, 40),
    st.booleans(),
)
def test_whatever_pyyaml_writes_leads_back(value: str, style: str, width: int, unicode: bool) -> None:
    text = yaml.dump({"k": [value]}, default_style=style, width=width, allow_unicode=unicode)
    item = root(text).at("k").elements[0]
    assert item.value == value
    assert_leads_back(item, text)


def test_embedded_yaml_leads_back_through_both_levels() -> None:
    text = "outer: |\n    pip:\n      - 'to''rch'\n    note: >\n      folded\n      text\n"
    inner = parse(root(text).at("outer").fragment)[0]
    assert_leads_back(inner.at("pip").elements[0], text)
    assert_leads_back(inner.at("note"), text)
    assert inner.at("pip").elements[0].span.line == 3


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(YamlError, match="nested too deeply"):
        root("[" * 100_000 + "]" * 100_000)


def test_split_documents_keeps_every_character_once() -> None:
    text = "a: 1\n---\nb: |\n  ---\n--- # c\nc: 1\n"
    parts = [text[start:end] for start, end in split_documents(text)]
    assert parts == ["a: 1\n", "---\nb: |\n  ---\n", "--- # c\nc: 1\n"]


def values(text: str) -> dict[str, object]:
    return {key: value for key, (value, _) in flatten(SourceText(text)).items()}


def test_flatten_gives_python_scalars_under_dotted_keys() -> None:
    text = 'train: {batch_size: 64, lr: 1e-4, amp: true, name: "8", none: null}\nlayers: [16, 32]\n'
    assert values(text) == {
        "train.batch_size": 64,
        "train.lr": 1e-4,
        "train.amp": True,
        "train.name": "8",
        "train.none": None,
        "layers.0": 16,
        "layers.1": 32,
    }


def test_flatten_follows_references_and_leaves_out_what_it_cannot_know() -> None:
    loader = "loader:\n  batch_size: !ref <batch>\n  twice: !ref <batch> * 2\n  gone: !ref <x>\n"
    text = f"batch: 32\n{loader}loop: !ref <loop>\n"
    assert values(text) == {"batch": 32, "loader.batch_size": 32}


def test_flatten_reads_json_with_places() -> None:
    text = '{\n\t"train_micro_batch_size_per_gpu": 4,\n\t"fp16": {"enabled": "auto"}\n}\n'
    flat = flatten(SourceText(text))
    assert flat["train_micro_batch_size_per_gpu"][0] == 4
    assert flat["train_micro_batch_size_per_gpu"][1].line == 2
    assert flat["fp16.enabled"][0] == "auto"


@pytest.mark.parametrize("text", ["", "a: [", "- 1\n", "a: &a {b: *a}\n", "\x00"])
def test_flatten_of_anything_else_is_empty(text: str) -> None:
    assert flatten(SourceText(text)) == {}


def test_flatten_is_bounded_where_aliases_multiply() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert len(flatten(SourceText("\n".join(lines)))) <= 20_000
