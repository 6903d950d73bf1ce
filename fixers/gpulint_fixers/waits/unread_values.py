"""Sums and lists of a training step that nothing reads, so that the step need not make them."""

from __future__ import annotations

import ast

from gpulint_rules.data.unread_totals import unread_total

from gpulint import regex
from gpulint.documents.python import PythonModule, walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.source import Span
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name
from gpulint_fixers.edits.comments import code_in_comments
from gpulint_fixers.edits.statements import remove_statement, with_own_comment, without_gaps
from gpulint_fixers.waits.console_reads import may_be_read_in_console
from gpulint_fixers.waits.deferred_reads import Variable
from gpulint_fixers.waits.fix_kinds import Removal
from gpulint_fixers.waits.mistaken_uses import named_instead
from gpulint_fixers.waits.replaced_values import of_one_value

_READS = frozenset(
    {"item", "detach", "cpu", "float", "double", "mean", "sum", "int", "len", "size", "numpy", "tolist"}
) | {"items", "values", "keys"}
"""What computes a value and does nothing else."""
_JOINS = frozenset({"concatenate", "array", "asarray", "stack", "cat", "vstack", "hstack"})
"""Functions that join the values of a list, and do nothing else."""
_EMPTY = frozenset({"array", "empty", "zeros", "tensor"})
"""Functions that make an array, perhaps an empty one."""
_PLAIN = (
    ast.Name
    | ast.Attribute
    | ast.Subscript
    | ast.Constant
    | ast.Compare
    | ast.BoolOp
    | ast.UnaryOp
    | ast.cmpop
    | ast.boolop
    | ast.unaryop
    | ast.expr_context
)
"""What tests have that call nothing."""
_FINDS = ("locals", "vars", "globals", "eval", "exec")
"""Functions that find a variable without its name."""
_TIMES = regex.compile(r"(?i)time|profil|bench|throughput")
"""What a function has that measures: a read may be there to wait for the GPU."""
_MISTAKEN = "nothing reads `{}`, while `{}` is handed on twice: one of these may be a mistake"


def unread(project: Project, variable: Variable, statement: ast.stmt) -> Fix | Declined | None:
    """Remove the statement that adds to a variable, and what it starts as; None if anything reads the variable."""
    nodes = variable.occurrences()
    if nodes is None or not _is_own(project, variable) or _is_given(variable):
        return None
    statement = _emptied(variable, statement)
    own, starts = set(walk(statement)), list[ast.stmt]()
    for node in of_one_value(variable, statement, nodes):
        start = variable.statement(node)
        if node in own or start in starts:
            continue
        if not _is_of_itself(start, variable.name) and (isinstance(node.ctx, ast.Load) or not _is_start(start)):
            return None
        starts.append(start)
    if may_be_read_in_console(variable, (statement, *starts)):
        return None
    if any(isinstance(part, ast.Call) and not _only_computes(part, variable.name) for part in own):
        return Declined(f"nothing reads `{variable.name}`; remove it")
    module = variable.module
    commented = any(code_in_comments(module.syntax, module.function(variable.loop), variable.name))
    if commented and not _appends(statement):
        return Declined(f"code that is commented out reads `{variable.name}`")
    if other := named_instead(variable, statement):
        return Declined(_MISTAKEN.format(variable.name, other))
    edits = [_without(variable, _with_test(variable.module, one)) for one in (statement, *starts)]
    if any(edit is None for edit in edits):
        return Declined(f"nothing reads `{variable.name}`; remove it")
    removed = tuple(_with_gap(variable, edit) for edit in edits if edit is not None)
    if commented:
        text = f"remove `{variable.name}`, which only code that is commented out reads"
        return Removal(text, Safety.UNSAFE, removed)
    return Removal(f"remove `{variable.name}`, which nothing reads", Safety.SAFE, removed)


def unread_array(project: Project, variable: Variable, statement: ast.Assign) -> Fix | Declined | None:
    """Remove an array that nothing reads, and that a statement joins another one to: ``losses = np.append(losses,
    loss.item())``; None for other statements."""
    joins = isinstance(statement.value, ast.Call) and _joins_to(statement.value, variable.name)
    return unread(project, variable, statement) if joins else None


def _joins_to(call: ast.Call, name: str) -> bool:
    """``np.append(losses, loss.item())``, ``torch.cat([losses, loss.detach().cpu()])``"""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="append"), args=[first, _]):
            pass
        case ast.Call(func=func, args=[ast.List(elts=[first, _]) | ast.Tuple(elts=[first, _])]) if (
            last_name(func) in _JOINS
        ):
            pass
        case _:
            return False
    plain = all(isinstance(key.value, ast.Constant) for key in call.keywords)
    return isinstance(first, ast.Name) and first.id == name and plain


