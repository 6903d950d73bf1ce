"""The harness for Markdown specs: what it reads, what it catches, and what it tells the author."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from gpulint import plugins
from gpulint.fix import Edit, Fix, Fixer, Safety
from gpulint.testing import SpecError, check, read


@pytest.fixture
def spec(tmp_path: Path, install: Any) -> Any:
    """``spec(sections)`` runs a spec of TST101; returns its cases."""

    def call(text: str, **replaced: Fixer) -> list[Any]:
        path = tmp_path / "tst101_waste_word.md"
        path.write_text("# TST101 waste-word\n\nProse.\n\n" + textwrap.dedent(text), encoding="utf-8")
        loaded = plugins.load()
        loaded.fixers |= replaced
        cases = read(path)
        for number, case in enumerate(cases):
            folder = tmp_path / f"case{number}"
            folder.mkdir()
            check(case, loaded, folder)
        return cases

    return call


GOOD = """
    ## Bad: a word in two files

    ```python pkg/a.py
    x = (1,  # a comment
         WASTE)  # error: [TST101] "the word"
    ```
    ```bash run.sh
    srun \\
      echo WASTE \\  # error: [TST101]
      done
    ```
    ```python pkg/a.py fixed
    x = (1,  # a comment
         FIXED)
    ```

    ## Good: no word

    ```python a.py
    x = "# error: [no marker] inside a line", 1
    ```

    ## Silent: not known

    ~~~
    prose
    ~~~
    ````yaml a.yaml
    a: HINT
    ````
"""


def test_a_spec_that_holds(spec: Any) -> None:
    cases = spec(GOOD)
    assert [case.id for case in cases] == [
        "TST101-bad-a-word-in-two-files",
        "TST101-good-no-word",
        "TST101-silent-not-known",
    ]
    assert cases[0].files["run.sh"] == "srun \\\n  echo WASTE \\\n  done\n"
    assert [case.kind for case in cases] == ["Bad", "Good", "Silent"]


def test_notebooks_say_where_to_expect(spec: Any, notebook: Any) -> None:
    text = notebook("x = 1", "y = 2\nWASTE")
    spec(f"## Bad: in a cell\n```ipynb n.ipynb\n{text}\n```\nexpect: n.ipynb:cell 1:2 [TST101]\n")


def test_several_rules_and_settings(spec: Any) -> None:
    spec(
        """
        ## Bad: both
        select: TST101, TST102
        ```python a.py
        WASTE, HINT  # error: [TST101, TST102]
        ```
        ```python b.py
        WASTE
        HINT  # error: [TST102]
        ```
        ```toml gpulint.toml
        [per-file-ignores]
        "b.py" = ["TST101"]
        ```
        """
    )


def case(title: str, *lines: str) -> str:
    return "\n".join((f"## {title}", "```python a.py", *lines, "```", ""))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            case("Bad: x", "WASTE", "x = 1  # error: [TST101]"),
            r"missing: +a\.py:2 \[TST101\]\n *unexpected: a\.py:1 \[TST101\] the word WASTE\n",
        ),
        (case("Bad: x", 'WASTE  # error: [TST101] "other"'), r'missing: +a\.py:1 \[TST101\] "other"'),
        (case("Good: x", "WASTE"), r"unexpected: a\.py:1 \[TST101\](.|\n)*mark the line with"),
        (
            case("Bad: x", "WASTE  # error: [TST101]", "```", "```python a.py fixed", "waste"),
            r"not what the spec says(.|\n)*--- got:\nFIXED\n",
        ),
        ("## Good: x\nselect: TST999\n```python a.py\nx\n```\n", "no rule TST999 is registered"),
    ],
)
def test_a_failing_case_says_what_is_wrong(spec: Any, text: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        spec(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("## Something\n```python a.py\nx\n```\n", ":5: a title starts with one of Bad, Good, Silent"),
        ("## Good: x\n```python a.py\nx\n", ":6: this block is never closed"),
        ("## Good: x\n", ":5: the case has no files"),
        ("## Bad: x\n```python a.py\nx\n```\n", ":5: a Bad case expects at least one finding"),
        ("```python a.py\nx\n```\n", ":5: a file needs a '## ' section"),
        ("## Good: x\n```python a.py fxed\nx\n```\n", ":6: unknown words 'fxed'"),
        ("## Good: x\n```python ../a.py\nx\n```\n", ":6: ../a.py: given twice, or not inside"),
        ("## Bad: x\n```python a.py\nx\n```\nexpect: a.py [TST101]\n", ":9: not of the form 'expect:"),
        ("## Bad: x\n```python a.py\nx\n```\nexpect: b.py:1 [TST101]\n", ":5: b.py is expected, but not"),
    ],
)
def test_a_malformed_spec_is_refused_with_its_line(spec: Any, text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(text)
    assert message in str(caught.value)


BAD = "## Bad: x\n```python a.py\nWASTE  # error: [TST101]\n```\n"


@pytest.mark.parametrize(
    ("new", "safety", "message"),
    [
        ("FIXED(", Safety.SAFE, "TST101 at a.py:1 could not be applied: a.py could no longer be read: syntax error"),
        ("WASTE WASTE".replace(" ", ", "), Safety.SAFE, "the fix does not silence its finding"),
        (None, Safety.SAFE, "a safe fix that changes 0 places"),
        ("FIXED", Safety.ADVICE, "a advice fix that changes 1 places"),
    ],
)
def test_fixes_that_break_their_promise(spec: Any, new: str | None, safety: Safety, message: str) -> None:
    def fix(finding: Any, project: Any) -> Fix:
        edits = () if new is None else (Edit(finding.path, finding.span, new),)
        return Fix("Try.", safety, edits)

    with pytest.raises(AssertionError, match=message.replace("(", r"\(")):
        spec(BAD, TST101=Fixer("TST101", fix))
