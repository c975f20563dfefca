//! Causes of a token's time: each nanosecond of each device has one; the critical path shows why the token waited.
//!
//! An [`Event`] begins when its device is free and its inputs have arrived; its result arrives some time after its end.
//! So the critical path is found backwards: from the end of the last token to an event whose result arrived then, and
//! on to the cause of that event's wait. An idle device waits for the device on the critical path.

use super::event_log::Event;
use super::figures::SystemFigures;
use super::resource::Resource;
use crate::gemv::ProgramFigures;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

ndp_config::named! {
    /// Cause that a nanosecond counts for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Cause {
        /// A DIMM: products with their weights, rounding, element-wise operations. The GPU: all except synchronisation.
        Compute = "compute",
        /// A DIMM: products that wait for weights; loads and stores; the host's writes of neurons into slots.
        Dram = "DRAM",
        /// A DIMM: instructions on their way, lists, zeroing; products that begin, end, or wait for a row.
        SetUp = "set-up",
        /// A DIMM: messages over links, and nothing else.
        Messages = "messages",
        /// Bus, channel, link or SSD: data.
        Transfer = "transfer",
        /// A channel: instructions and status.
        Control = "control",
        /// The GPU: synchronisation.
        Synchronisation = "synchronisation",
        /// The GPU and the host: neurons are predicted. A core's program counts as the product that it is a part of.
        Prediction = "prediction",
        /// The critical path: data wait until bus, channel or link are free, or a block until the host is.
        Queue = "queue",
        /// The critical path: the latency of a channel.
        Latency = "latency",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares([u64; Cause::ALL.len()]);

impl Shares {
    pub fn of(cause: Cause, ns: u64) -> Self {
        let mut shares = Self::default();
        shares.0[cause as usize] = ns;
        shares
    }

    /// Shares in proportion to the cycles of a program that takes `ns`.
    pub(super) fn of_program(program: &ProgramFigures, ns: u64) -> Self {
        let ProgramFigures { cycles, parts, counters, .. } = program;
        // Cycles of the ranks while a product runs, added up.
        let [working, weights, row, room, filling] = [
            counters.working,
            counters.waiting_for_weights,
            counters.waiting_for_row,
            counters.waiting_for_room,
            counters.filling,
        ]
        .map(u64::from);
        let ranks = (working + weights + row + room + filling).max(1);
        let (dram, begins) = (parts.gemv * weights / ranks, parts.gemv * (row + room + filling) / ranks);
        let compute = parts.gemv - dram - begins + parts.activation + parts.round;
        let dram = dram + parts.load + parts.store;
        let mut shares = Self::default();
        for (cause, cycles) in [
            (Cause::Compute, compute),
            (Cause::Dram, dram),
            (Cause::Messages, parts.link),
            (Cause::SetUp, cycles.saturating_sub(compute + dram + parts.link)),
        ] {
            shares.0[cause as usize] = cycles;
        }
        shares.scaled(ns)
    }

    fn scaled(&self, ns: u64) -> Self {
        let (total, mut sum) = (u128::from(self.total().max(1)), 0);
        let until = |sum: u64| (u128::from(sum) * u128::from(ns) / total) as u64;
        Self(self.0.map(|share| {
            let before = until(sum);
            sum += share;
            until(sum) - before
        }))
    }

    pub fn get(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Causes with any time.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().zip(self.0).filter(|(_, ns)| *ns > 0)
    }
}

impl std::ops::AddAssign for Shares {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, ns)| *sum += ns);
    }
}

impl Serialize for Shares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// A piece of the critical path; pieces follow each other without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index of the event that worked, queued, or whose result was in flight.
    pub event: usize,
    /// Begin in the time of the system.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub shares: Shares,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceTime {
    #[serde(serialize_with = "by_name")]
    pub place: Resource,
    pub busy_ns: Shares,
    /// Waiting time, by the device on the critical path.
    #[serde(serialize_with = "with_names")]
    pub waits_for_ns: BTreeMap<Resource, u64>,
}

/// Time of all generated tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Breakdown {
    pub tokens: u64,
    /// Sum over the tokens; the critical path and each device add up to it.
    pub ns: u64,
    /// Part of the critical path without an event.
    pub unexplained_ns: u64,
    #[serde(serialize_with = "with_names")]
    pub critical_path_ns: BTreeMap<Resource, Shares>,
    pub devices: Vec<DeviceTime>,
    /// The critical path in the order of time.
    #[serde(skip)]
    pub path: Vec<Segment>,
}

fn by_name<S: Serializer>(place: &Resource, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(place)
}

fn with_names<S: Serializer, T: Serialize>(
    times: &BTreeMap<Resource, T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(times.iter().map(|(place, time)| (place.to_string(), time)))
}

