"""Reading of configured paths, which start with a type of resources if messages are FHIR."""

from __future__ import annotations

from collections.abc import Iterator

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fhir.messages import BUNDLE, TYPE_PATH, FhirTypes, fhir_path, type_of_path
from stream_masker.pipeline.paths import NameStep, Path, compile_path
from stream_masker.pipeline.plan import Place
from stream_masker.service.configuration.attributes import AttributeSection
from stream_masker.service.configuration.model import Configuration


def field_path(configuration: Configuration, text: str) -> Path:
    """Return the path of a field or an attribute. Raises ConfigurationError."""
    path = compile_path(text)
    return fhir_path(path) if configuration.records == "fhir" else path


def key_path(configuration: Configuration, text: str) -> Path:
    """Return the path of a key, such as ``noise_key``, which has one value in a record. Raises ConfigurationError."""
    path = compile_path(text)
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
    if not attribute.label.startswith("."):
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
    """Return the paths of the types of a message and its resources, which are kept; none if messages are not FHIR."""
    types = fhir_types(configuration)
    if types is None:
        return ()
    return TYPE_PATH, *(fhir_path(compile_path(f"{kind}.resourceType")) for kind in sorted(types.listed))


def _path_texts(configuration: Configuration) -> Iterator[str]:
    for attribute in configuration.nominal.values():
        yield from (attribute.path, *attribute.also)
    fields = configuration.fields
    yield from (*fields.keep, *fields.drop, *fields.pseudonymize, *fields.references, *fields.encrypt)
    yield from (*fields.pseudonyms, *fields.generalize, *fields.shift, *fields.constant)
