"""`make validate`: run every row, print the table, and write it into the model's README."""

import sys

import joblib

from tests.validation.row import Judged, judge
from tests.validation.table import PLACE, ROWS, markdown, put_in


def _judge(place: int) -> Judged:
    """Judge one row; rows have functions in them, which do not travel between processes."""
    return judge(ROWS[place])


def main() -> int:
    """Return 0 if the model hits everything."""
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(_told)(place) for place in range(len(ROWS)))
    judged = [Judged(row, values, wrong) for row, (values, wrong) in zip(ROWS, found, strict=True)]
    for one in judged:
        print(f"{'FAIL' if one.wrong else 'ok  '} {one}")
    PLACE.write_text(put_in(PLACE.read_text(encoding="utf-8"), markdown(judged)), encoding="utf-8")
    wrong = sum(bool(one.wrong) for one in judged)
    print(f"{len(judged)} rows, {wrong} wrong; the table is in {PLACE.relative_to(PLACE.parents[1])}")
    return 1 if wrong else 0


def _told(place: int) -> tuple[dict[str, list[float]], list[str]]:
    one = _judge(place)
    return {name: list(values) for name, values in one.values.items()}, list(one.wrong)


if __name__ == "__main__":
    sys.exit(main())
