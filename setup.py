"""Names the compiled parts and tags wheels: ctypes loads plain libraries, so one wheel serves every Python."""

from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


class PlainLibraries(build_ext):
    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', '/')}.so"


class EveryPython(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag of this platform if anything was compiled, else that of every platform."""
        platform = super().get_tag()[2]
        self.root_is_pure = not any(Path(self.bdist_dir).rglob("*.so"))
        return "py3", "none", "any" if self.root_is_pure else platform


setup(cmdclass={"build_ext": PlainLibraries, "bdist_wheel": EveryPython})
