"""A mechanism, a metric and a source for fastdp, each in a module of its own."""
