"""What is relied on of Faust and aiokafka beyond their promises: an upgrade may move it."""

import inspect
import re
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import faust
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata as Subscription
from aiokafka.producer import sender
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord
from faust.app.base import App
from faust.channels import Channel
from faust.tables import recovery
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport.consumer import Consumer, ThreadDelegateConsumer
from faust.transport.drivers import aiokafka as driver
from mode.utils.queues import FlowControlEvent, ThrowableQueue

import passthrough
from stores import kafka_records
from topology.faust.kafka import records
from topology.faust.worker import former_member, transport
from topology.faust.worker.writing import writer
from topology.model.event import Record


def test_the_versions_are_the_ones_that_were_tried() -> None:
    assert version("faust-streaming") == "0.15.3"
    assert version("mode-streaming") == "0.7.1"
    assert version("aiokafka") == "0.14.0"
    assert version("rocksdict") == "0.3.29"


def test_an_app_makes_its_transport_and_its_table_manager_where_they_are_replaced() -> None:
    app = passthrough.app
    assert isinstance(app, faust.App)
    assert isinstance(app.transport, transport.Transport)
    assert app.transport.Consumer is transport.Consumer
    assert isinstance(app.tables, transport.TableManager)
    assert "_new_transport" in vars(App)


def test_the_table_manager_makes_its_recovery_and_stops_as_expected() -> None:
    assert isinstance(vars(TableManager)["recovery"], property)
    assert inspect.iscoroutinefunction(TableManager.on_stop)
    source = inspect.getsource(TableManager)
    for name in ("_recovery", "_changelogs", "changelog_queue"):
        assert name in source


def test_recovery_is_told_of_a_rebalance_and_ends_where_the_engine_starts() -> None:
    assert list(inspect.signature(Recovery.on_rebalance).parameters) == [
        "self", "assigned", "revoked", "newly_assigned", "generation_id",
    ]  # fmt: skip
    assert list(inspect.signature(Recovery.on_recovery_completed).parameters) == [
        "self", "generation_id",
    ]  # fmt: skip
    assert "self.tables._changelogs.get" in inspect.getsource(Recovery.on_rebalance)
    assert "self.on_recovery_completed)(generation_id)" in inspect.getsource(recovery)


def test_the_consumer_pauses_and_resumes_through_methods_that_can_be_narrowed() -> None:
    assert list(inspect.signature(Consumer.resume_partitions).parameters) == ["self", "tps"]
    assert list(inspect.signature(driver.Consumer.verify_event_path).parameters) == [
        "self", "now", "tp",
    ]  # fmt: skip
    assert "_ensure_consumer" in vars(driver.AIOKafkaConsumerThread)
    assert "_commit" in vars(ThreadDelegateConsumer)
    assert "should_stop" in inspect.getsource(App._on_partitions_revoked)
    assert "on_partitions_revoked.send" in inspect.getsource(App._on_partitions_revoked)


async def test_a_poll_is_counted_by_the_fetch_context() -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    consumer._closed = True
    before = consumer._subscription.fetcher_idle_time
    with consumer._subscription.fetch_context():
        assert consumer._subscription.fetcher_idle_time == 0
    assert consumer._subscription.fetcher_idle_time <= max(before, 1)
    assert "_subscriptions" in inspect.getsource(driver.AIOKafkaConsumerThread._fetch_records)


def test_the_batch_builder_takes_positional_arguments_and_tells_when_it_is_full() -> None:
    batch = BatchBuilder(1000, 0, is_transactional=1)
    append, at = batch._builder.append, 0
    while append(at, 5, b"key", b"v" * 100, [("h", b"x")]) is not None:
        at += 1
    assert 5 < at < 10
    batch._relative_offset = at
    batch.close()
    assert batch.record_count() == at
    large = BatchBuilder(1000, 0)
    assert large._builder.append(0, 5, b"key", b"v" * 5000, []) is not None


async def test_a_producer_waits_apart_for_a_transaction_and_for_a_broker() -> None:
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", retry_backoff_ms=10)
    assert producer.client._retry_backoff == 0.01
    producer.client._retry_backoff = 0.1
    assert producer._sender._retry_backoff == 0.01
    producer._closed = True


def test_a_transaction_behind_another_one_waits_as_long_as_is_said() -> None:
    assert sender.BACKOFF_OVERRIDE == writer.RETRY / 1000
    assert "BACKOFF_OVERRIDE" in inspect.getsource(sender.AddPartitionsToTxnHandler)


async def test_a_transaction_takes_partitions_and_the_group_ahead() -> None:
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", transactional_id="t")
    assert inspect.iscoroutinefunction(producer._sender._do_add_offsets_to_txn)
    transactions = producer._txn_manager
    transactions.set_pid_and_epoch(1, 0)
    transactions.begin_transaction()
    assert not transactions.wait_for_transaction_end().done()
    partition = TopicPartition("t", 0)
    transactions.maybe_add_partition_to_txn(partition)
    assert transactions.partitions_to_add() == {partition}
    transactions.partition_added(partition)
    assert transactions.txn_partitions == {partition}
    transactions.consumer_group_added("group")
    assert "handler.do(node_id)" in inspect.getsource(producer._sender._do_add_offsets_to_txn)
    producer._closed = True


