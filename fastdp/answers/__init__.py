"""Answers with intervals: counts, shares, means and sums in the schema's values, from what a run
released.

`evidence` reads the released marginals, `best_linear` combines them, and `clipping` accounts for
rows that a clip left out. `values` turns values into codes and back, `question` reads what was
asked, and `cell_layout` and `groups` compute it. `answer` puts it together. Nothing here sees private
data. docs/guide/answers.md.
"""
