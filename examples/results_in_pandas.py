"""Read results as data frames: one of the scores, and one of the samples.

    python examples/results_in_pandas.py

prints::

    metric      acc  exact_match
    format
    cloze     0.167          NaN
    generate    NaN          0.0
    mcqa      0.500          NaN
    right: Canberra, Ottawa, Brasília
"""

from __future__ import annotations

from pathlib import Path

from multiform import evaluate

TASK = Path(__file__).with_name("capitals.yaml")

if __name__ == "__main__":
    results = evaluate(model="dummy", tasks=f"{TASK}@mcqa+cloze+generate")

    # A row for each form, metric and filter.
    scores = results.to_pandas("scores")
    main = scores[scores.metric.isin(["acc", "exact_match"])]
    print(main.pivot(index="format", columns="metric", values="value").round(3))

    # A row for each document and form: what was asked, picked and right.
    samples = results.to_pandas()
    right = samples[(samples.form == "capitals@mcqa") & (samples.acc == 1)]
    print(f"right: {', '.join(row.choices[row.gold] for row in right.itertuples())}")
