//! Iterations that are run clock by clock on the host of HBM-PIM channels, which may be device models or RTL: a small model's texts, or their times alone, of texts
//! of any model, which take the same clocks without data.
//!
//! What an iteration takes is what the memory's clock says. Tokens are in the batch as `host`'s [`Session`] has them, prompts have their attention
//! in the banks too, and new keys and values are written: it is the host of `ndp generate pim`, and not the tables of [`crate::serving::librapim`]. While nothing
//! arrives the memory's clock stands still, so refreshes of that time are left out.

use crate::serving::request::Request;
use crate::serving::step::{Chunk, KvMemory, StepCost, StepTimes, Use};
use ndp_config::HbmConfig;
use ndp_files::Result;
use ndp_librapim::host::session::Took;
use ndp_librapim::host::{
    Arrangement, Channel, Extent, Generates, Prompt, Sequence, Session, Sizes, TimingOnly,
};
use ndp_librapim::offloading::Hardware;
use ndp_model::Model;

/// A machine that runs what it serves.
pub struct SessionSteps<S> {
    session: Session<S>,
    kv: KvMemory,
    clock_ps: u64,
}

/// A machine that generates the texts it serves.
pub type TextSteps<'m> = SessionSteps<Sequence<'m>>;
/// A machine that serves requests of which only the lengths are known.
pub type TimingOnlySteps<'a> = SessionSteps<TimingOnly<'a>>;

/// Text that prompts are cut from; longer ones go round.
const TEXT: &[u8] = b"It was a truth universally acknowledged, that she had never been so well pleased. ";

/// Prompts as long as those of the requests, cut from a text at different places, with a seed each.
pub fn prompts(requests: &[Request], temperature_percent: u32, seed: u64) -> Vec<Prompt> {
    let prompt = |(number, request): (usize, &Request)| Prompt {
        tokens: TEXT
            .iter()
            .cycle()
            .skip(number * 7 % TEXT.len())
            .take(request.input as usize)
            .map(|&c| c.into())
            .collect(),
        generate: request.output as usize,
        temperature_percent,
        seed: seed.wrapping_add(number as u64),
    };
    requests.iter().enumerate().map(prompt).collect()
}

/// Lengths of requests that come to a machine which has nothing of them.
pub fn extents(requests: &[Request]) -> Vec<Extent> {
    let extent = |request: &Request| Extent {
        prompt: request.input as usize,
        generate: request.output as usize,
        is_prefilled: false,
    };
    requests.iter().map(extent).collect()
}

/// Room for keys and values of requests of up to `longest` tokens, with a place for each.
fn places(count: usize, longest: usize, given: Option<u64>, bytes_per_token: u64) -> KvMemory {
    let bytes = count as u64 * (longest as u64).next_multiple_of(16) * bytes_per_token;
    KvMemory { bytes: given.unwrap_or(bytes), bytes_per_token }
}

impl<'a> TimingOnlySteps<'a> {
    /// As [`TextSteps::new`]; `is_loaded` leaves out the writing of the weights.
    pub fn new(
        sizes: &'a Sizes,
        devices: (&HbmConfig, &Hardware),
        arrangement: &Arrangement,
        requests: (&[Extent], bool),
        (pins, kv_bytes): (Vec<Channel>, Option<u64>),
    ) -> Result<Self> {
        let longest = requests.0.iter().map(|of| of.prompt + of.generate).max().unwrap_or(0);
        let kv = places(requests.0.len(), longest, kv_bytes, sizes.kv_bytes_per_token());
        let session = Session::timing_only(sizes, devices, arrangement, requests, pins)?;
        Ok(Self { session, kv, clock_ps: devices.1.pim.clock_ps.into() })
    }
}

impl<'m> TextSteps<'m> {
    /// Writes the weights. Each prompt has a place for its keys and values, so there is room for all of them, or for `kv_bytes`.
    pub fn new(
        model: &'m Model,
        config: &HbmConfig,
        hardware: &Hardware,
        arrangement: &Arrangement,
        prompts: &'m [Prompt],
        (pins, kv_bytes): (Vec<Channel>, Option<u64>),
    ) -> Result<Self> {
        let bytes_per_token = ndp_librapim::host::sizes_of(model).kv_bytes(1) * model.layers.len() as u64;
        let longest = prompts.iter().map(|prompt| prompt.tokens.len() + prompt.generate).max().unwrap_or(0);
        let kv = places(prompts.len(), longest, kv_bytes, bytes_per_token);
        let session = Session::new(model, config, hardware, arrangement, prompts, pins)?;
        Ok(Self { session, kv, clock_ps: hardware.pim.clock_ps.into() })
    }
}

impl<S> SessionSteps<S> {
    /// What is served, and the machine.
    pub fn session(&self) -> &Session<S> {
        &self.session
    }
}

impl<S: Generates> StepTimes for SessionSteps<S> {
    fn devices(&self) -> Vec<&'static str> {
        vec!["NPU", "PIM"]
    }

    fn kv(&self) -> KvMemory {
        self.kv
    }

    fn step(&mut self, prompts: &[Chunk], tokens: &[Chunk]) -> Result<StepCost> {
        let Took { clocks, npu, pim } = self.session.iterate(prompts, tokens)?;
        let busy = |clocks: u64| Use { busy_ns: (clocks * self.clock_ps) as f64 / 1e3, macs_ns: 0.0 };
        Ok(StepCost {
            ns: (clocks * self.clock_ps).div_ceil(1000),
            energy: None,
            uses: vec![busy(npu), busy(pim)],
        })
    }
}
