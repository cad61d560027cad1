"""The service as processes of a machine."""
