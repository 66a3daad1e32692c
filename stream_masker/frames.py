"""Masking of tables: pyarrow Tables, and pandas and polars DataFrames."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Self, TypeAlias, TypeVar, cast

import numpy as np

from stream_masker.core.context import ContextChoice
from stream_masker.core.mechanisms import Mechanism, SemanticNoise, Value
from stream_masker.core.mechanisms import mechanism as mechanism_type
from stream_masker.core.mechanisms.parameters import own_first
from stream_masker.core.mechanisms.semantic_noise import noise_defaults
from stream_masker.core.ontology import UNKNOWN, ConceptMap, Ontology, Taxonomy
from stream_masker.core.ontology.concepts import UnknownPolicy
from stream_masker.core.validation import checked_seed, require_known, require_type
from stream_masker.errors import ParameterError, StatisticsError, UnknownConceptError, installation_of
from stream_masker.measures import masking_report
from stream_masker.summary import MaskingReport, unchanged_warning

AnyFrame = TypeVar("AnyFrame")


class UnchangedWarning(UserWarning):
    """Masking leaves most records as they were."""


Vocabulary: TypeAlias = Taxonomy | str
"""The concepts of a column: a taxonomy, such as an ontology, or what ``Ontology.load`` takes."""


def mask_frame(
    frame: AnyFrame, attributes: Mapping[str, Vocabulary], *, keep: Sequence[str], seed: bytes, **options: Any
) -> AnyFrame:
    """Mask the named columns of a table; return a new table of the same kind, with the rows in the same order.

    The statistics are those of the table itself. The result has the masked columns and those of ``keep``, in the order
    of the table, and nothing else: other columns and metadata are dropped. Masked codes are written as concept ids.
    Missing values stay missing. A column of categories has the masks as its categories; every other masked column has
    texts. A column of lists is an array attribute.

    * ``frame``: a pyarrow Table, a pandas DataFrame or a polars DataFrame.
    * ``attributes``: the columns of codes, with the taxonomy of each, an ontology, or the name or file of one.
    * ``keep``: the columns to copy unchanged. Required, so that no column is copied by accident. The index of a pandas
      DataFrame stays if it consists of numbers and has no name; otherwise the result has row numbers.
    * ``mechanism``: its name; by default semantic noise, with the reference that the columns allow. Further ``options``
      are parameters of its constructor, such as ``alpha``.
    * ``key``: the column that determines a row's noise, such as the patient's id; None: the number of the row. Rows of
      one key count as one where rare values and pairs are counted.
    * ``context``: columns of ``keep`` whose relation to the codes is preserved, and which the promise takes as known,
      such as sex and age; the most important first. A mapping to their texts, or to the ascending bounds of bands of
      numbers: ``{"sex": ["F", "M"], "age": [18, 45, 65]}``.
    * ``unknown``: a code without a concept is an error (``reject``), is masked like its longest known prefix
      (``ancestor``; an error if there is none), or becomes a missing value (``suppress``).
    * ``seed``: the secret from which the noise derives, of at least 16 bytes.

    Warns with UnchangedWarning if masking leaves most rows as they were.

    Raises ParameterError for columns that are missing, both masked and kept, or of another type, and like the
    mechanism. Raises UnknownConceptError with column and row (from 0), but without the code. Raises StatisticsError if
    the statistics of the table cannot be used for masking.
    """
    return FrameMasker(attributes, keep=keep, seed=seed, **options).fit_transform(frame)


class FrameMasker:
    """Masking of tables in the manner of scikit-learn: ``fit`` learns statistics, ``transform`` masks with them.

    The parameters are those of ``mask_frame``, which is ``fit_transform``. ``transform`` masks other tables of the same
    columns with the statistics of the fitted one. Without ``key``, the noise of a row derives from its number, which is
    the same in every table: give a key to mask several tables.

    ``mechanism_``: the mechanism with the statistics in force, after ``fit``.
    """

    mechanism_: Mechanism

    def __init__(
        self,
        attributes: Mapping[str, Vocabulary],
        *,
        keep: Sequence[str],
        mechanism: str = SemanticNoise.name,
        key: str | None = None,
        context: ContextChoice | None = None,
        unknown: UnknownPolicy = "reject",
        seed: bytes,
        **options: Any,
    ) -> None:
        """Create a masker without statistics. Raises ParameterError for arguments of another kind."""
        _check_arguments(attributes, keep, context)
        self._seed, self._keep, self._key, self._context = checked_seed(seed), keep, key, context or {}
        self._mechanism, self._options = mechanism, options
        taxonomies = {name: Ontology.load(one) if isinstance(one, str) else one for name, one in attributes.items()}
        self._concepts = {name: ConceptMap(tau, unknown=unknown) for name, tau in taxonomies.items()}

    def fit(self, frame: object, y: object = None) -> Self:
        """Learn the statistics of a table. ``y`` is ignored."""
        self._fit(self._rows(_Table.of(frame)))
        return self

    def transform(self, frame: AnyFrame) -> AnyFrame:
        """Mask a table with the statistics of the fitted one. Raises StatisticsError before ``fit``."""
        self._require_statistics()
        return cast(AnyFrame, self._masked(self._rows(_Table.of(frame))))

    def fit_transform(self, frame: AnyFrame, y: object = None) -> AnyFrame:
        """Learn the statistics of a table and mask it with them, as ``mask_frame`` does. ``y`` is ignored."""
        rows = self._rows(_Table.of(frame))
        self._fit(rows)
        return cast(AnyFrame, self._masked(rows))

    def report(self, frame: AnyFrame, masked: AnyFrame) -> MaskingReport:
        """Return what masking did to a table: risk, unchanged shares and what is kept.

        Its ``repr`` is three sentences; ``to_dict`` has all figures. ``frame``, ``masked``: the table before and after
        ``transform``. Raises StatisticsError before ``fit``, and ParameterError for different numbers of rows.
        """
        self._require_statistics()
        before = self._rows(_Table.of(frame), keyed=False).records
        return masking_report(self.mechanism_, before, _Table.of(masked).records([*self._concepts, *self._context]))

    def __repr__(self) -> str:
        """Return the columns and the mechanism, without the seed, and the statistics in force."""
        state = "not fitted"
        if hasattr(self, "mechanism_"):
            state = f"statistics of {self.mechanism_.statistics.records:,} rows"
        return f"<FrameMasker({list(self._concepts)}, mechanism={self._mechanism!r}), {state}>"

    def _require_statistics(self) -> None:
        if not hasattr(self, "mechanism_"):
            raise StatisticsError("this FrameMasker has no statistics: call fit first")

    def _rows(self, table: _Table, *, keyed: bool = True) -> _Rows:
        """Return the rows of a table as records, with their keys if they are needed."""
        key = self._key if keyed else None
        wanted = [*self._concepts, *self._keep, *([] if key is None else [key])]
        if missing := [name for name in wanted if name not in table.columns]:
            raise ParameterError(f"the table has no column {missing[0]!r}: use {', '.join(map(repr, table.columns))}")
        records = table.records([*self._concepts, *self._context])
        for name, concepts in self._concepts.items():
            for row, record in enumerate(records):
                record[name] = _ids(name, row, record[name], concepts)
        return _Rows(table, records, _keys(table, key) if keyed else [])

    def _fit(self, rows: _Rows) -> None:
        """Choose the mechanism, and let it learn the rows."""
        taxonomies = {name: concepts.taxonomy for name, concepts in self._concepts.items()}
        arrays = [name for name in taxonomies if any(isinstance(row[name], list) for row in rows.records)]
        options, kind = {**self._options}, mechanism_type(self._mechanism)
        if self._context:
            options["context"] = self._context
        if kind is SemanticNoise:
            options |= noise_defaults(taxonomies, arrays, options)
        known = [each.name for each in own_first(kind.parameters_type) if each.name != "window"]
        require_known(options, known, self._mechanism)
        masker = kind(taxonomies, **options, window=max(1, len(rows.records)), seed=self._seed)
        masker.learn_many(rows.records, keys=None if self._key is None else rows.keys)
        masker.calibrate()
        self.mechanism_ = masker

    def _masked(self, rows: _Rows) -> Any:
        masked = self.mechanism_.mask_many(rows.records, keys=rows.keys)
        _warn_of_unchanged(rows.records, masked, self.mechanism_.name)
        return rows.table.replaced(self._keep, {name: [row[name] for row in masked] for name in self._concepts})


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that narwhals wraps, with its module. ``index``: row labels to keep, those of a pandas DataFrame if they
    are numbers and have no name; otherwise None."""

    narwhals: Any
    frame: Any
    index: Any

    @classmethod
    def of(cls, frame: object) -> Self:
        """Wrap a table. Raises ParameterError for another object, or if the extra ``frames`` is not installed."""
        try:
            narwhals = importlib.import_module("narwhals.stable.v2")
        except ModuleNotFoundError:
            raise ParameterError(f"a table needs narwhals: {installation_of('frames')}") from None
        try:
            wrapped = narwhals.from_native(frame, eager_only=True)
        except TypeError:
            raise ParameterError(
                f"frame is of type {type(frame).__name__}: use a pyarrow Table, or a pandas or polars DataFrame"
            ) from None
        index = narwhals.maybe_get_index(wrapped)
        is_kept = index is not None and list(index.names) == [None] and index.dtype.kind in "iu"
        return cls(narwhals, narwhals.maybe_reset_index(wrapped), index if is_kept else None)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    def values(self, name: str) -> list[Any]:
        """Return the values of a column, arrays as lists; None where one is missing."""
        column = self.frame[name]
        return [
            None if missing else _plain(value)
            for value, missing in zip(column.to_list(), column.is_null().to_list(), strict=True)
        ]

    def records(self, names: Sequence[str]) -> list[dict[str, Value]]:
        """Return the rows as records, with the fields of these names."""
        return [dict(zip(names, row, strict=True)) for row in zip(*map(self.values, names), strict=True)]

    def replaced(self, keep: Sequence[str], masked: Mapping[str, Sequence[Any]]) -> Any:
        """Return a native table of the kept and the masked columns, in the order of this one.

        The categories of a masked column are those of the masks.
        """
        series = {
            name: (self._series(name, masked[name]) if name in masked else self.frame[name]).to_native()
            for name in self.columns
            if name in masked or name in keep
        }
        module = self.frame.implementation.to_native_namespace()
        native = module.table(series) if self.frame.implementation.is_pyarrow() else module.DataFrame(series)
        if self.index is not None:
            native.index = self.index
        return native

    def _series(self, name: str, values: Sequence[Any]) -> Any:
        """Return a masked column: of categories if the original one is, otherwise of texts or of lists of them."""
        narwhals, kind = self.narwhals, self.frame.implementation
        text = narwhals.String
        if any(isinstance(value, list) for value in values):
            text = None if kind.is_pandas_like() else narwhals.List(text)
        series = narwhals.new_series(name, values, text, backend=kind)
        is_category = self.frame[name].dtype in (narwhals.Categorical, narwhals.Enum)
        return series.cast(narwhals.Categorical) if is_category else series


