//! Windows of the flash tier against a model that keeps a list of the tokens and searches it.

use ndp_files::said;
use ndp_hermes::flash::{Change, Manager, Window};
use proptest::prelude::*;
use std::collections::BTreeSet;

const BYTES: u64 = 6;

fn too_many(needed: usize, slots: usize) -> String {
    format!("{needed} neurons are needed at once, expected no more than {slots}, one for each slot")
}

/// Reference for a window: its memory, and the residents that it must have.
struct Model {
    capacity: usize,
    tokens: usize,
    history: Vec<BTreeSet<u32>>,
    resident: BTreeSet<u32>,
    memory: Vec<Option<u32>>,
    sums: [u64; 5],
}

impl Model {
    fn last(&self, neuron: u32) -> Option<usize> {
        self.history.iter().rposition(|token| token.contains(&neuron))
    }

    /// Residents after a token: its needs, then the last needed ones, as far as room and window allow.
    fn token(&mut self, needed: &BTreeSet<u32>) {
        self.history.push(needed.clone());
        let first = self.history.len().saturating_sub(self.tokens);
        let mut others: Vec<u32> = self.resident.difference(needed).copied().collect();
        others.retain(|neuron| self.last(*neuron).is_some_and(|last| last >= first));
        others.sort_by_key(|neuron| (self.last(*neuron), *neuron));
        let room = self.capacity - needed.len();
        let kept = &others[others.len().saturating_sub(room)..];
        self.resident = needed.union(&kept.iter().copied().collect()).copied().collect();
    }

