"""The mechanism of a configuration that leaves it open, chosen by the attributes (``core.mechanisms.defaults``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_masker.service.configuration.mechanisms import (
    SemanticNoiseSection,
    SemanticTransportSection,
)
from stream_masker.service.configuration.model import Configuration


def with_default_mechanism(data: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the data of a configuration with its mechanism and the parameters that depend on the attributes.

    The data need not be valid; what has another shape than expected stays as it is. The second result is None if the
    data name a mechanism, otherwise the reason why the default is not semantic noise, empty if it is.
    """
    from stream_masker.core.mechanisms.defaults import default_mechanism, noise_defaults

    section, attributes = data.get("mechanism", {}), _mappings(data.get("attributes"))
    if not isinstance(section, Mapping):
        return dict(data), None
    reason = None
    if "name" not in section:
        default = default_mechanism(section)
        section, reason = {"name": default.name, **section}, default.reason
    if section["name"] != "semantic_noise" or not attributes:
        return {**data, "mechanism": section}, reason
    taxonomies = {name: (str(a.get("ontology")), str(a.get("root"))) for name, a in attributes.items()}
    chosen = noise_defaults(taxonomies, _arrays(attributes), section)
    levels = {name: {"alpha": chosen["alpha"], **attribute} for name, attribute in attributes.items()}
    section = {**section, **{name: value for name, value in chosen.items() if name != "alpha"}}
    return {**data, "attributes": {**data["attributes"], **levels}, "mechanism": section}, reason


def _mappings(section: object) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a section that are mappings; none if it is not a mapping itself."""
    entries = section.items() if isinstance(section, Mapping) else ()
    return {name: entry for name, entry in entries if isinstance(entry, Mapping)}


def _arrays(attributes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [name for name, attribute in attributes.items() if "[*]" in str(attribute.get("path"))]


def mechanism_line(configuration: Configuration) -> str:
    """Describe the mechanism in one line: its name, its main parameters, and why it is the default if it is."""
    reason = configuration.default_reason
    if reason is None:
        return f"mechanism: {_described(configuration)}"
    return f"mechanism: {_described(configuration)}; the default" + (f", because {reason}" if reason else "")


def _described(configuration: Configuration) -> str:
    section, shown = configuration.mechanism, ""
    if isinstance(section, SemanticTransportSection):
        level = _alphas(configuration) if section.alpha is None else _shown(section.alpha)
        shown = f"alpha {level}, certainty {section.certainty:g}"
        shown += f", sensitive {', '.join(section.sensitive)}" if section.sensitive else ""
        shown += f"; context {', '.join(section.context)}" if section.context else ""
    elif isinstance(section, SemanticNoiseSection):
        kind = "correlated" if section.correlated else "uncorrelated"
        shown = (
            f"{kind}, reference {section.reference}, rounding {section.rounding}, candidates {section.candidates}, "
            f"alpha {_alphas(configuration)}"
        )
    return f"{section.name} ({shown})" if shown else section.name


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _alphas(configuration: Configuration) -> str:
    """Return the noise level of all attributes or of each."""
    levels = {name: attribute.alpha for name, attribute in configuration.attributes.items()}
    if len(set(levels.values())) == 1:
        return f"{next(iter(levels.values())):g}"
    return ", ".join(f"{level:g} of {name}" for name, level in levels.items())
