"""Few-shot examples: exactly those that lm-eval 0.4.13 draws, and never the document that is asked."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import ConfigError, DataError, Task, TaskConfig
from multiform.forms.samplers import FirstNSampler, RandomSampler, samplers

SEEDS = [0, 1, 7, 1234, 2**31]
SIZES = [1, 2, 3, 5, 8, 21, 22, 50, 300]
SHOTS = [1, 2, 3, 5, 25]
NAMES = ["default", "first_n"]


def docs_of(size, first=0):
    return [{"question": f"Q{n}?", "answer": n % 3} for n in range(first, first + size)]


def theirs(name, pool, seed):
    module = pytest.importorskip("lm_eval.api.samplers")
    return module.get_sampler(name)(pool, rnd=seed)


def ours(name, pool, seed):
    return samplers.get(name)(pool, seed=seed)


def samplers_of_both(name, pool, *, most):
    """Numbers of shots up to `most`, each with the samplers of lm-eval and ours, for every seed."""
    for seed in SEEDS:
        for n in (n for n in SHOTS if n <= most):
            yield n, theirs(name, pool, seed), ours(name, pool, seed)


# The same shots as lm-eval


@pytest.mark.parity
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_the_shots_are_those_of_lm_eval(name, size):
    pool = docs_of(size)
    for n, reference, sampler in samplers_of_both(name, pool, most=size):
        for _ in range(10):  # one generator for all documents: the tenth draw depends on the nine before
            assert [pool[i] for i in sampler.sample(n)] == list(reference.sample(n))


@pytest.mark.parity
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_the_shots_are_those_of_lm_eval_when_the_document_is_in_the_pool(name, size):
    pool = docs_of(size)
    for n, reference, sampler in samplers_of_both(name, pool, most=size - 1):
        for doc in pool[:20]:
            expected = list(reference.sample(n, eval_doc=doc))
            assert [pool[i] for i in sampler.sample(n, exclude=doc)] == expected
            assert doc not in expected


@pytest.mark.parity
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_the_shots_are_those_of_lm_eval_when_the_document_is_left_out_but_not_in_the_pool(name, size):
    pool, others = docs_of(size), docs_of(5, first=1000)
    for seed in SEEDS:
        for n in (n for n in SHOTS if n < size):
            reference, sampler = theirs(name, pool, seed), ours(name, pool, seed)
            for doc in others:
                expected = list(reference.sample(n, eval_doc=doc))
                assert [pool[i] for i in sampler.sample(n, exclude=doc)] == expected


@pytest.mark.parity
@pytest.mark.parametrize("copies", [2, 3, 6])
@pytest.mark.parametrize("name", NAMES)
def test_the_shots_are_those_of_lm_eval_when_the_pool_holds_the_document_several_times(name, copies):
    pool = docs_of(4) * copies + docs_of(3, first=100)
    for seed in range(30):
        reference, sampler = theirs(name, pool, seed), ours(name, pool, seed)
        for doc in pool:
            expected = list(reference.sample(3, eval_doc=doc))
            assert [pool[i] for i in sampler.sample(3, exclude=doc)] == expected


@pytest.mark.parity
@given(
    st.sampled_from(NAMES),
    st.lists(st.integers(min_value=0, max_value=9), min_size=2, max_size=40),
    st.integers(min_value=0, max_value=2**32),
    st.lists(st.tuples(st.integers(min_value=1, max_value=6), st.booleans(), st.integers(0, 9)), max_size=8),
)
def test_any_series_of_draws_is_that_of_lm_eval(name, numbers, seed, draws):
    pool = [{"n": n} for n in numbers]
    reference, sampler = theirs(name, pool, seed), ours(name, pool, seed)
    for n, leave_out, number in draws:
        doc = {"n": number} if leave_out else None
        try:
            expected = list(reference.sample(n, eval_doc=doc))
        except (AssertionError, ValueError):
            return  # lm-eval has too few documents; what we do then is shown below
        assert [pool[i] for i in sampler.sample(n, exclude=doc)] == expected


# Too few documents


@pytest.mark.parametrize("name", [*NAMES, "balanced"])
def test_too_few_documents_are_an_error_that_says_how_many_there_are(name):
    with pytest.raises(DataError) as caught:
        ours(name, docs_of(3), 1).sample(4)
    assert str(caught.value) == (
        "4 few-shot examples requested but only 3 documents to draw from; "
        "lower num_fewshot, or name a larger fewshot_split"
    )


@pytest.mark.parametrize("name", [*NAMES, "balanced"])
def test_the_document_that_is_left_out_does_not_count(name):
    pool = docs_of(3)
    with pytest.raises(DataError, match="3 few-shot examples requested but only 2 documents"):
        ours(name, pool, 1).sample(3, exclude=pool[0])


def test_all_other_documents_can_be_drawn_where_lm_eval_fails():
    pool = docs_of(4)
    drawn = RandomSampler(pool, seed=1).sample(4, exclude={"question": "another"})
    assert sorted(drawn) == [0, 1, 2, 3]


def test_first_n_are_the_first_in_order():
    pool = docs_of(5)
    assert FirstNSampler(pool).sample(3) == [0, 1, 2]
    assert FirstNSampler(pool).sample(3, exclude=pool[1]) == [0, 2, 3]


def test_the_same_seed_draws_the_same_and_another_draws_others():
    pool = docs_of(50)
    one, same, other = (RandomSampler(pool, seed=seed) for seed in (1, 1, 2))
    drawn = [one.sample(5) for _ in range(4)]
    assert drawn == [same.sample(5) for _ in range(4)]
    assert drawn != [other.sample(5) for _ in range(4)]


# Documents that leak


def test_a_drawn_document_that_is_asked_is_replaced_and_the_others_stay_in_place():
    pool = docs_of(10)
    replaced = RandomSampler(pool).replace([4, 7, 2], pool[7], seed=1)
    assert (replaced[0], replaced[2]) == (4, 2)
    assert replaced[1] not in (4, 7, 2)


def test_drawn_documents_that_do_not_leak_stay():
    pool = docs_of(10)
    assert RandomSampler(pool).replace([4, 7, 2], pool[0], seed=1) == [4, 7, 2]


def test_a_replacement_is_the_same_every_time_and_draws_nothing():
    pool = docs_of(10)
    one, other = RandomSampler(pool, seed=1), RandomSampler(pool, seed=1)
    assert one.replace([4, 7], pool[7], seed=1) == one.replace([4, 7], pool[7], seed=1)
    assert one.sample(5) == other.sample(5)


def test_where_no_other_document_is_left_a_leak_is_an_error():
    pool = docs_of(2)
    with pytest.raises(DataError, match="2 few-shot examples requested but only 1 documents to draw from"):
        RandomSampler(pool).replace([0, 1], pool[0], seed=1)


pools = st.lists(st.integers(min_value=0, max_value=12), min_size=1, max_size=30)


@given(pools, st.integers(min_value=0, max_value=12), st.integers(min_value=1, max_value=8), st.integers(), st.data())
def test_a_document_is_never_among_its_own_shots(numbers, asked, n, seed, data):
    pool, doc = [{"n": number} for number in numbers], {"n": asked}
    name = data.draw(st.sampled_from([*NAMES, "balanced"]))
    sampler = ours(name, pool, seed)
    enough = sum(other != doc for other in pool) >= n
    try:
        left_out = sampler.sample(n, exclude=doc)
        replaced = sampler.replace(sampler.sample(n), doc, seed=seed)
    except DataError:
        assert not enough
        return
    for drawn in (left_out, replaced):
        assert len(set(drawn)) == n
        assert doc not in [pool[index] for index in drawn]


@given(st.lists(st.sampled_from("xyz"), min_size=1, max_size=30), st.integers(min_value=1, max_value=12), st.integers())
def test_balanced_shots_have_every_answer_as_often_as_there_are_documents_for_it(answers, n, seed):
    if n > len(answers):
        return
    sampler = samplers.get("balanced")(answers, seed=seed, label_of=str)
    drawn = Counter(answers[index] for index in sampler.sample(n))
    most = max(drawn.values())
    assert all(drawn[answer] >= min(most - 1, answers.count(answer)) for answer in set(answers))


# In a task


def task_of(splits, *, num_fewshot=3, **fields):
    return Task.from_config(
        TaskConfig(
            task="t",
            output_type="generate_until",
            custom_dataset=lambda **kwargs: splits,
            doc_to_text="{{question}}",
            doc_to_target="{{answer}}",
            num_fewshot=num_fewshot,
            fewshot_config=fields.pop("fewshot_config", None),
            **fields,
        )
    )


def shown(task):
    """The questions of every prompt, the examples' first and the one that is asked last."""
    prompts = [instance.request.context for instance in task.build_all_requests()]
    return [[turn.split("?")[0] for turn in prompt.split("\n\n")] for prompt in prompts]


