"""The parameters of semantic noise that depend on the attributes (2017: Table 9)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any


def noise_defaults(
    taxonomies: Mapping[str, Hashable], arrays: Collection[str], given: Mapping[str, Any], *, numeric: bool = False
) -> dict[str, Any]:
    """Return ``correlated`` and ``reference`` of semantic noise: the given values, and the best ones for the rest.

    One attribute gets uncorrelated noise with reference ``mean``; two of one taxonomy get ``pair``; others get ``root``
    (2017: Table 9). The noise of several arrays is not correlated.

    * ``taxonomies``: what identifies the taxonomy of each nominal attribute.
    * ``arrays``: the attributes that are arrays.
    * ``given``: the given parameters with their values.
    * ``numeric``: whether there are numeric attributes, with which the noise of one attribute can be correlated.
    """
    alone = len(taxonomies) == 1 and not numeric
    best = {"correlated": not alone and len(arrays) < 2, "reference": _reference(taxonomies, arrays, given)}
    return {name: given.get(name, value) for name, value in best.items()}


def _reference(taxonomies: Mapping[str, Hashable], arrays: Collection[str], given: Mapping[str, Any]) -> str:
    if given.get("pairs") is not None:
        return "pair"
    if len(taxonomies) == 1:
        return "mean"
    one_taxonomy = len(set(taxonomies.values())) == 1
    return "pair" if len(taxonomies) == 2 and one_taxonomy and len(arrays) < 2 else "root"