    /// Applies a change to the memory; a slot that is written has to be free.
    fn apply(&mut self, change: &Change) {
        for slot in &mut self.memory {
            *slot = slot.filter(|neuron| !change.deleted.contains(neuron));
        }
        for &(from, to) in &change.moved {
            let neuron = self.memory[from as usize].take();
            assert!(neuron.is_some(), "slot {from} is empty");
            assert_eq!(self.memory[to as usize].replace(neuron.unwrap_or_default()), None);
        }
        for &(neuron, slot) in &change.loaded {
            assert_eq!(self.memory[slot as usize].replace(neuron), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_hold_what_the_last_tokens_needed(
        capacity in 1u32..24,
        tokens in 1u32..6,
        texts in proptest::collection::vec(proptest::collection::btree_set(0u32..40, 0..20), 1..40),
        is_contiguous in any::<bool>(),
    ) {
        let manager = if is_contiguous { Manager::Contiguous } else { Manager::FreeSlots };
        let mut window = Window::new(capacity, tokens.try_into().unwrap(), BYTES, manager);
        let mut model = Model {
            capacity: capacity as usize,
            tokens: tokens as usize,
            history: Vec::new(),
            resident: BTreeSet::new(),
            memory: vec![None; capacity as usize],
            sums: [0; 5],
        };
        for needed in texts {
            let list: Vec<u32> = needed.iter().rev().chain(&needed).copied().collect();
            let before = window.clone();
            let change = match window.token(&list) {
                Ok(change) => change,
                Err(error) => {
                    let (found, most) = (needed.len(), capacity as usize);
                    prop_assert!(found > most);
                    prop_assert_eq!(error.to_string(), too_many(found, most));
                    prop_assert_eq!(before.slots(), window.slots());
                    prop_assert_eq!(before.counts(), window.counts());
                    continue;
                }
            };
            prop_assert!(needed.len() <= capacity as usize);
            let old = model.resident.clone();
            model.token(&needed);
            model.apply(&change);
            prop_assert_eq!(window.slots(), &model.memory[..]);
            let held: BTreeSet<u32> = window.slots().iter().flatten().copied().collect();
            prop_assert_eq!(&held, &model.resident);
            prop_assert_eq!(window.slots().iter().flatten().count(), held.len());
            for neuron in 0..40 {
                let slot = window.slots().iter().position(|slot| *slot == Some(neuron));
                prop_assert_eq!(window.slot(neuron), slot.map(|slot| slot as u32));
            }
            let loaded: BTreeSet<u32> = change.loaded.iter().map(|(neuron, _)| *neuron).collect();
            prop_assert_eq!(&loaded, &needed.difference(&old).copied().collect());
            let deleted: BTreeSet<u32> = change.deleted.iter().copied().collect();
            prop_assert_eq!(&deleted, &old.difference(&model.resident).copied().collect());
            if is_contiguous {
                prop_assert!(window.slots()[..held.len()].iter().all(Option::is_some));
                // At most one neuron moves for each that leaves.
                prop_assert!(change.moved.len() <= deleted.len());
            } else {
                prop_assert!(change.moved.is_empty());
            }
            let hits = needed.intersection(&old).count();
            for (sum, own) in model.sums.iter_mut().zip([needed.len(), hits, deleted.len(), loaded.len(), change.moved.len()]) {
                *sum += own as u64;
            }
            let counts = window.counts();
            let [all, hits, left, loaded, moved] = model.sums;
            prop_assert_eq!([counts.needed, counts.hits, counts.deleted], [all, hits, left]);
            prop_assert_eq!([counts.loaded_bytes, counts.moved_bytes], [loaded * BYTES, moved * BYTES]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rounds_read_what_is_not_there_once(
        capacity in 1u32..12,
        tokens in 1u32..4,
        texts in proptest::collection::vec(proptest::collection::btree_set(0u32..40, 0..40), 1..20),
        is_contiguous in any::<bool>(),
    ) {
        let manager = if is_contiguous { Manager::Contiguous } else { Manager::FreeSlots };
        let mut window = Window::new(capacity, tokens.try_into().unwrap(), BYTES, manager);
        let mut memory: Vec<Option<u32>> = vec![None; capacity as usize];
        for needed in texts {
            let list: Vec<u32> = needed.iter().rev().chain(&needed).copied().collect();
            let before: BTreeSet<u32> = memory.iter().flatten().copied().collect();
            let rounds = window.rounds(&list).unwrap();
            prop_assert_eq!(rounds.len(), needed.len().div_ceil(capacity as usize).max(1));
            let mut computed = BTreeSet::new();
            let mut loaded = Vec::new();
            for (index, round) in rounds.iter().enumerate() {
                let change = if index == 0 { window.token(round) } else { window.round(round) }.unwrap();
                for slot in &mut memory {
                    *slot = slot.filter(|neuron| !change.deleted.contains(neuron));
                }
                for &(from, to) in &change.moved {
                    let neuron = memory[from as usize].take();
                    prop_assert_eq!(memory[to as usize].replace(neuron.unwrap()), None);
                }
                for &(neuron, slot) in &change.loaded {
                    prop_assert_eq!(memory[slot as usize].replace(neuron), None);
                    loaded.push(neuron);
                }
                prop_assert_eq!(window.slots(), &memory[..]);
                for neuron in round {
                    prop_assert!(memory.contains(&Some(*neuron)) && computed.insert(*neuron));
                }
            }
            prop_assert_eq!(&computed, &needed);
            loaded.sort_unstable();
            prop_assert_eq!(loaded, needed.difference(&before).copied().collect::<Vec<_>>());
        }
        let none = Window::new(0, tokens.try_into().unwrap(), BYTES, manager);
        prop_assert_eq!(none.rounds(&[]).unwrap(), vec![Vec::<u32>::new()]);
        prop_assert_eq!(said(&none.rounds(&[1, 1])), too_many(1, 0));
    }
}

#[test]
fn the_last_rows_move_into_the_holes() {
    let mut window = Window::new(8, 1.try_into().unwrap(), BYTES, Manager::Contiguous);
    window.token(&[10, 11, 12, 13, 14, 15]).unwrap();
    // 11, 12 and 14 leave; 15 and 13 fill the holes below the new end.
    let change = window.token(&[10, 13, 15, 20]).unwrap();
    assert_eq!(change.deleted, [11, 12, 14]);
    assert_eq!(change.moved, [(5, 1), (3, 2)]);
    assert_eq!(change.loaded, [(20, 3)]);
    let slots = [10, 15, 13, 20].map(Some);
    assert_eq!(window.slots()[..5], [slots[0], slots[1], slots[2], slots[3], None]);
    assert_eq!(window.counts().moved_bytes, 2 * BYTES);
    assert_eq!(window.capacity(), 8);
    let error = window.token(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap_err().to_string();
    assert_eq!(error, "9 neurons are needed at once, expected no more than 8, one for each slot");
}
