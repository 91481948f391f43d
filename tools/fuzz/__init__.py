"""A loop over all property tests of the suite, with fresh seeds."""
