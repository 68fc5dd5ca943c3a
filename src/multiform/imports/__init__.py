"""Answers imports of other harnesses' packages in the files that tasks bring along."""
