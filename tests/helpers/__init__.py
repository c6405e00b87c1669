"""What tests share: references, tables, servers, a browser, a cluster, a GPU."""

import pytest

pytest.register_assert_rewrite("helpers.serving", "helpers.whatif")  # they check, too, and say what failed
