"""Models of what no engine on this machine shows: DynamoDB under load."""
