//! Continuous batching: the batch is decided anew for each iteration (Orca, OSDI 2022, section 3.1), keys and values are paged.
//!
//! At the beginning of an iteration, in this order:
//!
//! 1. **Room for what runs.** Each running request, the earliest first, is given the blocks of its next token. If none is free, the *latest* running
//!    one gives way: its blocks are free, and it is the first of those that wait. It will be prefilled again, with what it has generated
//!    (vLLM, section 4.5, recomputation).
//! 2. **Admission**: those that wait, first come, first served, as long as there are fewer than `max_batch`, there are blocks for prompt and first
//!    token, and the iteration's prompts have at most `max_prefill` tokens; a longer one goes alone. Nobody is passed over. So nobody is admitted
//!    while somebody gives way: who did is the first of all that wait, and lacks a block still.
//! 3. The iteration: the admitted prompts are prefilled whole, all others generate a token. Both yield their token at its end.
//!
//! So the running requests are always the first of the unfinished ones in the order of arrival, first tokens come in that order, and the
//! earliest one gives way to nobody: everything ends. A request that has no room even alone is refused before anything runs.

use crate::blocks::BlockPool;
use crate::error::{ServingError, in_range};
use crate::request::Request;
use crate::step::{StepTimes, Use};
use ndp_energy::Energy;
use serde::Serialize;
use std::collections::VecDeque;

/// What limits a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// Requests of an iteration.
    pub max_batch: u32,
    /// Tokens of a block of keys and values.
    pub block_tokens: u32,
    /// Tokens of the prompts of an iteration.
    pub max_prefill: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self { max_batch: 128, block_tokens: 16, max_prefill: 2048 }
    }
}

impl Rules {
    fn check(&self) -> Result<(), ServingError> {
        in_range("max batch", self.max_batch.into(), 1, 1 << 16)?;
        in_range("block", self.block_tokens.into(), 1, 1 << 20)?;
        in_range("max prefill", self.max_prefill.into(), 1, 1 << 20)
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Served {
    /// The request.
    #[serde(flatten)]
    pub request: Request,
    /// When its first token was there.
    pub first_ns: u64,
    /// When its last token was there.
    pub finish_ns: u64,
    /// How often it gave way.
    pub preemptions: u32,
}

/// An iteration.
#[derive(Clone, Copy, Debug)]
pub struct Iteration<'a> {
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Requests that were prefilled, by their place in the trace.
    pub prefilled: &'a [usize],
    /// Requests that generated a token, by their place in the trace.
    pub decoded: &'a [usize],
    /// Blocks that were in use.
    pub blocks: u64,
    /// Requests that are finished now, all together.
    pub finished: usize,
}

/// What serving took.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Each request, in the order of the trace.
    pub served: Vec<Served>,
    /// Iterations.
    pub iterations: u64,
    /// Nanoseconds of iterations; the rest is waiting for arrivals.
    pub busy_ns: u64,
    /// Tokens that were prefilled, those of [`Outcome::recomputed`] included.
    pub prefilled: u64,
    /// Tokens that were prefilled again.
    pub recomputed: u64,
    /// How often a request gave way.
    pub preemptions: u64,
    /// Energy of all iterations.
    pub energy: Option<Energy>,
    /// Of each of the machine's devices.
    pub uses: Vec<Use>,
    /// Blocks that there are.
    pub blocks: u64,
    /// Most blocks in use.
    pub most_blocks: u64,
    /// Blocks in use times nanoseconds.
    pub block_ns: u128,
    /// Requests of an iteration times nanoseconds.
    pub request_ns: u128,
    /// End and tokens of each iteration.
    pub tokens: Vec<(u64, u32)>,
}

/// A request on its way.
struct Active {
    place: usize,
    request: Request,
    /// Tokens that it has generated.
    done: u32,
    blocks: u64,
    first_ns: Option<u64>,
    preemptions: u32,
}

impl Active {
    fn new(place: usize, request: Request) -> Self {
        Self { place, request, done: 0, blocks: 0, first_ns: None, preemptions: 0 }
    }

    /// Tokens in K and V when its next token is computed.
    fn context(&self) -> u32 {
        self.request.input + self.done
    }
}

