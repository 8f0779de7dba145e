"""What is loaded on first use, so that a command imports what it needs: names of packages, and other libraries."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType


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


def on_demand(package: str, homes: Mapping[str, str]) -> list[str]:
    """Let a package find its public names in the modules that have them, relative to it where they begin with a dot.

    >>> import sfumato.privacy
    >>> sfumato.privacy.LDP.__module__
    'sfumato.privacy.ldp'
    """
    module = sys.modules[package]
    places = {home: package + home if home.startswith(".") else home for home in homes}
    found = {name: places[home] for home, names in homes.items() for name in names.split()}
    module.__dict__["_homes"] = found
    module.__class__ = _OnDemand
    return sorted(found)
