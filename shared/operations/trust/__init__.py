"""Makes, signs, publishes and serves trust documents, and blobs of signing keys."""
