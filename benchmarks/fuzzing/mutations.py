"""Seeded mutation: the same seed and number give the same input on every machine."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from fuzzing.corpus import MAX_FILE, Input, kind_name
from fuzzing.tokens import ANY, BY_KIND, CODECS, EXTRA_FILES, NAMES, NUMBERS

WEIGHTS = {
    "python": 34, "shell": 26, "jobspec": 14, "notebook": 11, "dockerfile": 8, "settings": 4, "other": 3,
}  # fmt: skip
"""How often a file of each kind is mutated."""
_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]+")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_NUMBER = re.compile(rb"\b\d[\d_.]*\b")
_ENCODINGS = (
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "latin-1",
    "shift-jis",
    "gb18030",
    "utf-7",
    "utf-8-sig",
    "cp037",
)


class Mutator:
    """Makes input after input out of a corpus."""

    def __init__(self, corpus: Sequence[Input], seed: int) -> None:
        self.seed = seed
        by_kind: defaultdict[str, list[tuple[Input, bytes]]] = defaultdict(list)
        for item in corpus:
            for name, data in item.files.items():
                by_kind[kind_name(name, data)].append((item, name))
        self.files = {kind: by_kind[kind] for kind in WEIGHTS if by_kind[kind]}

    def input(self, index: int) -> Input:
        """The input number ``index``: a job of the corpus of which one file, seldom more, is mutated."""
        random = Random(f"{self.seed}:{index}")
        kind = random.choices([*self.files], [WEIGHTS[kind] for kind in self.files])[0]
        item, name = random.choice(self.files[kind])
        files, done = dict(item.files), []
        for victim in [name, *(other for other in files if other != name and random.random() < 0.1)]:
            data = files[victim]
            for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
                mutation = random.choice(MUTATIONS)
                data = mutation(random, data, kind_name(victim), self)[: 4 * MAX_FILE]
                done.append(mutation.__name__)
            files[victim] = data
        if random.random() < 0.04:
            extra = random.choice(EXTRA_FILES)
            files.setdefault(extra, self.other(random))
            done.append("extra_file")
        if random.random() < 0.06:
            files[_renamed(random, name)] = files.pop(name)
            done.append("file_name")
        return Input(files, kind, tuple(dict.fromkeys(done)), index, item.origin)

    def other(self, random: Random, kind: str = "") -> bytes:
        """The content of some file of the corpus."""
        item, name = random.choice(self.files.get(kind) or self.files[random.choice([*self.files])])
        return item.files[name]


Mutation = Callable[[Random, bytes, str, Mutator], bytes]


def _renamed(random: Random, name: bytes) -> bytes:
    path = Path(os.fsdecode(name))
    stem, suffix = os.fsencode(path.stem), os.fsencode(path.suffix)
    if random.random() < 0.2:
        return b"a" * random.choice((200, 251 - len(suffix), 255 - len(suffix))) + suffix
    pattern = random.choice(NAMES)
    return pattern.replace(b"%s", stem + suffix if random.random() < 0.7 else suffix)[-255:] or b"x"


def _span(random: Random, size: int, most: int) -> tuple[int, int]:
    start = random.randrange(size + 1)
    return start, min(size, start + random.randint(1, most))


def _insert(random: Random, data: bytes, text: bytes) -> bytes:
    """``text`` put in at a token, at a line or anywhere."""
    how = random.random()
    if how < 0.5:
        places = [match.start() for match in _TOKEN.finditer(data)]
    elif how < 0.8:
        places = [0, *(match.end() for match in re.finditer(rb"\n", data))]
    else:
        places = [random.randrange(len(data) + 1)]
    at = random.choice(places or [0])
    return data[:at] + text + data[at:]


def byte_flips(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8)) if changed else 0):
        changed[random.randrange(len(changed))] = random.choice((random.randrange(256), random.randrange(32, 127)))
    return bytes(changed)


def delete_bytes(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    start, end = _span(random, len(data), 40)
    return data[:start] + data[end:]


def delete_lines(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    lines = data.splitlines(keepends=True)
    start, end = _span(random, len(lines), 6)
    return b"".join(lines[:start] + lines[end:])


def delete_tokens(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    tokens = _TOKEN.findall(data)
    return b"".join(token for token in tokens if random.random() > 4 / (len(tokens) + 1))


def repeat_lines(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    """A line or block up to 100 times."""
    lines = data.splitlines(keepends=True)
    start, end = _span(random, len(lines), random.choice((1, 3, 10)))
    return b"".join(lines[:start] + lines[start:end] * _times(random, b"".join(lines[start:end])) + lines[end:])


def repeat_tokens(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    tokens = _TOKEN.findall(data)
    start, end = _span(random, len(tokens), random.choice((1, 2, 6)))
    part = b"".join(tokens[start:end])
    return b"".join(tokens[:start]) + part * _times(random, part) + b"".join(tokens[end:])


def _times(random: Random, part: bytes) -> int:
    return min(random.choice((2, 2, 2, 3, 10, 100)), MAX_FILE // (len(part) + 1) + 1)


def swap_lines(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    return _swapped(random, data.splitlines(keepends=True))


def swap_tokens(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    return _swapped(random, _TOKEN.findall(data))


def _swapped(random: Random, parts: list[bytes]) -> bytes:
    for _ in range(random.choice((1, 1, 3)) if parts else 0):
        one, other = random.randrange(len(parts)), random.randrange(len(parts))
        parts[one], parts[other] = parts[other], parts[one]
    return b"".join(parts)


def splice(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    """Part of another file, mostly of the same kind, in place of some lines."""
    other = mutator.other(random, kind if random.random() < 0.75 else "").splitlines(keepends=True)
    lines = data.splitlines(keepends=True)
    start, end = _span(random, len(lines), 8)
    begin = random.randrange(len(other) + 1)
    return b"".join([*lines[:start], *other[begin : begin + random.choice((1, 5, 50))], *lines[end:]])


def truncate(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] if random.random() < 0.8 else data[at:]


def known_token(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    """A word or line that readers of the kind know."""
    for _ in range(random.choice((1, 1, 2, 4))):
        data = _insert(random, data, random.choice(BY_KIND.get(kind) or ANY))
    return data


def known_lines(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    """Nothing but such words, some many times: what no file of the corpus looks like."""
    words = random.sample(BY_KIND.get(kind) or ANY, 5)
    made = b"".join(random.choice(words) * random.choice((1, 1, 1, 2, 20)) for _ in range(random.randint(1, 12)))
    return made if random.random() < 0.3 else _insert(random, data, made)


def odd_token(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    """Marks, control characters, huge numbers, deep brackets and the like."""
    return _insert(random, data, random.choice(ANY))


def foreign_token(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    return _insert(random, data, random.choice(BY_KIND[random.choice([*BY_KIND])]))


def replace_token(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    tokens = _TOKEN.findall(data)
    if tokens:
        words = (*BY_KIND.get(kind, ANY), random.choice(tokens), random.choice(ANY))
        tokens[random.randrange(len(tokens))] = random.choice(words)
    return b"".join(tokens)


def coding_cookie(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    cookie = b"# -*- coding: %s -*-\n" % random.choice(CODECS).encode()
    first, mark, rest = data.partition(b"\n")
    return first + mark + cookie + rest if first.startswith(b"#!") else cookie + data


def encode(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    return data.decode("utf-8", "replace").encode(random.choice(_ENCODINGS), "replace")


def line_ends(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    ends = random.choice(
        ((b"\r\n",), (b"\r",), (b"\n", b"\r\n", b"\r"), (b"\x0c\n", b"\n"), (b"\n\n", b"\n"), (b"\\\n", b"\n"))
    )
    return b"".join(line + random.choice(ends) for line in data.split(b"\n"))


def rename(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    """One identifier becomes another of the file, a very long one or one outside of ASCII, everywhere or once."""
    words = sorted(set(_WORD.findall(data)))
    if not words:
        return data
    old = random.choice(words)
    new = random.choice(
        (random.choice(words), b"a" * 300, "\u0434\u0430".encode(), "\ufb01".encode(), b"self", b"_", b"None")
    )
    return re.sub(rb"\b" + old + rb"\b", lambda _: new, data, count=random.choice((0, 0, 1)))


def numbers(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    return _NUMBER.sub(lambda found: random.choice(NUMBERS) if random.random() < 0.3 else found.group(), data)


def indentation(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    lines = data.splitlines(keepends=True)
    start, end = _span(random, len(lines), random.choice((1, 5, 100)))
    change = random.choice((b"\t", b" ", b"    ", b"\x0c", b" " * 200, b"\xc2\xa0", b""))
    lines[start:end] = [change + (line if change else line.lstrip()) for line in lines[start:end]]
    return b"".join(lines)


def nest(random: Random, data: bytes, kind: str, mutator: Mutator) -> bytes:
    """Deep nesting of one bracket or block."""
    depth = random.choice((5, 30, 100, 300, 1000))
    opening, closing = random.choice(
        (
            (b"(", b")"),
            (b"[", b"]"),
            (b"{", b"}"),
            (b"$(", b")"),
            (b"`", b"`"),
            (b'"${a:-', b'}"'),
            (b"f(", b")"),
            (b"not ", b""),
        )
    )
    inner = random.choice((b"", b"x", b"1", b"$x", b"'x'"))
    return _insert(random, data, opening * depth + inner + (closing * depth if random.random() < 0.8 else b""))


MUTATIONS: tuple[Mutation, ...] = (
    byte_flips, delete_bytes, delete_lines, delete_tokens, repeat_lines, repeat_tokens, swap_lines, swap_tokens, splice,
    truncate, known_token, known_token, known_lines, odd_token, foreign_token, replace_token, coding_cookie, encode,
    line_ends, rename, numbers, indentation, nest,
)  # fmt: skip
