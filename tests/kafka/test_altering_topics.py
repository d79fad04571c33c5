"""`lorebus topics apply --alter` on Apache Kafka, which lets partitions and settings be changed in place."""

from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.commands import shell


async def test_topics_that_are_there_get_more_partitions_and_their_settings_and_keep_their_others(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    topic = topic_prefix + "session.rated"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        made = NewTopic(topic, 1, 1, topic_configs={"retention.ms": "60000", "segment.ms": "3600000"})
        await admin.create_topics([made])
    finally:
        await admin.close()
    asking = shell(tmp_path, bootstrap_servers=bootstrap_servers, prefix=topic_prefix)

    mended = await asking.lorebus("topics", "apply", "--alter", "--json")
    checked = await asking.lorebus("topics", "check", "--json")

    assert (mended.code, mended.json) == (0, {"ok": True, "faults": []})
    assert (checked.code, checked.json) == (0, {"ok": True, "faults": []})