def _appends(statement: ast.stmt) -> bool:
    """``preds.append(logits.cpu().numpy())``, for which each step copies a batch."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "extend"), args=[copied])):
            return any(isinstance(part, ast.Call) and last_name(part.func) == "cpu" for part in walk(copied))
    return False


def _emptied(variable: Variable, statement: ast.stmt) -> ast.stmt:
    """Return a statement with the test for its key and the loop over the values that it adds, if they do no more."""
    module = variable.module
    while True:
        match up := module.syntax.parents.get(statement):
            case ast.If(
                test=ast.Compare(
                    left=ast.Name() | ast.Constant(), ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=asked)]
                ),
                orelse=[],
            ) if asked == variable.name and up.body == [statement]:
                statement = up
            case ast.For(iter=ast.Call(func=ast.Attribute(attr="items" | "values" | "keys"), args=[]), orelse=[]) if (
                up is not variable.loop and up.body == [statement] and _are_of_loop(module, up)
            ):
                statement = up
            case _:
                return statement


def _with_test(module: ModuleIndex, statement: ast.stmt) -> ast.stmt:
    """Return a statement with the tests around it that are for it alone and call nothing."""
    match up := module.syntax.parents.get(statement):
        case ast.If(orelse=[], test=test) if up.body == [statement] and all(
            isinstance(one, _PLAIN) for one in walk(test)
        ):
            return _with_test(module, up) if module.syntax.text(up).startswith("if") else statement
    return statement


def _are_of_loop(module: ModuleIndex, loop: ast.For) -> bool:
    """Return whether the variables that a loop sets are read in it alone."""
    names = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    function = module.function(loop)
    return all(
        loop in module.syntax.ancestors(use)
        for name in names
        for use in module.named.get(name, ())
        if isinstance(use.ctx, ast.Load) and module.function(use) is function and use.lineno > loop.lineno
    )


def without_discarded(module: ModuleIndex, statement: ast.stmt) -> Fix | None:
    """Remove a statement that only reads a number and keeps nothing of it: ``mask.sum().item()``. It may be there to
    wait, where the program measures time."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    value: ast.expr = statement.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _READS:
        if any(not isinstance(one, ast.Constant) for one in (*value.args, *(key.value for key in value.keywords))):
            return None
        value = value.func.value
    if not isinstance(value, ast.Name | ast.Attribute):
        return None
    edit = remove_statement(module.syntax, statement)
    if edit is None:
        return None
    around = module.function(statement)
    text = module.syntax.source.text if around is None else module.syntax.text(around)
    edits = tuple(without_gaps(module.syntax.source, [edit])) if edit.span.cell is None else (edit,)
    if _TIMES.search(text) is None:
        return Removal("remove the read of a value that nothing uses", Safety.SAFE, edits)
    note = "times of single steps then only count what the host does"
    return Removal(f"remove the read of a value that nothing uses; {note}", Safety.UNSAFE, edits)


def unread_meter(module: ModuleIndex, statement: ast.Expr, made: Fix | Declined) -> Fix | Declined | None:
    """Remove the update of a meter that nothing reads, where ``made`` shows that it only adds up; None if it is
    read."""
    assert isinstance(statement.value, ast.Call)
    name = unread_total(module, statement.value)
    if not name:
        return None
    calls = (part for given in statement.value.args for part in walk(given) if isinstance(part, ast.Call))
    edit = remove_statement(module.syntax, statement)
    if isinstance(made, Declined) or edit is None or edit.text or not all(_only_computes(one, name) for one in calls):
        return Declined(f"nothing reads `{name}`; remove it")
    return Removal(f"remove the update of `{name}`, which nothing reads", Safety.UNSAFE, (edit,))


def unread_copy(project: Project, variable: Variable, statement: ast.Assign) -> Fix | Declined | None:
    """Remove a copy that each step sets anew, and that nothing reads before it is set to something else."""
    nodes = variable.occurrences()
    if nodes is None or not _is_own(project, variable) or not isinstance(statement.targets[0], ast.Name):
        return None
    pure = all(_only_copies(part) for part in walk(statement.value) if isinstance(part, ast.Call | ast.NamedExpr))
    if len(statement.targets) != 1 or not pure:
        return None
    module = variable.module
    bindings = module.scope(variable.loop).bindings[variable.name]
    for node in nodes:
        if isinstance(node.ctx, ast.Load) or isinstance(module.syntax.parents.get(node), ast.AugAssign):
            seen = reaching(module, bindings, node)
            if not seen or any(binding.node in (statement, statement.targets[0]) for binding in seen):
                return None
    edit = remove_statement(module.syntax, statement)
    if edit is None or edit.text:
        return None
    if other := named_instead(variable, statement):
        return Declined(_MISTAKEN.format(variable.name, other))
    return Removal(
        f"remove this value of `{variable.name}`, which nothing reads",
        Safety.SAFE,
        (_with_gap(variable, _with_comment(module.syntax, edit)),),
    )


