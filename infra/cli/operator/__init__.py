"""The commands of operators, which work on the data itself."""
