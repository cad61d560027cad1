"""Lists, their signers, their states and their schedule."""
