"""What the operator does at the command line."""
