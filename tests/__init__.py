import os

# Two workers on two cores: a pool of threads that BLAS keeps spinning in each would take most of
# the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
