"""What each method comes from, takes and guarantees, for the table of methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Method(NamedTuple):
    """A row of the table. ``source``: the paper and section. ``guarantee``: the protection that is guaranteed, if any.

    ``takes``: how many attributes the method takes, and what it requires of them.
    """

    source: str
    guarantee: str
    takes: str = "any number of nominal ones"


METHODS: Mapping[str, Method] = {
    "semantic_noise": Method(
        "2017: sections 4.4 and 4.5, algorithms 1 to 3",
        "none in a strict sense: plausible deniability that grows with α",
        "any number of nominal ones; with reference pair, two of one taxonomy",
    ),
    "microaggregation": Method(
        "2013: sections 2.2 to 3.1",
        "k-anonymity of scalars within a group, verified, but not of the masks of a person in several groups; none "
        "with hybrid",
    ),
    "rank_swapping": Method(
        "2019: algorithms 1 to 3",
        "of two swapped values, one is among the k nearest of the other; record linkage finds 0.11 to 0.15 of real "
        "records for k = 10, more than the 1/k that 2019 states for multivariate",
        "any number of nominal ones; at least two with multivariate",
    ),
    "vicus": Method(
        "2012: sections 2 and 3",
        "none in a strict sense: every value is a possible original, with known probabilities",
        "two or more nominal ones, of at most 50 values each",
    ),
    "random": Method(
        "2012: section 3.1.1, as a baseline of VICUS",
        "none in a strict sense: every value is a possible original, with known probabilities",
        "two or more nominal ones, of at most 50 values each",
    ),
    "naive_distortion": Method(
        "2017: section 5, as a baseline",
        "masked values are independent of the originals: they reveal nothing but the set of values",
    ),
    "probabilistic_distortion": Method(
        "2017: section 5, as a baseline",
        "masked values are independent of the originals: they reveal only the window's frequencies",
    ),
    "pram": Method(
        "2017: section 2; Kooiman and others 1997",
        "that of the matrix: each masked value's original has known probabilities",
    ),
    "exponential": Method(
        "2017: section 2; McSherry and Talwar 2007",
        "ε-local differential privacy of each value",
    ),
    "semantic_transport": Method(
        "own; Cuturi 2013, Peyré and Cuturi 2019",
        "no code is known with more than `certainty` from any masked record, unless it was so before; a masked tuple "
        "is no proof of a tuple of fewer patients than `least`",
    ),
}
"""The methods by name."""
