"""After a variable was renamed its own uses are offered, and nothing that only has its name."""

from __future__ import annotations

import pytest

from efim_ls.next_edit.rules.next_edits import NextEdits
from tests.unit.edited import Drawn, Edited

BINDINGS = {
    "python": "width = 3\n", "typescript": "const width = 3;\n", "javascript": "let width = 3;\n",
    "typescriptreact": "const width = 3;\n", "go": "func f() {\n\twidth := 3\n",
    "rust": "fn f() {\n    let width = 3;\n",
    "java": "class A {\n    void f() {\n        int width = 3;\n", "c": "void f(void)\n{\n    int width = 3;\n",
    "cpp": "void f()\n{\n    int width = 3;\n", "php": "<?php\n$width = 3;\n", "shellscript": "width=3\n",
    "lua": "local width = 3\n", "ruby": "width = 3\n", "csharp": "var width = 3;\n", "kotlin": "val width = 3\n",
}  # fmt: skip
ENDS = {"go": "}\n", "rust": "}\n", "java": "    }\n}\n", "c": "}\n", "cpp": "}\n"}
# A line, and what becomes of it; nothing is offered where nothing does.
CASES = (
    ("python", "f(width=width)", "f(width=depth)"),
    ("python", "f(1, width = width + 1)", "f(1, width = depth + 1)"),
    ("python", "return_ = Item(width=width)", "return_ = Item(width=depth)"),
    ("python", "print(shape.width * width)", "print(shape.width * depth)"),
    ("python", "print(width * shape.width)", "print(depth * shape.width)"),
    ("python", "x.width = width", "x.width = depth"),
    ("python", "print('width', width)", "print('width', depth)"),
    ("python", "print(width)  # width", "print(depth)  # width"),
    ("python", "print({'width': width})", "print({'width': depth})"),
    ("python", "print({width: width})", "print({depth: depth})"),
    ("python", "print(width, width)", "print(depth, depth)"),
    ("python", "print(shape.width)", ""),
    ("python", "f(width=3)", ""),
    ("python", "# width", ""),
    ("python", "class A:\n    width: int = 3", ""),
    ("typescript", "draw({ width: width });", "draw({ width: depth });"),
    ("typescript", "draw({ width });", ""),
    ("typescript", "box.width = width;", "box.width = depth;"),
    ("typescript", "draw(box?.width, width);", "draw(box?.width, depth);"),
    ("typescript", "draw([...width]);", "draw([...depth]);"),
    ("typescript", "interface Box { width: number }", ""),
    ("javascript", "draw({ a: width, width: 1 });", "draw({ a: depth, width: 1 });"),
    ("typescriptreact", "const b = <Box width={width} />;", "const b = <Box width={depth} />;"),
    ("go", "\treturn Box{width: width}", "\treturn Box{width: depth}"),
    ("go", "\tbox.width = width", "\tbox.width = depth"),
    ("rust", "    Shape { width: width }", "    Shape { width: depth }"),
    ("rust", "    Shape { width }", ""),
    ("rust", '    println!("{}", shape.width + width);', '    println!("{}", shape.width + depth);'),
    ("rust", "    for n in 0..width {}", "    for n in 0..depth {}"),
    ("lua", "draw(box.width, width)", "draw(box.width, depth)"),
    ("lua", "draw({ width = width })", "draw({ width = depth })"),
    ("ruby", "draw(width: width)", "draw(width: depth)"),
    ("ruby", "draw(:width, @width, box.width, width)", "draw(:width, @width, box.width, depth)"),
    ("ruby", "rows.map { |row| row * width }", "rows.map { |row| row * depth }"),
    ("java", "        draw(width, box.width);", "        draw(depth, box.width);"),
    ("java", "        Runnable r = () -> this.width(width);", "        Runnable r = () -> this.width(depth);"),
    ("c", "    draw(width, box->width);", "    draw(depth, box->width);"),
    ("c", "    struct box b = { .width = width };", "    struct box b = { .width = depth };"),
    ("cpp", "    auto l = [&] { return Box::width + width; };", "    auto l = [&] { return Box::width + depth; };"),
    ("php", "draw($width, $box->width);", "draw($depth, $box->width);"),
    ("php", "draw(width: $width, other: Box::$width);", "draw(width: $depth, other: Box::$width);"),
    ("php", "draw(['width' => $width]);", "draw(['width' => $depth]);"),
    ("shellscript", "draw $width --width width", "draw $depth --width width"),
    ("shellscript", "height=$((width * 2))", "height=$((depth * 2))"),
    ("csharp", "draw(width: width);", "draw(width: depth);"),
    ("csharp", 'draw("width", width);', 'draw("width", depth);'),
    ("kotlin", "draw(width = width)", "draw(width = depth)"),
)


@pytest.mark.parametrize(("language", "line", "expected"), CASES)
def test_a_variables_uses_are_renamed_and_nothing_else(language: str, line: str, expected: str) -> None:
    edited = Edited(f"{BINDINGS[language]}{line}\n{ENDS.get(language, '')}", language)
    edited.replace(Drawn(BINDINGS[language].index("width"), "width", "depth"))
    offered = NextEdits(edited.history).propose(edited.document, edited.cursor)
    before = edited.document.text
    after = before[: offered.start] + offered.added + before[offered.end :] if offered else before
    assert after == before.replace(line, expected or line)


@pytest.mark.parametrize("line", ["f(width=width)", "print(shape.width)", "width = 3", "print('width')"])
def test_a_renamed_attribute_renames_no_variable(line: str) -> None:
    edited = Edited(f"x = shape.width\n{line}\n", "python")
    edited.replace(Drawn(edited.document.text.index("width"), "width", "depth"))
    offered = NextEdits(edited.history).propose(edited.document, edited.cursor)
    text = edited.document.text
    after = text[: offered.start] + offered.added + text[offered.end :] if offered else text
    assert after.split("\n")[1] in (line, "print(shape.depth)", "f(depth=width)")
