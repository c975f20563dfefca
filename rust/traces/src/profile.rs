//! Activations of each neuron, for placement.

use crate::{Activity, NeuronShape, Phase, TraceReader, ones};
use ndp_files::Result;
use std::io::Read;

/// Tokens of a trace to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All tokens.
    All,
    /// Tokens of prompts.
    Prompts,
    /// Tokens before the last sequence, which is the generated text; for a single sequence its prompt.
    Profiled,
}

impl Counted {
    /// Whether a token is counted, from its sequence (the first is 1), its phase and the number of sequences.
    pub fn includes(self, sequence: u64, phase: Phase, sequences: u64) -> bool {
        match self {
            Self::All => true,
            Self::Prompts => phase == Phase::Prompt,
            Self::Profiled => sequence < sequences || sequences == 1 && phase == Phase::Prompt,
        }
    }
}

/// Activations per neuron, counted over tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    shape: NeuronShape,
    /// By block.
    counts: Vec<Vec<u32>>,
    tokens: u32,
}

ndp_config::getters!(Profile {
    /// The blocks.
    shape: &NeuronShape,
    /// Tokens counted.
    tokens: u32,
});

impl Profile {
    /// Nothing counted.
    pub fn new(shape: &NeuronShape) -> Self {
        let counts = shape.blocks().iter().map(|block| vec![0; block.neurons as usize]).collect();
        Self { shape: shape.clone(), counts, tokens: 0 }
    }

    /// Counts tokens of a trace, which is always read and checked to its end. Fails as the reader.
    pub fn from_reader<R: Read>(reader: &mut TraceReader<R>, counted: Counted) -> Result<Self> {
        let mut profile = Self::new(reader.shape());
        let (mut sequence, sequences) = (0, reader.header().sequences);
        while let Some((info, activity)) = reader.read()? {
            sequence += u64::from(info.first);
            if counted.includes(sequence, info.phase, sequences) {
                profile.add(activity);
            }
        }
        Ok(profile)
    }

    /// Counts one token, at most 2^32 - 1 in all.
    pub fn add(&mut self, activity: &Activity) {
        for (block, counts) in self.counts.iter_mut().enumerate() {
            for neuron in ones(activity.block(&self.shape, block)) {
                counts[neuron as usize] += 1;
            }
        }
        self.tokens += 1;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.iter_mut().for_each(|counts| counts.fill(0));
        self.tokens = 0;
    }

    /// By block, the share of tokens in which each neuron was active.
    pub fn frequencies(&self) -> Vec<Vec<f32>> {
        let tokens = self.tokens.max(1) as f32;
        let share = |counts: &Vec<u32>| counts.iter().map(|&count| count as f32 / tokens).collect();
        self.counts.iter().map(share).collect()
    }

    /// Activations of each neuron of a block.
    pub fn counts(&self, block: usize) -> &[u32] {
        &self.counts[block]
    }

    /// Share of tokens with the neuron active; 0 without tokens.
    pub fn frequency(&self, block: usize, neuron: u32) -> f64 {
        f64::from(self.counts[block][neuron as usize]) / f64::from(self.tokens.max(1))
    }

    /// Smallest share of a block's neurons with `part` of its activations; `None` without activations.
    pub fn block_share(&self, block: usize, part: f64) -> Option<f64> {
        share(self.counts[block].iter(), part)
    }

    /// [`Self::block_share`] over all neurons.
    pub fn model_share(&self, part: f64) -> Option<f64> {
        share(self.counts.iter().flatten(), part)
    }
}

