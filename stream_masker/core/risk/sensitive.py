"""Sensitive groups: sets of concepts, given as subtrees, whose membership must not be disclosed.

The lists of ``SENSITIVE_LISTS`` are for ICD-10-CM and ICD-9-CM. They follow the law that is named with each of them,
but are no legal advice: every list can be replaced by own roots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from stream_masker.core.dtypes import BoolArray
from stream_masker.core.ontology.graph import descendants_of
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.validation import number_between
from stream_masker.errors import ParameterError

GivenGroups: TypeAlias = Iterable[str] | Mapping[str, Sequence[str] | None]
"""Names of ``SENSITIVE_LISTS``, or roots by the name of the group; without roots (None), the name is that of a list."""


@dataclass(frozen=True, slots=True)
class SensitiveList:
    """A list of sensitive concepts. A concept belongs to it if it is a root or a descendant of one.

    * ``law``: the law by which these concepts are sensitive.
    * ``icd10cm``, ``icd9cm``: the roots in each classification, as codes with dots.
    """

    law: str
    icd10cm: tuple[str, ...]
    icd9cm: tuple[str, ...]


SENSITIVE_LISTS = {
    "hiv": SensitiveList(
        "State HIV confidentiality statutes, such as New York Public Health Law article 27-F, which includes tests and "
        "contacts; GDPR Art. 9(1)",
        ("B20", "B97.35", "E88.14", "O98.7", "R75", "Z11.4", "Z20.6", "Z21", "Z29.81", "Z71.7", "Z83.0"),
        ("042", "079.53", "795.71", "V08", "V65.44"),
    ),
    "mental_disorders": SensitiveList(
        "State mental health statutes, such as 740 ILCS 110 (Illinois) and New York Mental Hygiene Law § 33.13; "
        "GDPR Art. 9(1)",
        (
            *("F01-F09", "F10-F19", "F20-F29", "F30-F39", "F40-F48", "F50-F59", "F60-F69", "F70-F79", "F80-F89"),
            *("F90-F98", "F99-F99", "O99.34", "R45.85", "T14.91", "X71-X83", "Z86.5", "Z91.5"),
        ),
        ("290-294", "295-299", "300-316", "317-319", "648.4", "E950-E959", "V11", "V62.84", "V62.85"),
    ),
    "substance_use": SensitiveList(
        "42 U.S.C. § 290dd-2 and 42 CFR Part 2, which excludes tobacco and caffeine; GDPR Art. 9(1)",
        (
            *("E24.4", "F10", "F11", "F12", "F13", "F14", "F15", "F16", "F18", "F19", "G31.2", "G62.1", "G72.1"),
            *("I42.6", "K29.2", "K70", "K85.2", "K86.0", "O35.4", "O35.5", "O99.31", "O99.32", "P04.3", "P04.4"),
            *("P96.1", "Q86.0", "R11.16", "R78.0", "R78.1", "R78.2", "R78.3", "R78.4", "T40", "T51.0", "Y90"),
            *("Z71.4", "Z71.5", "Z81.1", "Z81.3"),
        ),
        (
            *("291", "292", "303", "304", "305.0", "305.2", "305.3", "305.4", "305.5", "305.6", "305.7", "305.8"),
            *("305.9", "357.5", "425.5", "535.3", "571.0", "571.1", "571.2", "571.3", "648.3", "655.5", "760.71"),
            *("760.72", "760.73", "760.75", "779.5", "790.3", "965.0", "969.6", "980.0", "E850.0", "E860", "V11.3"),
        ),
    ),
    "pregnancy_and_abortion": SensitiveList(
        "State reproductive health statutes, such as RCW 19.373 (Washington) and California Civil Code § 56.108; "
        "GDPR Art. 9(1)",
        (
            *("N96", "O00-O08", "O09-O09", "O10-O16", "O20-O29", "O30-O48", "O60-O77", "O80-O82", "O85-O92"),
            *("O94-O9A", "Z32", "Z33", "Z34", "Z36", "Z37", "Z39", "Z3A", "Z64.0"),
        ),
        (
            *("630-639", "640-649", "650-659", "660-669", "670-677", "678-679", "V22", "V23", "V24", "V27", "V28"),
            *("V61.7", "V72.4", "V91"),
        ),
    ),
    "sexually_transmitted_infections": SensitiveList(
        "State statutes on sexually transmitted diseases, such as New York Public Health Law § 2306 and Florida "
        "Statutes § 384.29; GDPR Art. 9(1)",
        ("A50-A64", "B97.7", "O98.1", "O98.2", "O98.3", "Z11.3", "Z20.2", "Z22.4"),
        (
            *("054.1", "078.11", "079.4", "079.88", "090-099", "131", "647.0", "647.1", "647.2", "V01.6", "V02.7"),
            *("V02.8", "V74.5"),
        ),
    ),
    "abuse": SensitiveList(
        "34 U.S.C. § 12291(b)(2) (victims of violence) and 42 U.S.C. § 5106a(b)(2)(B)(viii) (child abuse records); "
        "GDPR Art. 9(1)",
        (
            *("O9A.3", "O9A.4", "O9A.5", "T74", "T76", "Y07", "Z04.4", "Z04.7", "Z62.81", "Z69", "Z91.41"),
            "Z91.42",
        ),
        (
            *("995.5", "995.80", "995.81", "995.82", "995.83", "995.84", "995.85", "E960.1", "E967", "E968.4"),
            *("V15.41", "V15.42", "V61.11", "V61.12", "V61.21", "V61.22", "V62.83", "V71.5", "V71.81"),
        ),
    ),
}
"""The built-in lists by name. HIV is not repeated among the sexually transmitted infections."""


def sensitive_groups(taxonomy: Taxonomy, given: GivenGroups) -> dict[str, BoolArray]:
    """Return, for each group, (k,) bool: which of the k concepts of a taxonomy belong to it.

    ``given``: names of built-in lists, or own roots by name. Raises ParameterError for an unknown name, a root that is
    no concept of the taxonomy, or a built-in list of which the taxonomy holds nothing.
    """
    if isinstance(given, str):
        raise ParameterError(f"sensitive={given!r}: give a list of names, or the roots of each group")
    groups = given if isinstance(given, Mapping) else dict.fromkeys(given)
    return {name: _members(taxonomy, _roots(taxonomy, name, roots)) for name, roots in groups.items()}


def present_groups(taxonomy: Taxonomy) -> dict[str, BoolArray]:
    """Return the members of every built-in list that has any in a taxonomy, as ``sensitive_groups``."""
    present = {name: _held(taxonomy, entry) for name, entry in SENSITIVE_LISTS.items()}
    return {name: _members(taxonomy, roots) for name, roots in present.items() if roots}


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
                groups[name] = _members(taxonomy, roots), limit
        if not any(name in groups for groups in result):
            raise ParameterError(f"sensitive {name!r}: no attribute's ontology holds any of its concepts")
    return result


def _members(taxonomy: Taxonomy, roots: Sequence[str]) -> BoolArray:
    positions = [taxonomy.position(root) for root in roots]
    below = [descendants_of(position, taxonomy.child_offsets, taxonomy.children) for position in positions]
    return np.asarray(np.logical_or.reduce(below))


def _roots(taxonomy: Taxonomy, name: str, given: Sequence[str] | None) -> Sequence[str]:
    """Return the roots of a group: the given ones, or those of a list as far as a taxonomy has them."""
    if given is not None and (isinstance(given, str) or not given):
        raise ParameterError(f"sensitive group {name!r}: give a list of at least one concept, its roots")
    if given is None and name not in SENSITIVE_LISTS:
        raise ParameterError(f"sensitive group {name!r}: use one of {', '.join(SENSITIVE_LISTS)}, or give its roots")
    unknown = [root for root in given or () if root not in taxonomy]
    if unknown:
        raise ParameterError(f"sensitive group {name!r}: {unknown[0]!r} is not a concept of the taxonomy")
    roots = given or _held(taxonomy, SENSITIVE_LISTS[name])
    if not roots:
        raise ParameterError(
            f"sensitive group {name!r}: the taxonomy holds none of its concepts, which are ICD-10-CM and ICD-9-CM "
            "codes: give its roots"
        )
    return roots


def _held(taxonomy: Taxonomy, entry: SensitiveList) -> tuple[str, ...]:
    """Return the roots of the classification of which the taxonomy, which may be a part of it, holds more."""
    return max((tuple(filter(taxonomy.__contains__, roots)) for roots in (entry.icd10cm, entry.icd9cm)), key=len)
