"""The estimator: noisy measurements in, the graphical model that fits them best out.

`estimator` holds `fit` and picks a solver: `dual/` for whole marginals, `flow/` for AdaGrid's rows,
`descent/` for everything else. `task` is the problem they share, `lower` writes the measurements as
one `quadratic`, `total` estimates the number of rows. Never sees private data: imports `domain`,
`queries`, `measurement`, `model` and the kernels.
"""
