"""The random numbers of records: reproducible from a secret and a record's key, and independent of the batch.

* ``keys``: random words of records, by offset (ChaCha20) or by a key of their own (BLAKE2b).
* ``layout``: which words of a record are those of which value.
* ``draws``: uniform fractions and indices from words, for kernels.
* ``blake2b``: keyed BLAKE2b of many messages in one call.
"""
