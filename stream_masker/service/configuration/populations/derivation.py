"""Derivation of a population's configuration data from the file's sections and the population's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stream_masker.service.configuration.topics.sections import INTERNAL_ROLES, TopicsSection

POPULATIONS: Final = "populations"

REPLACED_SECTIONS: Final = frozenset({"attributes", "fields", "mechanism"})
"""Sections that a population replaces as a whole; of the other ones, it replaces single keys."""


def given_populations(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the sections of each population by its name. Skips what is no mapping, which the schema refuses."""
    given = data.get(POPULATIONS)
    entries = given.items() if isinstance(given, Mapping) else ()
    return {str(name): sections for name, sections in entries if isinstance(sections, Mapping)}


def population_data(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the data of a population's whole configuration: the file's, with the population's sections.

    The names of its internal topics derive from those of the file, unless the population gives them.
    """
    shared = {section: value for section, value in data.items() if section != POPULATIONS}
    own = dict(given_populations(data)[name])
    topics = _section(shared, "topics")
    return {
        **shared,
        **{section: _merged(section, shared.get(section), value) for section, value in own.items()},
        "topics": {**topics, **_internal_topics(topics, name), **_section(own, "topics")},
    }


def _merged(section: str, shared: Any, own: Any) -> Any:
    if section in REPLACED_SECTIONS or not (isinstance(shared, Mapping) and isinstance(own, Mapping)):
        return own
    return {**shared, **own}


def _internal_topics(topics: Mapping[str, Any], name: str) -> dict[str, str]:
    fields = TopicsSection.model_fields
    return {role: f"{topics.get(role, fields[role].default)}.{name}" for role in INTERNAL_ROLES}


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}
