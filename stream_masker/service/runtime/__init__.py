"""Process-level helpers, and the warm-up that compiles kernels."""
