"""The build hook of the wheel: compiles the CPU kernels where there is a compiler.

It knows where the kernels are, and how a wheel says what machine it is for. How they are compiled, it asks
`native/compiler.py`. Without a compiler the wheel is for every machine and holds the sources alone; it fails for that
only if $HEADRACE_BUILD_KERNELS is "require", as in ops/Dockerfile: an image has no compiler to make up for it.
"""

import os
import platform
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "HEADRACE_BUILD_KERNELS"
NATIVE = Path("headrace_engine", "native")
TIMEOUT_S = 900.0  # of one level, on a machine that may be busy with other builds


class KernelsHook(BuildHookInterface[Any]):
    """Compiles the kernels of every level that the compiler knows into native/built, and puts them into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; an editable install finds them where they are, a wheel takes them in and is for this platform."""
        if os.environ.get(VARIABLE) == "0":
            self.app.display_info(f"no CPU kernels are compiled: {VARIABLE}=0")
            return
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            self.app.display_info("no CPU kernels are compiled: they are for x86-64 Linux")
            return
        native = Path(self.root, "engine") / NATIVE
        made = self._compile(native / "sources", native / "built")
        if not made and os.environ.get(VARIABLE) == "require":
            message = f"no CPU kernels were compiled, and {VARIABLE}=require: the warnings above say why"
            raise RuntimeError(message)
        if made and version != "editable":
            system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            # Any Python 3 will do: the kernels are called through ctypes and use nothing of it.
            build_data["tag"] = f"py3-none-{system}"
            build_data["force_include"].update({str(path): (NATIVE / "built" / path.name).as_posix() for path in made})

    def _compile(self, sources: Path, built: Path) -> list[Path]:
        compiler = _load(sources.with_name("compiler.py"))
        try:
            tool = compiler.find_compiler()
            targets = [built / compiler.library_name(sources, level) for level in compiler.LEVELS]
            built.mkdir(exist_ok=True)
            for stale in set(built.glob("headrace-*.so")) - set(targets):
                stale.unlink()
        except (compiler.CannotCompile, OSError) as error:
            self.app.display_warning(f"no CPU kernels are compiled: {error}")
            return []

        def attempt(level: str, target: Path) -> bool:
            try:
                compiler.check_flags(tool, level)
                compiler.compile(sources, level, target, tool, TIMEOUT_S)
            except (compiler.CannotCompile, OSError) as error:
                self.app.display_warning(f"there will be no CPU kernels for {level}: {error}")
                return False
            return True

        with ThreadPoolExecutor() as pool:
            successes = pool.map(attempt, compiler.LEVELS, targets)
            return [target for target, success in zip(targets, successes, strict=True) if success]


def _load(file: Path) -> ModuleType:
    """Load a module by its path: what it belongs to is not installed yet, nor is what that would import."""
    module = ModuleType(file.stem)
    SourceFileLoader(file.stem, str(file)).exec_module(module)
    return module
