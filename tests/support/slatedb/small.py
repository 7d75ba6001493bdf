"""The functions of impl/manifests on the small manifests of model/functions: so that the model's checks judge them."""

import zlib

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import number_of_ulid, ulid_of, uuid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import (
    EXCLUDED,
    INCLUDED,
    UNBOUNDED,
    Bound,
    ExternalDb,
    Range,
    Run,
    Sst,
    SstInfo,
    View,
)
from highwater.impl.errors import Definite
from highwater.impl.manifests import merge, project, spans, union
from highwater.model.functions import manifests as small
from highwater.model.functions.projection_union import Constants, Functions, Ids, Refused, Source

TIME, RANDOM = 80, (1 << 80) - 1
V2 = ManifestCodec()


def key_of(number: int) -> bytes:
    return bytes([ord("a") + number])


def number_of(key: bytes) -> int:
    return key[0] - ord("a") + (key[1:] == b"\0")


def id_of(name: str) -> str:
    """A checkpoint's id: the model's is a text, ours a UUID."""
    return name if len(name) == 36 else uuid_of(zlib.crc32(name.encode()))


class Translator:
    """Translates manifests there and back. It knows which manifest each checkpoint names, as a caller does who reads them."""

    def __init__(self):
        self.named: dict[tuple[str, str], int] = {}
        self.objects: dict[Sst, small.Sst] = {}

    def sst(self, sst: small.Sst) -> Sst:
        name = ulid_of(sst.number + 1 << TIME)
        last = key_of(sst.end - 1) if sst.last_is_known else None
        made = Sst(name, SstInfo(first_entry=key_of(sst.first), last_entry=last), 2)
        self.objects[made] = sst
        return made

    def view(self, view: small.View, c: Constants) -> View:
        end = Bound(key_of(view.end), EXCLUDED) if view.end < c.KEYS else Bound(None, UNBOUNDED)
        whole = (view.start, view.end) == (view.sst.first, view.sst.end)
        return View(ulid_of(view.id), self.sst(view.sst).id,
                    None if whole and view.sst.last_is_known else Range(Bound(key_of(view.start), INCLUDED), end))

    def there(self, m: small.Manifest, c: Constants) -> Manifest:
        for pin in m.pins:
            for name in (pin.source, pin.final):
                self.named[pin.owner, id_of(name)] = pin.manifest
        views = {view.sst.number: self.sst(view.sst) for view in m.views}
        return Manifest(
            initialized=True, ssts=tuple(views.values()), l0=tuple(self.view(view, c) for view in m.l0),
            compacted=tuple(Run(run.id, tuple(self.view(view, c) for view in run.views)) for run in m.runs),
            external_dbs=tuple(ExternalDb(pin.owner, id_of(pin.source), id_of(pin.final), tuple(
                sorted(ulid_of(sst + 1 << TIME) for sst in pin.ssts))) for pin in m.pins),
            wal_id_last_seen=len(m.log), last_l0_seq=m.last_seq)

    def view_back(self, view: View, ssts: dict[str, Sst]) -> small.View:
        sst = self.objects[ssts[view.sst_id]]
        span = spans.span_of(view.visible_range)
        return small.View(number_of_ulid(view.id) & RANDOM, sst, number_of(span.start) if span.start else sst.first,
                          1 << 16 if span.end is None else number_of(span.end))

    def back(self, m: Manifest, log: frozenset[int] = frozenset()) -> small.Manifest:
        m = V2.decode(V2.encode(m))
        pins = []
        for one in m.external_dbs:
            number = self.named[one.path, one.source_checkpoint_id]
            pins.append(small.Pin(one.path, number, one.source_checkpoint_id, one.final_checkpoint_id or "",
                                  frozenset((number_of_ulid(sst) >> TIME) - 1 for sst in one.sst_ids)))
        ssts = {sst.id: sst for sst in m.ssts}
        runs = tuple(small.Run(run.id, tuple(self.view_back(view, ssts) for view in run.views)) for run in m.compacted)
        return small.Manifest(tuple(self.view_back(view, ssts) for view in m.l0), runs, tuple(pins), log, m.last_l0_seq)


def span_of(span: tuple[int, int], c: Constants) -> spans.Span:
    return spans.Span(key_of(span[0]), key_of(span[1]) if span[1] < c.KEYS else None)


def projected(c: Constants, m: small.Manifest, span: tuple[int, int]) -> small.Manifest:
    translator = Translator()
    try:
        return translator.back(project.project(translator.there(m, c), span_of(span, c)), m.log)
    except Definite as error:
        raise Refused(str(error)) from error


def united(c: Constants, sources: list[Source], ids: Ids) -> small.Manifest:
    translator = Translator()
    given = []
    for one in sources:
        path, m = one.database
        translator.named[path, id_of(one.checkpoint)] = one.manifest
        given.append(union.Source(path, id_of(one.checkpoint), one.manifest, translator.there(m, c),
                                  span_of(one.span, c) if one.span else None))
    try:
        return translator.back(union.union(given, lambda: ulid_of(ids.new()), translator.named))
    except Definite as error:
        raise Refused(str(error)) from error


def merged(c: Constants, m: small.Manifest, ids: Ids) -> small.Manifest:
    translator = Translator()
    return translator.back(merge.merge_views(translator.there(m, c), lambda: ulid_of(ids.new())))


FUNCTIONS = Functions(projected, united, merged)
