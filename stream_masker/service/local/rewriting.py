"""Configurations with another mechanism, as data and as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import yaml


def with_mechanism(data: Mapping[str, Any], name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration, as plain data, with a mechanism and the parameters of its constructor.

    ``alpha`` becomes the noise level of every attribute; of records that bring their own, it becomes the default.
    Without ``alpha``, the attributes lose theirs, which the mechanism would refuse, unless records bring it.
    """
    given = data.get("attributes", {})
    attributes = {key: _with_alpha(attribute, options.get("alpha")) for key, attribute in given.items()}
    mechanism = {"name": name, **{key: _plain(value) for key, value in options.items() if key != "alpha"}}
    return {**deepcopy(dict(data)), **({"attributes": attributes} if given else {}), "mechanism": mechanism}


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
