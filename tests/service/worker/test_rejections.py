"""The share of rejected records that a worker reports."""

from __future__ import annotations

from stream_masker.service.worker.report import LATEST_RECORDS, LEAST_RECORDS, RejectionShare

WRONG_PATH = ("missing_noise_key", "patient.idd")


def share_of(masked: int, rejected: int) -> RejectionShare:
    share = RejectionShare(0.1)
    share.add(masked + rejected, {WRONG_PATH: rejected})
    return share


def test_the_reason_names_cause_path_and_limit() -> None:
    share = share_of(masked=50, rejected=200)
    assert share.share == 0.8
    assert share.reason == (
        "80% of the latest records were rejected: missing_noise_key at patient.idd 200. Check these paths in the "
        "configuration, or raise limits.rejected_share (0.1)"
    )


def test_a_share_at_the_limit_is_no_reason() -> None:
    share = share_of(masked=900, rejected=100)
    assert share.reason is None
    assert share.share == 0.1


def test_few_records_are_no_reason() -> None:
    share = share_of(masked=0, rejected=LEAST_RECORDS - 1)
    assert (share.reason, share.share) == (None, 0.0)


def test_old_records_are_forgotten() -> None:
    share = share_of(masked=0, rejected=1_000)
    assert share.reason is not None
    for _ in range(25):
        share.add(LATEST_RECORDS // 10, {})
    assert share.reason is None
