"""Answers for people: tables, sentences, pictures and pages."""
