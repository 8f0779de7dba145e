from sfumato.optimise.product.layout import Layout, layout_of_rows  # noqa: F401