TWO = {"test": docs_of(8), "train": docs_of(8, first=100)}
SPLITS = {
    "another split": (TWO, {"test_split": "test", "fewshot_split": "train"}),
    "the same split": (TWO, {"test_split": "test", "fewshot_split": "test"}),
    "the same split by its configuration": (TWO, {"test_split": "test", "fewshot_config": {"split": "test"}}),
    "the training split by default": (TWO, {"test_split": "test", "training_split": "train"}),
    "only a test split": (TWO, {"test_split": "test"}),
    "only a validation split": (TWO, {"validation_split": "test"}),
    "a split that repeats the test split": (
        {"test": docs_of(8), "train": docs_of(8) + docs_of(4, first=100)},
        {"test_split": "test", "fewshot_split": "train"},
    ),
    "first ones of the same split": (
        TWO,
        {"validation_split": "test", "fewshot_split": "test", "fewshot_config": {"sampler": "first_n"}},
    ),
    "repeated documents": ({"test": docs_of(6) * 2}, {"test_split": "test"}),
}


@pytest.mark.parametrize(("splits", "fields"), SPLITS.values(), ids=SPLITS.keys())
@pytest.mark.parametrize("seed", [0, 1, 1234])
def test_a_prompt_never_shows_the_document_that_it_asks(splits, fields, seed):
    task = task_of(splits, **fields)
    task.set_fewshot_seed(seed)
    for *examples, asked in shown(task):
        assert len(examples) == 3
        assert asked not in examples


