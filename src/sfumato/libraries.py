"""What is loaded on first use, so that a command imports what it needs: names of packages, and libraries of others that
take long to load or may be missing, under their own names.

`from sfumato.libraries import scipy` loads nothing, and `scipy.optimize.linprog` what it says.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = [
    "charset_normalizer", "fsspec", "jinja2", "matplotlib", "narwhals", "numpy", "pyarrow", "pyreadstat", "pyspark",
    "python_calamine", "rich", "scipy", "spark_functions", "spark_types", "starlette", "uvicorn",
]

if TYPE_CHECKING:
    import charset_normalizer
    import fsspec.core  # type: ignore[import-not-found,unused-ignore]
    import jinja2
    import matplotlib.backends.backend_agg
    import matplotlib.colors
    import matplotlib.figure
    import matplotlib.layout_engine
    import narwhals
    import numpy
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.fs
    import pyarrow.parquet
    import pyreadstat
    import pyspark.errors
    import pyspark.sql.pandas.types
    import python_calamine
    import rich.box
    import rich.console
    import rich.live
    import rich.panel
    import rich.progress
    import rich.table
    import rich.text
    import scipy.optimize
    import scipy.sparse
    import scipy.special
    import scipy.stats
    import starlette.applications
    import starlette.requests
    import starlette.responses
    import starlette.routing
    import uvicorn
    from pyspark.sql import functions as spark_functions
    from pyspark.sql import types as spark_types


class _OnDemand(ModuleType):
    """A package that knows the home of each of its public names, and finds the name there on first use.

    A name may be that of a module of the package, too: importing the module then does not hide the name, because what
    the import system sets on the package is only kept under names that are not public.
    """

    _homes: Mapping[str, str]

    def __getattr__(self, name: str) -> object:
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home = loaded(self._homes[name])
        whole = home.__name__ == f"{self.__name__}.{name}" and name not in vars(home)  # the name is that of a package
        value: object = home if whole else getattr(home, name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in self._homes and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self._homes, *vars(self).get("__all__", ()), *(x for x in vars(self) if x.startswith("__"))})


class Library(ModuleType):
    """A library of others under its own name: it, and each of its modules, is loaded when something of it is used.

    >>> Library("xml").dom.minidom.parseString("<a/>").documentElement.tagName
    'a'
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)  # those who look at a module from outside do not use it
        found: object = getattr(loaded(self.__name__), name, None)
        value = loaded(f"{self.__name__}.{name}") if found is None else found
        self.__dict__[name] = Library(value.__name__) if isinstance(value, ModuleType) else value
        return self.__dict__[name]


def loaded(module: str) -> ModuleType:
    """A module, loaded; without a library that it needs, an error that says where to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        from sfumato.errors import MissingPackage  # which needs the package's version, set after this module is loaded

        raise MissingPackage.after(error) or error from None


_TYPED = re.compile(r"^    from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def on_demand(package: str) -> list[str]:
    """Let a package find its public names in the modules from which its text imports them for a type checker.

    So each name is said once, to both. What it imports of itself is a module.

    >>> import sfumato.privacy
    >>> sfumato.privacy.LDP.__module__
    'sfumato.privacy.ldp'
    """
    module = sys.modules[package]
    with open(str(module.__file__), encoding="utf-8") as file:  # pathlib would take longer to load than the rest
        said = [(home, (many or few).replace(",", " ").split()) for home, many, few in _TYPED.findall(file.read())]
    found = {name: f"{home}.{name}" if home == package else home for home, names in said for name in names}
    module.__dict__["_homes"] = found
    module.__class__ = _OnDemand
    return sorted(found)


if not TYPE_CHECKING:
    _LONG = {"spark_functions": "pyspark.sql.functions", "spark_types": "pyspark.sql.types"}
    globals().update({name: Library(_LONG.get(name, name)) for name in __all__})
