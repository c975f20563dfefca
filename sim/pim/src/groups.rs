//! Groups of requests that share the machine: each is a thread that runs the decoder and waits for its operations.
//!
//! Whoever asks first is served first, and a group that has the NPU keeps it while it asks for it again, so that a group's
//! matrices follow one another and the other group is in attention meanwhile. All groups that compute are waited for before
//! the clock goes on, so a run is the same every time.

use crate::PimError;
use crate::attention::{Append, HeadQuery, NewToken};
use crate::machine::{Attention, Done, Machine};
use crate::pins::Pins;
use ndp_config::HbmConfig;
use ndp_model::{AttentionOp, GemvBackend, GemvOp, LinearOp, SoftwareBackend};
use ndp_numerics::f16;
use std::sync::mpsc::{Receiver, Sender, channel};

const LANES: usize = HbmConfig::LANES as usize;

/// What a group wants.
enum Request {
    Npu { label: String, vectors: usize },
    Pim(Attention),
}

enum Message {
    Wants(usize, Request),
    Ends,
}

/// Says that a group has ended when it goes, also if the group panics: nobody waits for it then.
struct Ending(Sender<Message>);

impl Drop for Ending {
    fn drop(&mut self) {
        // Nobody listens any more if the machine has failed.
        let _ = self.0.send(Message::Ends);
    }
}

/// What a group is told.
type Reply = Vec<f16>;

/// The numbering of heads, for requests that know nothing of the memory.
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    /// Layers of the model.
    pub layers: usize,
    /// Heads of the model.
    pub heads: usize,
}

impl Numbering {
    fn head(self, sequence: u32, layer: usize, head: usize) -> u64 {
        ((sequence as usize * self.layers + layer) * self.heads + head) as u64
    }
}

/// The decoder's operations of one group on the shared machine.
pub struct GroupBackend {
    group: usize,
    numbering: Numbering,
    software: SoftwareBackend,
    messages: Sender<Message>,
    replies: Receiver<Reply>,
    /// Outputs of attention that were compared.
    pub checked: u64,
}

impl GroupBackend {
    fn ask(&self, request: Request) -> Result<Reply, PimError> {
        let gone = |_| PimError::Group("the machine has stopped".to_owned());
        self.messages.send(Message::Wants(self.group, request)).map_err(gone)?;
        self.replies.recv().map_err(|_| PimError::Group("the machine has stopped".to_owned()))
    }

    fn npu(&self, op: &GemvOp<'_>) -> Result<(), PimError> {
        let request = Request::Npu { label: op.label().to_owned(), vectors: op.batch() };
        self.ask(request).map(drop)
    }

    fn attention(&self, op: &AttentionOp<'_>) -> Attention {
        let (layer, width) = (op.layer(), op.head_width());
        let mut appends = Vec::new();
        for span in op.spans() {
            let visible = span.position + span.tokens;
            let first = span.position / LANES * LANES;
            for head in 0..op.heads() {
                let (keys, values) = (span.cache.keys(head, visible), span.cache.values(head, visible));
                let row = |rows: &[f16], position: usize| rows[position * width..][..width].to_vec();
                let new = |position| NewToken { position, key: row(keys, position) };
                appends.push(Append {
                    head: self.numbering.head(span.sequence, layer, head),
                    tokens: (span.position..visible).map(new).collect(),
                    values: (first..visible).map(|position| row(values, position)).collect(),
                    first,
                });
            }
        }
        let mut queries = Vec::new();
        for (token, (span, visible, query)) in op.each().enumerate() {
            for (head, query) in query.chunks(width).enumerate() {
                let at = token * op.width() + head * width;
                let head = self.numbering.head(span.sequence, layer, head);
                queries.push(HeadQuery { head, query: query.to_vec(), visible, at });
            }
        }
        Attention { label: op.label().to_owned(), appends, queries, elements: op.queries().len() }
    }
}

