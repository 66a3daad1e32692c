"""The parameters of mechanisms: what is allowed; of semantic noise, which method 2017's Table 9 suggests instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

from stream_masker.core.ontology import Taxonomy
from stream_masker.core.validation import require_type
from stream_masker.errors import ParameterError

REFERENCES = ("mean", "pair", "root")

MAX_ALPHA = 10.0

PairNames: TypeAlias = Sequence[tuple[str, str]]


def checked_attributes(
    taxonomies: Mapping[str, Taxonomy], numeric: Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """The nominal attributes' names, in order; there may be none beside numeric ones.

    Raises ParameterError when there is no attribute at all, or one without a taxonomy.
    """
    if not taxonomies and not numeric:
        raise ParameterError("there is no attribute to mask: give at least one taxonomy")
    for name, tau in taxonomies.items():
        require_type(f"the taxonomy of {name!r}", tau, Taxonomy)
    return tuple(taxonomies)


def for_each(what: str, given: object, attributes: tuple[str, ...]) -> dict[str, Any]:
    """What is given of every attribute, in their order, from one for all or one for each. Raises ParameterError."""
    each = given if isinstance(given, Mapping) else dict.fromkeys(attributes, given)
    if set(each) != set(attributes):
        raise ParameterError(f"{what} is given for {_names(each)}: give one number, or one for each of {attributes}")
    return {name: each[name] for name in attributes}


def checked_alpha(alpha: float | Mapping[str, float], attributes: tuple[str, ...]) -> dict[str, float]:
    """α of every attribute, from one for all or one for each. Raises ParameterError; each must be in (0, 10]."""
    return {name: _checked_level(name, level) for name, level in for_each("alpha", alpha, attributes).items()}


def _checked_level(name: str, alpha: object) -> float:
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < float(alpha) <= MAX_ALPHA:
        raise ParameterError(f"alpha={alpha!r} of {name!r} is not allowed: use a number in (0, {MAX_ALPHA:g}]")
    return float(alpha)


def check_rollup_depth(depth: int) -> None:
    """Raises ParameterError unless the depth is 1 (the root) or more."""
    require_type("rollup_depth", depth, int)
    if depth < 1:
        raise ParameterError(f"rollup_depth={depth} is not allowed: use 1 (the root) or more")


def partners(
    reference: str, pairs: PairNames | None, taxonomies: Mapping[str, Taxonomy], *, correlated: bool
) -> tuple[int, ...]:
    """The index of each attribute's partner, in order; empty unless ``reference`` is ``pair``.

    Raises ParameterError where pairs are given for another reference, or are not disjoint pairs of all attributes with
    the same taxonomy each (2017: section 4.5).
    """
    if reference != "pair":
        _refuse_pairs(pairs)
        return ()
    partner = _by_name(_checked_pairs(pairs, taxonomies, correlated))
    attributes = tuple(taxonomies)
    return tuple(attributes.index(partner[name]) for name in attributes)


def _refuse_pairs(pairs: PairNames | None) -> None:
    if pairs is not None:
        raise ParameterError(f"pairs={list(pairs)!r} are only for reference='pair': leave them out")


def _checked_pairs(pairs: PairNames | None, taxonomies: Mapping[str, Taxonomy], correlated: bool) -> PairNames:
    attributes = tuple(taxonomies)
    wanted = [attributes] if pairs is None else [tuple(pair) for pair in pairs]
    counts = Counter(name for pair in wanted for name in pair)
    if {len(pair) for pair in wanted} != {2} or counts != Counter(attributes):
        raise ParameterError(
            f"reference='pair' needs every attribute in exactly one pair of two attributes, "
            f"not pairs={pairs!r} of {attributes}: {suggestion(attributes, correlated)}"
        )
    for first, second in wanted:
        if taxonomies[first] != taxonomies[second]:
            raise ParameterError(
                f"reference='pair' needs the same taxonomy for both attributes of a pair, and {first!r} and {second!r} "
                f"have different ones: {suggestion(attributes, correlated)}"
            )
    return [(first, second) for first, second in wanted]


def _by_name(pairs: PairNames) -> dict[str, str]:
    return {**dict(pairs), **{second: first for first, second in pairs}}


def suggestion(attributes: tuple[str, ...], correlated: bool) -> str:
    """What 2017's Table 9 suggests for attributes that are no pairs of one taxonomy."""
    if len(attributes) == 1:
        return "2017's Table 9 suggests Uncorrelated-Algorithm1 for one attribute (correlated=False, reference='mean')"
    kind = "two attributes of different taxonomies" if len(attributes) == 2 else "more than two attributes"
    how = "" if correlated else "correlated=True, "
    return (
        f"for {kind} 2017's Table 9 suggests Correlated-Algorithm3 to keep the sdCor ({how}reference='root'), "
        f"or Correlated-Algorithm1 to keep the sMean ({how}reference='mean')"
    )


def _names(given: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in given) or "no attribute"
