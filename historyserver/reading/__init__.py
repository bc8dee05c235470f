"""One reader per storage generation (KubeRay's A, B, C- and C, and ours), one stream of events, logs and snapshots."""
