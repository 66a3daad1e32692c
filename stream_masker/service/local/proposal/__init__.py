"""A proposal of a configuration for a sample of events: what each field is, how it is treated, and the rehearsal."""

from stream_masker.service.local.proposal.propose import proposed_configuration

__all__ = ["proposed_configuration"]
