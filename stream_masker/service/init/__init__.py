"""``config init``: a proposal of a configuration for a sample of events.

``sample`` reads the events, ``fields`` decides what each field is, and ``proposal`` writes the configuration and tries
it on the sample.
"""

from stream_masker.service.init.proposal import proposed_configuration
from stream_masker.service.init.sample import file_sample

__all__ = ["file_sample", "proposed_configuration"]
