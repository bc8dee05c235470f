"""What a command-line program around the storage shares: settings front, logs, version.

Called by the command lines of the collector and the history server. Knows no backend.
"""
