"""The HTTP API of Ray's dashboard, one module per area. Shapes only."""
