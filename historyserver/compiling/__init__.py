"""From a session in storage to its compiled file, once for everybody."""
