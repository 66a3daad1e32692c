"""The share of rejected records that a worker reports."""

from __future__ import annotations

from collections import Counter

from stream_masker.service.worker.outcomes import TransactionCounts
from stream_masker.service.worker.report import LATEST_RECORDS, LEAST_RECORDS, RejectionShare

WRONG_PATH = ("missing_noise_key", "patient.idd")


def written(masked: int, rejected: int) -> TransactionCounts:
    return TransactionCounts(masked=masked, causes=Counter({WRONG_PATH: rejected} if rejected else {}))


def test_the_reason_names_cause_path_and_limit() -> None:
    share = RejectionShare(0.1)
    share.add(written(masked=50, rejected=200))
    assert share.share == 0.8
    assert share.reason == (
        "200 of the last 250 records were rejected: missing_noise_key at patient.idd 200. Check these paths in the "
        "configuration, or raise limits.rejected_share (0.1)"
    )


def test_a_share_at_the_limit_is_no_reason() -> None:
    share = RejectionShare(0.1)
    share.add(written(masked=900, rejected=100))
    assert share.reason is None
    assert share.share == 0.1


def test_few_records_are_no_reason() -> None:
    share = RejectionShare(0.1)
    share.add(written(masked=0, rejected=LEAST_RECORDS - 1))
    assert (share.reason, share.share) == (None, 0.0)


def test_old_records_are_forgotten() -> None:
    share = RejectionShare(0.1)
    share.add(written(masked=0, rejected=1_000))
    assert share.above_limit
    for _ in range(11):
        share.add(written(masked=LATEST_RECORDS // 10, rejected=0))
    assert share.reason is None
    assert share.share == 0.0
