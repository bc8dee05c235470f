"""The compiled session: one immutable SQLite file. Its schema, its writer and its opener."""
