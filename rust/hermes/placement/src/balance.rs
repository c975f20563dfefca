//! Which DIMM holds which neurons: the loads of a term are made equal, group by group and then with parts of groups.

use crate::{Group, Instance, Placement, PlacementError};
use ndp_config::BlockKind;
use std::ops::Range;

/// The slowest DIMM of a term may exceed the mean by this part of it.
const TOLERANCE: f64 = 5e-5;

/// A group with more than the mean load of a DIMM divided by this is cut before it is put anywhere.
const COARSENESS: u64 = 4;

/// Which neurons have a place in their DIMM.
pub(crate) enum Stored<'a> {
    /// All of them.
    All,
    /// Of attention all; of the MLP those that are not on the GPU, up to a position in each block's order.
    Until(&'a [u32]),
}

/// Neighbours in a block's order of frequency that are on one DIMM.
#[derive(Clone, Copy, Debug)]
struct Piece {
    block: u32,
    start: u32,
    len: u32,
    work: u64,
    dimm: usize,
    /// It takes room there.
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

    /// Takes neurons off the front until the next one would exceed `most` work or `free` bytes, and returns them.
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

/// Puts neurons on DIMMs and keeps account of the room there.
pub(crate) struct Dimms<'a> {
    instance: &'a Instance,
    stored: &'a Stored<'a>,
    free: Vec<u64>,
    pieces: Vec<Piece>,
    loads: Vec<u64>,
}

impl<'a> Dimms<'a> {
    pub(crate) fn new(instance: &'a Instance, stored: &'a Stored<'a>) -> Self {
        let dimms = instance.machine().dimms as usize;
        let free = vec![instance.machine().dimm_bytes; dimms];
        Self { instance, stored, free, pieces: Vec::new(), loads: vec![0; dimms] }
    }

