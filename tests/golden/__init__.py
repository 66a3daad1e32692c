"""Digests of what ``stream-masker mask`` writes for a small set of configurations: one release masks as the one before.

Each case is a configuration in the documented format and a file of generated events. ``digests.json`` holds the SHA-256
of the masked records and of the rejections of each case. From the top of the repository::

    PYTHONPATH=tests python -m golden update    # compute the digests again

Update the digests only together with a deliberate change of behaviour. ``CHANGELOG.md`` names the set by the first
digits of the hash of ``digests.json``, and says there why it changed since the last release.
"""
