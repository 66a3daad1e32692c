"""Validation of parameters that mechanisms share.

For semantic noise, error messages name the method that 2017's Table 9 suggests instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from numbers import Real
from typing import Any, TypeAlias

from stream_masker.core.ontology import Taxonomy
from stream_masker.core.validation import require_mapping, require_type
from stream_masker.errors import ParameterError

REFERENCES = ("mean", "pair", "root")

MIN_ALPHA = 0.01
"""The smallest allowed noise level α, also of a record. Less noise would leave nearly all values unchanged."""

MAX_ALPHA = 10.0
"""The largest allowed noise level α."""

ALPHA_RANGE = f"[{MIN_ALPHA:g}, {MAX_ALPHA:g}]"
"""The allowed noise levels, for messages."""

AttributePairs: TypeAlias = Sequence[tuple[str, str]]
"""Pairs of attributes, by name."""


def checked_attributes(
    taxonomies: Mapping[str, Taxonomy], numeric: Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """Return the names of the nominal attributes, in order; empty if all attributes are numeric.

    Raises ParameterError if there is no attribute at all, or an attribute without a taxonomy.
    """
    require_mapping("taxonomies", taxonomies, EXAMPLE_TAXONOMIES)
    if numeric is not None:
        require_mapping("numeric", numeric, "{'age': Numeric(integer=True)}")
    if not taxonomies and not numeric:
        raise ParameterError("there is no attribute to mask: give at least one taxonomy")
    for name, tau in taxonomies.items():
        if not isinstance(tau, Taxonomy):
            raise ParameterError(
                f"the taxonomy of {name!r} is of type {type(tau).__name__}: use a Taxonomy, as in {EXAMPLE_TAXONOMIES}"
            )
    return tuple(taxonomies)


EXAMPLE_TAXONOMIES = "{'principal': ontology.taxonomy()}"


def per_attribute(parameter: str, given: object, attributes: tuple[str, ...]) -> dict[str, Any]:
    """Return one parameter value per attribute, in order, from one for all or a mapping.

    Raises ParameterError if the mapping does not name exactly the attributes.
    """
    each = given if isinstance(given, Mapping) else dict.fromkeys(attributes, given)
    if set(each) != set(attributes):
        names = ", ".join(map(repr, each)) or "no attribute"
        raise ParameterError(f"{parameter} is given for {names}: give one number, or one for each of {attributes}")
    return {name: each[name] for name in attributes}


def checked_alpha(alpha: float | Mapping[str, float], attributes: tuple[str, ...]) -> dict[str, float]:
    """Return α of every attribute, from one for all or one for each.

    Raises ParameterError unless each is in [0.01, 10].
    """
    levels = per_attribute("alpha", alpha, attributes)
    for name, level in levels.items():
        if isinstance(level, bool) or not isinstance(level, Real) or not MIN_ALPHA <= float(level) <= MAX_ALPHA:
            raise ParameterError(f"alpha={level!r} of {name!r} is not allowed: use a number in {ALPHA_RANGE}")
    return {name: float(level) for name, level in levels.items()}


def check_rollup_depth(depth: int) -> None:
    """Raise ParameterError unless the depth is at least 1 (the root)."""
    require_type("rollup_depth", depth, int)
    if depth < 1:
        raise ParameterError(f"rollup_depth={depth} is not allowed: use 1 (the root) or more")


def partner_indices(
    reference: str, pairs: AttributePairs | None, taxonomies: Mapping[str, Taxonomy], *, correlated: bool
) -> tuple[int, ...]:
    """Return the index of each attribute's partner, in order; empty unless ``reference`` is ``pair``.

    Raises ParameterError if pairs are given for another reference, or if they are not disjoint pairs of all attributes
    with one taxonomy per pair (2017: section 4.5).
    """
    attributes = tuple(taxonomies)
    if reference != "pair":
        if pairs is not None:
            raise ParameterError(f"pairs={list(pairs)!r} is only allowed with reference='pair': remove it")
        return ()
    if pairs is not None and any(isinstance(pair, str) for pair in pairs):
        raise ParameterError(f"pairs={pairs!r} is not allowed: use pairs of names, such as pairs=[('first', 'second')]")
    groups: list[Any] = [attributes] if pairs is None else [tuple(pair) for pair in pairs]
    problem = ""
    if {len(pair) for pair in groups} != {2} or Counter(chain.from_iterable(groups)) != Counter(attributes):
        problem = f"every attribute in exactly one pair of two attributes, not pairs={pairs!r} of {attributes}"
    elif any(taxonomies[first] != taxonomies[second] for first, second in groups):
        problem = f"the same taxonomy for both attributes of a pair, but those of {groups!r} have different ones"
    if problem:
        raise ParameterError(f"reference='pair' needs {problem}: {table_9_suggestion(attributes, correlated)}")
    partner = {**dict(groups), **{second: first for first, second in groups}}
    return tuple(attributes.index(partner[name]) for name in attributes)


def table_9_suggestion(attributes: tuple[str, ...], correlated: bool) -> str:
    """Return what 2017's Table 9 suggests for attributes that do not form pairs of one taxonomy."""
    if len(attributes) == 1:
        return "2017's Table 9 suggests Uncorrelated-Algorithm1 for one attribute (correlated=False, reference='mean')"
    kind = "two attributes of different taxonomies" if len(attributes) == 2 else "more than two attributes"
    how = "" if correlated else "correlated=True, "
    return (
        f"for {kind} 2017's Table 9 suggests Correlated-Algorithm3 to keep the sdCor ({how}reference='root'), "
        f"or Correlated-Algorithm1 to keep the sMean ({how}reference='mean')"
    )
