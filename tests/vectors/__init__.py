"""Vectors that several consumers share."""
