"""The kernels on another processor: the same vectors, a C harness, a cross compiler and qemu.

    python -m tools.cross aarch64        # or x86_64

`vectors` and `modelvectors` write inputs and what the native build makes of them (which the suite
compares with slow twins), harness.c and cases_*.c run them through csrc/ compiled for the processor
named. Integers and noise must agree to the bit, floats within the tolerance written beside them.
See docs/research/reliability.md.
"""
