//! Three tiers: copies on the GPU, neurons with a place in a DIMM, and those that only the SSD has until needed.
//!
//! The SSD has all neurons of the MLP, the DIMMs the originals of attention and of resident MLP neurons. DIMMs compute
//! all neurons that are not on the GPU, perhaps after an SSD read: a term takes `max(T_GPU, T_DIMM) + T_SSD`.
//!
//! **Bound.** With prices `l, r >= 0` for a byte of GPU and DIMMs, and a weight `a` in 0..=1 of each term's GPU side,
//! no placement takes less than
//!
//! `sum over terms of (2 a T_sync + (1 - a) W / (D BW_dimm)) + sum over neurons of M min(l + f s, r, f / BW_ssd) - l S_GPU - r S_DIMMs`
//!
//! with `s = a / BW_GPU - (1 - a) / (D BW_dimm)`, and `min(l + f s, 0)` for neurons of attention, whose originals take
//! room anyway: `max(x, y) >= a x + (1 - a) y`, the slowest DIMM takes at least the mean, and prices do not lower the
//! time of a placement that keeps the capacities. Prices and weights are the certificate: with the frequencies and this
//! formula it can be checked. They are found by bisection, as the bound is concave in them.
//!
//! DIMMs are divided alike: one must have room for as many slots of each block as the fullest one needs. That is no
//! less than the mean, so the bound holds for these placements.
//!
//! **Placement.** Groups go to the GPU by the bound's gain per byte, while there is room and, where it gains nothing,
//! while the GPU is not the slower side. The coldest other MLP neurons are on the SSD; all load the DIMMs evenly. If
//! there are few placements, the solver tries them all.

use crate::placement::balance::{Stored, cold};
use crate::placement::bound::least;
use crate::placement::structured::spread;
use crate::placement::{Instance, ONE, Placement, TermTime, gpu};
use ndp_config::BlockKind;
use ndp_files::{Result, refusal};
use serde::Serialize;

const MOST_TRIED: u64 = 1 << 16;

/// Halvings for prices, and for the weights of terms.
const HALVINGS: [usize; 2] = [40, 26];

/// Cost of a placement on three tiers, and its lower bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierCertificate {
    pub objective_us: f64,
    /// No placement takes less.
    pub bound_us: f64,
    /// `objective / bound - 1`.
    pub gap: f64,
    /// Whether all placements were tried, so that none takes less.
    pub exhaustive: bool,
    /// Price of a byte on the GPU, in microseconds.
    pub gpu_price: f64,
    /// Price of a byte on the DIMMs, in microseconds.
    pub dimm_price: f64,
    /// Weight of the GPU's side, by term.
    pub weights: Vec<f64>,
    pub gpu_bytes: u64,
    /// By DIMM.
    pub dimm_bytes: Vec<u64>,
    /// Neurons that neither GPU nor DIMM has.
    pub ssd_bytes: u64,
    pub terms: Vec<TermTime>,
}

/// Tier of a neuron in the bound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    Gpu,
    Dimm,
    Ssd,
}

/// Time per byte and unit of frequency by device, and capacities.
struct Rates {
    gpu: f64,
    dimms: f64,
    ssd: f64,
    sync_us: f64,
    gpu_bytes: f64,
    /// The DIMMs without attention.
    dimm_bytes: f64,
}

struct Point {
    us: f64,
    prices: [f64; 2],
    weights: Vec<f64>,
    /// Bytes used of GPU and DIMMs.
    used: [f64; 2],
}

#[derive(Clone, Copy, Default)]
struct Sums {
    us: f64,
    gpu_bytes: f64,
    gpu_work: f64,
    dimm_bytes: f64,
}

ndp_config::sums!(Sums: us, gpu_bytes, gpu_work, dimm_bytes);

/// Cost of a neuron's byte by tier, `constant + slope x frequency`. Attention has the DIMM twice, in place of the SSD.
type Costs = [(Tier, f64, f64); 3];

