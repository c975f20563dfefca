//! Continuous batching: each iteration has its own batch (Orca, OSDI 2022, section 3.1); keys and values are paged.
//!
//! At the beginning of an iteration, in this order:
//!
//! 1. **Room.** Running requests get the blocks of their next token, earliest first. If none is free, the *latest*
//!    running one is preempted: its blocks are freed, it heads the queue, and is prefilled again with the tokens it
//!    has generated (vLLM, section 4.5, recomputation).
//! 2. **Admission**, first come, first served, while there are fewer than `max_batch`, blocks for prompt and first
//!    token, and at most `max_prefill` tokens of prompts; a longer prompt goes by itself. Nobody is passed over. So
//!    none is admitted while one is preempted: that one heads the queue, and still lacks a block.
//! 3. The iteration: admitted prompts are prefilled whole, all others generate a token. All yield a token at its end.
//!
//! **Chunked prefill** (Sarathi-Serve, OSDI 2024) with `prefill_chunk`: the limit on an iteration's prompt tokens.
//! Begun prompts go first, then others are admitted while a token is left; longer ones are cut, and yield a token after
//! the last part. They have the whole prompt's blocks from the start, so room for K and V is unchanged.
//!
//! Therefore, the running requests are the first unfinished ones by arrival. First tokens come in that order, and the
//! earliest request is never preempted: everything ends. A request too large by itself is refused before the run.

use crate::serving::blocks::BlockPool;
use crate::serving::request::Request;
use crate::serving::step::{Chunk, StepTimes, Use, tokens_of};
use ndp_energy::Energy;
use ndp_files::{Result, bail, ensure, in_range};
use serde::Serialize;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rules {
    pub max_batch: u32,
    pub block_tokens: u32,
    /// Most tokens of an iteration's whole prompts; a longer prompt goes by itself.
    pub max_prefill: u32,
    /// Most tokens of an iteration's prompts, which are cut; replaces `max_prefill`.
    pub prefill_chunk: Option<u32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { max_batch: 128, block_tokens: 16, max_prefill: 2048, prefill_chunk: None }
    }
}

