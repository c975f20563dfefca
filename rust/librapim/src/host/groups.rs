//! Groups of requests that share the machine: each is a thread that runs the decoder and waits for its operations.
//!
//! First come, first served. A group keeps the NPU while it asks for it again, so that its matrices follow one another
//! while the other group is in attention. A product of both devices interrupts attention. Keys and values change homes
//! before other work starts, while the memory has no attention. The clock waits for all computing groups, so every run
//! is the same.

use crate::host::asked::{Asked, Both, NpuWork, Reply, Request};
use crate::host::backend::{GroupBackend, Plan};
use crate::host::machine::{Done, Machine};
use crate::host::policy::{Decided, Policy};
use ndp_files::{Context, Result, failure};
use ndp_numerics::f16;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

enum Message {
    Wants(usize, Request),
    Ends(usize),
}

/// Reports on drop that a group has ended, even by a panic, so that nobody waits for it.
struct Ending(usize, Sender<Message>);

impl Drop for Ending {
    fn drop(&mut self) {
        // The machine may have failed.
        let _ = self.1.send(Message::Ends(self.0));
    }
}

/// Runs groups on the machine. `contexts` lists the contexts of each group's sequences before their first step; `work`
/// runs a group. Also returns the decisions, in order. The machine's error goes before the groups'.
pub fn run_groups<T: Send>(
    machine: &mut Machine,
    contexts: Vec<Vec<u32>>,
    plan: &Plan,
    policy: &Policy,
    work: impl Fn(usize, &mut GroupBackend<'_>) -> Result<T> + Sync,
) -> Result<(Vec<T>, Vec<Decided>)> {
    let (messages, inbox) = channel();
    std::thread::scope(|scope| {
        let (mut replies, mut handles) = (Vec::new(), Vec::new());
        for group in 0..contexts.len() {
            let (reply, own) = channel();
            replies.push(reply);
            let messages = messages.clone();
            let work = &work;
            let started = Builder::new().spawn_scoped(scope, move || {
                let _ending = Ending(group, messages.clone());
                let gone = || failure!("a group stopped: the machine has stopped");
                let ask = move |request| {
                    messages.send(Message::Wants(group, request)).map_err(|_| gone())?;
                    own.recv().map_err(|_| gone())
                };
                work(group, &mut GroupBackend::new(plan, ask))
            });
            // Groups that have started end when nobody answers them.
            handles.push(started.with_context(|| format!("cannot start the thread of group {group}"))?);
        }
        drop(messages);
        let waiting = replies.iter().map(|_| None).collect();
        let server =
            Server { machine, policy, replies, contexts, waiting, steps: Vec::new(), last_on_npu: 0 };
        let served = server.serve(&inbox);
        // Closing the inbox ends groups that still wait.
        drop(inbox);
        let results: Vec<Result<T>> = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err(failure!("a group stopped: it panicked"))))
            .collect();
        let decided = served?;
        Ok((results.into_iter().collect::<Result<_, _>>()?, decided))
    })
}

struct Pending {
    work: Asked,
    left: usize,
    values: Vec<f16>,
}

struct Server<'a> {
    machine: &'a mut Machine,
    policy: &'a Policy,
    replies: Vec<Sender<Reply>>,
    /// Contexts of each group's unfinished sequences in its step.
    contexts: Vec<Vec<u32>>,
    waiting: Vec<Option<Pending>>,
    steps: Vec<usize>,
    last_on_npu: usize,
}

