"""Ray's log files: which there are, which is which after a rotation, and their compressed frames."""
