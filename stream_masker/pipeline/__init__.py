"""The pipeline: records in, outcomes out, without I/O.

``masker.RecordMasker`` masks the records of a partition according to a ``plan.Plan``. The steps of a record:

* ``codec`` decodes it to codes, and later renders the masked record. ``fields`` (the field policy), ``paths`` say
  which values it reads, keeps, drops and pseudonymizes, ``style`` how masked codes are written. ``pseudonyms`` makes
  pseudonyms, and masks the message's key and headers.
* The mechanism (``core.mechanisms``) masks the codes. ``runs`` are masked together, with their noise keys.
* ``records`` has the input, the outcomes and the blocks of counts;
  ``reasons`` lists why a record is rejected.

``calibration`` decides when statistics are computed from blocks, and which version is next. ``wire`` encodes the JSON
messages that the processes of the service exchange.
"""
