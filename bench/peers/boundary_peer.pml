/* Safety: no id is acknowledged twice, the latest file is never deleted, and an acknowledged update stays in the latest.

   BP(W, K, G, M), the boundary protocol as a benchmark, for Spin: -DW=2 -DK=2 -DG=1 -DM=4, M at most 6.
   highwater/gate/boundary_peer.py defines the names. Sets of ids have bit i for i; a file's content has bit w * K + k for the
   update (w, k), and PRESENT. A d_step is one step; what is not alive in a pc is 0. */

#define PRESENT  16384
#define UPDATE   (1 << (_pid * K + k))
#define IDS      ((files[1] != 0) << 1 | (files[2] != 0) << 2 | (files[3] != 0) << 3 | \
                  (files[4] != 0) << 4 | (files[5] != 0) << 5 | (files[6] != 0) << 6)
#define LARGEST(set)  ((set) & 64 -> 6 : ((set) & 32 -> 5 : ((set) & 16 -> 4 : ((set) & 8 -> 3 : ((set) & 4 -> 2 : \
                      ((set) & 2 -> 1 : 0))))))
#define TOP      (files[6] -> 6 : (files[5] -> 5 : (files[4] -> 4 : (files[3] -> 3 : (files[2] -> 2 : (files[1] -> 1 : 0))))))
#define SEVERAL  (IDS & (IDS - 1))
#define SAFE     assert(bad == 0 && !(reported & ~files[TOP]))

#define Idle      0
#define Listed    1
#define Ready     2
#define Created   3
#define Checked   4
#define Desired   2
#define Versioned 3
#define Deleting  4

short files[7] = {0, PRESENT, 0, 0, 0, 0, 0};  /* files[i], 1 <= i; 0: absent */
byte boundary, acked, bad;
short reported;  /* the updates that writers have acknowledged, as their k tell, too */

active [W] proctype Writer() {
  byte pc, k, n, b;
  short base;
  do
  :: d_step { pc == Idle && k < K -> n = TOP; pc = Listed }
  :: d_step { pc == Listed && files[n] != 0 -> base = files[n]; pc = Ready }
  :: d_step { pc == Listed && files[n] == 0 -> n = 0; pc = Idle }
  :: d_step { pc == Ready && n < M && files[n + 1] == 0 -> files[n + 1] = base | UPDATE; base = 0; pc = Created; SAFE }
  :: d_step { pc == Ready && n < M && files[n + 1] != 0 -> n = 0; base = 0; pc = Idle }
  :: d_step { pc == Created -> b = boundary; pc = Checked }
  :: d_step { pc == Checked && n + 1 > b ->
       bad = ((acked >> (n + 1)) & 1 -> 1 : bad); acked = acked | (1 << (n + 1)); reported = reported | UPDATE;
       k++; n = 0; b = 0; pc = Idle; SAFE }
  :: d_step { pc == Checked && n + 1 <= b -> n = 0; b = 0; pc = Idle }
  od
}

#define COMPUTE(x) \
  :: d_step { pc == Listed && (ids & 1 << x) && x < LARGEST(ids) -> ids = ids & ((2 << x) - 1); d = x; pc = Desired }
#define DELETE(x) \
  :: d_step { pc == Deleting && (ids & 1 << x) -> \
       bad = (x == TOP -> 2 : bad); files[x] = 0; ids = ids & ~(1 << x); pc = (ids -> Deleting : Idle); SAFE }

active [G] proctype Collector() {
  byte pc, ids, d, b;
  do
  :: d_step { pc == Idle && SEVERAL -> ids = IDS; pc = Listed }
  COMPUTE(1) COMPUTE(2) COMPUTE(3) COMPUTE(4) COMPUTE(5)
  :: d_step { pc == Desired && d <= boundary -> d = 0; pc = Deleting }
  :: d_step { pc == Desired && d > boundary -> b = boundary; pc = Versioned }
  :: d_step { pc == Versioned && boundary == b -> boundary = d; d = 0; b = 0; pc = Deleting }
  :: d_step { pc == Versioned && boundary != b -> b = 0; pc = Desired }
  DELETE(1) DELETE(2) DELETE(3) DELETE(4) DELETE(5)
  od
}
