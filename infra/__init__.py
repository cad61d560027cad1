"""What runs the service: the local server, the operator's commands, the stacks."""
