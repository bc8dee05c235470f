"""Tests of certs/."""
