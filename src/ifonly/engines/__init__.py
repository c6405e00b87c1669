"""One method per file; all of them in class space. `classproblem.ClassProblem` is what they are given."""
