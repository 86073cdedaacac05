"""`nearcast generate --moving` refuses what it cannot do before it begins, and names the option."""

import pytest


@pytest.mark.parametrize(
    ("option", "value", "most"),
    [
        ("mobility", "2", "1"),
        ("mobility", "0", "1"),
        ("region-area", "-1", "1"),
        ("region-area", "nan", "1"),
        ("speed", "1e9", "1000"),
    ],
)
def test_a_number_out_of_bounds_is_a_usage_mistake(tmp_path, nearcast, option, value, most):
    result = nearcast("generate", tmp_path / "out", "--moving", f"--{option}", value)
    assert 2 == result.status
    assert f"--{option} {float(value)}: expected a number above 0 and up to {most}" in result.err
    assert not (tmp_path / "out").exists()
