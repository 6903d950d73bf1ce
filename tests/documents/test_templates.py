from gpulint.documents.templates import optional_parts


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
