"""The configuration as YAML: all keys with defaults and without secrets.

The sections of the model hold no secrets, but where secrets are. ``kafka.properties`` may hold any text, so only the
values of properties that are known to be no secrets are shown.
"""

from __future__ import annotations

import re
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
