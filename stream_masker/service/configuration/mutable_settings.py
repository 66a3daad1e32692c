"""Settings: the mutable part of a configuration, which a running service applies without a restart.

Settings travel with the statistics versions, so that all workers switch at the same version. They never loosen what a
worker's own file says about fields, message keys and headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import NameStep, Path
from stream_masker.pipeline.plan import FieldPolicy
from stream_masker.pipeline.policy import Action
from stream_masker.service.configuration.fields.transforms import field_policy
from stream_masker.service.configuration.loading import parse_configuration
from stream_masker.service.configuration.model import MASKING_SECTIONS, Configuration

Settings: TypeAlias = Mapping[str, Any]
"""The mutable part as JSON-serialisable data, in the shape of the configuration."""

MUTABLE_ATTRIBUTE_KEYS: Final = frozenset({"alpha", "unknown", "missing"})

MUTABLE_MECHANISM_PARAMETERS: Final[Mapping[str, frozenset[str]]] = {
    "semantic_noise": frozenset({"candidates", "correlated", "distribution", "pairs", "reference", "rounding"})
}
"""The parameters of each mechanism that its statistics do not depend on. Other mechanisms have no mutable ones."""

MUTABLE_SECTIONS: Final = ("fields", "message")
"""Sections that are entirely mutable."""

LATER_FIELD_KEYS: Final = ("references",)
"""Keys of ``fields`` that settings leave out while empty, so that workers of earlier releases can read them."""

PolicyEntry: TypeAlias = tuple[Path, Action]

KEY_STRICTNESS: Final = ("keep", "pseudonymize", "drop")
"""The treatments of the message key, from the loosest to the strictest."""


def mutable_settings(configuration: Configuration) -> dict[str, Any]:
    """Return the mutable part of a configuration."""
    data = _plain_data(configuration)
    attributes = data["attributes"].items()
    for key in LATER_FIELD_KEYS:
        if not data["fields"][key]:
            del data["fields"][key]
    return {
        "attributes": {name: _selected(attribute, MUTABLE_ATTRIBUTE_KEYS) for name, attribute in attributes},
        "mechanism": _selected(data["mechanism"], _mutable_parameters(configuration)),
        **{section: data[section] for section in MUTABLE_SECTIONS},
    }


def with_settings(configuration: Configuration, settings: Settings) -> Configuration:
    """Return the configuration with another mutable part, validated as a whole.

    Raises ConfigurationError if the settings name other attributes, contain immutable keys, or are invalid.
    """
    current = mutable_settings(configuration)
    if immutable := [*_immutable_keys(settings, current, configuration)]:
        raise ConfigurationError(f"settings: {', '.join(immutable)} cannot be changed while running; restart instead")
    data = _plain_data(configuration)
    for name, attribute in settings["attributes"].items():
        data["attributes"][name] = _with_values(data["attributes"][name], attribute, MUTABLE_ATTRIBUTE_KEYS)
    data["mechanism"] = _with_values(data["mechanism"], settings["mechanism"], _mutable_parameters(configuration))
    data |= {section: settings[section] for section in MUTABLE_SECTIONS}
    return parse_configuration(data).loaded(configuration.folder, configuration.default_reason)


def check_not_looser(current: Configuration, other: Configuration) -> None:
    """Raise ConfigurationError if ``other`` lets fields, keys or headers through that ``current`` does not."""
    if looser := loosened_keys(current, other):
        raise ConfigurationError(
            f"settings: {', '.join(looser)} would let more through than this process's own file: "
            "change the file and restart"
        )


def loosened_keys(current: Configuration, other: Configuration) -> list[str]:
    """Return the keys of ``other`` that let more through than ``current``, such as ``fields.keep``."""
    return [*loosened_fields(field_policy(current), field_policy(other)), *_loosened_message(current, other)]


def loosened_fields(current: FieldPolicy, other: FieldPolicy) -> Iterator[str]:
    """Yield the keys of ``fields`` by which ``other`` lets more through than ``current``.

    A change that cannot be compared, for example between a filter and an index of one list, counts as looser, and so
    does every change of a transform.

    The longest path that selects a value decides. It suffices to compare both policies at the paths that only one of
    them has: of two paths that decide for one value, the longer one is compared with the strictest (or loosest) action
    that the other policy may have there.
    """
    if (current.unlisted, other.unlisted) == ("drop", "keep"):
        yield "fields.unlisted"
    if current.transforms != other.transforms:
        yield "fields." + ", ".join(sorted({*current.transforms, *other.transforms}))
    before, after = set(_entries(current)), set(_entries(other))
    added = after - before
    if any(action < _bound(before, current.unlisted, path, max) or _adds_shape(before, path) for path, action in added):
        yield "fields.keep or fields.pseudonymize"
    if any(action > _bound(after, other.unlisted, path, min) for path, action in before - after):
        yield "fields.drop or fields.pseudonymize"


def _entries(fields: FieldPolicy) -> Iterator[PolicyEntry]:
    """Yield the paths of a policy with their actions, and the fields that filters keep."""
    listed = (
        (fields.keep, Action.KEEP),
        (fields.pseudonymize, Action.PSEUDONYMIZE),
        (fields.transformed, Action.TRANSFORM),
        (fields.drop, Action.DROP),
    )
    for paths, action in listed:
        for path in paths:
            yield path, action
            if action is not Action.DROP:
                yield from ((compared, Action.KEEP) for compared in path.parent.filter_fields())


def _adds_shape(entries: set[PolicyEntry], path: Path) -> bool:
    """Return whether a path adds a shape to a value that drops or pseudonymizes a part of it by the other shape.

    Where paths only continue into a list, an object gets the strictest of their actions, and the other way round. A
    path into the object ends that, for all of its members.
    """
    return any(action is not Action.KEEP and _part_by_shape(other, path) for other, action in entries)


def _part_by_shape(one: Path, other: Path) -> bool:
    """Return whether two paths part at a value where one selects members and the other elements."""
    for shared, (a, b) in enumerate(zip(one.steps, other.steps, strict=False)):
        if isinstance(a, NameStep) != isinstance(b, NameStep):
            return Path(one.text, one.steps[:shared]).may_meet(Path(other.text, other.steps[:shared]))
    return False


def _bound(entries: set[PolicyEntry], unlisted: str, path: Path, pick: Callable[[Iterable[Action]], Action]) -> Action:
    """Return the strictest (``max``) or loosest (``min``) action that a policy may have at a path."""
    around = [(other, action) for other, action in entries if _may_contain(other, path)]
    certain = [len(other.steps) for other, _ in around if other.steps == path.steps[: len(other.steps)]]
    inherited = [] if certain else [Action.KEEP if unlisted == "keep" else Action.DROP]
    longest = [(other, action) for other, action in around if len(other.steps) >= max(certain, default=0)]
    return pick([*inherited, *_strongest_by_path(longest).values()])


def _strongest_by_path(entries: Iterable[PolicyEntry]) -> dict[Path, Action]:
    """Return the action of each path; if it has several, the greatest."""
    strongest: dict[Path, Action] = {}
    for path, action in entries:
        strongest[path] = max(action, strongest.get(path, action))
    return strongest


def _may_contain(outer: Path, inner: Path) -> bool:
    """Return whether a value that ``outer`` selects can be, or contain, one that ``inner`` selects."""
    return len(outer.steps) <= len(inner.steps) and outer.may_meet(inner)


def _loosened_message(current: Configuration, other: Configuration) -> Iterator[str]:
    if KEY_STRICTNESS.index(other.message.key) < KEY_STRICTNESS.index(current.message.key):
        yield "message.key"
    if set(other.message.headers) - set(current.message.headers):
        yield "message.headers"


def changes_needing_restart(current: Configuration, other: Configuration) -> list[str]:
    """Return the sorted keys in which two configurations differ and that need a restart, such as ``noise_key``."""
    before, after = _plain_data(current), _plain_data(other)
    for data, configuration in ((before, current), (after, other)):
        _remove_mutable(data, configuration)
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _remove_mutable(data: dict[str, Any], configuration: Configuration) -> None:
    """Remove the mutable keys, and the sections that may differ between processes."""
    for attribute in data["attributes"].values():
        for key in MUTABLE_ATTRIBUTE_KEYS:
            attribute.pop(key, None)
    data["attributes"] = list(data["attributes"].items())
    for key in _mutable_parameters(configuration):
        data["mechanism"].pop(key, None)
    for section in data.keys() - set(MASKING_SECTIONS) | set(MUTABLE_SECTIONS):
        data.pop(section)


def _plain_data(configuration: Configuration) -> dict[str, Any]:
    return configuration.model_dump(mode="json", exclude_none=True)


def _mutable_parameters(configuration: Configuration) -> frozenset[str]:
    return MUTABLE_MECHANISM_PARAMETERS.get(configuration.mechanism.name, frozenset())


def _selected(data: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in keys}


def _with_values(data: Mapping[str, Any], values: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """Return ``data`` with other values of the mutable keys; keys that are not in ``values`` get their defaults."""
    return {**{key: value for key, value in data.items() if key not in keys}, **values}


def _immutable_keys(settings: Settings, current: Settings, configuration: Configuration) -> Iterator[str]:
    """Return the keys of the settings that are immutable or unknown."""
    yield from sorted(f"{key}" for key in settings.keys() ^ current.keys())
    if settings.keys() == current.keys():
        names, known = settings["attributes"].keys(), current["attributes"].keys()
        yield from sorted(f"attributes.{name}" for name in names ^ known)
        for name in names & known:
            yield from sorted(
                f"attributes.{name}.{key}" for key in settings["attributes"][name].keys() - MUTABLE_ATTRIBUTE_KEYS
            )
        allowed = _mutable_parameters(configuration)
        yield from sorted(f"mechanism.{key}" for key in settings["mechanism"].keys() - allowed)
