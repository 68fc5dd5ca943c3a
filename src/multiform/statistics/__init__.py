"""Statistics of scores: pure functions of numpy arrays, and frozen dataclasses for what they return.

    estimates      a value with its standard error and 95 % interval
    scores         the scores of the same documents under several forms, with clusters and subjects
    means          the means of all forms with their joint covariance
    paired         differences between forms: intervals, tests, Holm's correction
    spread         best, worst, spread and quartiles of many forms, with intervals that account for the choice
    wordings       the score over a population of wordings: mean, deviation, prediction, effects of axes
    design         how many documents and wordings a wanted interval needs at the least cost
    agreement      right under all, some or none of the forms; flips; agreement of predictions
    variance       how much of the variance is documents, forms and few-shot examples
    calibration    expected calibration error of choices
    position       which positions a model prefers among the choices
    ranking        how often the order of models reverses between forms
    power          the smallest difference that a run can detect
    sequences      confidence sequences: intervals that hold at every stopping time, for documents in random order
    elimination    the best and worst of many forms, searched within a budget of evaluations

docs/statistics.md names the formulas and their sources. Only `estimates` can be imported without numpy.
"""
