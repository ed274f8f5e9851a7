"""What decides order, once for all runtimes: pure, without I/O and without a clock."""
