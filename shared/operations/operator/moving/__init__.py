"""The move of all data from one store to another, which goes on in its place (docs/adr/15)."""
