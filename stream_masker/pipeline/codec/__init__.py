"""Codecs: bytes of records to codes, and masked codes back to bytes.

``base.RecordCodec`` is the contract: ``read`` decodes records into a ``DecodedBatch``, and ``render`` writes
them once the batch is masked. There are three implementations:

* ``reference``: decodes every record with a JSON decoder, one at a time. It decides about every record.
* ``scanner``: reads the bytes of a batch in one pass with compiled kernels, and leaves some records undecided.
* ``fallback.FallbackCodec``: the scanner, with the reference codec for the records that the scanner leaves undecided.
  ``self_check`` compares the two codecs before the scanner is used.

``formatted.FormattedCodec`` wraps any of them for records in another format than JSON, such as Avro.

Both codecs share ``attributes`` (texts and integers that stand for values and placeholders, and the extracted
values of a batch), ``roles`` (what each path is read for, and the trie of these paths) and ``numbers`` (also alphas).
"""
