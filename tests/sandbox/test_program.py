"""Programs that a model has written: they pass their tests or fail, forge no verdict, and reach nothing outside."""

# ruff: noqa: E501  (programs and their tests, each on a line)

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiform import ModelError, evaluate
from multiform.cli.main import main
from multiform.sandbox import CodeEval, program, run_program

pytestmark = pytest.mark.process

#: The sandboxes whose kernel features a test can really use.
KERNEL = ("bwrap", "landlock")


@pytest.fixture(scope="module", params=KERNEL)
def sandboxed(request: pytest.FixtureRequest) -> str:
    problem = program._problem(request.param)
    if problem is not None:
        pytest.skip(f"{request.param} does not work here: {problem}")
    return str(request.param)


HARMLESS = {
    "assertion": "assert 1 + 1 == 2",
    "libraries": "import math, json, re, collections, heapq, itertools, datetime, random\nassert math.pi > 3",
    "numbers": "import numpy\nassert numpy.ones(3).sum() == 3",
    "output": "print('x' * 1000)",
    "file of its own": "open('x', 'w').write('a')\nassert open('x').read() == 'a'",
    "temporary file": "import tempfile\ntempfile.TemporaryFile().write(b'a')",
    "thread": "import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()",
    "event loop": "import asyncio\nasync def f(): return 1\nassert asyncio.run(f()) == 1",
    "nowhere": "import os\nopen(os.devnull, 'w').write('a')",
    "main": "if __name__ != '__main__': raise ValueError",
}


@pytest.mark.parametrize("source", HARMLESS.values(), ids=HARMLESS.keys())
def test_a_harmless_program_passes(source, sandboxed):
    assert run_program(source, sandbox=sandboxed).result == "passed"


#: Programs with tests that they pass, though these run in another process.
TESTED = {
    "plain values": ("def f(x): return x", "for x in [1, 2**5000, 1.5, 1j, 'a', b'a', None, (1, [2]), {1: {2}}, range(3)]:"
                     "\n    assert f(x) == x and type(f(x)) is type(x)"),
    "collections": ("def f(x): return x", "from collections import *\nfrom decimal import Decimal\nfrom fractions import "
                    "Fraction\nimport datetime\nfor x in [Counter('aab'), deque([1], 2), OrderedDict(a=1), "
                    "defaultdict(list, a=[1]), Decimal('1.10'), Fraction(1, 3), datetime.date(2024, 2, 29)]:\n"
                    "    assert f(x) == x and type(f(x)) is type(x)"),
    "arrays": ("import numpy as np\ndef f(n): return np.arange(n) * 0.5", "import numpy as np\n"
               "assert np.allclose(f(3), [0, .5, 1])\nassert f(3)[1] == 0.5 and isinstance(f(3)[1], np.float64)"),
    "named tuple": ("from collections import namedtuple\nP = namedtuple('P', 'a b')\ndef f(): return P(1, 2)",
                    "assert f() == (1, 2)"),
    "changed argument": ("def f(x): x.sort()", "x = [3, 1, 2]\nassert f(x) is None and x == [1, 2, 3]"),
    "argument as the result": ("def f(x): x.append(1); return x", "x = []\nassert f(x) is x and x == [1]"),
    "class of the program": ("class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\n"
                             "def f(pairs): return [p.b for p in pairs]", "p = Pair(3, 4)\np.b = 5\n"
                             "assert f([p, Pair(1, 2)]) == [5, 2] and p.a == 3 and isinstance(p, Pair)"),
    "equality of its objects": ("class A:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return "
                                "self.x == o.x", "assert A(1) == A(1) and A(1) != A(2)"),
    "generator": ("def f(n): yield from range(n)", "assert list(f(3)) == [0, 1, 2] and next(f(1)) == 0"),
    "closure": ("def f(n): return lambda x: x + n", "assert f(2)(3) == 5"),
    "function of the tests": ("def f(g, xs): return [g(x) for x in xs]", "assert f(lambda x: x * 2, [1, 2]) == [2, 4]"),
    "object of the tests": ("def f(n): return n.value + n.next.value", "class N:\n    def __init__(self, v, n=None): "
                            "self.value, self.next = v, n\nassert f(N(1, N(2))) == 3"),
    "error": ("def f(x): raise KeyError(x)", "try:\n    f('a')\nexcept KeyError as e:\n    assert e.args == ('a',)\n"
              "else:\n    assert False"),
    "error of its own": ("class E(ValueError): pass\ndef f(): raise E('no')",
                         "try: f()\nexcept ValueError as e: assert str(e) == 'no'\nelse: assert False"),
    "imports of the program": ("import math\nfrom typing import List\nfrom functools import reduce\ndef f(x): return x",
                               "def g(xs: List[int]): return reduce(max, xs)\nassert math.floor(g([f(2.5)])) == 2"),
    "name of a builtin": ("def sum(a, b): return a + b", "assert sum(1, 2) == 3"),
    "global variable": ("LIMIT = [1, 2]", "assert LIMIT == [1, 2]"),
    "keywords": ("def f(*, a, b=2): return a - b", "assert f(a=3) == 1 and f(b=1, a=1) == 0"),
    "truth of an object": ("import re\ndef f(x): return re.match('a', x)", "assert f('ab') and not f('b')"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "checks"), TESTED.values(), ids=TESTED.keys())
