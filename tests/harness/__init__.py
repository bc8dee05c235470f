"""Real Ray clusters for tests, in private namespaces, built from the demo's pieces.

Fixtures are in `tests.harness.fixtures` and known to every test. A test that wants a real
session asks for `small_pair`: one session for the whole run, collected and dead, together with
what the live dashboard answered just before the end.
"""
