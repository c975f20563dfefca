//! The bytes of a trace, as in `docs/traces.md`: header, and one token's bits as a record.

use crate::{Activity, NeuronShape, ones};
use ndp_config::{BlockKind, LlmShape};
use ndp_files::{Result, bail, ensure, refusal};
use serde::Serialize;

/// First bytes of a trace.
pub const MAGIC: [u8; 8] = *b"NDPTRACE";
/// Version of the format.
pub const VERSION: u32 = 1;
/// Replaces a record's length: the end record follows.
pub(crate) const END: u32 = u32::MAX;
/// The header's fixed part, with the lengths of texts.
const FIXED_BYTES: usize = 3 * 4 + 4 * 8 + 2 * 2;
/// Most bytes of the model's name.
pub const MAX_NAME_BYTES: usize = 256;
/// Most bytes of the text that says where the trace comes from.
pub const MAX_SOURCE_BYTES: usize = 4096;
/// Between the header's length and its checksum.
pub(crate) const MAX_BODY_BYTES: usize = FIXED_BYTES + MAX_NAME_BYTES + MAX_SOURCE_BYTES;
/// Most layers.
pub const MAX_LAYERS: u32 = 4096;
/// Most neurons of a block.
pub const MAX_BLOCK_NEURONS: u32 = 1 << 20;
/// Most neurons of all blocks; their bits take 32 MiB.
pub const MAX_NEURONS: u64 = 1 << 28;
/// Most tokens.
pub const MAX_TOKENS: u64 = 1 << 40;

const FLAG_FIRST: u8 = 1;
const FLAG_GENERATED: u8 = 2;

/// Header of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceHeader {
    /// Name of the model.
    pub model: String,
    /// Decoder layers.
    pub layers: u32,
    /// Neurons per layer before attention; 0 if not recorded.
    pub attention: u32,
    /// Neurons of a layer's MLP, or of all its experts; 0 if not recorded.
    pub mlp: u32,
    /// Tokens of all sequences.
    pub tokens: u64,
    /// Tokens of prompts. With one sequence they are the leading ones.
    pub prompt_tokens: u64,
    /// Number of sequences (independent texts).
    pub sequences: u64,
    /// Seed of the generator of the trace.
    pub seed: u64,
    /// Origin for people to read: any text, so it is shown by [`ndp_files::visible`].
    pub source: String,
}

impl TraceHeader {
    /// Header of one sequence of `tokens` tokens, the first `prompt_tokens` being the prompt.
    pub fn new(model: &LlmShape, tokens: u64, prompt_tokens: u64) -> Self {
        Self {
            model: model.name().to_owned(),
            layers: model.layers(),
            attention: model.hidden(),
            mlp: model.block_neurons(BlockKind::Mlp),
            tokens,
            prompt_tokens,
            sequences: u64::from(tokens > 0),
            seed: 0,
            source: String::new(),
        }
    }

    /// Blocks of the trace.
    pub fn shape(&self) -> NeuronShape {
        NeuronShape::new(self.layers, self.attention, self.mlp)
    }

    /// Fails for the first number out of range, or a model's name with control characters.
    pub fn validate(&self) -> Result<()> {
        let neurons = u64::from(self.layers) * (u64::from(self.attention) + u64::from(self.mlp));
        for (what, value, min, max) in [
            ("layers", self.layers.into(), 1, MAX_LAYERS.into()),
            ("attention neurons", self.attention.into(), 0, MAX_BLOCK_NEURONS.into()),
            ("MLP neurons", self.mlp.into(), 0, MAX_BLOCK_NEURONS.into()),
            ("neurons", neurons, 1, MAX_NEURONS),
            ("tokens", self.tokens, 0, MAX_TOKENS),
            ("prompt tokens", self.prompt_tokens, 0, self.tokens),
            ("sequences", self.sequences, u64::from(self.tokens > 0), self.tokens),
            ("bytes of the model's name", self.model.len() as u64, 0, MAX_NAME_BYTES as u64),
            ("bytes of the source", self.source.len() as u64, 0, MAX_SOURCE_BYTES as u64),
        ] {
            ensure!((min..=max).contains(&value), "{what} = {value} is not in {min}..={max}");
        }
        ndp_files::NameRule::Foreign.check(&self.model).map_err(|error| refusal!("the model's name {error}"))
    }

