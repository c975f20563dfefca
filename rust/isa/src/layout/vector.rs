//! Where an element of a vector block lies: in DRAM, and in the buffer.
//!
//! In DRAM the beats of the vectors alternate (beat 0 of each vector, then beat 1), at consecutive bursts of the DIMM.
//!
//! In the buffer a word is one chunk of every tile of every rank: `ranks * stripe_elems` places. Full wave `j` of
//! vector `b` is word `j * batch + b`, stripe `j * ranks + g` in the slices of rank `g`. Words of the tail follow. Tail
//! stripes go round the ranks from row to row, so each rank holds all of them: tail stripe `t` of vector `b` is in word
//! `(full_waves + t) * batch + b` of all ranks. With two whole stripes over four ranks a rank holds one: stripe `t` is in
//! word `full_waves * batch + b` of the ranks `g` with `g mod 2 = t`. Tile `u` of a stripe has elements
//! `u * lanes..(u + 1) * lanes`.

use ndp_config::{BEAT_ELEMS, DesignConfig, RowLayout};
use ndp_files::{Result, in_range};

/// `batch` vectors of `elements` FP16 values in DRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VectorBlock {
    address: u32,
    elements: u32,
    batch: u32,
    dimm_bursts: u64,
}

ndp_config::getters!(VectorBlock {
    /// First burst of the DIMM.
    address: u32,
    /// Elements of a vector.
    elements: u32,
    /// Vectors.
    batch: u32,
});

impl VectorBlock {
    /// The block at burst `address` of the DIMM; an error if the design does not have these.
    pub fn new(config: &DesignConfig, address: u32, elements: u32, batch: u32) -> Result<Self> {
        let dimm_bursts = 1 << config.dimm_burst_bits();
        in_range("elements", elements, 1, config.gemv().max_cols())?;
        in_range("batch", batch, 1, config.gemv().max_batch())?;
        in_range("address", address, 0, dimm_bursts - 1)?;
        Ok(Self::unchecked(config, address, elements, batch))
    }

    /// The block of a checked instruction; `elements` and `batch` are at least 1.
    pub fn unchecked(config: &DesignConfig, address: u32, elements: u32, batch: u32) -> Self {
        Self { address, elements, batch, dimm_bursts: 1 << config.dimm_burst_bits() }
    }

    /// Bursts of the DIMM: `ceil(elements / 32) * batch`.
    pub fn bursts(&self) -> u32 {
        self.elements.div_ceil(BEAT_ELEMS) * self.batch
    }

    /// The `index`-th burst; addresses wrap around.
    pub fn burst(&self, index: u32) -> u64 {
        (u64::from(self.address) + u64::from(index)) % self.dimm_bursts
    }

    /// Burst of the DIMM of an element, and its place there. Panics if there is no such element.
    pub fn locate(&self, vector: u32, element: u32) -> (u64, u32) {
        assert!(vector < self.batch && element < self.elements, "element {element} of vector {vector}");
        (self.burst(element / BEAT_ELEMS * self.batch + vector), element % BEAT_ELEMS)
    }

    /// Vector and element at a place; `None` outside of the block and beyond a vector's end.
    pub fn element_at(&self, burst: u64, element: u32) -> Option<(u32, u32)> {
        if burst >= self.dimm_bursts || element >= BEAT_ELEMS {
            return None;
        }
        let index = (burst + self.dimm_bursts - u64::from(self.address)) % self.dimm_bursts;
        let index = u32::try_from(index).ok().filter(|index| *index < self.bursts())?;
        let element = index / self.batch * BEAT_ELEMS + element;
        (element < self.elements).then_some((index % self.batch, element))
    }
}

/// Place of an element in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferPlace {
    /// Word of the slices, from the block's base.
    pub word: u32,
    /// Ranks that hold it, a bit for each.
    pub ranks: u32,
    /// Tile of the rank.
    pub tile: u32,
    /// Lane of the tile.
    pub lane: u32,
}

/// A vector block in the buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferLayout {
    cut: RowLayout,
    batch: u32,
    lanes: u32,
}

impl BufferLayout {
    /// `elements` and `batch` are at least 1.
    pub fn new(config: &DesignConfig, elements: u32, batch: u32) -> Self {
        Self { cut: RowLayout::new(config.gemv(), elements), batch, lanes: config.gemv().lanes() }
    }

    /// Words of the block.
    pub fn words(&self) -> u32 {
        self.cut.words_per_vector() * self.batch
    }

    /// Layout of a vector.
    pub fn cut(&self) -> &RowLayout {
        &self.cut
    }

    /// Word and ranks of a stripe of a vector.
    pub fn stripe(&self, vector: u32, stripe: u32) -> (u32, u32) {
        let RowLayout { ranks, full_waves, .. } = self.cut;
        let waves = full_waves * ranks;
        if stripe < waves {
            return (stripe / ranks * self.batch + vector, 1 << (stripe % ranks));
        }
        let tail = stripe - waves;
        if self.cut.is_paired() {
            return (full_waves * self.batch + vector, 0b101 << tail);
        }
        ((full_waves + tail) * self.batch + vector, (1 << ranks) - 1)
    }

    /// The place of an element. Panics if there is no such element.
    pub fn locate(&self, vector: u32, element: u32) -> BufferPlace {
        assert!(vector < self.batch && element < self.cut.cols, "element {element} of vector {vector}");
        let within = element % self.cut.stripe_elems;
        let (word, ranks) = self.stripe(vector, element / self.cut.stripe_elems);
        BufferPlace { word, ranks, tile: within / self.lanes, lane: within % self.lanes }
    }

    /// Vector and element at a place of a rank's slice; `None` outside of the block and past a vector's end.
    pub fn element_at(&self, word: u32, rank: u32, tile: u32, lane: u32) -> Option<(u32, u32)> {
        let RowLayout { cols, stripe_elems, ranks, full_waves, .. } = self.cut;
        if word >= self.words() || rank >= ranks || lane >= self.lanes || tile >= stripe_elems / self.lanes {
            return None;
        }
        let (wave, vector) = (word / self.batch, word % self.batch);
        let stripe = match wave.checked_sub(full_waves) {
            None => wave * ranks + rank,
            Some(_) if self.cut.is_paired() => full_waves * ranks + rank % 2,
            Some(tail) => full_waves * ranks + tail,
        };
        let element = stripe * stripe_elems + tile * self.lanes + lane;
        (element < cols).then_some((vector, element))
    }
}
