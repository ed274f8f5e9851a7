"""What watches the topics of errors for patterns, and tells somebody or does something."""
