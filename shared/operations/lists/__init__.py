"""Lists and the feed: their making, their publication and their storage."""
