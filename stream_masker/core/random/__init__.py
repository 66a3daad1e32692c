"""The random numbers of records: reproducible from a secret and a record's key, and independent of the batch.

* ``keys``: random words of records, by offset (ChaCha20) or by a key of their own (BLAKE2b).
* ``layout``: the words of a value, from its record's words and the value itself.
* ``siphash``: the hash that derives them (SipHash-2-4).
* ``draws``: uniform fractions and indices from words, for kernels.
* ``sampling``: which records are counted, by position.
* ``distinct``: how many different keys records have.
* ``blake2b``: keyed BLAKE2b of many messages in one call.
"""
