"""A proposal of a configuration for a sample of events: what each field is, and how it is treated."""

from stream_masker.service.files.proposal.propose import proposed_configuration

__all__ = ["proposed_configuration"]
