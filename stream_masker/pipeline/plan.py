"""The plan of the record masker: the part of the configuration that determines masking, parsed and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import chain, combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

from stream_masker.core.context import ContextAttribute
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import FilterStep, Path
from stream_masker.pipeline.records import OWN_HEADERS
from stream_masker.pipeline.transforms import FieldTransform

if TYPE_CHECKING:
    from stream_masker.core.ontology import ConceptMap

Keeping = Literal["keep", "drop"]
Treatment = Literal["keep", "drop", "pseudonymize"]
Missing = Literal["reject", "keep"]
Style = Literal["id", "dotless", "label"]
"""How the codes of an attribute are written: as the concepts' ids, as these without the dot, or as their labels."""


def written_code(concepts: ConceptMap, style: Style, position: int) -> str:
    """Return the text of a concept in a style, by which the attribute's ``ConceptMap`` finds the concept.

    (Without its dot, a code may be another one.) If it finds another concept, or none, the text is the id. A concept
    has one text, so that a written code reveals nothing about the code that it replaces.
    """
    concept = concepts.taxonomy.ids[position]
    if style == "id":
        return concept
    text = concepts.taxonomy.labels[position] if style == "label" else concept.replace(".", "")
    match = concepts.find(text)
    return text if match.position == position and match.how != "ancestor" else concept


class Place(NamedTuple):
    """A path of codes, the path of their labels (the texts beside them), and those of their copies.

    A ``[*]`` makes the attribute an array; a path may have several. A filter ``[?…]`` selects the first element that
    matches, and further matches are copies; ``[*?…]`` is a ``[*]`` over the elements that match. The paths of a place
    have the same ``[*]``, and the label and the copies at element k belong to the code of element k.
    """

    path: Path
    label: Path | None = None
    copies: tuple[Path, ...] = ()

    @property
    def written(self) -> Iterator[Path]:
        """Every path whose value masking replaces."""
        return filter(None, (self.path, self.label, *self.copies))


