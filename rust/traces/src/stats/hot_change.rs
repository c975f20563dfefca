//! Hot neurons that do not stay hot.
//!
//! Hot after the prefill: [`crate::hot`]'s state from the prompt's frequencies is above 10. Changed: it is 10 or less
//! after at least one of the next 128 generated tokens. The figure is a share of the hot ones, over all sequences with
//! prompt and generated tokens.

use crate::hot::{HOT_ABOVE, initial_state, next_state};
use crate::profile::Profile;
use crate::{Activity, NeuronShape, Phase, TokenInfo, ones};

const GENERATED: u32 = 128;

#[derive(Clone, Debug)]
pub struct HotChange {
    prompt: Profile,
    /// Neurons that are hot after the prefill.
    hot: Activity,
    /// Neurons hot all the time: (block, neuron, state).
    staying: Vec<(u32, u32, u8)>,
    /// Of this sequence.
    generated: u32,
    sums: Sums,
}

/// Over all sequences.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    hot: u64,
    left: u64,
    sequences: u64,
    generated: u64,
}

/// Results over a trace.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub changed: f64,
    pub share: f64,
    pub tokens: f64,
}

impl HotChange {
    pub fn new(shape: &NeuronShape) -> Self {
        let (prompt, hot) = (Profile::new(shape), Activity::new(shape));
        Self { prompt, hot, staying: Vec::new(), generated: 0, sums: Sums::default() }
    }

    /// Neurons hot after the prefill; `None` before the first generated token after a prompt.
    pub fn hot(&self) -> Option<&Activity> {
        (self.generated > 0 && self.prompt.tokens() > 0).then_some(&self.hot)
    }

    pub fn add(&mut self, info: TokenInfo, activity: &Activity) {
        if info.first {
            self.prompt.clear();
            self.generated = 0;
        }
        if info.phase == Phase::Prompt {
            return self.prompt.add(activity);
        }
        if self.prompt.tokens() == 0 {
            return;
        }
        if self.generated == 0 {
            self.begin();
        }
        self.generated += 1;
        if self.generated > GENERATED {
            return;
        }
        self.sums.generated += 1;
        let before = self.staying.len();
        let shape = self.prompt.shape();
        self.staying.retain_mut(|(block, neuron, state)| {
            let word = activity.block(shape, *block as usize)[*neuron as usize / 64];
            *state = next_state(*state, word >> (*neuron % 64) & 1 != 0);
            *state > HOT_ABOVE
        });
        self.sums.left += (before - self.staying.len()) as u64;
    }

    fn begin(&mut self) {
        let shape = self.prompt.shape();
        self.hot.words_mut().fill(0);
        self.staying.clear();
        for block in 0..shape.blocks().len() {
            let bits = self.hot.block_mut(shape, block);
            for (neuron, &count) in self.prompt.counts(block).iter().enumerate() {
                let hot = initial_state(count, self.prompt.tokens()) > HOT_ABOVE;
                bits[neuron / 64] |= u64::from(hot) << (neuron % 64);
            }
            for neuron in ones(bits) {
                let state = initial_state(self.prompt.counts(block)[neuron as usize], self.prompt.tokens());
                self.staying.push((block as u32, neuron, state));
            }
        }
        self.sums.hot += self.staying.len() as u64;
        self.sums.sequences += 1;
    }

    pub fn figures(&self) -> Option<Figures> {
        let Sums { hot, left, sequences, generated } = self.sums;
        let neurons = self.prompt.shape().neurons() * sequences;
        (hot > 0).then(|| Figures {
            changed: left as f64 / hot as f64,
            share: hot as f64 / neurons as f64,
            tokens: generated as f64 / sequences as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neuron_that_rests_long_enough_has_changed() {
        let shape = NeuronShape::new(1, 3, 0);
        let mut change = HotChange::new(&shape);
        let mut activity = Activity::new(&shape);
        // Prompt: neurons 0 and 1 always, 2 never. Then neuron 0 rests 4 tokens (15 to 11), neuron 1 five.
        let bits = [0b011, 0b011, 0, 0, 0, 0, 0b001, 0b001];
        for (position, bits) in (0..).zip(bits) {
            activity.words_mut()[0] = bits;
            change.add(TokenInfo::at(position, 2), &activity);
            assert_eq!(change.hot().map(Activity::words), (position >= 2).then_some(&[0b011][..]));
        }
        let figures = change.figures().unwrap();
        assert_eq!((figures.changed, figures.share, figures.tokens), (0.5, 2.0 / 3.0, 6.0));
    }
}
