"""Authorizers, the native lists of stock authorizers, and propagation."""
