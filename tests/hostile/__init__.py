"""Clients and the relay, against a service behind hostile or faulty HTTP."""
