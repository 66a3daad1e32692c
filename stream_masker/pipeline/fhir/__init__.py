"""FHIR R4 messages: resources and Bundles of them, the paths into both, and references that stay typed."""
