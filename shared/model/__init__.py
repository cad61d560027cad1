"""What things are: frozen records and pure rules. Time is an argument, nothing here does I/O."""
