"""The paper's figures and tables: one script each. Data in, parquet out, plots and the docs page read parquet.

``make paper`` runs all of them (`run`), ``python -m experiments.run figure1`` one.
"""
