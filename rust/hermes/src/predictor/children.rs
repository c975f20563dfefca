//! The inverse correlation table: children of each neuron of the previous block.
//!
//! A block stores the activity of its neurons' parents as bits. Few neurons change from token to token, so only their
//! children are visited, and their parent bits inverted.

use crate::predictor::kernel::{self, GROUP, LANES, PARENT_WORDS};
use crate::predictor::table::NONE;

/// Neurons whose two bits fit 16-bit positions.
const TILE: usize = 1 << 15;
const TILE_WORDS: usize = TILE / GROUP * PARENT_WORDS;

/// Children of the previous block's neurons in one block.
#[derive(Clone, Debug)]
pub(crate) struct Children {
    tiles: Vec<Tile>,
}

/// At most [`TILE`] children.
#[derive(Clone, Debug)]
struct Tile {
    /// One bit per parent, in whole groups: whether it has children here.
    has: Vec<u64>,
    /// First position of each parent, and the number of positions, modulo 2^16. A parent has at most half of the at
    /// most 2^16 positions, so the difference of neighbours is its number.
    starts: Vec<u16>,
    /// Bits of the block's parent words, padded with zeros for one copy.
    positions: Vec<u16>,
    /// Whether parents have more than two children on average.
    many: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    changed: Vec<u32>,
    /// First position and number of positions of each.
    spans: Vec<(u16, u16)>,
    queue: Vec<u16>,
}

/// Positions copied at once, even if a parent has fewer, so that no branch depends on their number.
const FEW: usize = 4;
const MANY: usize = 16;

fn position(child: usize, which: usize) -> u16 {
    (child / GROUP * PARENT_WORDS * 64 + which * GROUP + child % GROUP) as u16
}

impl Children {
    /// Parents are in a block of `previous` neurons.
    pub(crate) fn new(parents: &[[u32; 2]], previous: u32) -> Self {
        Self { tiles: parents.chunks(TILE).map(|parents| Tile::new(parents, previous as usize)).collect() }
    }

    pub(crate) fn reserve(&self, room: &mut Room) {
        for tile in &self.tiles {
            let changed = room.changed.len().max(tile.starts.len() + 4);
            room.changed.resize(changed, 0);
            room.spans.resize(changed, (0, 0));
            room.queue.resize(room.queue.len().max(tile.positions.len()), 0);
        }
    }

    /// Inverts the bits of all children of the `flipped` parents.
    pub(crate) fn invert(&self, flipped: &[u64], parent_words: &mut [u64], room: &mut Room) {
        for (tile, words) in self.tiles.iter().zip(parent_words.chunks_mut(TILE_WORDS)) {
            let found = if tile.many {
                tile.gather::<MANY>(flipped, room)
            } else {
                tile.gather::<FEW>(flipped, room)
            };
            for &position in &room.queue[..found] {
                words[usize::from(position >> 6)] ^= 1 << (position & 63);
            }
        }
    }
}

impl Tile {
    fn new(parents: &[[u32; 2]], previous: usize) -> Self {
        let edges = || {
            parents.iter().enumerate().flat_map(|(child, parents)| {
                let both = (0..).zip(parents).filter(|&(_, &parent)| parent != NONE);
                both.map(move |(which, &parent)| (parent as usize, position(child, which)))
            })
        };
        let mut next = vec![0; previous + 1];
        let mut has = vec![0; previous.div_ceil(GROUP) * LANES];
        for (parent, _) in edges() {
            next[parent + 1] += 1;
            has[parent / 64] |= 1 << (parent % 64);
        }
        for parent in 0..previous {
            next[parent + 1] += next[parent];
        }
        let total: usize = next[previous];
        let starts = next.iter().map(|&start| start as u16).collect();
        let mut positions = vec![0; total + MANY];
        for (parent, position) in edges() {
            positions[next[parent]] = position;
            next[parent] += 1;
        }
        Self { has, starts, positions, many: total > 2 * previous }
    }

    /// Queues the positions of all children of the `flipped` parents; returns their number. Three passes let many loads
    /// that miss the cache overlap.
    fn gather<const STEP: usize>(&self, flipped: &[u64], room: &mut Room) -> usize {
        let changed = kernel::list_ones(flipped, &self.has, &mut room.changed);
        let (changed, spans) = (&room.changed[..changed], &mut room.spans[..changed]);
        for (&parent, span) in changed.iter().zip(&mut *spans) {
            let [start, end] = [self.starts[parent as usize], self.starts[parent as usize + 1]];
            *span = (start, end.wrapping_sub(start));
        }
        let mut found = 0;
        for &(start, count) in &*spans {
            let (start, count) = (usize::from(start), usize::from(count));
            room.queue[found..found + STEP].copy_from_slice(&self.positions[start..start + STEP]);
            if count > STEP {
                let others = &self.positions[start + STEP..start + count];
                room.queue[found + STEP..found + count].copy_from_slice(others);
            }
            found += count;
        }
        found
    }
}
