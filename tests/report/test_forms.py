"""What a report says of each form."""

from __future__ import annotations

from dataclasses import replace

from multiform import evaluate
from multiform.report.forms import WRONG, form_entry


def test_a_score_of_zero_is_wrong_only_where_more_is_better() -> None:
    (form,) = evaluate(model="dummy", tasks="quiz@mcqa", limit=8, progress=False).forms
    wrong = form_entry(form, 0, form.samples, "mcqa")["flags"].count(WRONG)
    assert wrong == sum(sample.values["acc"] == 0 for sample in form.samples)
    errors = replace(form, higher_is_better={"acc": False})
    assert WRONG not in form_entry(errors, 0, form.samples, "mcqa")["flags"]
