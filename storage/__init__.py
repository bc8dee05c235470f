"""What the collector and the history server must agree on, and the way to their objects.

Object keys (`layout`, `keys`), documents (`wire`), the answers of Ray that are kept (`endpoints`),
the backends (`backend` is their interface, `faults` breaks them in tests), and what both command
lines share (`settings`, `program`). The collector writes, the history server reads and stores
compiled sessions back. Imports none of our other packages.
"""
