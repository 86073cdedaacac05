"""Requests made from the OpenAPI description (schemathesis): no crash, and no answer that it does not allow."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

SERVER = {"limits": {"wait_seconds": 0.0}}


@pytest.fixture(scope="module")
def schema(server):
    with server.client() as client:
        found = client.get("/openapi.json").json()
    for path in [each for each in found["paths"] if each.endswith("/stream")]:
        del found["paths"][path]  # they never end
    return schemathesis.openapi.from_dict(found)


def test_no_request_crashes_the_server(schema, server):
    """Each operation gets some requests that fit its description and some that do not."""
    operations = [each.ok() for each in schema.get_all_operations()]
    assert len(operations) > 25

    for operation in operations:

        @settings(
            max_examples=2,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def call(case):
            answer = case.call(base_url=server.url, timeout=600)
            case.validate_response(
                answer, checks=[not_a_server_error, status_code_conformance, response_schema_conformance]
            )

        call()
