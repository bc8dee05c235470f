"""A real Kubernetes for tests."""
