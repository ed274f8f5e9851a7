"""Turn output topics into read-store tables."""