async def test_what_is_not_taken_holds_no_other_partition_back_if_so_set() -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    assert "backoff=self._prefetch_backoff" in inspect.getsource(Fetcher._proc_fetch_request)
    assert "node_id in backoff_by_nodes" in inspect.getsource(Fetcher._get_actions_per_node)
    assert "tp_state.paused" in inspect.getsource(Fetcher._get_actions_per_node)
    consumer._closed = True


def test_offsets_are_committed_with_metadata_in_the_consumers_own_thread() -> None:
    assert inspect.iscoroutinefunction(driver.AIOKafkaConsumerThread.call_thread)
    assert 'OffsetAndMetadata(offset, "")' in inspect.getsource(driver)


async def test_partitions_of_a_consumer_without_a_group_can_be_paused() -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    partition = TopicPartition("t", 0)
    consumer.assign([partition])
    consumer.pause(partition)
    assert consumer.paused() == {partition}
    consumer.resume(partition)
    assert consumer.paused() == set()
    consumer._closed = True


def test_a_fetcher_looks_up_by_name_what_unpacks_and_asks_it_for_each_record() -> None:
    assert "PartitionRecords(" in inspect.getsource(Fetcher._proc_fetch_request)
    assert "MemoryRecords(part_data[-1])" in inspect.getsource(Fetcher._proc_fetch_request)
    assert fetcher.PartitionRecords is records._unpacking
    assert fetcher.MemoryRecords is kafka_records.KeptRecords
    assert list(inspect.signature(kafka_records.PartitionRecords).parameters) == [
        "tp", "records", "aborted_transactions", "fetch_offset", "key_deserializer",
        "value_deserializer", "check_crcs", "isolation_level",
    ]  # fmt: skip
    tp = TopicPartition("orders", 3)
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 16)
    for offset in range(3):
        builder.append(offset, 17, b"key", b"value", [("name", b"x")])
    batch = bytes(builder.build())

    def unpacked(key_deserializer: Any) -> list[Any]:
        memory = MemoryRecords(batch)
        made = fetcher.PartitionRecords(tp, memory, [], 1, key_deserializer, None, True, 1)
        result = fetcher.FetchResult(tp, assignment=None, partition_records=made, backoff=0)
        result.check_assignment = lambda _: True
        result._update_position = lambda: None
        return [*result.getall(1), *result.getall()]

    mine, theirs = unpacked(records.raw), unpacked(None)
    assert [type(each) for each in mine] == [Record, Record]
    assert [type(each) for each in theirs] == [ConsumerRecord, ConsumerRecord]
    for record, other in zip(mine, theirs, strict=True):
        for name in ("topic", "partition", "offset", "timestamp", "key", "value"):
            assert getattr(record, name) == getattr(other, name)
        assert tuple(record.headers) == other.headers == (("name", b"x"),)


def test_a_static_member_can_be_described_and_removed() -> None:
    init = inspect.getsource(GroupCoordinator.__init__)
    assert "self._group_instance_id = group_instance_id" in init
    for name in ("ensure_coordinator_known", "_send_req"):
        assert inspect.iscoroutinefunction(vars(GroupCoordinator)[name])
    assert list(inspect.signature(GroupCoordinator._send_req).parameters) == ["self", "request"]
    assert "_coordinator" in inspect.getsource(AIOKafkaConsumer.start)
    # What the broker calls such a member, as Kafka's GroupMetadata.generateMemberId does.
    member = f"shop-1-{uuid4()}"
    assert re.fullmatch("shop-1" + former_member.UUID, member)
    assert not re.fullmatch("shop" + former_member.UUID, member)


def test_an_assignment_says_which_topics_and_whose_address_it_is_for() -> None:
    assignor: Any = passthrough.app.assignor
    told = Subscription.decode(assignor.metadata({"a", "b"}).encode())
    assert set(told.subscription) == {"a", "b"}
    assert assignor._get_client_metadata(told).url == str(assignor._url)


def test_a_topic_can_ask_for_the_brokers_default_replication() -> None:
    topic = NewTopic("t", 1, 1)
    topic.replication_factor = -1
    assert topic.replication_factor == -1


def test_a_channel_clones_itself_and_its_queue_can_be_its_own() -> None:
    assert isinstance(vars(Channel)["queue"], property)
    assert "_clone_args" in vars(Channel)
    queue: Any = ThrowableQueue(flow_control=FlowControlEvent(initially_suspended=False))
    queue.put_nowait(1)
    assert queue.get_nowait() == 1
