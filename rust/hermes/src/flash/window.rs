//! The neurons of the last tokens, in slots.

use ndp_files::{Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

/// Treatment of the slots of neurons that leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// The paper's (section 3.3): used slots are the first ones. The last neurons move into holes, and new ones follow
    /// the last.
    Contiguous,
    /// A list of free slots, for readers with a list of rows: nothing moves, new neurons take the first free slot.
    FreeSlots,
}

/// Changes before a token, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Ascending.
    pub deleted: Vec<u32>,
    /// From slot, to slot.
    pub moved: Vec<(u32, u32)>,
    /// Neuron, ascending, and its slot.
    pub loaded: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub needed: u64,
    /// Needed neurons that were in memory.
    pub hits: u64,
    pub deleted: u64,
    /// Bytes of bundles read from the SSD.
    pub loaded_bytes: u64,
    /// Bytes of bundles copied from slot to slot.
    pub moved_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Resident {
    slot: u32,
    /// Last token that needed it.
    last: u64,
}

/// A cache of the neurons of the last tokens, this one included, in a fixed number of slots. If there are too few, the
/// neurons not needed for longest leave first, among these the smallest numbers.
///
/// ```
/// use ndp_hermes::flash::{Manager, Window};
/// let mut window = Window::new(4, 2.try_into().unwrap(), 16_384, Manager::FreeSlots);
/// assert_eq!(window.token(&[7, 3]).unwrap().loaded, [(3, 0), (7, 1)]);
/// assert_eq!(window.token(&[3, 9]).unwrap().loaded, [(9, 2)]);
/// // No token of the last two needed 7.
/// assert_eq!(window.token(&[3, 5]).unwrap().deleted, [7]);
/// assert_eq!((window.slot(5), window.slot(7)), (Some(1), None));
/// ```
#[derive(Clone, Debug)]
pub struct Window {
    capacity: usize,
    tokens: u64,
    bundle_bytes: u64,
    manager: Manager,
    residents: BTreeMap<u32, Resident>,
    slots: Vec<Option<u32>>,
    free: BTreeSet<u32>,
    now: u64,
    counts: Counts,
}

