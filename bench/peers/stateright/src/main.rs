//! BP(W, K, G, M), the boundary protocol as a benchmark, for Stateright: `boundary_peer W K G M THREADS bfs|dfs`.
//!
//! highwater/gate/boundary_peer.py defines the names. Stateright takes states of any shape; these are of a fixed size and need
//! no heap, which is the fastest that it can be given. Prints one line: distinct, transitions, depth, seconds of the search.

use stateright::{Checker, Model, Property};
use std::time::Instant;

const MAX_W: usize = 3;
const MAX_G: usize = 2;
const MAX_M: usize = 6;
const PRESENT: u16 = 1 << 15; // of a file; the bits below are updates, that of (w, k) is w * K + k

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
enum WriterPc { Idle, Listed, Ready, Created, Checked }

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
enum CollectorPc { Idle, Listed, Desired, Versioned, Deleting }

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Writer { pc: WriterPc, acknowledged: u8, n: u8, b: u8, base: u16 }

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Collector { pc: CollectorPc, ids: u8, d: u8, b: u8 }

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    files: [u16; MAX_M], // files[i - 1]; 0: absent
    boundary: u8,
    acked: u8, // bit i - 1: the id i
    bad: u8,
    writers: [Writer; MAX_W],
    collectors: [Collector; MAX_G],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    List(usize), Read(usize), Create(usize), Conflict(usize), ReadBoundary(usize), Accept(usize), Reject(usize),
    CollectorList(usize), Compute(usize, u8), CollectorReadBoundary(usize), PutBoundary(usize), PutLost(usize),
    Delete(usize, u8),
}

struct Boundary { w: usize, k: u8, g: usize, m: u8 }

fn bit(i: u8) -> u8 {
    1 << (i - 1)
}

fn ids(set: u8) -> impl Iterator<Item = u8> {
    (1..=MAX_M as u8).filter(move |&i| set & bit(i) != 0)
}

fn largest(set: u8) -> u8 {
    (8 - set.leading_zeros()) as u8
}

impl State {
    fn present(&self) -> u8 {
        (1..=MAX_M as u8).filter(|&i| self.files[i as usize - 1] != 0).map(bit).sum()
    }

    fn top(&self) -> u8 {
        largest(self.present())
    }
}

impl std::hash::Hash for State {
    /// The same as the derived one, in few words.
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        let [a, b, c, d, e, f] = self.files.map(u64::from);
        hasher.write_u64(a | b << 16 | c << 32 | d << 48);
        hasher.write_u64(e | f << 16 | u64::from(self.boundary) << 32 | u64::from(self.acked) << 40 | u64::from(self.bad) << 48);
        for w in &self.writers {
            hasher.write_u64(w.pc as u64 | u64::from(w.acknowledged) << 8 | u64::from(w.n) << 16 | u64::from(w.b) << 24 | u64::from(w.base) << 32);
        }
        for g in &self.collectors {
            hasher.write_u32(g.pc as u32 | u32::from(g.ids) << 8 | u32::from(g.d) << 16 | u32::from(g.b) << 24);
        }
    }
}

const IDLE_WRITER: Writer = Writer { pc: WriterPc::Idle, acknowledged: 0, n: 0, b: 0, base: 0 };
const IDLE_COLLECTOR: Collector = Collector { pc: CollectorPc::Idle, ids: 0, d: 0, b: 0 };

impl Boundary {
    fn update(&self, w: usize, k: u8) -> u16 {
        1 << (w as u8 * self.k + k)
    }
}

fn no_id_acked_twice(_: &Boundary, s: &State) -> bool {
    s.bad != 1
}

fn latest_never_deleted(_: &Boundary, s: &State) -> bool {
    s.bad != 2
}

fn no_acked_update_lost(system: &Boundary, s: &State) -> bool {
    let top = s.top() as usize;
    let latest = if top == 0 { 0 } else { s.files[top - 1] };
    (0..system.w).all(|w| (0..s.writers[w].acknowledged).all(|k| latest & system.update(w, k) != 0))
}

