"""Masking of tables: pyarrow Tables, and pandas and polars DataFrames."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from stream_masker.core.mechanisms import Exponential, SemanticNoise, SemanticTransport, Value
from stream_masker.core.mechanisms import mechanism as mechanism_type
from stream_masker.core.mechanisms.defaults import BUILT_IN_CODES, default_candidates, default_mechanism, noise_defaults
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import UNKNOWN, ConceptMap, Ontology, Taxonomy
from stream_masker.core.ontology.mapping import UnknownPolicy
from stream_masker.core.table import WrappedTable
from stream_masker.errors import ParameterError, UnknownConceptError

AnyFrame = TypeVar("AnyFrame")


class UnchangedWarning(UserWarning):
    """Masking leaves most records as they were."""


Vocabulary: TypeAlias = Taxonomy | Ontology | str
"""The concepts of a column: a taxonomy, an ontology, or what ``Ontology.load`` takes."""


def mask_frame(
    frame: AnyFrame,
    attributes: Mapping[str, Vocabulary],
    *,
    keep: Sequence[str],
    mechanism: str | None = None,
    numeric: Mapping[str, Numeric] | None = None,
    key: str | None = None,
    unknown: UnknownPolicy = "reject",
    seed: bytes,
    **options: Any,
) -> AnyFrame:
    """Mask the named columns of a table; return a new table of the same kind, with the rows in the same order.

    The statistics are those of the table itself. The result has the masked columns and those of ``keep``, in the order
    of the table, and nothing else: other columns, the index of a pandas DataFrame and metadata are dropped. Masked
    codes are written as concept ids. Missing values stay missing. A column of lists is an array attribute.

    * ``frame``: a pyarrow Table, a pandas DataFrame or a polars DataFrame.
    * ``attributes``: the columns of codes, with the taxonomy of each, an ontology, or the name or file of one.
    * ``keep``: the columns to copy unchanged. Required, so that no column is copied by accident.
    * ``mechanism``, ``options``: the name of the mechanism, and parameters of its constructor, such as ``target``. By
      default the same mechanism as in a configuration: semantic transport, or semantic noise for numbers and for
      parameters that only semantic noise has, with the reference that the columns allow.
    * ``numeric``: the columns of numbers to mask, for mechanisms that mask them.
    * ``key``: the column that determines a row's noise, such as the patient's id; None: the number of the row. Rows of
      one key count as one where rare values and pairs are counted.
    * ``unknown``: a code without a concept is an error (``reject``), becomes its longest known prefix (``ancestor``; an
      error if there is none), or becomes a missing value (``suppress``).
    * ``seed``: the secret from which the noise derives.

    Warns with UnchangedWarning if masking leaves most rows as they were.

    Raises ParameterError for columns that are missing, both masked and kept, or of another type, and like the
    mechanism. Raises UnknownConceptError with column and row (from 0), but without the code. Raises StatisticsError if
    the statistics of the table cannot be used for masking.
    """
    table = _Table.of(frame)
    named = [*attributes, *(numeric or {})]
    _check_columns(table.columns, named, keep, key)
    concepts = {name: _concepts(name, given, unknown) for name, given in attributes.items()}
    columns = {name: _ids(name, table.values(name), concepts.get(name)) for name in named}
    taxonomies = {name: found.taxonomy for name, found in concepts.items()}
    arrays = [name for name in concepts if any(isinstance(value, list) for value in columns[name])]
    chosen = mechanism or default_mechanism(options, arrays=arrays, numeric=list(numeric or ())).name
    masker = mechanism_type(chosen)(
        taxonomies,
        **({"numeric": numeric} if numeric else {}),
        **_completed(chosen, options, attributes, taxonomies, arrays, numeric=bool(numeric)),
        window=max(1, table.size),
        seed=seed,
    )
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    keys = _keys(table, key)
    masker.learn_many(records, keys=None if key is None else keys)
    masker.calibrate()
    masked = masker.mask_many(records, keys=keys)
    _warn_of_unchanged(records, masked, masker.name)
    return cast(AnyFrame, table.replaced(keep, {name: [row[name] for row in masked] for name in named}))


def _warn_of_unchanged(
    records: Sequence[Mapping[str, Any]], masked: Sequence[Mapping[str, Value]], mechanism: str
) -> None:
    """Warn if most rows with a value are masked as what they were."""
    given = [
        (row, mask)
        for row, mask in zip(records, masked, strict=True)
        if any(value not in (None, []) for value in row.values())
    ]
    same = sum(row == mask for row, mask in given)
    if 2 * same > len(given):
        warnings.warn(
            f"{mechanism} leaves {same / len(given):.0%} of the rows as they were: use a greater alpha or another "
            "mechanism",
            UnchangedWarning,
            stacklevel=3,
        )


def _completed(
    mechanism: str,
    options: Mapping[str, Any],
    attributes: Mapping[str, Vocabulary],
    taxonomies: Mapping[str, Taxonomy],
    arrays: list[str],
    *,
    numeric: bool,
) -> Mapping[str, Any]:
    """Return the options with the parameters that depend on the columns; for transport, ``alpha`` is the target."""
    if mechanism in (SemanticNoise.name, Exponential.name):
        candidates = default_candidates(given == BUILT_IN_CODES for given in attributes.values())
        noise = noise_defaults(taxonomies, arrays, options, numeric=numeric) if mechanism == SemanticNoise.name else {}
        return {"candidates": candidates, **noise, **options}
    if mechanism == SemanticTransport.name and "alpha" in options and "target" not in options:
        return {**{k: v for k, v in options.items() if k != "alpha"}, "target": {"alpha": options["alpha"]}}
    return options


class _Table(WrappedTable):
    """A table from which masked tables of the same kind are made."""

    __slots__ = ()

    def replaced(self, keep: Sequence[str], masked: Mapping[str, Sequence[Value]]) -> Any:
        """Return a native table of the kept and the masked columns, in the order of this one."""
        series = {
            name: self._series(name, masked[name]) if name in masked else self.frame[name]
            for name in self.columns
            if name in masked or name in keep
        }
        return self.narwhals.from_dict(series, backend=self.frame.implementation).to_native()

    def _series(self, name: str, values: Sequence[Value]) -> Any:
        return self.narwhals.new_series(name, values, self._type(values), backend=self.frame.implementation)

    def _type(self, values: Sequence[Value]) -> Any:
        """Return the type of a column of values; pandas has none for lists."""
        kinds = set(map(type, values))
        if list in kinds:
            pandas = self.frame.implementation.is_pandas_like()
            return None if pandas else self.narwhals.List(self.narwhals.String)
        if float in kinds:
            return self.narwhals.Float64
        return self.narwhals.Int64 if int in kinds and type(None) not in kinds else self._nullable(kinds)

    def _nullable(self, kinds: set[type]) -> Any:
        return self.narwhals.Float64 if int in kinds else self.narwhals.String


def _check_columns(columns: Sequence[str], masked: Sequence[str], keep: Sequence[str], key: str | None) -> None:
    if isinstance(keep, str):
        raise ParameterError(f"keep={keep!r} is not allowed: use a list of columns, such as keep=[{keep!r}]")
    missing = [name for name in (*masked, *keep, *([] if key is None else [key])) if name not in columns]
    if missing:
        raise ParameterError(f"the table has no column {missing[0]!r}: use {', '.join(map(repr, columns))}")
    kept = [name for name in masked if name in keep]
    if kept:
        raise ParameterError(f"the column {kept[0]!r} is to be masked and kept: choose one of the two")


def _concepts(name: str, given: Vocabulary, unknown: UnknownPolicy) -> ConceptMap:
    if isinstance(given, Taxonomy):
        return ConceptMap(given, unknown=unknown)
    if not isinstance(given, str | Ontology):
        raise ParameterError(
            f"the concepts of {name!r} are of type {type(given).__name__}: use a Taxonomy, Ontology or name"
        )
    ontology = Ontology.load(given) if isinstance(given, str) else given
    return ConceptMap(ontology.taxonomy(), unknown=unknown, ontology=ontology)


def _ids(name: str, values: Sequence[Any], concepts: ConceptMap | None) -> list[Value]:
    """Return the concept ids of a column of codes; a column of numbers unchanged (``concepts`` is None)."""
    if concepts is None:
        return list(values)
    return [_id(name, row, value, concepts) for row, value in enumerate(values)]


def _id(name: str, row: int, value: Any, concepts: ConceptMap) -> str | list[str] | None:
    if isinstance(value, list | tuple | np.ndarray):
        found = (_concept(name, row, element, concepts) for element in value)
        return [concept for concept in found if concept is not None]
    return None if value is None else _concept(name, row, value, concepts)


def _concept(name: str, row: int, value: object, concepts: ConceptMap) -> str | None:
    if not isinstance(value, str):
        raise ParameterError(f"column {name!r}, row {row}: the code is of type {type(value).__name__}: use text")
    position, _ = concepts.resolve(value)
    if position == UNKNOWN and concepts.unknown != "suppress":
        raise UnknownConceptError(
            f"column {name!r}, row {row}: the code has no concept; unknown='ancestor' takes its longest known prefix, "
            "unknown='suppress' a missing value",
            position=row,
        )
    return None if position == UNKNOWN else concepts.taxonomy.ids[position]


def _keys(table: _Table, key: str | None) -> list[bytes]:
    values = range(table.size) if key is None else table.values(key)
    for row, value in enumerate(values):
        if value is None:
            raise ParameterError(f"column {key!r}, row {row}: the key is missing, but every row needs one")
    return [str(value).encode() for value in values]
