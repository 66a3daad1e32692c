"""The plan of the record masker: the part of the configuration that determines masking, parsed and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain, combinations
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from stream_masker.core.context import Context, ContextAttribute
from stream_masker.core.dtypes import Int64Array
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import Document, EachStep, FilterStep, JsonValue, NameStep, Path, Step, first_values
from stream_masker.pipeline.records import OWN_HEADERS
from stream_masker.pipeline.transforms import (
    DateUnit,
    FieldTransform,
    LeadingCharacters,
    NumberBands,
    Pseudonym,
    Pseudonyms,
)

if TYPE_CHECKING:
    from stream_masker.core.ontology import ConceptMap
    from stream_masker.pipeline.fhir import FhirTypes

Keeping = Literal["keep", "drop"]
Treatment = Literal["keep", "drop", "pseudonymize"]
Missing = Literal["reject", "keep"]


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
        yield self.path
        yield from () if self.label is None else (self.label,)
        yield from self.copies


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributePlan:
    """A nominal attribute to mask.

    places: of an array, all places of its codes. Of a scalar, where its code may be: the first place that has one
    counts, and all places get its mask.
    concepts: finds the concept of a code, and has the policy for unknown codes.
    missing: the policy for a record, or an element of an array, without a code. ``reject``: the record is rejected;
    ``keep``: its labels and copies become null. Null counts as missing.
    """

    name: str
    places: tuple[Place, ...]
    concepts: ConceptMap
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

    @property
    def is_array(self) -> bool:
        return self.path.arrays > 0

    @property
    def written(self) -> Iterator[Path]:
        """Every path whose value masking replaces: of the codes, the labels and the copies."""
        return chain.from_iterable(place.written for place in self.places)

    @property
    def required(self) -> Iterator[Path]:
        """The paths of what lacks a code if none is in it: records, or the elements of arrays, and their lists."""
        elements = [place.path.elements for place in self.places if self.missing == "reject"]
        yield from elements
        yield from (path.around for path in elements if self.is_array)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPolicy:
    """What happens to every value that is not an attribute. The longest path that selects the value decides.

    Among paths of equal length, drop takes precedence over a transform, and a transform over keep; a value that several
    transforms select is dropped. Paths may have any number of ``[*]``, and a filter selects every element that matches.
    unlisted: for values that no path selects. transforms: a transform for each path, by its key in the configuration.
    Codes, labels and copies of attributes are always kept, because they are masked.
    """

    unlisted: Keeping
    keep: tuple[Path, ...] = ()
    drop: tuple[Path, ...] = ()
    pseudonymize: tuple[Path, ...] = ()
    transforms: Mapping[str, Mapping[Path, FieldTransform]] = field(default_factory=dict)

    @property
    def transformed(self) -> dict[Path, FieldTransform]:
        """The transform of each path, pseudonyms included."""
        others = {path: transform for paths in self.transforms.values() for path, transform in paths.items()}
        return dict.fromkeys(self.pseudonymize, Pseudonym()) | others

    def lists(self) -> dict[str, tuple[Path, ...]]:
        """Return the paths by the key of their treatment in the configuration."""
        transformed = {key: tuple(paths) for key, paths in self.transforms.items()}
        return {"keep": self.keep, "drop": self.drop, "pseudonymize": self.pseudonymize, **transformed}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePolicy:
    """What happens to the message's key, and the names of the headers that are kept. All others are dropped."""

    key: Treatment = "pseudonymize"
    headers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.headers:
            if name.startswith(OWN_HEADERS):
                raise ConfigurationError(f"message.headers: {name!r} is set by stream-masker itself and cannot be kept")


GENERALIZING: Final = (NumberBands, DateUnit, LeadingCharacters)
"""The transforms of fields that can be a context: their results are functions of the value alone."""

_UNKEYED: Final = Pseudonyms(b"no secret: these transforms are functions of the value alone")


@dataclass(frozen=True, slots=True)
class ContextField:
    """A field of the context.

    path: of the field, without ``[*]``; attribute: its kinds; transform: that of the field policy, None if the value is
    kept as it is.
    """

    path: Path
    attribute: ContextAttribute
    transform: FieldTransform | None = None

    def kind_of(self, value: JsonValue) -> int:
        """Return the kind of a field's value, as it is released; None is of no listed kind. Of a band of numbers, its
        least number counts.
        """
        if self.transform is None:
            return self.attribute.kind_of(value)
        released = self.transform.of_value(value, _UNKEYED)
        if self.attribute.bounds and isinstance(self.transform, NumberBands) and isinstance(released, str):
            released = released.rstrip("+").partition("-")[0]
        return self.attribute.kind_of(released)


def context_field(
    path: Path, attribute: ContextAttribute, policy: FieldPolicy, masked: Iterable[Path] = ()
) -> ContextField:
    """Return the field of a context at a path; ``masked``: the paths whose values masking replaces.

    Raises ConfigurationError unless the field policy keeps or generalizes the field, all its alternatives alike.
    """
    masked = tuple(masked)
    transform, *others = (_released(each, policy, masked) for each in path.ways)
    if any(other != transform for other in others):
        raise ConfigurationError(f"{path.text!r}: its paths are treated differently; a context needs one treatment")
    return ContextField(path, attribute, transform)


