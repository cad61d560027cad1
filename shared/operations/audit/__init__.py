"""The audit log: sealing, reading and counting its entries."""
