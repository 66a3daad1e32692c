"""The pipeline: records in, outcomes out, without I/O.

``masker.RecordMasker`` masks the records of a partition according to a ``plan.Plan``. The steps of a record:

* ``formats``, ``fhir`` and ``hl7v2`` open it as a document of dicts and lists, and write the document back.
* ``codec`` reads the codes of documents and writes masked ones. ``fields`` (the field policy) and ``paths`` say what it
  keeps, drops and ``transforms``; ``values`` finds the concepts of codes, and ``style`` says how masked codes are
  written. ``pseudonyms`` makes pseudonyms, and masks the message's key and headers.
* The mechanism (``core.mechanisms``) masks the codes of ``runs`` of records together.
* ``records`` has the input, the outcomes and the blocks of counts; ``reasons`` lists why a record is rejected.

``calibration`` decides when statistics are computed from blocks, and which version is next. ``wire`` encodes the JSON
messages that the processes of the service exchange.
"""
