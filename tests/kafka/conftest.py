"""Clusters of three brokers, for the tests that kill one."""

from collections.abc import Iterator

import pytest

from lorebus_ops.apache_kafka import ApacheKafka
from tests.support import backends


@pytest.fixture(scope="module")
def kafka_cluster() -> Iterator[ApacheKafka]:
    """Three brokers; a test that ends one brings it back (`restart`)."""
    with backends.apache_kafka(brokers=3) as cluster:
        yield cluster
