"""Classes of the tree: what may be an instance of one, what it inherits, and where its attributes are bound."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterator, Sequence

from gpulint.semantic.argument_binding import RECEIVERS
from gpulint.semantic.attribute_sources import FIELDS
from gpulint.semantic.qualified_names import QualifiedNames
from gpulint.workspace.module_index import FUNCTIONS, Binding, ModuleIndex, NodeRef, last_name

_CONSTRUCTORS = frozenset({"from_pretrained", "from_config", "load_from_checkpoint", "model_validate", "parse_obj"})
"""Class methods of libraries that make an instance of the class."""

_FILLS = frozenset(
    {
        "tyro.cli", "simple_parsing.parse", "pyrallis.parse", "draccus.parse", "omegaconf.OmegaConf.structured",
        "dacite.from_dict", "jsonargparse.CLI", "jsonargparse.auto_cli",
    }
)  # fmt: skip
"""Functions that make an instance of the class that they are given, of options or of a file."""


class ClassHierarchy(QualifiedNames):
    """Classes in the modules of one project, for which somebody else finds the expressions that define a value."""

    @abstractmethod
    def points_to(self, module: ModuleIndex, node: ast.AST, path: tuple[int, ...] = ()) -> tuple[NodeRef, ...]:
        """The expressions, definitions or parameters that may define the value of ``node``; never empty."""

    def classes_of(self, module: ModuleIndex, node: ast.expr) -> list[tuple[ModuleIndex, ast.ClassDef]]:
        """Classes of the tree that the value of ``node`` may be an instance of (or be itself)."""
        if isinstance(node, ast.Name) and node.id in RECEIVERS:
            home = module.class_of(node)
            return [(module, home)] if home is not None else []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            home = module.class_of(node)
            return self.bases(module, home) if home is not None else []
        found: list[tuple[ModuleIndex, ast.ClassDef]] = []
        for ref in self.points_to(module, node):
            if ref.path:
                continue
            if isinstance(ref.node, ast.ClassDef):
                found.append((ref.module, ref.node))
            elif isinstance(ref.node, ast.Call):
                func = ref.node.func
                if isinstance(func, ast.Attribute) and func.attr in _CONSTRUCTORS:
                    func = func.value
                elif self.call_names(ref.module, ref.node) & _FILLS:
                    func = _filled(ref.node) or func
                found += self._own(ref.module, func)
                for made in self.points_to(ref.module, func):
                    if isinstance(made.node, ast.ClassDef):
                        found.append((made.module, made.node))
            for annotation in _declared(ref):
                for made in self.points_to(ref.module, annotation):
                    if isinstance(made.node, ast.ClassDef):
                        found.append((made.module, made.node))
        return list(dict.fromkeys(found))

    @staticmethod
    def _own(module: ModuleIndex, func: ast.expr) -> list[tuple[ModuleIndex, ast.ClassDef]]:
        """The class of ``cls(...)`` in a class method."""
        home = module.class_of(func) if isinstance(func, ast.Name) and func.id == "cls" else None
        return [(module, home)] if home is not None else []

    def bases(self, module: ModuleIndex, node: ast.ClassDef) -> list[tuple[ModuleIndex, ast.ClassDef]]:
        """Direct base classes that are defined in the tree."""
        found = []
        for base in node.bases:
            for ref in self.points_to(module, _unsubscripted(base)):
                if isinstance(ref.node, ast.ClassDef) and ref.node is not node:
                    found.append((ref.module, ref.node))
        return found

    def mro(self, module: ModuleIndex, node: ast.ClassDef) -> list[tuple[ModuleIndex, ast.ClassDef]]:
        """The class and its bases in the tree, nearest first."""
        seen: dict[ast.ClassDef, ModuleIndex] = {}
        todo = [(module, node)]
        while todo and len(seen) < 20:
            where, current = todo.pop(0)
            if current not in seen:
                seen[current] = where
                todo.extend(self.bases(where, current))
        return [(where, current) for current, where in seen.items()]

    def base_names(self, module: ModuleIndex, node: ast.ClassDef) -> frozenset[str]:
        """Qualified names of all bases, also those outside of the tree."""
        names: set[str] = set()
        for where, current in self.mro(module, node):
            for base in current.bases:
                names |= self.names(where, _unsubscripted(base))
        return frozenset(names)

    def class_attribute(self, module: ModuleIndex, node: ast.ClassDef, attr: str) -> list[tuple[ModuleIndex, Binding]]:
        """Bindings of ``attr`` on a class or its instances; the nearest class that has any decides, but what inherited
        methods wrap (``self.model = DDP(self.model)``) counts as well."""
        order = self.mro(module, node)
        for number, (where, current) in enumerate(order):
            body = where.scope_of[current].bindings.get(attr, []) if current in where.scope_of else []
            bindings = [*where.attributes.get((current, attr), []), *body]
            if bindings:
                wrapped = _wrapped_by_bases(order, number, attr)
                return [*((where, binding) for binding in bindings), *wrapped]
        return []

    def stores_of(
        self, module: ModuleIndex, item: ast.AST, base: ast.expr, key: str
    ) -> Iterator[tuple[ast.Subscript, ast.expr]]:
        """Yield what a module stores under a constant key as an item is written; of ``self.parts["head"]`` in the class
        of the item, its bases and subclasses alone."""
        root = base
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        owner = module.class_of(item) if isinstance(root, ast.Name) and root.id in RECEIVERS else None
        for target, stored, _ in module.stored_under(last_name(base), key):
            if stored is None or not isinstance(target, ast.Subscript) or ast.unparse(target) != ast.unparse(item):
                continue
            other = module.class_of(target) if owner is not None else None
            if owner is None or other is None or self._are_related(module, owner, other):
                yield target, stored

    def _are_related(self, module: ModuleIndex, one: ast.ClassDef, other: ast.ClassDef) -> bool:
        above, below = self.mro(module, one), self.mro(module, other)
        return any(base is other for _, base in above) or any(base is one for _, base in below)

    def method(self, module: ModuleIndex, node: ast.ClassDef, name: str) -> NodeRef | None:
        """The method ``name`` of a class or its nearest base in the tree."""
        for where, binding in self.class_attribute(module, node, name):
            if isinstance(binding.node, FUNCTIONS):
                return NodeRef(where, binding.node)
        return None


def _wrapped_by_bases(
    order: Sequence[tuple[ModuleIndex, ast.ClassDef]], number: int, attr: str
) -> Iterator[tuple[ModuleIndex, Binding]]:
    """Yield where methods that classes after one of the order have, and none before them overrides, make an attribute
    of what it was."""
    for later in range(number + 1, len(order)):
        where, current = order[later]
        for binding in where.attributes.get((current, attr), ()):
            if not _wraps(binding.value, attr):
                continue
            method = getattr(where.function(binding.node), "name", "")
            if not any(getattr(part, "name", "") == method for _, nearer in order[:later] for part in nearer.body):
                yield where, binding


def _wraps(value: ast.expr | None, attr: str) -> bool:
    """``DDP(self.model)``"""
    return isinstance(value, ast.Call) and any(
        isinstance(part, ast.Attribute)
        and part.attr == attr
        and isinstance(part.value, ast.Name)
        and part.value.id == "self"
        for part in value.args
    )


def _unsubscripted(base: ast.expr) -> ast.expr:
    """The class of ``TrainUnit[Batch]``."""
    return base.value if isinstance(base, ast.Subscript) else base


def _declared(ref: NodeRef) -> Iterator[ast.expr]:
    """The types that a parameter or a field of a class is declared with; those of a union each."""
    node = ref.node
    if isinstance(node, ast.Call) and last_name(node.func) in FIELDS:
        node = ref.module.syntax.parents.get(node, node)
    todo = [node.annotation] if isinstance(node, ast.arg | ast.AnnAssign) else []
    while todo:
        match todo.pop():
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                todo += [left, right]
            case ast.Subscript(value=outer, slice=inner) if last_name(outer) in ("Optional", "Union", "Annotated"):
                todo += inner.elts if isinstance(inner, ast.Tuple) else [inner]
            case ast.Name() | ast.Attribute() as plain:
                yield plain


def _filled(call: ast.Call) -> ast.expr | None:
    """The class that a call fills from options or a file."""
    named = (keyword.value for keyword in call.keywords if keyword.arg in ("config_class", "data_class", "f"))
    return call.args[0] if call.args else next(named, None)
