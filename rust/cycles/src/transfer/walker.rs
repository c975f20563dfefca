//! The order of a transfer's bursts: burst by burst and, for each, the participating ranks in ascending order.

use ndp_isa::Transfer;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walker {
    ranks: u32,
    rank: u32,
    burst: u32,
}

impl Walker {
    pub fn new(transfer: &Transfer) -> Self {
        let ranks = transfer.ranks;
        Self { ranks, rank: ranks.trailing_zeros(), burst: transfer.address }
    }

    /// Rank and the burst in it.
    #[inline]
    pub fn place(&self) -> (usize, u32) {
        (self.rank as usize, self.burst)
    }

    #[inline]
    pub fn step(&mut self) {
        let above = self.ranks & !((2 << self.rank) - 1);
        if above == 0 {
            (self.rank, self.burst) = (self.ranks.trailing_zeros(), self.burst.wrapping_add(1));
        } else {
            self.rank = above.trailing_zeros();
        }
    }
}
