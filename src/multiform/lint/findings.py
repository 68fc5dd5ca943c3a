"""Findings: one warning about a task, its documents, its prompts or its run; and what the code of each means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from multiform.errors import ConfigError, UsageError, nearest
from multiform.forms import Form


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a code means, why it matters, and what to do about it."""

    meaning: str
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.meaning}\n\nWhy: {self.why}\nFix: {self.fix}"

    def row(self, code: str) -> str:
        """The code's row in the table of the documentation."""
        return f"| `{code}` | {self.meaning} {self.why} | {self.fix} |"


#: Every code of a finding, with its explanation.
CODES: dict[str, Explanation] = {
    "missing_space": Explanation(
        "Two parts of a prompt touch: a label and its text, or the prompt and its answer ('Answer:Paris').",
        "Models saw 'Answer: Paris' in training; without the space the answer has other, rarer tokens.",
        "Add the space to the template, to the prefix of the format, or to target_delimiter.",
    ),
    "doubled_space": Explanation(
        "Two spaces in a row where two parts of a prompt meet, or where a prompt and its answer meet.",
        "The second space is often a token of its own, so the answer is scored after something unusual.",
        "Remove the space on one side, or trim the column: {{ question.strip() }}.",
    ),
    "trailing_space": Explanation(
        "A prompt that a model completes, a line of the template, or a scored answer ends in a space.",
        "Most tokenizers put the space at the beginning of the next word: after a space, no usual word can follow.",
        "End the prompt without the space; target_delimiter puts one between prompt and answer.",
    ),
    "glued_sections": Explanation(
        "Two sections of a prompt follow each other without anything between them ('... anatomy.Question: ...').",
        "The model cannot see where the description, an example or the question ends.",
        "End the description with a line break, or set section_separator or fewshot_delimiter.",
    ),
    "shots_unlike_question": Explanation(
        "Few-shot examples are laid out unlike the evaluated question.",
        "Examples show the layout as much as the task; another layout shows the model something else.",
        "Give the examples the fields and delimiters of the question, or leave fewshot_config's own out.",
    ),
    "shots_show_other_answer": Explanation(
        "The answers of few-shot examples are none of those that are scored, or count as wrong as a completion.",
        "A model that follows the examples scores zero.",
        "Let fewshot_config.doc_to_target give what is scored: the label, or the words that the filters look for.",
    ),
    "evaluated_docs_in_shots": Explanation(
        "Documents that are evaluated are also in the split that few-shot examples are drawn from.",
        "A question may be asked after an example that answers it. Rows that differ in an id are not recognised.",
        "Remove them from the few-shot split, in its file or in fewshot_config.process_docs.",
    ),
    "shots_from_evaluated_split": Explanation(
        "Few-shot examples are drawn from the documents that are evaluated.",
        "Each document's own row is left out, but similar ones are not, and scores are not those of held-out data.",
        "Set fewshot_split to another split.",
    ),
    "answer_in_prompt": Explanation(
        "The prompt contains the answer that it asks for.",
        "The score says how well the model copies.",
        "Remove the column of the answer from doc_to_text.",
    ),
    "description_about_choices": Explanation(
        "The description or an instruction speaks of choices or their letters, and the prompt shows none.",
        "The model is asked for a letter that means nothing.",
        "Rewrite the text, or leave keep_description out so that such sentences are removed.",
    ),
    "stop_in_answer": Explanation(
        "A stop string occurs in what the model is to write: an answer, or a few-shot example's answer.",
        "A right completion is cut before its end.",
        "Choose a stop string that answers do not contain, in generation_kwargs.until.",
    ),
    "stop_in_prompt": Explanation(
        "A stop string occurs in the text of a question, not only in the template.",
        "Text that occurs in questions may occur in an answer as well, and cuts it there.",
        "Choose a stop string that only the layout has, such as '\\nQuestion:'.",
    ),
    "duplicate_choices": Explanation(
        "A document has the same choice twice.",
        "Only one of the two counts as right, and they have the same log-likelihood.",
        "Remove the document or the choice, or give all that are right as a list of answers.",
    ),
    "choices_refer": Explanation(
        "Choices speak of others by place or label ('all of the above', 'both A and B'), and a variation moves them.",
        "Such a choice then means something else, and the answer that counts as right may be wrong.",
        "Write variations: {order: null, labels: [letters]} in the task, or leave these documents out.",
    ),
    "gold_not_a_choice": Explanation(
        "The answer of a document is none of its choices: an index out of range, or another text.",
        "Whatever the model picks counts as wrong.",
        "Check doc_to_target: indexes count from 0, digits as text from 1, unless answer_base says otherwise.",
    ),
    "answer_base_unclear": Explanation(
        "Answers are digits as text, and no document shows whether they count choices from 0 or from 1.",
        "They count from 1 under formats and from 0 without one; if that is wrong, other choices count as right.",
        "Set answer_base: 0 or 1 in the task.",
    ),
    "mixed_answers": Explanation(
        "One column has answers of several kinds, such as 1 and '1'.",
        "A number counts choices from 0, text of digits from 1: some of the answers are wrong.",
        "Write all of them in one way.",
    ),
    "label_order": Explanation(
        "A column spells out the labels, and its numbers mean other ones than doc_to_choice lists them.",
        "Right answers count as wrong, and the score looks like that of a bad model.",
        "List the choices of doc_to_choice in the order of the dataset's numbers.",
    ),
    "several_right": Explanation(
        "Documents have several right choices.",
        "Each of them counts as right, so chance is above one in the number of choices.",
        'Say which one counts, as in doc_to_target: "{{answer[0]}}", or silence this.',
    ),
    "too_few_labels": Explanation(
        "A document has more choices than the format has labels.",
        "The document cannot be rendered.",
        "Add labels to choice_labels, or use letters or numbers.",
    ),
    "length_gives_answer_away": Explanation(
        "The longest (or shortest) choice is the right one far more often than chance.",
        "A model that has no idea but prefers long (or short) answers scores above chance.",
        "Rewrite the choices, or report a score that is normalized by length.",
    ),
    "skewed_gold": Explanation(
        "Of choices that are shown, one position is right far more often than chance; or one class nearly always is.",
        "A model that prefers this position scores above chance.",
        "Shuffle the choices of each document, or report the score of always choosing that position.",
    ),
    "duplicate_rows": Explanation(
        "Documents are equal in all columns that the task reads.",
        "Each of them counts, and the standard error is too small.",
        "Remove them from the data, or in process_docs.",
    ),
    "empty_question": Explanation(
        "All columns of a document's question are empty.",
        "The model is asked nothing.",
        "Fill them in, drop the documents in process_docs, or name another column.",
    ),
    "placeholder": Explanation(
        "A column of the question is a placeholder for a missing text, such as 'NS', 'N/A' or 'null'.",
        "The model is asked about the placeholder, and the label was often filled in, too.",
        "Leave the documents out: drop_docs: \"{{question == 'NS'}}\".",
    ),
    "unlabelled": Explanation(
        "Most documents have no answer: -1, null or an empty text.",
        "Test splits are often published without labels; nothing can be right there.",
        'Name another split, or leave the documents out: drop_docs: "{{label == -1}}".',
    ),
    "marked_subset": Explanation(
        "A column such as 'mini' marks some documents as a smaller edition of the dataset.",
        "Published scores may be those of the smaller edition alone.",
        'Keep its documents: drop_docs: "{{not mini}}".',
    ),
    "filler_choices": Explanation(
        "Choices are null, empty or 'N/A': a document has fewer options than there are places for them.",
        "The filler is shown, labelled and scored like an answer.",
        "Leave them out: doc_to_choice: \"{{choices|reject('in', [none, '', 'N/A'])|list}}\".",
    ),
    "list_as_text": Explanation(
        "A column of the question or the context is the text of a list or mapping.",
        "The prompt shows brackets, quotation marks and escapes.",
        'Read it with the filter literal: "{{(problems|literal)[0].question}}".',
    ),
    "mixed_languages": Explanation(
        "The words of the format are English, and the task states another language.",
        "Scores in several languages then also measure how well a model switches between them.",
        "Select the words of the task's language (mcqa:native), or English ones on purpose (mcqa:en).",
    ),
    "unpinned_revision": Explanation(
        "The dataset comes from the hub at no fixed revision.",
        "Its rows may change, and with them scores that are compared.",
        "Write dataset_kwargs: {revision: ...} with the hash of a commit.",
    ),
    "label_not_one_token": Explanation(
        "A label that is scored has several tokens.",
        "Labels of several tokens are scored as a product of probabilities, and some servers return one token only.",
        "Choose other labels, or another target_delimiter.",
    ),
    "uneven_labels": Explanation(
        "The answers that every document has in common differ in their number of tokens.",
        "Without normalization, an answer of more tokens is less likely whatever the question is.",
        "Choose answers of equal length, or score acc_norm.",
    ),
    "token_across_border": Explanation(
        "A token spans the border of prompt and answer: the tokens of both together do not begin with the prompt's.",
        "The prompt's last token is replaced, and the answer is scored after tokens that the model never sees so.",
        "Let the answer begin with a space (target_delimiter) and the prompt end without one.",
    ),
    "doubled_bos": Explanation(
        "A prompt has the token for the beginning of a text twice, or in its own text.",
        "Models never saw that in training; some lose several points.",
        "Remove the token from description, template or data: it is added where it is needed.",
    ),
    "chat_template_strips": Explanation(
        "The chat template changes or drops a part of a message, such as white space around it or the system message.",
        "The model does not see what the task says, and what is lost differs between models.",
        "Keep white space at borders out of templates; put what must be there into the question.",
    ),
    "truncated_prompts": Explanation(
        "Prompts are longer than the model reads, with room for the completion.",
        "They lose their beginning: the description and the first examples.",
        "Use fewer few-shot examples, a smaller max_gen_toks, or a model with a longer context.",
    ),
    "chat_template_unused": Explanation(
        "The model has a chat template, and the run is without --apply_chat_template.",
        "Chat models answer worse, or in another form, without their template.",
        "Add --apply_chat_template if it is a chat model.",
    ),
    "instructed_base_model": Explanation(
        "The model has no chat template, and the format tells it what to write.",
        "Base models continue texts: they rarely end in the asked words, and the score is that of the extraction.",
        "Use a format that is meant for base models, such as mcqa or cloze.",
    ),
    "little_room_to_think": Explanation(
        "The model thinks before it answers, and the limit of tokens is small.",
        "Thoughts are cut off before there is an answer, which counts as wrong.",
        "Use mcq_cot, which may fill the context, or a larger --gen_kwargs max_gen_toks.",
    ),
    "prefilled_thought": Explanation(
        "The model thinks before it answers, and the prompt begins the answer.",
        "It answers without a thought, or thinks in the middle of the answer.",
        "Use mcq_cot, which begins no answer, or switch thinking off: --model_args enable_thinking=false.",
    ),
    "no_corpus": Explanation(
        "The task has should_decontaminate, and the run has no corpus.",
        "Nothing is decontaminated.",
        "Give --decontamination_corpus FILE.",
    ),
}


