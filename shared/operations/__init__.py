"""What the service does, without HTTP: each operation is a function that is given the ports."""
