"""The page a person looks at: `page` over `collect` (counts), `sections` and `placesections` (made of
`blocks`), `charts`, `words`, `svg`; `evaluate` is the public function that scores and writes it. With the
truth it is not private; without the truth it holds released facts only.
"""
