"""Random pipelines of scikit-learn's steps, and what their own ``predict_proba`` says of the answers."""