impl Breakdown {
    pub fn new(figures: &SystemFigures, events: &[Event]) -> Self {
        let (tokens, _, ns) = figures.generated();
        let begin = figures.prompt_ns;
        Self::of_tokens(figures.dimms.len() as u32, (tokens, begin, begin + ns), events)
    }

    /// Breakdown of `tokens` generated between `begin` and `end`.
    pub(super) fn of_tokens(dimms: u32, (tokens, begin, end): (u64, u64, u64), events: &[Event]) -> Self {
        let ns = end - begin;
        let path = critical_path(events, (begin, end));
        let mut critical_path_ns: BTreeMap<Resource, Shares> = BTreeMap::new();
        for segment in &path {
            *critical_path_ns.entry(events[segment.event].place).or_default() += segment.shares;
        }
        let explained: u64 = critical_path_ns.values().map(Shares::total).sum();
        let mut places: BTreeMap<Resource, Vec<&Event>> = BTreeMap::new();
        for dimm in 0..dimms {
            places.insert(Resource::Dimm(dimm), Vec::new());
        }
        for event in events.iter().filter(|event| event.end_ns > begin) {
            places.entry(event.place).or_default().push(event);
        }
        let devices =
            places.into_iter().map(|(place, own)| device((place, own), events, &path, (begin, begin + ns)));
        Self {
            tokens,
            ns,
            unexplained_ns: ns - explained,
            critical_path_ns,
            devices: devices.collect(),
            path,
        }
    }

    /// Adds later tokens, without their path.
    pub(super) fn add(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.ns += other.ns;
        self.unexplained_ns += other.unexplained_ns;
        for (place, shares) in &other.critical_path_ns {
            *self.critical_path_ns.entry(*place).or_default() += *shares;
        }
        for device in &other.devices {
            let Some(own) = self.devices.iter_mut().find(|own| own.place == device.place) else {
                self.devices.push(device.clone());
                continue;
            };
            own.busy_ns += device.busy_ns;
            for (place, ns) in &device.waits_for_ns {
                *own.waits_for_ns.entry(*place).or_default() += ns;
            }
        }
    }

    /// Critical path by kinds of devices, in the order of [`Resource::GROUPS`].
    pub fn critical_groups(&self) -> Vec<(&'static str, Shares)> {
        let group = |group| {
            let own = self.critical_path_ns.iter().filter(|(place, _)| place.group() == group);
            own.fold(Shares::default(), |mut sum, (_, shares)| {
                sum += *shares;
                sum
            })
        };
        Resource::GROUPS.map(|name| (name, group(name))).to_vec()
    }
}

impl DeviceTime {
    /// Waiting time by kinds of devices, in the order of [`Resource::GROUPS`].
    pub fn waits_for_groups(&self) -> [u64; Resource::GROUPS.len()] {
        Resource::GROUPS.map(|group| {
            self.waits_for_ns.iter().filter(|(place, _)| place.group() == group).map(|(_, ns)| ns).sum()
        })
    }
}

/// Built from the end to the begin; returned in the order of time.
fn critical_path(events: &[Event], (begin, end): (u64, u64)) -> Vec<Segment> {
    // Among results that arrive together, the one that waited least says most about the events before.
    let mut arrivals: BTreeMap<u64, usize> = BTreeMap::new();
    // The host comes last, as nobody may wait for its predictions.
    let rank = |event: &Event| {
        (event.asked_ns, event.place != Resource::Host, matches!(event.place, Resource::Dimm(_)))
    };
    for (number, event) in events.iter().enumerate() {
        if event.asked_ns >= begin && event.asked_ns < event.seen_ns {
            let best = arrivals.entry(event.seen_ns).or_insert(number);
            if rank(event) > rank(&events[*best]) {
                *best = number;
            }
        }
    }
    let mut path = Vec::new();
    let mut now = end;
    while let Some((&arrived, &number)) = arrivals.range(..=now).next_back() {
        let event = &events[number];
        for (begin_ns, end_ns, shares) in [
            (event.end_ns, arrived, Shares::of(Cause::Latency, arrived - event.end_ns)),
            (event.begin_ns, event.end_ns, event.shares),
            (event.asked_ns, event.begin_ns, Shares::of(Cause::Queue, event.begin_ns - event.asked_ns)),
        ] {
            if begin_ns < end_ns {
                path.push(Segment { event: number, begin_ns, end_ns, shares });
            }
        }
        now = event.asked_ns;
    }
    path.reverse();
    path
}

