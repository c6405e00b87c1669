"""A policy: what a house decides once about who may change what, and what things are called."""

from ifonly.problem.policy.drafting import draft
from ifonly.problem.policy.house import Policy
from ifonly.problem.policy.said import Feature, PolicyError, Rule

__all__ = ["Feature", "Policy", "PolicyError", "Rule", "draft"]