    /// Spreads neurons of one term so that the DIMMs are evenly loaded by them: those of each group behind the first `taken[group]`, or
    /// those in front. Only the ones behind, which load the DIMMs, are worth cutting groups for.
    ///
    /// # Errors
    /// [`PlacementError::Fragmented`] if a neuron finds no room.
    pub(crate) fn spread(
        &mut self,
        term: usize,
        taken: &[u32],
        front: bool,
        placement: &mut Placement,
    ) -> Result<(), PlacementError> {
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
            let (first, last) = (group.start + taken[index], group.start + group.len);
            let positions = if front { group.start..first } else { first..last };
            // In front of this position neurons have places.
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

    /// Puts a group on the least loaded DIMM that has room, or its neurons where there is some.
    ///
    /// Equally loaded are the empty ones at first. The hottest group goes to the fullest of them, because that one will get the
    /// fewest bytes; groups that are never active go where most room is.
    fn put(&mut self, mut group: Piece) -> Result<(), PlacementError> {
        let bytes = group.bytes(self.instance);
        let fitting = (0..self.free.len()).filter(|&dimm| self.free[dimm] >= bytes);
        let chosen = match group.work {
            0 if group.stored => fitting.max_by_key(|&dimm| self.free[dimm]),
            _ => fitting.min_by_key(|&dimm| (self.loads[dimm], self.free[dimm])),
        };
        if let Some(dimm) = chosen {
            self.add(Piece { dimm, ..group });
            return Ok(());
        }
        while group.len > 0 {
            let roomiest = (0..self.free.len()).max_by_key(|&dimm| self.free[dimm]).unwrap_or(0);
            let free = self.free[roomiest];
            let Some(part) = group.cut(self.instance, u64::MAX, free) else {
                let block = group.block as usize;
                let needed = self.instance.blocks()[block].neuron_bytes;
                return Err(PlacementError::Fragmented { block, needed, free });
            };
            self.add(Piece { dimm: roomiest, ..part });
        }
        Ok(())
    }

    fn add(&mut self, piece: Piece) {
        self.loads[piece.dimm] += piece.work;
        self.free[piece.dimm] -= piece.bytes(self.instance);
        self.pieces.push(piece);
    }

    /// Moves a piece to another DIMM.
    fn shift(&mut self, index: usize, to: usize) {
        let piece = self.pieces[index];
        let bytes = piece.bytes(self.instance);
        self.loads[piece.dimm] -= piece.work;
        self.loads[to] += piece.work;
        self.free[piece.dimm] += bytes;
        self.free[to] -= bytes;
        self.pieces[index].dimm = to;
    }

    /// Moves work from the most to the least loaded DIMM until the most loaded one is close to the mean or nothing helps.
    fn level(&mut self) {
        let dimms = self.loads.len() as u64;
        let mean = self.loads.iter().sum::<u64>() / dimms;
        let limit = mean + (mean as f64 * TOLERANCE) as u64;
        // Each step ends the excess of one DIMM or the lack of another but for a fraction; the fractions take a few rounds.
        for _ in 0..16 * dimms {
            let all = 0..self.loads.len();
            let (Some(from), Some(to)) = (
                all.clone().max_by_key(|&dimm| self.loads[dimm]),
                all.min_by_key(|&dimm| (self.loads[dimm], u64::MAX - self.free[dimm])),
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

    /// Moves a part of the smallest piece that is too large, or else the largest of the others; at most `most` work.
    fn transfer(&mut self, from: usize, to: usize, most: u64) -> bool {
        let free = self.free[to];
        let (mut larger, mut smaller): (Option<usize>, Option<usize>) = (None, None);
        for (index, piece) in self.pieces.iter().enumerate() {
            if piece.dimm != from || piece.work == 0 {
                continue;
            }
            let work = |other: Option<usize>| other.map(|other| self.pieces[other].work);
            if piece.work > most {
                if work(larger).is_none_or(|least| piece.work < least) {
                    larger = Some(index);
                }
            } else if work(smaller).is_none_or(|best| piece.work > best) && piece.bytes(self.instance) <= free
            {
                smaller = Some(index);
            }
        }
        if let Some(index) = larger
            && let Some(part) = self.pieces[index].cut(self.instance, most, free)
        {
            self.loads[from] -= part.work;
            self.free[from] += part.bytes(self.instance);
            self.add(Piece { dimm: to, ..part });
            return true;
        }
        let Some(index) = smaller else { return false };
        self.shift(index, to);
        true
    }

    /// Moves a piece, or exchanges two, so that the difference shrinks most.
    fn exchange(&mut self, from: usize, to: usize) -> bool {
        let difference = self.loads[from] - self.loads[to];
        let on = |dimm| self.pieces.iter().enumerate().filter(move |(_, piece)| piece.dimm == dimm);
        let mut best: Option<(u64, usize, Option<usize>)> = None;
        for (a, out) in on(from) {
            let back = on(to).map(|(b, back)| (Some(b), back.work, back.bytes(self.instance)));
            for (b, work, up) in back.chain([(None, 0, 0)]).filter(|&(_, work, _)| work < out.work) {
                let left = difference.abs_diff(2 * (out.work - work));
                let down = out.bytes(self.instance);
                let fits = self.free[from] + down >= up && self.free[to] + up >= down;
                if fits && left < difference && best.is_none_or(|(least, ..)| left < least) {
                    best = Some((left, a, b));
                }
            }
        }
        let Some((_, a, b)) = best else { return false };
        // Room is made before it is taken.
        for index in b.into_iter().chain([a]) {
            let bytes = self.pieces[index].bytes(self.instance);
            self.free[self.pieces[index].dimm] += bytes;
        }
        for (index, dimm) in b.map(|b| (b, from)).into_iter().chain([(a, to)]) {
            let piece = &mut self.pieces[index];
            self.loads[piece.dimm] -= piece.work;
            piece.dimm = dimm;
            self.loads[dimm] += piece.work;
            self.free[dimm] -= self.pieces[index].bytes(self.instance);
        }
        true
    }
}
