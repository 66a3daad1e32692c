"""Which attribute is the reference of which (reference ``pair``), and which arrays can be masked together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from stream_masker.service.configuration.fieldpaths import is_array
from stream_masker.service.configuration.mechanisms import SemanticNoiseSection
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.wording import ConfigurationPlace

ConfiguredPairs: TypeAlias = tuple[tuple[str, str], ...]

PAIRS_PLACE: ConfigurationPlace = ("mechanism", "reference")


def pairs(configuration: Configuration) -> ConfiguredPairs | None:
    """The pairs of attributes for reference ``pair``: those given, or the only two; None for other references."""
    mechanism = configuration.mechanism
    if not isinstance(mechanism, SemanticNoiseSection) or mechanism.reference != "pair":
        return None
    if mechanism.pairs is not None:
        return mechanism.pairs
    names = tuple(configuration.nominal)
    return ((names[0], names[1]),) if len(names) == 2 else ()


def suitable(configuration: Configuration) -> str:
    """The methods that Table 9 of the 2017 paper suggests where reference ``pair`` cannot be used."""
    if len(configuration.nominal) == 1:
        return "for one attribute use correlated: false and reference: mean (2017: Table 9, Uncorrelated-Algorithm1)"
    return (
        "use reference: mean to keep the sMean (2017: Table 9, Correlated-Algorithm1) "
        "or reference: root to keep the sdCor (Correlated-Algorithm3)"
    )


def pairing_problems(configuration: Configuration) -> list[tuple[ConfigurationPlace, str]]:
    """Pairs must be disjoint, hold every attribute, and be of one taxonomy; arrays must not meet."""
    if not isinstance(configuration.mechanism, SemanticNoiseSection):
        return []
    found = [*_unusable(configuration), *_two_arrays(configuration)]
    return found or list(_different_taxonomies(configuration))


def _unusable(configuration: Configuration) -> Iterable[tuple[ConfigurationPlace, str]]:
    given: ConfiguredPairs | None = getattr(configuration.mechanism, "pairs", None)
    wanted = pairs(configuration)
    if wanted is None:
        if given is not None:
            yield ("mechanism", "pairs"), "only reference pair has pairs: leave them out"
        return
    place = PAIRS_PLACE if given is None else ("mechanism", "pairs")
    if given is not None:
        yield from _unknown_names(configuration, given)
    counts = Counter(name for pair in wanted for name in pair)
    once = all(counts[name] == 1 for name in configuration.nominal)
    if not once:
        yield place, f"pair needs every attribute in exactly one pair of two attributes: {suitable(configuration)}"


def _unknown_names(configuration: Configuration, given: ConfiguredPairs) -> Iterable[tuple[ConfigurationPlace, str]]:
    for i, pair in enumerate(given):
        for j, name in enumerate(pair):
            if name not in configuration.nominal:
                yield (
                    ("mechanism", "pairs", i, j),
                    f"{name!r} is no attribute: use {', '.join(configuration.nominal)}",
                )


def _two_arrays(configuration: Configuration) -> Iterable[tuple[ConfigurationPlace, str]]:
    arrays = [name for name, attribute in configuration.nominal.items() if is_array(attribute)]
    if getattr(configuration.mechanism, "correlated", False) and len(arrays) > 1:
        yield (
            ("mechanism", "correlated"),
            f"true allows one array attribute, but {', '.join(arrays)} are arrays: use false, or fewer arrays",
        )


def _different_taxonomies(configuration: Configuration) -> Iterable[tuple[ConfigurationPlace, str]]:
    for first, second in pairs(configuration) or ():
        a, b = configuration.nominal[first], configuration.nominal[second]
        if (a.ontology, a.root) != (b.ontology, b.root):
            yield PAIRS_PLACE, f"pair needs one taxonomy, but {first} and {second} have two: {suitable(configuration)}"
