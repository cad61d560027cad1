"""Code that every wing uses: the retry of lost races, pages, counters, audit entries."""