def _plain(value: Any) -> Any:
    if isinstance(value, float) and isnan(value):
        return None
    return list(value) if isinstance(value, tuple | np.ndarray) else value


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a table: the concept ids of its masked columns and its context as records, and their noise keys."""

    table: _Table
    records: list[dict[str, Value]]
    keys: list[bytes]


def _warn_of_unchanged(
    records: Sequence[Mapping[str, Any]], masked: Sequence[Mapping[str, Value]], mechanism: str
) -> None:
    """Warn if most rows with a value are masked as what they were."""
    rows = [(mask, {name: row[name] for name in mask}) for row, mask in zip(records, masked, strict=True)]
    same = [mask == row for mask, row in rows if any(value not in (None, []) for value in row.values())]
    if warning := unchanged_warning(sum(same) / max(1, len(same)), mechanism):
        warnings.warn(warning, UnchangedWarning, stacklevel=4)


def _check_arguments(attributes: Mapping[str, Vocabulary], keep: Sequence[str], context: ContextChoice | None) -> None:
    """Raise ParameterError for columns that are both masked and kept, and for a context of others that are not kept."""
    require_type("attributes", attributes, Mapping, "mapping, such as {'principal': 'icd10cm'}")
    if dropped := [name for name in context or () if name not in keep]:
        raise ParameterError(f"the context {dropped[0]!r} is not kept: name it in keep, or leave it out of the context")
    if kept := [name for name in attributes if name in keep]:
        raise ParameterError(f"the column {kept[0]!r} is to be masked and kept: choose one of the two")


def _ids(name: str, row: int, value: object, concepts: ConceptMap) -> Value:
    """Return the concept id of a code, or those of a list of codes."""
    if isinstance(value, list):
        found = (_concept(name, row, element, concepts) for element in value)
        return [concept for concept in found if concept is not None]
    return None if value is None else _concept(name, row, value, concepts)


def _concept(name: str, row: int, value: object, concepts: ConceptMap) -> str | None:
    if not isinstance(value, str):
        raise ParameterError(f"column {name!r}, row {row}: the code is of type {type(value).__name__}: use text")
    position = concepts.find(value).position
    if position == UNKNOWN and concepts.unknown != "suppress":
        raise UnknownConceptError(
            f"column {name!r}, row {row}: the code has no concept; unknown='ancestor' takes its longest known prefix, "
            "unknown='suppress' a missing value",
            position=row,
        )
    return None if position == UNKNOWN else concepts.taxonomy.ids[position]


def _keys(table: _Table, key: str | None) -> list[bytes]:
    values = range(len(table.frame)) if key is None else table.values(key)
    for row, value in enumerate(values):
        if value is None:
            raise ParameterError(f"column {key!r}, row {row}: the key is missing, but every row needs one")
    return [str(value).encode() for value in values]