def test_examples_come_from_the_few_shot_split():
    for *examples, asked in shown(task_of(TWO, test_split="test", fewshot_split="train")):
        assert set(examples) <= {f"Q{n}" for n in range(100, 108)}
        assert asked in {f"Q{n}" for n in range(8)}


def test_examples_may_be_given_in_the_file():
    samples = [{"question": "Example?", "answer": "yes"}]
    task = task_of(TWO, num_fewshot=1, test_split="test", fewshot_config={"samples": samples, "sampler": "first_n"})
    assert shown(task)[0] == ["Example", "Q0"]


def test_the_seed_decides_the_examples():
    def examples(seed):
        task = task_of({"test": docs_of(8), "train": docs_of(50, first=100)}, test_split="test", fewshot_split="train")
        task.set_fewshot_seed(seed)
        return shown(task)

    assert examples(1) == examples(1) != examples(2)


def test_too_few_examples_are_an_error_that_names_task_and_document():
    with pytest.raises(DataError) as caught:
        task_of({"test": docs_of(3)}, test_split="test").build_all_requests()
    assert "num_fewshot" in str(caught.value)
    assert "doc 0" in str(caught.value)
    assert "3 few-shot examples requested but only 2 documents to draw from" in str(caught.value)


def test_an_unknown_sampler_is_an_error_with_the_nearest_one():
    with pytest.raises(ConfigError, match="unknown sampler 'first'; did you mean 'first_n'"):
        shown(task_of(TWO, test_split="test", fewshot_config={"sampler": "first"}))


def test_the_log_says_that_a_shot_of_another_split_is_replaced(caplog):
    splits = {"test": docs_of(4), "train": docs_of(6)}
    with caplog.at_level("INFO", logger="multiform"):
        shown(task_of(splits, num_fewshot=5, test_split="test", fewshot_split="train"))
        assert caplog.text.count("few-shot examples that equal the document are replaced") == 1
        caplog.clear()
        shown(task_of(splits, num_fewshot=3, test_split="test", fewshot_split="test"))
    assert "replaced" not in caplog.text