    /// Magic, version, length and body, without the checksum.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let body = FIXED_BYTES + self.model.len() + self.source.len();
        let mut bytes = MAGIC.to_vec();
        for word in [VERSION, body as u32, self.layers, self.attention, self.mlp] {
            bytes.extend(word.to_le_bytes());
        }
        for word in [self.tokens, self.prompt_tokens, self.sequences, self.seed] {
            bytes.extend(word.to_le_bytes());
        }
        for text in [&self.model, &self.source] {
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    /// Decodes `body`, the bytes after the length, once the checksum has been compared.
    pub(crate) fn decode(body: &[u8]) -> Result<Self> {
        fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8]> {
            let (field, tail) = rest
                .split_at_checked(bytes)
                .ok_or_else(|| refusal!("the trace header is malformed: it ends within a field"))?;
            *rest = tail;
            Ok(field)
        }
        /// A little-endian number of `bytes` bytes.
        fn number(rest: &mut &[u8], bytes: usize) -> Result<u64> {
            Ok(take(rest, bytes)?.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
        }
        fn text(rest: &mut &[u8]) -> Result<String> {
            let bytes = number(rest, 2)? as usize;
            let text = take(rest, bytes)?.to_vec();
            String::from_utf8(text)
                .map_err(|_| refusal!("the trace header is malformed: a text is not UTF-8"))
        }
        let rest = &mut &body[..];
        let [layers, attention, mlp] =
            [number(rest, 4)? as u32, number(rest, 4)? as u32, number(rest, 4)? as u32];
        let [tokens, prompt_tokens] = [number(rest, 8)?, number(rest, 8)?];
        let [sequences, seed] = [number(rest, 8)?, number(rest, 8)?];
        let [model, source] = [text(rest)?, text(rest)?];
        ensure!(rest.is_empty(), "the trace header is malformed: bytes follow its last field");
        let header = Self { model, layers, attention, mlp, tokens, prompt_tokens, sequences, seed, source };
        header.validate()?;
        Ok(header)
    }
}

/// Whether a token is in the prompt or generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// In the prompt: computed in the prefill.
    Prompt,
    /// Generated: computed on its own.
    Generated,
}

/// A record's data besides the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TokenInfo {
    /// First token of a sequence, independent of earlier ones.
    pub first: bool,
    /// Prompt or generated.
    pub phase: Phase,
}

impl TokenInfo {
    /// For token `position` of a sequence with `prompt_tokens` tokens of prompt.
    pub fn at(position: u64, prompt_tokens: u64) -> Self {
        let phase = if position < prompt_tokens { Phase::Prompt } else { Phase::Generated };
        Self { first: position == 0, phase }
    }

    fn flags(self) -> u8 {
        let generated = if self.phase == Phase::Generated { FLAG_GENERATED } else { 0 };
        generated | if self.first { FLAG_FIRST } else { 0 }
    }

    fn from_flags(flags: u8, token: u64) -> Result<Self> {
        if flags & !(FLAG_FIRST | FLAG_GENERATED) != 0 {
            bail!("token {token} is malformed: a flag is set that has no meaning");
        }
        let phase = if flags & FLAG_GENERATED != 0 { Phase::Generated } else { Phase::Prompt };
        Ok(Self { first: flags & FLAG_FIRST != 0, phase })
    }
}

/// Counts tokens, prompt tokens and sequences, and refuses impossible orders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Census {
    pub tokens: u64,
    prompt_tokens: u64,
    sequences: u64,
    last: Option<Phase>,
}

impl Census {
    /// Counts the next token; more than `promised` are an error.
    pub fn add(&mut self, info: TokenInfo, promised: u64) -> Result<()> {
        let refuse = |reason| Err(refusal!("token {} is malformed: {reason}", self.tokens));
        match self.last {
            None if !info.first => return refuse("the first token of a trace begins no sequence"),
            Some(Phase::Generated) if !info.first && info.phase == Phase::Prompt => {
                return refuse("a token of the prompt follows a generated one");
            }
            _ => self.last = Some(info.phase),
        }
        self.tokens += 1;
        self.prompt_tokens += u64::from(info.phase == Phase::Prompt);
        self.sequences += u64::from(info.first);
        let found = self.tokens;
        ensure!(found <= promised, "tokens: the header says {promised}, found {found}");
        Ok(())
    }

    /// Compares the counts with the header.
    pub fn compare(&self, header: &TraceHeader) -> Result<()> {
        for (what, header, found) in [
            ("tokens", header.tokens, self.tokens),
            ("prompt tokens", header.prompt_tokens, self.prompt_tokens),
            ("sequences", header.sequences, self.sequences),
        ] {
            ensure!(header == found, "{what}: the header says {header}, found {found}");
        }
        Ok(())
    }
}

