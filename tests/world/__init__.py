"""The whole service in one process: real code on simulated clocks, networks, disks and stores.

Requests are authenticated as at the gate, and do not pass the rest of it: no world reaches a rate
limit of a thousand requests a second. What counts requests a second stays apart for that reason:
tests/web/test_rate_limit_simulation.py, tests/kit/fleets.py.
"""
