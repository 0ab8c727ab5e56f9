"""The reference pages in docs/ and the settings of the VS Code extension, written from the code: `make docs`."""
