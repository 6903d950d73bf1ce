import pytest

from gpulint.documents.templates import hidden, optional_parts, shown, without_control


def parts(text: str) -> list[str]:
    return [text[start:end] for start, end in optional_parts(text)]


def test_conditions_of_jinja_and_helm_are_optional() -> None:
    assert parts("a {%- if x %} b {% else %} c {% endif -%} d") == ["{%- if x %} b {% else %} c {% endif"]
    assert parts("a {{- if .x }} b {{- end }} c {{ .y }}") == ["{{- if .x }} b {{- end"]


def test_only_the_outermost_condition_counts() -> None:
    assert parts("{% for x in y %}{% if x %}a{% endif %}{% endfor %}b") == [
        "{% for x in y %}{% if x %}a{% endif %}{% endfor"
    ]


def test_a_tag_that_nobody_closes_hides_nothing() -> None:
    assert parts("{% if x %} pip install torch") == []
    assert parts("echo ${A%-*} {{ .Values.x }}") == []


@pytest.mark.parametrize(
    "text",
    ["{{}}" * 5000 + "x", "{{" * 50_000, "{{/*" * 20_000, "{#" * 50_000, "{% " * 30_000, "{{ a }}{% b %}\n" * 5000],
)
def test_hostile_templates_keep_their_length(text: str) -> None:
    assert len(without_control(text)) == len(text)
    assert shown(hidden(text)) == text


def test_the_length_of_an_array_is_no_comment() -> None:
    assert without_control("a: ${#x} b #}") == "a: ${#x} b #}"
