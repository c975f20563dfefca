//! The monitor at its ports: does the host read the true counts and status (docs/ndp-core.md, "Counters" and
//! "Monitor")?
//!
//! Products and selections of any length, with random counts of everything else beside them. Registers are read at any
//! time and compared with this bench's model.

use common::Outcome;
use common::rtl::{design, design_config};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Model, OpenOptions};

/// Neurons whose activations are kept, a byte for each.
const NEURONS: usize = 4096;
const CAUSES: usize = 4;
/// Inputs that are counted, in the order of words 4 to 10, and word 14's.
const PARTS: [&str; 8] = [
    "gemv_busy",
    "axpy",
    "round_busy",
    "load_busy",
    "store_busy",
    "list_busy",
    "zero_busy",
    "activation_busy",
];
/// Further words of register 1.
const FILLING: usize = 11;
const OUTSIDE: usize = 12;
const CYCLES: usize = 13;
const ACTIVATION: usize = 14;

type Words = [u32; 16];

/// Events of a cycle besides the counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Nothing,
    Start,
    Result { positive: bool },
    Mask(u32),
}

struct Expected {
    counters: Words,
    /// Causes and filling, which are counted a cycle later than the others.
    late: [u32; CAUSES + 1],
    bytes: [u8; NEURONS],
    batch: u64,
    vector: u64,
    active: u8,
    row: usize,
    place: usize,
}

impl Expected {
    /// Applies an event; returns which bytes are written.
    fn take(&mut self, event: Event) -> Option<usize> {
        match event {
            Event::Nothing => None,
            Event::Start => {
                (self.vector, self.active, self.row, self.place) = (0, 0, 0, 0);
                None
            }
            Event::Result { positive } => {
                self.active += u8::from(positive);
                self.vector += 1;
                if self.vector < self.batch {
                    return None;
                }
                let row = self.row;
                self.bytes[row] = self.active;
                (self.vector, self.active, self.row) = (0, 0, (row + 1) % NEURONS);
                Some(row)
            }
            Event::Mask(mask) => {
                let at = 4 * self.place;
                self.bytes[at..at + 4].copy_from_slice(&mask.to_le_bytes());
                self.place = (self.place + 1) % (NEURONS / 4);
                Some(at)
            }
        }
    }

    fn count(&mut self, causes: &[Option<usize>], parts: [bool; PARTS.len()]) {
        let counters = &mut self.counters;
        let late = (0..CAUSES).chain([FILLING]);
        late.zip(self.late).for_each(|(word, step)| counters[word] += step);
        for cause in 0..CAUSES {
            self.late[cause] = causes.iter().filter(|of_group| **of_group == Some(cause)).count() as u32;
        }
        let fills = causes.iter().filter(|of_group| parts[0] && of_group.is_none());
        self.late[CAUSES] = fills.count() as u32;
        for (part, busy) in parts.into_iter().enumerate() {
            counters[if part == 7 { ACTIVATION } else { CAUSES + part }] += u32::from(busy);
        }
        counters[OUTSIDE] += u32::from(!parts[0] && !parts[2]);
        counters[CYCLES] += 1;
    }
}

