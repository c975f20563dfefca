//! A batch of texts: prompts, then token by token, in one group or in two.
//!
//! Sequences of a group share the linear layers and finish independently. Every token and logit is the one that the
//! text gets by itself.

use crate::host::backend::{Checked, GroupBackend, Plan};
use crate::host::groups::run_groups;
use crate::host::machine::Machine;
use crate::host::memory::{CacheShape, Memory};
use crate::host::pins::{Channel, Pins};
use crate::host::policy::{Decided, Offloading, Policy};
use crate::host::record::{ChannelSpan, Event};
use crate::host::session::Generates;
use crate::host::times::HostTimes;
use crate::offloading::work::windows;
use crate::offloading::{Hardware, Mode, Model as Sizes, Request, Rule};
use ndp_config::HbmConfig;
use ndp_dram::hbm::HbmActivity;
use ndp_files::{Result, bail, in_range, refusal};
use ndp_model::{Architecture, Decoder, Matrix, Model, logits_digest};
use ndp_numerics::{Sampling, SplitMix64, f16, sample};
use serde::Serialize;

/// A text to be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub tokens: Vec<u32>,
    pub generate: usize,
    /// Temperature in hundredths; 0 for the most likely token.
    pub temperature_percent: u32,
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Text {
    pub tokens: Vec<u32>,
    /// Digest of the logits of each token.
    pub logits_digests: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Groups of requests.
    pub groups: usize,
    pub texts: Vec<Text>,
    /// Clocks of writing the weights, before all else.
    pub loading_clocks: u64,
    /// Activity of each channel while loading.
    pub loading: Vec<HbmActivity>,
    /// Clocks after loading.
    pub clocks: u64,
    pub checked: Checked,
    /// Columns of weights read back equal.
    pub columns_checked: u64,
    /// Columns of keys and values read back equal by the NPU.
    pub copies_checked: u64,
    /// Clocks count from the beginning.
    pub events: Vec<Event>,
    /// Commands of each channel for each event.
    pub spans: Vec<ChannelSpan>,
    pub decisions: Vec<Decided>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// Groups of requests; at most, if the scheduler chooses.
    pub groups: usize,
    pub offloading: Offloading,
    /// Clocks whose commands are recorded ([`Machine::recorded`]).
    pub record: std::ops::Range<u64>,
}

pub struct Sequence<'a> {
    number: u32,
    prompt: &'a Prompt,
    model: &'a Model,
    decoder: Decoder<'a>,
    rng: SplitMix64,
    pub(crate) text: Text,
}

/// A machine with weights in memory, and the groups' plan.
pub(crate) struct Loaded {
    pub machine: Machine,
    pub plan: Plan,
    pub policy: Policy,
}

pub fn groups_of(mode: Mode) -> Result<usize> {
    match mode {
        Mode::Serial => Ok(1),
        Mode::Pipelined | Mode::Dex | Mode::DexDbo => Ok(2),
        Mode::AttAcc | Mode::NeuPims | Mode::Dbo => {
            Err(refusal!("mode {} is not one of serial, pipelined, dex and dex+dbo", mode.name()))
        }
    }
}

/// Sizes of a model for the scheduler.
pub fn sizes_of(model: &Model) -> Sizes {
    let config = &model.config;
    let size = |size: usize| size as u32;
    let name = match config.architecture() {
        Architecture::Opt => "opt",
        Architecture::Llama => "llama",
        Architecture::Falcon => "falcon",
    };
    Sizes {
        name: name.to_owned(),
        layers: size(config.num_hidden_layers()),
        hidden: size(config.hidden_size()),
        heads: size(config.num_attention_heads()),
        kv_heads: size(config.num_key_value_heads()),
        head_width: size(config.head_width()),
        // Plans count the experts of a token as one FFN.
        ffn: size(config.ffn_dim() * config.experts_per_token()),
        ffn_matrices: if config.is_gated() { 3 } else { 2 },
        vocabulary: size(config.vocab_size()),
        windows: windows((0..config.num_hidden_layers()).map(|layer| config.window(layer).map(size))),
    }
}

