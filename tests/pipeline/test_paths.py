"""Paths: syntax, selection, and overlap."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, NameStep, compile_path, first_values, selected

NAME, ICD = NameStep("a"), "http://hl7.org/fhir/sid/icd-10-cm"


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("code", (NameStep("code"),)),
        ("a[0].b[12]", (NAME, IndexStep(0), NameStep("b"), IndexStep(12))),
        ("codes[*]", (NameStep("codes"), EachStep())),
        ("a b.c-d_é", (NameStep("a b"), NameStep("c-d_é"))),
        ("['a.b[0]'].c[\"d'\"]", (NameStep("a.b[0]"), NameStep("c"), NameStep("d'"))),
        (f"a[*].b[?system={ICD}].c", (NAME, EachStep(), NameStep("b"), FilterStep(("system",), ICD), NameStep("c"))),
        ("a[?x.y='it\\'s [1] = ]'].z", (NAME, FilterStep(("x", "y"), "it's [1] = ]"), NameStep("z"))),
        ("a[?x=1=2]", (NAME, FilterStep(("x",), "1=2"))),
        ("a[*?x=1]", (NAME, FilterStep(("x",), "1", every=True))),
    ],
)
def test_paths_are_compiled(text, steps):
    assert compile_path(text).steps == steps


@pytest.mark.parametrize(
    ("text", "character", "complaint"),
    [
        ("", 1, "a name is expected"),
        (" a", 1, "a name is expected"),
        (".a", 1, "a name is expected"),
        ("[*].a", 1, "a name is expected"),
        *(
            (f"a{rest}", 2, ".name, [0], [*]")
            for rest in (".", "..b", "[", "[]", "[-1]", "[01]", "[0", "]", "['b", "'b")
        ),
        *((f"a[?{rest}", 2, "[?field=value]") for rest in ("]", "x]", "x=]", "x='b]", "x=b[0]]")),
        ("a[*].b[*", 7, "[*]"),
        ("a[0]b", 5, ".name"),
    ],
)
def test_rejects_an_invalid_path_with_the_position_of_the_error(text, character, complaint):
    with pytest.raises(ConfigurationError) as raised:
        compile_path(text)
    assert f"path {text!r}, character {character}:" in str(raised.value)
    assert complaint in str(raised.value)


RECORD = {
    "a": {"b": [{"c": 1, "t": "x"}, {"c": 2, "t": "y"}, {"c": 3, "t": "x"}, {"t": "x"}]},
    "n": None,
    "l": [10, 20],
    "typed": [{"v": 1, "on": True, "text": "1"}, {"v": 1.5, "on": False}, {"v": {"deep": "z"}}],
}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b[0].c", [1]),
        ("a.b[*].c", [1, 2, 3]),
        ("a.b[?t=x].c", [1, 3]),
        ("n", [None]),
        ("l[*]", [10, 20]),
        ("typed[?v=1].on", [True]),
        ("typed[?v=1.5].on", [False]),
        ("typed[?on=true].v", [1]),
        ("typed[?v='1'].on", [True]),
        ("typed[?text=1].v", [1]),
        ("typed[?v.deep=z].v.deep", ["z"]),
        *((absent, []) for absent in ("a.b[9].c", "a.b[?t=z].c", "a.x.y", "n.b[0].c", "n[*].c")),
        *((misshapen, []) for misshapen in ("a.b.c", "l.x", "a[0]", "a[*].b", "a[?t=x].b", "l[0].x", "a.b[0].c.d")),
    ],
)
def test_paths_select_values(text, values):
    path = compile_path(text)
    assert [*selected(RECORD, path.steps)] == values
    assert first_values([RECORD], path) == [values[0] if values else None]


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a", "a.c", True),
        ("a[0].c", "a[*].c", True),
        ("a[0].c", "a[1].c", False),
        ("a[*].c", "a[*].d", False),
        ("a[?t=x].c", "a[?t=y].c", False),
        ("a[?t=x].c", "a[?u=y].c", True),
        ("a[?t=x].c", "a[0].c", True),
        ("a[0]", "a.b", False),
    ],
)
def test_overlapping_paths_are_detected(one, other, meet):
    assert compile_path(one).may_meet(compile_path(other)) is meet
    assert compile_path(other).may_meet(compile_path(one)) is meet
