"""SAM local without containers: its own reading of template and requests, before the emulator."""