impl Window {
    /// Empty, with `capacity` slots, for the neurons of `tokens` tokens.
    pub fn new(capacity: u32, tokens: NonZeroU32, bundle_bytes: u64, manager: Manager) -> Self {
        Self {
            capacity: capacity as usize,
            tokens: tokens.get().into(),
            bundle_bytes,
            manager,
            residents: BTreeMap::new(),
            slots: vec![None; capacity as usize],
            free: (0..capacity).collect(),
            now: 0,
            counts: Counts::default(),
        }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn slot(&self, neuron: u32) -> Option<u32> {
        self.residents.get(&neuron).map(|resident| resident.slot)
    }

    pub fn slots(&self) -> &[Option<u32>] {
        &self.slots
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The neurons of a token in rounds of at most `capacity`, each ascending: first those in memory, with as many
    /// others as fit. Duplicates count once. There is always a first round.
    ///
    /// ```
    /// use ndp_hermes::flash::{Manager, Window};
    /// let mut window = Window::new(2, 2.try_into().unwrap(), 16_384, Manager::FreeSlots);
    /// window.token(&[5]).unwrap();
    /// assert_eq!(window.rounds(&[1, 3, 5, 7]).unwrap(), [vec![1, 5], vec![3, 7]]);
    /// ```
    /// Fails if there are no slots.
    pub fn rounds(&self, needed: &[u32]) -> Result<Vec<Vec<u32>>> {
        let needed: BTreeSet<u32> = needed.iter().copied().collect();
        if self.capacity == 0 && !needed.is_empty() {
            bail!("{} neurons are needed at once, expected no more than 0, one for each slot", needed.len());
        }
        let (mut all, missing): (Vec<u32>, Vec<u32>) =
            needed.into_iter().partition(|neuron| self.residents.contains_key(neuron));
        all.extend(missing);
        let mut rounds: Vec<Vec<u32>> = all.chunks(self.capacity.max(1)).map(<[u32]>::to_vec).collect();
        rounds.iter_mut().for_each(|round| round.sort_unstable());
        rounds.resize(rounds.len().max(1), Vec::new());
        Ok(rounds)
    }

    /// Puts the neurons of a token, or of its first round, into memory. Duplicates count once. Fails, without a change,
    /// if there are more neurons than slots.
    pub fn token(&mut self, needed: &[u32]) -> Result<Change> {
        self.needs(needed, 1)
    }

    /// A further round of the last token, which no longer needs the rounds before.
    pub fn round(&mut self, needed: &[u32]) -> Result<Change> {
        self.needs(needed, 0)
    }

    /// `behind`: tokens since the last call.
    fn needs(&mut self, needed: &[u32], behind: u64) -> Result<Change> {
        let needed: BTreeSet<u32> = needed.iter().copied().collect();
        ensure!(
            needed.len() <= self.capacity,
            "{} neurons are needed at once, expected no more than {}, one for each slot",
            needed.len(),
            self.capacity
        );
        self.now += behind;
        let missing: Vec<u32> =
            needed.iter().copied().filter(|neuron| !self.residents.contains_key(neuron)).collect();
        // By age. Neurons of tokens outside the window leave, and the oldest of the others if there is no room.
        let mut others: Vec<(u64, u32)> = (self.residents.iter())
            .filter(|(neuron, _)| !needed.contains(neuron))
            .map(|(neuron, resident)| (resident.last, *neuron))
            .collect();
        others.sort_unstable();
        let outside = others.partition_point(|(last, _)| last + self.tokens <= self.now);
        let excess = (self.residents.len() + missing.len()).saturating_sub(self.capacity);
        let mut deleted: Vec<u32> = others[..outside.max(excess)].iter().map(|(_, neuron)| *neuron).collect();
        deleted.sort_unstable();
        let moved = self.delete(&deleted);
        let loaded = self.load(&missing);
        for neuron in &needed {
            if let Some(resident) = self.residents.get_mut(neuron) {
                resident.last = self.now;
            }
        }
        self.counts.needed += needed.len() as u64;
        self.counts.hits += (needed.len() - missing.len()) as u64;
        self.counts.deleted += deleted.len() as u64;
        self.counts.loaded_bytes += loaded.len() as u64 * self.bundle_bytes;
        self.counts.moved_bytes += moved.len() as u64 * self.bundle_bytes;
        Ok(Change { deleted, moved, loaded })
    }

    /// Returns the moves of other neurons.
    fn delete(&mut self, neurons: &[u32]) -> Vec<(u32, u32)> {
        let mut holes = BTreeSet::new();
        for resident in neurons.iter().filter_map(|neuron| self.residents.remove(neuron)) {
            self.slots[resident.slot as usize] = None;
            holes.insert(resident.slot);
        }
        let mut moved = Vec::new();
        if self.manager == Manager::Contiguous {
            // After the new end there are as many neurons as holes before it.
            let (end, used) = (self.residents.len() as u32, (self.residents.len() + holes.len()) as u32);
            let last = (end..used).rev().filter(|slot| self.slots[*slot as usize].is_some());
            moved = last.zip(holes.iter().copied().filter(|slot| *slot < end)).collect();
            for &(from, to) in &moved {
                let neuron = self.slots[from as usize].take();
                self.slots[to as usize] = neuron;
                if let Some(resident) = neuron.and_then(|neuron| self.residents.get_mut(&neuron)) {
                    resident.slot = to;
                }
            }
            holes = (end..used).collect();
        }
        self.free.append(&mut holes);
        moved
    }

    /// Puts each neuron into the first free slot, or after the last one.
    fn load(&mut self, neurons: &[u32]) -> Vec<(u32, u32)> {
        let mut loaded = Vec::with_capacity(neurons.len());
        for &neuron in neurons {
            let Some(slot) = self.free.pop_first() else { break };
            self.slots[slot as usize] = Some(neuron);
            self.residents.insert(neuron, Resident { slot, last: self.now });
            loaded.push((neuron, slot));
        }
        loaded
    }
}
