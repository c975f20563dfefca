//! Iterations on the host of HBM-PIM channels, clock by clock on device models or RTL: texts of a small model, or only
//! times of any model, in the same clocks without data.
//!
//! Time is the memory's clock. Tokens are batched as in `host`'s [`Session`], prompts have attention in the banks, and
//! new keys and values are written: this is the host of `ndp generate pim`, not the tables of
//! [`crate::serving::librapim`]. Between arrivals the clock stands still, without refreshes.

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

pub struct SessionSteps<S> {
    session: Session<S>,
    kv: KvMemory,
    clock_ps: u64,
}

/// Generates the texts that it serves.
pub type TextSteps<'m> = SessionSteps<Sequence<'m>>;
/// Serves requests with known lengths only.
pub type TimingOnlySteps<'a> = SessionSteps<TimingOnly<'a>>;

/// Text for prompts; longer ones repeat it.
const TEXT: &[u8] = b"It was a truth universally acknowledged, that she had never been so well pleased. ";

/// Prompts of the requests' lengths, cut from different places of a text, with a seed each.
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

/// Lengths of new requests.
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
    /// [`TextSteps::new`]; `is_loaded` skips writing the weights.
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
    /// Writes the weights. Each prompt has a place for keys and values: room for all, or for `kv_bytes`.
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
