"""The metrics of confidence and abstention, against their definitions worked out by hand."""

from __future__ import annotations

import math

import pytest

from multiform import ConfigError, DataError, evaluate
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import ChoiceOutcome, LikelihoodOutcome


def outcome(probabilities, gold=(0,), choices=None, scored=None, texts=()):
    """Choices of one character each, so that normalised and raw scores agree unless `scored` says otherwise."""
    choices = tuple(choices or "abcdefgh"[: len(probabilities)])
    return ChoiceOutcome(
        loglikelihoods=tuple(math.log(p) for p in probabilities),
        greedy=(False,) * len(choices),
        choices=choices,
        gold=gold,
        scored=tuple(scored or choices),
        texts=tuple(texts),
    )


def value(name, seen, **kwargs):
    return build_metric({"metric": name, **kwargs})(seen)


def test_acc_norm_full_counts_the_leading_space():
    # -2/2 is more than -1.2/1, but -2/3 is less than -1.2/2.
    seen = ChoiceOutcome(
        loglikelihoods=(-2.0, -1.2), greedy=(False, False), choices=("ab", "c"), gold=(1,), scored=(" ab", " c")
    )
    assert value("acc_norm", seen) == 0.0
    assert value("acc_norm_full", seen) == 1.0


def test_bits_per_byte_counts_bytes_with_the_leading_space():
    seen = LikelihoodOutcome(loglikelihood=-4 * math.log(2), is_greedy=False, text=" é€", words=1, bytes=6)
    assert value("bits_per_byte_mean", seen) == pytest.approx(4 / 6)
    ranked = outcome([0.25, 0.5], gold=(0,), choices=("x", "y"), scored=(" x", " y"))
    assert value("bits_per_byte_mean", ranked) == pytest.approx(1.0)


def test_probability_mass_is_that_of_all_right_choices():
    assert value("probability_mass", outcome([0.2, 0.3, 0.5], gold=(0, 2))) == pytest.approx(0.7)
    far = ChoiceOutcome(loglikelihoods=(-2000.0, -2001.0), greedy=(False,) * 2, choices=("a", "b"), gold=(0,))
    assert value("probability_mass", far) == pytest.approx(1 / (1 + math.exp(-1)))
    longer = outcome([0.5, 0.25], gold=(1,), choices=("a", "bb"), scored=("a", "bb"))
    assert value("probability_mass_norm", longer) == pytest.approx(0.5)


def test_confidence_weighted_accuracy_is_the_probability_of_a_right_choice():
    assert value("confidence_weighted_acc", outcome([0.6, 0.4])) == pytest.approx(0.6)
    assert value("confidence_weighted_acc", outcome([0.4, 0.6])) == 0.0


@pytest.mark.parametrize(
    ("probabilities", "expected"), [([0.6, 0.3, 0.1], 1.0), ([0.3, 0.6, 0.1], -1.0), ([0.3, 0.1, 0.6], 0.0)]
)
def test_ternary_score_is_plus_zero_or_minus(probabilities, expected):
    assert value("ternary_score", outcome(probabilities)) == expected


def test_ternary_score_has_its_rewards():
    assert value("ternary_score", outcome([0.3, 0.6, 0.1]), wrong=0.25) == -0.25
    assert value("ternary_score", outcome([0.6, 0.3, 0.1]), correct=2) == 2.0


def test_dcs_takes_the_doubt_off():
    # (0.5 - 0.2) * (1 - 0.3): a peer forgets the doubt and gives 0.3.
    assert value("dcs", outcome([0.5, 0.2, 0.3])) == pytest.approx(0.21)
    assert value("dcs", outcome([0.5, 0.2, 0.3]), wrong=0.5) == pytest.approx((0.5 - 0.1) * 0.7)


def test_the_choice_that_means_i_do_not_know_is_configurable():
    seen = outcome([0.2, 0.5, 0.3], gold=(2,), choices=("A", "B", "C"), texts=("Paris", "I don't know", "Rome"))
    for idk in (1, -2, "i don't know ", "B"):
        assert value("ternary_score", seen, idk=idk) == 0.0
    assert value("dcs", seen, idk="I don't know") == pytest.approx((0.3 - 0.2) * 0.5)
    with pytest.raises(DataError, match="no choice 'Dunno' that means"):
        value("ternary_score", seen, idk="Dunno")


def test_rewards_that_make_no_sense_are_an_error():
    with pytest.raises(ConfigError, match=r"dcs: correct is 0\.5 and wrong is 1\.0"):
        value("dcs", outcome([0.5, 0.5]), correct=0.5)
    with pytest.raises(ConfigError, match="ternary_score"):
        value("ternary_score", outcome([0.5, 0.5]), wrong=-1)


def test_the_metrics_run_on_a_task_by_label_and_by_text(tmp_path):
    from multiform import TaskConfig

    rows = [f'{{"q": "Q{i}?", "c": ["x", "y", "I don\'t know"], "a": {i % 2}}}\n' for i in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    names = ("acc_norm_full", "confidence_weighted_acc", "probability_mass", "probability_mass_norm",
             "bits_per_byte_mean")  # fmt: skip
    idk = [{"metric": name, "idk": "I don't know"} for name in ("ternary_score", "dcs")]
    for form in ("mcqa", "cloze"):
        config = TaskConfig(
            task="t",
            doc_to_text="q",
            doc_to_choice="c",
            doc_to_target="a",
            dataset_path=str(tmp_path / "rows.jsonl"),
            test_split="test",
            formats={"type": form, "metric_list": [*names, *idk]},
        )
        scores = evaluate(model="dummy", tasks=[config])["t"]
        assert {f"{name},none" for name in (*names, "ternary_score", "dcs")} <= set(scores)
        assert -1 <= scores["dcs,none"] <= 1
