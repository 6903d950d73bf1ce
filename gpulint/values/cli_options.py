"""Values that come from outside of the code: option defaults (argparse, click, typer, absl, dataclasses) and the
environment.

An option's default is what the program uses unless its launcher says otherwise, and launchers found in the tree do say
so: their arguments come first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import default_of
from gpulint.documents.python import walk
from gpulint.launch.job_index import JobIndex
from gpulint.query import query
from gpulint.semantic.attribute_sources import FIELDS
from gpulint.semantic.declared_options import option_of
from gpulint.semantic.points_to import Resolver
from gpulint.values import option_classes
from gpulint.values.argument_files import ArgumentFiles, Start
from gpulint.values.constants import Constants
from gpulint.values.loaded_tables import is_loaded
from gpulint.values.option_calls import MANY, declaring_calls, dests, fillings, flags, is_true, mapping_of, typed
from gpulint.values.positional_options import position
from gpulint.values.submitted_options import SubmittedOptions
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.finding import Place
    from gpulint.project import Project
    from gpulint.values.config_files import ConfigFiles
    from gpulint.values.constants import Value

_INTO_CLASSES = frozenset("parse_args_into_dataclasses parse_args_and_config parse_yaml_file parse_json_file".split())
_PARSE = _INTO_CLASSES | {"parse_args", "parse_known_args", "parse_intermixed_args", "get_args"}
_CLASS_PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")
"""What fills data classes from the command line."""
_NAMESPACES = frozenset("args opt opts options params flags FLAGS config cfg hparams conf hps parsed".split())


class Options:
    """Option tables of the modules of one project."""

    def __init__(self, project: Project, configs: ConfigFiles) -> None:
        self._project = project
        self.db = project.db
        self._configs = configs
        self._submitted = SubmittedOptions(project)
        self._recipes = ArgumentFiles(project, configs)

    def lookup(self, ref: NodeRef) -> Iterator[Value]:
        """Defaults (or launcher values) of ``args.name``, ``config["name"]`` or a click parameter."""
        node = ref.node
        if isinstance(node, ast.arg):
            yield from self._parameter(ref, node)
            return
        if isinstance(node, ast.Attribute):
            name, base = node.attr, node.value
            if name == "value" and (flag := self._flag(ref.module, base)) is not None:  # absl's holders of flags
                yield from self._option(*flag)
                return
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            name, base = node.slice.value, node.value
        else:
            return
        if later := list(self._filled(ref.module, base, name)):
            yield from later
            return
        if declared := self.declarations(ref.module, base, name):
            for option in declared:
                yield from self._option(option, name)
            return
        if declared := list(option_classes.fields(self._project, ref.module, base, name)):
            for option in declared:
                yield from self._field(option, name)
            return
        for made in self._project.fact(Resolver).points_to(ref.module, base):
            parsed = made.node.value if isinstance(made.node, ast.Subscript) else made.node  # ``parse...()[0]``
            if isinstance(parsed, ast.Call) and last_name(parsed.func) in _INTO_CLASSES:
                yield from self._parsed_field(made.module, name)
                return

    def of_programs(self, ref: NodeRef, is_own: Callable[[ModuleIndex], bool]) -> list[Value] | None:
        """Return the values of ``args.name`` by the likeliest own program; None where ``lookup`` finds just these."""
        if not isinstance(ref.node, ast.Attribute) or any(self._filled(ref.module, ref.node.value, ref.node.attr)):
            return None
        place = ref.module, ref.node.value, ref.node.attr
        own = self.declarations(*place, is_own)
        if not own or own == self.declarations(*place):
            return None
        return [value for option in own for value in self._option(option, ref.node.attr)]

    def _field(self, field: NodeRef, name: str) -> Iterator[Value]:
        """The values that launchers pass for a field that declares an option, and its default."""
        from gpulint.values.constants import Value

        given = option_classes.passed(self._project, field, name)
        known = [(value, place) for start in given for value, place in start]
        if any(value is None for value, _ in known):
            return
        yield from (Value(value, place, "launcher") for value, place in known)
        if not given or not all(given):
            assert isinstance(field.node, ast.expr)
            yield from self._as_default(field.module, field.node)

    def choices(self, module: ModuleIndex, node: ast.Attribute) -> tuple[object, ...]:
        """The values that the option in an attribute of a namespace may have at all; none if that is not said."""
        declared = [option.node for option in self.declarations(module, node.value, node.attr)]
        option = declared[0] if len(declared) == 1 else None
        return (option_of(option).choices or ()) if isinstance(option, ast.Call) else ()

    def _flag(self, module: ModuleIndex, holder: ast.expr) -> tuple[NodeRef, str] | None:
        """The definition and the name of the flag in ``_SIZE = flags.DEFINE_integer("size", 8, "...")``."""
        for made in self._project.fact(Resolver).points_to(module, holder):
            match made.node:
                case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if last_name(func).startswith(
                    "DEFINE_"
                ):
                    return NodeRef(made.module, made.node), name
        return None

    def _parsed_field(self, module: ModuleIndex, name: str) -> Iterator[Value]:
        """A field of a data class that ``HfArgumentParser`` or ``TrlParser`` fills from the command line."""
        from gpulint.values.constants import Value

        starts: tuple[Start, ...] = (
            *self._project.fact(JobIndex).launches_of(module.path),
            *self._submitted.of(module.path),
        )
        left = not starts
        for start in starts:
            given = start.option((f"--{name}",))
            recipe = self._recipes.field(module, start, name) if not given else []
            left = left or (not given and not recipe)
            yield from (Value(text, place, "launcher") for text, place in given if text is not None)
            yield from (Value(value, place, "config") for value, place in recipe)
        if not left:
            return
        parsers = [parser for kind in _CLASS_PARSERS for parser in module.calls_by_name.get(kind, [])]
        for parser in parsers:
            for part in (part for argument in parser.args for part in walk(argument)):
                if not isinstance(part, ast.Name | ast.Attribute):
                    continue
                for made in self._project.fact(Resolver).points_to(module, part):
                    if isinstance(made.node, ast.ClassDef):
                        for home, binding in self._project.fact(Resolver).class_attribute(made.module, made.node, name):
                            if binding.value is not None:
                                yield from self._as_default(home, binding.value)

    def environment(self, name: str) -> Iterator[Value]:
        """Yield what launchers in the tree, or ``.env`` files that programs load, set an environment variable to (none:
        unknown)."""
        from gpulint.values.environment_files import EnvironmentFiles

        found = list(self.set_by_jobs(name))
        yield from found or self._project.fact(EnvironmentFiles).variable(name)

    def set_by_jobs(self, name: str) -> Iterator[Value]:
        """Yield what launchers in the tree set an environment variable to (none: unknown)."""
        from gpulint.values.constants import Value

        for place, text in self._environment().get(name, {}).items():
            yield Value(text, place, "launcher")

    @query
    def _environment(self) -> dict[str, dict[Place, str]]:
        """name -> value by the place where a job sets it, without names that are also set to something unknown."""
        found: dict[str, dict[Place, str]] = {}
        unknown = set[str]()
        for setting in (setting for job in self._project.fact(JobIndex).jobs() for setting in job.env):
            if setting.value is None:
                unknown.add(setting.name)
            else:
                found.setdefault(setting.name, {})[setting.place] = setting.value
        return {name: values for name, values in found.items() if name not in unknown}

    def default_of_call(self, ref: NodeRef, node: ast.Call) -> Iterator[Value]:
        """The default inside ``field(default=4)``, ``typer.Option(4)`` and the like."""
        name = last_name(node.func)
        if name in FIELDS:
            for keyword in node.keywords:
                if keyword.arg == "default":
                    yield from self._as_default(ref.module, keyword.value)
                elif keyword.arg == "default_factory" and isinstance(keyword.value, ast.Lambda):
                    yield from self._as_default(ref.module, keyword.value.body)
            if name == "Field" and node.args:  # pydantic's
                yield from self._as_default(ref.module, node.args[0])
        elif name in ("Option", "Argument") and node.args:
            yield from self._as_default(ref.module, node.args[0])

    # -- where the options of a namespace are declared -----------------------------------------------------------------

    def declarations(
        self, module: ModuleIndex, base: ast.expr, name: str, is_own: Callable[[ModuleIndex], bool] | None = None
    ) -> list[NodeRef]:
        """Declarations of an option in the likeliest module that has any, of own ones if that is said."""
        homes = (home for home in self._homes(module, base) if is_own is None or is_own(home))
        return next(filter(None, (self._own(module, base, list(self._declared(home, name))) for home in homes)), [])

    def _filled(self, module: ModuleIndex, base: ast.expr, name: str) -> Iterator[Value]:
        """The values of an option in files whose keys become attributes of the namespace once it is parsed."""
        for home in self._homes(module, base):
            for filled, mapping in fillings(home):
                made = self._project.fact(Resolver).points_to(home, filled)
                if any(isinstance(one.node, ast.Call) and last_name(one.node.func) in _PARSE for one in made):
                    yield from self._configs.item(home, mapping, name)

    def _homes(self, module: ModuleIndex, base: ast.expr) -> Iterator[ModuleIndex]:
        """Modules whose option declarations a namespace expression may hold, likeliest first."""
        seen: set[ModuleIndex] = set()
        plausible = last_name(base) in _NAMESPACES and not is_loaded(self._project, module, base)
        for ref in self._project.fact(Resolver).points_to(module, base):
            call = ref.node
            parses = isinstance(call, ast.Call) and last_name(call.func) in _PARSE
            unknown = not isinstance(call, ast.Call | ast.Constant | ast.Dict) and plausible
            if (parses or unknown) and ref.module not in seen:
                seen.add(ref.module)
                yield ref.module
        if plausible and module not in seen:
            yield module

    def _own(self, module: ModuleIndex, base: ast.expr, declared: list[NodeRef]) -> list[NodeRef]:
        """Of several parsers' options of one name those of the parser that made the namespace, where that shows."""
        if len(declared) < 2:
            return declared
        parsed = {
            made.module.function(made.node)
            for made in self._project.fact(Resolver).points_to(module, base)
            if isinstance(made.node, ast.Call) and last_name(made.node.func) in _PARSE
        }
        return [option for option in declared if option.module.function(option.node) in parsed] or declared

    def _declared(self, module: ModuleIndex, name: str) -> Iterator[NodeRef]:
        found = self._in_table(module, name)
        if found:
            yield from found
            return
        seen = {module.path}
        for binding in module.imports:
            target = self._project.absolute(binding.target, module.path)
            for candidate in (target, target.rpartition(".")[0]):
                path = self._project.module_path(candidate, module.path) if candidate else None
                if path is None or path in seen:
                    continue
                seen.add(path)
                if (
                    self._project.contains(path, b"add_argument")
                    and (other := self._project.module_at(path)) is not None
                ):
                    found = self._in_table(other, name)
                    if found:
                        yield from found
                        return

    def _in_table(self, module: ModuleIndex, name: str) -> list[NodeRef]:
        """The calls of a module that declare an option, by itself or with all others of a mapping that holds it."""
        table = declaring_calls(module)
        calls = table.get(name) or [
            call
            for call in table.get(MANY, ())
            if (mapping := mapping_of(module, call)) is not None and any(self._configs.item(module, mapping, name))
        ]
        return [NodeRef(module, call) for call in calls]

    def _option(self, option: NodeRef, name: str, otherwise: ast.expr | None = None) -> Iterator[Value]:
        """Values of an option, with the default that its parameter has where it declares none."""
        from gpulint.values.constants import Value

        call = option.node
        assert isinstance(call, ast.Call)
        if (number := position(option.module, call)) is not None:
            yield from self._positional(option, number)
            return
        words = flags(call) or (f"--{name}",)
        passed = [start.option(words) for start in self._project.fact(JobIndex).launches_of(option.module.path)]
        if any(text is None for found in passed for text, _ in found):
            return
        passed += [list(submission.option(words)) for submission in self._submitted.of(option.module.path)]
        for text, place in (one for found in passed for one in found):
            if text is not None:
                yield Value(typed(call, text), place, "launcher")
        if passed and all(passed):
            return
        if (later := self._set_later(option.module, call)) is not None:
            yield from later
            return
        if last_name(call.func).startswith("DEFINE_"):
            if len(call.args) > 1:
                yield from self._as_default(option.module, call.args[1])
            return
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if (mapping := mapping_of(option.module, call)) is not None:
            yield from self._configs.item(option.module, mapping, name)
        elif "default" in keywords:
            yield from self._as_default(option.module, keywords["default"])
        elif is_true(keywords.get("is_flag")):
            yield Value(False, self._project.fact(Constants).place(option), "default")
        elif "action" in keywords and isinstance(keywords["action"], ast.Constant):
            default = {"store_true": False, "store_false": True}.get(str(keywords["action"].value))
            if default is not None:
                yield Value(default, self._project.fact(Constants).place(option), "default")
        elif otherwise is not None:
            yield from self._as_default(option.module, otherwise)

    def _set_later(self, module: ModuleIndex, option: ast.Call) -> list[Value] | None:
        """The default by ``parser.set_defaults(workers=8)``, or the file whose values are unpacked there; none where
        what is unpacked is unknown."""
        words = [word for call in module.calls_by_name.get("set_defaults", ()) for word in call.keywords]
        given = [word for word in words if word.arg in dests(option)]
        if unpacked := [word.value for word in words if word.arg is None]:
            names = dests(option)
            read = [list(self._configs.item(module, mapping, name)) for mapping in unpacked for name in names]
            return [] if given or not all(read) else [value for values in read for value in values]
        return [value for word in given for value in self._as_default(module, word.value)] if given else None

    def _positional(self, option: NodeRef, number: int) -> Iterator[Value]:
        """Yield what launchers pass for an argument that must be passed, whose default is never used."""
        from gpulint.values.constants import Value

        launches = self._project.fact(JobIndex).launches_of(option.module.path)
        passed = [one for start in launches for one in start.positional(number)]
        assert isinstance(option.node, ast.Call)
        for text, place in passed if all(text is not None for text, _ in passed) else ():
            yield Value(typed(option.node, text or ""), place, "launcher")

    def _parameter(self, ref: NodeRef, arg: ast.arg) -> Iterator[Value]:
        """Default of a parameter that ``@click.option`` fills."""
        function = ref.module.syntax.parents.get(ref.module.syntax.parents.get(arg, arg))
        if not isinstance(function, FUNCTIONS):
            return
        for decorator in function.decorator_list:
            if (
                isinstance(decorator, ast.Call)
                and last_name(decorator.func) in ("option", "argument")
                and arg.arg in dests(decorator)
            ):
                yield from self._option(NodeRef(ref.module, decorator), arg.arg, default_of(function.args, arg.arg))

    def _as_default(self, module: ModuleIndex, node: ast.expr) -> Iterator[Value]:
        from gpulint.values.constants import Value

        for value in self._project.fact(Constants).of(module, node).values:
            yield Value(value.value, value.place, "default")
