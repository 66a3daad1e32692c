"""Masking of files without a broker, calibrated on the first window or with a snapshot."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.statistics.counts import Counts, merge
from stream_masker.core.statistics.drift import Drift, drift_between
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.codec import RecordPart
from stream_masker.pipeline.fhir import bundle_of
from stream_masker.pipeline.formats import record_form
from stream_masker.pipeline.messages import StatisticsMessage, decode_statistics, encode_rejection
from stream_masker.pipeline.paths import JsonValue, selected
from stream_masker.pipeline.plan import AttributePlan
from stream_masker.pipeline.records import Inputs, Reason, RecordRejectedError, Rejected, Result, Tally
from stream_masker.pipeline.risk import assess_version, guess_chances
from stream_masker.pipeline.versions import put_in_force
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_risk_limits, mechanism_line
from stream_masker.service.files import FileEvent
from stream_masker.service.files.streams import WriteLine
from stream_masker.service.formats import file_format
from stream_masker.service.masking import Masking
from stream_masker.summary import guessed_line, three_sentences, unchanged_warning

FILE_BATCH_RECORDS: Final = 5_000

MAX_SUPPRESSED: Final = 0.01
"""The share of an attribute's codes above which a warning says that they are removed."""


@dataclass(slots=True)
class FileTotals:
    """The outcomes of a run: the number of masked records, and of rejected ones by reason and configured path.

    ``codes``: the masked codes, by attribute. ``tally``: the unknown codes that were removed or masked as coarser ones,
    and the values that a treatment of ``fields`` does not fit and removed.
    """

    masked: int = 0
    rejected: Counter[Rejected] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    tally: Tally = field(default_factory=Counter)

    @property
    def records(self) -> int:
        """The number of all records of the run."""
        return self.masked + self.rejected.total()

    def counted(self, what: str) -> Counter[str]:
        """Return the numbers of ``tally`` that are of one kind, by attribute or path; none is 0."""
        return +Counter({where: number for (one, where), number in self.tally.items() if one == what})

    def note(self, read: Result | RecordPart) -> None:
        """Add the rejections and the tally of a batch."""
        self.rejected.update(read.rejected.values())
        self.tally.update(read.tally)

    def add(self, result: Result, attributes: Sequence[str]) -> None:
        """Add the outcomes of a batch; ``attributes``: the names of the nominal attributes."""
        self.note(result)
        self.masked += len(result.offsets) - len(result.rejected)
        for block in result.blocks:
            for name, distortion in zip(attributes, block.distortions, strict=True):
                self.codes[name] += distortion.values

    def __str__(self) -> str:
        text = f"read {self.records:,}: masked {self.masked:,}, rejected {self.rejected.total():,}"
        text += f" ({causes_text(self.rejected)})" if self.rejected else ""
        for what, unit in {"suppressed": "codes", "generalized": "codes", "emptied": "values"}.items():
            found = self.counted(what)
            named = ", ".join(f"{count:,} of {name}" for name, count in found.most_common())
            text += f", {what} {found.total():,} {unit} ({named})" if found else ""
        return text

    @property
    def warnings(self) -> list[str]:
        """A sentence for each attribute of which more than ``MAX_SUPPRESSED`` of the codes are removed."""
        return [
            f"{count:,} of {codes:,} codes of {name} ({count / codes:.1%}) are removed, because they are unknown and "
            f"attributes.{name}.unknown is suppress: check the ontology, or give a mapping"
            for name, count in self.counted("suppressed").most_common()
            if count > MAX_SUPPRESSED * (codes := self.codes[name] + count)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-serialisable data."""
        return {
            "masked": self.masked,
            "rejected": self.rejected.total(),
            **{name: dict(self.counted(name)) for name in ("emptied", "suppressed", "generalized")},
            "causes": [{"reason": str(r), "field": f, "records": n} for (r, f), n in self.rejected.most_common()],
        }

    def check_share(self, limit: float) -> None:
        """Raise ServiceError if more than this share of the records was rejected, with the most frequent causes."""
        if self.rejected.total() > limit * self.records:
            raise ServiceError(
                f"{self.rejected.total():,} of {self.records:,} records were rejected: "
                f"{causes_text(self.rejected, most=3)}. Check these paths in the configuration, or raise "
                f"limits.rejected_share ({limit:g})"
            )


def causes_text(causes: Counter[Rejected], most: int | None = None) -> str:
    """``missing at a.b 12, not_json 1``: numbers of rejected records by reason and configured path, the most frequent
    first, and what helps; ``most``: how many causes to name, None for all."""
    help_of: dict[str, str] = {Reason.NOT_A_CODE: " (a code is a text: quote numbers, or read the column as text)"}
    return ", ".join(
        f"{reason}{f' at {path}' if path else ''} {count:,}{help_of.get(reason, '')}"
        for (reason, path), count in causes.most_common(most)
    )


class Assessment(NamedTuple):
    """What is said of masked records.

    ``sentences``: what an attacker learns, what stays and what is kept; the mechanism; and how often a code is guessed
    right, if that is known. ``warnings``: crossed limits, and records left as they were. ``chances``: of the best guess
    of a code, by mechanism (``guess_chances``).
    """

    sentences: Sequence[str]
    warnings: Sequence[str]
    chances: Mapping[str, float]


class FileMasking:
    """Masks files, calibrated on their own records or with a snapshot.

    ``plan``: that of the masking; ``version``: of the statistics in force, 0 before there are any.
    """

    def __init__(self, configuration: Configuration, *, is_trial: bool = False) -> None:
        """Load the ontologies; ``is_trial``: see ``Masking``. Raises ConfigurationError if a file is missing."""
        self._configuration = configuration
        self._masking = Masking(configuration, format_of=file_format, is_trial=is_trial)
        self._mechanism, self.plan = self._masking.mechanism, self._masking.plan
        self._window: tuple[Statistics, Counts] | None = None
        self._guessed: Mapping[str, float] = {}
        self.version = 0

    def documents(self, events: Iterable[FileEvent]) -> Iterator[dict[str, Any]]:
        """Yield what the configured paths apply to in events that are objects: for FHIR, their form as a Bundle."""
        form, fhir = record_form(file_format(self._configuration)), self.plan.fhir
        for event in events:
            if event.problem is None:
                with suppress(RecordRejectedError):
                    document, _ = form(event.value)
                    yield document if fhir is None else bundle_of(document, fhir)

    def count(self, events: Collection[FileEvent]) -> tuple[Counts, FileTotals]:
        """Return the counts of events, and what would become of them."""
        masker, parts, totals = self._masking.masker, list[Counts](), FileTotals()
        for part in masker.read(event.value for event in events if event.problem is None):
            parts.append(masker.count([part]))
            totals.note(part)
        counts = merge(parts)
        totals.masked = counts.records
        totals.rejected.update(event.problem for event in events if event.problem is not None)
        for j, (attribute, values) in enumerate(zip(self.plan.attributes, counts.values, strict=True)):
            totals.codes[attribute.name] = counts.events.get((j,), values).rows
        return counts, totals

    def calibrated(self, events: Iterable[FileEvent], snapshot: bytes | None = None) -> Iterator[FileEvent]:
        """Use a snapshot, or else the statistics of the first window, which is buffered; return all events.

        Raises StatisticsError if the snapshot is invalid or of another mechanism or taxonomy, or if fewer than
        ``calibration.min_records`` records of the window are usable.
        """
        rest, size = iter(events), self._configuration.calibration.window_records if snapshot is None else 0
        buffered = list(islice(rest, size))
        message = self.snapshot(buffered) if snapshot is None else self._decoded(snapshot)
        put_in_force(message, self._mechanism)
        self.version, self._guessed = message.version, message.guessed or {}
        return chain(buffered, rest)

    def drift_since(self, snapshot: bytes) -> Drift:
        """Return the drift from an earlier snapshot to the statistics that were computed last.

        Raises StatisticsError as ``calibrated`` does.
        """
        assert self._window is not None, "statistics are computed before"
        now, counts = self._window
        return drift_between(self._decoded(snapshot).statistics, now, self._mechanism.distances, counts)

    def _decoded(self, snapshot: bytes) -> StatisticsMessage:
        message = decode_statistics(snapshot)
        if not message.fits(self._mechanism):
            raise StatisticsError("the snapshot is of another mechanism, or of other attributes or ontologies")
        return message

    def compute(self, counts: Counts, totals: FileTotals) -> Statistics:
        """Compute the statistics of counts, as version 1; ``totals``: what would become of the events.

        Raises StatisticsError if fewer than ``calibration.min_records`` records are usable.
        """
        least = self._configuration.calibration.min_records
        if totals.masked < least:
            raise StatisticsError(
                f"{totals.masked:,} records are usable for statistics ({totals}), but calibration.min_records is "
                f"{least:,}: add records, lower it, or use a snapshot"
            )
        statistics = self._mechanism.compute(counts, version=1)
        self._window = statistics, counts
        return statistics

    def snapshot(self, events: Iterable[FileEvent]) -> StatisticsMessage:
        """Compute the statistics of the last ``calibration.window_records`` events. Raises like ``compute``."""
        counts, totals = self.count(deque(events, self._configuration.calibration.window_records))
        statistics = self.compute(counts, totals)
        return StatisticsMessage(
            version=1,
            configuration=self._configuration.hash,
            published=int(time.time() * 1000),
            source="file",
            blocks=None,
            baseline=1,
            snapshot=self._mechanism.snapshot_of(statistics),
        )

    def assessment(self, totals: FileTotals | None = None, *, compare: bool = True) -> Assessment:
        """Return what is said of masking with the statistics in force; ``totals``: those of the records.

        ``compare``: whether to try another mechanism too, which takes seconds (``guess_chances``).
        """
        mechanism, risk, chances, warnings = self._mechanism, None, self._guessed, list[str]()
        if self._window is not None:
            version = assess_version(mechanism, *self._window, build_risk_limits(self._configuration))
            risk = version.risk
            chances = guess_chances(mechanism, self._window[1], risk) if compare else {}
            unchanged = unchanged_warning(risk.unchanged_records or 0.0, mechanism.name)
            warnings = [*version.crossed, *filter(None, [unchanged])]
        warnings += [] if totals is None else totals.warnings
        sentences = three_sentences(risk, promise=mechanism.promise, preserves=mechanism.preserves)
        return Assessment([*sentences, mechanism_line(self._configuration), guessed_line(chances)], warnings, chances)

    def explain(self, events: Iterable[FileEvent], number: int, *, source: str) -> Iterator[str]:
        """Yield the lines that explain how one event is masked, with the statistics of the first window.

        They are for the owner of the data: unlike logs and rejections, they show values. source: the name of the file,
        or ``-``. Raises ServiceError if there is no event of this number, and like ``calibrated``.
        """
        event = next((event for event in self.calibrated(events) if event.number == number), None)
        if event is None:
            raise ServiceError(f"{Path(source).name} has no event {number}")
        if self._mechanism.needs_group:
            raise ServiceError(f"{self._mechanism.name} masks groups of records, which cannot be explained one by one")
        yield f"{Path(source).name}, event {number}: {self._mechanism.name}, statistics version {self.version}"
        result = self._mask([event], self._topic(source))
        for rejected in result.rejected.values():
            yield f"  rejected: {rejected.reason}" + (f" at {rejected.field}" if rejected.field else "")
        if not result.rejected:
            masked = FileEvent(number, result.values[0] or b"")
            before, after = self.documents([event, masked])
            for attribute, distance in zip(self.plan.attributes, self._mechanism.distances, strict=True):
                yield from _explained(attribute, distance, before, after)
            yield f"  written: {masked.value.decode(errors='replace')}"

    def _topic(self, source: str) -> str:
        """Return the name that stands for a topic in the noise of a file's records."""
        return file_identity(source) if self.plan.noise_key is None else Path(source).name

    def mask(
        self,
        events: Iterable[FileEvent],
        *,
        source: str,
        write: WriteLine,
        reject: WriteLine,
        report: Callable[[FileTotals], object] = lambda _: None,
    ) -> FileTotals:
        """Mask every event in order, groups in as many records as a group has at most.

        source: the name of the file, or ``-``; it and the number of an event stand for topic and offset, in partition
        0. report: is called with the totals after each batch. Raises ServiceError for a file that cannot be read.
        """
        totals, name, topic = FileTotals(), Path(source).name, self._topic(source)
        size = self._configuration.groups.records if self._mechanism.needs_group else FILE_BATCH_RECORDS
        rest = iter(events)
        while batch := list(islice(rest, size)):
            result = self._mask(batch, topic)
            for number, value in zip(result.offsets, result.values, strict=True):
                if (rejected := result.rejected.get(number)) is not None:
                    reject(encode_rejection(rejected, topic=name, partition=0, offset=number) + b"\n")
                elif value is not None:
                    write(value + b"\n")
            totals.add(result, self._mechanism.attributes)
            report(totals)
        return totals

    def _mask(self, batch: Sequence[FileEvent], topic: str) -> Result:
        numbers, values, problems = zip(*batch, strict=True)
        inputs = Inputs(offsets=numbers, values=values, keys=[None] * len(batch), timestamps=[-1] * len(batch))
        result = self._masking.masker.mask(topic, 0, inputs, statistics_version=self.version)
        known = {n: problem for n, problem in zip(numbers, problems, strict=True) if problem is not None}
        return replace(result, rejected={**result.rejected, **known})


def _explained(attribute: AttributePlan, distance: Distance, before: JsonValue, after: JsonValue) -> Iterator[str]:
    """Yield the lines about the codes of an attribute in an event and in its mask."""
    concepts, tau = attribute.concepts, attribute.concepts.taxonomy

    def texts(document: JsonValue) -> Sequence[JsonValue]:
        values = [value for place in attribute.places for value in selected(document, place.path.steps)]
        return values if attribute.is_array else [next((value for value in values if value is not None), None)]

    def named(position: int) -> str:
        return f"{tau.ids[position]} ({tau.labels[position]})" if tau.labels[position] else tau.ids[position]

    for k, (text, mask) in enumerate(zip(texts(before), texts(after), strict=True)):
        yield f"{attribute.name} ({attribute.path.text})" + (f", element {k}" if attribute.is_array else "")
        yield f"  value        {text}"
        if not (isinstance(text, str) and isinstance(mask, str)):
            yield "  concept      none: the value is missing or suppressed"
            continue
        found, new = concepts.find(text), concepts.find(mask)
        moved = distance.pairs(*np.array([[found.position], [new.position]], np.int32))[0]
        yield f"  concept      {named(found.position)}, {found.how}"
        yield f"  replacement  {named(new.position)}, distance {moved:.4f}"


def file_identity(name: str) -> str:
    """Return what noise by position depends on: the name of a file with a digest of its content.

    Files of the same name with other content have other noise, and a pipe has other noise in each run. Raises OSError
    for a file that cannot be read.
    """
    if not Path(name).is_file():
        return f"{Path(name).name} {secrets.token_hex(16)}"
    with Path(name).open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return f"{Path(name).name} {digest.hexdigest()}"
