"""Display of the configuration without secrets."""

from __future__ import annotations

from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.display import (
    REDACTED,
    redacted_configuration,
    redacted_yaml,
)

SECRET = "hunter2hunter2hunter2"


def test_displayed_configuration_is_equivalent(example, write):
    configuration = load_configuration(example, {})
    again = load_configuration(write(redacted_yaml(configuration)), {})
    assert again.model_dump() == configuration.model_dump()
    assert again.hash == configuration.hash


HIDDEN = (
    "sasl.password",
    "sasl.jaas.config",
    "ssl.key.pem",
    "sasl.oauthbearer.config",
    "a.property.of.a.later.release",
)
SHOWN = ("security.protocol", "sasl.mechanism", "sasl.username", "ssl.ca.location", "linger.ms", "group.id")


def test_only_properties_that_are_known_to_be_no_secrets_are_shown(parse):
    configuration = parse(kafka={"properties": dict.fromkeys((*HIDDEN, *SHOWN), SECRET)})
    shown = redacted_configuration(configuration)["kafka"]["properties"]
    assert shown == dict.fromkeys(HIDDEN, REDACTED) | dict.fromkeys(SHOWN, SECRET)
