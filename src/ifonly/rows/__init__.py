"""The rows that a user brings, and answers as rows of the same kind."""
