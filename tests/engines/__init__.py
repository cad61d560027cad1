"""Engines that nobody here wrote: programs that are started, and addresses of one's own."""
