"""A policy: what a house decides once about who may change what, and what things are called."""

from ifonly.policy.drafting import draft
from ifonly.policy.house import Policy
from ifonly.policy.said import Feature, PolicyError, Rule

__all__ = ["Feature", "Policy", "PolicyError", "Rule", "draft"]
