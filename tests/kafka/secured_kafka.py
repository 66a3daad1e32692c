"""A real Apache Kafka that authenticates its clients and authorises every request.

Listeners: SASL over plaintext (SCRAM-SHA-512), TLS with certificates of
clients, and plaintext for administrators, who are anonymous super users.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from certificates import Identity
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka_broker import LOOPBACK, Cluster, free_ports, running
from polling import wait

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_TOPICS = {
    "input": "discharges",
    "output": "discharges.masked",
    "rejected": "discharges.rejected",
    "calibration": "stream-masker.calibration",
    "statistics": "stream-masker.statistics",
    "drift": "stream-masker.drift",
}
ROW = r"^\| (worker|calibrator|producer|reader) \| (\S+) \| (.+) \| (.+) \|$"
SERVICE_USERS = ("stream-masker-worker", "stream-masker-calibrator", "stream-masker-producer", "stream-masker-reader")
USERS = (*SERVICE_USERS, "ada", "eve")
"""A user for each role that the documentation gives access to, and two users without any access."""

EVERY = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
SETTINGS = """\
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL
listeners=PLAINTEXT://{host}:{port},SASL://{host}:{sasl},TLS://{host}:{tls},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port},SASL://{host}:{sasl},TLS://{host}:{tls}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
listener.name.sasl.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.tls.ssl.client.auth=required
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={folder}/broker.both
listener.name.tls.ssl.truststore.type=PEM
listener.name.tls.ssl.truststore.location={folder}/ca.pem
ssl.principal.mapping.rules=RULE:^CN=(.*?)$/$1/
"""
"""The settings that replace those of a broker without security."""


def password(user: str) -> str:
    return f"{user}-password"


@dataclass(frozen=True)
class SecuredKafka:
    """The addresses of the listeners, and the folder of certificates."""

    bootstrap: str
    sasl: str
    tls: str
    folder: Path

    def scram(self, user: str, secret: str | None = None) -> dict[str, str]:
        """The properties of a client with SCRAM-SHA-512. ``secret``: another password than the right one."""
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": secret or password(user),
        }

    def mutual_tls(self, user: str) -> dict[str, str]:
        """The properties of a client with a certificate."""
        return {
            "bootstrap.servers": self.tls,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "ssl.certificate.location": str(self.folder / f"{user}.pem"),
            "ssl.key.location": str(self.folder / f"{user}.key"),
        }

    def allow(self, lines: Iterable[str]) -> None:
        """Add the access rules of the lines of ``documented_access``."""
        self.add(binding for line in lines for binding in acl_bindings(line))

    def add(self, bindings: Iterable[AclBinding]) -> None:
        """Add access rules, and wait until the broker applies them."""
        admin, added = AdminClient({"bootstrap.servers": self.bootstrap}), set(bindings)
        for future in admin.create_acls(list(added)).values():
            future.result(20)
        wait(lambda: added <= set(admin.describe_acls(EVERY).result(20)), "the access rules")


def section(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the section of a configuration with the properties of a client."""
    others = {name: text for name, text in properties.items() if name != "bootstrap.servers"}
    return {"bootstrap_servers": properties["bootstrap.servers"], "properties": others}


def documented_access(topics: Mapping[str, str]) -> list[str]:
    """Return the documentation's table of access as lines of role, resource, name and operations.

    ``topics``: the names, by role, that take the place of the default ones.
    """
    actual = {DEFAULT_TOPICS[role]: name for role, name in topics.items()}
    default = re.compile("|".join(map(re.escape, sorted(actual, key=len, reverse=True))))
    section = (ROOT / "docs" / "kafka.md").read_text().partition("### Access\n")[2].partition("\n#")[0]
    lines = []
    for role, resource, names, operations in re.findall(ROW, section, re.MULTILINE):
        for name in re.findall("`(.+?)`", names):
            lines.append(f"{role} {resource} {default.sub(lambda found: actual[found[0]], name)} {operations}")
    return lines


def acl_bindings(line: str) -> Iterator[AclBinding]:
    """The rules of a line: the user of the role may do each operation."""
    role, kind, name, *operations = line.split()
    pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
    for operation in operations:
        yield AclBinding(
            ResourceType[kind.replace("-", "_").upper()],
            name.removesuffix("*"),
            pattern,
            f"User:stream-masker-{role}",
            "*",
            AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()],
            AclPermissionType.ALLOW,
        )


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """Run the broker until the block ends."""
    certificates = folder / "certificates"
    write_certificates(certificates)
    sasl, tls = free_ports(2)
    given = {"host": LOOPBACK, "folder": certificates, "sasl": sasl, "tls": tls}
    with running(folder, more=lambda ports: SETTINGS.format(**given, **vars(ports))) as cluster:
        add_scram_users(cluster)
        yield SecuredKafka(cluster.bootstrap, f"{LOOPBACK}:{sasl}", f"{LOOPBACK}:{tls}", certificates)


def add_scram_users(cluster: Cluster) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    changes = [UserScramCredentialUpsertion(user, info, password(user).encode()) for user in USERS]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.alter_user_scram_credentials(changes).values():
        future.result(20)


def write_certificates(folder: Path) -> None:
    """Write a certificate authority, and a key and certificate for the broker and for each user."""
    folder.mkdir(parents=True)
    authority = Identity("authority")
    (folder / "ca.pem").write_text(authority.certificate)
    for user in ("broker", *USERS):
        own = Identity(user, authority)
        (folder / f"{user}.key").write_text(own.key())
        (folder / f"{user}.pem").write_text(own.certificate)
        (folder / f"{user}.both").write_text(own.key() + own.certificate)
