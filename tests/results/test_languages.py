"""The spread over languages, paired where the task says how rows match."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform.errors import UsageError
from multiform.report.overview import overview
from multiform.results.languages import language_spreads, languages_text
from multiform.results.read import read_results

FAMILY = """
group: family
task: family_<subset>
subsets: [de, fr, hi]
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{folder}/<subset>.jsonl"}}}}
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
formats: mcqa
metadata: {{language: <subset>, {parallel}version: 1}}
"""


@pytest.fixture
def family(tmp_path: Path) -> Any:
    def write(parallel: str, numbers: dict[str, range] | None = None) -> Path:
        for code in ("de", "fr", "hi"):
            rows = [
                {"question": f"{code} {n}?", "choices": ["a", "b"], "answer": n % 2, "number": n}
                for n in (numbers or {}).get(code, range(12))
            ]
            (tmp_path / f"{code}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (tmp_path / "family.yaml").write_text(FAMILY.format(folder=tmp_path, parallel=parallel), encoding="utf-8")
        return tmp_path

    return write


def run(folder: Path, **options: Any) -> Any:
    return multiform.evaluate(model="dummy", tasks="family@mcqa:native", include_path=folder, **options)


def test_rows_are_paired_by_the_columns_that_the_task_names(family: Any) -> None:
    folder = family("parallel: number, ", {"de": range(10), "fr": range(2, 12), "hi": range(12)})
    (spread,) = language_spreads(run(folder, languages=["de", "fr", "hi"]))
    assert spread.paired == 8  # the numbers 2 to 9
    assert set(spread.scores) == {"de", "fr", "hi"}
    assert spread.p is not None


def test_without_a_statement_the_spread_is_unpaired_and_says_so(family: Any) -> None:
    results = run(family(""), languages=["de", "hi"])
    (spread,) = language_spreads(results)
    assert (spread.paired, set(spread.scores)) == (None, {"de", "hi"})
    assert "metadata.parallel" in languages_text(results)


def test_families_are_columns_of_one_table_and_part_of_the_files_and_the_report(family: Any, tmp_path: Path) -> None:
    folder = family("parallel: number, ")
    results = run(folder, languages=["de", "hi"], output_path=tmp_path / "run", log_samples=True)
    lines = languages_text(results).splitlines()
    assert lines[0].split() == ["family@mcqa:native"]
    assert sorted(line.split()[0] for line in lines[2:4]) == ["de", "hi"]
    assert [line.split("  ")[0] for line in lines[4:8]] == ["best − worst", "95 % interval", "p", "rows"]
    assert lines[8] == "family@mcqa:native: rows are paired by number"
    (file,) = (tmp_path / "run").rglob("results_*.json")
    written = json.loads(file.read_text())["across_languages"]["family@mcqa:native"]
    assert set(written["scores"]) == {"de", "hi"}
    assert written["paired"] == 12
    assert written["spread"]["value"] == pytest.approx(language_spreads(results)[0].spread.value)
    again = read_results(tmp_path / "run")
    assert language_spreads(again)[0].to_dict() == language_spreads(results)[0].to_dict()
    facts = overview([again], ["a"])["facts"]
    assert "2 languages of family@mcqa:native" in next(
        f["words"] for f in facts if f["name"] == "best − worst language"
    )


def test_columns_that_do_not_tell_rows_apart_pair_nothing(family: Any) -> None:
    (spread,) = language_spreads(run(family("parallel: answer, ")))
    assert spread.paired is None
    assert "does not tell the rows" in spread.how
    (spread,) = language_spreads(run(family("parallel: [number, link], ")))
    assert spread.how == "rows of family_de have no number, link"


def test_a_language_that_the_family_lacks_is_refused(family: Any) -> None:
    with pytest.raises(UsageError, match="has no subset in xx; it has: de, fr, hi"):
        run(family(""), languages=["de", "xx"])


def test_a_task_in_another_language_is_refused() -> None:
    with pytest.raises(UsageError, match="--languages: 'quiz@mcqa'"):
        multiform.evaluate(model="dummy", tasks="quiz@mcqa", languages=["de"])


def test_the_best_language_has_the_fewest_bits_per_byte(family: Any) -> None:
    results = multiform.evaluate(model="dummy", tasks="family@bpb", include_path=family(""))
    [spread] = language_spreads(results)
    [fact] = [fact for fact in overview([results], ["run"])["facts"] if fact["name"] == "best − worst language"]
    highest, *_, lowest = spread.scores
    assert spread.scores[highest].value > spread.scores[lowest].value
    assert f"({lowest} − {highest}, 3 languages" in fact["words"]
