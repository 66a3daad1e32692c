"""The live page: the figures of the last versions, and the page that shows them."""

from __future__ import annotations

import http.client
import re
import ssl
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from pathlib import Path

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.service.calibrator.page.document import PageContent, document
from stream_masker.service.calibrator.page.figures import VersionFigures
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.display import redacted_yaml
from stream_masker.service.configuration.parameters.defaults import mechanism_line
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.http_access import HttpAccess

FORWARDED = "forwarded"
"""In the query of a page that another calibrator requests, and which is not requested from a third one."""

FETCH_SECONDS = 3.0
"""The maximum duration of one read from the other calibrator."""

MAX_PAGE_BYTES = 8_000_000


def _promise(configuration: Configuration) -> str:
    """Return what the mechanism guarantees, with the values of its parameters; a limit that is not set is 1."""
    if configuration.mechanism.name == "semantic_transport" and configuration.may_lack_codes:
        return "nothing about single records, because codes may be missing"
    section = configuration.mechanism.model_dump()
    values = {**section, **(section.get("target") or {})}
    guarantee = MECHANISMS[configuration.mechanism.name].method_card.guarantee
    return re.sub(r"`(\w+)`", lambda match: f"{values.get(match[1]) or 1:g}", guarantee)


def fetched_page(configuration: Configuration, access: HttpAccess, address: str, query: str) -> str | None:
    """Return the page of the calibrator at an IP address, for the query of a URL; None if it cannot be read.

    The other calibrator has the port, the certificate and the token of the same configuration. The token is sent to no
    server that has another certificate.
    """
    token = b64encode(b":" + (access.token or b"")).decode()
    try:
        connection = _connected(configuration, address)
        try:
            connection.request("GET", f"/?{query}&{FORWARDED}", headers={"Authorization": f"Basic {token}"})
            answer = connection.getresponse()
            return answer.read(MAX_PAGE_BYTES).decode() if answer.status == http.HTTPStatus.OK else None
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError):
        return None


def _connected(configuration: Configuration, address: str) -> http.client.HTTPConnection:
    """Connect. Raises OSError if nobody listens, or if the other one does not have the certificate of ``http.tls``."""
    section = configuration.http
    if section.tls is None:
        return http.client.HTTPConnection(address, section.port, timeout=FETCH_SECONDS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the certificate itself is compared below
    connection = http.client.HTTPSConnection(address, section.port, timeout=FETCH_SECONDS, context=context)
    connection.connect()
    text = Path(configuration.resolve(section.tls.certificate)).read_text(encoding="ascii", errors="replace")
    first, end, _ = text[text.find(ssl.PEM_HEADER) :].partition(ssl.PEM_FOOTER)
    if connection.sock.getpeercert(binary_form=True) != ssl.PEM_cert_to_DER_cert(first + end):
        connection.close()
        raise OSError("the other calibrator has another certificate")
    return connection


KEPT_VERSIONS = 100

RATE_SECONDS = 60.0
"""Seconds over which the rate of records is the mean."""

REFRESH = {"refresh=30": 30}
"""Seconds between two loads of the page by itself, by a part of the query."""


class LivePage:
    """The page of a calibrator, at ``/``. It has the versions since the calibrator became active.

    The calibrator writes it, in one thread, and the HTTP server reads it. ``health``: the process whose state the page
    shows. ``find_active``: returns the address of the active calibrator, None if it is this one or not known.
    ``fetch``: returns the page of that address for a query, None if it cannot be read.
    """

    def __init__(
        self,
        configuration: Configuration,
        health: Health | None = None,
        *,
        find_active: Callable[[], str | None] = lambda: None,
        fetch: Callable[[str, str], str | None] = lambda address, query: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._health = health or Health()
        self._versions: deque[VersionFigures] = deque(maxlen=KEPT_VERSIONS)
        self._find_active = find_active
        self._fetch = fetch
        self._clock = clock
        self._read: deque[tuple[float, int]] = deque()
        self.configure(configuration)

    def configure(self, configuration: Configuration) -> None:
        """Show another configuration, without its secrets."""
        self._least = configuration.publication.min_records
        self._configuration = redacted_yaml(configuration)
        self._mechanism = f"M{mechanism_line(configuration).removeprefix('m')}"
        self._promise = _promise(configuration)

    def count(self, records: int) -> None:
        """Count the records of a block that was just read."""
        now = self._clock()
        self._read.append((now, records))
        while self._read[0][0] < now - RATE_SECONDS:
            self._read.popleft()

    @property
    def rate(self) -> float:
        """Records per second in the blocks of the last minute."""
        since = self._clock() - RATE_SECONDS
        return sum(records for moment, records in tuple(self._read) if moment >= since) / RATE_SECONDS

    def show(self, figures: VersionFigures) -> None:
        """Add a version. It replaces the last one if it is the same version, read again after a new assignment."""
        if self._versions and self._versions[-1].version >= figures.version:
            return
        self._versions.append(figures)

    def replace_last(self, figures: VersionFigures) -> None:
        """Replace the last version if it is the same one, whose risk is known now."""
        if self._versions and self._versions[-1].version == figures.version:
            self._versions[-1] = figures

    def clear(self) -> None:
        """Show no version."""
        self._versions.clear()
        self._read.clear()

    def html(self, query: str) -> str:
        """Return the page as HTML, that of the active calibrator if this one stands by; ``query``: that of its URL."""
        parts, active = query.split("&"), self._find_active()
        if active is not None and FORWARDED not in parts and (page := self._fetch(active, query)) is not None:
            return page
        content = PageContent(
            versions=tuple(self._versions),
            configuration=self._configuration,
            min_records=self._least,
            reasons=self._health.reasons,
            notes=self._health.notes,
            mechanism=self._mechanism,
            promise=self._promise,
            rate=self.rate,
            active=active,
        )
        return document(content, refresh=next((REFRESH[part] for part in parts if part in REFRESH), None))
