//! What lies where: weights row by row, keys and values head by head.
//!
//! Row `r` of a matrix is in channel `r mod channels`, as a run of columns of the interleaved region, so reads of a matrix use
//! all channels and bank groups, and a channel has whole rows.

use crate::PimError;
use crate::controller::Place;
use ndp_config::HbmConfig;
use ndp_dram::hbm::{Column, pim::column_of};
use ndp_layout::hbm::{CacheElement, HbmAddress, Interleaved, KvMap};
use ndp_numerics::f16;
use std::collections::HashMap;

const LANES: usize = HbmConfig::LANES as usize;

/// A matrix in memory.
#[derive(Clone, Debug)]
pub struct Weights {
    /// First column of the interleaved region, counted per channel.
    first: u64,
    /// By channel: its columns in order.
    pub columns: Vec<Vec<Column>>,
    /// `(outputs, inputs)`.
    pub shape: (usize, usize),
}

/// The sizes that the caches are laid out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Sequences.
    pub sequences: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of keys and values.
    pub heads: usize,
    /// Elements of a head.
    pub head_width: usize,
    /// Most positions.
    pub positions: usize,
}

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Memory {
    config: HbmConfig,
    region: Interleaved,
    caches: KvMap,
    shape: CacheShape,
    next: u64,
    matrices: HashMap<String, Weights>,
}

impl Memory {
    /// An empty memory. Without slicing, weights have the rows that they would have with it.
    ///
    /// # Errors
    /// [`PimError::Layout`] and [`PimError::Room`] for caches that do not fit.
    pub fn new(config: &HbmConfig, shape: CacheShape) -> Result<Self, PimError> {
        let boundary = if config.slicing() { config.weight_rows() } else { config.rows() / 2 };
        let caches = KvMap::new(config, boundary, shape.head_width as u32, shape.positions as u32)?;
        let needed = (shape.sequences * shape.layers * shape.heads) as u64;
        if needed > caches.heads() {
            return Err(PimError::Room {
                what: "heads with keys and values",
                needed,
                available: caches.heads(),
            });
        }
        let region = Interleaved::new(config, 0, boundary)?;
        Ok(Self { config: config.clone(), region, caches, shape, next: 0, matrices: HashMap::new() })
    }

    fn channels(&self) -> usize {
        self.config.channels() as usize
    }

    /// Finds room for a matrix, `[rows x cols]`.
    ///
    /// # Errors
    /// [`PimError::Room`].
    pub fn add(&mut self, label: &str, (rows, cols): (usize, usize), data: &[f16]) -> Result<(), PimError> {
        let channels = self.channels();
        let per_channel = rows.div_ceil(channels) * cols.div_ceil(LANES);
        let available = self.region.columns() / channels as u64;
        let first = self.next;
        self.next += per_channel as u64;
        if self.next > available {
            return Err(PimError::Room {
                what: "columns of weights in a channel",
                needed: self.next,
                available,
            });
        }
        let mut columns = vec![Vec::with_capacity(per_channel); channels];
        for (row, values) in data.chunks(cols).enumerate() {
            columns[row % channels]
                .extend(values.chunks(LANES).map(|lanes| column_of(lanes.iter().copied())));
        }
        self.matrices.insert(label.to_owned(), Weights { first, columns, shape: (rows, cols) });
        Ok(())
    }

    /// A matrix.
    ///
    /// # Errors
    /// [`PimError::Group`] for one that was not added.
    pub fn weights(&self, label: &str) -> Result<&Weights, PimError> {
        self.matrices
            .get(label)
            .ok_or_else(|| PimError::Group(format!("there is no matrix '{label}' in memory")))
    }

    /// Names of all matrices, sorted.
    pub fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = self.matrices.keys().cloned().collect();
        labels.sort_unstable();
        labels
    }

    /// Places of a matrix's columns in a channel, in order.
    ///
    /// # Errors
    /// As [`Interleaved::place`]; not for what was added.
    pub fn places(&self, weights: &Weights, channel: u32) -> Result<Vec<Place>, PimError> {
        let channels = self.channels() as u64;
        let count = weights.columns[channel as usize].len() as u64;
        let place = |index: u64| {
            let at = self.region.place((weights.first + index) * channels + u64::from(channel))?;
            Ok(in_channel(at))
        };
        (0..count).map(place).collect()
    }

    /// Number of a head of the caches.
    pub fn head(&self, sequence: u32, layer: usize, head: usize) -> u64 {
        let before = sequence as usize * self.shape.layers + layer;
        (before * self.shape.heads + head) as u64
    }

    /// Channel of a head.
    pub fn channel(&self, head: u64) -> u32 {
        (head % u64::from(self.config.channels())) as u32
    }

    /// Column with 16 elements of a key, from `element` on.
    ///
    /// # Errors
    /// As [`KvMap::key`].
    pub fn key(&self, head: u64, position: usize, element: usize) -> Result<Place, PimError> {
        let (position, element) = (position as u64, element as u64);
        Ok(in_channel(self.caches.key(CacheElement { head, position, element })?.address))
    }

    /// Column with one element of the values of 16 positions, from `position` on.
    ///
    /// # Errors
    /// As [`KvMap::value`].
    pub fn value(&self, head: u64, position: usize, element: usize) -> Result<Place, PimError> {
        let (position, element) = (position as u64, element as u64);
        Ok(in_channel(self.caches.value(CacheElement { head, position, element })?.address))
    }
}

fn in_channel(at: HbmAddress) -> Place {
    Place { bank: at.bank, row: at.row, column: at.column }
}
