"""The transforms of fields, built from the configuration."""

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
    FormattedPseudonym,
    LeadingCharacters,
    LevelAncestor,
    NumberBands,
    date_pattern_problem,
)
from stream_masker.service.configuration.errors import Problem
from stream_masker.service.configuration.field_paths import POSITION, field_path, key_path, type_paths
from stream_masker.service.configuration.fields.sections import (
    BandSection,
    DateUnitSection,
    GeneralizeSection,
    LevelSection,
)
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.ontologies import codes_of

CONTROL_ID_DIGITS = 20
"""The length of the pseudonym of a control id, which HL7 v2 limits to 20 characters."""


def build_transforms(configuration: Configuration) -> dict[str, Mapping[Path, FieldTransform]]:
    """Return the transform of each path, by the key below ``fields``; keys without paths are left out."""
    fields = configuration.fields
    shifts = {
        path: DateShift(s.days, key_path(configuration, _key(configuration, path)), s.formats or ())
        for path, s in fields.shift.items()
    }
    built: dict[str, dict[str, FieldTransform]] = {
        "pseudonyms": {path: FormattedPseudonym(s.prefix, s.digits) for path, s in fields.pseudonyms.items()},
        "references": dict.fromkeys(fields.references, ReferencePseudonym()),
        "generalize": {path: _generalized(configuration, rule) for path, rule in fields.generalize.items()},
        "shift": {**shifts},
        "constant": {path: Constant(value) for path, value in fields.constant.items()},
    }
    if configuration.records == "hl7v2" and not _names_control_id(configuration):
        built["pseudonyms"][CONTROL_ID] = FormattedPseudonym("", CONTROL_ID_DIGITS)
    return {
        key: {field_path(configuration, path): rule for path, rule in paths.items()}
        for key, paths in built.items()
        if paths
    }


def _names_control_id(configuration: Configuration) -> bool:
    """Return whether the configuration says what happens to the control id of HL7 v2 messages."""
    fields = configuration.fields
    texts = (*fields.keep, *fields.pseudonymize, *fields.pseudonyms, *fields.constant)
    return any(text.replace("[*]", "").startswith(CONTROL_ID) for text in texts)


def _generalized(configuration: Configuration, section: GeneralizeSection) -> FieldTransform:
    if isinstance(section, LevelSection):
        depth = NAMED_LEVELS[section.level] if isinstance(section.level, str) else section.level
        return LevelAncestor(section.ontology, depth, partial(codes_of, configuration, section.ontology))
    if isinstance(section, BandSection):
        return NumberBands(section.width, section.top)
    if isinstance(section, DateUnitSection):
        return DateUnit(section.date, section.formats or ())
    return LeadingCharacters(section.characters)


def _key(configuration: Configuration, path: str) -> str:
    key = configuration.fields.shift[path].key or configuration.noise_key
    if key == POSITION:
        raise ConfigurationError(f"fields.shift.{path}: {_NO_KEY}")
    return key


_NO_KEY = "noise_key is position, so the dates of a person would move apart: use key, with a path such as patient.id"


def _format_problems(configuration: Configuration) -> Iterator[Problem]:
    for kind in ("generalize", "shift"):
        for path, section in getattr(configuration.fields, kind).items():
            for pattern in getattr(section, "formats", None) or ():
                if (problem := date_pattern_problem(pattern, partial=kind == "generalize")) is not None:
                    yield ("fields", kind, path, "formats"), problem


def transform_problems(configuration: Configuration) -> Iterator[Problem]:
    """Yield the problems of transforms: a shift without a key, and date formats."""
    yield from _format_problems(configuration)
    if configuration.records == "hl7v2" and configuration.fields.unlisted == "keep":
        yield ("fields", "unlisted"), "'keep' is not allowed with records: hl7v2: use drop, and list what to keep"
    if configuration.records == "hl7v2" and configuration.format.value != "json":
        yield ("format", "value"), "HL7 v2 messages have no schema: leave it out with records: hl7v2"
    if configuration.noise_key == POSITION:
        for path, section in configuration.fields.shift.items():
            if section.key is None:
                yield ("fields", "shift", path), _NO_KEY


def field_policy(configuration: Configuration) -> FieldPolicy:
    """Return the treatment of fields that are not attributes."""
    fields = configuration.fields
    return FieldPolicy(
        unlisted=fields.unlisted,
        keep=(*type_paths(configuration), *_paths(configuration, fields.keep, whole=True)),
        drop=_paths(configuration, fields.drop, whole=True),
        pseudonymize=_paths(configuration, fields.pseudonymize),
        transforms=build_transforms(configuration),
    )


def _paths(configuration: Configuration, texts: tuple[str, ...], *, whole: bool = False) -> tuple[Path, ...]:
    return tuple(field_path(configuration, text, whole=whole) for text in texts)
