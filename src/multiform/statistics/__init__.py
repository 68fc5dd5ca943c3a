"""Statistics of scores: pure functions of numpy arrays, and frozen dataclasses for what they return.

    estimates      a value with its standard error and 95 % interval; the mean label that people would give, from a few
                   labels and a judge's scores of all documents
    means          the scores of the same documents under several forms, and the means of the forms
    differences    differences between forms: intervals, tests, Holm's correction; best, worst, spread and quartiles of
                   many forms; how often the order of models reverses
    wordings       the score over a population of wordings: mean, deviation, prediction, effects of axes
    design         what scores vary by, and how many documents, wordings and repeats an interval or a difference needs
    predictions    agreement of forms on single documents, calibration, position bias
    sampling       random orders and samples of documents
    sequences      confidence sequences, and the search for the best and worst of many forms within a budget

docs/statistics.md names the formulas and their sources. `estimates` and `sampling` can be imported without numpy.
"""
