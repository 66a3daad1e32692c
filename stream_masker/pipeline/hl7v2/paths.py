"""Paths into HL7 v2 messages: ``DG1[*].3.1`` is segment, field, component, and if needed subcomponent.

A path without ``[*]`` or ``[0]`` selects all segments of the name and all repetitions of the field, so ``DG1.3.1`` and
``DG1[*].3[*].1`` are the same. A component without subcomponents is its first subcomponent, and a field without
components its first component.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, NameStep, Path, Step

HEADER: Final = "MSH"
PLACE: Final = "#"
"""The member of a segment that holds its place in the message."""

CONTROL_ID: Final = "MSH.10"
HEADER_FIELDS: Final = ("9", "11", "12", "18")
"""The fields of the header that are always kept: message type, processing id, version and character set."""

_SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,3}")
_EXAMPLE: Final = "with records: hl7v2, a path is a segment, a field and a component, such as PID.3.1 or DG1[*].3.1"


def is_segment(name: str) -> bool:
    """Return whether a text is the name of a segment."""
    return _SEGMENT.fullmatch(name) is not None


def hl7_path(path: Path, *, first: bool = False, whole: bool = False) -> Path:
    """Return the path into the JSON of a message. Raises ConfigurationError for a path of another form.

    ``first``: select the first segment and repetition. ``whole``: a path that ends at a field or a component selects
    all of it; otherwise it is continued to the first subcomponent.
    """
    each: Step = IndexStep(0) if first else EachStep()
    rest = list(path.steps)
    segment = _name(path, rest)
    if not is_segment(segment.key):
        raise _problem(path)
    steps: list[Step] = [segment, _selector(rest, each)]
    if not rest and whole:
        return Path(path.text, tuple(steps))
    steps += [_number(path, rest), _selector(rest, each)]
    numbers = [_number(path, rest) for _ in list(rest)]
    if len(numbers) > 2:
        raise _problem(path)
    if not whole:
        numbers += [NameStep("1")] * (2 - len(numbers))
    elif not numbers:
        del steps[-1:]
    return Path(path.text, (*steps, *numbers))


def _name(path: Path, rest: list[Step]) -> NameStep:
    step = rest.pop(0) if rest else None
    if not isinstance(step, NameStep):
        raise _problem(path)
    return step


def _number(path: Path, rest: list[Step]) -> NameStep:
    step = _name(path, rest)
    if not _NUMBER.fullmatch(step.key):
        raise _problem(path)
    return step


def _selector(rest: list[Step], default: Step) -> Step:
    """Take the step that selects segments or repetitions, if there is one. A filter compares a component."""
    if not rest or isinstance(rest[0], NameStep):
        return default
    step = rest.pop(0)
    if isinstance(step, FilterStep):
        return FilterStep((*step.field, "1"), step.value, step.quoted, step.every)
    return step


def _problem(path: Path) -> ConfigurationError:
    return ConfigurationError(f"path {path.text!r}: {_EXAMPLE}")


def kept_paths(segments: Sequence[str]) -> Iterator[Path]:
    """Yield the paths that are kept so that a message with these segments is valid: their order, and the header."""
    for name in dict.fromkeys((HEADER, *segments)):
        yield Path(f"{name}.{PLACE}", (NameStep(name), EachStep(), NameStep(PLACE)))
    for field in HEADER_FIELDS:
        yield Path(f"{HEADER}.{field}", (NameStep(HEADER), EachStep(), NameStep(field)))
