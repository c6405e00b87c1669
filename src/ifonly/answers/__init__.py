"""What the user gets: one counterfactual, many, or a path of them, and records of them."""
