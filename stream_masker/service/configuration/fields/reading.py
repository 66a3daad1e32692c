"""Reading of configured paths, which start with a type of resources if messages are FHIR, with a segment in HL7 v2."""

from __future__ import annotations

from collections.abc import Iterator

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fhir.messages import BUNDLE, TYPE_PATH, FhirTypes, fhir_path, type_of_path
from stream_masker.pipeline.hl7v2.paths import hl7_path, kept_paths
from stream_masker.pipeline.paths import NameStep, Path, compile_path
from stream_masker.pipeline.plan import Place
from stream_masker.service.configuration.attributes import AttributeSection
from stream_masker.service.configuration.model import Configuration


def field_path(configuration: Configuration, text: str, *, whole: bool = False) -> Path:
    """Return the path of a field or an attribute. Raises ConfigurationError.

    ``whole``: whether it may be that of a whole segment or field of an HL7 v2 message, which is kept or dropped.
    """
    path = compile_path(text)
    if configuration.records == "hl7v2":
        return hl7_path(path, whole=whole)
    return fhir_path(path) if configuration.records == "fhir" else path


def key_path(configuration: Configuration, text: str) -> Path:
    """Return the path of a key, such as ``noise_key``, which has one value in a record. Raises ConfigurationError."""
    path = compile_path(text)
    if configuration.records == "hl7v2":
        return hl7_path(path, first=True)
    return fhir_path(path, first=True) if configuration.records == "fhir" else path


def code_places(configuration: Configuration, attribute: AttributeSection) -> list[Place]:
    """Return the places of an attribute's codes. Raises ConfigurationError."""
    copies = tuple(field_path(configuration, text) for text in attribute.copies)
    codes = [field_path(configuration, text) for text in (attribute.path, *attribute.also)]
    return [
        Place(code, label_path(configuration, attribute, code), () if k else copies) for k, code in enumerate(codes)
    ]


def label_path(configuration: Configuration, attribute: AttributeSection, code: Path) -> Path | None:
    """Return the path of the labels of the codes at a path; None for no labels. Raises ConfigurationError."""
    if attribute.label is None:
        return None
    if not attribute.label.startswith(".") or configuration.records == "hl7v2":
        return field_path(configuration, attribute.label)
    beside = compile_path(f"code{attribute.label}").steps[1:]
    if any(not isinstance(step, NameStep) for step in beside):
        raise ConfigurationError(f"{attribute.label!r} is not allowed: use names, as in .display")
    return Path(f"{attribute.label} beside {code.text}", (*code.steps[:-1], *beside))


def fhir_types(configuration: Configuration) -> FhirTypes | None:
    """Return the types of resources that the paths of a configuration name; None if messages are not FHIR."""
    if configuration.records != "fhir":
        return None
    listed = {type_of_path(compile_path(text)) for text in _path_texts(configuration)} - {BUNDLE}
    return FhirTypes(frozenset(listed), configuration.fields.unlisted == "keep")


def type_paths(configuration: Configuration) -> tuple[Path, ...]:
    """Return the paths that are kept so that a message is valid: the types of FHIR resources, the header of HL7 v2."""
    if configuration.records == "hl7v2":
        return tuple(kept_paths([text[:3] for text in _path_texts(configuration)]))
    types = fhir_types(configuration)
    if types is None:
        return ()
    return TYPE_PATH, *(fhir_path(compile_path(f"{kind}.resourceType")) for kind in sorted(types.listed))


def _path_texts(configuration: Configuration) -> Iterator[str]:
    for attribute in configuration.nominal.values():
        yield from (attribute.path, *attribute.also, *attribute.copies)
    fields = configuration.fields
    yield from (*fields.keep, *fields.drop, *fields.pseudonymize, *fields.references, *fields.encrypt)
    yield from (*fields.pseudonyms, *fields.generalize, *fields.shift, *fields.constant)