/// Share of the first of two values in a mix that gives `wanted`, 0 to 1.
fn share(wanted: f64, [first, second]: [f64; 2]) -> f64 {
    if first == second { 1.0 } else { ((wanted - second) / (first - second)).clamp(0.0, 1.0) }
}

fn mix(part: f64, [first, second]: [f64; 2]) -> f64 {
    part * first + (1.0 - part) * second
}

fn cheapest(costs: &[(Tier, f64, f64)], frequency: f64) -> (Tier, f64, f64) {
    let cost = |&(_, constant, slope): &(Tier, f64, f64)| constant + slope * frequency;
    // Among equals the last.
    costs.iter().copied().rev().min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or((Tier::Dimm, 0.0, 0.0))
}

/// Order of neurons with equal gain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Hottest,
    /// First those whose copies make room in the DIMMs.
    HottestMlp,
    ColdestMlp,
}

struct Dual<'a> {
    instance: &'a Instance,
    rates: Rates,
    kinds: Vec<BlockKind>,
    /// Sum of the frequencies before each position of a block.
    before: Vec<Vec<u64>>,
}

impl<'a> Dual<'a> {
    fn new(instance: &'a Instance, ssd_gbps: f64) -> Self {
        let machine = instance.machine();
        let unit = |gbps: f64| 1.0 / (f64::from(ONE) * 1e3 * gbps);
        let kinds: Vec<BlockKind> = instance.shape().blocks().iter().map(|block| block.kind).collect();
        let of_attention =
            instance.blocks().iter().zip(&kinds).filter(|(_, kind)| **kind == BlockKind::Attention);
        let attention: u64 =
            of_attention.map(|(block, _)| block.order.len() as u64 * block.neuron_bytes).sum();
        let all = machine.dimm_bytes.saturating_mul(machine.dimms.into());
        let before = instance.blocks().iter().map(|block| {
            let sums = block.frequencies.iter().scan(0, |sum, &f| {
                *sum += u64::from(f);
                Some(*sum)
            });
            std::iter::once(0).chain(sums).collect()
        });
        let rates = Rates {
            gpu: unit(machine.gpu_gbps),
            dimms: unit(machine.dimm_gbps) / f64::from(machine.dimms),
            ssd: unit(ssd_gbps),
            sync_us: machine.sync_us,
            gpu_bytes: machine.gpu_bytes as f64,
            dimm_bytes: all.saturating_sub(attention) as f64,
        };
        Self { instance, rates, kinds, before: before.collect() }
    }

    fn costs(&self, kind: BlockKind, [gpu, dimms]: [f64; 2], weight: f64) -> Costs {
        let slope = weight * self.rates.gpu - (1.0 - weight) * self.rates.dimms;
        let (on_dimm, on_ssd) = match kind {
            BlockKind::Attention => ((Tier::Dimm, 0.0, 0.0), (Tier::Dimm, 0.0, 0.0)),
            BlockKind::Mlp => ((Tier::Dimm, dimms, 0.0), (Tier::Ssd, 0.0, self.rates.ssd)),
        };
        [(Tier::Gpu, gpu, slope), on_dimm, on_ssd]
    }

    /// A block's part of the bound.
    fn block(&self, block: usize, costs: &Costs) -> Sums {
        let of = &self.instance.blocks()[block];
        // One tier is the cheapest between two crossings.
        let mut borders = vec![0.0, f64::from(ONE) + 1.0];
        for (index, (_, constant, slope)) in costs.iter().enumerate() {
            for (_, other, rises) in &costs[..index] {
                let at = (other - constant) / (slope - rises);
                if at > 0.0 && at < f64::from(ONE) + 1.0 {
                    borders.push(at);
                }
            }
        }
        borders.sort_by(f64::total_cmp);
        let bytes = of.neuron_bytes as f64;
        let mut sums = Sums::default();
        for pair in borders.windows(2) {
            let behind = |border: f64| of.frequencies.partition_point(|&f| f64::from(f) >= border);
            let (first, last) = (behind(pair[1]), behind(pair[0]));
            if first == last {
                continue;
            }
            let (tier, constant, slope) = cheapest(costs, f64::midpoint(pair[0], pair[1]));
            let count = (last - first) as f64 * bytes;
            let work = (self.before[block][last] - self.before[block][first]) as f64 * bytes;
            sums.us += constant * count + slope * work;
            match tier {
                Tier::Gpu => (sums.gpu_bytes, sums.gpu_work) = (sums.gpu_bytes + count, sums.gpu_work + work),
                Tier::Dimm if self.kinds[block] == BlockKind::Mlp => sums.dimm_bytes += count,
                _ => {}
            }
        }
        sums
    }

