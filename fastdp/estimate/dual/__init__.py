"""Measurements of whole marginals: Newton's method on the dual, then the model that has the
tables."""