/// That two vectors are equal bit for bit.
fn equal(label: &str, found: &[f16], expected: &[f16]) -> Result<(), PimError> {
    let bits = found.iter().zip(expected).map(|(f, e)| (f.to_bits(), e.to_bits()));
    match bits.enumerate().find(|(_, (found, expected))| found != expected) {
        Some((index, (found, expected))) => {
            Err(PimError::Mismatch { label: label.to_owned(), index, found, expected })
        }
        None => Ok(()),
    }
}

impl GemvBackend for GroupBackend {
    type Error = PimError;

    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>, PimError> {
        self.npu(op)?;
        let Ok(result) = self.software.gemv(op);
        Ok(result)
    }

    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>, PimError> {
        self.npu(op.product())?;
        let Ok(result) = self.software.linear(op);
        Ok(result)
    }

    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>, PimError> {
        let result = self.ask(Request::Pim(self.attention(op)))?;
        let Ok(expected) = self.software.attend(op);
        equal(op.label(), &result, &expected)?;
        self.checked += result.len() as u64;
        Ok(result)
    }
}

/// Runs `groups` of them on the machine; `work` is what each does.
///
/// # Errors
/// The machine's, or else those of the groups.
pub fn run_groups<P: Pins, T: Send>(
    machine: &mut Machine<P>,
    groups: usize,
    numbering: Numbering,
    work: impl Fn(usize, &mut GroupBackend) -> Result<T, PimError> + Sync,
) -> Result<Vec<T>, PimError> {
    let (messages, inbox) = channel();
    std::thread::scope(|scope| {
        let (mut replies, mut handles) = (Vec::new(), Vec::new());
        for group in 0..groups {
            let (reply, own) = channel();
            replies.push(reply);
            let messages = messages.clone();
            let work = &work;
            handles.push(scope.spawn(move || {
                let _ending = Ending(messages.clone());
                let software = SoftwareBackend::new();
                let mut backend =
                    GroupBackend { group, numbering, software, messages, replies: own, checked: 0 };
                work(group, &mut backend)
            }));
        }
        drop(messages);
        let served = serve(machine, &inbox, &replies);
        // Groups that still wait are told that there is nothing to wait for.
        drop((replies, inbox));
        let results: Vec<Result<T, PimError>> = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err(PimError::Group("it panicked".to_owned()))))
            .collect();
        served?;
        results.into_iter().collect()
    })
}

fn serve<P: Pins>(
    machine: &mut Machine<P>,
    inbox: &Receiver<Message>,
    replies: &[Sender<Reply>],
) -> Result<(), PimError> {
    // Groups that compute; requests in the order of their groups, for each of the devices.
    let mut computing = replies.len();
    let mut waiting: Vec<Option<Request>> = replies.iter().map(|_| None).collect();
    let mut last_on_npu = 0;
    loop {
        while computing > 0 {
            let gone = |_| PimError::Group("all groups are gone".to_owned());
            match inbox.recv().map_err(gone)? {
                Message::Wants(group, request) => waiting[group] = Some(request),
                Message::Ends => {}
            }
            computing -= 1;
        }
        let first = last_on_npu;
        let order = (0..replies.len()).map(|k| (first + k) % replies.len());
        for group in order {
            match waiting[group].take() {
                Some(Request::Npu { label, vectors }) if !machine.npu_is_busy() => {
                    machine.start_npu(group, &label, vectors)?;
                    last_on_npu = group;
                }
                Some(Request::Pim(job)) if !machine.pim_is_busy() => machine.start_pim(group, job)?,
                other => waiting[group] = other,
            }
        }
        let (group, reply) = match machine.run()? {
            Some(Done::Npu(group)) => (group, Vec::new()),
            Some(Done::Pim(group, result)) => (group, result),
            None => return Ok(()),
        };
        computing = 1;
        if replies[group].send(reply).is_err() {
            // It has failed; its result says why.
            computing = 0;
        }
    }
}
