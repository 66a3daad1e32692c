"""The records of a file as a configuration describes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration
from stream_masker.service.files.lines import NumberedLine
from stream_masker.service.local.tables import TableSource, open_lines


@contextmanager
def open_records(
    configuration: Configuration, name: str
) -> Iterator[tuple[Iterator[NumberedLine], TableSource | None]]:
    """Open a file of events like ``open_lines``. Raises ServiceError if ``records`` names another kind."""
    with open_lines(name, configuration.event_files) as (lines, table):
        is_hl7 = table is not None and table.kind == "hl7"
        if is_hl7 and configuration.records != "hl7v2":
            raise ServiceError(f"{name} has HL7 v2 messages: use records: hl7v2, with paths such as DG1[*].3.1")
        if configuration.records == "hl7v2" and not is_hl7:
            raise ServiceError(f"{name} has no HL7 v2 messages, which start with MSH, but records is hl7v2")
        yield lines, table
