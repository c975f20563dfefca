//! Distribution of neurons over DIMMs: equalises the loads of a term, by groups, then by parts of groups.

use crate::placement::{Group, Instance, Placement};
use ndp_config::BlockKind;
use ndp_files::{Error, Result, refusal};
use std::ops::Range;

/// Allowed excess of a term's slowest DIMM over the mean.
const TOLERANCE: f64 = 5e-5;

/// A group with more than the mean load of a DIMM divided by this is cut first.
const COARSENESS: u64 = 4;

/// Neurons with a place in their DIMM.
pub(crate) enum Stored<'a> {
    All,
    /// All of attention; of the MLP those not on the GPU, up to a position in each block's order.
    Until(&'a [u32]),
}

impl Stored<'_> {
    /// Number of a block's neurons with a place.
    fn neurons(&self, instance: &Instance, taken: &[u32], block: usize) -> u32 {
        match self {
            Self::Until(until) if instance.shape().blocks()[block].kind == BlockKind::Mlp => {
                cold(instance, taken, block, until[block])
            }
            _ => instance.blocks()[block].order.len() as u32,
        }
    }
}

/// Neurons of a block that are not on the GPU, up to a position in its order.
pub(crate) fn cold(instance: &Instance, taken: &[u32], block: usize, until: u32) -> u32 {
    let groups = instance.blocks()[block].groups.clone();
    let of_group = |(group, taken): (&Group, &u32)| {
        (group.start + group.len).min(until).saturating_sub(group.start + taken)
    };
    instance.groups()[groups.clone()].iter().zip(&taken[groups]).map(of_group).sum()
}

/// Consecutive neurons in a block's order that are on one DIMM.
#[derive(Clone, Copy, Debug)]
struct Piece {
    block: u32,
    start: u32,
    len: u32,
    work: u64,
    dimm: usize,
    stored: bool,
}

impl Piece {
    fn bytes(&self, instance: &Instance) -> u64 {
        if self.stored {
            u64::from(self.len) * instance.blocks()[self.block as usize].neuron_bytes
        } else {
            0
        }
    }

    /// Takes neurons off the front, at most `most` work and `free` bytes.
    fn cut(&mut self, instance: &Instance, most: u64, free: u64) -> Option<Piece> {
        let positions = self.start..self.start + self.len;
        let free = if self.stored { free } else { u64::MAX };
        let (len, work) = instance.leading(self.block as usize, positions, most, free);
        let front = Piece { len, work, ..*self };
        self.start += len;
        self.len -= len;
        self.work -= work;
        (len > 0).then_some(front)
    }
}

pub(crate) struct Dimms<'a> {
    instance: &'a Instance,
    stored: &'a Stored<'a>,
    taken: &'a [u32],
    /// Free bytes of each DIMM: one number, or one per block if DIMMs are divided alike.
    free: Vec<Vec<u64>>,
    pieces: Vec<Piece>,
    loads: Vec<u64>,
}

impl<'a> Dimms<'a> {
    /// The first `taken[group]` neurons of each group are on the GPU.
    pub(crate) fn new(instance: &'a Instance, taken: &'a [u32], stored: &'a Stored<'a>) -> Self {
        let dimms = instance.machine().dimms as usize;
        let slots = |block| instance.slot_bytes(block, stored.neurons(instance, taken, block));
        let free = match instance.has_equal_slots() {
            true => (0..instance.blocks().len()).map(slots).collect(),
            false => vec![instance.machine().dimm_bytes],
        };
        Self { instance, stored, taken, free: vec![free; dimms], pieces: Vec::new(), loads: vec![0; dimms] }
    }

    /// Index into a DIMM's free bytes.
    fn account(&self, block: u32) -> usize {
        if self.instance.has_equal_slots() { block as usize } else { 0 }
    }

    fn room(&self, dimm: usize, block: u32) -> u64 {
        self.free[dimm][self.account(block)]
    }

