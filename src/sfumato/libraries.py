"""Libraries of others that take long to load or may be missing, under their own names.

`from sfumato.libraries import scipy` loads nothing, and `scipy.optimize.linprog` what it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import Library

__all__ = [
    "charset_normalizer", "fsspec", "jinja2", "matplotlib", "narwhals", "numpy", "pyarrow", "pyreadstat", "pyspark",
    "python_calamine", "rich", "scipy", "spark_functions", "spark_types", "starlette",
    "uvicorn",
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
    import scipy.special
    import scipy.stats
    import starlette.applications
    import starlette.requests
    import starlette.responses
    import starlette.routing
    import uvicorn
    from pyspark.sql import functions as spark_functions
    from pyspark.sql import types as spark_types
else:
    _LONG = {"spark_functions": "pyspark.sql.functions", "spark_types": "pyspark.sql.types"}
    globals().update({name: Library(_LONG.get(name, name)) for name in __all__})
