"""The pipeline: records in, outcomes out, without I/O.

``masker.RecordMasker`` masks the records of partitions according to a ``plan.Plan``. The steps of a batch:

* ``formats``, ``fhir`` and ``hl7v2`` open records as documents of dicts and lists, and write the documents back.
* ``codec`` reads the codes of documents and writes masked ones. ``walk`` treats all values that a path (``paths``)
  selects, with the ``transforms``; ``style`` says how masked codes are written.
* The mechanism (``core.mechanisms``) masks the codes.
* ``records`` has the input and the outcomes, ``blocks`` their counts; ``reasons`` lists why a record is rejected.

``window`` decides which blocks statistics are computed from, and when; ``versions`` computes the next version, with its
``risk``, and the figures that people may see. ``messages`` are what processes exchange, and ``seal`` encrypts them.
"""
