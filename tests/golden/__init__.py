"""Golden answers: what the public API gave, kept, and compared after every step."""
