"""Safety: a message is decoded and encoded as protobuf does it. Fields that we do not know are kept, and written again.

The table below has the messages of Pyroscope's metadata index by their field numbers: what a block's metadata is, what its
services are asked, and what its log holds. Numbers from 100 on are ours, so that its readers skip them. The classes are made of
this table, in a package of our own. A message is changed only by the function that made it.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, Message

from highwater.impl.codecs.codec import Undecodable

PACKAGE = "highwater.index"
STATUSES = ("COMPACTION_STATUS_UNSPECIFIED", "COMPACTION_STATUS_IN_PROGRESS", "COMPACTION_STATUS_SUCCESS")
UNASSIGNED, IN_PROGRESS, SUCCESS = range(3)
STATUS = "CompactionJobStatus"  # the name of the enum
OWN = 100  # the first field number that is ours
QUERY = "1 *string tenant_id, 2 int64 start_time, 3 int64 end_time, 4 string query, 5 *string labels, 100 *uint32 shards"
MESSAGES = {  # name -> fields: number, type (* is repeated), name
    # ms, both inclusive; tenant, created_by, name and labels are references into string_table
    "BlockMeta": "1 uint32 format_version, 2 string id, 3 int32 tenant, 4 uint32 shard, 5 uint32 compaction_level, "
                 "6 int64 min_time, 7 int64 max_time, 8 int32 created_by, 9 uint64 size, 10 *Dataset datasets, "
                 "11 *string string_table, 12 uint64 metadata_offset",
    "Dataset": "1 int32 tenant, 2 int32 name, 3 int64 min_time, 4 int64 max_time, 5 *uint64 table_of_contents, 6 uint64 size, "
               "8 *int32 labels, 9 uint32 format",
    "BlockList": "1 string tenant, 2 uint32 shard, 3 *string blocks",
    # what is to be deleted. Ours: the log index of its row, the job that carries it, and how many jobs have carried it
    "Tombstones": "1 BlockTombstones blocks, 2 ShardTombstone shard, 100 uint64 index, 101 string job, 102 uint32 handed_out",
    "BlockTombstones": "1 string name, 2 uint32 shard, 3 string tenant, 4 uint32 compaction_level, 5 *string blocks",
    # ns. Ours: the version of the unit that was read
    "ShardTombstone": "1 string name, 2 int64 timestamp, 3 int64 duration, 4 uint32 shard, 5 string tenant, "
                      "100 uint64 unit_version",
    "TombstoneKey": "1 uint64 index, 2 string name",  # ours: a tombstone whose objects are deleted
    # services
    "AddBlockRequest": "1 BlockMeta block, 100 bool past_horizon",  # ours: whether it is added though the horizon is over
    "AddBlockResponse": "",
    "GetBlockMetadataRequest": "1 BlockList blocks",
    "GetBlockMetadataResponse": "1 *BlockMeta blocks",
    "QueryMetadataRequest": QUERY,
    "QueryMetadataResponse": "1 *BlockMeta blocks",
    "QueryMetadataLabelsRequest": QUERY,
    "QueryMetadataLabelsResponse": "1 *Labels labels",
    "Labels": "1 *LabelPair labels",
    "LabelPair": "1 string name, 2 string value",
    # Ours: whether the worker takes tombstones that jobs have carried in vain, and these
    "PollCompactionJobsRequest": "1 *PolledStatusUpdate status_updates, 2 uint32 job_capacity, 100 bool takes_overdue",
    "PolledStatusUpdate": "1 string name, 2 uint64 token, 3 CompactionJobStatus status, 4 CompactedBlocks compacted_blocks, "
                          "100 *TombstoneKey deleted",
    "PollCompactionJobsResponse": "1 *CompactionJob compaction_jobs, 2 *CompactionJobAssignment assignments, "
                                  "100 *Tombstones overdue",
    "CompactedBlocks": "1 BlockList source_blocks, 2 *BlockMeta new_blocks",
    "CompactionJob": "1 string name, 2 uint32 shard, 3 string tenant, 4 uint32 compaction_level, 5 *string source_blocks, "
                     "6 *Tombstones tombstones",
    "CompactionJobAssignment": "1 string name, 2 uint64 token, 3 int64 lease_expires_at",
    "GetTenantsRequest": "",
    "GetTenantsResponse": "1 *string tenant_ids",
    "GetTenantRequest": "1 string tenant_id",
    "GetTenantResponse": "1 TenantStats stats",
    "TenantStats": "1 bool data_ingested, 2 int64 oldest_profile_time, 3 int64 newest_profile_time",  # ms
    "DeleteTenantRequest": "1 string tenant_id",
    "DeleteTenantResponse": "",
    "ReadIndexResponse": "1 uint64 commit_index, 2 uint64 term",
    "HealthCheckRequest": "1 string service",  # gRPC's own
    "HealthCheckResponse": "1 uint32 status",
    # the log
    "AddBlockMetadataRequest": "1 BlockMeta metadata, 100 bool past_horizon",
    "GetCompactionPlanUpdateRequest": "1 *CompactionJobStatusUpdate status_updates, 2 uint32 assign_jobs_max, "
                                      "100 *TombstoneKey deleted",
    "CompactionJobStatusUpdate": "1 string name, 2 uint64 token, 3 CompactionJobStatus status",
    "UpdateCompactionPlanRequest": "1 uint64 term, 2 CompactionPlanUpdate plan_update",
    "CompactionPlanUpdate": "1 *NewCompactionJob new_jobs, 2 *AssignedCompactionJob assigned_jobs, "
                            "3 *UpdatedCompactionJob updated_jobs, 4 *CompletedCompactionJob completed_jobs, "
                            "5 *EvictedCompactionJob evicted_jobs, 100 *TombstoneKey deleted",
    "NewCompactionJob": "1 CompactionJobState state, 2 CompactionJobPlan plan",
    "AssignedCompactionJob": "1 CompactionJobState state, 2 CompactionJobPlan plan",
    "UpdatedCompactionJob": "1 CompactionJobState state",
    "CompletedCompactionJob": "1 CompactionJobState state, 2 CompactedBlocks compacted_blocks",
    "EvictedCompactionJob": "1 CompactionJobState state",
    # ns. Ours: whether a worker has reported that it has this assignment, and whether there was a poll since the job has failed
    "CompactionJobState": "1 string name, 2 uint32 compaction_level, 3 CompactionJobStatus status, 4 uint64 token, "
                          "5 int64 lease_expires_at, 6 int64 added_at, 7 uint32 failures, 100 bool heard, "
                          "101 bool paused",
    "CompactionJobPlan": "1 string name, 2 string tenant, 3 uint32 shard, 4 uint32 compaction_level, 5 *string source_blocks, "
                         "6 *Tombstones tombstones",
    "TruncateIndexRequest": "1 uint64 term, 2 *Tombstones tombstones",
}


def described(fields: str) -> list[descriptor_pb2.FieldDescriptorProto]:
    """Return protobuf's description of the fields of one message."""
    found = []
    for text in filter(None, fields.split(", ")):
        number, kind, name = text.split(" ")
        field = descriptor_pb2.FieldDescriptorProto(
            name=name, number=int(number), label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
        if kind.startswith("*"):
            field.label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
        kind = kind.removeprefix("*")
        if kind in MESSAGES or kind == STATUS:
            field.type_name = f".{PACKAGE}.{kind}"
        named = "ENUM" if kind == STATUS else "MESSAGE" if kind in MESSAGES else kind.upper()
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{named}")
        found.append(field)
    return found


def classes() -> dict[str, Any]:
    """Return name -> class, in a pool of their own."""
    file = descriptor_pb2.FileDescriptorProto(name="highwater_index.proto", package=PACKAGE, syntax="proto3")
    values = [descriptor_pb2.EnumValueDescriptorProto(name=name, number=number) for number, name in enumerate(STATUSES)]
    file.enum_type.append(descriptor_pb2.EnumDescriptorProto(name=STATUS, value=values))
    for name, fields in MESSAGES.items():
        file.message_type.append(descriptor_pb2.DescriptorProto(name=name, field=described(fields)))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}


