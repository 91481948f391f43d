def write(kept):
    return kept.here
