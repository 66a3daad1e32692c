"""The sampling sections of the messages: the stratum of a calibration block, and what a statistics version says."""

from __future__ import annotations

from typing import Any

from stream_masker.core.random.sampling import MAX_LEVEL
from stream_masker.pipeline.calibration.sampling import Sampling
from stream_masker.pipeline.records import Stratum
from stream_masker.pipeline.wire.fields import MessageReader


def stratum_section(stratum: Stratum | None) -> dict[str, Any]:
    """Return the section of a block; none if it counts all records."""
    return {} if stratum is None else {"sampling": stratum._asdict()}


def read_stratum(block: MessageReader) -> Stratum | None:
    """Decode what ``stratum_section`` returns. Raises StatisticsError with the name of an invalid field."""
    section = block.optional("sampling")
    if section is None:
        return None
    stratum = Stratum(section.integer("start"), section.integer("level", least=section.integer("start")))
    if stratum.level > MAX_LEVEL:
        section.fail("level", f"an integer of at most {MAX_LEVEL}")
    return stratum


def sampling_section(sampling: Sampling | None) -> dict[str, Any]:
    """Return the section of a statistics version; none if the workers count all records."""
    if sampling is None:
        return {}
    correlations = [{"attributes": list(pair), "sdcor": error} for pair, error in sampling.correlation_errors.items()]
    section = {"level": sampling.level, "rate": sampling.rate, "span": sampling.span}
    return {"sampling": {**section, "svar_errors": dict(sampling.variance_errors), "sdcor_errors": correlations}}


def read_sampling(version: MessageReader) -> Sampling | None:
    """Decode what ``sampling_section`` returns. Raises StatisticsError with the name of an invalid field."""
    section = version.optional("sampling")
    if section is None:
        return None
    level, rate, errors = section.integer("level"), section.number("rate"), section.child("svar_errors")
    if level > MAX_LEVEL or not 0 < rate <= 1:
        section.fail("level or rate", f"a level of at most {MAX_LEVEL} and a rate in (0, 1]")
    return Sampling(
        level=level,
        rate=rate,
        span=section.number("span"),
        variance_errors={name: errors.number(name) for name in errors.data},
        correlation_errors={_pair(one): one.number("sdcor") for one in section.children("sdcor_errors")},
    )


def _pair(one: MessageReader) -> tuple[str, str]:
    names = one.texts("attributes")
    if len(names) != 2:
        one.fail("attributes", "two names")
    return names[0], names[1]
