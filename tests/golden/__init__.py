"""Digests of what stream-masker writes for a small set of configurations: one release masks as the one before.

Each case is a configuration in the documented format and a stream of generated or real events. ``digests.json`` holds
SHA-256 digests for each case:

* ``masked``: the masked records: values, keys, headers, timestamps.
* ``rejected``: the rejections as encoded.
* ``blocks``: the calibration blocks as encoded, and the counts of the first sample.
* ``statistics``: the statistics versions and drift reports as encoded.

Masked records, rejections and all integers are exact. Floats of blocks and statistics are rounded to 9 significant
digits, and those below 1e-12 to 0, because the last bits of a sum depend on the processor. A fifth digest, ``events``,
covers the input. It distinguishes a change of the events from a change of the code.

All access to the package goes through ``golden.adapter``. Code that moves or renames modules changes that module and
nothing else in this folder.

From the top of the repository::

    PYTHONPATH=tests python -m golden write FOLDER [CASE ...]    # write the outputs of cases to a folder, to compare
    PYTHONPATH=tests python -m golden update [CASE ...]          # compute the digests again

Update the digests only together with a deliberate change of behaviour. ``CHANGELOG.md`` names the set by the first
digits of the hash of ``digests.json``, and says there why it changed since the last release.
"""
