---------------------------- MODULE BoundaryPeer ----------------------------
(* Safety: no id is acknowledged twice, the latest file is never deleted, and an acknowledged update stays in the latest.
   BP(W, K, G, M), the boundary protocol as a benchmark, for TLC; highwater/gate/boundary_peer.py defines the names.
   A file is absent when its id is not in the domain of `files`. What is not alive in a pc is 0 or empty. *)
EXTENDS Naturals, FiniteSets

CONSTANTS W, K, G, M  \* writers, updates of each, collectors, the largest id

VARIABLES files, boundary, acked, bad, writer, collector
store == <<files, boundary, acked, bad>>

Writers == 0 .. W - 1
Collectors == 0 .. G - 1
Present == DOMAIN files
Largest(S) == CHOOSE i \in S : \A j \in S : j <= i
Top == IF Present = {} THEN 0 ELSE Largest(Present)

IdleWriter(k) == [pc |-> "Idle", n |-> 0, base |-> {}, b |-> 0, k |-> k]  \* k updates are acknowledged
IdleCollector == [pc |-> "Idle", ids |-> {}, d |-> 0, b |-> 0]

Init ==
  /\ files = [i \in {1} |-> {}]
  /\ boundary = 0
  /\ acked = {}
  /\ bad = 0
  /\ writer = [w \in Writers |-> IdleWriter(0)]
  /\ collector = [g \in Collectors |-> IdleCollector]

-----------------------------------------------------------------------------
Becomes(w, local) == writer' = [writer EXCEPT ![w] = local] /\ UNCHANGED collector

WriterList(w) ==
  /\ writer[w].pc = "Idle"
  /\ writer[w].k < K
  /\ Becomes(w, [writer[w] EXCEPT !.pc = "Listed", !.n = Top])
  /\ UNCHANGED store

Read(w) ==
  /\ writer[w].pc = "Listed"
  /\ Becomes(w, IF writer[w].n \in Present
                THEN [writer[w] EXCEPT !.pc = "Ready", !.base = files[writer[w].n]]
                ELSE IdleWriter(writer[w].k))
  /\ UNCHANGED store

Create(w) ==
  LET i == writer[w].n + 1 IN
  /\ writer[w].pc = "Ready"
  /\ i <= M
  /\ i \notin Present
  /\ files' = [j \in Present \cup {i} |-> IF j = i THEN writer[w].base \cup {<<w, writer[w].k>>} ELSE files[j]]
  /\ Becomes(w, [writer[w] EXCEPT !.pc = "Created", !.base = {}])
  /\ UNCHANGED <<boundary, acked, bad>>

Conflict(w) ==
  /\ writer[w].pc = "Ready"
  /\ writer[w].n + 1 \in Present
  /\ Becomes(w, IdleWriter(writer[w].k))
  /\ UNCHANGED store

WriterReadBoundary(w) ==
  /\ writer[w].pc = "Created"
  /\ Becomes(w, [writer[w] EXCEPT !.pc = "Checked", !.b = boundary])
  /\ UNCHANGED store

Accept(w) ==
  LET i == writer[w].n + 1 IN
  /\ writer[w].pc = "Checked"
  /\ i > writer[w].b
  /\ bad' = IF i \in acked THEN 1 ELSE bad
  /\ acked' = acked \cup {i}
  /\ Becomes(w, IdleWriter(writer[w].k + 1))
  /\ UNCHANGED <<files, boundary>>

Reject(w) ==
  /\ writer[w].pc = "Checked"
  /\ writer[w].n + 1 <= writer[w].b
  /\ Becomes(w, IdleWriter(writer[w].k))
  /\ UNCHANGED store

-----------------------------------------------------------------------------
Turns(g, local) == collector' = [collector EXCEPT ![g] = local] /\ UNCHANGED writer

CollectorList(g) ==
  /\ collector[g].pc = "Idle"
  /\ Cardinality(Present) >= 2
  /\ Turns(g, [collector[g] EXCEPT !.pc = "Listed", !.ids = Present])
  /\ UNCHANGED store

Compute(g) ==
  /\ collector[g].pc = "Listed"
  /\ \E d \in collector[g].ids \ {Largest(collector[g].ids)} :
       Turns(g, [pc |-> "Desired", ids |-> {i \in collector[g].ids : i <= d}, d |-> d, b |-> 0])
  /\ UNCHANGED store

CollectorReadBoundary(g) ==
  /\ collector[g].pc = "Desired"
  /\ Turns(g, IF collector[g].d <= boundary
              THEN [collector[g] EXCEPT !.pc = "Deleting", !.d = 0]
              ELSE [collector[g] EXCEPT !.pc = "Versioned", !.b = boundary])
  /\ UNCHANGED store

PutBoundary(g) ==
  /\ collector[g].pc = "Versioned"
  /\ boundary = collector[g].b
  /\ boundary' = collector[g].d
  /\ Turns(g, [collector[g] EXCEPT !.pc = "Deleting", !.d = 0, !.b = 0])
  /\ UNCHANGED <<files, acked, bad>>

PutLost(g) ==
  /\ collector[g].pc = "Versioned"
  /\ boundary # collector[g].b
  /\ Turns(g, [collector[g] EXCEPT !.pc = "Desired", !.b = 0])
  /\ UNCHANGED store

Delete(g) ==
  /\ collector[g].pc = "Deleting"
  /\ \E i \in collector[g].ids :
       /\ bad' = IF i = Top THEN 2 ELSE bad
       /\ files' = [j \in Present \ {i} |-> files[j]]
       /\ Turns(g, IF collector[g].ids = {i} THEN IdleCollector ELSE [collector[g] EXCEPT !.ids = @ \ {i}])
  /\ UNCHANGED <<boundary, acked>>

Next ==
  \/ \E w \in Writers :
       WriterList(w) \/ Read(w) \/ Create(w) \/ Conflict(w) \/ WriterReadBoundary(w) \/ Accept(w) \/ Reject(w)
  \/ \E g \in Collectors :
       CollectorList(g) \/ Compute(g) \/ CollectorReadBoundary(g) \/ PutBoundary(g) \/ PutLost(g) \/ Delete(g)

-----------------------------------------------------------------------------
NoIdAckedTwice == bad # 1
LatestNeverDeleted == bad # 2
NoAckedUpdateLost ==
  \A w \in Writers : \A k \in 0 .. writer[w].k - 1 : Top # 0 /\ <<w, k>> \in files[Top]
=============================================================================
