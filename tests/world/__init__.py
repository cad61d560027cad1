"""The whole service in one process: real code on simulated clocks, networks, disks and stores."""