@dataclass(frozen=True, kw_only=True)
class AttributePlan:
    """A nominal attribute to mask.

    places: of an array, all places of its codes. Of a scalar, where its code may be: the first place that has one
    counts, and all places get its mask.
    concepts: finds the concept of a code, and has the policy for unknown codes. style: in which codes are written.
    missing: the policy for a record, or an element of an array, without a code. ``reject``: the record is rejected;
    ``keep``: its labels and copies become null. Null counts as missing.
    """

    name: str
    places: tuple[Place, ...]
    concepts: ConceptMap
    style: Style = "id"
    missing: Missing = "reject"

    def __post_init__(self) -> None:
        where = f"attributes.{self.name}: "
        for code, path in ((place.path, path) for place in self.places for path in place.written):
            if path.arrays != code.arrays:
                raise ConfigurationError(
                    f"{where}path {path.text!r} must have a [*] exactly where the path {code.text!r} has"
                )
            if isinstance(path.steps[-1], FilterStep):
                raise ConfigurationError(
                    f"{where}path {path.text!r} ends with a filter; name the field of the element that holds the value"
                )
            if self.is_array != bool(code.arrays):
                raise ConfigurationError(f"{where}{self.path.text!r} and {code.text!r} both need a [*], or none")

    @property
    def path(self) -> Path:
        """The path of the first place's codes."""
        return self.places[0].path

    @cached_property
    def is_array(self) -> bool:
        return self.path.arrays > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPolicy:
    """What happens to every value that is not an attribute. The longest path that selects the value decides.

    Among paths of equal length, drop takes precedence over a transform, and a transform over keep; a value that several
    transforms select is dropped. Paths may have any number of ``[*]``, and a filter selects every element that matches.
    Codes, labels and copies of attributes are always kept, because they are masked.

    unlisted: for values that no path selects. lists: the paths by their key in the configuration, with their
    transforms; those of the keys ``keep`` and ``drop`` have none.
    """

    unlisted: Keeping
    lists: Mapping[str, Mapping[Path, FieldTransform | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that the record masker needs, except for the mechanism and the secret.

    attributes: in the order of the mechanism's attributes; key: what happens to the message's key; headers: the names
    of those that are kept, all others are dropped; noise_key: the field that keys the noise, None for the record's
    topic, partition and offset; configuration: the configuration's hash, for a header; record_bytes: the maximum size
    of a record; fhir: the types of resources that are kept if messages are FHIR resources and Bundles, whose paths are
    those of ``pipeline.fhir``; context: the fields of the mechanism's context, in its order. They are read as they are
    released, so that masks tell no more of them than the record.
    """

    attributes: tuple[AttributePlan, ...]
    fields: FieldPolicy
    configuration: str
    key: Treatment = "pseudonymize"
    headers: tuple[str, ...] = ()
    noise_key: Path | None = None
    record_bytes: int = 1_048_576
    fhir: Set[str] | None = None
    context: Mapping[Path, ContextAttribute] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if own := [name for name in self.headers if name.startswith(OWN_HEADERS)]:
            raise ConfigurationError(f"message.headers: {own[0]!r} is set by stream-masker itself and cannot be kept")
        ones = {"noise_key": [self.noise_key], "mechanism.context": self.context}
        for name, keys in ones.items():
            for path in chain.from_iterable(key.ways for key in keys if key is not None):
                if path.arrays:
                    raise ConfigurationError(f"{name}: path {path.text!r} has a [*]; it must select one value")
        for (name, this), (other, that) in combinations(self.written, 2):
            if this.may_meet(that):
                both = f"{this.text!r} (attribute {name}) and {that.text!r} (attribute {other})"
                raise ConfigurationError(f"attributes: the paths {both} can select the same value")
        for path in chain.from_iterable(path.ways for path in self.context):
            if any(path.may_meet(other) for _, other in self.written):
                raise ConfigurationError(f"mechanism.context: {path.text!r} is masked: use fields that stay")

    @property
    def written(self) -> Iterator[tuple[str, Path]]:
        """Every path whose value masking replaces, with the name of its attribute."""
        places = ((attribute.name, place) for attribute in self.attributes for place in attribute.places)
        yield from ((name, path) for name, place in places for path in place.written)

    @property
    def paths(self) -> Iterator[Path]:
        """Every path of the plan."""
        yield from (path for _, path in self.written)
        yield from chain.from_iterable(self.fields.lists.values())
        yield from chain.from_iterable(path.ways for path in (*self.context, *self.keys))

    @property
    def keys(self) -> Iterator[Path]:
        """The paths of the keys that are read before anything of a record is replaced."""
        rules = chain.from_iterable(paths.values() for paths in self.fields.lists.values())
        keys = (self.noise_key, *(rule.key for rule in rules if rule is not None))
        yield from (path for path in keys if path is not None)


class Action(IntEnum):
    """What happens to a value. If paths of equal length disagree, the greatest action applies."""

    KEEP = 1
    TRANSFORM = 2
    """The transform of the path replaces the value. Other values around or next to such a path are dropped."""
    DROP = 3
    MASKED = 4
    """The value is a code, label or copy of an attribute: masking replaces it."""


def policy(plan: Plan) -> list[tuple[Path, Action, FieldTransform | None]]:
    """Return all paths that the plan gives an action to, with the transform if they have one.

    The fields that filters compare are kept, except for a filter at the end of a path, which selects whole elements.
    """
    rules: list[tuple[Path, Action, FieldTransform | None]] = [(path, Action.MASKED, None) for _, path in plan.written]
    for key, paths in plan.fields.lists.items():
        plain = Action.KEEP if key == "keep" else Action.DROP
        rules += [(path, plain if rule is None else Action.TRANSFORM, rule) for path, rule in paths.items()]
    kept = (path.filter_fields() for path, action, _ in rules if action is not Action.DROP)
    return [*rules, *((field, Action.KEEP, None) for field in chain.from_iterable(kept))]
