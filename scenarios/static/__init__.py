"""The static check: what a stack of retrying layers can do at worst, told in milliseconds and before anything runs.

| file | what it holds |
| --- | --- |
| stack.py | the plain numbers that are looked at; `of_scenario.py`, `of_preset.py`: where they come from |
| figures.py | what follows from them |
| finding.py, on_attempts.py, on_pools.py, on_waits.py, on_budgets.py | what is wrong, and which knob to turn |
| findings.py | all of that, the worst first |
| text.py, numbers.py, cli.py | how it is shown: the verb `check` |
"""