    fn term(&self, term: usize, prices: [f64; 2], weight: f64) -> Sums {
        let mut sums = Sums::default();
        for block in self.instance.terms()[term].clone() {
            sums += self.block(block, &self.costs(self.kinds[block], prices, weight));
        }
        let work = self.instance.term_work(term) as f64;
        sums.us += 2.0 * weight * self.rates.sync_us + (1.0 - weight) * self.rates.dimms * work;
        sums
    }

    /// Optimises each term's weight at these prices.
    fn at(&self, prices: [f64; 2]) -> Point {
        let Rates { gpu, dimms, sync_us, gpu_bytes, dimm_bytes, .. } = self.rates;
        let mut point = Point {
            us: -prices[0] * gpu_bytes - prices[1] * dimm_bytes,
            prices,
            weights: Vec::new(),
            used: [0.0; 2],
        };
        for term in 0..self.instance.terms().len() {
            let work = self.instance.term_work(term) as f64;
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..HALVINGS[1] {
                let weight = f64::midpoint(low, high);
                let on_gpu = self.term(term, prices, weight).gpu_work;
                // The bound rises with the weight while the GPU is the slower side.
                let rises = 2.0 * sync_us + gpu * on_gpu > dimms * (work - on_gpu);
                if rises { low = weight } else { high = weight }
            }
            let [below, above] = [low, high].map(|weight| self.term(term, prices, weight));
            let (weight, us) = if below.us >= above.us { (low, below.us) } else { (high, above.us) };
            // If many neurons change sides at this weight, a part of them makes both sides equal.
            let equal = (dimms * work - 2.0 * sync_us) / (gpu + dimms);
            let part = share(equal, [below.gpu_work, above.gpu_work]);
            point.us += us;
            point.used[0] += mix(part, [below.gpu_bytes, above.gpu_bytes]);
            point.used[1] += mix(part, [below.dimm_bytes, above.dimm_bytes]);
            point.weights.push(weight);
        }
        point
    }

    fn best(&self) -> Point {
        // Beyond these the GPU is empty, and the DIMMs have no MLP neurons.
        let Rates { dimms, ssd, gpu_bytes, dimm_bytes, .. } = self.rates;
        let most = [2.0 * (dimms + ssd), 2.0 * ssd].map(|rate| rate * f64::from(ONE));
        let at = |dimms: f64| self.search((0, most[0], gpu_bytes), |gpu| self.at([gpu, dimms]));
        self.search((1, most[1], dimm_bytes), at)
    }

    /// Best point for a price in 0..=`most`: the first that keeps the capacity.
    fn search(&self, (device, most, capacity): (usize, f64, f64), at: impl Fn(f64) -> Point) -> Point {
        let mut below = at(0.0);
        if below.used[device] <= capacity {
            return below;
        }
        let (mut low, mut high, mut above) = (0.0, most, at(most));
        for _ in 0..HALVINGS[0] {
            let middle = f64::midpoint(low, high);
            let point = at(middle);
            if point.used[device] > capacity {
                (low, below) = (middle, point)
            } else {
                (high, above) = (middle, point)
            }
        }
        // If many neurons go at this price, a part of them fits.
        let part = share(capacity, [below.used[device], above.used[device]]);
        let used = [0, 1].map(|device| mix(part, [below.used[device], above.used[device]]));
        let best = if below.us >= above.us { below } else { above };
        Point { used, ..best }
    }

