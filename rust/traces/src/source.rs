//! Tokens of a trace: from a file, or made when they are read.

use crate::synth::experts::ExpertSynthesizer;
use crate::synth::{SynthOptions, Synthesizer};
use crate::{Activity, NeuronShape, TokenInfo, TraceHeader, TraceReader};
use ndp_config::LlmShape;
use ndp_files::Result;
use std::io::Read;

/// Tokens in the order of a trace.
pub trait TraceSource {
    /// The header of the trace.
    fn header(&self) -> &TraceHeader;

    /// Blocks of the tokens read.
    fn shape(&self) -> &NeuronShape;

    /// The next token; `None` after the last. Fails as [`TraceReader::read_into`].
    fn read(&mut self) -> Result<Option<(TokenInfo, &Activity)>>;
}

impl<R: Read> TraceSource for TraceReader<R> {
    fn header(&self) -> &TraceHeader {
        self.header()
    }

    fn shape(&self) -> &NeuronShape {
        self.shape()
    }

    fn read(&mut self) -> Result<Option<(TokenInfo, &Activity)>> {
        self.read()
    }
}

#[derive(Clone, Debug)]
enum Generator {
    Neurons(Box<Synthesizer>),
    Experts(ExpertSynthesizer),
}

impl Generator {
    fn shape(&self) -> &NeuronShape {
        match self {
            Self::Neurons(neurons) => neurons.shape(),
            Self::Experts(experts) => experts.shape(),
        }
    }
}

/// Texts of a [`Synthesizer`], or of an [`ExpertSynthesizer`] for a mixture of experts, token by token.
#[derive(Clone, Debug)]
pub struct SyntheticTrace {
    header: TraceHeader,
    synthesizer: Generator,
    current: Activity,
    left: u64,
}

impl SyntheticTrace {
    /// `sequences` texts. Fails as [`TraceHeader::validate`], [`Synthesizer::new`] and [`ExpertSynthesizer::new`].
    pub fn new(model: &LlmShape, options: SynthOptions, sequences: u64) -> Result<Self> {
        let SynthOptions { seed, prompt_tokens, sequence_tokens, first_sequence, cluster, .. } = options;
        let density = options.targets.map_or_else(String::new, |of| format!(", density {}", of.density));
        let clusters = if cluster > 1 { format!(", clusters of {cluster}") } else { String::new() };
        let tokens = sequence_tokens.saturating_mul(sequences);
        let header = TraceHeader {
            sequences,
            seed,
            source: format!(
                "trace synth {}: {sequences} text(s) from number {first_sequence}, {sequence_tokens} tokens each, {prompt_tokens} of them \
                 the prompt{clusters}{density}",
                env!("CARGO_PKG_VERSION")
            ),
            ..TraceHeader::new(model, tokens, prompt_tokens.saturating_mul(sequences))
        };
        // A synthesizer of a model that is too large would take all memory.
        header.validate()?;
        let synthesizer = match model.is_mixture() {
            true => Generator::Experts(ExpertSynthesizer::new(model, options)?),
            false => Generator::Neurons(Box::new(Synthesizer::new(model, options)?)),
        };
        Ok(Self { header, current: Activity::new(synthesizer.shape()), synthesizer, left: tokens })
    }

    /// Makes the tokens; `None` for a mixture of experts, which is not fitted.
    pub fn synthesizer(&self) -> Option<&Synthesizer> {
        if let Generator::Neurons(neurons) = &self.synthesizer { Some(neurons) } else { None }
    }
}

impl TraceSource for SyntheticTrace {
    fn header(&self) -> &TraceHeader {
        &self.header
    }

    fn shape(&self) -> &NeuronShape {
        self.synthesizer.shape()
    }

    fn read(&mut self) -> Result<Option<(TokenInfo, &Activity)>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let info = match &mut self.synthesizer {
            Generator::Neurons(neurons) => neurons.next(&mut self.current),
            Generator::Experts(experts) => experts.next(&mut self.current),
        };
        Ok(Some((info, &self.current)))
    }
}

/// Texts in which every neuron is active for every token, as in models whose activation is never 0.
#[derive(Clone, Debug)]
pub struct DenseTrace {
    header: TraceHeader,
    shape: NeuronShape,
    all: Activity,
    /// Tokens of each text, prompt included.
    tokens: u64,
    /// Tokens of each prompt.
    prompt: u64,
    read: u64,
}

impl DenseTrace {
    /// Texts of `prompt` tokens and `output` generated ones each.
    pub fn new(model: &LlmShape, texts: u64, [prompt, output]: [u64; 2]) -> Self {
        let shape = NeuronShape::of(model);
        let mut all = Activity::new(&shape);
        (0..shape.blocks().len()).for_each(|block| all.fill(&shape, block));
        let tokens = prompt.saturating_add(output);
        let source = "every neuron active".to_owned();
        let all_tokens = [tokens, prompt].map(|tokens| tokens.saturating_mul(texts));
        let header =
            TraceHeader { source, sequences: texts, ..TraceHeader::new(model, all_tokens[0], all_tokens[1]) };
        Self { header, shape, all, tokens, prompt, read: 0 }
    }
}

impl TraceSource for DenseTrace {
    fn header(&self) -> &TraceHeader {
        &self.header
    }

    fn shape(&self) -> &NeuronShape {
        &self.shape
    }

    fn read(&mut self) -> Result<Option<(TokenInfo, &Activity)>> {
        if self.read == self.header.tokens {
            return Ok(None);
        }
        let info = TokenInfo::at(self.read % self.tokens, self.prompt);
        self.read += 1;
        Ok(Some((info, &self.all)))
    }
}