impl Rules {
    fn check(&self) -> Result<()> {
        in_range("max batch", self.max_batch, 1, 1 << 16)?;
        in_range("block", self.block_tokens, 1, 1 << 20)?;
        in_range("max prefill", self.max_prefill, 1, 1 << 20)?;
        in_range("prefill chunk", self.prefill_chunk.unwrap_or(1), 1, 1 << 20)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Served {
    #[serde(flatten)]
    pub request: Request,
    /// Time of its first token.
    pub first_ns: u64,
    /// Time of its last token.
    pub finish_ns: u64,
    pub preemptions: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Iteration<'a> {
    pub start_ns: u64,
    pub end_ns: u64,
    /// Prefilled prompts or parts of them.
    pub prefilled: &'a [Chunk],
    /// Generated tokens.
    pub decoded: &'a [Chunk],
    pub blocks: u64,
    /// Tokens prefilled or generated so far, each counted once.
    pub done: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// In the order of the trace.
    pub served: Vec<Served>,
    pub iterations: u64,
    /// Time of iterations; the rest is waiting for arrivals.
    pub busy_ns: u64,
    /// Prefilled tokens, [`Outcome::recomputed`] included.
    pub prefilled: u64,
    /// Tokens prefilled again.
    pub recomputed: u64,
    pub preemptions: u64,
    pub energy: Option<Energy>,
    /// By device of the machine.
    pub uses: Vec<Use>,
    pub blocks: u64,
    pub most_blocks: u64,
    /// Blocks in use times nanoseconds.
    pub block_ns: u128,
    /// Requests of an iteration times nanoseconds.
    pub request_ns: u128,
    /// End and tokens of each iteration.
    pub tokens: Vec<(u64, u32)>,
}

#[derive(Default)]
struct Active {
    place: usize,
    request: Request,
    done: u32,
    /// Whether it has a prompt to prefill, with the tokens generated before a preemption.
    prefilling: bool,
    /// Tokens in K and V.
    stored: u32,
    /// Tokens of its prompt that were ever prefilled.
    seen: u32,
    blocks: u64,
    first_ns: Option<u64>,
    preemptions: u32,
}

impl Active {
    fn new(place: usize, request: Request) -> Self {
        Self { place, request, prefilling: true, ..Self::default() }
    }

    /// Tokens in K and V when its next token is computed.
    fn context(&self) -> u32 {
        self.request.input + self.done
    }

    /// Part of an iteration, with at most `most` tokens of the prompt.
    fn chunk(&self, most: u32) -> Chunk {
        let left = self.context() - self.stored;
        let Self { place, stored: history, .. } = *self;
        Chunk { place, history, tokens: left.min(most), yields: left <= most }
    }
}

/// Serves requests in any order; `observe` gets each iteration. Fails without requests, for requests that never fit,
/// for numbers outside their range, and for steps that cannot be planned.
pub fn serve(
    requests: &[Request],
    rules: &Rules,
    machine: &mut dyn StepTimes,
    observe: &mut dyn FnMut(&Iteration<'_>),
) -> Result<Outcome> {
    rules.check()?;
    in_range("max batch", rules.max_batch, 1, machine.most_requests())?;
    ensure!(!requests.is_empty(), "the trace has no requests");
    let kv = machine.kv();
    let pool = BlockPool::new(rules.block_tokens, kv.bytes, kv.bytes_per_token);
    for (index, request) in requests.iter().enumerate() {
        let needed = pool.needed(request.most_kv_tokens());
        if needed > pool.total() {
            let of_block = u64::from(rules.block_tokens) * kv.bytes_per_token;
            bail!(
                "request {} ({} tokens in, {} out) can never be served: its keys and values need {needed} blocks of {} tokens, \
        {} bytes, and there are {} blocks, {} bytes",
                index + 1,
                request.input,
                request.output,
                rules.block_tokens,
                needed * of_block,
                pool.total(),
                kv.bytes
            );
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
        generated: 0,
        outcome: Outcome {
            uses: vec![Use::default(); machine.devices().len()],
            blocks: pool.total(),
            ..Outcome::default()
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
    /// Queues by arrival; `running` precedes `waiting`.
    waiting: VecDeque<Active>,
    running: Vec<Active>,
    now: u64,
    finished: Vec<Option<Served>>,
    generated: u64,
    outcome: Outcome,
}

impl State {
    /// Rule 1.
    fn make_room(&mut self) {
        let mut index = 0;
        while index < self.running.len() {
            let one = &self.running[index];
            // Prompts have had their blocks, and the ones for their first token, since admission.
            let missing = self.pool.needed(one.context()).saturating_sub(one.blocks);
            if self.pool.take(missing) {
                self.running[index].blocks += missing;
                index += 1;
            } else if let Some(mut last) = self.running.pop() {
                self.pool.give_back(last.blocks);
                (last.blocks, last.stored, last.prefilling) = (0, 0, true);
                last.preemptions += 1;
                self.outcome.preemptions += 1;
                self.waiting.push_front(last);
            }
        }
    }

    /// Rule 2, with `tokens_of(prompts)` taken. Appends the chunks of admitted prompts.
    fn admit(&mut self, prompts: &mut Vec<Chunk>) {
        while let Some(head) = self.waiting.front() {
            let (prompt, tokens) = (head.context(), tokens_of(prompts));
            let chunk = head.chunk(self.rules.prefill_chunk.map_or(u32::MAX, |most| most - tokens));
            let is_full = match self.rules.prefill_chunk {
                Some(_) => chunk.tokens == 0,
                None => tokens > 0 && tokens + prompt > self.rules.max_prefill,
            };
            if self.running.len() >= self.rules.max_batch as usize || is_full {
                break;
            }
            // The last token is not stored.
            let blocks = self.pool.needed((prompt + 1).min(head.request.most_kv_tokens()));
            if !self.pool.take(blocks) {
                break;
            }
            prompts.push(chunk);
            self.running.extend(self.waiting.pop_front().map(|head| Active { blocks, ..head }));
        }
    }

    fn iterate(
        &mut self,
        machine: &mut dyn StepTimes,
        observe: &mut dyn FnMut(&Iteration<'_>),
    ) -> Result<()> {
        self.make_room();
        let (mut prompts, mut tokens) = (Vec::new(), Vec::new());
        for one in &self.running {
            if one.prefilling {
                let most = self.rules.prefill_chunk.unwrap_or(u32::MAX);
                prompts.push(one.chunk(most - tokens_of(&prompts)));
            } else {
                tokens.push(one.chunk(1));
            }
        }
        self.admit(&mut prompts);
        let cost = machine.step(&prompts, &tokens)?;
        let start_ns = self.now;
        self.now = self.now.saturating_add(cost.ns);
        let blocks = self.pool.used();
        let out = &mut self.outcome;
        out.iterations += 1;
        out.busy_ns += cost.ns;
        if let Some(energy) = cost.energy {
            out.energy = Some(out.energy.map_or(energy, |sum| sum + energy));
        }
        out.uses.iter_mut().zip(&cost.uses).for_each(|(sum, one)| *sum += *one);
        out.most_blocks = out.most_blocks.max(blocks);
        out.block_ns += u128::from(blocks) * u128::from(cost.ns);
        let count = prompts.len() + tokens.len();
        out.request_ns += count as u128 * u128::from(cost.ns);
        // Generating requests arrived before those with prompts.
        let chunks: Vec<Chunk> = tokens.iter().chain(&prompts).copied().collect();
        let yielded = chunks.iter().filter(|chunk| chunk.yields).count() as u32;
        out.tokens.push((self.now, yielded));
        self.generated += u64::from(yielded);
        let all = std::mem::take(&mut self.running);
        for (mut one, chunk) in all.into_iter().zip(chunks) {
            if one.prefilling {
                let seen = one.seen.max(chunk.context().min(one.request.input));
                out.prefilled += u64::from(chunk.tokens);
                out.recomputed += u64::from(chunk.tokens - (seen - one.seen));
                one.seen = seen;
            }
            one.stored = chunk.context();
            if chunk.yields {
                one.done += 1;
                one.prefilling = false;
                one.first_ns.get_or_insert(self.now);
            }
            if one.done < one.request.output {
                self.running.push(one);
                continue;
            }
            self.pool.give_back(one.blocks);
            let Active { place, request, preemptions, first_ns, .. } = one;
            let (first_ns, finish_ns) = (first_ns.unwrap_or(self.now), self.now);
            self.finished[place] = Some(Served { request, first_ns, finish_ns, preemptions });
        }
        let (end_ns, done) = (self.now, out.prefilled - out.recomputed + self.generated);
        observe(&Iteration { start_ns, end_ns, prefilled: &prompts, decoded: &tokens, blocks, done });
        Ok(())
    }
}