    /// Spreads neurons of one term evenly over the DIMMs: of each group those off the GPU, or with `front` those on it.
    /// Only the former load the DIMMs, so only their groups are cut.
    pub(crate) fn spread(&mut self, term: usize, front: bool, placement: &mut Placement) -> Result<()> {
        self.pieces.clear();
        self.loads.fill(0);
        let part = |group: &Group, positions: Range<u32>, stored: bool| {
            let (start, len) = (positions.start, positions.len() as u32);
            let work = match len == group.len {
                true => group.work,
                false => self.instance.leading(group.block as usize, positions, u64::MAX, u64::MAX).1,
            };
            Piece { block: group.block, start, len, work, dimm: 0, stored }
        };
        let pieces = |index: usize| {
            let group = &self.instance.groups()[index];
            let (first, last) = (group.start + self.taken[index], group.start + group.len);
            let positions = if front { group.start..first } else { first..last };
            // Neurons before this position have places.
            let until = match self.stored {
                Stored::Until(until) if self.is_mlp(group.block as usize) => {
                    if front {
                        positions.start
                    } else {
                        until[group.block as usize]
                    }
                }
                _ => positions.end,
            };
            let until = until.clamp(positions.start, positions.end);
            [part(group, positions.start..until, true), part(group, until..positions.end, false)]
        };
        let groups = self.instance.term_groups(term);
        let mut groups: Vec<Piece> = groups.flat_map(pieces).filter(|piece| piece.len > 0).collect();
        let most =
            groups.iter().map(|piece| piece.work).sum::<u64>() / (self.loads.len() as u64 * COARSENESS);
        for index in 0..groups.len() {
            while groups[index].work > most
                && let Some(front) = groups[index].cut(self.instance, most, u64::MAX)
            {
                groups.push(front);
            }
        }
        groups.sort_by_key(|piece| std::cmp::Reverse(piece.work));
        for group in groups {
            self.put(group)?;
        }
        if !front {
            self.level();
        }
        for piece in &self.pieces {
            let order = &self.instance.blocks()[piece.block as usize].order;
            let order = &order[piece.start as usize..(piece.start + piece.len) as usize];
            let dimms = placement.dimms_mut(piece.block as usize);
            for &neuron in order {
                dimms[neuron as usize] = piece.dimm as u8;
            }
            for &neuron in order.iter().filter(|_| !piece.stored) {
                placement.set_ssd(piece.block as usize, neuron as usize, true);
            }
        }
        Ok(())
    }

    fn is_mlp(&self, block: usize) -> bool {
        self.instance.shape().blocks()[block].kind == BlockKind::Mlp
    }

    /// Puts a group on the least loaded DIMM with room, or piecewise where there is some.
    ///
    /// Among equals, as at first, the hottest group takes the fullest DIMM, which will get the fewest bytes; groups
    /// that are never active take the emptiest.
    fn put(&mut self, mut group: Piece) -> Result<()> {
        let bytes = group.bytes(self.instance);
        let room = |dimm: &usize| self.room(*dimm, group.block);
        let fitting = (0..self.free.len()).filter(|dimm| room(dimm) >= bytes);
        let chosen = match group.work {
            0 if group.stored => fitting.max_by_key(room),
            _ => fitting.min_by_key(|dimm| (self.loads[*dimm], room(dimm))),
        };
        if let Some(dimm) = chosen {
            self.add(Piece { dimm, ..group });
            return Ok(());
        }
        while group.len > 0 {
            let room = |dimm: &usize| self.room(*dimm, group.block);
            let roomiest = (0..self.free.len()).max_by_key(room).unwrap_or(0);
            let free = room(&roomiest);
            let Some(part) = group.cut(self.instance, u64::MAX, free) else {
                return Err(no_room(self.instance, group.block as usize, free));
            };
            self.add(Piece { dimm: roomiest, ..part });
        }
        Ok(())
    }

    fn occupy(&mut self, piece: &Piece) {
        let account = self.account(piece.block);
        self.loads[piece.dimm] += piece.work;
        self.free[piece.dimm][account] -= piece.bytes(self.instance);
    }

    fn leave(&mut self, piece: &Piece) {
        let account = self.account(piece.block);
        self.loads[piece.dimm] -= piece.work;
        self.free[piece.dimm][account] += piece.bytes(self.instance);
    }

    fn add(&mut self, piece: Piece) {
        self.occupy(&piece);
        self.pieces.push(piece);
    }

    /// Splits off the front of a piece, at most `most` work and `free` bytes, on the same DIMM.
    fn split(&mut self, index: usize, most: u64, free: u64) -> Option<usize> {
        if self.pieces[index].work <= most && self.pieces[index].bytes(self.instance) <= free {
            return Some(index);
        }
        let front = self.pieces[index].cut(self.instance, most, free)?;
        self.pieces.push(front);
        Some(self.pieces.len() - 1)
    }

    fn shift(&mut self, moves: &[(usize, usize)]) {
        for &(index, _) in moves {
            let piece = self.pieces[index];
            self.leave(&piece);
        }
        for &(index, to) in moves {
            self.pieces[index].dimm = to;
            let piece = self.pieces[index];
            self.occupy(&piece);
        }
    }

    /// Moves work from the most to the least loaded DIMM until the former is close to the mean or nothing helps.
    fn level(&mut self) {
        let dimms = self.loads.len() as u64;
        let mean = self.loads.iter().sum::<u64>() / dimms;
        let limit = mean + (mean as f64 * TOLERANCE) as u64;
        // Each step ends one DIMM's excess or lack up to a fraction; fractions take a few rounds.
        for _ in 0..16 * dimms {
            let all = 0..self.loads.len();
            let (Some(from), Some(to)) = (
                all.clone().max_by_key(|&dimm| self.loads[dimm]),
                all.min_by_key(|&dimm| (self.loads[dimm], u64::MAX - self.free[dimm].iter().sum::<u64>())),
            ) else {
                return;
            };
            if self.loads[from] <= limit || self.loads[from] - self.loads[to] < 2 {
                return;
            }
            let wanted = (self.loads[from] - mean).min(mean - self.loads[to]);
            if !self.transfer(from, to, wanted) && !self.exchange(from, to) {
                return;
            }
        }
    }

