"""Programs and templates that run the service: local server, commands, stacks."""
