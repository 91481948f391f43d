"""The HTML report. `page` makes it from `collect` (counts), `sections` (built from `blocks`),
`charts`, `words` and `svg`; `evaluate` is the public function that computes scores and writes the
page. A page made with the truth is not private; one made without the truth holds released facts
only.
"""
