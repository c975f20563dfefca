//! Paged keys and values: blocks of a fixed number of tokens, as in vLLM (SOSP 2023, section 4.2).

/// Counts blocks. Each belongs to at most one request; which one does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPool {
    tokens: u32,
    total: u64,
    used: u64,
}

ndp_config::getters!(BlockPool {
    block_tokens = tokens: u32,
    total: u64,
    used: u64,
});

impl BlockPool {
    /// Blocks of `tokens` tokens, as many as fit `bytes`.
    pub fn new(tokens: u32, bytes: u64, bytes_per_token: u64) -> Self {
        let of_block = u64::from(tokens).saturating_mul(bytes_per_token);
        Self { tokens, total: bytes.checked_div(of_block).unwrap_or(0), used: 0 }
    }

    pub fn free(&self) -> u64 {
        self.total - self.used
    }

    /// Blocks for `tokens` tokens.
    pub fn needed(&self, tokens: u32) -> u64 {
        tokens.div_ceil(self.tokens).into()
    }

    /// Takes blocks; false, without a change, if there are too few.
    #[must_use]
    pub fn take(&mut self, blocks: u64) -> bool {
        let enough = blocks <= self.free();
        if enough {
            self.used += blocks;
        }
        enough
    }

    pub fn give_back(&mut self, blocks: u64) {
        debug_assert!(blocks <= self.used, "{blocks} of {}", self.used);
        self.used -= blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_and_never_more_than_there_are() {
        let mut pool = BlockPool::new(16, 1000, 10);
        assert_eq!((pool.total(), pool.needed(1), pool.needed(16), pool.needed(17)), (6, 1, 1, 2));
        assert!(pool.take(4) && !pool.take(3) && pool.take(2));
        assert_eq!((pool.used(), pool.free()), (6, 0));
        pool.give_back(6);
        assert_eq!(pool.free(), 6);
        assert_eq!(BlockPool::new(16, 159, 10).total(), 0);
    }
}