    /// Neurons of each group on the GPU, hottest first: by gain of the bound per byte, among equals by `order`.
    fn select(&self, point: &Point, order: Order) -> Vec<u32> {
        let instance = self.instance;
        let groups = instance.groups();
        let Rates { gpu, dimms, ssd, .. } = self.rates;
        // Smaller differences are rounding.
        let unit = 1e-7 * ((gpu + dimms + ssd) * f64::from(ONE) + point.prices[0] + point.prices[1]);
        let gain = |index: usize| {
            let group = &groups[index];
            let weight = point.weights[instance.term_of(index)];
            let [gpu, others @ ..] = self.costs(self.kinds[group.block as usize], point.prices, weight);
            let cost = |(_, constant, slope): (Tier, f64, f64)| constant + slope * group.mean();
            ((cost(cheapest(&others, group.mean())) - cost(gpu)) / unit).round() as i64
        };
        let is_attention = |index: usize| self.kinds[groups[index].block as usize] == BlockKind::Attention;
        let mut sorted: Vec<(i64, usize)> = instance.hottest().map(|index| (gain(index), index)).collect();
        if order == Order::ColdestMlp {
            sorted.reverse();
        }
        let last = |index| order != Order::Hottest && is_attention(index);
        sorted.sort_by_key(|(gain, index)| (std::cmp::Reverse(*gain), last(*index)));
        // Where the GPU is always the slower side, the bound sets the amount.
        let room = |term: usize| match point.weights[term] > 1.0 - 1e-6 {
            true => u64::MAX,
            false => instance.saturation(term) as u64,
        };
        let mut room: Vec<u64> = (0..instance.terms().len()).map(room).collect();
        let mut free = instance.machine().gpu_bytes;
        let mut taken = vec![0; groups.len()];
        for (gain, index) in sorted {
            let (group, term) = (&groups[index], instance.term_of(index));
            let most = if gain < 0 && room[term] == u64::MAX { 0 } else { room[term] };
            let positions = group.start..group.start + group.len;
            let (len, work) = instance.leading(group.block as usize, positions, most, free);
            taken[index] = len;
            room[term] -= work;
            free -= u64::from(len) * instance.blocks()[group.block as usize].neuron_bytes;
        }
        taken
    }

    /// By block: position from which neurons off the GPU are on the SSD.
    fn resident(&self, taken: &[u32]) -> Vec<u32> {
        let instance = self.instance;
        let machine = instance.machine();
        let mlps = || (0..instance.blocks().len()).filter(|&block| self.kinds[block] == BlockKind::Mlp);
        let len: Vec<u32> = instance.blocks().iter().map(|block| block.order.len() as u32).collect();
        let mut until = len.clone();
        let all = machine.dimm_bytes.saturating_mul(machine.dimms.into());
        let room = all.saturating_sub(instance.attention_bytes());
        // Slots of all DIMMs for neurons before a position.
        let bytes = |block: usize, until: u32| {
            instance.slot_bytes(block, cold(instance, taken, block, until)) * u64::from(machine.dimms)
        };
        let above = |block: usize, frequency: u32| {
            instance.blocks()[block].frequencies.partition_point(|&f| f > frequency) as u32
        };
        let all_above =
            |frequency: u32| mlps().map(|block| bytes(block, above(block, frequency))).sum::<u64>();
        // Least frequency above which all have room; at 0 this is all that are ever active.
        let low = least(|frequency| all_above(frequency) <= room);
        let mut free = room.saturating_sub(all_above(low));
        for block in mlps() {
            let first = above(block, low);
            let last = if low == 0 { len[block] } else { above(block, low - 1) };
            // As many neurons of exactly this frequency as still fit.
            let before = bytes(block, first);
            let fits = |until: u32| bytes(block, until) - before <= free;
            let (mut some, mut most) = (first, last);
            while some < most {
                let middle = (some + most).div_ceil(2);
                if fits(middle) { some = middle } else { most = middle - 1 }
            }
            free -= bytes(block, some) - before;
            // Fill slots that exist anyway.
            while some < len[block] && bytes(block, some + 1) == bytes(block, some) {
                some += 1;
            }
            until[block] = some;
        }
        until
    }
}

