"""Files of strangers: whatever they say, nothing is run, leaked, changed or kept waiting, and there is one message."""

from __future__ import annotations

import hashlib
import io
import json
import re
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

#: No attack computes for longer, in seconds, or needs more memory, in MB.
#: Counting covered lines takes most of the time where that is done.
MOST_SECONDS = 2.0 if sys.gettrace() is None else 8.0
MOST_MEMORY = 500

#: What no message and no other output may hold.
SECRET = "s3cret-canary"
#: Code that leaves a trace where it is run.
RUNS = "open('executed', 'w').close()\n"
LISTING = "ls tasks --include_path ."
#: Characters that change what a terminal shows or does.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Attack:
    """Files in a folder, the command that a victim runs there, and what must come of it.

    `task` has keys of the usual task that are replaced; `says` is part of the message.
    """

    task: str = ""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    argv: str = "validate task.yaml"
    code: int = 2
    says: str = ""


def template(source: str, says: str = "") -> Attack:
    return Attack(f"doc_to_text: {json.dumps(source)}\n", says=says)


def doubled(operation: str, start: str = "'x'") -> str:
    """A template that applies an operation to its own result sixty times."""
    loop = "{% for i in range(60) %}{% set ns.x = OPERATION %}{% endfor %}".replace("OPERATION", operation)
    return "{% set ns = namespace(x=START) %}".replace("START", start) + loop + "{{ ns.x }}"


