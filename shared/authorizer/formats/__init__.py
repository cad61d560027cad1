"""Formats shared by the service and its clients. They import only from this folder."""
