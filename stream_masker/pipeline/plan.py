"""The plan of the record masker: the part of the configuration that determines masking, parsed and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from stream_masker.core.context import Context
from stream_masker.core.dtypes import Int64Array, Int64Matrix
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import FilterStep, Path
from stream_masker.pipeline.style import CANONICAL, Style

if TYPE_CHECKING:
    from stream_masker.core.numeric import Numeric
    from stream_masker.core.ontology import ConceptMap
    from stream_masker.pipeline.contexts import ContextField
    from stream_masker.pipeline.fhir import FhirTypes
    from stream_masker.pipeline.transforms import FieldTransform

MAX_DEPTH: Final = 250
"""The greatest depth that may be configured: the JSON encoder can write no deeper value."""

MIN_RECORD_ALPHA: Final = 0.01
MAX_RECORD_ALPHA: Final = 10

OWN_HEADERS: Final = "stream-masker-"
"""The prefix of the names of this service's own headers. Other headers with it are never kept."""

Keeping = Literal["keep", "drop"]
Treatment = Literal["keep", "drop", "pseudonymize"]
Missing = Literal["reject", "keep"]


class Place(NamedTuple):
    """A path of codes, the path of their labels, and those of their copies."""

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

    path: of the code. A ``[*]`` makes the attribute an array; it may have several. A filter ``[?…]`` selects the first
    element that matches, and further matches are copies; ``[*?…]`` is a ``[*]`` over the elements that match.
    label: the path of the text beside the code; copies: other paths of the same code. For an array, each of them has
    the same ``[*]``, and their element k belongs to the code of element k. For a scalar they have none.
    also: further places of an array's codes.
    concepts: finds the concept of a code, and has the policy for unknown codes.
    missing: the policy for a record, or an element of an array, without a code. ``reject``: the record is rejected;
    ``keep``: its labels and copies become null. Null counts as missing only with ``keep``.
    style: that of the written codes and copies; None for the one that is learned from the calibration window.
    """

    name: str
    path: Path
    concepts: ConceptMap
    label: Path | None = None
    copies: tuple[Path, ...] = ()
    also: tuple[Place, ...] = ()
    missing: Missing = "reject"
    style: Style | None = None

    def __post_init__(self) -> None:
        _allowed(f"attributes.{self.name}.missing", self.missing, ("reject", "keep"))
        for place in self.places:
            for path in place.written:
                self._check(path, place.path)
        for place in self.also:
            if not (self.is_array and place.path.arrays):
                raise ConfigurationError(f"attributes.{self.name}.also: {place.path.text!r} and path need a [*]")

    @property
    def is_array(self) -> bool:
        return self.path.arrays > 0

    @property
    def places(self) -> tuple[Place, ...]:
        return (Place(self.path, self.label, self.copies), *self.also)

    @property
    def written(self) -> Iterator[Path]:
        """Every path whose value masking replaces: of the codes, the labels and the copies."""
        for place in self.places:
            yield from place.written

    def _check(self, path: Path, code: Path) -> None:
        where = f"attributes.{self.name}: path {path.text!r}"
        if path.arrays != code.arrays:
            raise ConfigurationError(f"{where} must have a [*] exactly where the path {code.text!r} has")
        if isinstance(path.steps[-1], FilterStep):
            raise ConfigurationError(f"{where} ends with a filter; name the field of the element that holds the code")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericPlan:
    """A numeric attribute to mask.

    path: of the number, without ``[*]``. A filter selects the first element that matches; further matches get the same
    masked number. kind: the numbers that the attribute admits. missing: as in ``AttributePlan``.
    """

    name: str
    path: Path
    kind: Numeric
    missing: Missing = "reject"

    def __post_init__(self) -> None:
        _allowed(f"attributes.{self.name}.missing", self.missing, ("reject", "keep"))
        _single(f"attributes.{self.name}", self.path)
        if isinstance(self.path.steps[-1], FilterStep):
            raise ConfigurationError(
                f"attributes.{self.name}: path {self.path.text!r} ends with a filter; name the field of the element "
                "that holds the number"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPolicy:
    """What happens to every value that is not an attribute. The longest path that selects the value decides.

    Among paths of equal length, drop takes precedence over a transform, a transform over pseudonymize, and pseudonymize
    over keep. Paths may have any number of ``[*]``, and a filter selects every element that matches. unlisted: for
    values that no path selects. transforms: a transform for each path, by its key in the configuration. Codes, labels,
    copies and numbers of attributes are always kept, because they are masked.
    """

    unlisted: Keeping
    keep: tuple[Path, ...] = ()
    drop: tuple[Path, ...] = ()
    pseudonymize: tuple[Path, ...] = ()
    transforms: Mapping[str, Mapping[Path, FieldTransform]] = field(default_factory=dict)

    @property
    def transformed(self) -> dict[Path, FieldTransform]:
        return {path: transform for paths in self.transforms.values() for path, transform in paths.items()}

    def __post_init__(self) -> None:
        _allowed("fields.unlisted", self.unlisted, ("keep", "drop"))
        for (key, these), (other, those) in combinations(self.lists().items(), 2):
            for path in set(these) & set(those):
                raise ConfigurationError(
                    f"fields: path {path.text!r} is in {key} and in {other}; allowed is one of them"
                )

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
        _allowed("message.key", self.key, ("keep", "drop", "pseudonymize"))
        for name in self.headers:
            if name.startswith(OWN_HEADERS):
                raise ConfigurationError(f"message.headers: {name!r} is set by stream-masker itself and cannot be kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaSource:
    """Where a record has its own alpha: either the path of a field or the name of a header.

    default: the alpha of records without one; None stands for each attribute's configured alpha. least: the minimum of
    a record's own alpha, from 0.01 to 10.
    """

    path: Path | None = None
    header: str | None = None
    default: float | None = None
    least: float = MIN_RECORD_ALPHA

    def __post_init__(self) -> None:
        if (self.path is None) == (self.header is None):
            raise ConfigurationError("alpha: give either a path or a header that has the record's alpha")
        if self.path is not None:
            _single("alpha.path", self.path)
        if self.default is not None and not MIN_RECORD_ALPHA <= self.default <= MAX_RECORD_ALPHA:
            allowed = f"numbers from {MIN_RECORD_ALPHA} to {MAX_RECORD_ALPHA}"
            raise ConfigurationError(f"alpha.default is {self.default}; allowed are {allowed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLimits:
    """The maximum size of a record in bytes, and its maximum depth. An object without objects or lists has depth 1."""

    record_bytes: int = 1_048_576
    depth: int = 64

    def __post_init__(self) -> None:
        if self.record_bytes < 1:
            raise ConfigurationError(f"limits.record_bytes is {self.record_bytes}; allowed are numbers from 1")
        if not 1 <= self.depth <= MAX_DEPTH:
            raise ConfigurationError(f"limits.depth is {self.depth}; allowed are numbers from 1 to {MAX_DEPTH}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that the record masker needs, except for the mechanism and the secret.

    attributes, numeric: in the order of the mechanism's attributes; noise_key: the field that keys the noise, None for
    the record's topic, partition and offset; alpha: None if records have no alpha of their own; unit: the field whose
    different values k-anonymity counts, None for records; configuration: the configuration's hash, for a header; fhir:
    the listed types of resources if messages are FHIR resources and Bundles, whose paths are those of
    ``pipeline.fhir``; context: the fields of the mechanism's context, in its order.
    """

    attributes: tuple[AttributePlan, ...]
    fields: FieldPolicy
    configuration: str
    message: MessagePolicy = field(default_factory=MessagePolicy)
    noise_key: Path | None = None
    alpha: AlphaSource | None = None
    limits: RecordLimits = field(default_factory=RecordLimits)
    numeric: tuple[NumericPlan, ...] = ()
    unit: Path | None = None
    fhir: FhirTypes | None = None
    context: tuple[ContextField, ...] = ()

    def __post_init__(self) -> None:
        if not self.attributes:
            raise ConfigurationError("attributes: at least one is required")
        if self.noise_key is not None:
            _single("noise_key", self.noise_key)
        if self.unit is not None:
            _single("groups.unit", self.unit)
        self._check_attributes()
        self._check_fields()

    @property
    def contexts(self) -> Context:
        """The context of records, by the kinds of its fields."""
        return Context(tuple(field.attribute for field in self.context))

    @property
    def written(self) -> Iterator[tuple[str, Path]]:
        """Every path whose value masking replaces, with the name of its attribute."""
        yield from ((attribute.name, path) for attribute in self.attributes for path in attribute.written)
        yield from ((number.name, number.path) for number in self.numeric)

    @property
    def keys(self) -> Iterator[Path]:
        """The paths of the keys that are read before anything of a record is replaced."""
        transforms = (transform.key for transform in self.fields.transformed.values())
        yield from (path for path in (self.noise_key, self.unit, *transforms) if path is not None)

    def contexts_of(self, kinds: Int64Matrix) -> Int64Array | None:
        """Return (n,): the contexts of records, None without any; ``kinds``: (n, fields), those of ``context``."""
        return self.contexts.numbers_of(kinds) if self.context else None

    def styles(self, learned: Mapping[str, Style]) -> list[Style]:
        """Return each attribute's style: the configured one, else the learned one, else that of the ontology."""
        return [attribute.style or learned.get(attribute.name, CANONICAL) for attribute in self.attributes]

    def _check_attributes(self) -> None:
        for (name, this), (other, that) in combinations(self.written, 2):
            if this.may_meet(that):
                both = f"{this.text!r} (attribute {name}) and {that.text!r} (attribute {other})"
                raise ConfigurationError(f"attributes: the paths {both} can select the same value")

    def _check_fields(self) -> None:
        written = {path.steps for _, path in self.written}
        for path in (*self.fields.drop, *self.fields.pseudonymize, *self.fields.transformed):
            if path.steps in written:
                raise ConfigurationError(f"fields: path {path.text!r} belongs to an attribute, which is masked instead")
        for path in (*self.fields.keep, *self.fields.drop, *self.fields.pseudonymize, *self.fields.transformed):
            if any(path.steps[:end] in written for end in range(1, len(path.steps))):
                raise ConfigurationError(
                    f"fields: path {path.text!r} continues inside an attribute's code, label or copy"
                )


def _allowed(key: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ConfigurationError(f"{key} is {given!r}; allowed are {', '.join(allowed)}")


def _single(key: str, path: Path) -> None:
    if path.arrays:
        raise ConfigurationError(f"{key}: path {path.text!r} has a [*]; it must select one value")
