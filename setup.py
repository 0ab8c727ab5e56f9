"""Builds the compiled parts and tags wheels: ctypes loads plain libraries, so one wheel serves every Python.

An editable installation of a clone has the laboratory; wheels and the source archive have not. What trains models is
compiled by `python setup.py kernels`, in its folder.
"""

import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.editable_wheel import editable_wheel

SOURCES = runpy.run_path(str(Path(__file__).parent / "model_runtime/c_sources.py"))

KERNELS = Path("efim_lab/workshop/training/native")


class PlainLibraries(build_ext):
    """Puts a hash of its sources into each library; what a compiler says against one is kept in its place."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.force = True  # an older build has another hash

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', '/')}.so"

    def build_extension(self, ext: Extension) -> None:
        message = Path(str(self.build_lib), _message(ext))
        message.parent.mkdir(parents=True, exist_ok=True)
        message.unlink(missing_ok=True)
        ext.define_macros.append(("SOURCES", SOURCES["sources_hash"](Path(ext.sources[0]).parent)))
        with tempfile.TemporaryFile() as said:
            try:
                with _errors_to(said.fileno()):
                    super().build_extension(ext)
            except Exception:
                text = _text(said)
                compiler = (getattr(self.compiler, "compiler_so", None) or [""])[0]
                if not text and not shutil.which(compiler):
                    text = f"error: there is no {compiler or 'compiler'}\n"
                if text:  # a compiler that fails in silence is a way to ask for a wheel without compiled parts
                    message.write_text(text, encoding="utf-8")
                raise
            finally:
                sys.stderr.write(_text(said))

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        for built in (Path(self.build_lib, _message(ext)) for ext in self.extensions):
            beside = built.relative_to(self.build_lib)
            beside.unlink(missing_ok=True)
            if built.exists():
                shutil.copyfile(built, beside)


class EveryPython(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag of this platform if anything was compiled, else that of every platform."""
        platform = super().get_tag()[2]
        self.root_is_pure = not any(Path(self.bdist_dir).rglob("*.so"))
        return "py3", "none", "any" if self.root_is_pure else platform


class WithLaboratory(editable_wheel):
    """Adds `efim_lab`."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.distribution.packages += find_packages(include=["efim_lab*"])


class Kernels(PlainLibraries):
    """Compiles the kernels of training, and nothing else, in their folder."""

    def finalize_options(self) -> None:
        kernels = Extension(
            "efim_lab.workshop.training.native._kernels",
            sources=sorted(map(str, KERNELS.glob("*.c"))),
            depends=sorted(map(str, KERNELS.glob("*.h"))),
            extra_compile_args=["-O3", "-fno-math-errno"],
            libraries=["m"],
            optional=True,
        )
        self.distribution.ext_modules = [kernels]
        self.inplace = True
        super().finalize_options()


def _message(ext: Extension) -> Path:
    """Return the file, within the packages, for what a compiler says against an extension."""
    return Path(*ext.name.split(".")).with_suffix(SOURCES["BUILD_ERROR"])


def _text(file) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


@contextmanager
def _errors_to(file: int) -> Iterator[None]:
    """Send what other programs write to the standard error to a file, in English."""
    before, language = os.dup(2), os.environ.get("LC_ALL")
    os.dup2(file, 2)
    os.environ["LC_ALL"] = "C"
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        if language is None:
            del os.environ["LC_ALL"]
        else:
            os.environ["LC_ALL"] = language


setup(
    cmdclass={
        "build_ext": PlainLibraries,
        "bdist_wheel": EveryPython,
        "editable_wheel": WithLaboratory,
        "kernels": Kernels,
    }
)
