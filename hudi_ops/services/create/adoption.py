"""Check a table that Apache Hudi made, and propose slot 0 of its commit log.

Settings, time zone, and the bucket index against the keys in the files are checked before the first byte is written. The entry
keeps facts, and settings for later comparison; none is ever written to the properties file, which Apache Hudi goes on changing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.commit.support import refuse_index, refuse_unwritable
from hudi_ops.config.definition import OpenOptions, WriterOptions
from hudi_ops.config.logged_settings import settings_of
from hudi_ops.config.table import BUCKETS_MAX, IndexKind, TableConfig, TableFacts, bucket_kind, index_kind
from hudi_ops.context import TableContext
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.files.slice.slice_keys import keys_of_slice
from hudi_ops.index.bucket_fit import (
    chosen_groups,
    first_misfit,
    fitting_counts,
)
from hudi_ops.index.doubled_keys import count_doubled, key_tasks
from hudi_ops.index.ring_files import RingReader, has_rings
from hudi_ops.index.simple_bucket import Tagger, bucket_of, groups_by_bucket
from hudi_ops.metadata.definitions import secondary_columns
from hudi_ops.metadata.reader.layout import load_index_definitions, refuse_partitioned_record_index
from hudi_ops.metadata.records.partitions import is_secondary
from hudi_ops.services.create.bucket_advice import count_missing, does_not_fit
from hudi_ops.services.create.found_rings import FoundRings
from hudi_ops.services.create.key_samples import samples_of
from hudi_ops.services.create.unadoptable import refuse_first_write, refuse_slashes
from hudi_ops.services.create.zone_evidence import zone_evidence
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.log.entries import ADOPTS, Properties
from hudi_ops.timeline.log.reserve import CLOCK_AHEAD_MS_MAX
from hudi_ops.timeline.log.unique_keys import counted_until
from hudi_ops.timeline.names import ahead_ms, instant_of_ms, zone_named
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.slices import visible_slices
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.schema import table_schema
from hudi_ops.view.slices import Slice, list_table

_OTHER_INDEXES = (".hoodie/.bucket_index/partition_bucket_index_meta", ".hoodie/.hashing_meta")
"""Folders of bucket indexes with rules for single partitions, which this library does not write."""

_NAME_THE_INDEX = (
    "pass the index (`hudi-ops adopt TABLE --index simple`, bloom or record_index), as in hoodie.index.type of the table's other "
    "writers: with Spark SIMPLE if they do not set it. With a global one, run `hudi-ops adopt TABLE --services-only` to have it "
    "compacted"
)


@dataclass(frozen=True)
class AdoptionOptions:
    """Facts of a table of Apache Hudi that the caller states; None: not stated.

    `hash_fields` default to the record key's; `timezone` is needed for tables in local time only. `services_only`: only Apache Hudi
    writes rows, with an index of its own. `index` is the index of all its writers.
    """

    buckets: int | None = None
    hash_fields: tuple[str, ...] | None = None
    timezone: str | None = None
    services_only: bool = False
    index: IndexKind | None = None
    bucket_engine: str | None = None
    buckets_min: int | None = None
    buckets_max: int | None = None

    def index_beside(self, ringed: IndexKind | None) -> IndexKind | None:
        """Return the stated index; `bucket` without an engine means the index of the table's rings."""
        if self.bucket_engine is not None:
            return bucket_kind(self.bucket_engine)
        return ringed if ringed is not None and self.index in {None, "simple_bucket"} else self.index

    @classmethod
    def of(cls, options: WriterOptions) -> AdoptionOptions:
        """Return the facts that the options of a writer state."""
        if not isinstance(options, OpenOptions):
            return cls()
        index = index_kind(options.index) if options.index is not None else None
        return cls(
            options.buckets,
            options.hash_fields,
            options.timezone,
            options.services_only,
            index,
            options.bucket_engine,
            options.buckets_min,
            options.buckets_max,
        )