def explanation(code: str) -> Explanation:
    """What a code means; an unknown one is an error with the nearest."""
    if code not in CODES:
        raise UsageError(f"no code '{code}'", where="--explain", hint=nearest(code, CODES, listed="codes"))
    return CODES[code]


Level = Literal["warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A warning: what is wrong, where, an example, and what to do about it.

    >>> print(Finding(code="empty_question", where="t.yaml", what="no question", example="doc 4", hint="add it"))
    t.yaml: no question (doc 4); add it [empty_question]
    """

    code: str
    #: The task, without a format; empty for a finding about the whole run.
    task: str = ""
    #: The form, if the finding is about its prompts; empty if it holds for all forms of the task.
    form: str = ""
    where: str | None
    what: str
    example: str = ""
    hint: str
    level: Level = "warning"
    #: How many documents have it, if documents were counted.
    docs: int | None = None

    def __post_init__(self) -> None:
        assert self.code in CODES

    def __str__(self) -> str:
        place = (f"{self.where}: " if self.where else "") + (f"{self.form}: " if "@" in self.form else "")
        example = f" ({self.example})" if self.example else ""
        return f"{place}{self.what}{example}; {self.hint} [{self.code}]"

    @classmethod
    def of_form(cls, form: Form, code: str, where: str | None, what: str, hint: str, **details: Any) -> Finding:
        """A finding about the prompts of one form."""
        return cls(code=code, task=form.task_name, form=form.name, where=where, what=what, hint=hint, **details)

    @classmethod
    def of_task(cls, form: Form, code: str, where: str | None, what: str, hint: str, **details: Any) -> Finding:
        """A finding that holds for all forms of the form's task."""
        return cls(code=code, task=form.task_name, where=where, what=what, hint=hint, **details)

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class Hit:
    """A problem in one document; hits that differ only in the document become one finding."""

    doc_id: int
    code: str
    where: str | None
    what: str
    hint: str
    example: str = ""


def as_findings(hits: Iterable[Hit], total: int, *, task: str, form: str = "") -> list[Finding]:
    """The hits of `total` documents as findings, with the first document of each as its example."""
    groups: dict[tuple[str, str | None, str], dict[int, Hit]] = {}
    for hit in hits:
        groups.setdefault((hit.code, hit.where, hit.what), {}).setdefault(hit.doc_id, hit)
    return [
        Finding(
            code=code,
            task=task,
            form=form,
            where=where,
            what=f"{what}: {len(by_doc)} of {total} documents",
            example=_example(next(iter(by_doc.values()))),
            hint=next(iter(by_doc.values())).hint,
            docs=len(by_doc),
        )
        for (code, where, what), by_doc in groups.items()
    ]


def _example(hit: Hit) -> str:
    return f"doc {hit.doc_id}: {hit.example}" if hit.example else f"doc {hit.doc_id}"


def drop_silenced(form: Form, findings: Iterable[Finding]) -> list[Finding]:
    """The findings without those whose codes the task silences."""
    ignored = silenced_codes(form)
    return [finding for finding in findings if finding.code not in ignored]


def silenced_codes(form: Form) -> Mapping[str, str]:
    """The codes that a task silences, each with its reason."""
    codes = form.config.lint_ignore or {}
    for code, reason in codes.items():
        place = form.where("lint_ignore", code)
        if code not in CODES:
            raise ConfigError(f"no code '{code}'", where=place, hint=nearest(code, CODES, listed="codes"))
        if not reason.strip():
            raise ConfigError("a code is silenced without a reason", where=place, hint="say why it is right here")
    return codes


def summary(findings: Iterable[Finding]) -> list[tuple[Level, str]]:
    """One line for each code: its first finding, and the names of the other tasks that have it."""
    by_code: dict[str, dict[str, Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, {}).setdefault(finding.task, finding)
    return [_line(list(by_task.values())) for by_task in by_code.values()]


def _line(findings: list[Finding]) -> tuple[Level, str]:
    first, *rest = findings
    names = ", ".join(finding.task for finding in rest[:3]) + (", ..." if len(rest) > 3 else "")
    also = f"; so for {len(rest)} more: {names}" if rest else ""
    return first.level, f"{first}{also}"