CLASSES: dict[str, Any] = classes()
BlockMeta, Dataset, BlockList = (CLASSES[name] for name in ("BlockMeta", "Dataset", "BlockList"))
Tombstones, BlockTombstones, ShardTombstone, TombstoneKey = (CLASSES[name] for name in (
    "Tombstones", "BlockTombstones", "ShardTombstone", "TombstoneKey"))
JobState, JobPlan, StatusUpdate, PlanUpdate = (CLASSES[name] for name in (
    "CompactionJobState", "CompactionJobPlan", "CompactionJobStatusUpdate", "CompactionPlanUpdate"))
AddBlock, GetPlan, UpdatePlan, Truncate = (CLASSES[name] for name in (
    "AddBlockMetadataRequest", "GetCompactionPlanUpdateRequest", "UpdateCompactionPlanRequest", "TruncateIndexRequest"))
QueryRequest, QueryResponse, LabelsRequest, LabelsResponse, Labels = (CLASSES[name] for name in (
    "QueryMetadataRequest", "QueryMetadataResponse", "QueryMetadataLabelsRequest", "QueryMetadataLabelsResponse", "Labels"))
TenantsResponse, TenantResponse = (CLASSES[name] for name in ("GetTenantsResponse", "GetTenantResponse"))
PollRequest, PollResponse, CompactedBlocks = (CLASSES[name] for name in (
    "PollCompactionJobsRequest", "PollCompactionJobsResponse", "CompactedBlocks"))


class DamagedMessage(Undecodable):
    """Bytes that are not a message of this kind."""


def decode(kind: Any, body: bytes, field: str = "message") -> Any:
    """Return the message of this class. Raises DamagedMessage."""
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise DamagedMessage(f"not a {kind.DESCRIPTOR.name}: {error}", 0, field) from None


def fill(message: Any, body: bytes, field: str = "message") -> None:
    """Decode into an empty message. Raises DamagedMessage."""
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise DamagedMessage(f"not a {message.DESCRIPTOR.name}: {error}", 0, field) from None


def encode(message: Message) -> bytes:
    """Return its bytes: known fields in the order of their numbers, then unknown ones as they came."""
    return message.SerializeToString(deterministic=True)


def to_json(message: Message) -> str:
    """Return a message as a line of JSON, by the names of the table."""
    return json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True)


def from_json(kind: Any, body: bytes) -> Any:
    """Return the message of this class in JSON. Raises DamagedMessage."""
    try:
        return json_format.Parse(body, kind())
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise DamagedMessage(f"no {kind.DESCRIPTOR.name} in JSON: {error}", 0, "JSON") from None


def copied(message: Any) -> Any:
    """Return a copy that may be changed."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
