"""What is measured in a run, real or modelled: amplification, goodput, queues, orphaned work, recovery, class.

| file | what it holds |
| --- | --- |
| history.py | a run as columns; `of_record.py` makes it of a record, the model of its own tables |
| names.py | names of the measures, for `expect.measures` |
| scalars.py | measure by name -> one number |
| series.py | the same over time |
| recovery.py | recovery time and class of a run, against its control arm |
| checks.py | what `expect.measures` and `expect.run_class` ask for, as verdicts |
"""
