"""The reference codec: it decodes each record to JSON objects, one record at a time, and decides about every record."""
