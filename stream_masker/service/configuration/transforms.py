"""The treatment of fields that are not attributes, built from the configuration, and its checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fhir import ReferencePseudonym
from stream_masker.pipeline.hl7v2 import CONTROL_ID
from stream_masker.pipeline.paths import Path
from stream_masker.pipeline.plan import FieldPolicy
from stream_masker.pipeline.transforms import (
    NAMED_LEVELS,
    Constant,
    DateShift,
    DateUnit,
    FieldTransform,
    LeadingCharacters,
    LevelAncestor,
    NumberBands,
    ShortPseudonym,
    date_pattern_problem,
)
from stream_masker.service.configuration.errors import Problem
from stream_masker.service.configuration.masking import (
    BandSection,
    DateUnitSection,
    GeneralizeSection,
    LevelSection,
    ShiftSection,
)
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.ontologies import codes_of
from stream_masker.service.configuration.paths import POSITION, field_path, key_path, type_paths

CONTROL_ID_DIGITS = 20
"""The length of the pseudonym of a control id, which HL7 v2 limits to 20 characters."""

NO_KEY = "noise_key is position, so the dates of a person would move apart: use key, with a path such as patient.id"


def field_policy(configuration: Configuration) -> FieldPolicy:
    """Return the treatment of fields that are not attributes. Raises ConfigurationError."""
    fields = configuration.fields
    return FieldPolicy(
        unlisted=fields.unlisted,
        keep=(*type_paths(configuration), *_paths(configuration, fields.keep, whole=True)),
        drop=_paths(configuration, fields.drop, whole=True),
        pseudonymize=_paths(configuration, fields.pseudonymize),
        transforms=_transforms(configuration),
    )


def _paths(configuration: Configuration, texts: tuple[str, ...], *, whole: bool = False) -> tuple[Path, ...]:
    return tuple(field_path(configuration, text, whole=whole) for text in texts)


def _transforms(configuration: Configuration) -> dict[str, Mapping[Path, FieldTransform]]:
    """Return the transform of each path, by the key below ``fields``; keys without paths are left out."""
    fields = configuration.fields
    built: dict[str, dict[str, FieldTransform]] = {
        "references": dict.fromkeys(fields.references, ReferencePseudonym()),
        "generalize": {path: _generalized(configuration, rule) for path, rule in fields.generalize.items()},
        "shift": {path: _shifted(configuration, path, rule) for path, rule in fields.shift.items()},
        "constant": {path: Constant(value) for path, value in fields.constant.items()},
    }
    if configuration.records == "hl7v2" and not _names_control_id(configuration):
        built["pseudonyms"] = {CONTROL_ID: ShortPseudonym(CONTROL_ID_DIGITS)}
    return {
        key: {field_path(configuration, path): rule for path, rule in paths.items()}
        for key, paths in built.items()
        if paths
    }


def _names_control_id(configuration: Configuration) -> bool:
    """Return whether the configuration says what happens to the control id of HL7 v2 messages."""
    fields = configuration.fields
    texts = (*fields.keep, *fields.pseudonymize, *fields.constant)
    return any(text.replace("[*]", "").startswith(CONTROL_ID) for text in texts)


def _generalized(configuration: Configuration, rule: GeneralizeSection) -> FieldTransform:
    if isinstance(rule, LevelSection):
        depth = NAMED_LEVELS[rule.level] if isinstance(rule.level, str) else rule.level
        return LevelAncestor(rule.ontology, depth, partial(codes_of, configuration, rule.ontology))
    if isinstance(rule, BandSection):
        return NumberBands(rule.width, rule.top)
    if isinstance(rule, DateUnitSection):
        return DateUnit(rule.date, rule.formats or ())
    return LeadingCharacters(rule.characters)


def _shifted(configuration: Configuration, path: str, rule: ShiftSection) -> DateShift:
    key = rule.key or configuration.noise_key
    if key == POSITION:
        raise ConfigurationError(f"fields.shift.{path}: {NO_KEY}")
    return DateShift(rule.days, key_path(configuration, key), rule.formats or ())


def transform_problems(configuration: Configuration) -> Iterator[Problem]:
    """Yield the problems of transforms: a shift without a key, and date formats."""
    fields = configuration.fields
    for kind, rules in (("generalize", fields.generalize), ("shift", fields.shift)):
        for path, rule in rules.items():
            for pattern in getattr(rule, "formats", None) or ():
                if (problem := date_pattern_problem(pattern, partial=kind == "generalize")) is not None:
                    yield ("fields", kind, path, "formats"), problem
    for path, shift in fields.shift.items():
        if shift.key is None and configuration.noise_key == POSITION:
            yield ("fields", "shift", path), NO_KEY
