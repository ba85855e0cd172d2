"""Reads the public names of a package from its source text, without importing it."""

from __future__ import annotations

import ast
import dataclasses
from typing import Iterator

PACKAGE = "megatron.energon"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclasses.dataclass
class PublicName:
    """A public name.

    Attributes:
        path: The name within the package, such as "SavableDataLoader.save_state_rank".
        parameters: The names of the parameters without self, or None for a name that takes none
            because it is not a function or class of the package.
    """

    path: str
    parameters: list[str] | None


Modules = dict[str, ast.Module]


def parse(files: dict[str, str]) -> Modules:
    """Returns the tree of each module, such as "cache.base" or "" for the package itself, in
    `files`, the source text by path, such as "cache/base.py"."""
    return {_module_name(path): ast.parse(text) for path, text in sorted(files.items())}


def public_names(modules: Modules) -> list[PublicName]:
    """Returns the public names of the modules."""
    return [
        name
        for (module, defined), path in _public_paths(modules).items()
        for name in _with_methods(path, modules[module], defined)
    ]


def names_by_module(modules: Modules) -> dict[str, dict[str, str | None]]:
    """For each module, the names that can be imported from it and are defined in the package, with
    the path below which public_names() lists them. A constant, which it does not list, has None."""
    paths = _public_paths(modules)
    found: dict[str, dict[str, str | None]] = {}
    for module, tree in modules.items():
        names = found[module] = {}
        for name in sorted(bound_names(tree)):
            source = _definition(modules, module, name)
            if source is not None and not name.startswith("_"):
                names[name] = paths.get(source)
    return found


def defined_names(tree: ast.Module) -> set[str]:
    """Classes, functions and constants of a module."""
    nodes = list(tree.body)
    for node in nodes:
        if isinstance(node, (ast.Try, ast.If)):
            nodes += [*node.body, *node.orelse]
    return {name for node in nodes for name in _defined_by(node)}


def bound_names(tree: ast.Module) -> set[str]:
    """What a module defines, and what it imports from its own package."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    own = [node for node in imports if node.level or (node.module or "").startswith(PACKAGE)]
    imported = {alias.asname or alias.name for node in own for alias in node.names}
    return defined_names(tree) | imported


def _defined_by(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.ClassDef, *_FUNCTIONS)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _public_paths(modules: Modules) -> dict[tuple[str, str], str]:
    """By definition (module, name): the first path with which the name is public."""
    order = sorted(modules, key=lambda module: (module.count("."), module))
    paths: dict[tuple[str, str], str] = {}
    for module in ["", *(module for module in order if module)]:
        for name in listed_names(modules[module]):
            source = _definition(modules, module, name)
            if source is not None:
                paths.setdefault(source, f"{module}.{name}" if module else name)
    return paths


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("__init__").strip("/").replace("/", ".")


def listed_names(tree: ast.Module) -> list[str]:
    """The names in `__all__`, else the classes and functions of the module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return sorted(ast.literal_eval(node.value), key=str.lower)
    kinds = (ast.ClassDef, *_FUNCTIONS)
    names = {node.name for node in tree.body if isinstance(node, kinds)}
    return sorted((name for name in names if not name.startswith("_")), key=str.lower)


def _definition(modules: Modules, module: str, name: str) -> tuple[str, str] | None:
    """Where the name is defined: (module, name there), or None if not in the package."""
    for node in ast.walk(modules[module]):
        if isinstance(node, (ast.ClassDef, *_FUNCTIONS)) and node.name == name:
            return module, name
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                source = _imported_from(node, module)
                if (alias.asname or alias.name) == name and source in modules:
                    return _definition(modules, source, alias.name)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return module, name
    return None


def _imported_from(node: ast.ImportFrom, module: str) -> str:
    if node.level:
        return f"{module}.{node.module}"
    return (node.module or "").removeprefix(PACKAGE).strip(".")


def _with_methods(path: str, tree: ast.Module, name: str) -> Iterator[PublicName]:
    nodes = [node for node in tree.body if getattr(node, "name", "") == name]
    node = nodes[-1] if nodes else None  # the last of overloads
    if isinstance(node, ast.ClassDef):
        yield PublicName(path, _parameters_of_class(node))
        methods = {one.name: one for one in node.body if isinstance(one, _FUNCTIONS)}
        for method in methods.values():
            if not method.name.startswith("_"):
                yield PublicName(f"{path}.{method.name}", _parameters(method, is_method=True))
    elif isinstance(node, _FUNCTIONS):
        is_command = any("click.command" in ast.unparse(one) for one in node.decorator_list)
        yield PublicName(path, None if is_command else _parameters(node, is_method=False))
    else:
        yield PublicName(path, None)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> list[str] | None:
    decorators = {getattr(one, "id", "") for one in node.decorator_list}
    if "property" in decorators:
        return None
    arguments = [*node.args.posonlyargs, *node.args.args]
    if is_method and "staticmethod" not in decorators:
        arguments = arguments[1:]
    return [one.arg for one in [*arguments, *node.args.kwonlyargs]]


def _parameters_of_class(node: ast.ClassDef) -> list[str] | None:
    for one in node.body:
        if isinstance(one, _FUNCTIONS) and one.name == "__init__":
            return _parameters(one, is_method=True)
    if not any("dataclass" in ast.unparse(one) for one in node.decorator_list):
        return None
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    kept = [one for one in fields if "ClassVar" not in ast.unparse(one.annotation)]
    names = [one.target.id for one in kept if isinstance(one.target, ast.Name)]
    return [name for name in names if not name.startswith("_") or name.startswith("__")]
