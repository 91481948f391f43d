"""Rows on demand: partial rows completed, rows under conditions, and probabilities of a column,
from a run's model. All of it is post-processing and costs no budget."""
