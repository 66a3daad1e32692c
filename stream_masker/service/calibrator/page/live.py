"""The live page: the figures of the last versions, and the page that shows them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.service.calibrator.page.document import PageContent, document
from stream_masker.service.calibrator.page.elsewhere import FORWARDED
from stream_masker.service.calibrator.page.figures import VersionFigures
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.display import redacted_yaml
from stream_masker.service.configuration.parameters.defaults import mechanism_line
from stream_masker.service.observability.health import Health

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
        self._promise = MECHANISMS[configuration.mechanism.name].method_card.guarantee

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
