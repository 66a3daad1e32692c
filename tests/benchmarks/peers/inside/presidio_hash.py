"""presidio-anonymizer: the hash of each diagnosis, with one salt for all records."""

from __future__ import annotations

from exchange import read_columns, write_columns
from presidio_anonymizer.operators import Hash

columns = read_columns()
settings = {"hash_type": "sha256", "salt": b"a salt of sixteen bytes or more"}
hashed = {value: Hash().operate(value, settings) for name in ("principal", "secondary") for value in set(columns[name])}
masked = [[hashed[value] for value in columns[name]] for name in ("principal", "secondary")]
write_columns([*masked, columns["readmitted"], columns["stay"]])