/// Generates all texts. Modes differ in memory (`config` is sliced for `dex` and `dex+dbo`), groups and offloading, not
/// in any bit of the texts.
///
/// # Errors
/// A model that is too large; no prompts or empty ones; more to offload than there is, or without slicing;
/// wrong results; as [`Machine::run`].
pub fn run_arranged(
    model: &Model,
    config: &HbmConfig,
    hardware: &Hardware,
    arrangement: Arrangement,
    prompts: &[Prompt],
    pins: Vec<Channel>,
) -> Result<(Outcome, Machine)> {
    check_groups(&arrangement, prompts.len())?;
    let Loaded { mut machine, plan, mut policy } =
        prepare_texts(model, (config, hardware), &arrangement, prompts, pins)?;
    let request = |prompt: &Prompt| Request {
        context: prompt.tokens.len() as u32 + 1,
        remaining: prompt.generate.saturating_sub(1) as u32,
    };
    let own = prompts.iter().filter(|prompt| prompt.generate > 0);
    let lengths: Vec<u32> = own.map(|prompt| prompt.tokens.len() as u32).collect();
    let requests: Vec<Request> = prompts.iter().map(request).collect();
    let groups = policy.plan(arrangement.groups.min(prompts.len()), &lengths, &requests)?;
    let loading_clocks = machine.clock();
    let loading = machine.channels().map(Pins::activity).collect();
    let of_group = |group| prompts.iter().enumerate().filter(move |(number, _)| number % groups == group);
    let contexts = (0..groups).map(|group| {
        let own = of_group(group).filter(|(_, prompt)| prompt.generate > 0);
        own.map(|(_, prompt)| prompt.tokens.len() as u32).collect()
    });
    let (results, decisions) =
        run_groups(&mut machine, contexts.collect(), &plan, &policy, |group, backend| {
            let sequences =
                of_group(group).map(|(number, prompt)| Sequence::new(model, number as u32, prompt));
            let sequences = generate(backend, sequences.collect())?;
            Ok((sequences, backend.checked()))
        })?;
    let mut checked = Checked::default();
    for (_, of_group) in &results {
        checked += *of_group;
    }
    let mut texts: Vec<(u32, Text)> = results.into_iter().flat_map(|(texts, _)| texts).collect();
    texts.sort_unstable_by_key(|(number, _)| *number);
    let outcome = Outcome {
        groups,
        texts: texts.into_iter().map(|(_, text)| text).collect(),
        loading_clocks,
        loading,
        clocks: machine.clock() - loading_clocks,
        checked,
        columns_checked: machine.checked_columns(),
        copies_checked: machine.moved_columns(),
        events: machine.events().to_vec(),
        spans: machine.spans().to_vec(),
        decisions,
    };
    Ok((outcome, machine))
}

pub(crate) fn prepare_texts(
    model: &Model,
    devices: (&HbmConfig, &Hardware),
    arrangement: &Arrangement,
    prompts: &[Prompt],
    pins: Vec<Channel>,
) -> Result<Loaded> {
    check_texts(model, prompts)?;
    let caches = caches_of(model, prompts);
    prepare(&sizes_of(model), devices, arrangement, caches, pins, |machine| load(machine, model))
}

/// Fails without a prompt for each group, unless a plan chooses the groups.
fn check_groups(arrangement: &Arrangement, prompts: usize) -> Result<()> {
    let groups = arrangement.groups;
    if (1..groups).contains(&prompts) && arrangement.offloading != Offloading::Live(Rule::Shortest) {
        bail!(
            "prompts = {prompts}, expected at least {groups}, one for each group: add prompts, or choose the mode serial, or dex+dbo with \
             the shortest plan"
        );
    }
    in_range("prompts", prompts, 1, 1 << 16)
}

