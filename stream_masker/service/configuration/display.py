"""Configurations as YAML: for display, all keys with defaults and without secrets; with another mechanism.

The sections of the model hold no secrets, but where secrets are. ``kafka.properties`` may hold any text, so only the
values of properties that are known to be no secrets are shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import yaml

from stream_masker.service.configuration.model import Configuration

REDACTED = "********"
SHOWN_PROPERTIES = re.compile(
    r"""
    [a-z.]+\.(ms|bytes|kbytes|messages|records|retries)
    | (ssl|https)\.(ca|certificate|key|keystore|truststore|crl)\.location
    | acks | request\.required\.acks | (message\.send\.max\.)?retries | batch\.size | batch\.num\.messages
    | (topic\.)?compression\.(type|codec|level)
    | (bootstrap\.servers|metadata\.broker\.list|broker\.address\.family|broker\.version\.fallback)
    | client\.(id|rack|dns\.lookup) | group\.(id|instance\.id|protocol|remote\.assignor)
    | auto\.offset\.reset | isolation\.level | partition\.assignment\.strategy | partitioner | debug | log_level
    | (enable|allow|check|api)\.[a-z.]+ | max\.in\.flight(\.requests\.per\.connection)?
    | security\.protocol | sasl\.(mechanisms?|username|kerberos\.(service\.name|principal|keytab))
    | sasl\.oauthbearer\.(method|client\.id|scope|grant\.type)
    | ssl\.(cipher\.suites|endpoint\.identification\.algorithm|curves\.list|sigalgs\.list)
    | socket\.[a-z.]+ | transactional\.id
    """,
    re.VERBOSE,
)
"""Kafka properties whose values are shown. All others are hidden, also those of later releases of librdkafka."""


def redacted_configuration(configuration: Configuration) -> dict[str, Any]:
    """Return all keys including defaults as plain data; Kafka properties that may be secrets are ``********``."""
    data = configuration.model_dump(mode="json", exclude_none=True)
    properties = data["kafka"]["properties"]
    data["kafka"]["properties"] = {k: v if SHOWN_PROPERTIES.fullmatch(k) else REDACTED for k, v in properties.items()}
    return data


def redacted_yaml(configuration: Configuration) -> str:
    """Return ``redacted_configuration`` as YAML; it loads as an equivalent configuration except for hidden values."""
    return yaml.safe_dump(redacted_configuration(configuration), sort_keys=False, allow_unicode=True)


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
    given = copy.pop("alpha", None)
    if isinstance(given, Mapping):
        return {**copy, "alpha": given if alpha is None else {**given, "default": alpha}}
    return copy if alpha is None else {**copy, "alpha": alpha}


def configuration_yaml(data: Mapping[str, Any], comment: str) -> str:
    """Return a configuration as YAML, with a comment above it."""
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return head + yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value
