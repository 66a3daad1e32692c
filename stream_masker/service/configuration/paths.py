"""A configuration's field paths: how they are read, and the checks that no two paths select the same value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fhir import BUNDLE, TYPE_PATH, FhirTypes, fhir_path, type_of_path
from stream_masker.pipeline.hl7v2 import hl7_path, kept_paths
from stream_masker.pipeline.paths import NameStep, Path, alternatives, compile_path
from stream_masker.pipeline.plan import Place
from stream_masker.service.configuration.errors import Location, Problem, format_location
from stream_masker.service.configuration.masking import AttributeSection
from stream_masker.service.configuration.model import Configuration

POSITION = "position"
"""The ``noise_key`` that is not a path: it stands for topic, partition and offset."""

FIELD_TREATMENTS = ("keep", "drop", "pseudonymize", "references", "generalize", "shift", "constant")
"""The keys of ``fields`` that hold paths, as a list or as the keys of a mapping."""

WHOLE = ("keep", "drop")
"""The treatments of whole segments and fields of HL7 v2 messages."""


def field_path(configuration: Configuration, text: str, *, whole: bool = False) -> Path:
    """Return the path of a field or an attribute. Raises ConfigurationError.

    ``whole``: whether it may be that of a whole segment or field of an HL7 v2 message, which is kept or dropped.
    """
    path = compile_path(text)
    if configuration.records == "hl7v2":
        return hl7_path(path, whole=whole)
    return fhir_path(path) if configuration.records == "fhir" else path


def key_path(configuration: Configuration, text: str) -> Path:
    """Return the path of a key, such as ``noise_key``, which has one value in a record: that of the first of several
    paths, as in ``after.id | before.id``, which has one. Raises ConfigurationError."""
    first, *others = alternatives(text)
    path = compile_path(first)
    if configuration.records == "hl7v2":
        path = hl7_path(path, first=True)
    elif configuration.records == "fhir":
        path = fhir_path(path, first=True)
    return Path(text, path.steps, key_path(configuration, " | ".join(others))) if others else path


def code_places(configuration: Configuration, attribute: AttributeSection) -> list[Place]:
    """Return the places of an attribute's codes. Raises ConfigurationError."""
    copies = tuple(field_path(configuration, text) for text in attribute.copies)
    first, *others = [field_path(configuration, text) for text in alternatives(attribute.path)]
    if others and first.arrays:
        raise ConfigurationError(f"path {attribute.path!r} has a [*]: list its further paths in also")
    if attribute.also and not first.arrays:
        raise ConfigurationError(f"also needs a path with [*]; of one code, write path: {attribute.path} | …")
    codes = [first, *others, *(field_path(configuration, text) for text in attribute.also)]
    return [
        Place(code, label_path(configuration, attribute, code), () if k else copies) for k, code in enumerate(codes)
    ]


def label_path(configuration: Configuration, attribute: AttributeSection, code: Path) -> Path | None:
    """Return the path of the labels of the codes at a path; None for no labels. Raises ConfigurationError."""
    if attribute.label is None:
        return None
    if not attribute.label.startswith(".") or configuration.records == "hl7v2":
        if attribute.also or alternatives(attribute.path)[1:]:
            raise ConfigurationError(
                f"{attribute.label!r} is the label of one path: use a name beside each code, as .text"
            )
        return field_path(configuration, attribute.label)
    beside = compile_path(f"code{attribute.label}").steps[1:]
    if any(not isinstance(step, NameStep) for step in beside):
        raise ConfigurationError(f"{attribute.label!r} is not allowed: use names, as in .display")
    return Path(f"{attribute.label} beside {code.text}", (*code.steps[:-1], *beside))


def fhir_types(configuration: Configuration) -> FhirTypes | None:
    """Return the types of resources that the paths of a configuration name; None if messages are not FHIR."""
    if configuration.records != "fhir":
        return None
    listed = {type_of_path(compile_path(text)) for text in _written_texts(configuration)} - {BUNDLE}
    return FhirTypes(frozenset(listed), configuration.fields.unlisted == "keep")