fn check_texts(model: &Model, prompts: &[Prompt]) -> Result<()> {
    let most = model.config.max_position_embeddings();
    for prompt in prompts {
        in_range("tokens of a prompt", prompt.tokens.len(), 1, most)?;
        in_range("tokens of a prompt and behind it", prompt.tokens.len() + prompt.generate, 1, most)?;
        let vocabulary = model.config.vocab_size();
        let largest = prompt.tokens.iter().copied().max().unwrap_or(0) as usize;
        in_range("token", largest, 0, vocabulary - 1)?;
    }
    Ok(())
}

fn caches_of(model: &Model, prompts: &[Prompt]) -> CacheShape {
    let positions = prompts.iter().map(|p| p.tokens.len() + p.generate).max().unwrap_or(1);
    CacheShape::of(&sizes_of(model), prompts.len(), positions)
}

/// Fails if weights, keys and values, or copies for the NPU have no room, as [`run_arranged`] would after it has
/// opened channels.
pub fn check_room(
    model: &Model,
    config: &HbmConfig,
    arrangement: &Arrangement,
    prompts: &[Prompt],
) -> Result<()> {
    check_groups(arrangement, prompts.len())?;
    check_texts(model, prompts)?;
    let [ffn, mha] = arrangement.offloading.may();
    let mut memory = Memory::new(config, caches_of(model, prompts), widest(&sizes_of(model), ffn))?;
    matrices(model).try_for_each(|(_, matrix)| memory.reserve((matrix.rows(), matrix.cols())).map(drop))?;
    if mha { memory.add_copies() } else { Ok(()) }
}

/// Most inputs of a product in the banks.
fn widest(sizes: &Sizes, ffn: bool) -> usize {
    if ffn { sizes.hidden.max(sizes.ffn) as usize } else { 0 }
}

/// A machine with the weights that `load` writes, and room for the caches.
pub(crate) fn prepare(
    sizes: &Sizes,
    (config, hardware): (&HbmConfig, &Hardware),
    arrangement: &Arrangement,
    caches: CacheShape,
    pins: Vec<Channel>,
    load: impl FnOnce(&mut Machine) -> Result<()>,
) -> Result<Loaded> {
    let Arrangement { groups, offloading, ref record } = *arrangement;
    in_range("groups", groups, 1, 1 << 16)?;
    in_range("prompts", caches.sequences, 1, 1 << 16)?;
    if offloading != Offloading::None && !config.slicing() {
        bail!("offloading needs sliced banks, but memory '{}' does not slice its banks", config.name());
    }
    let largest = caches.sequences.div_ceil(groups) as u32;
    let policy = Policy::new(offloading, (hardware, config.banks()), largest, || {
        HostTimes::new(sizes, hardware, config, caches.sequences as u32, caches.positions as u32)
    })?;
    let [ffn, mha] = offloading.may();
    let mut machine = Machine::new(config, hardware, caches, widest(sizes, ffn), pins)?;
    machine.record(record.clone());
    if sizes.group() > 1 {
        // Each head of keys and values that a channel has too many costs the time of several heads of queries.
        machine.spread();
    }
    load(&mut machine)?;
    if mha {
        machine.add_copies()?;
    }
    let (memory, npu) = (machine.memory().clone(), machine.npu().clone());
    let plan = Plan { memory, npu, sizes: sizes.clone(), is_timing_only: false };
    Ok(Loaded { machine, plan, policy })
}

/// All matrices in memory, with their labels. A tied head has a place of its own; the embedding stays with the host.
fn matrices(model: &Model) -> impl Iterator<Item = (String, &Matrix)> {
    let layers = model.layers.iter().enumerate().flat_map(|(index, layer)| {
        let attention = [
            ("q_proj", &layer.q_proj),
            ("k_proj", &layer.k_proj),
            ("v_proj", &layer.v_proj),
            ("out_proj", &layer.out_proj),
        ];
        let attention = attention.map(|(part, linear)| (part.to_owned(), linear));
        let experts = layer.experts.iter().enumerate().flat_map(move |(number, of)| {
            let name = move |part: &str| {
                if layer.router.is_some() { format!("experts.{number}.{part}") } else { part.to_owned() }
            };
            let parts = [("fc1", Some(&of.fc1)), ("up", of.up.as_ref()), ("fc2", Some(&of.fc2))];
            parts.into_iter().filter_map(move |(part, linear)| Some((name(part), linear?)))
        });
        attention
            .into_iter()
            .chain(experts)
            .map(move |(part, linear)| (format!("layers.{index}.{part}"), &linear.weight))
    });
    layers.chain([("lm_head".to_owned(), model.head())])
}

