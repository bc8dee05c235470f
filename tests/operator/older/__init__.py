"""The core of it with older operators, each on a cluster of its own with its own kinds."""
