"""What a checkout is made ready and checked with: `scripts/setup`, `scripts/test`."""