/// Serves all requests, whatever order they are given in. `observe` is told each iteration.
///
/// # Errors
/// [`ServingError::NeverFits`], [`ServingError::Range`], [`ServingError::NoRequests`], and what the machine refuses.
pub fn serve(
    requests: &[Request],
    rules: &Rules,
    machine: &mut dyn StepTimes,
    observe: &mut dyn FnMut(&Iteration<'_>),
) -> Result<Outcome, ServingError> {
    rules.check()?;
    in_range("max batch", rules.max_batch.into(), 1, machine.most_requests().into())?;
    if requests.is_empty() {
        return Err(ServingError::NoRequests);
    }
    let kv = machine.kv();
    let pool = BlockPool::new(rules.block_tokens, kv.bytes, kv.bytes_per_token);
    for (index, request) in requests.iter().enumerate() {
        let needed = pool.needed(request.most_kv_tokens());
        if needed > pool.total() {
            let of_block = u64::from(rules.block_tokens) * kv.bytes_per_token;
            return Err(ServingError::NeverFits {
                number: index + 1,
                input: request.input,
                output: request.output,
                needed,
                block_tokens: rules.block_tokens,
                needed_bytes: needed * of_block,
                blocks: pool.total(),
                bytes: kv.bytes,
            });
        }
    }
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&place| requests[place].arrival_ns);
    let mut arriving = order.into_iter().map(|place| Active::new(place, requests[place])).peekable();
    let mut state = State {
        rules: *rules,
        pool,
        waiting: VecDeque::new(),
        running: Vec::new(),
        now: 0,
        finished: vec![None; requests.len()],
        count: 0,
        outcome: Outcome {
            served: Vec::new(),
            iterations: 0,
            busy_ns: 0,
            prefilled: 0,
            recomputed: 0,
            preemptions: 0,
            energy: None,
            uses: vec![Use::default(); machine.devices().len()],
            blocks: pool.total(),
            most_blocks: 0,
            block_ns: 0,
            request_ns: 0,
            tokens: Vec::new(),
        },
    };
    loop {
        while let Some(arrived) = arriving.next_if(|next| next.request.arrival_ns <= state.now) {
            state.waiting.push_back(arrived);
        }
        if !(state.running.is_empty() && state.waiting.is_empty()) {
            state.iterate(machine, observe)?;
        } else if let Some(next) = arriving.peek() {
            state.now = next.request.arrival_ns;
        } else {
            break;
        }
    }
    let State { finished, mut outcome, .. } = state;
    outcome.served = finished.into_iter().flatten().collect();
    Ok(outcome)
}

struct State {
    rules: Rules,
    pool: BlockPool,
    /// In the order of arrival, as `running` is; all of `running` came before.
    waiting: VecDeque<Active>,
    running: Vec<Active>,
    now: u64,
    /// By place in the trace.
    finished: Vec<Option<Served>>,
    count: usize,
    outcome: Outcome,
}

impl State {
    /// Rule 1: blocks for the next token of all that go on running.
    fn make_room(&mut self) {
        let mut index = 0;
        while index < self.running.len() {
            let one = &self.running[index];
            let missing = self.pool.needed(one.context()) - one.blocks;
            if self.pool.take(missing) {
                self.running[index].blocks += missing;
                index += 1;
            } else if let Some(mut last) = self.running.pop() {
                self.pool.give_back(last.blocks);
                last.blocks = 0;
                last.preemptions += 1;
                self.outcome.preemptions += 1;
                self.waiting.push_front(last);
            }
        }
    }

    /// Rule 2: those that begin, in order.
    fn admit(&mut self) -> Vec<Active> {
        let (mut admitted, mut tokens) = (Vec::new(), 0);
        while let Some(head) = self.waiting.front() {
            let prompt = head.context();
            if self.running.len() + admitted.len() >= self.rules.max_batch as usize
                || (tokens > 0 && tokens + prompt > self.rules.max_prefill)
            {
                break;
            }
            // Of the last token nothing is stored.
            let blocks = self.pool.needed((prompt + 1).min(head.request.most_kv_tokens()));
            if !self.pool.take(blocks) {
                break;
            }
            tokens += prompt;
            admitted.extend(self.waiting.pop_front().map(|head| Active { blocks, ..head }));
        }
        admitted
    }

    fn iterate(
        &mut self,
        machine: &mut dyn StepTimes,
        observe: &mut dyn FnMut(&Iteration<'_>),
    ) -> Result<(), ServingError> {
        self.make_room();
        let admitted = self.admit();
        let prompts: Vec<u32> = admitted.iter().map(Active::context).collect();
        let contexts: Vec<u32> = self.running.iter().map(Active::context).collect();
        let cost = machine.step(&prompts, &contexts)?;
        let start_ns = self.now;
        self.now = self.now.saturating_add(cost.ns);
        let places = |active: &[Active]| active.iter().map(|one| one.place).collect::<Vec<usize>>();
        let (prefilled, decoded) = (places(&admitted), places(&self.running));
        let blocks = self.pool.used();
        let out = &mut self.outcome;
        out.iterations += 1;
        out.busy_ns += cost.ns;
        out.prefilled += prompts.iter().map(|&prompt| u64::from(prompt)).sum::<u64>();
        let again = admitted.iter().filter(|one| one.done > 0).map(|one| u64::from(one.context()));
        out.recomputed += again.sum::<u64>();
        if let Some(energy) = cost.energy {
            out.energy = Some(out.energy.map_or(energy, |sum| sum + energy));
        }
        out.uses.iter_mut().zip(&cost.uses).for_each(|(sum, one)| sum.add(*one));
        out.most_blocks = out.most_blocks.max(blocks);
        out.block_ns += u128::from(blocks) * u128::from(cost.ns);
        let count = prefilled.len() + decoded.len();
        out.request_ns += count as u128 * u128::from(cost.ns);
        out.tokens.push((self.now, count as u32));
        self.running.extend(admitted);
        let all = std::mem::take(&mut self.running);
        for mut one in all {
            one.done += 1;
            let first_ns = *one.first_ns.get_or_insert(self.now);
            if one.done < one.request.output {
                self.running.push(one);
                continue;
            }
            self.pool.give_back(one.blocks);
            let Active { place, request, preemptions, .. } = one;
            self.finished[place] = Some(Served { request, first_ns, finish_ns: self.now, preemptions });
            self.count += 1;
        }
        let (end_ns, finished) = (self.now, self.count);
        observe(&Iteration { start_ns, end_ns, prefilled: &prefilled, decoded: &decoded, blocks, finished });
        Ok(())
    }
}
