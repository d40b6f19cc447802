"""The sources of libraries that only run on a GPU, read for the signatures of what the engine calls.

Their wheels are downloaded and left packed: one needs a compiler for CUDA to be imported, the other unpacks to 427 MB.
"""

import ast
import inspect
import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest

PINS = Path(__file__).with_name("kernels.txt")
WHEELS = Path(sys.prefix) / "kernels"
WITHOUT = "HEADRACE_WITHOUT_KERNELS"


def read(package: str, member: str) -> ast.Module:
    """One file of a package: as it is installed here, or from its wheel in the pinned version."""
    try:
        text = Path(str(distribution(package).locate_file(member))).read_text("utf-8")
    except PackageNotFoundError:
        text = _from_wheel(package, member)
    return ast.parse(text)


def _from_wheel(package: str, member: str) -> str:
    pins = dict(line.split("==") for line in PINS.read_text("utf-8").split())
    wheel = next(WHEELS.glob(f"{package.replace('-', '_')}-{pins[package]}-*.whl"), None)
    if wheel is None and os.environ.get(WITHOUT):
        pytest.skip(f"{WITHOUT} is set and {WHEELS} has no {package} {pins[package]}")
    if wheel is None:
        pytest.fail(
            f"{WHEELS} has no wheel of {package} {pins[package]}: run `make test`, or `pip download --no-deps --dest "
            f"{WHEELS} -r {PINS}`; or set {WITHOUT}=1 to leave these tests out"
        )
    with ZipFile(wheel) as archive:
        return archive.read(member).decode("utf-8")


def find(source: ast.Module, *path: str) -> ast.FunctionDef:
    """The function of that name, or the method of a class; of overloads the last, which is the real one."""
    body: list[ast.stmt] = source.body
    for name in path[:-1]:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == name)
    return [node for node in body if isinstance(node, ast.FunctionDef) and node.name == path[-1]][-1]


def signature(function: ast.FunctionDef) -> inspect.Signature:
    """What it can be called with; defaults that are more than a literal become the text of them."""
    kinds = inspect.Parameter
    args = function.args
    named = [kinds.POSITIONAL_ONLY] * len(args.posonlyargs) + [kinds.POSITIONAL_OR_KEYWORD] * len(args.args)
    positional = list(zip([*args.posonlyargs, *args.args], named, strict=True))
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    found = [
        kinds(arg.arg, kind, default=_default(node)) for (arg, kind), node in zip(positional, defaults, strict=True)
    ]
    if args.vararg:
        found.append(kinds(args.vararg.arg, kinds.VAR_POSITIONAL))
    found += [
        kinds(arg.arg, kinds.KEYWORD_ONLY, default=_default(node))
        for arg, node in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg:
        found.append(kinds(args.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(found)


def _default(node: ast.expr | None) -> object:
    if node is None:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)
