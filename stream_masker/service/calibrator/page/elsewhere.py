"""The page of the active calibrator, which one that stands by shows instead of its own.

So it does not matter which calibrator a load balancer chooses.
"""

from __future__ import annotations

import http.client
import ssl
from base64 import b64encode
from pathlib import Path

from stream_masker.service.configuration import Configuration
from stream_masker.service.observability.http_access import HttpAccess

FORWARDED = "forwarded"
"""In the query of a page that another calibrator requests, and which is not requested from a third one."""

FETCH_SECONDS = 3.0
"""The maximum duration of one read from the other calibrator."""

MAX_PAGE_BYTES = 8_000_000


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