impl Model for Boundary {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut files = [0; MAX_M];
        files[0] = PRESENT;
        vec![State {
            files, boundary: 0, acked: 0, bad: 0, writers: [IDLE_WRITER; MAX_W], collectors: [IDLE_COLLECTOR; MAX_G],
        }]
    }

    fn actions(&self, s: &State, enabled: &mut Vec<Action>) {
        for me in 0..self.w {
            let w = &s.writers[me];
            match w.pc {
                WriterPc::Idle if w.acknowledged < self.k => enabled.push(Action::List(me)),
                WriterPc::Idle => {}
                WriterPc::Listed => enabled.push(Action::Read(me)),
                WriterPc::Ready if w.n + 1 > self.m => {}
                WriterPc::Ready if s.files[w.n as usize] == 0 => enabled.push(Action::Create(me)),
                WriterPc::Ready => enabled.push(Action::Conflict(me)),
                WriterPc::Created => enabled.push(Action::ReadBoundary(me)),
                WriterPc::Checked if w.n + 1 > w.b => enabled.push(Action::Accept(me)),
                WriterPc::Checked => enabled.push(Action::Reject(me)),
            }
        }
        for me in 0..self.g {
            let g = &s.collectors[me];
            match g.pc {
                CollectorPc::Idle if s.present().count_ones() >= 2 => enabled.push(Action::CollectorList(me)),
                CollectorPc::Idle => {}
                CollectorPc::Listed => {
                    let last = largest(g.ids);
                    enabled.extend(ids(g.ids).filter(|&d| d < last).map(|d| Action::Compute(me, d)));
                }
                CollectorPc::Desired => enabled.push(Action::CollectorReadBoundary(me)),
                CollectorPc::Versioned if s.boundary == g.b => enabled.push(Action::PutBoundary(me)),
                CollectorPc::Versioned => enabled.push(Action::PutLost(me)),
                CollectorPc::Deleting => enabled.extend(ids(g.ids).map(|i| Action::Delete(me, i))),
            }
        }
    }

    /// Of an enabled action.
    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = last.clone();
        match action {
            Action::List(me) => {
                let n = s.top();
                let w = &mut s.writers[me];
                (w.pc, w.n) = (WriterPc::Listed, n);
            }
            Action::Read(me) => {
                let w = &mut s.writers[me];
                let file = if w.n == 0 { 0 } else { s.files[w.n as usize - 1] };
                if file == 0 {
                    (w.pc, w.n) = (WriterPc::Idle, 0);
                } else {
                    (w.pc, w.base) = (WriterPc::Ready, file);
                }
            }
            Action::Create(me) => {
                let w = &mut s.writers[me];
                s.files[w.n as usize] = w.base | self.update(me, w.acknowledged);
                (w.pc, w.base) = (WriterPc::Created, 0);
            }
            Action::ReadBoundary(me) => {
                let w = &mut s.writers[me];
                (w.pc, w.b) = (WriterPc::Checked, s.boundary);
            }
            Action::Accept(me) => {
                let w = &mut s.writers[me];
                let id = bit(w.n + 1);
                if s.acked & id != 0 {
                    s.bad = 1;
                }
                s.acked |= id;
                *w = Writer { acknowledged: w.acknowledged + 1, ..IDLE_WRITER };
            }
            Action::Conflict(me) | Action::Reject(me) => {
                let w = &mut s.writers[me];
                *w = Writer { acknowledged: w.acknowledged, ..IDLE_WRITER };
            }
            Action::CollectorList(me) => {
                s.collectors[me] = Collector { pc: CollectorPc::Listed, ids: s.present(), ..IDLE_COLLECTOR };
            }
            Action::Compute(me, d) => {
                let g = &mut s.collectors[me];
                let upto = g.ids & (bit(d) | (bit(d) - 1));
                *g = Collector { pc: CollectorPc::Desired, ids: upto, d, b: 0 };
            }
            Action::CollectorReadBoundary(me) => {
                let g = &mut s.collectors[me];
                if g.d <= s.boundary {
                    (g.pc, g.d) = (CollectorPc::Deleting, 0);
                } else {
                    (g.pc, g.b) = (CollectorPc::Versioned, s.boundary);
                }
            }
            Action::PutBoundary(me) => {
                let g = &mut s.collectors[me];
                s.boundary = g.d;
                (g.pc, g.d, g.b) = (CollectorPc::Deleting, 0, 0);
            }
            Action::PutLost(me) => {
                let g = &mut s.collectors[me];
                (g.pc, g.b) = (CollectorPc::Desired, 0);
            }
            Action::Delete(me, i) => {
                if i == s.top() {
                    s.bad = 2;
                }
                s.files[i as usize - 1] = 0;
                let g = &mut s.collectors[me];
                g.ids &= !bit(i);
                if g.ids == 0 {
                    g.pc = CollectorPc::Idle;
                }
            }
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("NoIdAckedTwice", no_id_acked_twice),
            Property::always("LatestNeverDeleted", latest_never_deleted),
            Property::always("NoAckedUpdateLost", no_acked_update_lost),
        ]
    }
}

/// Reports a finished search. Stateright counts the initial state as generated and as a level.
fn report(checker: impl Checker<Boundary>, threads: usize, start: Instant) {
    let checker = checker.join();
    let seconds = start.elapsed().as_secs_f64();
    assert!(checker.discoveries().is_empty(), "a property fails");
    println!("{} {} {} {seconds:.3}", checker.unique_state_count(), checker.state_count() - 1,
             if threads == 1 { checker.max_depth() - 1 } else { 0 });
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| -> usize { arguments[i].parse().expect("W K G M THREADS are numbers") };
    let (w, k, g, m, threads) = (number(0), number(1), number(2), number(3), number(4));
    assert!(w <= MAX_W && g <= MAX_G && m <= MAX_M && w * k < 15, "larger than this program was made for");
    let checker = Boundary { w, k: k as u8, g, m: m as u8 }.checker().threads(threads);
    let start = Instant::now();
    match arguments[5].as_str() {
        "bfs" => report(checker.spawn_bfs(), threads, start),
        "dfs" => report(checker.spawn_dfs(), threads, start),
        other => panic!("no search {other:?}"),
    }
}
