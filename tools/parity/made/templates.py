"""What Jinja templates read of a document."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes

from multiform.prompts.template import Sandbox
from tools.parity.made import shapes
from tools.parity.made.shapes import Known, Shape

_LIST_FILTERS = frozenset(
    ("batch", "first", "groupby", "join", "last", "list", "map", "max", "min", "random", "reject", "rejectattr",
     "reverse", "select", "selectattr", "slice", "sort", "sum", "unique")
)  # fmt: skip
_TEXT_FILTERS = frozenset(
    ("capitalize", "center", "e", "escape", "indent", "lower", "regex_replace", "replace", "safe", "striptags",
     "title", "trim", "truncate", "upper", "wordcount", "wordwrap")
)  # fmt: skip
_ENVIRONMENT = Sandbox()


def read_template(source: str, doc: Shape) -> Any:
    """Note what a template reads; gives the shape of its only expression, if it is just that."""
    tree = _ENVIRONMENT.parse(source)
    walker = _Walker(doc)
    only = tree.body[0].nodes if len(tree.body) == 1 and isinstance(tree.body[0], nodes.Output) else []
    if len(only) == 1 and not isinstance(only[0], nodes.TemplateData):
        return walker.value(only[0])
    walker.walk(tree)
    return None


class _Walker:
    """Goes through a template, with what its own names stand for."""

    def __init__(self, doc: Shape) -> None:
        self.doc = doc
        self.names: dict[str, Any] = dict.fromkeys(_ENVIRONMENT.globals)

    def walk(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.For):
            self._bind(node.target, shapes.iterated(self.value(node.iter)), node.iter)
            for inner in [*node.body, *node.else_, *([node.test] if node.test else [])]:
                self.walk(inner)
        elif isinstance(node, nodes.Assign):
            value = self.value(node.node)
            if isinstance(node.target, nodes.Name):
                self.names[node.target.name] = value
        elif isinstance(node, nodes.Expr):
            self.value(node)
        else:
            for child in node.iter_child_nodes():
                self.walk(child)

    def value(self, node: nodes.Node) -> Any:
        """What an expression is."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            return method(node)
        for child in node.iter_child_nodes():
            self.value(child)
        return None

    def _bind(self, target: nodes.Node, item: Any, source: nodes.Node) -> None:
        if isinstance(target, nodes.Name):
            self.names[target.name] = item
        elif isinstance(target, nodes.Tuple):
            for name in target.items:
                if isinstance(name, nodes.Name):
                    self.names[name.name] = None

    def _name(self, node: nodes.Name) -> Any:
        if node.name == "loop" or node.name in self.names:
            return self.names.get(node.name)
        return self.doc.key(node.name)

    def _const(self, node: nodes.Const) -> Any:
        return Known(node.value)

    def _list(self, node: nodes.List) -> Any:
        values = [self.value(item) for item in node.items]
        return Known([v.value if isinstance(v, Known) else None for v in values]) if values else Known([])

    _tuple = _list

    def _dict(self, node: nodes.Dict) -> Any:
        pairs = [(self.value(pair.key), self.value(pair.value)) for pair in node.items]
        return Known({k.value: v.value if isinstance(v, Known) else None for k, v in pairs if isinstance(k, Known)})

    def _getattr(self, node: nodes.Getattr) -> Any:
        return shapes.looked_up(self.value(node.node), Known(node.attr))

    def _getitem(self, node: nodes.Getitem) -> Any:
        base = self.value(node.node)
        if isinstance(node.arg, nodes.Slice):
            for part in node.arg.iter_child_nodes():
                shapes.calculated([self.value(part)])
            return shapes.looked_up(base, slice(None))
        return shapes.looked_up(base, self.value(node.arg))

    def _call(self, node: nodes.Call) -> Any:
        arguments = [self.value(argument) for argument in node.args]
        for keyword in node.kwargs:
            self.value(keyword.value)
        if isinstance(node.node, nodes.Getattr):
            return shapes.method_called(self.value(node.node.node), node.node.attr, arguments)
        if isinstance(node.node, nodes.Name) and node.node.name == "range":
            shapes.calculated(arguments)
        return None

    def _filter(self, node: nodes.Filter) -> Any:
        base = self.value(node.node) if node.node is not None else None
        arguments = [self.value(argument) for argument in node.args]
        if node.name in _LIST_FILTERS:
            item = shapes.iterated(base)
            return item if node.name in ("first", "last", "random") else base
        if isinstance(base, Shape):
            if node.name in _TEXT_FILTERS:
                base.kinds.add("text")
            elif node.name in ("int", "float", "abs", "round"):
                base.kinds.add("digits")
                return Shape(kinds={"number"})
            elif node.name in ("length", "count"):
                shapes.counted(base)
                return None
            elif node.name in ("items", "dictsort"):
                base.kinds.add("mapping")
            elif node.name == "answer_key_to_index":
                base.kinds.add("letter")
        del arguments
        return base

    def _compare(self, node: nodes.Compare) -> Any:
        left = self.value(node.expr)
        for operand in node.ops:
            right = self.value(operand.expr)
            if operand.op in ("in", "notin"):
                shapes.searched(right, left)
            elif operand.op in ("eq", "ne"):
                shapes.compared(left, right)
            else:
                shapes.calculated([left, right])
        return None

    def _arithmetic(self, node: Any) -> Any:
        values = [self.value(node.left), self.value(node.right)]
        if not any(isinstance(value, Known) and isinstance(value.value, str | list) for value in values):
            shapes.calculated(values)
        return Shape(kinds={"number"})

    _sub = _mul = _div = _floordiv = _pow = _arithmetic

    def _add(self, node: nodes.Add) -> Any:
        values = [self.value(node.left), self.value(node.right)]
        if any(isinstance(value, Known) and isinstance(value.value, int) for value in values):
            shapes.calculated(values)
        return Shape()

    def _condexpr(self, node: nodes.CondExpr) -> Any:
        self.value(node.test)
        first = self.value(node.expr1)
        second = self.value(node.expr2) if node.expr2 is not None else None
        return first if first is not None else second
