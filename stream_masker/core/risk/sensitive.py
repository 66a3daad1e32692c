"""Sensitive groups: sets of concepts, given as subtrees, whose membership must not be disclosed.

The lists of ``SENSITIVE_LISTS`` are for ICD-10-CM and ICD-9-CM. Each follows the legal act that is named with it, but
is no legal advice. Every list can be replaced by other roots.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from stream_masker.core.arrays import BoolArray
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.validation import number_between
from stream_masker.errors import ParameterError

SENSITIVE_LISTS: Mapping[str, Mapping[str, Any]] = json.loads(
    files(__package__).joinpath("sensitive.json").read_bytes()
)
"""The built-in lists by name: of each the ``law`` by which its concepts are sensitive, and their roots in both
classifications, ``icd10cm`` and ``icd9cm``, as codes with dots. A concept belongs to a list if it is a root or below
one. HIV is not repeated among the sexually transmitted infections."""


def present_groups(taxonomy: Taxonomy) -> dict[str, BoolArray]:
    """Return, for each built-in list of which a taxonomy has any of k concepts, (k,) bool: which of them it lists."""
    present = {name: _held(taxonomy, entry) for name, entry in SENSITIVE_LISTS.items()}
    return {name: taxonomy.below(taxonomy.encode(roots)) for name, roots in present.items() if roots}


def limited_groups(
    given: Mapping[str, Any], taxonomies: Mapping[str, Taxonomy]
) -> tuple[Mapping[str, tuple[BoolArray, float]], ...]:
    """Return the members and the limit of each sensitive group, by name, for each taxonomy.

    ``given``: a limit in [0.01, 1] by the name of a built-in list, or ``{"limit": β, "roots": [concepts]}`` by a name
    of one's own. Raises ParameterError, also for a group of which no taxonomy holds anything.
    """
    if not isinstance(given, Mapping):
        raise ParameterError(f"sensitive={given!r} is not allowed: give a limit by the name of each group")
    result: tuple[dict[str, tuple[BoolArray, float]], ...] = tuple({} for _ in taxonomies)
    for name, entry in given.items():
        own = isinstance(entry, Mapping) and set(entry) == {"limit", "roots"}
        if not own and name not in SENSITIVE_LISTS:
            raise ParameterError(
                f"sensitive {name!r}: use one of {', '.join(SENSITIVE_LISTS)}, or give its limit and its roots"
            )
        limit = number_between(f"sensitive {name}", entry["limit"] if own else entry, 0.01, 1.0)
        for groups, taxonomy in zip(result, taxonomies.values(), strict=True):
            held = entry["roots"] if own else _held(taxonomy, SENSITIVE_LISTS[name])
            if roots := [root for root in held if root in taxonomy]:
                groups[name] = taxonomy.below(taxonomy.encode(roots)), limit
        if not any(name in groups for groups in result):
            raise ParameterError(f"sensitive {name!r}: no attribute's ontology holds any of its concepts")
    return result


def _held(taxonomy: Taxonomy, entry: Mapping[str, Any]) -> list[str]:
    """Return the roots of the classification of which the taxonomy, which may be a part of it, holds more."""
    return max(([root for root in entry[which] if root in taxonomy] for which in ("icd10cm", "icd9cm")), key=len)
