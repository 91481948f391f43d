"""Random and damaged input for everything that reads a file, and a loop over all property tests."""
