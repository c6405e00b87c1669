"""What tests of a server with the bank's model share; the module has the ``server``."""

import pandas as pd
import pytest

import ifonly


@pytest.fixture(scope="module")
def applicants(server):
    return pd.read_parquet(server.folder / "credit.parquet").drop(columns="decision")


@pytest.fixture(scope="module")
def bank(server):
    return ifonly.load(server.folder / "credit.npz")