def test_tests_in_another_process_see_what_the_program_defines(source, checks):
    assert run_program(source, checks, seconds=10).result == "passed"


PEER = "import gc\npeer = [o for o in gc.get_objects() if type(o).__name__ == 'Peer'][0]\n"
REPORT = '{"passed": true, "result": "passed", "protection": []}'
#: Programs that do not solve the task, `f(2) == 4`, and want to be told that they do.
FORGERIES = {
    "exit of the process": "import os\nos._exit(0)",
    "exit of the process when called": "import os\ndef f(x): os._exit(0)",
    "exit": "raise SystemExit(0)",
    "exit when called": "def f(x): raise SystemExit(0)",
    "printed report": f"print('''{REPORT}''')\ndef f(x): return x",
    "report to every file": f"import os\nfor n in range(64):\n    try: os.write(n, b'''{REPORT}''')\n"
    "    except OSError: pass\nos._exit(0)",
    "report at the end": f"import atexit, os\natexit.register(lambda: os.write(1, b'''{REPORT}'''))\ndef f(x): exit()",
    "report of a thread": "import threading, os\ndef run():\n    while True:\n        for n in range(3, 9):\n            "
    "try: os.write(n, b'[\"ready\"]')\n            except OSError: pass\nthreading.Thread(target=run).start()",
    "equal to everything": "class A:\n    def __eq__(self, o): return True\ndef f(x): return A()",
    "number that is equal to everything": "class A(int):\n    def __eq__(self, o): return True\ndef f(x): return A(5)",
    "list that is equal to everything": "class A(list):\n    def __eq__(self, o): return True\ndef f(x): return A()",
    "mock": "from unittest.mock import ANY\ndef f(x): return ANY",
    "mock instead of a function": "from unittest.mock import MagicMock as f",
    "message with a mock": PEER + "type(peer).encode = lambda s, v: {'global': ['unittest.mock', 'ANY']}\ndef f(x): pass",
    "message with a verdict": PEER + "def f(x):\n    peer.send(['passed'])\n    peer.send({'passed': True})",
    "message with code": PEER + "def f(x): peer.send(['call', [{'type': 'exec'}, ['raise SystemExit'], []]])",
    "claim to be ready": PEER + "peer.send(['ready'])\npeer.send(['value', [], []])\nimport os\nos._exit(0)",
    "failure called passed": "class passed(Exception): pass\nraise passed",
    "no assertions": "import builtins\nbuiltins.AssertionError = type('X', (Exception,), {})\ndef f(x): return x",
    "other compiler": "import builtins\nbuiltins.compile = builtins.exec = lambda *a, **k: None\ndef f(x): return x",
    "trace": "import sys\nsys.settrace(lambda *a: sys.exit(0))\ndef f(x): return x",
    "signal": "import signal, sys\nsignal.signal(signal.SIGALRM, lambda *a: sys.exit(0))\nsignal.alarm(1)\ndef f(x): 1",
    "end of the tests' process": "import os\ndef f(x):\n    os.kill(os.getppid(), 9)\n    os.kill(os.getppid(), 15)",
    "memory of the tests' process": "import os\ndef f(x):\n    open(f'/proc/{os.getppid()}/mem', 'r+b').write(b'x')",
    "tracing of the tests' process": "import ctypes, os\nl = ctypes.CDLL(None, use_errno=True)\n"
    "def f(x): return 4 if l.ptrace(16, os.getppid(), 0, 0) == 0 else 0",
    "files of the tests' process": f"import os\ndef f(x):\n    for n in os.listdir(f'/proc/{{os.getppid()}}/fd'):\n"
    f"        open(f'/proc/{{os.getppid()}}/fd/{{n}}', 'w').write('''{REPORT}''')\n    os._exit(0)",
    "search for the expected value": "import gc, sys\ndef f(x):\n    texts = [v for o in gc.get_objects() if isinstance(o, "
    "dict) for v in list(o.values())]\n    frame = sys._getframe()\n    while frame:\n        texts += "
    "frame.f_locals.values()\n        frame = frame.f_back\n    return 4 if any('f(2) %s 4' % '==' in str(t) for t in texts if "
    "isinstance(t, (str, dict, bytes))) else 0",
    "other tests": "def check(f): pass\ndef f(x): return x",
    "other builtin": "def print(*a): raise SystemExit\ndef f(x): return x",
    "end of the input": "def f(x): raise StopIteration",
    "second process": "import os\nif os.fork() == 0: os._exit(0)\ndef f(x): return 4",
}  # fmt: skip


