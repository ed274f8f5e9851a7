"""An option that a script of the clone reads is one that it has."""

import ast
import re
from pathlib import Path

import pytest

APPS = Path(__file__).parents[3] / "apps"
ELSEWHERE = re.compile(r"\w\(parser[,)]|add_subparsers|parents=")
SCRIPTS = [
    path
    for path in sorted(APPS.rglob("*.py"))
    if "parser.parse_args(" in (text := path.read_text()) and not ELSEWHERE.search(text)
]


def _declared(call: ast.Call) -> set[str]:
    for each in call.keywords:
        if each.arg == "dest" and isinstance(each.value, ast.Constant):
            return {str(each.value.value)}
    names = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
    long = [name for name in names if not name.startswith("-") or name.startswith("--")]
    return {name.lstrip("-").replace("-", "_") for name in long[:1]}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: str(p.relative_to(APPS)))
def test_each_option_that_is_read_is_declared(script: Path) -> None:
    nodes = list(ast.walk(ast.parse(script.read_text())))
    declared: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "add_argument":
                declared |= _declared(node)
    read = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "options"
    }
    assert read
    assert read <= declared
