"""The operations of the service, without HTTP: each is a function that gets the ports."""
