//! Texts whose requests come and go: the caller says in each iteration which prompts to prefill and who generates.
//!
//! As [`crate::host::batch`], but groups wait for each other after each iteration, as in continuous batching, and
//! requests keep their memory. A preempted request begins again with the tokens it has generated: its keys and values
//! are rewritten. Generating requests are dealt to the groups longest first, prompts as they come.

use crate::host::backend::{Checked, GroupBackend, Homes};
use crate::host::batch::{Arrangement, Loaded, Prompt, Sequence, Text, prepare_texts};
use crate::host::groups::run_groups;
use crate::host::machine::Machine;
use crate::host::pins::Channel;
use crate::host::record::Event;
use crate::offloading::{Device, Hardware, Request};
use ndp_config::HbmConfig;
use ndp_files::{Result, failure, in_range};
use ndp_model::Model;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Mutex;

/// A text, or the [times of one](crate::host::timing_only).
pub trait Generates: Send {
    fn number(&self) -> u32;

    /// Tokens in K and V.
    fn stored(&self) -> usize;

    /// Tokens of the prompt and generated ones.
    fn known(&self) -> usize;

    /// Forgets K and V.
    fn restart(&mut self);

    /// Computes the next `tokens` known tokens; draws the one after them if it `yields`.
    fn prefill(&mut self, backend: &mut GroupBackend<'_>, tokens: usize, yields: bool) -> Result<()>;

    /// Generates a token for each of these, one or more.
    fn step(backend: &mut GroupBackend<'_>, running: &mut [&mut Self]) -> Result<()>;
}

/// Tokens of a request in an iteration: its prompt, a part of it, or one generated token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Index of the request.
    pub place: usize,
    /// Its tokens in K and V before; a prompt with none starts from its beginning.
    pub history: u32,
    pub tokens: u32,
    pub yields: bool,
}

impl Chunk {
    /// Tokens in K and V afterwards.
    pub fn context(&self) -> u32 {
        self.history + self.tokens
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    pub clocks: u64,
    /// Clocks in which the NPU had work.
    pub npu: u64,
    /// Clocks in which the multipliers had work.
    pub pim: u64,
}

struct Turn<S> {
    prompts: Vec<(Chunk, S)>,
    tokens: Vec<S>,
}

/// A machine with a model and its requests.
pub struct Session<S> {
    groups: usize,
    loaded: Loaded,
    /// By number; `None` while one is computed.
    sequences: Vec<Option<S>>,
    pub(crate) homes: HashMap<(u32, usize), Homes>,
    checked: Checked,
}

impl<'m> Session<Sequence<'m>> {
    /// Writes the weights. Fails as [`crate::host::run_arranged`], but allows fewer prompts than groups.
    pub fn new(
        model: &'m Model,
        config: &HbmConfig,
        hardware: &Hardware,
        arrangement: &Arrangement,
        prompts: &'m [Prompt],
        pins: Vec<Channel>,
    ) -> Result<Self> {
        let loaded = prepare_texts(model, (config, hardware), arrangement, prompts, pins)?;
        let sequences = (0..).zip(prompts).map(|(number, prompt)| Sequence::new(model, number, prompt));
        Ok(Self::of(arrangement.groups, loaded, sequences))
    }

    /// Texts so far.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.sequences.iter().flatten().map(|sequence| &sequence.text)
    }
}

impl<S: Generates> Session<S> {
    pub(crate) fn of(groups: usize, loaded: Loaded, sequences: impl Iterator<Item = S>) -> Self {
        let (homes, checked) = (HashMap::new(), Checked::default());
        Self { groups, loaded, sequences: sequences.map(Some).collect(), homes, checked }
    }

    pub fn machine(&self) -> &Machine {
        &self.loaded.machine
    }

    pub fn checked(&self) -> Checked {
        self.checked
    }

    fn take(&mut self, number: usize) -> Result<S> {
        let most = self.sequences.len().saturating_sub(1);
        in_range("request", number, 0, most)?;
        let gone = || failure!("a group stopped: request {number} is there twice in an iteration");
        self.sequences[number].take().ok_or_else(gone)
    }

    /// Runs prompts, whole or in part, and one token of other requests. After an error the session is unusable. Fails
    /// as [`crate::host::run_arranged`], and for a part that does not continue the one before.
    pub fn iterate(&mut self, prompts: &[Chunk], tokens: &[Chunk]) -> Result<Took> {
        let idle = || Turn { prompts: Vec::new(), tokens: Vec::new() };
        let mut turns: Vec<Turn<S>> = (0..self.groups).map(|_| idle()).collect();
        for (at, part) in prompts.iter().enumerate() {
            let mut sequence = self.take(part.place)?;
            if part.history == 0 {
                sequence.restart();
                self.homes.retain(|(number, _), _| *number != sequence.number());
            }
            let stored = sequence.stored();
            in_range("tokens before a part of a prompt", part.history as usize, stored, stored)?;
            in_range("tokens of a part of a prompt", part.tokens as usize, 1, sequence.known() - stored)?;
            turns[at % self.groups].prompts.push((*part, sequence));
        }
        let mut longest = tokens.iter().map(|token| self.take(token.place)).collect::<Result<Vec<_>>>()?;
        longest.sort_by_key(|sequence| (Reverse(sequence.stored()), sequence.number()));
        let context = |sequence: &S| sequence.stored() as u32 + 1;
        let request = |sequence: &S| Request { context: context(sequence), remaining: 1 };
        let groups =
            self.loaded.policy.plan(self.groups, &[], &longest.iter().map(request).collect::<Vec<_>>())?;
        for (at, sequence) in longest.into_iter().enumerate() {
            turns[at % groups].tokens.push(sequence);
        }
        let contexts = turns.iter().map(|turn| turn.tokens.iter().map(context).collect()).collect();
        let turns: Vec<Mutex<Option<Turn<S>>>> =
            turns.into_iter().map(|turn| Mutex::new(Some(turn))).collect();
        let Loaded { machine, plan, policy } = &mut self.loaded;
        let (start, events) = (machine.clock(), machine.events().len());
        let homes = &self.homes;
        let (results, _) = run_groups(machine, contexts, plan, policy, |group, backend| {
            let poisoned = |_| failure!("a group stopped: it panicked");
            let mut turn = turns[group].lock().map_err(poisoned)?.take().unwrap_or_else(idle);
            backend.homes.clone_from(homes);
            for (part, sequence) in &mut turn.prompts {
                sequence.prefill(backend, part.tokens as usize, part.yields)?;
            }
            if !turn.tokens.is_empty() {
                S::step(backend, &mut turn.tokens.iter_mut().collect::<Vec<_>>())?;
            }
            Ok((turn, std::mem::take(&mut backend.homes), backend.checked()))
        })?;
        for (turn, homes, checked) in results {
            self.checked += checked;
            let Turn { prompts, tokens } = turn;
            for sequence in prompts.into_iter().map(|(_, sequence)| sequence).chain(tokens) {
                let own = homes.iter().filter(|((number, _), _)| *number == sequence.number());
                self.homes.extend(own.map(|(key, at)| (*key, *at)));
                let number = sequence.number() as usize;
                self.sequences[number] = Some(sequence);
            }
        }
        let machine = &self.loaded.machine;
        let busy = |device| {
            let own = machine.events()[events..].iter().filter(|event| event.device == device);
            own.map(|Event { start, end, .. }| end - start).sum()
        };
        let clocks = machine.clock() - start;
        Ok(Took { clocks, npu: busy(Device::Npu), pim: busy(Device::Pim) })
    }
}
