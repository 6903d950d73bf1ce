"""Texts that are kept as the bytes of their file."""

from pathlib import Path

import pytest

from gpulint.documents import load
from gpulint.source import SourceText

TEXTS = ["", "a = 1\nb = 2\n", "größe = 1  # 😀\r\nb = 'ü'\r\n", "a\rb\n\nc"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_released_text_is_decoded_again(text: str) -> None:
    held, released = SourceText(text), SourceText(text)
    released.decode_from(text.encode())
    released.release()
    assert list(released.line_starts) == list(held.line_starts)
    assert released.span(0, len(text)) == held.span(0, len(text))
    assert [released.line(number) for number in range(6)] == [held.line(number) for number in range(6)]
    assert released.byte_column(1, 8) == held.byte_column(1, 8)
    assert released.text == text


def test_only_the_last_texts_of_python_files_are_held() -> None:
    documents = [load(Path("a.py"), f"a = {number}".encode()) for number in range(100)]
    held = [document for document in documents if document.source._text is not None]
    assert held == documents[-len(held) :]
    assert len(held) < 50
    assert [document.source.text for document in documents] == [f"a = {number}" for number in range(100)]


@pytest.mark.parametrize("data", ["# coding: latin-1\nb = 'ü'".encode("latin-1"), "\ufeffb = 'ü'".encode("utf-8")])
def test_texts_in_other_encodings_are_kept_as_they_are(data: bytes) -> None:
    source = load(Path("a.py"), data).source
    for _ in range(100):
        load(Path("b.py"), b"")
    assert source._text is not None
    assert "b = 'ü'" in source.text
