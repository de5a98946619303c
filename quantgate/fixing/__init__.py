"""From findings that carry an edit to a changed file: plan, show, write, and rebuild layouts.

Nothing in here judges: the rules say what is wrong, and every edit is checked again by them.
"""
