"""Models that grade the completions of other models.

    choice      which models judge: what the user chose, and what a task may ask for
    asking      the requests to judges: loading, cache, tokens and costs
    verdicts    the prompts of judges whose task has none of its own, and the verdict in a response

The scorer that uses them is `scoring/scorers/ai_judge.py`.
"""