@dataclass
class Adoption:
    """Proposes the first entry of a table's commit log.

    `checked` counts the files and keys that the last proposal was checked against. `counts_keys`: read the keys of all files, and
    count those in more than one file group.
    """

    ctx: TableContext
    options: AdoptionOptions = AdoptionOptions()
    checked: tuple[int, int] = (0, 0)
    counts_keys: bool = False
    _doubled: int | None = None

    def propose(self, config: TableConfig, timeline: Timeline, commits: CommitReader) -> Properties:
        """Return the entry for slot 0.

        Raises:
            Unsupported: the table cannot be written, or its index cannot be reproduced.
            InvalidRequest: the number of buckets, the hash fields or the time zone is missing or wrong.
            Busy: the table's first write is pending.
        """
        refuse_unwritable(config)
        refuse_first_write(config, timeline)
        self._refuse_unkept_indexes(config, timeline, commits)
        facts = facts_of_services(config) if self.options.services_only else self._facts(config, timeline, commits)
        zone = self._zone(config)
        self._refuse_future(config, timeline, zone)
        table_id = self.ctx.ids.new_id()
        return Properties(
            table_id=table_id,
            decision_id=f"{ADOPTS}{table_id}",
            owner=str(self.ctx.owner),
            at_ms=self.ctx.clock.now_ms(),
            properties_slot=-1,
            archive_slot=-1,
            facts=facts.model_copy(update={"timezone": zone}),
            doubled_keys=self._doubled,
            counted_until=counted_until(timeline) if self._doubled is not None else "",
            settings=settings_of(config.raw),
        )

    def _refuse_unkept_indexes(self, config: TableConfig, timeline: Timeline, commits: CommitReader) -> None:
        """Refuse a table with an index that this library cannot keep up to date.

        Raises:
            Unsupported: names one: a secondary index, or a partitioned record index.
        """
        refuse_partitioned_record_index(self.ctx.storage, config)
        if names := list(filter(is_secondary, config.all_metadata_partitions)):
            schema = table_schema(config, timeline, commits)
            secondary_columns(names, schema, config, load_index_definitions(self.ctx.storage))

    def accept(self, config: TableConfig, facts: TableFacts) -> None:
        """Compare the facts of the caller with those of the commit log.

        Raises:
            InvalidRequest: they differ.
        """
        zone = facts.timezone if config.is_in_local_time else "UTC"
        for option, stated, found in (
            ("index", self.options.index_beside(facts.index if facts.has_ring else None), facts.index),
            ("buckets", self.options.buckets, facts.buckets),
            ("buckets_min", self.options.buckets_min, facts.buckets_min),
            ("buckets_max", self.options.buckets_max, facts.buckets_max),
            ("hash_fields", self.options.hash_fields, facts.hash_fields),
            ("timezone", self.options.timezone, zone),
        ):
            if stated is not None and stated != found:
                raise InvalidRequest(
                    f"the table's commit log says {option} {_text(found)}, the call says {_text(stated)}",
                    table=config.name,
                    expected=_text(found),
                    found=_text(stated),
                    next_step=f"leave {option} out, or correct it; it was decided when the table was made or adopted"
                    + ("; `hudi-ops alter` changes it" if option.startswith("buckets_") else ""),
                )

    def _zone(self, config: TableConfig) -> str:
        given = self.options.timezone
        if not config.is_in_local_time:
            if given not in {None, "UTC"}:
                raise InvalidRequest(
                    "the table's instants are in UTC", table=config.name, expected="no time zone", found=str(given)
                )
            return "UTC"
        if given is None:
            evidence = zone_evidence(self.ctx.storage, config)
            raise InvalidRequest(
                "the table's instants are in the local time of its writers, and its settings do not name the zone",
                table=config.name,
                expected="a time zone",
                found=f"hoodie.table.timeline.timezone is not UTC; {evidence}",
                next_step=f"pass timezone (`hudi-ops adopt TABLE --timezone {evidence.example}`): the zone of the machines whose "
                "Java programs write the table",
                evidence=evidence.as_dict(),
            )
        zone_named(given)
        return given

    def _refuse_future(self, config: TableConfig, timeline: Timeline, zone: str) -> None:
        newest = max((time for time in timeline.known_times if len(time) == 17), default="")
        now_ms = self.ctx.clock.now_ms()
        if config.is_in_local_time and newest and ahead_ms(newest, now_ms, zone) > CLOCK_AHEAD_MS_MAX:
            raise InvalidRequest(
                f"in time zone {zone} the table's newest instant is in the future",
                table=config.name,
                instant=newest,
                expected=f"at or before {instant_of_ms(now_ms, zone)}",
                found=newest,
                next_step="pass the time zone of the machines whose Java programs write the table, or correct this clock",
            )

    def _facts(self, config: TableConfig, timeline: Timeline, commits: CommitReader) -> TableFacts:
        slices = visible_slices(config, timeline, commits, list_table(self.ctx.storage, config))
        refuse_slashes(config, slices)
        ringed: IndexKind | None = "consistent_bucket" if has_rings(self.ctx.storage) else None
        index = self.options.index_beside(ringed)
        if ringed is not None or index in {"consistent_bucket", "extendible_bucket"}:
            return self._ring_facts(config, timeline, commits, slices, index)
        index = self._index(config, slices)
        if index == "simple_bucket":
            return self._bucket_facts(config, timeline, commits, slices)
        refuse_index(index, config.populate_meta_fields, config.name)
        self._refuse_other_index(config, [])
        files = [slice_.base for slice_ in slices if slice_.base is not None]
        chosen = chosen_groups({(file.partition_path, number): file for number, file in enumerate(files)})
        fields = config.record_key_fields
        samples, encodes = samples_of(self.ctx, config, table_schema(config, timeline, commits), fields, chosen)
        self.checked = (len(samples), sum(len(sample.keys) for sample in samples))
        if self.counts_keys:
            spec = Tagger.of(config, TableFacts(buckets=1, hash_fields=fields, encodes_key_names=encodes)).keys
            schema = table_schema(config, timeline, commits)
            tasks = key_tasks(
                self.ctx.storage, config, timeline, schema, None if config.populate_meta_fields else spec, slices
            )
            self._doubled = count_doubled(self.ctx.engine.map(keys_of_slice, tasks))
        return TableFacts(index=index, buckets=0, hash_fields=fields, encodes_key_names=encodes)

    def _index(self, config: TableConfig, slices: Sequence[Slice]) -> IndexKind:
        """Return the index that the caller names, or the bucket index if file groups show it.

        A record index in the metadata table proves nothing: any writer may keep one, and use another index.

        Raises:
            InvalidRequest: names show no index, or the caller's facts contradict each other.
        """
        given = self.options.index
        if given not in {None, "simple_bucket"} and (self.options.buckets or self.options.hash_fields):
            raise InvalidRequest(
                f"the index {given} has neither buckets nor hash fields",
                table=config.name,
                expected="index bucket, or neither of the two",
                found=f"index {given} with buckets or hash fields",
            )
        other = next((slice_ for slice_ in slices if not _is_of_bucket(slice_)), None)
        if given not in {None, "simple_bucket"} and slices and other is None:
            raise InvalidRequest(
                f"the table's file groups are named for buckets: its index is not {given}",
                table=config.name,
                expected="index bucket",
                found=f"file group {slices[0].file_id}",
                next_step="pass index bucket and the number of buckets, as the table's other writers have it",
            )
        if given is not None:
            return given
        if other is None or self.options.buckets is not None or self.options.hash_fields is not None:
            return "simple_bucket"
        self._refuse_other_index(config, [])
        raise InvalidRequest(
            "Apache Hudi made this table and does not store its index, which all its writers must share",
            table=config.name,
            expected="an index: bloom, simple or record_index",
            found=f"file group {other.file_id}, which is no bucket's: the index is bloom, simple, record_index or a global one"
            + (
                ", and the existing record index does not say which"
                if "record_index" in config.metadata_partitions
                else ""
            ),
            next_step=_NAME_THE_INDEX,
        )

    def _bucket_facts(
        self, config: TableConfig, timeline: Timeline, commits: CommitReader, slices: Sequence[Slice]
    ) -> TableFacts:
        given = self.options.buckets
        if given is not None and not 1 <= given <= BUCKETS_MAX:
            raise InvalidRequest(f"{given} buckets are not possible", table=config.name, expected=f"1 to {BUCKETS_MAX}")
        fields = self._hash_fields(config)
        files = [slice_.base for slice_ in slices if slice_.base is not None]
        self._refuse_other_index(config, [*files, *(log for slice_ in slices for log in slice_.logs)])
        chosen = chosen_groups(groups_by_bucket(files, config.name))
        samples, encodes = samples_of(self.ctx, config, table_schema(config, timeline, commits), fields, chosen)
        self.checked = (len(samples), sum(len(sample.keys) for sample in samples))
        counts = fitting_counts(samples, fields)
        if given is None:
            raise count_missing(config, samples, fields, counts)
        misfit = first_misfit(samples, fields, given)
        highest = max((sample.bucket for sample in samples), default=0)
        if misfit is not None or highest >= given:
            raise does_not_fit(config, samples, fields, given, misfit)
        return TableFacts(buckets=given, hash_fields=fields, encodes_key_names=encodes)

    def _ring_facts(
        self,
        config: TableConfig,
        timeline: Timeline,
        commits: CommitReader,
        slices: Sequence[Slice],
        index: IndexKind | None,
    ) -> TableFacts:
        """Return the facts of a table with hash rings, after checking stored keys against these."""
        self._refuse_other_index(config, [])
        refuse_index("consistent_bucket", config.populate_meta_fields, config.name)
        fields = self._hash_fields(config)
        found = FoundRings(RingReader(self.ctx.storage, config, timeline, commits, None), config, slices)
        options, schema = self.options, table_schema(config, timeline, commits)
        facts = found.facts(index, options.buckets, (options.buckets_min, options.buckets_max), fields)
        samples, encodes = samples_of(self.ctx, config, schema, fields, chosen_groups(found.files))
        tasks = key_tasks(self.ctx.storage, config, timeline, schema, None, found.only_logged)
        keys = self.ctx.local_engine.map(keys_of_slice, tasks)
        self.checked = found.check(facts, samples, keys)
        return facts.model_copy(update={"encodes_key_names": encodes})

    def _hash_fields(self, config: TableConfig) -> tuple[str, ...]:
        """Return the stated hash fields, or those of the record key.

        Raises:
            InvalidRequest: a stated one is not a field of the record key.
        """
        fields = self.options.hash_fields or config.record_key_fields
        unknown = [field for field in fields if field not in config.record_key_fields]
        if unknown:
            raise InvalidRequest(
                f"hash field {unknown[0]} is not a field of the record key",
                table=config.name,
                expected=f"some of {', '.join(config.record_key_fields)}",
                found=unknown[0],
                field=unknown[0],
            )
        return fields

    def _refuse_other_index(self, config: TableConfig, files: Sequence[DataFile]) -> None:
        held = next((info.path for folder in _OTHER_INDEXES for info in self.ctx.storage.list(folder)), "")
        other = next((file for file in files if bucket_of(file.file_id) is None), None)
        if held or other is not None:
            raise Unsupported(
                "the table's index cannot be reproduced: Apache Hudi and hudi-ops would not find each other's rows",
                table=config.name,
                expected="Apache Hudi's simple bucket index: file ids that begin with the bucket in eight digits",
                found=f"{held}, of a partition-level bucket index"
                if held
                else f"{other.path if other is not None else ''}, of another index (simple, bloom, record)",
                next_step="go on writing it with Apache Hudi, and `hudi-ops adopt TABLE --services-only` to have it compacted; "
                "or copy its rows into a table with a simple bucket index"
                if held
                else _NAME_THE_INDEX,
                file=held or (other.path if other is not None else ""),
            )


def facts_of_services(config: TableConfig) -> TableFacts:
    """Return the facts of a table whose rows only Apache Hudi writes."""
    return TableFacts(index="other", buckets=0, hash_fields=config.record_key_fields)


def _is_of_bucket(slice_: Slice) -> bool:
    """Return whether a slice's file id begins with the number of a bucket.

    One of forty random file ids begins with digits, but hardly any with a number below `BUCKETS_MAX`.
    """
    bucket = bucket_of(slice_.file_id)
    return bucket is not None and bucket < BUCKETS_MAX


def _text(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
