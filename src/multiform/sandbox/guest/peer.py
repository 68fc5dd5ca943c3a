"""Peer: calls to objects of another process.

Plain values (numbers, text, collections, dates, arrays) are copied from one process to the other, as JSON and not as
pickles, which could hold code. Every other object stays where it is, and the other process gets a `Remote` for it.

A remote object is equal to no plain value and takes part in no arithmetic: otherwise a class of the program could
say that its results are the expected ones.
"""

import builtins
import datetime
import importlib
import json
import socket
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

#: Larger integers are sent in hexadecimal: Python converts no longer ones from decimal.
_LARGE = 10**300
#: The longest message, in bytes.
_LONGEST = 256 * 2**20
#: Types of arrays: numbers and text, no objects.
_ARRAY_TYPES = "biufcSU"
_BUILTIN_TYPES = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, object)
#: How types are sent: the exact type, its content, and how it is read again. Content is encoded once more.
_TYPES: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tuple": (tuple, list, tuple),
    "set": (set, list, set),
    "frozenset": (frozenset, list, frozenset),
    "counter": (Counter, lambda value: [list(item) for item in value.items()], lambda items: Counter(dict(items))),
    "ordered": (OrderedDict, lambda value: [list(item) for item in value.items()], OrderedDict),
    "default": (
        defaultdict,
        lambda value: [value.default_factory, [list(item) for item in value.items()]],
        lambda content: defaultdict(content[0], content[1]),
    ),
    "dict": (dict, lambda value: [list(item) for item in value.items()], dict),
    "deque": (deque, lambda value: [list(value), value.maxlen], lambda content: deque(content[0], content[1])),
    "complex": (complex, lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    "bytes": (bytes, lambda value: value.decode("latin-1"), lambda text: text.encode("latin-1")),
    "bytearray": (bytearray, lambda value: value.decode("latin-1"), lambda text: bytearray(text.encode("latin-1"))),
    "range": (range, lambda value: [value.start, value.stop, value.step], lambda ends: range(*ends)),
    "slice": (slice, lambda value: [value.start, value.stop, value.step], lambda ends: slice(*ends)),
    "decimal": (Decimal, str, Decimal),
    "fraction": (Fraction, lambda value: [value.numerator, value.denominator], lambda parts: Fraction(*parts)),
    "datetime": (datetime.datetime, lambda value: value.isoformat(), datetime.datetime.fromisoformat),
    "date": (datetime.date, lambda value: value.isoformat(), datetime.date.fromisoformat),
    "time": (datetime.time, lambda value: value.isoformat(), datetime.time.fromisoformat),
    "timedelta": (
        datetime.timedelta,
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: datetime.timedelta(*parts),
    ),
}
_NAME_BY_TYPE = {python_type: name for name, (python_type, _, _) in _TYPES.items()}
#: What an object of a subclass is sent as.
_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    *((int, int.__int__), (float, float.__float__), (str, str.__str__), (bytes, bytes), (list, list), (tuple, tuple)),
    *((set, set), (frozenset, frozenset), (dict, dict), (deque, deque)),
)
#: Beginnings of names that lead from an object to the code that made it.
_INNER_NAMES = ("_", "f_", "tb_", "gi_", "cr_", "ag_", "co_")
_SHOWN_NAMES = ("__name__", "__qualname__", "__doc__")


class Remote:
    """An object of the other process."""

    __slots__ = ("_remote_id", "_remote_peer")

    def __init__(self, peer: "Peer", number: int) -> None:
        object.__setattr__(self, "_remote_peer", peer)
        object.__setattr__(self, "_remote_id", number)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._remote_peer.call(self, args, kwargs)
        except StopIteration as error:  # which would end a loop of the tests
            raise RuntimeError("a function raised StopIteration") from error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _SHOWN_NAMES:  # protocols by which libraries take over other objects
            raise AttributeError(name)
        return self._remote_peer.ask("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._remote_peer.ask("setattr", self, name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._remote_peer.ask("getitem", self, key)

    def __iter__(self) -> Any:
        return self._remote_peer.ask("iter", self)

    def __next__(self) -> Any:
        return self._remote_peer.ask("next", self)

    def __len__(self) -> Any:
        return self._remote_peer.ask("len", self)

    def __bool__(self) -> bool:
        return self._remote_peer.ask("bool", self) is True

    def __str__(self) -> str:
        return str(self._remote_peer.ask("str", self))

    def __repr__(self) -> str:
        return str(self._remote_peer.ask("repr", self))

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Remote) and self._remote_peer.ask("isinstance", instance, self) is True

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Remote):
            return self is other or self._remote_peer.ask("eq", self, other) is True
        return NotImplemented

    def __lt__(self, other: object) -> Any:
        return self._remote_peer.ask("lt", self, other) is True if isinstance(other, Remote) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._remote_id)


