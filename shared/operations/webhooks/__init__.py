"""The wing that sends changes to webhooks, in the order of the sealed log."""
