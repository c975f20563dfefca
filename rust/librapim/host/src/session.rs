//! Texts whose requests come and go: in each iteration somebody else says which prompts are prefilled, and who generates a token.
//!
//! As [`crate::batch`], but all groups wait for each other at the end of an iteration, as continuous batching has it, and what a request has in
//! memory stays from one to the next. A request that gave way begins anew with what it had generated: its keys and values are written again.
//! Requests that generate are dealt to the groups longest first by turns, prompts as they come.

use crate::PimError;
use crate::backend::{Checked, Homes};
use crate::batch::{Arrangement, Loaded, Prompt, Sequence, Text, in_range, prepare, step};
use crate::groups::run_groups;
use crate::machine::Machine;
use crate::pins::Pins;
use crate::record::Event;
use ndp_config::HbmConfig;
use ndp_model::{Decoder, Model};
use ndp_offloading::{Device, Hardware};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Mutex;

/// A part of a prompt, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the prompt.
    pub number: usize,
    /// Tokens in K and V before; none begins anew.
    pub history: usize,
    /// Tokens of it.
    pub tokens: usize,
    /// Whether the next token is drawn behind them.
    pub yields: bool,
}

/// What an iteration took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Clocks of the memory.
    pub clocks: u64,
    /// Those in which the NPU had work.
    pub npu: u64,
    /// Those in which the multipliers had.
    pub pim: u64,
}

/// A group's part of an iteration.
#[derive(Default)]
struct Turn<'m> {
    prompts: Vec<(Part, Sequence<'m>)>,
    tokens: Vec<Sequence<'m>>,
}

/// A machine with a model that serves these prompts.
pub struct Session<'m, P> {
    model: &'m Model,
    groups: usize,
    loaded: Loaded<P>,
    /// By prompt; nothing while it is on its way.
    sequences: Vec<Option<Sequence<'m>>>,
    homes: HashMap<(u32, usize), Homes>,
    checked: Checked,
}

impl<'m, P: Pins> Session<'m, P> {
    /// Writes the weights.
    ///
    /// # Errors
    /// As [`crate::run_arranged`]; fewer prompts than groups are fine.
    pub fn new(
        model: &'m Model,
        config: &HbmConfig,
        hardware: &Hardware,
        arrangement: &Arrangement,
        prompts: &'m [Prompt],
        pins: Vec<P>,
    ) -> Result<Self, PimError> {
        let loaded = prepare(model, config, hardware, arrangement, prompts, pins)?;
        let sequences = (0..).zip(prompts).map(|(number, prompt)| Some(Sequence::new(model, number, prompt)));
        let (homes, checked) = (HashMap::new(), Checked::default());
        Ok(Self { model, groups: arrangement.groups, loaded, sequences: sequences.collect(), homes, checked })
    }

    /// The machine.
    pub fn machine(&self) -> &Machine<P> {
        &self.loaded.machine
    }

    /// What was compared.
    pub fn checked(&self) -> Checked {
        self.checked
    }

    /// What there is of each text.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.sequences.iter().flatten().map(|sequence| &sequence.text)
    }

    fn take(&mut self, number: usize) -> Result<Sequence<'m>, PimError> {
        let most = self.sequences.len().saturating_sub(1);
        in_range("request", number, 0, most)?;
        let gone = || PimError::Group(format!("request {number} is there twice in an iteration"));
        self.sequences[number].take().ok_or_else(gone)
    }

    /// An iteration: parts of prompts, and a token of each of `tokens`. After an error the session is of no use.
    ///
    /// # Errors
    /// [`PimError::Range`] for a part that does not begin where the one before ended, and as [`crate::run_arranged`].
    pub fn iterate(&mut self, prompts: &[Part], tokens: &[usize]) -> Result<Took, PimError> {
        let mut turns: Vec<Turn<'m>> = (0..self.groups).map(|_| Turn::default()).collect();
        for (at, part) in prompts.iter().enumerate() {
            let mut sequence = self.take(part.number)?;
            if part.history == 0 {
                sequence.decoder = Decoder::new(self.model).with_sequence(sequence.number);
                self.homes.retain(|(number, _), _| *number != sequence.number);
            }
            let stored = sequence.decoder.position();
            in_range("tokens before a part of a prompt", part.history, stored, stored)?;
            let left = sequence.prompt.tokens.len() + sequence.text.tokens.len() - stored;
            in_range("tokens of a part of a prompt", part.tokens, 1, left)?;
            turns[at % self.groups].prompts.push((*part, sequence));
        }
        let mut longest =
            tokens.iter().map(|&number| self.take(number)).collect::<Result<Vec<_>, PimError>>()?;
        longest.sort_by_key(|sequence| (Reverse(sequence.decoder.position()), sequence.number));
        for (at, sequence) in longest.into_iter().enumerate() {
            turns[at % self.groups].tokens.push(sequence);
        }
        let context = |sequence: &Sequence<'_>| sequence.decoder.position() as u32 + 1;
        let contexts = turns.iter().map(|turn| turn.tokens.iter().map(context).collect()).collect();
        let turns: Vec<Mutex<Turn<'m>>> = turns.into_iter().map(Mutex::new).collect();
        let Loaded { machine, plan, policy } = &mut self.loaded;
        let (start, events) = (machine.clock(), machine.events().len());
        let homes = &self.homes;
        let (results, _) = run_groups(machine, contexts, plan, policy, |group, backend| {
            let poisoned = |_| PimError::Group("it panicked".to_owned());
            let mut turn = std::mem::take(&mut *turns[group].lock().map_err(poisoned)?);
            backend.homes.clone_from(homes);
            for (part, sequence) in &mut turn.prompts {
                let all = sequence.prompt.tokens.iter().chain(&sequence.text.tokens).copied();
                let own: Vec<u32> = all.skip(part.history).take(part.tokens).collect();
                if part.yields {
                    let logits = sequence.decoder.prefill(backend, &own)?;
                    sequence.draw(&logits)?;
                } else {
                    sequence.decoder.extend(backend, &own)?;
                }
            }
            if !turn.tokens.is_empty() {
                step(backend, &mut turn.tokens.iter_mut().collect::<Vec<_>>())?;
            }
            Ok((turn, std::mem::take(&mut backend.homes), backend.checked()))
        })?;
        for (turn, homes, checked) in results {
            self.checked.attention += checked.attention;
            self.checked.products += checked.products;
            let Turn { prompts, tokens } = turn;
            for sequence in prompts.into_iter().map(|(_, sequence)| sequence).chain(tokens) {
                let own = homes.iter().filter(|((number, _), _)| *number == sequence.number);
                self.homes.extend(own.map(|(key, at)| (*key, *at)));
                let number = sequence.number as usize;
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
