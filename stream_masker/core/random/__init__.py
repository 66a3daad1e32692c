"""Random numbers for records: reproducible from a secret and a record's key, and independent of the batch.

* ``keys``: random words of records, derived from the offset (ChaCha20) or from a key field (BLAKE2b).
* ``layout``: the words of a value, derived from its record's words and the value itself (SipHash-2-4).
* ``draws``: uniform fractions, indices, and normal and exponential variates from words.
* ``sampling``: which records are counted, by position.
* ``distinct``: estimates of the number of distinct keys.
"""