impl Server<'_> {
    fn serve(mut self, inbox: &Receiver<Message>) -> Result<Vec<Decided>> {
        let mut decided: Vec<Decided> = Vec::new();
        let mut computing = self.replies.len();
        loop {
            while computing > 0 {
                let gone = |_| failure!("a group stopped: all groups are gone");
                match inbox.recv().map_err(gone)? {
                    Message::Wants(group, Request::Work(work)) => {
                        let pieces = [work.npu.is_some(), work.pim.is_some(), work.both.is_some()];
                        let left = pieces.into_iter().filter(|&there| there).count();
                        if left == 0 {
                            return Err(failure!("a group stopped: group {group} has asked for nothing"));
                        }
                        self.waiting[group] = Some(Pending { work: *work, left, values: Vec::new() });
                    }
                    Message::Wants(group, Request::Step(contexts)) => {
                        self.contexts[group] = contexts;
                        self.steps.push(group);
                    }
                    Message::Ends(group) => self.contexts[group].clear(),
                }
                computing -= 1;
            }
            if !self.steps.is_empty() {
                self.steps.sort_unstable();
                for group in std::mem::take(&mut self.steps) {
                    let decision = self.decide(group, &decided);
                    let share = decision.share;
                    decided.push(decision);
                    computing += usize::from(self.replies[group].send(Reply::Share(share)).is_ok());
                }
                continue;
            }
            self.start()?;
            let (group, values) = match self.machine.run()? {
                Some(Done::Npu(group)) => (group, Vec::new()),
                Some(Done::Pim(group, values) | Done::Shared(group, values)) => (group, values),
                None => return Ok(decided),
            };
            let Some(pending) = &mut self.waiting[group] else { continue };
            pending.left -= 1;
            if !values.is_empty() {
                pending.values = values;
            }
            if pending.left == 0 {
                let values = std::mem::take(&mut pending.values);
                self.waiting[group] = None;
                // A failed group says why in its result.
                computing = usize::from(self.replies[group].send(Reply::Values(values)).is_ok());
            }
        }
    }

    fn decide(&mut self, group: usize, before: &[Decided]) -> Decided {
        let step = 1 + before.iter().filter(|decided| decided.group == group).count() as u32;
        self.machine.set_step(group, step);
        let own = &self.contexts[group];
        let others = self.contexts.iter().enumerate().filter(|(other, _)| *other != group);
        let other: Vec<u32> = others.flat_map(|(_, contexts)| contexts.iter().copied()).collect();
        let longest = |contexts: &[u32]| contexts.iter().copied().max().unwrap_or(0);
        Decided {
            group,
            step,
            clock: self.machine.clock(),
            requests: own.len() as u32,
            context: longest(own),
            other_requests: other.len() as u32,
            other_context: longest(&other),
            share: self.policy.decide(own, &other),
        }
    }

    fn start(&mut self) -> Result<()> {
        let groups = self.waiting.len();
        let mut order: Vec<usize> = (0..groups).map(|k| (self.last_on_npu + k) % groups).collect();
        let wants_both =
            |group: &usize| self.waiting[*group].as_ref().is_some_and(|pending| pending.work.both.is_some());
        order.sort_by_key(|group| !wants_both(group));
        for group in order {
            let Some(Pending { work, .. }) = &mut self.waiting[group] else { continue };
            let machine = &mut *self.machine;
            let is_move = matches!(work.both, Some(Both::Move(_)));
            let waits = machine.npu_is_busy() || is_move && machine.pim_is_busy();
            if !waits {
                match work.both.take() {
                    Some(Both::Product(product)) => {
                        machine.start_shared(group, &product)?;
                        self.last_on_npu = group;
                    }
                    Some(Both::Move(stream)) => machine.start_stream(group, stream),
                    None => {}
                }
            }
            if !machine.npu_is_busy() {
                match work.npu.take() {
                    Some(NpuWork::Matrix { label, vectors }) => {
                        machine.start_npu(group, &label, vectors)?;
                        self.last_on_npu = group;
                    }
                    Some(NpuWork::Stream(stream)) => machine.start_stream(group, stream),
                    None => {}
                }
            }
            if !machine.pim_is_busy()
                && let Some(attention) = work.pim.take()
            {
                machine.start_pim(group, attention)?;
            }
        }
        Ok(())
    }
}
