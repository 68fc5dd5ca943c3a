"""What Python functions read of a document, from their source."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.parity.made import shapes
from tools.parity.made.shapes import Function, Known, Rows, Shape

_Env = dict[str, Any]
_DEPTH = 12
_ITERATING = frozenset(
    ("list", "tuple", "set", "sorted", "reversed", "iter", "frozenset", "shuffle", "max", "min", "sum")
)
_ROWS_METHODS = frozenset(("map", "filter"))


def read_function(function: Callable[..., Any], argument: Shape | Rows) -> Any:
    """Note what a function reads of its first argument; gives the shape of what it returns."""
    bound: dict[str, Any] = {}
    given: list[Any] = []
    while isinstance(function, functools.partial):
        given = [*map(Known, function.args), *given]
        bound = {**{key: Known(value) for key, value in function.keywords.items()}, **bound}
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    module = _Module.of(Path(code.co_filename), vars(inspect.getmodule(function) or object))
    node = module.function_at(code.co_firstlineno, code.co_name)
    around = {name: Known(value) for name, value in inspect.getclosurevars(function).nonlocals.items()}
    return _Walker(module).call(node, [*given, argument], around, bound) if node is not None else None


class _Module:
    """The functions of a source file, and the values of its names."""

    def __init__(self, tree: ast.Module, values: Mapping[str, Any]) -> None:
        self.tree = tree
        self.values = values
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}

    @classmethod
    def of(cls, path: Path, values: Mapping[str, Any]) -> _Module:
        return cls(_parsed(path), values)

    def function_at(self, line: int, name: str) -> ast.FunctionDef | ast.Lambda | None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                lines = (node.lineno, *(decorator.lineno for decorator in node.decorator_list))
                if line in lines:
                    return node
            if isinstance(node, ast.Lambda) and name == "<lambda>" and node.lineno == line:
                return node
        return None


@functools.lru_cache(maxsize=1024)
def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return ast.Module([], [])


class _Walker:
    """Goes through functions, with what their names stand for."""

    def __init__(self, module: _Module, depth: int = 0) -> None:
        self.module = module
        self.depth = depth
        self.returned: Any = None

    def call(self, node: ast.FunctionDef | ast.Lambda, given: list[Any], around: _Env, bound: _Env) -> Any:
        """Go through a function with these arguments; gives what it returns."""
        if self.depth > _DEPTH:
            return None
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        values = [self.value(default, around) for default in node.args.defaults]
        defaults = dict(zip(names[len(names) - len(values) :], values, strict=True))
        env = {**around, **dict.fromkeys(names), **defaults, **dict(zip(names, given, strict=False)), **bound}
        inner = _Walker(self.module, self.depth + 1)
        if isinstance(node, ast.Lambda):
            return inner.value(node.body, env)
        inner.block(node.body, env)
        return inner.returned

    def block(self, statements: list[ast.stmt], env: _Env) -> None:
        for statement in statements:
            self.statement(statement, env)

    def statement(self, node: ast.stmt, env: _Env) -> None:
        if isinstance(node, ast.FunctionDef):
            env[node.name] = self._function(node, env)
        elif isinstance(node, ast.Return):
            made = self.value(node.value, env) if node.value is not None else None
            self.returned = made if made is not None else self.returned
        elif isinstance(node, ast.Assign):
            made = self.value(node.value, env)
            for target in node.targets:
                self._bind(target, made, env)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, self.value(node.value, env), env)
        elif isinstance(node, ast.For):
            self._bind(node.target, self._each(node.iter, env), env)
            self.block([*node.body, *node.orelse], env)
        elif isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
            return
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    self.statement(child, env)
                elif isinstance(child, ast.expr):
                    self.value(child, env)
                elif isinstance(child, ast.ExceptHandler):
                    self.block(child.body, env)

    def value(self, node: ast.expr | None, env: _Env) -> Any:
        """What an expression is."""
        if node is None:
            return None
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            return method(node, env)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, env)
        return None

    def _bind(self, target: ast.expr, value: Any, env: _Env) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value if isinstance(value, list) else [None] * len(target.elts)
            for one, part in zip(target.elts, [*parts, *[None] * len(target.elts)], strict=False):
                self._bind(one, part, env)
        elif isinstance(target, ast.Subscript):
            base = self.value(target.value, env)
            if not isinstance(base, Shape):  # what is written into a document is not read from it
                self.value(target.slice, env)

    def _each(self, node: ast.expr, env: _Env) -> Any:
        """What a loop's name stands for; of several names, a list of what each stands for."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            inner = [self._each(argument, env) for argument in node.args]
            if node.func.id == "enumerate":
                return [Shape(kinds={"number"}), *inner[:1]]
            if node.func.id == "zip":
                return inner
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items":
            base = self.value(node.func.value, env)
            if isinstance(base, Shape):
                base.kinds.add("mapping")
            return [None, next(iter(base.keys.values()), None) if isinstance(base, Shape) else None]
        made = self.value(node, env)
        return None if isinstance(made, list) else shapes.iterated(made)

    def _name(self, node: ast.Name, env: _Env) -> Any:
        if node.id in env:
            return env[node.id]
        if node.id in self.module.functions:
            inner = self.module.functions[node.id]
            return self._function(inner, {})
        found = self.module.values.get(node.id)
        return Known(found) if isinstance(found, str | int | float | list | dict | tuple) else None

    def _constant(self, node: ast.Constant, env: _Env) -> Any:
        return Known(node.value)

    def _list(self, node: ast.List | ast.Tuple, env: _Env) -> Any:
        values = [self.value(item, env) for item in node.elts]
        return Known([v.value for v in values]) if all(isinstance(v, Known) for v in values) else None

    _tuple = _set = _list

    def _dict(self, node: ast.Dict, env: _Env) -> Any:
        values = [
            (self.value(key, env), self.value(value, env)) for key, value in zip(node.keys, node.values, strict=True)
        ]
        if values and all(isinstance(key, Known) and isinstance(value, Known) for key, value in values):
            return Known({key.value: value.value for key, value in values})
        return None

    def _lambda(self, node: ast.Lambda, env: _Env) -> Any:
        return self._function(node, env)

    def _function(self, node: ast.FunctionDef | ast.Lambda, env: _Env) -> Function:
        return Function(lambda given, named: self.call(node, given, env, named))

    def _joinedstr(self, node: ast.JoinedStr, env: _Env) -> Any:
        parts = [self.value(part.value if isinstance(part, ast.FormattedValue) else part, env) for part in node.values]
        known = all(isinstance(part, Known) for part in parts)
        return Known("".join(str(part.value) for part in parts)) if known else None

    def _subscript(self, node: ast.Subscript, env: _Env) -> Any:
        base = self.value(node.value, env)
        if isinstance(node.slice, ast.Slice):
            return shapes.looked_up(base, slice(None))
        return shapes.looked_up(base, self.value(node.slice, env))

    def _call(self, node: ast.Call, env: _Env) -> Any:
        arguments = [self.value(argument, env) for argument in node.args]
        named = {keyword.arg: self.value(keyword.value, env) for keyword in node.keywords if keyword.arg}
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, [*arguments, *named.values()], env)
        function = self.value(node.func, env)
        if isinstance(function, Function):
            return self._computed(node.func, arguments, named) or function.call(arguments, named)
        return _builtin(node.func.id, arguments) if isinstance(node.func, ast.Name) else None

    def _computed(self, node: ast.expr, arguments: list[Any], named: dict[str, Any]) -> Known | None:
        """What a function of the module gives for values that are all known."""
        real = self.module.values.get(node.id) if isinstance(node, ast.Name) else None
        if not callable(real) or not all(isinstance(one, Known) for one in (*arguments, *named.values())):
            return None
        try:
            return Known(real(*(one.value for one in arguments), **{key: one.value for key, one in named.items()}))
        except Exception:  # noqa: BLE001 whatever it raises, the value is not known then
            return None

    def _method(self, node: ast.Attribute, arguments: list[Any], env: _Env) -> Any:
        if node.attr in ("loads", "literal_eval") and arguments and isinstance(arguments[0], Shape):
            return arguments[0].parsed()
        base = self.value(node.value, env)
        if isinstance(base, Rows):
            callback = next((one for one in arguments if isinstance(one, Function)), None)
            if node.attr in _ROWS_METHODS and callback is not None:
                callback.call([base.row], {})
            return base
        if node.attr in _ITERATING or node.attr in ("sample", "choice"):
            for argument in arguments:
                shapes.iterated(argument) if isinstance(argument, Shape) else None
        if node.attr in ("sub", "findall", "match", "search", "split") and base is None:
            for argument in arguments:
                if isinstance(argument, Shape):
                    argument.kinds.add("text")
        return shapes.method_called(base, node.attr, arguments)

    def _compare(self, node: ast.Compare, env: _Env) -> Any:
        left = self.value(node.left, env)
        for operator, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand, env)
            if isinstance(operator, ast.In | ast.NotIn):
                shapes.searched(right, left)
            elif isinstance(operator, ast.Eq | ast.NotEq):
                shapes.compared(left, right)
            elif isinstance(operator, ast.Lt | ast.Gt | ast.LtE | ast.GtE):
                shapes.calculated([left, right])
        return None

    def _binop(self, node: ast.BinOp, env: _Env) -> Any:
        values = [self.value(node.left, env), self.value(node.right, env)]
        known = [value for value in values if isinstance(value, Known)]
        numbers = all(isinstance(value.value, int | float) for value in known)
        if numbers and not isinstance(node.op, ast.Mod) and (known or not isinstance(node.op, ast.Add)):
            shapes.calculated(values)
        elif isinstance(node.op, ast.Add) and any(_is_text(value) for value in values):
            for value in values:
                if isinstance(value, Shape):
                    value.kinds.add("text")
        return Shape()

    def _ifexp(self, node: ast.IfExp, env: _Env) -> Any:
        self.value(node.test, env)
        first, second = self.value(node.body, env), self.value(node.orelse, env)
        return first if first is not None else second

    def _listcomp(self, node: Any, env: _Env) -> Any:
        inner = dict(env)
        for generator in node.generators:
            self._bind(generator.target, self._each(generator.iter, inner), inner)
            for test in generator.ifs:
                self.value(test, inner)
        for part in ("elt", "key", "value"):
            self.value(getattr(node, part, None), inner)
        return None

    _generatorexp = _setcomp = _dictcomp = _listcomp


def _builtin(name: str, arguments: list[Any]) -> Any:
    """What a call of a built-in function says about its arguments."""
    first = arguments[0] if arguments else None
    if name == "len":
        shapes.counted(first)
    elif name in ("int", "float") and isinstance(first, Shape):
        first.kinds.add("digits")
        return Shape(kinds={"number"})
    elif name == "ord" and isinstance(first, Shape):
        first.kinds.add("letter")
    elif name in ("range", "chr"):
        shapes.calculated(arguments)
    elif name in ("eval", "loads", "literal_eval") and isinstance(first, Shape):
        return first.parsed()
    elif name in _ITERATING and isinstance(first, Shape | Rows):
        shapes.iterated(first)
        return first
    elif name == "str":
        return first
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, Known) and isinstance(value.value, str)