def _only_copies(part: ast.Call | ast.NamedExpr) -> bool:
    """``images[:10].detach().cpu()``"""
    return isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and last_name(part.func) in _READS


def _is_own(project: Project, variable: Variable) -> bool:
    """Return whether all that may read a variable is seen: it is a function's own, or no other file names it."""
    module, document = variable.module, variable.document
    finders = (call.func for name in _FINDS for call in module.calls_by_name.get(name, ()))
    if variable.definition is not None or any(isinstance(func, ast.Name) for func in finders):
        return False
    if module.function(variable.loop) is not None:
        return True
    users = (path for path in project.files_using(module.path, variable.name) if path != module.path)
    return document.python is not None and variable.name not in module.strings and not any(users)


def _is_given(variable: Variable) -> bool:
    """Return whether callers hand in what a variable holds, and may read what is added to it."""
    bindings = variable.module.scope(variable.loop).bindings.get(variable.name, [])
    return any(binding.kind is BindingKind.PARAMETER for binding in bindings)


def _is_start(statement: ast.stmt) -> bool:
    """``total = 0.0``, ``losses = []``"""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Constant() | ast.List(elts=[])):
            return True
        case ast.Assign(targets=[ast.Name()], value=ast.Dict(values=values)):
            return all(isinstance(one, ast.Constant) for one in values)
        case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Name(id=made), args=[])):
            return made in ("list", "dict", "float", "int")
        case ast.Assign(
            targets=[ast.Name()], value=ast.Call(func=ast.Attribute(attr=made), args=[size], keywords=keys)
        ):
            plain = all(isinstance(key.value, ast.Constant | ast.Attribute) for key in keys)
            return made in _EMPTY and plain and _is_nothing(size)
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            plain = all(isinstance(one, ast.Constant) or (isinstance(one, ast.List) and not one.elts) for one in values)
            return plain and len(names) == len(values) and all(isinstance(one, ast.Name) for one in names)
    return False


def _is_nothing(size: ast.expr) -> bool:
    """``[]``, ``0``, ``(0, 3)``"""
    match size:
        case ast.List(elts=[]):
            return True
        case ast.Tuple(elts=sizes) | ast.List(elts=sizes):
            return all(isinstance(one, ast.Constant) for one in sizes)
    return isinstance(size, ast.Constant)


def _without(variable: Variable, statement: ast.stmt) -> Edit | None:
    """Remove a statement, or the variable from one that sets several: ``preds, targets = [], []``."""
    syntax = variable.module.syntax
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = zip(names, values, strict=True)
            left = [(name, value) for name, value in pairs if ast.unparse(name) != variable.name]
            if not left or "#" in syntax.text(statement):
                return None
            targets, sources = (", ".join(map(syntax.text, part)) for part in zip(*left, strict=True))
            return Edit(syntax.path, syntax.span(statement), f"{targets} = {sources}")
    edit = remove_statement(syntax, statement)
    return None if edit is None or edit.text else _with_comment(syntax, edit)


def _with_comment(syntax: PythonModule, edit: Edit) -> Edit:
    """A removal with the comment that describes what is removed."""
    return edit if edit.span.cell is not None else with_own_comment(syntax.source, edit)


def _is_of_itself(statement: ast.stmt, name: str) -> bool:
    """``images = np.concatenate(images, axis=1)``, which computes a variable of itself alone."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=own)], value=ast.Call(func=func, args=[ast.Name(id=given)], keywords=keys)
        ):
            plain = all(isinstance(key.value, ast.Constant) for key in keys)
            return own == given == name and last_name(func) in _JOINS and plain
    return False


def _only_computes(call: ast.Call, name: str) -> bool:
    """``loss.item()``, and the ``append`` of the list itself or the ``get`` of the table itself."""
    if _joins_to(call, name):
        return True
    if isinstance(call.func, ast.Attribute) and call.func.attr == "get":
        return isinstance(call.func.value, ast.Name) and call.func.value.id == name  # of a queue, it takes something
    return last_name(call.func) in _READS or (last_name(call.func) in ("append", "extend") and len(call.args) == 1)


def _with_gap(variable: Variable, edit: Edit) -> Edit:
    """A removal with the empty line that it would leave below another one, or at the top of a block."""
    source, span = variable.module.syntax.source, edit.span
    if edit.text or span.cell is not None or span.column > 1 or span.end_column > 1 or span.line == 1:
        return edit
    above, below = source.line(span.line - 1).strip(), source.line(span.end_line).strip()
    is_double = not below and (not above or above.endswith(":"))
    return Edit(edit.path, Span(span.line, 1, span.end_line + 1, 1), "") if is_double else edit
