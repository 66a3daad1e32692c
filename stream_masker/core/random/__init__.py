"""Random numbers for records: reproducible from a secret and a record's key, and independent of the batch.

* ``keys``: random words of records, derived from the offset (ChaCha20) or from a key field (BLAKE2b), and
  keyed hashes of noise keys.
* ``layout``: the words of a value, derived from its record's words and the value itself (SipHash-2-4).
* ``draws``: uniform fractions, indices, and normal and exponential variates from words; which records are counted.
"""
