//! Several chips that share a model: simple factors, no network simulation.
//!
//! **Tensor parallelism**, `tp` chips with equal parts of heads, FFN width and vocabulary. After projection and FFN all
//! chips add their hidden vectors (all-reduce in a ring): `2 (tp - 1) / tp` of the bytes and `2 (tp - 1)` latencies.
//! Logits are gathered: `(tp - 1) / tp` of their bytes, FP16. Nothing overlaps with computation.
//!
//! **Pipeline parallelism**, `pp` stages of `ceil(layers / pp)` layers: requests are dealt to at most `pp`
//! micro-batches. A stage takes its longest one's time, logits included. For tokens the pipeline stays full: a step
//! takes `pp` stage times; for prompts it is empty: `pp + micro-batches - 1`. Stages pass on hidden vectors, FP16.

use ndp_files::{Result, bail, ensure, in_range};
use ndp_librapim::offloading::Model;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parallel {
    /// Chips that share each layer.
    pub tp: u32,
    pub pp: u32,
    /// Each way.
    pub link_gbps: f64,
    /// Latency from chip to chip.
    pub link_ns: f64,
}

impl Default for Parallel {
    /// One chip. Assumed link: 64 GB/s, of PCIe 5.0 x16, and 1 us.
    fn default() -> Self {
        Self { tp: 1, pp: 1, link_gbps: 64.0, link_ns: 1000.0 }
    }
}

impl Parallel {
    pub fn chips(&self) -> u32 {
        self.tp * self.pp
    }

    /// A chip's part of the model, with the layers of its stage. Fails if `tp` does not divide the model.
    pub fn part(&self, model: &Model) -> Result<Model> {
        in_range("tp", self.tp, 1, 1024)?;
        in_range("pp", self.pp, 1, model.layers)?;
        for (what, value, above) in
            [("link bandwidth (GB/s)", self.link_gbps, 1e-3), ("link latency (ns)", self.link_ns, 0.0)]
        {
            if !(above..=1e9).contains(&value) {
                let expected = if above > 0.0 { "in 0.001..=1e9" } else { "in 0..=1e9" };
                bail!("{what} = {value} must be {expected}");
            }
        }
        let mut part = model.clone();
        for (what, value) in [
            ("heads", &mut part.heads),
            ("heads of K and V", &mut part.kv_heads),
            ("width of the FFN", &mut part.ffn),
        ] {
            ensure!(
                *value % self.tp == 0,
                "{} chips by tensor parallelism cannot share {what} = {}: it is not a multiple",
                self.tp,
                *value
            );
            *value /= self.tp;
        }
        part.vocabulary = part.vocabulary.div_ceil(self.tp);
        part.layers = part.layers.div_ceil(self.pp);
        Ok(part)
    }

    fn carried_ns(&self, bytes: f64) -> f64 {
        bytes / self.link_gbps
    }

    /// Communication time of a stage of `layers`, for `vectors` vectors; `logits` of them have logits.
    pub fn stage_ns(&self, hidden: u32, layers: u32, vectors: u64, (logits, vocabulary): (u64, u32)) -> f64 {
        let bytes = |width: u32, vectors: u64| 2.0 * f64::from(width) * vectors as f64;
        let mut ns = 0.0;
        if self.tp > 1 {
            let tp = f64::from(self.tp);
            let reduced = 2.0 * (tp - 1.0) / tp * bytes(hidden, vectors);
            let all_reduce = self.carried_ns(reduced) + 2.0 * (tp - 1.0) * self.link_ns;
            ns += 2.0 * f64::from(layers) * all_reduce;
            ns += self.carried_ns((tp - 1.0) / tp * bytes(vocabulary, logits)) + (tp - 1.0) * self.link_ns;
        }
        if self.pp > 1 {
            // Each chip of a stage hands on its part of the vectors.
            ns += self.carried_ns(bytes(hidden, vectors) / f64::from(self.tp)) + self.link_ns;
        }
        ns
    }

    /// Deals requests to micro-batches in turn; each has at least one.
    pub fn micro_batches<T: Copy>(&self, of: &[T]) -> Vec<Vec<T>> {
        let count = (self.pp as usize).min(of.len());
        (0..count).map(|first| of.iter().copied().skip(first).step_by(count).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_config::LlmShape;

    fn llama() -> Model {
        Model::of(&LlmShape::preset("llama3-70b").unwrap())
    }

    #[test]
    fn parts_have_the_weights_of_the_whole() {
        let whole = llama();
        let parallel = Parallel { tp: 8, pp: 2, ..Parallel::default() };
        let part = parallel.part(&whole).unwrap();
        assert_eq!((part.kv_heads, part.layers), (1, 40));
        assert_eq!(16 * part.weight_bytes(), whole.weight_bytes());
        assert_eq!(8 * part.kv_bytes(5), whole.kv_bytes(5));
        let refused = |tp, pp| Parallel { tp, pp, ..parallel }.part(&whole).unwrap_err().to_string();
        assert_eq!(
            refused(16, 1),
            "16 chips by tensor parallelism cannot share heads of K and V = 8: it is not a multiple"
        );
        assert_eq!(refused(1, 81), "pp = 81 must be in 1..=80");
        assert_eq!(refused(0, 1), "tp = 0 must be in 1..=1024");
        let slow = Parallel { link_gbps: 0.0, ..parallel }.part(&whole).unwrap_err().to_string();
        assert_eq!(slow, "link bandwidth (GB/s) = 0 must be in 0.001..=1e9");
    }

    #[test]
    fn messages_take_what_their_bytes_and_hops_take() {
        let parallel = Parallel { tp: 4, pp: 1, link_gbps: 10.0, link_ns: 100.0 };
        // 3 vectors of 1000 elements: 2 x 3/4 x 6000 bytes in 900 ns, 6 hops in 600 ns, twice in 2 layers; logits: 3/4
        // x 2 x 2 x 500 bytes in 150 ns, 3 hops in 300 ns.
        assert_eq!(parallel.stage_ns(1000, 2, 3, (2, 500)), 4.0 * 1500.0 + 450.0);
        assert_eq!(Parallel::default().stage_ns(1000, 2, 3, (2, 500)), 0.0);
        let stages = Parallel { tp: 1, pp: 2, ..parallel };
        assert_eq!(stages.stage_ns(1000, 2, 3, (2, 500)), 700.0);
        assert_eq!(stages.micro_batches(&[5, 4, 3]), [vec![5, 3], vec![4]]);
        assert_eq!(stages.micro_batches(&[5]), [vec![5]]);
        assert!(stages.micro_batches::<u32>(&[]).is_empty());
    }
}
