//! The neurons of the last tokens, in slots.

use ndp_files::{Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

/// What is done about the slots of neurons that leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// The paper's (section 3.3): the slots that are used are the first ones, without holes. The last neurons move into the holes, and what is read
    /// comes behind the last one.
    Contiguous,
    /// A list of free slots: nothing moves, and what is read comes into the first slot that is free. For who reads rows by a list of slots.
    FreeSlots,
}

/// What happens before a token, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Neurons that leave, ascending.
    pub deleted: Vec<u32>,
    /// Slots of neurons that move: from, to.
    pub moved: Vec<(u32, u32)>,
    /// Neurons that are read, ascending, and their slots.
    pub loaded: Vec<(u32, u32)>,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Neurons that were needed, and those of them that were there.
    pub needed: u64,
    /// Needed neurons that were there.
    pub hits: u64,
    pub deleted: u64,
    /// Bytes of bundles that were read from the SSD.
    pub loaded_bytes: u64,
    /// Bytes of bundles that were copied from slot to slot.
    pub moved_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Resident {
    slot: u32,
    /// The last token that needed it.
    last: u64,
}

/// A cache of neurons in a fixed number of slots: those that the last tokens have needed, this one included. If that is more than there are slots,
/// those leave first that were needed the longest time ago, of these the ones with the smallest numbers.
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
    /// An empty one with so many slots, for the neurons of so many tokens, whose bundles have so many bytes.
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

    /// Where a neuron is, if it is in memory.
    pub fn slot(&self, neuron: u32) -> Option<u32> {
        self.residents.get(&neuron).map(|resident| resident.slot)
    }

    pub fn slots(&self) -> &[Option<u32>] {
        &self.slots
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The neurons that a token needs, in rounds of no more than there are slots, each ascending: first those that are in memory, with as many of the
    /// others as there is room for. Whichever comes twice counts once. There is always a first round.
    ///
    /// ```
    /// use ndp_hermes::flash::{Manager, Window};
    /// let mut window = Window::new(2, 2.try_into().unwrap(), 16_384, Manager::FreeSlots);
    /// window.token(&[5]).unwrap();
    /// assert_eq!(window.rounds(&[1, 3, 5, 7]).unwrap(), [vec![1, 5], vec![3, 7]]);
    /// ```
    ///
    /// # Errors
    /// If there are no slots for the neurons.
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

    /// A token needs these neurons, or its first round does: afterwards all of them are in memory. Whichever comes twice counts once.
    ///
    /// # Errors
    /// More neurons than slots; nothing has changed then.
    pub fn token(&mut self, needed: &[u32]) -> Result<Change> {
        self.needs(needed, 1)
    }

    /// The same of a further round of the last token, which no longer needs the neurons of the rounds before.
    pub fn round(&mut self, needed: &[u32]) -> Result<Change> {
        self.needs(needed, 0)
    }

    /// What a token needs that comes so many tokens behind the last one.
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
        // By age; those whose last token is no longer one of the last have to leave, the oldest of the others if there is no room.
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

    /// Neurons leave; returns which others move.
    fn delete(&mut self, neurons: &[u32]) -> Vec<(u32, u32)> {
        let mut holes = BTreeSet::new();
        for resident in neurons.iter().filter_map(|neuron| self.residents.remove(neuron)) {
            self.slots[resident.slot as usize] = None;
            holes.insert(resident.slot);
        }
        let mut moved = Vec::new();
        if self.manager == Manager::Contiguous {
            // As many as there are holes below the new end are behind it.
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

    /// Neurons come, each into the first free slot; behind the last one, if there are no holes.
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