@pytest.mark.parametrize("source", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_program_does_not_forge_its_verdict(source, sandboxed):
    outcome = run_program(source, "assert f(2) == 4", seconds=2, sandbox=sandboxed)
    assert not outcome.passed
    assert outcome.result not in ("", "passed")


CLOSE = {
    "distance": ("def abs(x): return 0\ndef f(x): return x", "assert abs(f(2) - 4) < 1e-6"),
    "module": ("class math:\n    fabs = staticmethod(lambda x: 0)\ndef f(x): return x", "assert math.fabs(f(2) - 4) < 1"),
    "other module": ("import unittest.mock as math\ndef f(x): return x", "assert math.fabs(f(2) - 4) < 1"),
    "arithmetic": ("class A:\n    def __sub__(self, o): return 0\n    __rsub__ = __sub__\ndef f(x): return A()",
                   "assert abs(f(2) - 4) < 1e-6"),
    "order": ("class A:\n    __lt__ = __le__ = __gt__ = __ge__ = lambda s, o: True\ndef f(x): return A()",
              "assert 3 < f(2) < 5"),
    "array": ("class A:\n    @property\n    def __array_interface__(self): return {'shape': (), 'typestr': '<i8', "
              "'data': (id(4), True), 'version': 3}\ndef f(x): return A()", "import numpy\nassert numpy.allclose(f(2), 4)"),
    "end of a loop": ("def f(x): raise StopIteration", "for a, b in zip(map(f, [2]), [4]): assert a == b"),
    "membership": ("class A:\n    def __contains__(self, x): return True\n    def __iter__(self): return iter(())\n"
                   "def f(x): return A()", "assert 4 in f(2)"),
    "frame of a generator": ("def f(g): return g.gi_frame.f_globals['EXPECTED']",
                             "EXPECTED = 4\nassert f(x for x in [1]) == EXPECTED"),
    "globals of a function": ("def f(g): return g.__globals__['EXPECTED']", "EXPECTED = 4\nassert f(lambda: 0) == EXPECTED"),
    "change of a function": ("def f(g): g.x = 4", "def g(): pass\nf(g)\nassert g.x == 4"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "checks"), CLOSE.values(), ids=CLOSE.keys())
def test_a_program_does_not_change_what_its_tests_compute(source, checks):
    assert not run_program(source, checks, seconds=5).passed


SYSTEM = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
#: Programs that pass if they reach what is outside: TARGET is a file, PORT a server, PID a process, DB a database.
ATTACKS = {
    "write": "open(TARGET, 'w').write('x')",
    "append": "open(TARGET, 'a').write('x')",
    "read": "assert open(TARGET).read()",
    "read the users of the machine": "assert open('/etc/passwd').read()",
    "low-level open": "import os\nos.open(TARGET, os.O_WRONLY | os.O_TRUNC)",
    "open by the C library": SYSTEM + "assert libc.open(TARGET.encode(), 577, 0o600) >= 0",
    "remove": "import os\nos.remove(TARGET)",
    "rename": "import os\nos.rename(TARGET, TARGET + 'x')",
    "remove all": "import os, shutil\nshutil.rmtree(os.path.dirname(TARGET))",
    "new file": "import os\nopen(os.path.join(os.path.dirname(TARGET), 'new'), 'w')",
    "new folder": "import os\nos.mkdir(TARGET + 'x')",
    "symbolic link": "import os\nos.symlink(TARGET, 'x')\nopen('x', 'w').write('x')",
    "hard link": "import os\nos.link(TARGET, 'x')\nopen('x', 'w').write('x')",
    "truncate": "import os\nos.truncate(TARGET, 0)",
    "rights": "import os\nos.chmod(TARGET, 0o777)",
    "time": "import os\nos.utime(TARGET, (0, 0))",
    "attribute": "import os\nos.setxattr(TARGET, 'user.x', b'x')",
    "history of readline, written": "import readline\nreadline.add_history('x')\nreadline.write_history_file(TARGET)",
    "history of readline, read": "import readline\nreadline.read_history_file(TARGET)\n"
    "assert readline.get_current_history_length()",
    "database": "import sqlite3\nc = sqlite3.connect(DB)\nc.execute('update t set x = 2')\nc.commit()",
    "database, attached": "import sqlite3\nc = sqlite3.connect('x')\nc.execute('attach ? as d', (DB,))\n"
    "c.execute('update d.t set x = 2')\nc.commit()",
    "log": "import logging\nlogging.FileHandler(TARGET, 'w')",
    "memory map": "import mmap, os\nf = os.open(TARGET, os.O_RDWR)\nmmap.mmap(f, 4)[:] = b'xxxx'",
    "pipe": "import os\nos.mkfifo(os.path.join(os.path.dirname(TARGET), 'pipe'))",
    "pipe in its folder": "import os\nos.mkfifo('pipe')",
    "device": "import os, stat\nos.mknod('x', 0o600 | stat.S_IFCHR, os.makedev(1, 5))",
    "shell": "import os\nassert os.system('true') == 0",
    "shell of another module": "import multiprocessing.util as u, os\n"
    "assert os.waitpid(u.spawnv_passfds(b'/bin/sh', [b'sh', b'-c', b'true'], []), 0)[1] == 0",
    "subprocess": "import subprocess\nsubprocess.run(['/bin/true'], check=True)",
    "fork": "import os\nassert os.fork() >= 0",
    "fork by the C library": SYSTEM + "assert libc.fork() >= 0",
    "exec": "import os\nos.execv('/bin/true', ['true'])",
    "posix_spawn": "import os\nos.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
    "worker process": "import multiprocessing as m\nwith m.get_context('fork').Pool(1) as p: p.map(abs, [1])",
    "kill": "import os\nos.kill(PID, 9)",
    "kill the parent": "import os\nos.kill(os.getppid(), 9)",
    "kill all": "import os\nos.kill(-1, 9)",
    "kill by descriptor": "import os, signal\nsignal.pidfd_send_signal(os.pidfd_open(PID), 9)",
    "kill by the C library": SYSTEM + "assert libc.kill(PID, 9) == 0",
    "signal to the owner of a pipe": "import fcntl, os, signal\nr, w = os.pipe()\nfcntl.fcntl(r, 8, PID)\n"
    "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)\nos.write(w, b'x')",
    "limits of another process": "import resource\nresource.prlimit(PID, resource.RLIMIT_CPU, (0, 0))",
    "priority of another process": "import os\nos.setpriority(os.PRIO_PROCESS, PID, 19)",
    "memory of another process": "open(f'/proc/{PID}/mem', 'rb')",
    "environment of another process": "assert open(f'/proc/{PID}/environ').read()",
    "tracing": SYSTEM + "assert libc.ptrace(16, PID, 0, 0) == 0",
    "network": "import socket\nsocket.create_connection(('127.0.0.1', PORT))",
    "web": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:PORT/')",
    "datagram": "import socket\nsocket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
    "raw socket": "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "abstract socket": "import socket\nsocket.socket(socket.AF_UNIX).bind('\\0name')",
    "kernel rings": SYSTEM + "assert libc.syscall(425, 4, bytes(120)) >= 0",
    "mount": SYSTEM + "assert libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
    "namespace": SYSTEM + "assert libc.unshare(0x10000000) == 0",
    "other root": "import os\nos.chroot('.')",
    "shared memory": "from multiprocessing import shared_memory\nshared_memory.SharedMemory('multiform-x', True, 8)",
    "daemon": "import os\nos.setsid()",
    "limits": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
    "environment": "import os\nassert 'CANARY' in os.environ",
    "large file": "open('x', 'w').write('a' * 10**8)",
    "memory": "x = 'a' * 10**11",
    "endless loop": "while True: pass",
    "endless wait": "import time\ntime.sleep(1000)",
    "not Python": "def f(:",
}  # fmt: skip


@pytest.fixture(scope="module")
def victim() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    stats = {path: path.stat() for path in folder.iterdir()}
    return {path.name: (path.read_bytes(), stat.st_mode, stat.st_mtime_ns) for path, stat in stats.items()}


@pytest.mark.parametrize("source", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_harmful_program_fails_and_changes_nothing(source, sandboxed, tmp_path, monkeypatch, victim):
    monkeypatch.setenv("CANARY", "secret")
    (tmp_path / "precious").write_text("here\n" * 3)
    with sqlite3.connect(tmp_path / "answers.db") as database:
        database.execute("create table t as select 1 as x")
    database.close()
    before = snapshot(tmp_path)
    names = {
        "TARGET": repr(str(tmp_path / "precious")),
        "DB": repr(str(tmp_path / "answers.db")),
        "PID": str(victim.pid),
    }
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        server.settimeout(0)
        datagrams.bind(server.getsockname())
        datagrams.settimeout(0)
        for name, value in {**names, "PORT": str(server.getsockname()[1])}.items():
            source = source.replace(name, value)
        outcome = run_program(source, seconds=1, sandbox=sandboxed)
        with pytest.raises(BlockingIOError):
            server.accept()
        with pytest.raises(BlockingIOError):
            datagrams.recv(10)
    assert not outcome.passed
    assert snapshot(tmp_path) == before
    assert victim.poll() is None
    assert os.getpriority(os.PRIO_PROCESS, victim.pid) == os.getpriority(os.PRIO_PROCESS, 0)


def test_the_tables_hold_more_than_a_hundred_attacks():
    assert len(FORGERIES) + len(CLOSE) + len(ATTACKS) >= 100


def test_the_solutions_of_humaneval_pass(mirror):
    lines = (mirror / "openai" / "openai_humaneval" / "default" / "test.jsonl").read_text().splitlines()
    for row in map(json.loads, lines[:8]):
        tests = f"{row['test']}\ncheck({row['entry_point']})"
        assert run_program(row["prompt"] + row["canonical_solution"], tests, seconds=20).result == "passed"


@pytest.mark.slow
def test_the_solutions_of_mbpp_pass_as_they_do_in_one_process(mirror):
    lines = (mirror / "google-research-datasets/mbpp/full/test.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        tests = "\n".join(row["test_list"])
        together = subprocess.run([sys.executable, "-c", f"{row['code']}\n{tests}"], capture_output=True, check=False)
        assert run_program(row["code"], tests, seconds=20).passed == (together.returncode == 0), row["task_id"]


def test_what_protects_the_machine_is_said(sandboxed):
    protection = run_program("", sandbox=sandboxed).protection
    assert protection[0] == sandboxed
    assert protection[-2:] == ("seccomp", "resource limits")
    assert ("Landlock" in protection) == (sandboxed == "landlock")


def test_a_sandbox_that_does_not_start_is_no_wrong_program(monkeypatch):
    monkeypatch.setattr(program, "command", lambda *_: ["/bin/sh", "-c", "echo no space left >&2; exit 1"])
    with pytest.raises(ModelError, match="the sandbox none could not be started for a program: no space left"):
        run_program("", sandbox="none")


@pytest.mark.parametrize(("seconds", "result"), [(60, "the process of its tests ended"), (0.1, "timed out")])
def test_a_test_process_that_ends_or_hangs_is_a_failed_program(seconds, result, monkeypatch):
    ending = "sleep 60" if result == "timed out" else "exit 1"
    monkeypatch.setattr(program, "command", lambda *_: ["/bin/sh", "-c", f"echo started; {ending}"])
    monkeypatch.setattr(program, "_STARTING", 1.0)
    assert run_program("", sandbox="none", seconds=seconds).result == result


def test_pass_at_k_is_that_of_the_library_evaluate():
    good, bad = "def f(x): return 2 * x", "def f(x): return x"
    tests = ["assert f(2) == 4", "assert f(3) == 6"]
    values, results = CodeEval().compute(references=tests, predictions=[[good, bad, bad], [bad] * 3], k=[1, 2, 5])
    assert values == {"pass@1": pytest.approx(1 / 6), "pass@2": pytest.approx(1 / 3)}
    assert [entry["passed"] for _, entry in results[0]] == [True, False, False]


UTILS = """
import evaluate
pass_at_k = evaluate.load("code_eval")
pass_at_k.compute(references=["assert add(2, 3) == 5"], predictions=[["def add(a, b): return a * b"]], k=[1])
def pass_at_1(references, predictions):
    return pass_at_k.compute(references=references, predictions=[predictions[0]], k=[1])[0]["pass@1"]
def build_predictions(resps, docs):
    return [[doc["prompt"] + r for r in resp] for resp, doc in zip(resps, docs)]
"""
TASK = """
task: programs
dataset_path: rows.jsonl
test_split: test
unsafe_code: true
output_type: generate_until
doc_to_text: prompt
doc_to_target: "{{ test }}\\ncheck({{ entry_point }})"
metric_list: [{metric: !function utils.pass_at_1, aggregation: mean, higher_is_better: true}]
filter_list: [{name: create_test, filter: [{function: custom, filter_fn: !function utils.build_predictions}]}]
"""


@pytest.fixture
def task(tmp_path: Path) -> str:
    (tmp_path / "utils.py").write_text(UTILS)
    (tmp_path / "programs.yaml").write_text(TASK)
    tests = ["def check(f):\n    assert f(2) == 4\n", "def check(f):\n    assert f(2) == 5\n"]
    rows = [{"prompt": "def twice(x):\n", "test": test, "entry_point": "twice"} for test in tests]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "programs.yaml")


def test_a_task_like_humaneval_runs_its_programs_here_and_only_with_consent(task, capsys):
    assert main(["run", task, "--model", "dummy"]) == 2
    assert "add --confirm_run_unsafe_code" in capsys.readouterr().err
    results = evaluate(
        tasks=[task], model="dummy", model_args={"text": "    return 2 * x\n"}, confirm_run_unsafe_code=True
    )
    assert results["programs"]["pass_at_1,create_test"] == 0.5


@pytest.mark.parametrize("flags", [(), ("--sandbox", "landlock"), ("--sandbox", "bwrap")])
def test_a_run_is_refused_where_no_sandbox_works(task, flags, monkeypatch, capsys):
    monkeypatch.setattr(program, "_problem", lambda name: None if name == "none" else "the kernel is too old")
    assert main(["run", task, "--model", "dummy", "--confirm_run_unsafe_code", *flags]) == 2
    said = capsys.readouterr().err
    assert "--sandbox" in said
    assert "the kernel is too old" in said
    assert "Traceback" not in said


def test_a_run_without_a_sandbox_is_possible_and_said(task, monkeypatch, capsys):
    monkeypatch.setattr(program, "_problem", lambda name: None if name == "none" else "the kernel is too old")
    program._say_once.cache_clear()
    assert main(["run", task, "--model", "dummy", "--confirm_run_unsafe_code", "--sandbox", "none"]) == 0
    assert "--sandbox none: programs of the model run with your rights" in capsys.readouterr().err


def test_the_sandbox_of_a_run_is_in_its_results(task, tmp_path):
    arguments = ["run", task, "--model", "dummy", "--confirm_run_unsafe_code", "--sandbox", "none"]
    assert main([*arguments, "--output_path", str(tmp_path / "out.json")]) == 0
    [file] = tmp_path.glob("out*.json")
    assert '"sandbox": "none"' in file.read_text()