#[test]
fn every_register_says_what_has_happened() -> Outcome {
    let config = design_config("tiny")?;
    let (ranks, most) = (config.gemv().ranks() as usize, u64::from(config.gemv().max_batch()));
    let mut model = Model::open(
        &design("tiny", "monitor", &[])?,
        &OpenOptions { random_contents: Some(1), ..OpenOptions::default() },
    )?;
    let causes: Result<Vec<_>, _> = (0..ranks).map(|g| model.input(&format!("cause{g}_i"))).collect();
    let parts: Result<Vec<_>, _> = PARTS.iter().map(|part| model.input(&format!("{part}_i"))).collect();
    let (causes, parts) = (causes?, parts?);
    let [status, read, register] = ["status_i", "register_re_i", "register_i"].map(|name| model.input(name));
    let (status, read, register) = (status?, read?, register?);
    let [start, batch, taken] = ["dot_start_i", "batch_i", "result_taken_i"].map(|name| model.input(name));
    let (start, batch, taken) = (start?, batch?, taken?);
    let [positive, valid, mask] =
        ["result_positive_i", "mask_valid_i", "mask_i"].map(|name| model.input(name));
    let (positive, valid, mask) = (positive?, valid?, mask?);
    let (link, counter) = (model.input("link_status_i")?, model.input("link_counter_i")?);
    let data = model.output_of_width("register_data_o", 512)?;
    model.reset(2);
    let mut random = SplitMix64::new(5);
    let mut below = |limit: u64| random.next_u64() % limit;

    model.set(read, 1);
    model.set(register, 1);
    model.tick();
    model.set(read, 0);
    let mut counters = Words::default();
    model.get_words(data, &mut counters);
    assert!(counters[CYCLES] < 8 && counters[OUTSIDE] == counters[CYCLES], "{counters:?}");
    counters[CYCLES] += 1;
    counters[OUTSIDE] += 1;

    // The memory's contents after reset mean nothing: the first product covers all of it.
    let mut expected = Expected {
        counters,
        late: [0; CAUSES + 1],
        bytes: [0; NEURONS],
        batch: 1,
        vector: 0,
        active: 0,
        row: 0,
        place: 0,
    };
    let (mut compared, mut asked) = ([0; 6], None::<(u64, Words)>);
    for job in 0..120 {
        let product = job == 0 || below(2) == 0;
        let whole = NEURONS as u64;
        let mut left = match (job, product) {
            (0, _) => whole,
            (_, true) => [below(200), whole + below(90)][usize::from(job % 20 == 7)] * (1 + below(most)),
            (_, false) => [below(40), whole / 4 + below(40)][usize::from(job % 20 == 8)],
        };
        if product {
            expected.batch = if job == 0 { 1 } else { 1 + below(most) };
            left = left.next_multiple_of(expected.batch);
        }
        let mut starts = product;
        while left > 0 || starts {
            let event = match (starts, below(3)) {
                (true, _) => Event::Start,
                (_, 0) => Event::Nothing,
                _ if product => Event::Result { positive: below(2) == 0 },
                _ => Event::Mask(below(1 << 32) as u32),
            };
            starts = false;
            left -= u64::from(!matches!(event, Event::Nothing | Event::Start));
            let of_groups: Vec<_> =
                (0..ranks).map(|_| Some(below(6) as usize).filter(|c| *c < CAUSES)).collect();
            let busy = [0; PARTS.len()].map(|_| below(2) == 0);
            let words = [0; 2].map(|_| [0; 16].map(|_| below(1 << 32) as u32));
            let others = below(1 << 32);
            for (port, value) in causes.iter().zip(&of_groups) {
                model.set(*port, value.map_or(0, |cause| 1 << cause));
            }
            parts.iter().zip(busy).for_each(|(port, value)| model.set(*port, value.into()));
            model.set(start, (event == Event::Start).into());
            model.set(batch, expected.batch % (1 << batch.width()));
            model.set(taken, matches!(event, Event::Result { .. }).into());
            // Without a result or a mask these mean nothing.
            let is_positive = if let Event::Result { positive } = event { positive } else { below(2) == 0 };
            model.set(positive, is_positive.into());
            model.set(valid, matches!(event, Event::Mask(_)).into());
            model.set(mask, if let Event::Mask(mask) = event { mask.into() } else { below(1 << 32) });
            model.set_words(status, &words[0]);
            model.set_words(link, &words[1]);
            model.set(counter, others);
            // The request of the cycle before.
            model.eval();
            if let Some((number, mut words)) = asked {
                if number >> 4 == 1 {
                    words[0] = others as u32;
                }
                let mut found = Words::default();
                model.get_words(data, &mut found);
                assert_eq!(found, words, "job {job}, register {number}");
            }
            let number = match below(8) {
                0 => below(3),
                1 => 64 + (expected.row / 64) as u64,
                2 => 64 + (expected.place / 16) as u64,
                _ => below(256),
            };
            let asks = below(2) == 0;
            model.set(read, asks.into());
            model.set(register, number);
            let kind = match number {
                0..3 => number as usize,
                16..32 => 3,
                64..128 => 4,
                _ => 5,
            };
            let line = 64 * (number.saturating_sub(64) as usize % 64);
            let read_words = match kind {
                0 => words[0],
                1 => expected.counters,
                2 => words[1],
                4 => {
                    let bytes = |word: usize| [0, 1, 2, 3].map(|at| expected.bytes[line + 4 * word + at]);
                    std::array::from_fn(|word| u32::from_le_bytes(bytes(word)))
                }
                _ => Words::default(),
            };
            let written = expected.take(event);
            expected.count(&of_groups, busy);
            // A word that is being written may be old or new; of the first product not all is known.
            let known = kind != 4 || (job > 0 && written.is_none_or(|at| at / 64 != line / 64));
            asked = (asks && known).then_some((number, read_words));
            compared[kind] += u32::from(asked.is_some());
            model.tick();
        }
    }
    assert!(compared.iter().all(|count| *count > 300), "{compared:?}");
    Ok(())
}