fn load(machine: &mut Machine, model: &Model) -> Result<()> {
    matrices(model)
        .try_for_each(|(label, matrix)| machine.load(&label, (matrix.rows(), matrix.cols()), matrix.data()))
}

impl<'a> Sequence<'a> {
    pub(crate) fn new(model: &'a Model, number: u32, prompt: &'a Prompt) -> Self {
        Self {
            number,
            prompt,
            model,
            decoder: Decoder::new(model).with_sequence(number),
            rng: SplitMix64::new(prompt.seed),
            text: Text { tokens: Vec::new(), logits_digests: Vec::new() },
        }
    }

    fn is_done(&self) -> bool {
        self.text.tokens.len() == self.prompt.generate
    }

    fn draw(&mut self, logits: &[f16]) -> Result<()> {
        let token = sample(logits, Sampling::at(self.prompt.temperature_percent), &mut self.rng)?;
        self.text.tokens.push(token as u32);
        self.text.logits_digests.push(logits_digest(logits));
        Ok(())
    }
}

/// Runs all sequences of a group to their ends.
fn generate(backend: &mut GroupBackend<'_>, mut sequences: Vec<Sequence<'_>>) -> Result<Vec<(u32, Text)>> {
    for sequence in sequences.iter_mut().filter(|sequence| !sequence.is_done()) {
        let logits = sequence.decoder.prefill(backend, &sequence.prompt.tokens)?;
        sequence.draw(&logits)?;
    }
    loop {
        let mut running: Vec<&mut Sequence<'_>> =
            sequences.iter_mut().filter(|sequence| !sequence.is_done()).collect();
        if running.is_empty() {
            break;
        }
        Sequence::step(backend, &mut running)?;
    }
    Ok(sequences.into_iter().map(|sequence| (sequence.number, sequence.text)).collect())
}

impl Generates for Sequence<'_> {
    fn number(&self) -> u32 {
        self.number
    }

    fn stored(&self) -> usize {
        self.decoder.position()
    }

    fn known(&self) -> usize {
        self.prompt.tokens.len() + self.text.tokens.len()
    }

    fn restart(&mut self) {
        self.decoder = Decoder::new(self.model).with_sequence(self.number);
    }

    fn prefill(&mut self, backend: &mut GroupBackend<'_>, tokens: usize, yields: bool) -> Result<()> {
        let all = self.prompt.tokens.iter().chain(&self.text.tokens).copied();
        let own: Vec<u32> = all.skip(self.stored()).take(tokens).collect();
        if yields {
            let logits = self.decoder.prefill(backend, &own)?;
            return self.draw(&logits);
        }
        self.decoder.extend(backend, &own)?;
        Ok(())
    }

    fn step(backend: &mut GroupBackend<'_>, running: &mut [&mut Self]) -> Result<()> {
        let tokens: Vec<u32> =
            running.iter().filter_map(|sequence| sequence.text.tokens.last().copied()).collect();
        // Positions after this step.
        let contexts = running.iter().map(|sequence| (sequence.number, sequence.known() as u32));
        backend.begin_step(&contexts.collect::<Vec<_>>())?;
        let mut decoders: Vec<&mut Decoder<'_>> =
            running.iter_mut().map(|sequence| &mut sequence.decoder).collect();
        let all = Decoder::step_together(&mut decoders, backend, &tokens)?;
        let vocabulary = all.len() / running.len().max(1);
        for (sequence, logits) in running.iter_mut().zip(all.chunks(vocabulary.max(1))) {
            sequence.draw(logits)?;
        }
        Ok(())
    }
}
