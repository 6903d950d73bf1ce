"""Attributes that methods read of their object and that neither a class of its hierarchy nor anything else of the tree
gives it: ``self.valid_loader`` raises an ``AttributeError``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.semantic.failing_names import is_excerpt
from gpulint.semantic.overridden_methods import subclasses_of
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_OF_MODULES = frozenset(
    "T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval"
    " extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half hpu ipu load_state_dict"
    " modules mtia named_buffers named_children named_modules named_parameters parameters register_backward_hook"
    " register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook"
    " register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook"
    " register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_"
    " set_extra_state set_submodule share_memory state_dict to to_empty train training type xpu zero_grad".split()
)
_OF_DATA_SETS = frozenset({"functions", "register_function", "register_datapipe_as_function"})
_MEMBERS = {
    "object": frozenset[str](),
    "abc.ABC": frozenset({"register"}),
    "torch.nn.Module": _OF_MODULES,
    "torch.nn.modules.Module": _OF_MODULES,
    "torch.nn.modules.module.Module": _OF_MODULES,
    "torch.utils.data.Dataset": _OF_DATA_SETS,
    "torch.utils.data.dataset.Dataset": _OF_DATA_SETS,
    "torch.utils.data.IterableDataset": _OF_DATA_SETS,
    "torch.utils.data.Sampler": frozenset[str](),
}
"""What objects have of classes of libraries, but for names that begin with an underscore."""
_OUTSIDE = frozenset({"abc.ABC", "object"})
"""Those of them whose names with an underscore are of no use to others."""
_GIVES_ANY = regex.compile(
    rb"(?<!self)\.__([gs]etattr|dict)|\bvars\((?!\s{0,9}(self|args)\b)|\bexec\(|\bglobals\(|\b_modules\b"
    rb"|\b_parameters\b|\blocals\(|\b_buffers\b|MethodType|__class__\s{0,9}=|\bsetattr\((?!\s{0,9}(self|\w{0,20}(args|opts?|config|cfg|hparams))\b)"
    rb"|\b(add_module|register_(buffer|parameter|module))\(\s{0,9}[^\"'\s]",
    re.MULTILINE,
)
"""How a file gives objects of classes of other files attributes that no class names."""
_GIVES_OWN = regex.compile(rb"__dict__|\.__setattr|\bvars\(\s{0,9}self|\bsetattr\(\s{0,9}self|currentframe|store_attr")
"""How methods do so."""
_READ_ONLY = frozenset(
    "super isinstance issubclass getattr hasattr type id len print str repr hash iter next format list tuple dict set"
    " sum min max zip enumerate map deepcopy copy partial save dump watch summary DataLoader".split()
)
"""Functions that give nothing to the objects that they get."""
_ANSWERS = ("__getattr__", "__getattribute__", "__setattr__")
"""Methods by which a class has any attribute."""
_OF_TREE = (*FUNCTIONS, ast.ClassDef)
_PLAIN = frozenset({"dataclass"})
"""Decorators of classes that give nothing more than the class names."""
_OTHER_FIRST = frozenset({"staticmethod", "classmethod"})


@query
def absent_members(project: Project, module: ModuleIndex) -> tuple[ast.Attribute, ...]:
    """Return what methods of a module, which is no excerpt, read of ``self`` and that nothing gives it."""
    if module.path.suffix != ".py":
        return ()
    own = _given(module)
    found = tuple(
        part
        for part in module.syntax.of(ast.Attribute)
        if isinstance(part.value, ast.Name)
        and part.value.id == "self"
        and isinstance(part.ctx, ast.Load)
        and part.attr not in own
        and not part.attr.startswith("__")
        and (owner := object_class(module, part.value)) is not None
        and (known := _of_libraries(project, module, owner)) is not None
        and part.attr not in known
        and ("_" not in known or not part.attr.startswith("_"))
        and not _is_given(project, part.attr)
    )
    return () if is_excerpt(project, module, {part.attr for part in found}) else found


def object_class(module: ModuleIndex, name: ast.Name) -> ast.ClassDef | None:
    """The class of which a name is the object: the first parameter of one of its methods."""
    bindings = module.scope(name).lookup(name.id)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.PARAMETER:
        return None
    method = bindings[0].scope.node
    owner = module.syntax.parents.get(method)
    if not isinstance(method, FUNCTIONS) or not isinstance(owner, ast.ClassDef):
        return None
    first = next((one.arg for one in (*method.args.posonlyargs, *method.args.args)), "")
    plain = not any(last_name(one) in _OTHER_FIRST for one in method.decorator_list)
    return owner if first == name.id and plain and owner in module.syntax.tree.body else None


@query
def _of_libraries(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> frozenset[str] | None:
    """Return the names that classes of libraries give to objects of a class of the tree, with a ``_`` where these may
    be others that begin with it; None if they are unknown, or nothing is seen to make such an object."""
    below = subclasses_of(project, owner)
    if below is None or not _is_made(project, [owner, *(one for _, one in below)]):
        return None
    found = set[str]()
    for where, one in ((module, owner), *below):
        for place, current in project.fact(Resolver).mro(where, one):
            plain = all(last_name(decorator) in _PLAIN for decorator in current.decorator_list)
            own = place.scope_of[current].bindings
            if current.keywords or not plain or any(name in own for name in _ANSWERS):
                return None
            if _may_give_own(project, place) or _may_get_any(project, current.name):
                return None
            for base in current.bases:
                names = _of_base(project, place, base)
                if names is None:
                    return None
                found |= names
    return frozenset(found)


def _of_base(project: Project, module: ModuleIndex, base: ast.expr) -> frozenset[str] | None:
    resolver = project.fact(Resolver)
    if all(isinstance(one.node, ast.ClassDef) and not one.path for one in resolver.points_to(module, base)):
        return frozenset()
    names = resolver.names(module, base)
    if len(names) != 1 or not names <= _MEMBERS.keys():
        return None
    (name,) = names
    return _MEMBERS[name] | (frozenset() if name in _OUTSIDE else {"_"})


def _is_made(project: Project, owners: list[ast.ClassDef]) -> bool:
    """Return whether the tree calls one of some classes; others may derive from what it only defines."""
    return any(one.name in user.calls_by_name for one in owners for user in _naming(project, one.name) if user)


def _naming(project: Project, name: str) -> Iterator[ModuleIndex | None]:
    return (project.module_at(path) for path in project.word_index.mentioning(word_of(name)))


@query
def _may_give_own(project: Project, module: ModuleIndex) -> bool:
    """Return whether methods of a module may give any attribute to their objects, also by what they hand these to."""
    if project.finds(module.path, _GIVES_OWN):
        return True
    if any(project.finds(path, _GIVES_ANY) for path in (module.path, *project.imported(module.path))):
        return True
    resolver = project.fact(Resolver)
    return any(
        isinstance(given, ast.Name)
        and last_name(call.func) not in _READ_ONLY
        and not all(isinstance(one.node, _OF_TREE) for one in resolver.points_to(module, call.func))
        for call, given in module.handed_over.get("self", ())
    )


@query
def _may_get_any(project: Project, name: str) -> bool:
    """Return whether a file that names a class may give any attribute to its objects."""
    word = word_of(name)
    return any(project.finds(path, _GIVES_ANY) for path in project.word_index.mentioning(word))


@query
def _is_given(project: Project, name: str) -> bool:
    """Return whether anything of the tree may give an attribute of a name to an object."""
    if any(user is None or name in _given(user) for user in _naming(project, name)):
        return True
    word = re.escape(word_of(name))
    return project.is_like_in_other_files(rb"\.%s[ \t]*=(?!=)|\bdef %s\b" % (word, word))


@query
def _given(module: ModuleIndex) -> frozenset[str]:
    """The names that a module may give to attributes: those it stores, binds in classes, passes or has as texts."""
    stored = {part.attr for part in module.syntax.of(ast.Attribute) if not isinstance(part.ctx, ast.Load)}
    passed = {keyword.arg for call in module.calls for keyword in call.keywords if keyword.arg is not None}
    bound = (module.scope_of[owner].bindings for owner in module.classes if owner in module.scope_of)
    return frozenset(stored | passed | module.strings).union(*bound)
