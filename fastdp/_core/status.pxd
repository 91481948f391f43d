"""The one way from the kernels' return codes (csrc/fdp.h) to exceptions. Every wrapper hands every code to
`check`."""

cdef extern from "fdp.h" nogil:
    enum:
        FDP_OK
        FDP_ERR_MEMORY
        FDP_ERR_ARGUMENT
        FDP_ERR_OVERFLOW
        FDP_ERR_RANDOM
        FDP_ERR_IMPOSSIBLE


cdef inline int check(int code, str what, str limit="a sum leaves 64 bits") except -1:
    """Raises where a kernel failed. `what` was to be done, as in "counting rows"; `limit`: what an overflow
    means there."""
    if code == FDP_OK:
        return 0
    if code == FDP_ERR_MEMORY:
        raise MemoryError(f"not enough memory for {what}")
    if code == FDP_ERR_OVERFLOW:
        raise OverflowError(f"{what}: {limit}")
    if code == FDP_ERR_ARGUMENT:
        raise ValueError(f"{what}: an argument is out of range")
    if code == FDP_ERR_RANDOM:
        raise OSError(f"{what}: the operating system gave no random bits")
    if code == FDP_ERR_IMPOSSIBLE:
        raise ArithmeticError(f"{what}: structural zeros leave no possible cell")
    raise SystemError(f"{what}: the kernel returned a code that csrc/fdp.h does not name ({code})")