fn device(
    (place, mut own): (Resource, Vec<&Event>),
    events: &[Event],
    path: &[Segment],
    (begin, end): (u64, u64),
) -> DeviceTime {
    own.sort_by_key(|event| event.begin_ns);
    let mut time = DeviceTime { place, busy_ns: Shares::default(), waits_for_ns: BTreeMap::new() };
    let (mut now, mut rest) = (begin, path);
    let mut wait = |now: u64, until: u64| {
        while let Some((segment, later)) = rest.split_first() {
            let (from, to) = (segment.begin_ns.max(now), segment.end_ns.min(until));
            if from < to {
                *time.waits_for_ns.entry(events[segment.event].place).or_default() += to - from;
            }
            if segment.end_ns > until {
                break;
            }
            rest = later;
        }
    };
    for event in own {
        let (from, to) = (event.begin_ns.max(now), event.end_ns.min(end));
        if from < to {
            wait(now, from);
            time.busy_ns += event.shares.scaled(to - from);
            now = to;
        }
    }
    wait(now, end);
    time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{DimmFigures, Operation, TokenFigures};

    fn event(place: Resource, [asked_ns, begin_ns, end_ns, seen_ns]: [u64; 4], cause: Cause) -> Event {
        Event {
            position: 0,
            layer: None,
            operation: Operation::Fc1,
            what: "x",
            place,
            asked_ns,
            begin_ns,
            end_ns,
            seen_ns,
            shares: Shares::of(cause, end_ns - begin_ns),
            bytes: 0,
            access: None,
            neurons: Vec::new(),
            program: None,
        }
    }

    fn figures(prompt_ns: u64, ns: u64) -> SystemFigures {
        let tokens = vec![TokenFigures { ns, ..TokenFigures::default() }];
        SystemFigures {
            dimms: vec![DimmFigures::default(); 2],
            prompt_ns,
            tokens,
            ..SystemFigures::default()
        }
    }

    #[test]
    fn every_nanosecond_of_every_device_has_a_cause() {
        // The prompt takes 10 ns. Instructions wait 5 ns for the channel, two DIMMs work, the results go to the GPU.
        let channel = Resource::Channel(0);
        let events = [
            event(Resource::Gpu, [0, 0, 10, 10], Cause::Compute),
            event(channel, [10, 15, 18, 22], Cause::Control),
            event(Resource::Dimm(0), [22, 22, 40, 40], Cause::Compute),
            event(Resource::Dimm(1), [22, 22, 30, 30], Cause::Dram),
            event(channel, [30, 30, 32, 38], Cause::Transfer),
            event(channel, [40, 40, 42, 48], Cause::Transfer),
            event(Resource::Gpu, [48, 48, 60, 60], Cause::Compute),
        ];
        let found = Breakdown::new(&figures(10, 50), &events);
        assert_eq!((found.tokens, found.ns, found.unexplained_ns), (1, 50, 0));
        let numbers: Vec<usize> = found.path.iter().map(|segment| segment.event).collect();
        assert_eq!(numbers, [1, 1, 1, 2, 5, 5, 6]);
        assert!(found.path.windows(2).all(|pair| pair[0].end_ns == pair[1].begin_ns));
        let of_channel = found.critical_path_ns[&channel];
        let causes = [Cause::Queue, Cause::Control, Cause::Transfer, Cause::Latency];
        assert_eq!(causes.map(|cause| of_channel.get(cause)), [5, 3, 2, 10]);
        for DeviceTime { place, busy_ns, waits_for_ns } in &found.devices {
            assert_eq!(busy_ns.total() + waits_for_ns.values().sum::<u64>(), 50, "{place}");
        }
        let of = |place| found.devices.iter().find(|device| device.place == place).unwrap();
        assert_eq!(of(Resource::Dimm(1)).busy_ns.get(Cause::Dram), 8);
        assert_eq!(
            of(Resource::Dimm(1)).waits_for_ns,
            [(Resource::Gpu, 12), (channel, 20), (Resource::Dimm(0), 10)].into()
        );
        assert_eq!(of(channel).busy_ns.total(), 7);
    }

    #[test]
    fn what_no_event_explains_is_said() {
        let events = [event(Resource::Gpu, [3, 3, 8, 8], Cause::Compute)];
        let found = Breakdown::new(&figures(0, 10), &events);
        assert_eq!((found.ns, found.unexplained_ns), (10, 5));
    }

    #[test]
    fn shares_keep_their_sum() {
        let mut shares = Shares::of(Cause::Compute, 7);
        shares += Shares::of(Cause::Dram, 5);
        shares += Shares::of(Cause::SetUp, 1);
        for ns in [0, 1, 12, 13, 1_000_000_007] {
            assert_eq!(shares.scaled(ns).total(), ns);
        }
        assert_eq!(shares.scaled(26).get(Cause::Dram), 10);
        assert_eq!(Shares::default().scaled(0).total(), 0);
    }
}
