"""The pipeline: records in, outcomes out, without I/O.

The way of a record (``records.Inputs`` to ``records.Result``), by a ``plan``:

1. ``formats``, with ``fhir`` and ``hl7v2``, opens it as a document of dicts and lists; ``structs`` opens most of JSON.
2. ``walk`` follows the ``paths`` of the plan through the documents of a batch: ``transforms`` replace fields, and the
   places of codes are noted. ``codec`` makes the codes a batch.
3. ``masker`` lets the mechanism (``core.mechanisms``) mask the batch, and counts it in blocks.
4. ``codec`` writes the masks in their ``style`` into their places, and the format writes the document.

The way of a version: workers send blocks as encrypted ``messages``. ``window`` keeps the latest blocks, and says when
statistics are due. ``versions`` computes the next version with its drift, and ``risk`` what it discloses. ``records``
also lists why a record is rejected.
"""
