//! What `place` says of a placement: JSON, or a few lines.

use ndp_config::LlmShape;
use ndp_placement::{
    Certificate, CertifiedTerm, Instance, MilpReport, PowerInferReport, Terms, TierCertificate,
};
use serde::Serialize;
use std::fmt;

/// The report; times are in microseconds, sizes in bytes, gaps are fractions.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Model, system and method.
    pub model: String,
    pub system: String,
    pub method: String,
    pub frequencies: String,
    pub terms: Terms,
    pub dimms: u32,
    pub group_neurons: u32,
    pub groups: usize,
    /// Equation 1 for the placement, the bound, and `objective / bound - 1`.
    pub objective_us: f64,
    pub bound_us: f64,
    pub gap: f64,
    /// The bound for whole groups, which is what a solver with one variable per group works towards.
    pub group_bound_us: f64,
    /// Frequency of the neuron that the GPU is full with in the bound; 0 if it is not full.
    pub price: f64,
    /// Time of grouping and placing together, and of its parts; without reading the trace.
    pub seconds: f64,
    pub grouping_seconds: f64,
    pub placing_seconds: f64,
    pub gpu_bytes: u64,
    pub gpu_capacity_bytes: u64,
    pub dimm_bytes: Vec<u64>,
    pub dimm_capacity_bytes: u64,
    pub kv_bytes_per_dimm: u64,
    /// Where its own problem is another one than equation 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub powerinfer: Option<PowerInferReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milp: Option<MilpReport>,
    /// With an SSD: the certificate (docs/placement.md).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<TierCertificate>,
    /// Each term of the sum in order.
    pub layers: Vec<LayerReport>,
}

/// One term of the sum.
#[derive(Debug, Serialize)]
pub struct LayerReport {
    layer: u32,
    #[serde(flatten)]
    term: CertifiedTerm,
}

/// What the instance does not know.
pub struct Origin {
    pub system: String,
    pub method: String,
    pub frequencies: String,
    pub terms: Terms,
    pub group_neurons: u32,
    pub grouping_seconds: f64,
    pub placing_seconds: f64,
}

impl Report {
    pub fn new(model: &LlmShape, instance: &Instance, certificate: Certificate, origin: Origin) -> Self {
        let machine = instance.machine();
        let first_blocks = instance.terms().iter().map(|blocks| instance.shape().blocks()[blocks.start]);
        let layers = first_blocks.zip(certificate.terms);
        Self {
            model: model.name().to_owned(),
            system: origin.system,
            method: origin.method,
            frequencies: origin.frequencies,
            terms: origin.terms,
            dimms: machine.dimms,
            group_neurons: origin.group_neurons,
            groups: instance.groups().len(),
            objective_us: certificate.objective_us,
            bound_us: certificate.bound_us,
            gap: certificate.gap,
            group_bound_us: certificate.group_bound_us,
            price: certificate.price,
            seconds: origin.grouping_seconds + origin.placing_seconds,
            grouping_seconds: origin.grouping_seconds,
            placing_seconds: origin.placing_seconds,
            gpu_bytes: certificate.gpu_bytes,
            gpu_capacity_bytes: machine.gpu_bytes,
            dimm_bytes: certificate.dimm_bytes,
            dimm_capacity_bytes: machine.dimm_bytes,
            kv_bytes_per_dimm: machine.kv_bytes,
            powerinfer: None,
            milp: None,
            tiers: None,
            layers: layers.map(|(block, term)| LayerReport { layer: block.layer, term }).collect(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        writeln!(
            f,
            "{} on {} with {} DIMMs, {} from {}",
            self.model, self.system, self.dimms, self.method, self.frequencies
        )?;
        writeln!(
            f,
            "objective  {:.2} us, bound {:.2} us, gap {:.4} %",
            self.objective_us,
            self.bound_us,
            self.gap * 100.0
        )?;
        writeln!(
            f,
            "time       {:.1} ms grouping + {:.1} ms placing ({} groups)",
            self.grouping_seconds * 1e3,
            self.placing_seconds * 1e3,
            self.groups
        )?;
        writeln!(f, "GPU        {:.2} of {:.2} GB", gb(self.gpu_bytes), gb(self.gpu_capacity_bytes))?;
        let (least, most) = (self.dimm_bytes.iter().min(), self.dimm_bytes.iter().max());
        writeln!(
            f,
            "DIMMs      {:.2} to {:.2} of {:.2} GB each, and {:.2} GB for keys and values",
            gb(*least.unwrap_or(&0)),
            gb(*most.unwrap_or(&0)),
            gb(self.dimm_capacity_bytes),
            gb(self.kv_bytes_per_dimm)
        )?;
        if let Some(own) = &self.tiers {
            let us: f64 = own.terms.iter().map(|term| term.ssd_us).sum();
            writeln!(
                f,
                "SSD        {:.2} GB of neurons that nothing else has, {us:.2} us to read what is needed of them",
                gb(own.ssd_bytes)
            )?;
        }
        if let Some(own) = &self.powerinfer {
            let least = own.least_neurons.iter().flatten();
            writeln!(
                f,
                "PowerInfer impact {:.1} of at most {:.1}, gap {:.4} %; {} of {} blocks allowed, with at least {} to {} neurons",
                own.impact,
                own.impact_bound,
                own.impact_gap * 100.0,
                least.clone().count(),
                own.least_neurons.len(),
                least.clone().min().unwrap_or(&0),
                least.max().unwrap_or(&0)
            )?;
            writeln!(
                f,
                "           GPU {:.2} of {:.2} GB and {:.2} GB of predictors, CPU {:.2} of {:.2} GB and {:.2} GB of predictors",
                gb(own.gpu_bytes),
                gb(own.gpu_capacity_bytes),
                gb(own.predictor_gpu_bytes),
                gb(own.cpu_bytes),
                gb(own.cpu_capacity_bytes),
                gb(own.predictor_cpu_bytes)
            )?;
        }
        if let Some(own) = &self.milp {
            let end = if own.timed_out { "stopped by the time limit" } else { "finished" };
            writeln!(
                f,
                "solver     {:.2} us with even DIMMs, {} variables, {end}",
                own.reduced_us, own.variables
            )?;
        }
        Ok(())
    }
}