TEMPLATES = {
    "class": template("{{ ''.__class__.__mro__[1].__subclasses__() }}", "reaches outside its sandbox"),
    "globals": template("{{ range.__globals__ }}"),
    "globals of a macro": template("{% macro m() %}{% endmacro %}{{ m.__init__.__globals__ }}"),
    "globals of a namespace": template("{{ namespace.__init__.__globals__ }}"),
    "environment": template("{{ self.environment }}"),
    "environment of a loop": template("{% for x in [1] %}{{ loop._context.environment }}{% endfor %}"),
    "spliced name": template("{{ ''|attr('__cla' ~ 'ss__') }}"),
    "format string": template("{{ '{0.__class__}'.format(question) }}"),
    "format string of a mapping": template("{{ '{q.__class__}'.format_map({'q': question}) }}"),
    "format filter with a class": template("{{ ['{0.__class__}']|map('format', question)|list|first|attr('x') }}"),
    "generator frame": template("{{ ([1]|map('string')).gi_frame.f_globals }}"),
    "import": template("{{ __import__('os').system('touch executed') }}"),
    "open": template("{{ open('executed', 'w') }}"),
    "change of a document": template("{{ choices.append('x') }}"),
    "change of a mapping": template("{% set d = {} %}{{ d.update(a=1) }}"),
    "key in the environment": template("{{ environ.OPENAI_API_KEY }}"),
    "key of the process": template("{{ self._TemplateReference__context.environment.globals }}"),
    "number that cannot be written": template("{{ 10 ** 4299 * 10 ** 4299 }}", "binary digits"),
    "include": template("{% include '/etc/passwd' %}"),
    "import of a template": template("{% import 'rows.jsonl' as rows %}{{ rows }}"),
    "extends": template("{% extends '/etc/passwd' %}"),
    "ljust": template("{{ 'x'.ljust(2000000000) }}", "asks for too much"),
    "rjust": template("{{ 'x'.rjust(2000000000) }}", "asks for too much"),
    "center": template("{{ 'x'.center(2000000000) }}", "asks for too much"),
    "zfill": template("{{ 'x'.zfill(2000000000) }}", "asks for too much"),
    "bytes": template("{{ 'x'.encode().ljust(2000000000) }}", "asks for too much"),
    "to_bytes": template("{{ (1).to_bytes(2000000000, 'big') }}", "asks for too much"),
    "expandtabs": template("{{ '\t'.expandtabs(2000000000) }}", "asks for too much"),
    "translate": template("{{ ('x' * 1000000).translate({120: 'y' * 1000000}) }}", "asks for too much"),
    "center filter": template("{{ 'x'|center(2000000000) }}", "asks for too much"),
    "center filter in a map": template("{{ ['x']|map('center', 2000000000)|list }}", "asks for too much"),
    "center filter as a block": template("{% filter center(2000000000) %}x{% endfilter %}", "asks for too much"),
    "product": template("{{ 'x' * 10000000000 }}", "asks for too much"),
    "product of a list": template("{{ [1] * 1000000000 }}", "asks for too much"),
    "power": template("{{ ((10 ** 1000) ** 1000) ** 1000 }}", "asks for too much"),
    "percent": template("{{ '%2000000000d' % 1 }}", "asks for too much"),
    "percent with precision": template("{{ '%.2000000000f' % 1 }}", "asks for too much"),
    "percent with a star": template("{{ '%*d' % (2000000000, 1) }}", "asks for too much"),
    "percent by name": template("{{ '%(a)s%(a)s%(a)s' % {'a': 'x' * 9000000} }}", "asks for too much"),
    "format filter": template("{{ '%2000000000d'|format(1) }}", "asks for too much"),
    "format method": template("{{ '{:2000000000}'.format(1) }}", "asks for too much"),
    "format method by argument": template("{{ '{:{}}'.format(1, 2000000000) }}", "asks for too much"),
    "tilde": template(doubled("ns.x ~ ns.x"), "asks for too much"),
    "plus": template(doubled("ns.x + ns.x"), "asks for too much"),
    "join": template(doubled("[ns.x, ns.x]|join"), "asks for too much"),
    "join method": template("{{ ('y' * 100000).join('x' * 100000) }}", "asks for too much"),
    "replace": template(doubled("ns.x.replace('x', 'xx')"), "asks for too much"),
    "replace filter": template("{{ ('x' * 100000)|replace('', 'y' * 100000) }}", "asks for too much"),
    "number": template(doubled("ns.x * ns.x", "7"), "asks for too much"),
    "lists in lists": template(doubled("[ns.x, ns.x]", "[1]"), "asks for too much"),
    "tuples in tuples": template(doubled("(ns.x, ns.x)", "(1,)"), "asks for too much"),
    "mappings in mappings": template(doubled("{1: ns.x, 2: ns.x}", "{}"), "asks for too much"),
    "namespaces in namespaces": template(doubled("namespace(a=ns.x, b=ns.x)", "1"), "asks for too much"),
    "namespace in itself": template("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns.x.x.nope }}"),
    "set block": template(doubled("1") + "{% set x %}xxxxx{% endset %}" + "{% set x %}{{ x * 9 }}{% endset %}" * 15),
    "long text in a loop": template("{% for i in range(99999) %}" + "y" * 9999 + "{% endfor %}", "asks for too much"),
    "loops": template("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
    "recursion": template("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}"),
    "recursion in two ways": template("{% macro m(n) %}" + "{{ m(n + 1) if n < 40 }}" * 2 + "{% endmacro %}{{ m(0) }}"),
    "recursive loop": template("{% for x in [1] recursive %}{{ loop([x, x]) }}{% endfor %}"),
    "caller": template(
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}" + "{% call m() %}" * 40 + "{% endcall %}" * 40
    ),
    "regular expression": template("{{ ('a' * 40 ~ 'b')|regex_replace('(a+)+$', '') }}", "asks for too much"),
    "regular expression that grows": template("{{ ('a' * 100000)|regex_replace('', 'y' * 100000) }}"),
    "regular expression on a long text": template("{{ ('x' * 5000000)|regex_replace('x*y', '') }}", "too much"),
    "power of a rounding": template("{{ 1.5|round(1000000000, 'ceil') }}"),
    "keys with one hash": template("{{ dict(range(0, (2 ** 61 - 1) * 99998, 2 ** 61 - 1)|batch(2)) }}"),
    "slice": template("{{ [1]|slice(1000000000)|list }}", "doc_to_text"),
    "batch": template("{{ [1]|batch(1000000000, 'x')|list }}", "asks for too much"),
    "indent": template("{{ 'x'|indent(1000000000, true) }}", "asks for too much"),
    "wordwrap": template("{{ ('x ' * 100000)|wordwrap(1, wrapstring='y' * 100000) }}", "asks for too much"),
    "tojson": template("{{ [[[1]]]|tojson(indent=1000000000) }}", "asks for too much"),
    "comparison": template(
        doubled("[ns.x, ns.x]", "[1]") + doubled("[ns.x, ns.x]", "[2]").replace("ns", "ms").replace("namems", "names")
        + "{{ ns.x == ms.x }}", "asks for too much",
    ),
    "nested too deeply": template("{{ " + "(" * 100000 + "1" + ")" * 100000 + " }}", "cannot be compiled"),
    "nested blocks": template("{% if 1 %}" * 3000 + "{% endif %}" * 3000, "cannot be compiled"),
    "nested loops": template("{% for i in [1] %}" * 30 + "{% endfor %}" * 30, "cannot be compiled"),
    "long sum": template("{{ " + "1+" * 20000 + "1 }}", "cannot be compiled"),
    "number of 5000 digits": template("{{ " + "9" * 5000 + " }}", "cannot be compiled"),
}  # fmt: skip