def type_paths(configuration: Configuration) -> tuple[Path, ...]:
    """Return the paths that are kept so that a message is valid: the types of FHIR resources, the header of HL7 v2."""
    if configuration.records == "hl7v2":
        return tuple(kept_paths([text[:3] for text in _written_texts(configuration)]))
    types = fhir_types(configuration)
    if types is None:
        return ()
    return TYPE_PATH, *(fhir_path(compile_path(f"{kind}.resourceType")) for kind in sorted(types.listed))


def _written_texts(configuration: Configuration) -> Iterator[str]:
    """Yield the paths of everything that a masked message has."""
    for attribute in configuration.attributes.values():
        yield from (*alternatives(attribute.path), *attribute.also, *attribute.copies)
    for treatment in FIELD_TREATMENTS:
        yield from getattr(configuration.fields, treatment)


def path_problems(configuration: Configuration) -> list[Problem]:
    """Return the problems of all paths: syntax errors if there are any, otherwise fields that contain what is masked.

    The plan of the pipeline checks the rest when it is built.
    """
    paths: dict[Location, Path] = {}
    problems: list[Problem] = []
    for location, read in _readers(configuration):
        try:
            if (path := read()) is not None:
                paths[location] = path
        except ConfigurationError as error:
            problems.append((location, str(error)))
    return problems or [*_masked_fields(paths), *_fields_in_references(paths)]


def _readers(configuration: Configuration) -> Iterator[tuple[Location, Callable[[], Path | None]]]:
    """Yield the location of every configured path, with a function that reads it."""
    for name, attribute in configuration.attributes.items():
        first, *others = alternatives(attribute.path)
        lists = {"also": attribute.also, "copies": attribute.copies, "path": others}
        yield ("attributes", name, "path"), partial(field_path, configuration, first)
        for key, texts in lists.items():
            for i, text in enumerate(texts):
                yield ("attributes", name, key, i), partial(field_path, configuration, text)
        yield ("attributes", name, "label"), partial(_label, configuration, attribute, first)
    for treatment in FIELD_TREATMENTS:
        given = getattr(configuration.fields, treatment)
        for i, text in enumerate(given):
            place = text if isinstance(given, Mapping) else i
            yield (
                ("fields", treatment, place),
                partial(field_path, configuration, text, whole=treatment in WHOLE),
            )
    context = getattr(configuration.mechanism, "context", None) or ()
    keys: dict[Location, str | None] = {("mechanism", "context", text): text for text in context}
    keys |= {("noise_key",): configuration.noise_key, ("groups", "unit"): configuration.groups.unit}
    for location, path in keys.items():
        if path is not None and path != POSITION:
            yield location, partial(key_path, configuration, path)


def _label(configuration: Configuration, attribute: AttributeSection, code: str) -> Path | None:
    return label_path(configuration, attribute, field_path(configuration, code))


def _masked_fields(paths: Mapping[Location, Path]) -> Iterator[Problem]:
    masked = {location: path for location, path in paths.items() if location[0] == "attributes"}
    for location, path in paths.items():
        if location[0] != "fields":
            continue
        meets = path.may_meet if location[1] == "keep" else path.__eq__
        owner = next((at for at, other in masked.items() if meets(other)), None)
        if owner is not None:
            yield (
                location,
                f"{path.text!r} contains {format_location(owner)}, which is masked: list only the fields beside it",
            )


def _fields_in_references(paths: Mapping[Location, Path]) -> Iterator[Problem]:
    """Yield the fields inside a Reference, which would be left empty: longer paths decide what becomes of its parts."""
    references = [(location, path) for location, path in paths.items() if location[:2] == ("fields", "references")]
    for location, path in paths.items():
        for reference, outer in references:
            if location[0] == "fields" and len(path.steps) > len(outer.steps) and path.may_meet(outer):
                yield (
                    location,
                    f"{path.text!r} is inside {format_location(reference)} {outer.text!r}, of which reference and type "
                    "are left and all else is dropped: list only one of them",
                )