/// Places neurons on three tiers.
pub fn place_tiers(instance: &Instance) -> Result<(Placement, TierCertificate)> {
    let missing = || refusal!("SSD bandwidth = 0 must be that of an SSD");
    let dual = Dual::new(instance, instance.machine().ssd_gbps.ok_or_else(missing)?);
    let point = dual.best();
    let place = |taken: Vec<u32>| {
        let placement = spread(instance, &taken, &Stored::Until(&dual.resident(&taken)))?;
        let evaluation = placement.evaluate(instance)?;
        Ok::<_, ndp_files::Error>((placement, evaluation))
    };
    let tried = try_all(instance);
    let exhaustive = tried.is_some();
    // Includes the hottest first, as on two tiers.
    let orders =
        [Order::Hottest, Order::HottestMlp, Order::ColdestMlp].map(|order| dual.select(&point, order));
    let found =
        orders.into_iter().chain([gpu::select(instance)]).map(place).collect::<Result<Vec<_>, _>>()?;
    let found = found.into_iter().chain(tried);
    let best =
        found.reduce(|best, other| if other.1.objective_us < best.1.objective_us { other } else { best });
    let Some((placement, evaluation)) = best else { return Err(missing()) };
    let bound_us = point.us.max(0.0);
    let ssd_bytes = instance.blocks().iter().enumerate().map(|(block, of)| {
        let bits = placement.gpu_bits(block).iter().zip(placement.ssd_bits(block));
        bits.map(|(gpu, ssd)| u64::from((ssd & !gpu).count_ones())).sum::<u64>() * of.neuron_bytes
    });
    let certificate = TierCertificate {
        objective_us: evaluation.objective_us,
        bound_us,
        gap: if bound_us > 0.0 { evaluation.objective_us / bound_us - 1.0 } else { 0.0 },
        exhaustive,
        gpu_price: point.prices[0],
        dimm_price: point.prices[1],
        weights: point.weights,
        gpu_bytes: evaluation.gpu_bytes,
        dimm_bytes: evaluation.dimm_bytes,
        ssd_bytes: ssd_bytes.sum(),
        terms: evaluation.terms,
    };
    Ok((placement, certificate))
}

/// The best of all placements, if they are few.
fn try_all(instance: &Instance) -> Option<(Placement, crate::placement::Evaluation)> {
    let dimms = u64::from(instance.machine().dimms);
    let mut neurons = Vec::new();
    let mut count = 1u64;
    for (block, of) in instance.shape().blocks().iter().enumerate() {
        for neuron in 0..of.neurons as usize {
            // Attention: a DIMM; MLP: a DIMM or the SSD. Both with or without a copy.
            let places = dimms * if of.kind == BlockKind::Attention { 2 } else { 4 };
            count = count.checked_mul(places).filter(|count| *count <= MOST_TRIED)?;
            neurons.push((block, neuron, places));
        }
    }
    let mut placement = Placement::new(instance.shape());
    let mut best: Option<(Placement, crate::placement::Evaluation)> = None;
    for mut number in 0..count {
        for &(block, neuron, places) in &neurons {
            let place = number % places;
            placement.set_gpu(block, neuron, place % 2 == 1);
            placement.set_ssd(block, neuron, place / 2 / dimms == 1);
            placement.dimms_mut(block)[neuron] = (place / 2 % dimms) as u8;
            number /= places;
        }
        if let Ok(found) = placement.evaluate(instance)
            && best.as_ref().is_none_or(|(_, best)| found.objective_us < best.objective_us)
        {
            best = Some((placement.clone(), found));
        }
    }
    best
}
