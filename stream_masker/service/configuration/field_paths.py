"""Checks of a configuration's field paths: each path parses, and no two paths select the same value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import TypeAlias

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import FilterStep, Path
from stream_masker.service.configuration.attributes import AlphaFromPath, AnyAttributeSection, AttributeSection
from stream_masker.service.configuration.fields.reading import field_path, key_path, label_path
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.wording import ConfigurationLocation, format_location

LocatedProblem: TypeAlias = tuple[ConfigurationLocation, str]
LocatedPaths: TypeAlias = Mapping[ConfigurationLocation, Path]

POSITION = "position"
"""The ``noise_key`` that is not a path: it stands for topic, partition and offset."""

FIELD_LISTS = ("keep", "drop", "pseudonymize", "references", "encrypt")
WHOLE = ("keep", "drop")
FIELD_MAPPINGS = ("pseudonyms", "generalize", "shift", "constant")


def path_problems(configuration: Configuration) -> list[LocatedProblem]:
    """Return the problems of all paths: syntax errors if there are any, otherwise conflicts between paths."""
    paths: dict[ConfigurationLocation, Path] = {}
    problems: list[LocatedProblem] = []
    for location, read in _path_readers(configuration):
        try:
            paths[location] = read()
        except ConfigurationError as error:
            problems.append((location, str(error)))
    if problems:
        return problems
    array_problems = [*_numeric_array_problems(configuration), *_array_problems(paths)]
    field_problems = (*_duplicate_paths(paths), *_masked_fields(paths), *_fields_in_references(paths))
    return [*array_problems, *_overlapping_paths(paths), *field_problems]


def is_array(configuration: Configuration, attribute: AnyAttributeSection) -> bool:
    """Return whether an attribute has one value per element of an array; False for a path that does not parse."""
    try:
        return field_path(configuration, attribute.path).arrays > 0
    except ConfigurationError:
        return False


def _path_readers(configuration: Configuration) -> Iterator[tuple[ConfigurationLocation, Callable[[], Path]]]:
    """Yield the location of every configured path, with a function that reads it."""
    for name, attribute in configuration.attributes.items():
        for rest, read in _attribute_path_readers(configuration, attribute):
            yield ("attributes", name, *rest), read
    for kind in FIELD_LISTS:
        for i, text in enumerate(getattr(configuration.fields, kind)):
            yield ("fields", kind, i), partial(field_path, configuration, text, whole=kind in WHOLE)
    for kind in FIELD_MAPPINGS:
        for text in getattr(configuration.fields, kind):
            yield ("fields", kind, text), partial(field_path, configuration, text)
    if configuration.noise_key != POSITION:
        yield ("noise_key",), partial(key_path, configuration, configuration.noise_key)
    if configuration.groups.unit is not None:
        yield ("groups", "unit"), partial(key_path, configuration, configuration.groups.unit)
    for text in getattr(configuration.mechanism, "context", None) or ():
        yield ("mechanism", "context", text), partial(key_path, configuration, text)


def _attribute_path_readers(
    configuration: Configuration, attribute: AnyAttributeSection
) -> Iterator[tuple[ConfigurationLocation, Callable[[], Path]]]:
    yield ("path",), partial(field_path, configuration, attribute.path)
    if isinstance(attribute, AttributeSection):
        for i, text in enumerate(attribute.also):
            yield ("also", i), partial(field_path, configuration, text)
        if attribute.label is not None:
            yield ("label",), partial(_label, configuration, attribute, attribute.path)
        for i, copy in enumerate(attribute.copies):
            yield ("copies", i), partial(field_path, configuration, copy)
    if isinstance(attribute.alpha, AlphaFromPath):
        yield ("alpha", "path"), partial(key_path, configuration, attribute.alpha.path)


def _label(configuration: Configuration, attribute: AttributeSection, code: str) -> Path:
    path = label_path(configuration, attribute, field_path(configuration, code))
    if path is None or (attribute.also and not str(attribute.label).startswith(".")):
        raise ConfigurationError(f"{attribute.label!r} is the label of one path: use a name beside each code, as .text")
    return path


def rewritten_paths(paths: LocatedPaths) -> dict[ConfigurationLocation, Path]:
    """Return the paths that masking rewrites: codes, labels and copies of the attributes."""
    return {
        location: path for location, path in paths.items() if location[0] == "attributes" and location[2] != "alpha"
    }


def _array_problems(paths: LocatedPaths) -> Iterator[LocatedProblem]:
    for location, path in rewritten_paths(paths).items():
        code = path if location[2] == "also" else paths[(*location[:2], "path")]
        yield from ((location, text) for text in _rewritten_path_problems(path, code))
    for location, path in paths.items():
        if path.arrays and (location in (("noise_key",), ("groups", "unit")) or location[2:] == ("alpha", "path")):
            yield location, f"{path.text!r} is not allowed: use a path without [*], so that it selects one value"
        if location[2:3] == ("also",) and not (path.arrays and paths[(*location[:2], "path")].arrays):
            yield location, f"{path.text!r} needs a [*], and so does path: only array attributes have several paths"


def _numeric_array_problems(configuration: Configuration) -> Iterator[LocatedProblem]:
    for name, attribute in configuration.numeric.items():
        if not is_array(configuration, attribute):
            continue
        remedy = "use a path without [*], so that it selects one value"
        if configuration.records == "fhir":
            remedy = "a Bundle may have it in several resources; generalize the field instead, or drop it"
        yield ("attributes", name, "path"), f"{attribute.path!r} is not allowed for numbers: {remedy}"


def _rewritten_path_problems(path: Path, code: Path) -> Iterator[str]:
    if path.arrays != code.arrays:
        yield f"{path.text!r} must have a [*] exactly where the attribute's path {code.text!r} has one"
    if isinstance(path.steps[-1], FilterStep):
        yield f"{path.text!r} ends with a filter: add the field of the element that holds the value"


def _overlapping_paths(paths: LocatedPaths) -> Iterator[LocatedProblem]:
    for (first, this), (second, that) in combinations(rewritten_paths(paths).items(), 2):
        if this.may_meet(that):
            yield (
                second,
                f"{that.text!r} may select the same value as {format_location(first)} {this.text!r}: use another path",
            )


def _duplicate_paths(paths: LocatedPaths) -> Iterator[LocatedProblem]:
    first: dict[Path, ConfigurationLocation] = {}
    for location, path in paths.items():
        if location[0] == "fields" and first.setdefault(path, location) != location:
            yield location, f"{path.text!r} is also {format_location(first[path])}: list it once"


def _masked_fields(paths: LocatedPaths) -> Iterator[LocatedProblem]:
    masked = rewritten_paths(paths)
    for location, path in paths.items():
        owners = [
            masked_location
            for masked_location, other in masked.items()
            if location[0] == "fields" and _conflicts(location, path, other)
        ]
        if owners:
            yield (
                location,
                f"{path.text!r} contains {format_location(owners[0])}, which is masked: list only the fields beside it",
            )


def _fields_in_references(paths: LocatedPaths) -> Iterator[LocatedProblem]:
    """Yield the fields inside a Reference, which would be left empty: longer paths decide what becomes of its parts."""
    references = [(location, path) for location, path in paths.items() if location[:2] == ("fields", "references")]
    for location, path in paths.items():
        for reference, outer in references:
            inside = location[0] == "fields" and len(path.steps) > len(outer.steps) and path.may_meet(outer)
            if inside:
                yield (
                    location,
                    f"{path.text!r} is inside {format_location(reference)} {outer.text!r}, of which reference and type "
                    "are left and all else is dropped: list only one of them",
                )


def _conflicts(location: ConfigurationLocation, path: Path, other: Path) -> bool:
    """Return whether a field entry conflicts with a masked path.

    A kept field must not contain or be contained in a masked one: data beside a code can reveal it.
    """
    return path.may_meet(other) if location[1] == "keep" else path == other