/// Longest record: flags, and per block the byte 0 and all bits.
pub(crate) fn max_record_bytes(shape: &NeuronShape) -> usize {
    1 + shape.blocks().iter().map(|block| 1 + block.neurons.div_ceil(8) as usize).sum::<usize>()
}

/// LEB128: seven bits per byte, least first; the top bit says that more follow.
fn push_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0u64;
    for index in 0..5 {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            return u32::try_from(value).ok();
        }
    }
    None
}

/// Writes the record of `current` into `out`; `previous`, the token before, becomes `current`. Fails for bits after a
/// block's last neuron. Both have the shape's size.
pub(crate) fn encode_record(
    out: &mut Vec<u8>,
    shape: &NeuronShape,
    token: u64,
    info: TokenInfo,
    previous: &mut Activity,
    current: &Activity,
) -> Result<()> {
    out.clear();
    out.push(info.flags());
    if info.first {
        previous.words_mut().fill(0);
    }
    for (index, block) in shape.blocks().iter().enumerate() {
        let bits = current.block(shape, index);
        check_tail(bits, block.neurons, token, index)?;
        let last = previous.block_mut(shape, index);
        last.iter_mut().zip(bits).for_each(|(last, &bits)| *last ^= bits);
        let start = out.len();
        let raw = 1 + block.neurons.div_ceil(8) as usize;
        let changes: u32 = last.iter().map(|word| word.count_ones()).sum();
        // Each change takes a byte at least, so a longer list cannot be shorter.
        let mut listed = (changes as usize) < raw;
        if listed {
            push_varint(out, changes + 1);
            let mut next = 0;
            for position in ones(last) {
                push_varint(out, position - next);
                next = position + 1;
            }
            listed = out.len() - start <= raw;
        }
        if !listed {
            out.truncate(start);
            out.push(0);
            let bytes = bits.iter().flat_map(|word| word.to_le_bytes());
            out.extend(bytes.take(raw - 1));
        }
        last.copy_from_slice(bits);
    }
    Ok(())
}

/// Turns `activity` from the token before into the record's.
pub(crate) fn decode_record(
    record: &[u8],
    shape: &NeuronShape,
    token: u64,
    activity: &mut Activity,
) -> Result<TokenInfo> {
    const SHORT: &str = "it ends within a block";
    let malformed = |reason| refusal!("token {token} is malformed: {reason}");
    let (&flags, mut rest) = record.split_first().ok_or_else(|| malformed("it is empty"))?;
    let info = TokenInfo::from_flags(flags, token)?;
    if info.first {
        activity.words_mut().fill(0);
    }
    for (index, block) in shape.blocks().iter().enumerate() {
        let words = activity.block_mut(shape, index);
        let changes = take_varint(&mut rest).ok_or_else(|| malformed(SHORT))?;
        if changes == 0 {
            let bytes = block.neurons.div_ceil(8) as usize;
            let (bits, tail) = rest.split_at_checked(bytes).ok_or_else(|| malformed(SHORT))?;
            rest = tail;
            for (word, bytes) in words.iter_mut().zip(bits.chunks(8)) {
                *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            }
            check_tail(words, block.neurons, token, index)?;
            continue;
        }
        let mut next = 0u64;
        for _ in 1..changes {
            let gap = take_varint(&mut rest).ok_or_else(|| malformed(SHORT))?;
            let neuron = next + u64::from(gap);
            if neuron >= u64::from(block.neurons) {
                let neurons = block.neurons;
                bail!(
                    "token {token}, block {index}: neuron {neuron} does not exist, the block has {neurons}"
                );
            }
            words[neuron as usize / 64] ^= 1 << (neuron % 64);
            next = neuron + 1;
        }
    }
    if rest.is_empty() { Ok(info) } else { Err(malformed("bytes follow its last block")) }
}

/// Fails for bits past the last neuron.
fn check_tail(words: &[u64], neurons: u32, token: u64, block: usize) -> Result<()> {
    let used = neurons % 64;
    match words.last() {
        Some(&word) if used != 0 && word >> used != 0 => {
            let behind = used + (word >> used).trailing_zeros();
            let neuron = u64::from(neurons - used + behind);
            Err(refusal!(
                "token {token}, block {block}: neuron {neuron} does not exist, the block has {neurons}"
            ))
        }
        _ => Ok(()),
    }
}
