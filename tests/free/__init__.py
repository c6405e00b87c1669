"""Random problems without limits, what is true of them, and what is wrong with an answer."""
