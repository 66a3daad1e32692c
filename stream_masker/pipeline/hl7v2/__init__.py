"""HL7 v2 messages: their segments as JSON, the paths into them, and the masked message written back."""