    /// Moves a part of the smallest piece that is too large, else the largest other one; at most `most` work.
    fn transfer(&mut self, from: usize, to: usize, most: u64) -> bool {
        let (mut larger, mut smaller): (Option<usize>, Option<usize>) = (None, None);
        for (index, piece) in self.pieces.iter().enumerate() {
            if piece.dimm != from || piece.work == 0 {
                continue;
            }
            let work = |other: Option<usize>| other.map(|other| self.pieces[other].work);
            let room = self.room(to, piece.block);
            if piece.work > most {
                let is_full =
                    piece.stored && room < self.instance.blocks()[piece.block as usize].neuron_bytes;
                if !is_full && work(larger).is_none_or(|least| piece.work < least) {
                    larger = Some(index);
                }
            } else if work(smaller).is_none_or(|best| piece.work > best) && piece.bytes(self.instance) <= room
            {
                smaller = Some(index);
            }
        }
        let part = larger.and_then(|index| {
            let room = self.room(to, self.pieces[index].block);
            self.split(index, most, room)
        });
        let Some(index) = part.or(smaller) else { return false };
        self.shift(&[(index, to)]);
        true
    }

    /// Moves a piece, or swaps two, to shrink the difference most. Equal slots need two of a block cut to one length.
    fn exchange(&mut self, from: usize, to: usize) -> bool {
        let difference = self.loads[from] - self.loads[to];
        let mut best = Exchange { left: difference, out: 0, back: None, len: 0 };
        let on = |dimm| self.pieces.iter().enumerate().filter(move |(_, piece)| piece.dimm == dimm);
        for (out, piece) in on(from) {
            for back in on(to).map(Some).chain([None]) {
                let other = back.map(|(_, other)| other);
                let work = other.map_or(0, |other| other.work);
                let (left, len) = match other {
                    Some(other) if self.is_exchanged_in_parts(piece, other) => {
                        parts(difference, piece, other)
                    }
                    _ if work < piece.work && self.fit((piece, to), (other, from)) => {
                        (difference.abs_diff(2 * (piece.work - work)), u32::MAX)
                    }
                    _ => continue,
                };
                if left < best.left {
                    best = Exchange { left, out, back: back.map(|(index, _)| index), len };
                }
            }
        }
        let Exchange { left, out, back, len } = best;
        if left == difference {
            return false;
        }
        let Some(back) = back else {
            self.shift(&[(out, to)]);
            return true;
        };
        let front = |own: &mut Self, index: usize| {
            let bytes = own.instance.blocks()[own.pieces[index].block as usize].neuron_bytes;
            own.split(index, u64::MAX, u64::from(len).saturating_mul(bytes))
        };
        let (Some(out), Some(back)) = (front(self, out), front(self, back)) else { return false };
        // Cutting changes the estimated work.
        let work = [out, back].map(|index| self.pieces[index].work);
        let is_better = work[1] < work[0] && difference.abs_diff(2 * (work[0] - work[1])) < difference;
        if is_better {
            self.shift(&[(out, to), (back, from)]);
        }
        is_better
    }

    /// Whether two pieces are exchanged up to the length of the shorter.
    fn is_exchanged_in_parts(&self, out: &Piece, back: &Piece) -> bool {
        self.instance.has_equal_slots() && out.block == back.block && out.stored && back.stored
    }

    /// Whether `out` fits in `to` and `back` in `from` after both have left.
    fn fit(&self, (out, to): (&Piece, usize), (back, from): (Option<&Piece>, usize)) -> bool {
        let down = out.bytes(self.instance);
        let Some(back) = back else { return self.room(to, out.block) >= down };
        let up = back.bytes(self.instance);
        let same = self.account(out.block) == self.account(back.block);
        let [freed_here, freed_there] = if same { [down, up] } else { [0, 0] };
        self.room(from, back.block) + freed_here >= up && self.room(to, out.block) + freed_there >= down
    }
}

/// Error of a neuron without room although DIMMs have up to `free` bytes.
pub(crate) fn no_room(instance: &Instance, block: usize, free: u64) -> Error {
    let needed = instance.blocks()[block].neuron_bytes;
    refusal!(
        "no DIMM has {needed} bytes left for a neuron of block {block}: the fullest use leaves at most {free} in one DIMM"
    )
}

/// Exchange of up to two pieces: neurons, and remaining difference.
struct Exchange {
    left: u64,
    out: usize,
    back: Option<usize>,
    len: u32,
}

/// Best number of neurons to exchange, and the remaining difference, if all neurons of a piece have equal work.
fn parts(difference: u64, out: &Piece, back: &Piece) -> (u64, u32) {
    let len = out.len.min(back.len);
    let mean = |piece: &Piece| piece.work as f64 / f64::from(piece.len);
    let each = 2.0 * (mean(out) - mean(back));
    if each <= 0.0 {
        return (difference, 0);
    }
    let len = ((difference as f64 / each) as u32).clamp(1, len);
    ((difference as f64 - each * f64::from(len)).abs() as u64, len)
}
