//! State of a unit between programs: caches of keys and values in DRAM, and its end of the links.

use ndp_config::DesignConfig;
use ndp_files::Result;
use ndp_isa::layout::{DimmMap, MatrixLayout, VectorBlock};
use ndp_isa::planner::HeadCut;
use ndp_model::AttentionOp;
use std::collections::BTreeMap;

/// Sequence, layer, heads of keys, elements of a head, positions.
type CacheKey = (u32, usize, usize, usize, usize);

#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// Number of written positions.
    pub held: usize,
    /// Per group of heads: matrices of keys and of values.
    pub groups: Vec<[MatrixLayout; 2]>,
}

/// Rows that a product reads, rows before the window among them, vectors.
type MaskKey = (u32, u32, u32);

#[derive(Clone, Debug)]
pub(super) struct Caches {
    map: DimmMap,
    entries: BTreeMap<CacheKey, Cache>,
    /// A window has as many as there are ranks.
    masks: BTreeMap<MaskKey, VectorBlock>,
}

impl Caches {
    pub(super) fn new(config: &DesignConfig) -> Self {
        Self { map: DimmMap::new(config), entries: BTreeMap::new(), masks: BTreeMap::new() }
    }

    pub(super) fn free_map(&self) -> DimmMap {
        self.map.rest()
    }

    pub(super) fn map(&self) -> &DimmMap {
        &self.map
    }

    /// The map, to place data that stay.
    pub(super) fn map_mut(&mut self) -> &mut DimmMap {
        &mut self.map
    }

    /// The mask for some scores, if it is in DRAM.
    pub(super) fn mask(&self, key: MaskKey) -> Option<VectorBlock> {
        self.masks.get(&key).copied()
    }

    /// Finds a place for a mask that has none.
    pub(super) fn place_mask(&mut self, key: MaskKey) -> Result<Option<VectorBlock>> {
        if self.masks.contains_key(&key) {
            return Ok(None);
        }
        let (elements, _, vectors) = key;
        let block = self.map.add_vectors(&format!("mask {key:?}"), elements, vectors)?;
        self.masks.insert(key, block);
        Ok(Some(block))
    }

    /// The cache of a sequence, placed if it is new.
    pub(super) fn entry(&mut self, op: &AttentionOp<'_>, cut: &HeadCut, sequence: u32) -> Result<&mut Cache> {
        let key = key_of(op, sequence);
        if !self.entries.contains_key(&key) {
            let rows = u32::try_from(op.capacity()).unwrap_or(u32::MAX);
            let mut groups = Vec::new();
            for group in 0..cut.groups() {
                let mut add = |what| {
                    let name = format!("{what} {key:?} group {group}");
                    self.map.add_matrix(&name, rows, cut.columns(group).1)
                };
                groups.push([add("keys")?, add("values")?]);
            }
            self.entries.insert(key, Cache { held: 0, groups });
        }
        Ok(self.entries.entry(key).or_insert_with(|| Cache { held: 0, groups: Vec::new() }))
    }
}

fn key_of(op: &AttentionOp<'_>, sequence: u32) -> CacheKey {
    (sequence, op.layer(), op.kv_heads(), op.head_width(), op.capacity())
}

#[derive(Debug)]
pub(super) struct Transfers {
    /// First burst of each rank of the outgoing data.
    pub leaving: u32,
    /// The same for incoming data, by the sending DIMM.
    pub coming: Vec<u32>,
    /// Messages that the core's register has counted: sent and received.
    pub counted: [u32; 2],
}
