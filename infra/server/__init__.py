"""The service as processes on one machine."""
