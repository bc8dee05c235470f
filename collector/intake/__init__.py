"""Takes Ray's events by HTTP and acknowledges what is on disk.

Called by `collector.lifecycle`. The way of a batch: `http` (Ray's POST), `bodies` and
`pieces` (split without reading all), `envelope` (the few fields that matter), `commits` on
the `disk_thread` (dedupe, journal, quarantine, ledger), answer. Writes to the journal only:
must not import shipping, the dashboard or tails.
"""
