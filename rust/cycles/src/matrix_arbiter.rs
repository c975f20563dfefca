/// Grants the one, of those that want a turn, whose last turn is the longest ago (docs/timing.md, "Host port").
#[derive(Clone, Debug)]
pub(crate) struct MatrixArbiter {
    /// Oldest first.
    order: Vec<usize>,
}

impl MatrixArbiter {
    pub fn new(count: usize) -> Self {
        Self { order: (0..count).collect() }
    }

    #[inline]
    pub fn choose(&mut self, wants: impl Fn(usize) -> bool) -> Option<usize> {
        let at = self.order.iter().position(|&source| wants(source))?;
        self.order[at..].rotate_left(1);
        self.order.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_makes_its_source_the_youngest() {
        let mut turns = MatrixArbiter::new(3);
        assert_eq!(turns.choose(|source| source == 1), Some(1));
        assert_eq!(turns.choose(|_| true), Some(0));
        assert_eq!(turns.choose(|source| source < 2), Some(1));
        assert_eq!(turns.choose(|_| true), Some(2));
        assert_eq!(turns.choose(|_| false), None);
    }
}
