"""What is asked, what happened, and whether it was right; `pytest scenarios/` is the regression suite."""