#: What can be asked of an object that was sent.
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "getattr": getattr,
    "setattr": setattr,
    "getitem": lambda value, key: value[key],
    "iter": iter,
    "next": next,
    "len": len,
    "bool": bool,
    "str": str,
    "repr": repr,
    "isinstance": isinstance,
    "eq": lambda value, other: bool(value == other),
    "lt": lambda value, other: bool(value < other),
}


class Peer:
    """One end of the connection between two processes.

    A `guarded` end does not let the other one look into the code of its objects.
    `on_end` is called when the other process has ended, and does not return.
    """

    def __init__(self, connection: socket.socket, *, guarded: bool, on_end: Callable[[], Any]) -> None:
        self._stream = connection.makefile("rwb")
        self._guarded = guarded
        self._on_end = on_end
        self._sent: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._remotes: dict[int, Remote] = {}
        #: The names that `lookup` finds.
        self.names: dict[str, Any] = {}

    def send(self, message: Any) -> None:
        """Send a message of plain JSON."""
        data = json.dumps(message).encode()
        try:
            self._stream.write(struct.pack("!Q", len(data)) + data)
            self._stream.flush()
        except OSError:
            self._on_end()

    def receive(self) -> Any:
        """The next message."""
        try:
            header = self._stream.read(8)
            length = struct.unpack("!Q", header)[0] if len(header) == 8 else _LONGEST + 1
            return json.loads(self._stream.read(length) if length <= _LONGEST else b"")
        except (OSError, ValueError, RecursionError):  # the other process has ended, or sends something else
            self._on_end()

    def ask(self, operation: str, *values: Any) -> Any:
        """The value of an operation on an object of the other process."""
        return self._exchange([operation, [self.encode(value) for value in values]])

    def call(self, function: Remote, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function of the other process; what it changes in its arguments is changed here, too."""
        encoded = [[self.encode(arg) for arg in args], [[name, self.encode(value)] for name, value in kwargs.items()]]
        return self._exchange(["call", [self.encode(function), *encoded]], args)

    def _exchange(self, request: Any, args: Sequence[Any] = ()) -> Any:
        self.send(request)
        while True:
            message, *content = self.receive()
            if message == "value":
                value, changes = content
                for position, state in changes:
                    _update(args[position], self.decode(state))
                is_argument = isinstance(value, dict) and "argument" in value
                return args[value["argument"]] if is_argument else self.decode(value)
            if message == "error":
                raise self._error(*content)
            self.serve(message, *content)

    def serve(self, operation: str, values: Sequence[Any]) -> None:
        """Do what the other process asks for, and send the value or the error."""
        try:
            reply = self._call(*values) if operation == "call" else ["value", self._perform(operation, values), []]
        except BaseException as error:  # noqa: BLE001 - it is raised in the other process
            names = [base.__name__ for base in type(error).__mro__]
            reply = ["error", names, self._plain_arguments(error)]
        self.send(reply)

    def _perform(self, operation: str, values: Sequence[Any]) -> Any:
        if operation == "names":
            return list(self.names)
        if operation == "lookup":
            return self.encode(self._find(self.decode(values[0])))
        decoded = [self.decode(value) for value in values]
        if self._guarded and operation in ("getattr", "setattr"):
            _check_access(operation, *decoded)
        return self.encode(_OPERATIONS[operation](*decoded))

    def _call(self, function: Any, args: Sequence[Any], kwargs: Sequence[Any]) -> Any:
        decoded = [self.decode(value) for value in args]
        before = [self.encode(value) for value in decoded]
        value = self.decode(function)(*decoded, **{name: self.decode(value) for name, value in kwargs})
        changes = [
            [position, state]
            for position, state in enumerate(self.encode(value) for value in decoded)
            if state != before[position]
        ]
        same = [position for position, arg in enumerate(decoded) if arg is value and isinstance(arg, list | dict | set)]
        return ["value", {"argument": same[0]} if same else self.encode(value), changes]

    def encode(self, value: Any) -> Any:
        """The value as JSON: a copy of a plain one, the number of any other."""
        value_type = type(value)
        if value is None or value_type in (bool, str, float):
            return value
        if value_type is int:
            return value if -_LARGE < value < _LARGE else {"int": hex(value)}
        if value_type is list:
            return [self.encode(item) for item in value]
        if value_type in _NAME_BY_TYPE:
            name = _NAME_BY_TYPE[value_type]
            return {name: self.encode(_TYPES[name][1](value))}
        if value_type is Remote:
            return {"yours": value._remote_id}
        if value is ... or value is NotImplemented:
            return {"constant": repr(value)}
        if value_type is type and value in _BUILTIN_TYPES:
            return {"type": value.__name__}
        array = self._encode_array(value)
        if array is not None:
            return array
        copy = next((copy for base, copy in _BASES if isinstance(value, base)), None)
        return {"mine": self._number(value)} if copy is None else self.encode(copy(value))

    def _encode_array(self, value: Any) -> Any:
        """An array or number of numpy, where that is loaded."""
        numpy = sys.modules.get("numpy")
        if numpy is None or not isinstance(value, numpy.ndarray | numpy.generic):
            return None
        if value.dtype.kind not in _ARRAY_TYPES:
            return None
        data = numpy.ascontiguousarray(value).tobytes().decode("latin-1")
        return {"array": [value.dtype.str, list(value.shape), data, isinstance(value, numpy.generic)]}

    def decode(self, value: Any) -> Any:
        """The value of JSON."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        [(name, content)] = value.items()
        if name in _TYPES:
            return _TYPES[name][2](self.decode(content))
        if name == "int":
            return int(content, 16)
        if name == "mine":
            return self._remotes.setdefault(content, Remote(self, content))
        if name == "yours":
            return self._sent[content]
        if name == "type":
            return next(known for known in _BUILTIN_TYPES if known.__name__ == content)
        if name == "constant":
            return ... if content == "Ellipsis" else NotImplemented
        if name == "array":
            return _decode_array(*content)
        raise ValueError(f"no value is sent as {name!r}")

    def _number(self, value: Any) -> int:
        """The number under which the other process knows an object, which is kept for it."""
        number = self._numbers.setdefault(id(value), len(self._sent))
        if number == len(self._sent):
            self._sent.append(value)
        return number

    def lookup(self, name: str) -> Any:
        """The value of a name of the other process; what that has imported is imported here as well."""
        how, *content = self.ask("lookup", name)
        if how == "value":
            return content[0]
        module = importlib.import_module(str(content[0]))
        if how == "module":
            return module
        value = getattr(module, str(content[1]))
        if content[0] == "typing" or isinstance(value, type | FunctionType | BuiltinFunctionType):
            return value
        raise TypeError(f"{content[1]} is neither a function nor a class")

    def _find(self, name: str) -> list[Any]:
        """The value of a name, as `lookup` of the other process reads it."""
        value = self.names[name]
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        for module in (getattr(value, "__module__", None), type(value).__module__):
            if not isinstance(module, str) or module.partition(".")[0] not in sys.stdlib_module_names:
                continue
            attribute = getattr(value, "__qualname__", name)
            if module not in ("__main__", "builtins") and vars(sys.modules[module]).get(attribute) is value:
                return ["global", module, attribute]
        return ["value", value]

    def _plain_arguments(self, error: BaseException) -> Any:
        """The arguments of an error where they are plain, else its text."""
        plain = (str, int, float, bool, type(None))
        try:
            return [self.encode(arg) if type(arg) in plain else str(arg) for arg in error.args]
        except Exception:  # noqa: BLE001 - an error's text may be anybody's code
            return []

    def _error(self, names: Sequence[str], args: Sequence[Any]) -> BaseException:
        """The error of the other process: of the same class if it is one of Python's, else of its nearest one."""
        known = [getattr(builtins, name, None) for name in names]
        base = next(
            error_class
            for error_class in known
            if isinstance(error_class, type) and issubclass(error_class, BaseException)
        )
        own = names[0] != base.__name__ and names[0].isidentifier()
        error_class = type(names[0], (base,), {}) if own else base
        try:
            error: BaseException = error_class(*self.decode(list(args)))
            return error
        except TypeError:  # its constructor takes others, as UnicodeDecodeError's does
            return RuntimeError(f"{names[0]}: {args}")


def _check_access(operation: str, value: Any, name: Any, *_: Any) -> None:
    """Refuse what leads from an object of the tests to their code, and changes of what is not theirs."""
    inner = str(name).startswith(_INNER_NAMES) or isinstance(value, ModuleType)
    if inner or (operation == "setattr" and type(value).__module__ != "__main__"):
        raise AttributeError(f"'{name}' belongs to the tests")


def _decode_array(dtype: str, shape: Sequence[int], data: str, scalar: bool) -> Any:
    import numpy

    element = numpy.dtype(dtype)
    if element.kind not in _ARRAY_TYPES:
        raise ValueError(f"no array is sent with the type {dtype!r}")
    array = numpy.frombuffer(bytearray(data.encode("latin-1")), dtype=element).reshape(shape)
    return array[()] if scalar else array


def _update(target: Any, state: Any) -> None:
    """Give a collection the content that it has in the other process."""
    if isinstance(target, list | bytearray):
        target[:] = state
    elif isinstance(target, dict | set):
        target.clear()
        target.update(state)
    elif isinstance(target, deque):
        target.clear()
        target.extend(state)
    elif type(target).__name__ == "ndarray":
        target[...] = state
