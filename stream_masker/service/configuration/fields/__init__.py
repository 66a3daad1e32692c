"""The treatment of fields that are not attributes: its configuration sections, and the transforms they name."""
