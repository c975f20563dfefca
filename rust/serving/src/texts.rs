//! Iterations that are run: a small model's texts on the host of HBM-PIM channels, which may be device models or RTL.
//!
//! What an iteration takes is what the memory's clock says. Tokens are in the batch as `ndp-pim`'s [`Session`] has them, prompts have their attention
//! in the banks too, and new keys and values are written: it is the host of `ndp pim`, and not the time model of [`crate::librapim`]. While nothing
//! arrives the memory's clock stands still, so refreshes of that time are left out.

use crate::error::ServingError;
use crate::request::Request;
use crate::step::{Chunk, KvMemory, StepCost, StepTimes, Use};
use ndp_config::HbmConfig;
use ndp_model::Model;
use ndp_offloading::Hardware;
use ndp_pim::session::{Part, Took};
use ndp_pim::{Arrangement, Pins, Prompt, Session};

/// A machine that generates the texts it serves.
pub struct TextSteps<'m, P> {
    session: Session<'m, P>,
    kv: KvMemory,
    clock_ps: u64,
}

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

impl<'m, P: Pins> TextSteps<'m, P> {
    /// Writes the weights. Each prompt has a place for its keys and values, so there is room for all of them, or for `kv_bytes`.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn new(
        model: &'m Model,
        config: &HbmConfig,
        hardware: &Hardware,
        arrangement: &Arrangement,
        prompts: &'m [Prompt],
        (pins, kv_bytes): (Vec<P>, Option<u64>),
    ) -> Result<Self, ServingError> {
        let bytes_per_token = ndp_pim::sizes_of(model).kv_bytes(1) * model.layers.len() as u64;
        let longest = prompts.iter().map(|prompt| prompt.tokens.len() + prompt.generate).max().unwrap_or(0);
        let places = prompts.len() as u64 * (longest as u64).next_multiple_of(16) * bytes_per_token;
        let kv = KvMemory { bytes: kv_bytes.unwrap_or(places), bytes_per_token };
        let session = Session::new(model, config, hardware, arrangement, prompts, pins)?;
        Ok(Self { session, kv, clock_ps: hardware.pim.clock_ps.into() })
    }

    /// Texts and machine.
    pub fn session(&self) -> &Session<'m, P> {
        &self.session
    }
}

impl<P: Pins> StepTimes for TextSteps<'_, P> {
    fn devices(&self) -> Vec<&'static str> {
        vec!["NPU", "PIM"]
    }

    fn kv(&self) -> KvMemory {
        self.kv
    }

    fn step(&mut self, prompts: &[Chunk], tokens: &[Chunk]) -> Result<StepCost, ServingError> {
        let part = |chunk: &Chunk| Part {
            number: chunk.place,
            history: chunk.history as usize,
            tokens: chunk.tokens as usize,
            yields: chunk.yields,
        };
        let parts: Vec<Part> = prompts.iter().map(part).collect();
        let places: Vec<usize> = tokens.iter().map(|chunk| chunk.place).collect();
        let Took { clocks, npu, pim } = self.session.iterate(&parts, &places)?;
        let busy = |clocks: u64| Use { busy_ns: (clocks * self.clock_ps) as f64 / 1e3, macs_ns: 0.0 };
        Ok(StepCost {
            ns: (clocks * self.clock_ps).div_ceil(1000),
            energy: None,
            uses: vec![busy(npu), busy(pim)],
        })
    }
}
