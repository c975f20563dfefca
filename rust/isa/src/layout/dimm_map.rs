//! Map of a DIMM: named regions of an allocator that only grows.
//!
//! Addresses are bursts of a rank. A matrix begins there in every rank, a vector block or list in rank 0.

use ndp_files::{Result, bail, in_range};
use std::collections::BTreeMap;

use ndp_config::{DesignConfig, WeightFormat};

use crate::layout::address::BLOCK_BURSTS;
use crate::layout::{MatrixLayout, VectorBlock};

/// Something that has been placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Region {
    /// A matrix.
    Matrix(MatrixLayout),
    /// A vector block.
    Vectors(VectorBlock),
    /// Bursts of the DIMM (lists of rows).
    Bursts {
        /// First burst of the DIMM.
        address: u32,
        /// Bursts.
        bursts: u32,
    },
}

/// The allocator.
#[derive(Debug, Clone)]
pub struct DimmMap {
    config: DesignConfig,
    next: u64,
    scope: String,
    regions: BTreeMap<String, Region>,
}

impl DimmMap {
    /// An empty DIMM.
    pub fn new(config: &DesignConfig) -> Self {
        Self { config: config.clone(), next: 0, scope: String::new(), regions: BTreeMap::new() }
    }

    /// Prefix of all names placed after this call, so that two plans can share a map.
    pub fn set_scope(&mut self, scope: &str) {
        scope.clone_into(&mut self.scope);
    }

    /// A map of the free bursts, without names.
    pub fn rest(&self) -> Self {
        Self { config: self.config.clone(), next: self.next, scope: String::new(), regions: BTreeMap::new() }
    }

    /// Bursts of each rank that are taken.
    pub fn used_bursts(&self) -> u64 {
        self.next
    }

    /// The region of that name.
    pub fn get(&self, name: &str) -> Option<&Region> {
        self.regions.get(name)
    }

    /// The matrix of that name.
    pub fn matrix(&self, name: &str) -> Option<&MatrixLayout> {
        match self.get(name) {
            Some(Region::Matrix(layout)) => Some(layout),
            _ => None,
        }
    }

    /// All names, sorted, and their regions.
    pub fn regions(&self) -> impl Iterator<Item = (&str, &Region)> {
        self.regions.iter().map(|(name, region)| (name.as_str(), region))
    }

    /// Places a matrix at the start of a DRAM row, so that short rows straddle as few as possible.
    ///
    /// Fails, and places nothing, if the DRAM does not take these sizes.
    pub fn add_matrix(&mut self, name: &str, rows: u32, cols: u32) -> Result<MatrixLayout> {
        self.add_weights(name, rows, cols, WeightFormat::Fp16)
    }

    /// Places a matrix of weights of any format, as [`Self::add_matrix`] does.
    pub fn add_weights(
        &mut self,
        name: &str,
        rows: u32,
        cols: u32,
        weights: WeightFormat,
    ) -> Result<MatrixLayout> {
        let config = self.config.clone();
        self.add_layout(name, |base| MatrixLayout::with_weights(&config, base, rows, cols, weights))
    }

    /// Places a matrix of INT8 or INT4 weights whose rows share bursts of scales, as [`Self::add_matrix`] does.
    pub fn add_sharing_scales(
        &mut self,
        name: &str,
        rows: u32,
        cols: u32,
        weights: WeightFormat,
    ) -> Result<MatrixLayout> {
        let config = self.config.clone();
        self.add_layout(name, |base| MatrixLayout::sharing_scales(&config, base, rows, cols, weights))
    }

    fn add_layout(&mut self, name: &str, at: impl Fn(u32) -> Result<MatrixLayout>) -> Result<MatrixLayout> {
        let base = self.take(name, at(0)?.bursts_per_rank(), BLOCK_BURSTS.into())?;
        let layout = at(base)?;
        self.regions.insert(self.scope.clone() + name, Region::Matrix(layout.clone()));
        Ok(layout)
    }

    /// Places a vector block.
    pub fn add_vectors(&mut self, name: &str, elements: u32, batch: u32) -> Result<VectorBlock> {
        let bursts = VectorBlock::new(&self.config, 0, elements, batch)?.bursts();
        let address = self.take_dimm(name, bursts)?;
        let block = VectorBlock::new(&self.config, address, elements, batch)?;
        self.regions.insert(self.scope.clone() + name, Region::Vectors(block));
        Ok(block)
    }

    /// Places bursts of the DIMM; returns the first one's address.
    pub fn add_bursts(&mut self, name: &str, bursts: u32) -> Result<u32> {
        in_range("bursts", bursts, 1, 1 << self.config.dimm_burst_bits())?;
        let address = self.take_dimm(name, bursts)?;
        self.regions.insert(self.scope.clone() + name, Region::Bursts { address, bursts });
        Ok(address)
    }

    fn take_dimm(&mut self, name: &str, bursts: u32) -> Result<u32> {
        let ranks = self.config.gemv().ranks();
        Ok(self.take(name, bursts.div_ceil(ranks).into(), 1)? * ranks)
    }

    /// Takes `bursts` of each rank; returns the first.
    fn take(&mut self, name: &str, bursts: u64, align: u64) -> Result<u32> {
        let name = self.scope.clone() + name;
        if self.regions.contains_key(&name) {
            bail!("{name:?} is placed already");
        }
        let (first, total) = (self.next.next_multiple_of(align), self.config.dram().bursts());
        if first + bursts > total {
            let free = total.saturating_sub(first);
            bail!("{name} needs {bursts} bursts of each rank, {free} of {total} are free");
        }
        self.next = first + bursts;
        Ok(first as u32) // below 2^27
    }
}
