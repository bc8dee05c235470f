"""The demo: one real Ray session from start to death, then browsed.

`python -m demo` starts a real Ray head in a private namespace with one collector beside it,
runs a sample job, stops Ray and serves the dead session. It is for people who try the product;
the tests' harness uses the same pieces. Nothing of the product imports it.
"""
