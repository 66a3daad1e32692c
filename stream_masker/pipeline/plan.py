"""What the record masker is told to do: the configuration's part that decides masking, parsed and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import FilterStep, Path

if TYPE_CHECKING:
    from stream_masker.core.numeric import Numeric
    from stream_masker.core.ontology import ConceptMap

DEEPEST: Final = 250
"""The greatest depth limit: what the JSON encoder can write."""

MAX_RECORD_ALPHA: Final = 10

OWN_HEADERS: Final = "stream-masker-"
"""What the names of this service's own headers start with; no others such pass."""

Keeping = Literal["keep", "drop"]
Treatment = Literal["keep", "drop", "pseudonymize"]
Missing = Literal["reject", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributePlan:
    """One attribute to mask.

    path: of the code; one ``[*]`` at most, which makes it an array attribute. A filter takes the first element that
    matches; its further matches are treated as copies.
    label: path of the text beside the code; copies: other paths of the same code. With an array attribute each of
    them has one ``[*]`` too, and its element k belongs to the code of element k; with a scalar one they have none.
    concepts: finds a code's concept and holds the policy for unknown codes.
    missing: what to do with a record, or an array's element, that has no code: ``reject`` the record, or ``keep`` it
    without (its label and copies become null). Null counts as missing under ``keep`` only.
    """

    name: str
    path: Path
    concepts: ConceptMap
    label: Path | None = None
    copies: tuple[Path, ...] = ()
    missing: Missing = "reject"

    def __post_init__(self) -> None:
        _allowed(f"attributes.{self.name}.missing", self.missing, ("reject", "keep"))
        for path in self.written:
            self._check(path)

    @property
    def is_array(self) -> bool:
        return self.path.arrays == 1

    @property
    def written(self) -> Iterator[Path]:
        """Every path that masking rewrites: the code's, the label's, the copies'."""
        yield self.path
        if self.label is not None:
            yield self.label
        yield from self.copies

    def _check(self, path: Path) -> None:
        where = f"attributes.{self.name}: path {path.text!r}"
        if path.arrays > 1:
            raise ConfigurationError(f"{where} has {path.arrays} [*]; one at most is allowed")
        if path.arrays != self.path.arrays:
            raise ConfigurationError(
                f"{where} must have a [*] exactly when the attribute's path {self.path.text!r} has"
            )
        if isinstance(path.steps[-1], FilterStep):
            raise ConfigurationError(f"{where} ends with a filter; name the field of the element that holds the code")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericPlan:
    """One numeric attribute to mask.

    path: of the number; no ``[*]``. A filter takes the first element that matches; its further matches are replaced
    with it. kind: the numbers that it takes. missing: as of an ``AttributePlan``.
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
    """What happens to everything that is no attribute: the longest path that holds a value decides.

    Of paths of equal length, drop beats pseudonymize beats keep. Paths may have any number of ``[*]``, and a filter
    selects every element that matches. ``unlisted`` is for what no path holds. Attributes' own paths, their labels
    and copies are always kept (masked).
    """

    unlisted: Keeping
    keep: tuple[Path, ...] = ()
    drop: tuple[Path, ...] = ()
    pseudonymize: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        _allowed("fields.unlisted", self.unlisted, ("keep", "drop"))
        for (one, these), (other, those) in combinations(self._lists().items(), 2):
            for path in set(these) & set(those):
                raise ConfigurationError(
                    f"fields: path {path.text!r} is in {one} and in {other}; allowed is one of them"
                )

    def _lists(self) -> dict[str, tuple[Path, ...]]:
        return {"keep": self.keep, "drop": self.drop, "pseudonymize": self.pseudonymize}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePolicy:
    """What happens to the message's key, and the names of the headers that are kept; all others are dropped."""

    key: Treatment = "pseudonymize"
    headers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _allowed("message.key", self.key, ("keep", "drop", "pseudonymize"))
        for name in self.headers:
            if name.startswith(OWN_HEADERS):
                raise ConfigurationError(f"message.headers: {name!r} is set by stream-masker itself and cannot be kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaSource:
    """Where a record gives its own alpha: a field's path or a header's name, one of the two.

    ``default`` is for records that give none; None: each attribute's configured alpha.
    """

    path: Path | None = None
    header: str | None = None
    default: float | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.header is None):
            raise ConfigurationError("alpha: give either a path or a header that holds the record's alpha")
        if self.path is not None:
            _single("alpha.path", self.path)
        if self.default is not None and not 0 < self.default <= MAX_RECORD_ALPHA:
            allowed = f"numbers above 0 and up to {MAX_RECORD_ALPHA}"
            raise ConfigurationError(f"alpha.default is {self.default}; allowed are {allowed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLimits:
    """The largest record in bytes, and its deepest nesting (an object of plain values is 1 deep)."""

    record_bytes: int = 1_048_576
    depth: int = 64

    def __post_init__(self) -> None:
        if self.record_bytes < 1:
            raise ConfigurationError(f"limits.record_bytes is {self.record_bytes}; allowed are numbers from 1")
        if not 1 <= self.depth <= DEEPEST:
            raise ConfigurationError(f"limits.depth is {self.depth}; allowed are numbers from 1 to {DEEPEST}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that the record masker needs beside the mechanism and the secret.

    attributes, numeric: in the order of the mechanism's; noise_key: the field that keys the noise, None for the
    record's position; alpha: None when records give none of their own; configuration: the configuration's hash, for a
    header.
    """

    attributes: tuple[AttributePlan, ...]
    fields: FieldPolicy
    configuration: str
    message: MessagePolicy = field(default_factory=MessagePolicy)
    noise_key: Path | None = None
    alpha: AlphaSource | None = None
    limits: RecordLimits = field(default_factory=RecordLimits)
    numeric: tuple[NumericPlan, ...] = ()

    def __post_init__(self) -> None:
        if not self.attributes:
            raise ConfigurationError("attributes: at least one is needed")
        if self.noise_key is not None:
            _single("noise_key", self.noise_key)
        self._check_attributes()
        self._check_fields()

    @property
    def written(self) -> Iterator[tuple[str, Path]]:
        """Every path that masking rewrites, with the name of its attribute."""
        yield from ((attribute.name, path) for attribute in self.attributes for path in attribute.written)
        yield from ((number.name, number.path) for number in self.numeric)

    def _check_attributes(self) -> None:
        for (one, this), (other, that) in combinations(self.written, 2):
            if this.may_meet(that):
                both = f"{this.text!r} (attribute {one}) and {that.text!r} (attribute {other})"
                raise ConfigurationError(f"attributes: the paths {both} can select the same value")

    def _check_fields(self) -> None:
        written = {path.steps for _, path in self.written}
        for path in (*self.fields.drop, *self.fields.pseudonymize):
            if path.steps in written:
                raise ConfigurationError(f"fields: path {path.text!r} belongs to an attribute, which is masked instead")
        for path in (*self.fields.keep, *self.fields.drop, *self.fields.pseudonymize):
            if any(path.steps[:end] in written for end in range(1, len(path.steps))):
                raise ConfigurationError(
                    f"fields: path {path.text!r} goes on inside an attribute's code, label or copy"
                )


def _allowed(key: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ConfigurationError(f"{key} is {given!r}; allowed are {', '.join(allowed)}")


def _single(key: str, path: Path) -> None:
    if path.arrays:
        raise ConfigurationError(f"{key}: path {path.text!r} has a [*]; it must select one value")
