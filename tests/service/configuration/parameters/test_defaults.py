"""The default mechanism: what it is for each kind of attributes, that it masks them, and what is said about it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, mechanism_parameters
from stream_masker.service.configuration.parameters.defaults import mechanism_line

SECRET = bytes(range(32))
CODES = {"flat": ["a", "b", "c", "d"], "other": ["x", "y", "z"]}
ONTOLOGIES = {
    "flat": {"source": "flat.csv"},
    "other": {"source": "other.csv"},
}
SCALAR = {"path": "main", "ontology": "flat"}
ANOTHER = {"path": "side", "ontology": "flat"}
THIRD = {"path": "third", "ontology": "other"}
ARRAY = {"path": "others[*]", "ontology": "flat"}
SECOND_ARRAY = {"path": "more[*]", "ontology": "flat"}


def data(*attributes, **sections):
    named = {f"a{i}": attribute for i, attribute in enumerate(attributes)}
    used = {attribute["ontology"] for attribute in attributes}
    return {
        "ontologies": {name: ONTOLOGIES[name] for name in used},
        "attributes": named,
        "fields": {"unlisted": "drop"},
        "noise_key": "position",
        **sections,
    }


def parse(*attributes, **sections):
    return parse_configuration(data(*attributes, **sections), folder=Path(__file__).parent)


RULE = {"rounding": "calibrated", "candidates": "observed"}


@pytest.mark.parametrize(
    ("attributes", "correlated", "reference"),
    [
        ([SCALAR], False, "mean"),
        ([ARRAY], False, "mean"),
        ([SCALAR, ANOTHER], True, "pair"),
        ([SCALAR, ARRAY], True, "pair"),
        ([SCALAR, ANOTHER | {"root": "b"}], True, "mean"),
        ([SCALAR, THIRD], True, "mean"),
        ([SCALAR, ANOTHER, THIRD], True, "mean"),
        ([SCALAR, ARRAY, SECOND_ARRAY], False, "mean"),
    ],
)
@pytest.mark.parametrize("section", [{}, {"mechanism": {}}, {"mechanism": {"distance": "log_taxonomic"}}])
def test_nominal_attributes_get_semantic_noise(attributes, correlated, reference, section):
    configuration = parse(*attributes, **section)
    given = configuration.mechanism
    assert (given.name, given.correlated, given.reference) == ("semantic_noise", correlated, reference)
    assert {name: getattr(given, name) for name in RULE} == RULE
    assert set(mechanism_parameters(configuration)["alpha"].values()) == {1.0}
    assert configuration.default_reason == ""
    assert build_mechanism(configuration, SECRET).name == "semantic_noise"


@pytest.mark.parametrize(
    ("preset", "rounding", "candidates", "alpha"),
    [("paper", "ceil", "all", 0.3), ("strong", "ceil", "leaves", 1.0)],
)
def test_a_preset_has_other_defaults_than_semantic_noise(preset, rounding, candidates, alpha):
    configuration = parse(SCALAR, ANOTHER | {"alpha": 0.5}, mechanism={"name": "semantic_noise", "preset": preset})
    given = configuration.mechanism
    assert (given.rounding, given.candidates, given.reference) == (rounding, candidates, "pair")
    assert mechanism_parameters(configuration)["alpha"] == {"a0": alpha, "a1": 0.5}
    assert build_mechanism(configuration, SECRET).name == "semantic_noise"


def test_parameters_of_semantic_transport_ask_for_it():
    configuration = parse(SCALAR, mechanism={"certainty": 0.4, "least": 3})
    reason = "only semantic_transport has certainty, least"
    assert (configuration.mechanism.name, configuration.default_reason) == ("semantic_transport", reason)
    assert mechanism_line(configuration).endswith(f"; the default, because {reason}")


@pytest.mark.parametrize("section", [{"rounding": "ceil"}, {"preset": "paper", "candidates": "observed"}])
def test_ceil_is_refused_with_observed_candidates(section):
    with pytest.raises(ConfigurationError, match="'ceil' is not allowed with candidates='observed': few concepts"):
        build_mechanism(parse(SCALAR, mechanism={"name": "semantic_noise", **section}), SECRET)


def test_the_alpha_is_that_of_each_attribute():
    transport = {"mechanism": {"name": "semantic_transport"}}
    configuration = parse(SCALAR | {"alpha": 0.7}, ANOTHER | {"alpha": 0.2}, **transport)
    assert mechanism_parameters(configuration)["alpha"] == {"a0": 0.7, "a1": 0.2}
    line = "mechanism: semantic_transport (alpha 0.7 of a0, 0.2 of a1, certainty 0.5)"
    assert mechanism_line(configuration) == line


def test_an_alpha_of_the_mechanism_beside_one_of_an_attribute_is_an_error(problems_of):
    own = {"name": "semantic_transport", "alpha": 0.2}
    assert problems_of(data(SCALAR | {"alpha": 0.7}, mechanism=own)) == [
        "attributes.a0.alpha: semantic_transport has an alpha of its own: remove it"
    ]


ATTRIBUTES = st.lists(
    st.sampled_from(["flat", "other"]).flatmap(
        lambda ontology: st.builds(lambda array: (ontology, array), array=st.booleans())
    ),
    min_size=1,
    max_size=4,
)


@given(attributes=ATTRIBUTES, seed=st.integers(0, 1000))
def test_the_default_masks_records_of_any_attributes(attributes, seed):
    given = [{"path": f"p{i}{'[*]' if array else ''}", "ontology": o} for i, (o, array) in enumerate(attributes)]
    mechanism = build_mechanism(parse(*given), SECRET)
    generator = Random(seed)
    values = {name: CODES[o] for name, (o, _) in zip(mechanism.attributes, attributes, strict=True)}
    arrays = {name: array for name, (_, array) in zip(mechanism.attributes, attributes, strict=True)}

    def drawn(name):
        return (
            generator.choices(values[name], k=generator.randrange(3))
            if arrays[name]
            else generator.choice(values[name])
        )

    records = [{name: drawn(name) for name in values} for _ in range(120)]
    mechanism.learn_many(records, time=0.0)
    mechanism.calibrate()
    masked = mechanism.mask_many(records, keys=[b"%d" % i for i in range(120)])
    assert masked != records
    for before, after in zip(records, masked, strict=True):
        for name, value in after.items():
            written = value if arrays[name] else [value]
            assert set(written) <= set(values[name])
            assert len(written) == (len(before[name]) if arrays[name] else 1)
