"""Configurations with another mechanism, as data and as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import yaml

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.populations.derivation import POPULATIONS, given_populations


def with_mechanism(
    data: Mapping[str, Any], name: str, options: Mapping[str, Any], population: str = ""
) -> dict[str, Any]:
    """Return a configuration, as plain data, with a mechanism and the parameters of its constructor.

    ``alpha`` becomes the noise level of every attribute; of records that bring their own, it becomes the default.
    Without ``alpha``, the attributes lose theirs, which the mechanism would refuse, unless records bring it.
    ``population``: the one that gets the mechanism, by default that of the file itself. All other populations keep what
    they have: those that take their mechanism or attributes from the file get sections of their own. Raises
    ConfigurationError if the data do not name the population.
    """
    changed = deepcopy(dict(data))
    further = given_populations(changed)
    if population and population not in further:
        raise ConfigurationError(f"populations.{population}: not in the file, only in the environment")
    before = {"attributes": changed.get("attributes", {}), **further.get(population, {})}["attributes"]
    attributes = {key: _with_alpha(attribute, options.get("alpha")) for key, attribute in before.items()}
    mechanism = {"name": name, **{key: _plain(value) for key, value in options.items() if key != "alpha"}}
    replaced = {"mechanism": mechanism, **({"attributes": attributes} if attributes != before else {})}
    if population:
        changed[POPULATIONS][population] = {**further[population], **replaced}
        return changed
    inherited = {section: changed.get(section, {}) for section in replaced}
    kept = {one: {**deepcopy(inherited), **sections} for one, sections in further.items()}
    return {**changed, **replaced, **({POPULATIONS: kept} if kept else {})}


def _with_alpha(attribute: Mapping[str, Any], alpha: float | None) -> dict[str, Any]:
    """Return a copy of an attribute's section with a noise level, or without one."""
    copy = deepcopy(dict(attribute))
    own = copy.pop("alpha", None)
    if isinstance(own, Mapping):
        return {**copy, "alpha": own if alpha is None else {**own, "default": alpha}}
    return copy if alpha is None else {**copy, "alpha": alpha}


def configuration_yaml(data: Mapping[str, Any], comment: str) -> str:
    """Return a configuration as YAML, with a comment above it."""
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return head + yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value
