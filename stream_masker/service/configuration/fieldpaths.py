"""The field paths of a configuration: every one must parse, and no two may claim the same value differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TypeAlias

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import FilterStep, Path, compile_path
from stream_masker.service.configuration.model import (
    AlphaFromPath,
    AnyAttributeSection,
    AttributeSection,
    Configuration,
)
from stream_masker.service.configuration.wording import ConfigurationPlace, dotted

Problem: TypeAlias = tuple[ConfigurationPlace, str]
Paths: TypeAlias = Mapping[ConfigurationPlace, Path]

POSITION = "position"
"""The ``noise_key`` that is no path: topic, partition and offset."""

LISTS = ("keep", "drop", "pseudonymize")


def path_problems(configuration: Configuration) -> list[Problem]:
    """Everything that is wrong with the paths: their grammar first, and if that is well, what they mean together."""
    paths: dict[ConfigurationPlace, Path] = {}
    problems: list[Problem] = []
    for place, text in _texts(configuration):
        try:
            paths[place] = compile_path(text)
        except ConfigurationError as error:
            problems.append((place, str(error)))
    if problems:
        return problems
    shapes = [*_arrays_of_numbers(configuration), *_shapes(paths)]
    return [*shapes, *_overlaps(paths), *_twice(paths), *_attributes_in_fields(paths)]


def is_array(attribute: AnyAttributeSection) -> bool:
    """Whether an attribute has a value for each element of an array; False for a path that does not parse."""
    try:
        return compile_path(attribute.path).arrays > 0
    except ConfigurationError:
        return False


def _texts(configuration: Configuration) -> Iterator[tuple[ConfigurationPlace, str]]:
    for name, attribute in configuration.attributes.items():
        for rest, text in _attribute_texts(attribute):
            yield ("attributes", name, *rest), text
    for kind in LISTS:
        for i, text in enumerate(getattr(configuration.fields, kind)):
            yield ("fields", kind, i), text
    if configuration.noise_key != POSITION:
        yield ("noise_key",), configuration.noise_key


def _attribute_texts(attribute: AnyAttributeSection) -> Iterator[tuple[ConfigurationPlace, str]]:
    yield ("path",), attribute.path
    if isinstance(attribute, AttributeSection):
        if attribute.label is not None:
            yield ("label",), attribute.label
        for i, copy in enumerate(attribute.copies):
            yield ("copies", i), copy
    if isinstance(attribute.alpha, AlphaFromPath):
        yield ("alpha", "path"), attribute.alpha.path


def written(paths: Paths) -> dict[ConfigurationPlace, Path]:
    """The paths that masking rewrites: attributes' codes, labels and copies."""
    return {place: path for place, path in paths.items() if place[0] == "attributes" and place[2] != "alpha"}


def _shapes(paths: Paths) -> Iterator[Problem]:
    for place, path in written(paths).items():
        yield from ((place, text) for text in _written_shape(path, paths[(*place[:2], "path")]))
    for place, path in paths.items():
        if path.arrays and (place == ("noise_key",) or place[2:] == ("alpha", "path")):
            yield place, f"{path.text!r} is not allowed: use a path without [*], which selects one value"


def _arrays_of_numbers(configuration: Configuration) -> Iterator[Problem]:
    for name, attribute in configuration.numeric.items():
        if is_array(attribute):
            yield (
                ("attributes", name, "path"),
                f"{attribute.path!r} is not allowed for numbers: use a path without [*], which selects one value",
            )


def _written_shape(path: Path, code: Path) -> Iterator[str]:
    if path.arrays > 1:
        yield f"{path.text!r} has {path.arrays} [*]: use one at most"
    elif path.arrays != code.arrays:
        yield f"{path.text!r} must have a [*] exactly when the attribute's path {code.text!r} has one"
    if isinstance(path.steps[-1], FilterStep):
        yield f"{path.text!r} ends with a filter: add the field of the element that holds the value"


def _overlaps(paths: Paths) -> Iterator[Problem]:
    for (first, this), (second, that) in combinations(written(paths).items(), 2):
        if this.may_meet(that):
            yield second, f"{that.text!r} may select the same value as {dotted(first)} {this.text!r}: use another path"


def _twice(paths: Paths) -> Iterator[Problem]:
    first: dict[Path, ConfigurationPlace] = {}
    for place, path in paths.items():
        if place[0] == "fields" and first.setdefault(path, place) != place:
            yield place, f"{path.text!r} is also {dotted(first[path])}: name it once"


def _attributes_in_fields(paths: Paths) -> Iterator[Problem]:
    masked = written(paths)
    for place, path in paths.items():
        owners = [at for at, other in masked.items() if place[0] == "fields" and _claims(place, path, other)]
        if owners:
            yield place, f"{path.text!r} holds {dotted(owners[0])}, which is masked: name only the fields beside it"


def _claims(place: ConfigurationPlace, path: Path, other: Path) -> bool:
    """A kept field must not reach a masked one at all: what stands beside a code may give it away."""
    return path.may_meet(other) if place[1] == "keep" else path == other
