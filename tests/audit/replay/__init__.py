"""The replay audit: two runs on neighbouring tables, of which the second is handed the noisy
answers of the first.

Run A on a table records every step: its question, its charge, the exact vectors before noise, the
noise widths and what was released. Run B on the neighbour records its own exact vectors, but every
noisy vector is replaced by A's. If nothing but noisy vectors leaves the private side, B now does
what A did, to the byte. `compare` checks:

- questions, labels, charges, numbers of draws and noise widths are equal;
- Gaussian: the sum of (difference / sigma)^2 is at most the charged mu^2, in exact rationals;
- Laplace: the sum of |difference| / scale is at most the charged epsilon, exactly;
- selections: the range of the score differences is at most what the charged epsilon covers;
- key selection: candidates that only one run has pass the threshold with at most the charged delta;
- what a step stores, the run folder, the rows, warnings, log lines and error texts are equal;
- nothing is counted or drawn outside of a charged step, and nothing is drawn twice.

A ratio of 1 means that the pair uses up its charge. Ratios above 1 are violations.

How to add a world
------------------
A *world* is a kind of run: a feature with its schema, options and hostile neighbours. One decorated
function in `worlds.py` (or in any module that `worlds.py` imports) adds it to `make test`,
`make test-slow` and the figures:

    @world("numbers", pairs=8)
    def numbers(rng):
        rows = hostile.rows(rng)                              # a small table, one user column
        pairs = hostile.neighbours(rng, rows, count=4)        # one hostile user more or less each
        return Scene(rows, pairs, synthesize(hostile.schema(rng), numbers=["sum(x)"], epsilon=1.0))

- `Scene(data, neighbours, run)`: `run(data, folder)` does what a user would do, and returns more
  released things to compare, as a dict, or None. Files it writes under `folder / "out"` are
  compared; those in `out.private` are not.
- Everything random in a scene comes from `rng`, and nothing else does. The recorder fixes the
  random numbers of the operating system, so that A and B may be compared to the byte.
- A neighbour differs by one unit of privacy: one user with all rows, one row, one key of linked
  tables, one user's rows of one period. Make it hostile: `hostile.py` has the usual users.
- A new way to draw (beside `noise.gaussian`, `noise.laplace`, `select.exponential`) must be taught
  to `recorder.py`; until then the audit reports "random bits drawn in an unknown way".
- A release whose draw lists data-dependent cells or keys calls `Recorder.keyed` (see key selection).
- `reaches`: for a world of a rare path, texts in labels of its steps or in its released files.
  `make test-slow` sees that runs have them, since a rule that changes can leave a world beside its path.
- `pairs`: neighbours of a seed, about 0.2 s each. `make test` takes two of them, `make test-slow` all of 25
  other seeds.

Try one world: `python -m tests.audit.replay numbers --pairs 100`. It prints pairs, steps and the
largest ratio of each release. `--seed 1 --seeds 25 --jobs 2`: the pairs of `make test-slow`.
"""