/// Most frequent first, until the part is reached; equally frequent neurons are counted, not sorted.
fn share<'a>(counts: impl Iterator<Item = &'a u32>, part: f64) -> Option<f64> {
    let mut neurons_with = Vec::new();
    let (mut neurons, mut activations) = (0u64, 0u64);
    for &count in counts {
        let index = count as usize;
        if neurons_with.len() <= index {
            neurons_with.resize(index + 1, 0u64);
        }
        neurons_with[index] += 1;
        neurons += 1;
        activations += u64::from(count);
    }
    let wanted = part * activations as f64;
    let (mut taken, mut have) = (0.0, 0.0);
    for (count, &with) in neurons_with.iter().enumerate().rev().filter(|&(count, _)| count > 0) {
        let needed = (wanted - have) / count as f64;
        if needed <= with as f64 {
            return Some((taken + needed) / neurons as f64);
        }
        taken += with as f64;
        have += with as f64 * count as f64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neurons_are_counted_and_ranked() {
        let shape = NeuronShape::new(1, 4, 6);
        let mut profile = Profile::new(&shape);
        assert_eq!((profile.model_share(0.8), profile.frequency(0, 0)), (None, 0.0));
        let mut activity = Activity::new(&shape);
        for (attention, mlp) in [(0b0001, 0b1), (0b0011, 0), (0b0001, 0), (0b1001, 0)] {
            activity.block_mut(&shape, 0)[0] = attention;
            activity.block_mut(&shape, 1)[0] = mlp;
            profile.add(&activity);
        }
        assert_eq!(profile.counts(0), [4, 1, 0, 1]);
        assert_eq!((profile.tokens(), profile.frequency(0, 1)), (4, 0.25));
        // 80 % of 6 activations are 4.8: the first neuron and 0.8 of a second.
        assert!((profile.block_share(0, 0.8).unwrap() - 1.8 / 4.0).abs() < 1e-12);
        assert!((profile.block_share(1, 0.8).unwrap() - 0.8 / 6.0).abs() < 1e-12);
        // 5.6 of 7: the first, and 1.6 of the three with one activation each.
        assert!((profile.model_share(0.8).unwrap() - 2.6 / 10.0).abs() < 1e-12);
        profile.clear();
        assert_eq!((profile.tokens(), profile.counts(0)), (0, &[0; 4][..]));
    }

    #[test]
    fn prompts_can_be_counted_alone_and_damage_behind_them_is_still_seen() {
        let model = ndp_config::LlmShape::opt_like("x", 1, 64, 1, 64, 2).unwrap();
        let mut writer = crate::TraceWriter::new(Vec::new(), crate::TraceHeader::new(&model, 3, 2)).unwrap();
        let mut activity = Activity::new(writer.shape());
        for position in 0..3 {
            activity.words_mut()[0] = (1 << position) | (1 << 9);
            writer.write(crate::TokenInfo::at(position, 2), &activity).unwrap();
        }
        let mut bytes = writer.finish().unwrap();
        let count =
            |bytes: &[u8], counted| Profile::from_reader(&mut TraceReader::new(bytes).unwrap(), counted);
        let [all, prompt, profiled] = [Counted::All, Counted::Prompts, Counted::Profiled]
            .map(|counted| count(&bytes, counted).unwrap());
        assert_eq!((all.tokens(), &all.counts(0)[..3], all.counts(0)[9]), (3, &[1, 1, 1][..], 3));
        assert_eq!((prompt.tokens(), &prompt.counts(0)[..3], prompt.counts(0)[9]), (2, &[1, 1, 0][..], 2));
        assert_eq!(profiled, prompt, "of a single sequence");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert!(count(&bytes, Counted::Prompts).is_err());
    }

    #[test]
    fn the_last_of_several_sequences_is_not_profiled() {
        let model = ndp_config::LlmShape::opt_like("x", 1, 64, 1, 64, 2).unwrap();
        let header = crate::TraceHeader { sequences: 3, ..crate::TraceHeader::new(&model, 9, 6) };
        let mut writer = crate::TraceWriter::new(Vec::new(), header).unwrap();
        let mut activity = Activity::new(writer.shape());
        for token in 0..9 {
            activity.words_mut()[0] = 1 << token;
            writer.write(crate::TokenInfo::at(token % 3, 2), &activity).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let mut reader = TraceReader::new(&bytes[..]).unwrap();
        let profile = Profile::from_reader(&mut reader, Counted::Profiled).unwrap();
        assert_eq!((profile.tokens(), &profile.counts(0)[..9]), (6, &[1, 1, 1, 1, 1, 1, 0, 0, 0][..]));
    }
}
