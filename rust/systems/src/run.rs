//! Cost of a policy: steps, and the devices that work in each.

use serde::Serialize;

ndp_config::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Device {
        /// The GPU, or all GPUs.
        Gpu = "GPU",
        /// The host's processor with its memory.
        Host = "host",
        /// Between host and GPU.
        Bus = "bus",
        /// Below the host's memory.
        Ssd = "SSD",
        Dimms = "DIMMs",
        /// Launches, synchronisations and software.
        Software = "software",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Use {
    pub device: Device,
    pub ns: f64,
    /// Read from its memory, or carried.
    pub bytes: f64,
}

/// Devices that work at the same time; the slowest ends the step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    pub name: &'static str,
    pub uses: Vec<Use>,
}

impl Step {
    pub fn new(name: &'static str) -> Self {
        Self { name, uses: Vec::new() }
    }

    #[must_use]
    pub fn with(mut self, device: Device, ns: f64, bytes: f64) -> Self {
        self.uses.push(Use { device, ns, bytes });
        self
    }

    pub fn ns(&self) -> f64 {
        self.uses.iter().map(|one| one.ns).fold(0.0, f64::max)
    }

    pub fn slowest(&self) -> Option<Device> {
        self.uses.iter().max_by(|a, b| a.ns.total_cmp(&b.ns)).map(|one| one.device)
    }
}

/// Consecutive steps with their repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Steps {
    steps: Vec<(f64, Step)>,
}

impl Steps {
    /// Adds a step with `times` repetitions.
    pub fn add(&mut self, times: f64, step: Step) {
        self.steps.push((times, step));
    }

    /// Adds a step of one device with `times` repetitions.
    pub fn alone(&mut self, times: f64, name: &'static str, device: Device, ns: f64, bytes: f64) {
        self.add(times, Step::new(name).with(device, ns, bytes));
    }

    pub fn ns(&self) -> f64 {
        self.steps.iter().map(|(times, step)| times * step.ns()).sum()
    }

    pub fn ns_of(&self, name: &str) -> f64 {
        self.steps.iter().filter(|(_, step)| step.name == name).map(|(times, step)| times * step.ns()).sum()
    }

    /// Time of the steps in which a device is the slowest.
    pub fn ns_waiting_for(&self, device: Device) -> f64 {
        let waiting = self.steps.iter().filter(|(_, step)| step.slowest() == Some(device));
        waiting.map(|(times, step)| times * step.ns()).sum()
    }

    /// Time in which a device works.
    pub fn busy_ns(&self, device: Device) -> f64 {
        self.uses(device).map(|(times, one)| times * one.ns).sum()
    }

    pub fn bytes(&self, device: Device) -> f64 {
        self.uses(device).map(|(times, one)| times * one.bytes).sum()
    }

    pub fn bytes_of(&self, name: &str, device: Device) -> f64 {
        let steps = self.steps.iter().filter(|(_, step)| step.name == name);
        let uses = steps.flat_map(|(times, step)| step.uses.iter().map(move |one| (times, one)));
        uses.filter(|(_, one)| one.device == device).map(|(times, one)| times * one.bytes).sum()
    }

    fn uses(&self, device: Device) -> impl Iterator<Item = (f64, &Use)> {
        let all = self.steps.iter().flat_map(|(times, step)| step.uses.iter().map(move |one| (*times, one)));
        all.filter(move |(_, one)| one.device == device)
    }

    /// Distinct names in order.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for (_, step) in &self.steps {
            if !names.contains(&step.name) {
                names.push(step.name);
            }
        }
        names
    }
}

/// A batch of requests from the first to the last token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    pub batch: u32,
    /// Tokens that each request generates.
    pub output: u32,
    pub prefill: Steps,
    /// One token of each sequence, in the middle of the output.
    pub token: Steps,
    /// Share of the weights in GPU memory while tokens are generated.
    pub resident: f64,
}

impl Run {
    /// From the first byte of the prompt to the last token.
    pub fn ns(&self) -> f64 {
        self.prefill.ns() + f64::from(self.output) * self.token.ns()
    }

    /// Prefill included.
    pub fn tokens_per_second(&self) -> f64 {
        f64::from(self.batch * self.output) / self.ns() * 1e9
    }

    /// Without the prefill.
    pub fn decode_tokens_per_second(&self) -> f64 {
        f64::from(self.batch) / self.token.ns() * 1e9
    }

    pub fn prefill_share(&self) -> f64 {
        self.prefill.ns() / self.ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_take_as_long_as_their_slowest_device() {
        let mut token = Steps::default();
        token.add(2.0, Step::new("a").with(Device::Gpu, 10.0, 1.0).with(Device::Dimms, 30.0, 2.0));
        token.add(1.0, Step::new("b").with(Device::Gpu, 5.0, 3.0));
        assert_eq!((token.ns(), token.ns_of("a"), token.ns_waiting_for(Device::Gpu)), (65.0, 60.0, 5.0));
        assert_eq!((token.busy_ns(Device::Gpu), token.bytes(Device::Dimms)), (25.0, 4.0));
        let by_device: f64 = Device::ALL.into_iter().map(|device| token.ns_waiting_for(device)).sum();
        let by_name: f64 = token.names().into_iter().map(|name| token.ns_of(name)).sum();
        assert_eq!((by_device, by_name), (token.ns(), token.ns()));
        let mut prefill = Steps::default();
        prefill.add(1.0, Step::new("prefill").with(Device::Bus, 65.0, 0.0));
        let run = Run { batch: 2, output: 1, prefill, token, resident: 0.0 };
        assert_eq!((run.prefill_share(), run.ns()), (0.5, 130.0));
        assert_eq!(run.decode_tokens_per_second(), 2.0 * run.tokens_per_second());
    }
}