def _released(path: Path, policy: FieldPolicy, masked: Iterable[Path]) -> FieldTransform | None:
    """Return the transform of a field that can be a context, None if the field is kept. Raises ConfigurationError."""
    if path.arrays:
        raise ConfigurationError(f"{path.text!r} is not allowed: use a path without [*], so that it selects one value")
    if any(path.may_meet(other) for other in masked):
        raise ConfigurationError(f"{path.text!r} is masked: a context is of fields that stay")
    met = [(key, other) for key, paths in policy.lists().items() for other in paths if path.may_meet(other)]
    treatments = [key for key, _ in met if key != "keep"]
    if not treatments and (policy.unlisted == "keep" or any(_contains(other, path) for _, other in met)):
        return None
    own = (rule for other, rule in policy.transformed.items() if _contains(other, path) and _contains(path, other))
    transform = next(own, None)
    if len(treatments) == 1 and isinstance(transform, GENERALIZING):
        return transform
    raise ConfigurationError(
        f"{path.text!r} does not stay in the record (fields.{[*treatments, 'unlisted'][0]}): a context is of fields "
        "that are kept, or generalized by nothing but their value, and of no part of other fields"
    )


def _contains(other: Path, path: Path) -> bool:
    """Return whether one path surely selects the value of another one, or what is around it."""
    return len(other.steps) <= len(path.steps) and all(map(_covers, other.steps, path.steps))


def _covers(step: Step, selected: Step) -> bool:
    if isinstance(step, FilterStep) and isinstance(selected, FilterStep):
        return (step.field, step.value) == (selected.field, selected.value)
    return step == selected or (isinstance(step, EachStep) and not isinstance(selected, NameStep))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that the record masker needs, except for the mechanism and the secret.

    attributes: in the order of the mechanism's attributes; noise_key: the field that keys the noise, None for
    the record's topic, partition and offset; unit: the field whose different values k-anonymity counts, None for
    records; configuration: the configuration's hash, for a header; record_bytes: the maximum size of a record; fhir:
    the listed types of resources if messages are FHIR resources and Bundles, whose paths are those of
    ``pipeline.fhir``; context: the fields of the mechanism's context, in its order.
    """

    attributes: tuple[AttributePlan, ...]
    fields: FieldPolicy
    configuration: str
    message: MessagePolicy = field(default_factory=MessagePolicy)
    noise_key: Path | None = None
    record_bytes: int = 1_048_576
    unit: Path | None = None
    fhir: FhirTypes | None = None
    context: tuple[ContextField, ...] = ()

    def __post_init__(self) -> None:
        if not self.attributes:
            raise ConfigurationError("attributes: at least one is required")
        for name, key in {"noise_key": self.noise_key, "groups.unit": self.unit}.items():
            for path in () if key is None else key.ways:
                if path.arrays:
                    raise ConfigurationError(f"{name}: path {path.text!r} has a [*]; it must select one value")
        self._check_attributes()
        self._check_fields()

    @property
    def written(self) -> Iterator[tuple[str, Path]]:
        """Every path whose value masking replaces, with the name of its attribute."""
        yield from ((attribute.name, path) for attribute in self.attributes for path in attribute.written)

    @property
    def paths(self) -> Iterator[Path]:
        """Every path of the plan."""
        yield from (path for _, path in self.written)
        yield from chain.from_iterable(self.fields.lists().values())
        yield from chain.from_iterable(path.ways for path in (*(field.path for field in self.context), *self.keys))

    @property
    def keys(self) -> Iterator[Path]:
        """The paths of the keys that are read before anything of a record is replaced."""
        transforms = (transform.key for transform in self.fields.transformed.values())
        yield from (path for path in (self.noise_key, self.unit, *transforms) if path is not None)

    def contexts_of(self, documents: Sequence[Document]) -> Int64Array | None:
        """Return (n,): the contexts of n documents; None if the plan has no context."""
        if not self.context:
            return None
        kinds = [list(map(each.kind_of, first_values(documents, each.path))) for each in self.context]
        return Context(tuple(each.attribute for each in self.context)).numbers_of(np.array(kinds, np.int64).T)

    def _check_attributes(self) -> None:
        for (name, this), (other, that) in combinations(self.written, 2):
            if this.may_meet(that):
                both = f"{this.text!r} (attribute {name}) and {that.text!r} (attribute {other})"
                raise ConfigurationError(f"attributes: the paths {both} can select the same value")

    def _check_fields(self) -> None:
        keys, written = dict[Path, str](), {path.steps for _, path in self.written}
        for key, path in ((key, path) for key, paths in self.fields.lists().items() for path in paths):
            if (other := keys.setdefault(path, key)) != key:
                raise ConfigurationError(
                    f"fields: path {path.text!r} is in {other} and in {key}; allowed is one of them"
                )
            ends = range(1, len(path.steps) + (key != "keep"))
            if any(path.steps[:end] in written for end in ends):
                raise ConfigurationError(
                    f"fields: path {path.text!r} is that of an attribute's code, label or copy, or continues inside it"
                )


class Action(IntEnum):
    """What happens to a value. If paths of equal length disagree, the greatest action applies."""

    KEEP = 1
    TRANSFORM = 2
    """The transform of the path replaces the value. Other values around or next to such a path are dropped."""
    DROP = 3
    MASKED = 4
    """The value is a code, label or copy of an attribute: masking replaces it."""


def policy(plan: Plan) -> list[tuple[Path, Action]]:
    """Return all paths that the plan gives an action to.

    The fields that filters compare are kept, except for a filter at the end of a path, which selects whole elements.
    """
    fields = plan.fields
    actions = [
        *((path, Action.MASKED) for _, path in plan.written),
        *((path, Action.DROP) for path in fields.drop),
        *((path, Action.TRANSFORM) for path in fields.transformed),
        *((path, Action.KEEP) for path in fields.keep),
    ]
    kept = (path.filter_fields() for path, action in actions if action is not Action.DROP)
    return [*actions, *((field, Action.KEEP) for field in chain.from_iterable(kept))]
