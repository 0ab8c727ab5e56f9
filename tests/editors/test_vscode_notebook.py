"""Ghost text in a notebook of a real VS Code, in the editor that it brings for Jupyter's files."""

from __future__ import annotations

import json

from .conftest import Opening, newest_only
from .drivers.shapes import SHAPES

CELLS = ("def calibrate_sensor(readings, offset):\n    return [each + offset for each in readings]\n", "")
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "id": f"cell{number}", "execution_count": None, "metadata": {}, "outputs": [],
         "source": text.splitlines(keepends=True)}
        for number, text in enumerate(CELLS)
    ],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}  # fmt: skip


@newest_only
def test_a_cell_is_completed_with_what_the_cells_above_define(opened: Opening) -> None:
    window = opened(text=SHAPES, beside={"sensor.ipynb": json.dumps(NOTEBOOK)})
    window.see_status("ready")
    window.press("Control+p")
    window.page.keyboard.insert_text("sensor.ipynb")
    window.page.locator(".quick-input-list .monaco-list-row.focused", has_text="sensor.ipynb").wait_for()
    window.press("Enter")
    cells = window.page.locator(".notebook-editor .cell.code .monaco-editor .view-lines")
    cells.nth(1).click()
    window.type("result = calibrate_")
    window.picture("notebook")
    window.see_ghost("sensor")
    window.press("Tab")
    window.see_line("result = calibrate_sensor")
