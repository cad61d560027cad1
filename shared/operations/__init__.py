"""What the service does: one function an operation, with the ports passed in."""