YAML: dict[str, str | bytes] = {
    "python object": "task: t\nmetadata: !!python/object/apply:os.system ['touch executed']\n",
    "python name": "task: t\nmetadata: !!python/name:os.system\n",
    "unknown tag": "task: t\nmetadata: !exec 'touch executed'\n",
    "function outside": "task: t\nprocess_docs: !function ../evil.run\n",
    "function by path": "task: t\nprocess_docs: !function /tmp/evil.run\n",
    "function of the system": "task: t\nprocess_docs: !function os.system\n",
    "aliases": "task: t\nmetadata:\n  a0: &a0 [x]\n"
    + "".join(f"  a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)),
    "aliases in formats": "task: t\nformats:\n  a0: &a0 {x: 1}\n"
    + "".join(f"  a{i}: &a{i} {{p: *a{i - 1}, q: *a{i - 1}, r: *a{i - 1}}}\n" for i in range(1, 24)),
    "merged aliases": "task: t\nmetadata:\n  a0: &a0 {x: 1}\n"
    + "".join(f"  a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 24)),
    "alias of itself": "task: t\nmetadata: &a [*a]\n",
    "alias of itself in a mapping": "task: t\nmetadata: &a {b: *a}\n",
    "deep list": "task: t\nmetadata: " + "[" * 20000 + "]" * 20000,
    "deep mapping": "task: t\nmetadata: " + "{a: " * 20000 + "}" * 20000,
    "deep indentation": "task: t\nmetadata:\n" + "".join(" " * i + "a:\n" for i in range(1, 1500)),
    "second document": "task: t\n---\ntask: u\n",
    "number of digits": "task: t\nrepeats: " + "9" * 10000 + "\n",
    "number in base 60": "task: t\nmetadata: {v: 1" + ":1" * 600000 + "}\n",
    "fraction in base 60": "task: t\nmetadata: {v: 1" + ":1" * 3000 + ".5}\n",
    "hexadecimal number": "task: t\nrepeats: 0x" + "f" * 20000 + "\n",
    "binary number": "task: t\nmetadata: {v: 0b" + "1" * 100000 + "}\n",
    "impossible date": "task: t\nmetadata: {d: 2024-99-99}\n",
    "not UTF-8": b"task: t\nmetadata: {d: \xff\xfe}\n",
    "null character": b"task: t\nmetadata: {d: \x00}\n",
}  # fmt: skip

KEYS = {
    "many repeats": "repeats: 1000000000\noutput_type: generate_until\n",
    "many few-shot examples": "num_fewshot: 1000000000\n",
    "number as the name of an argument": "output_type: generate_until\nmetric_list: [{metric: exact_match, 1: 2}]\n",
    "null as the name of an argument": "output_type: generate_until\nmetric_list: [{metric: exact_match, null: 2}]\n",
    "number as an argument of a filter": "filter_list: [{name: f, filter: [{function: take_first, 1: 2}]}]\n",
    "number in the kwargs of a metric": "output_type: generate_until\nmetric_list: [{metric: bleu, kwargs: {1: 2}}]\n",
    "number in the kwargs of a filter": "filter_list: [{name: f, filter: [{function: regex, kwargs: {2: x}}]}]\n",
    "number in the kwargs of a scorer": "output_type: generate_until\nscorer: {type: regex, kwargs: {1: 2}}\n",
    "number as a key of a format": "formats: {mcqa: {1: 2}}\n",
    "number as a key of generation": "output_type: generate_until\ngeneration_kwargs: {1: 2}\n",
    "number as a key of the data": "dataset_kwargs: {1: 2}\n",
    "number as a key of few-shot examples": "fewshot_config: {1: 2}\n",
    "number as a key of a perturbation": "perturbation: {1: 2}\n",
    "number as a key": "1: 2\n",
    "list as a key": "? [a, b]\n: 2\n",
}  # fmt: skip


def chain(number: int, *, times: int = 1) -> dict[str, str]:
    """Files that include the next one, each so many times."""
    files = {f"f{i}.yaml": f"include: [{', '.join([f'f{i + 1}.yaml'] * times)}]\n" for i in range(number)}
    return {**files, f"f{number}.yaml": "metadata: {version: 1}\n"}


INCLUDES = {
    "itself": Attack("include: task.yaml\n", says="include cycle"),
    "each other": Attack("include: f0.yaml\n", {"f0.yaml": "include: task.yaml\n"}, says="include cycle"),
    "fan": Attack("include: f0.yaml\n", chain(26, times=2), code=0),
    "fan, listed": Attack("include: f0.yaml\n", chain(26, times=2), LISTING, code=0),
    "wide fan": Attack(f"include: [{', '.join(['f0.yaml'] * 5000)}]\n", chain(3, times=200), says="include"),
    "chain": Attack("include: f0.yaml\n", chain(3000), says="include"),
    "chain, listed": Attack("include: f0.yaml\n", chain(300), LISTING, code=0, says="include"),  # each reads 30
    "folder": Attack("include: .\n", says="is a folder"),
    "device": Attack("include: /dev/zero\n", says="a pipe or device"),
    "endless pipe": Attack("include: /proc/self/fd/0\n"),
    "long name": Attack(f"include: {'x' * 5000}\n"),
    "null character in the name": Attack('include: "a\\0b"\n'),
    "secret file": Attack("include: secret.txt\n", {"secret.txt": f"password={SECRET}\n"}, says="expected a mapping"),
    "large file": Attack("include: large.yaml\n", {"large.yaml": "# " + "x" * 20_000_000}, says="too large"),
}  # fmt: skip


def groups(number: int, members: str) -> dict[str, str]:
    """Files of groups; in the members of one, ``NEXT`` is the next."""
    files = {f"g{i}.yaml": f"group: g{i}\ntask: {members.replace('NEXT', f'g{i + 1}')}\n" for i in range(number)}
    return {**files, f"g{number}.yaml": f"group: g{number}\ntask: [t]\n"}


GROUPED = "validate g0 --include_path ."
GROUPS = {
    "fan": Attack(files=groups(26, "[NEXT, NEXT]"), argv=GROUPED, says="more than 1,000 groups"),
    "fan, listed": Attack(files=groups(26, "[NEXT, NEXT]"), argv=LISTING, code=0),
    "itself": Attack(files={"g0.yaml": "group: g0\ntask: [g0]\n"}, argv=GROUPED, says="contains itself"),
    "each other": Attack(
        files={"g0.yaml": "group: g0\ntask: [g*]\n", "g1.yaml": "group: g1\ntask: [g*]\n"}, argv=GROUPED
    ),
    "chain": Attack(files=groups(2000, "[NEXT]"), argv=GROUPED),
}

PYTHON = {
    "deep expression": "NAME = " + "-" * 100000 + "1",
    "deep brackets": "NAME = " + "(" * 50000 + ")" * 50000,
    "long sum": "NAME = " + "1+" * 50000 + "1",
    "chain of classes": "class C0: pass\n" + "".join(f"class C{i}(C{i - 1}): NAME = 'c'\n" for i in range(1, 5000)),
    "null character": "NAME = 1\0",
    "not valid": "class T(BaseTask: NAME = 1",
}  # fmt: skip

CODE = {
    "SystemExit on import": "import sys\nsys.exit(0)\n",
    "SystemExit when called": "import sys\ndef f(docs):\n    sys.exit(0)\n",
    "exception of its own kind": "class Odd(BaseException): pass\ndef f(docs):\n    raise Odd\n",
    "GeneratorExit": "def f(docs):\n    raise GeneratorExit\n",
    "endless recursion": "def f(docs):\n    return f(docs)\n",
    "exit of a document": "import sys\ndef f(docs):\n    return [sys.exit(0) for doc in docs]\n",
}


SLOW = "(.|.)*(.|.)*(.|.)*(.|.)*(.|.)*(.|.)*!$"
RUN = "run task.yaml --model dummy --limit 1"
WRITING = "output_type: generate_until\ndoc_to_text: question\ndoc_to_target: question\n"
LONG = json.dumps({"question": "a" * 5000, "choices": ["a" * 5000, "b"]})
REGEXES = {
    "metric": f"metric_list: [{{metric: exact_match, regexes_to_ignore: ['{SLOW}']}}]\n",
    "scorer": f"scorer: {{type: regex, kwargs: {{regex_pattern: '{SLOW}'}}}}\n",
    "filter": f"filter_list: [{{name: f, filter: [{{function: multi_choice_regex, regexes_to_ignore: ['{SLOW}']}}]}}]",
}

#: Sets the title of a terminal, clears it, writes backwards, rings, and overwrites the line.
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202eabc\x9b31m\r\x7f\x08"
YAML_ESCAPES = json.dumps(ESCAPES)
ROW = json.dumps({"question": ESCAPES, "choices": [ESCAPES, "b"], "answer": 0, ESCAPES: ESCAPES})
TERMINAL = {
    "question, shown": Attack(files={"rows.jsonl": ROW}, argv="show task.yaml", code=0, says="owned"),
    "question, shown as JSON": Attack(files={"rows.jsonl": ROW}, argv="show task.yaml --json", code=0, says="owned"),
    "question, written out": Attack(files={"rows.jsonl": ROW}, argv="run task.yaml --model dummy --write_out", code=0),
    "column": Attack("doc_to_text: nope\n", {"rows.jsonl": ROW}, says="no column 'nope'"),
    "value": Attack("doc_to_choice: question\n", {"rows.jsonl": ROW}),
    "name": Attack(f"task: {YAML_ESCAPES}\n", argv=LISTING, code=0),
    "name of a run": Attack(f"task: {YAML_ESCAPES}\n", argv="run task.yaml --model dummy", code=0),
    "alias of a run": Attack(f"task_alias: {YAML_ESCAPES}\n", argv="run task.yaml@mcqa --model dummy", code=0),
    "filter of a run": Attack(
        f"formats: mcqa\nfilter_list: [{{name: {YAML_ESCAPES}, filter: [{{function: noop}}]}}]\n",
        argv="run task.yaml --model dummy", code=0,
    ),
    "tag": Attack(f"tag: [{YAML_ESCAPES}]\n", argv="ls tags --include_path .", code=0),
    "key": Attack(f"{YAML_ESCAPES}: 1\n", says="unknown key"),
    "metric": Attack(f"metric_list: [{{metric: {YAML_ESCAPES}}}]\n", says="unknown metric"),
    "include": Attack(f"include: {YAML_ESCAPES}\n", says="no file"),
    "template": template("{{ " + ESCAPES, "template syntax error"),
    "template, shown": Attack(f"doc_to_text: {YAML_ESCAPES}\n", argv="show task.yaml --jinja", code=0),
    "description, converted": Attack(
        f"formats: mcqa\ndescription: {YAML_ESCAPES}\n", argv="convert task.yaml --to template", code=0
    ),
    "command line": Attack(argv=f"validate {ESCAPES.replace(chr(13), '')}"),
}  # fmt: skip


def image() -> bytes:
    """A picture of four pixels."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(file, "PNG")
    return file.getvalue()


def pictured(path: str, **files: bytes) -> Attack:
    """A document that names a file as its image; `private.png` is a picture outside of the task's folder."""
    row = json.dumps({"question": "?", "choices": ["a", "b"], "answer": 0, "image": path})
    return Attack("doc_to_image: image\n", {"../private/private.png": image(), "rows.jsonl": row, **files})


MEDIA = {
    "absolute path": pictured("/PRIVATE/private.png"),
    "path upwards": pictured("../private/private.png"),
    "path down and upwards": pictured("cache/../../private/private.png"),
    "link": pictured("link.png"),
    "device": pictured("/dev/zero"),
    "process": pictured("/proc/self/environ"),
    "URL": pictured("http://127.0.0.1:9/a.png"),
    "file URL": pictured("file:///etc/passwd"),
    "data URL": pictured("data:image/png;base64,AAAA"),
    "not an image": pictured("rows.jsonl"),
    "large image": pictured("bomb.png", **{"bomb.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + b"\x00\x0f\xff\xff" * 2
                            + b"\x08\x02\x00\x00\x00" + b"\x00" * 4}),
    "null character": pictured("a\0b.png"),
    "long name": pictured("x" * 100000),
}  # fmt: skip


#: A metric in a folder of the working folder, which the library `evaluate` would run, and code beside the task.
WER = {"wer/wer.py": RUNS, "own.py": RUNS + "def f(docs):\n    return docs\n"}
HUB = WRITING + "metric_list: [{metric: NAME, hf_evaluate: true}]\n"
OWN = "process_docs: !function own.f\n"
PY = {"p.py": RUNS + "class T(BaseTask):\n    NAME = 'p'\n"}
CONSENT = {
    "metric of the working folder": Attack(HUB.replace("NAME", "wer"), WER),
    "metric of the working folder, run": Attack(HUB.replace("NAME", "wer"), WER, RUN + " --confirm_run_unsafe_code"),
    "metric by path": Attack(HUB.replace("NAME", "./wer"), WER),
    "metric of the hub, without consent": Attack(HUB.replace("NAME", "code_eval"), argv=RUN, says="--confirm_run"),
    "code that a model writes, without consent": Attack("unsafe_code: true\n", argv=RUN, says="--confirm_run"),
    "function without code": Attack(OWN, WER, "validate task.yaml --no_code", says="--no_code"),
    "function without code, shown": Attack(OWN, WER, "show task.yaml --no_code", says="--no_code"),
    "function without code, planned": Attack(OWN, WER, RUN + " --plan --no_code", says="--no_code"),
    "function without code, converted": Attack(OWN, WER, "convert task.yaml@mcqa --to style --no_code"),
    "function without code, inferred": Attack(OWN, WER, "formats infer task.yaml --no_code", says="--no_code"),
    "function without code, linted": Attack(OWN, WER, "lint task.yaml --no_code", says="--no_code"),
    "class without code": Attack("class: !function own.T\n", WER, "validate task.yaml --no_code", says="--no_code"),
    "Python task without code": Attack(files=PY, argv="validate p.py --no_code", says="--no_code"),
}


def attacks() -> dict[str, Attack]:
    """All attacks by name."""
    python = {name: Attack(files={"other.py": text}, argv=LISTING, code=0) for name, text in PYTHON.items()}
    named = {name: Attack(files={"other.py": text}, argv="validate other.py") for name, text in PYTHON.items()}
    code = {name: Attack("process_docs: !function own.f\n", {"own.py": text}) for name, text in CODE.items()}
    kinds = {
        "template": TEMPLATES,
        "yaml": {name: Attack(files={"task.yaml": text}) for name, text in YAML.items()},
        "key": {name: Attack(text) for name, text in KEYS.items()},
        "regular expression": {
            name: Attack(WRITING + text, {"rows.jsonl": LONG}, RUN) for name, text in REGEXES.items()
        },
        "include": INCLUDES,
        "group": GROUPS,
        "consent": CONSENT,
        "terminal": TERMINAL,
        "media": MEDIA,
        "python": python,
        "python, named": named,
        "code": code,
    }
    return {f"{kind}: {name}": attack for kind, table in kinds.items() for name, attack in table.items()}


ATTACKS = attacks()


def snapshot(folder) -> dict[str, str]:
    """The files of a folder but the caches, each with a hash of what it holds."""
    files = [path for path in folder.path.rglob("*") if path.is_file() and "cache" not in path.parts]
    return {str(path.relative_to(folder.path)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_there_are_more_than_a_hundred_attacks():
    assert len(ATTACKS) + len(CACHES) >= 100


@pytest.mark.long
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the limit may end a callback
def test_an_attack_comes_to_nothing_but_one_message(attack, folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    folder.task(attack.task)
    folder.write({"../evil.py": RUNS, "good.yaml": (folder.path / "task.yaml").read_text(), **attack.files})
    private = folder.path.parent / "private"
    if private.exists():
        (folder.path / "link.png").symlink_to(private / "private.png")
        rows = folder.path / "rows.jsonl"
        rows.write_text(rows.read_text().replace("/PRIVATE", str(private)))
    before = snapshot(folder)
    memory, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    ran = folder.run(*attack.argv.split())
    assert time.process_time() - started < MOST_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < MOST_MEMORY * 1024
    shown = ran.out + ran.err
    assert ran.code == attack.code, shown
    errors = [line for line in shown.splitlines() if line.startswith("error:")]
    assert len(errors) == (0 if attack.code == 0 else 1), shown
    assert attack.says in shown
    assert "Traceback" not in shown
    assert "this is a bug" not in shown
    assert SECRET not in shown
    assert not RAW.search(shown)
    # A list of tasks has those of the library, too.
    assert len(ran.err if attack.argv.startswith("ls") else shown) < 5000
    assert snapshot(folder) == before


PICKLE = b"cos\nsystem\n(S'touch executed'\ntR."
#: What a stranger may put into a file of cached prompts; `None` stands for the file cut in half.
CACHES: dict[str, bytes | None] = {
    "cut in half": None,
    "empty": b"",
    "pickle": PICKLE,
    "nested": b"[" * 100_000,
    "without requests": b'{"requests": 2, "key": "", "count": 0, "sha256": ""}\n',
    "not text": bytes(range(256)),
    "long number": b"9" * 10_000 + b"\n",
    "other prompts": b'{"doc_id": 0, "idx": 0, "metadata": null, "kind": "RollingRequest", "request": {"text": "x"}}\n',
}


@pytest.mark.parametrize("content", CACHES.values(), ids=CACHES.keys())
def test_hostile_files_of_cached_prompts_are_made_anew_with_one_message(content, folder):
    folder.task()
    command = ("run", "task.yaml", "--model", "dummy", "--cache_requests", "--json")
    first = folder.run(*command)
    [file] = (folder.path / "cache").rglob("requests-*.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    before = snapshot(folder)
    again = folder.run(*command)
    assert again.json()["results"] == first.json()["results"]
    assert len([line for line in again.err.splitlines() if line.startswith("WARNING:")]) == 1
    assert "Traceback" not in again.err
    assert file.read_bytes() == whole
    assert snapshot(folder) == before
