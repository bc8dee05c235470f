"""Scripts that run in Ray: in a folder of their own, which Ray puts first on the path."""
