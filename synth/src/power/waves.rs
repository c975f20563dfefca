//! Values of signals in a wave file, at the rising edges of a clock.
//!
//! The library's readers trust the file: a damaged one makes them panic, and a mapped file that shrinks ends the
//! process. So the file is first read into memory, and a panic becomes an error.

use ndp_files::{Context, Result, refusal};
use std::cell::Cell;
use std::collections::HashMap;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;
use wellen::viewers::{detect_file_format, read_body, read_header};
use wellen::{
    FileFormat, Hierarchy, LoadOptions, ScopeRef, Signal, SignalRef, SignalSource, SignalValueRef, TimeTable,
    WellenError,
};

pub struct Waves {
    hierarchy: Hierarchy,
    source: SignalSource,
    times: TimeTable,
    signals: HashMap<SignalRef, Signal>,
}

#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub signal: SignalRef,
    pub width: u32,
    /// Number of its lowest bit.
    pub first: u32,
}

/// Rising edges of samples; a value is that just before the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Places in the table of times, ascending.
    pub places: Vec<u32>,
    /// Times of the first and the last edge.
    pub span_ps: (u64, u64),
}

/// Bound on a wave file, which is held in memory.
const MAX_BYTES: u64 = 8 << 30;

/// Turns panics of the library's reader into errors, silently.
pub(super) fn guarded<T>(job: impl FnOnce() -> T) -> Result<T, String> {
    thread_local! {
        static READS: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !READS.get() {
                others(panic);
            }
        }));
    });
    let outer = READS.replace(true);
    let result = catch_unwind(AssertUnwindSafe(job));
    READS.set(outer);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
        let line: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
        format!("damaged (the reader of wave files stopped: {line})")
    })
}

/// Refuses times that go back in a VCD file: the reader would print a message on standard output and continue.
fn check_times(bytes: &[u8]) -> Result<(), String> {
    let mut last = 0;
    for line in bytes.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"#")) {
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit());
        let time =
            digits.fold(0_u64, |time, digit| time.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
        if time < last {
            return Err(format!("damaged: the time {time} follows {last}"));
        }
        last = time;
    }
    Ok(())
}

impl Waves {
    /// Opens a file; [`Waves::load`] reads the values.
    pub fn open(path: &Path) -> Result<Self> {
        let wrong = |reason| refusal!("waves '{}': {reason}", path.display());
        // A pipe or device has no known end, and the reader seeks in both directions.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(wrong("not a regular file".to_owned()));
        }
        let bytes = ndp_files::read_bytes(path, MAX_BYTES)
            .with_context(|| format!("cannot read '{}'", path.display()))?;
        Self::of(bytes).map_err(wrong)
    }

    fn of(bytes: Vec<u8>) -> Result<Self, String> {
        // VCD is text. The detector follows the lengths of blocks, and would never end on a damaged FST.
        let is_text = bytes.first().is_some_and(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        if !is_text {
            super::fst::check(&bytes)?;
        }
        match guarded(|| detect_file_format(&mut Cursor::new(&bytes)))? {
            FileFormat::Vcd => check_times(&bytes)?,
            FileFormat::Fst if !is_text => {}
            _ => return Err("neither VCD nor FST".to_owned()),
        }
        // The reader runs on `rayon`, which panics if the operating system refuses threads.
        let options = LoadOptions { multi_thread: false, ..LoadOptions::default() };
        let read = guarded(|| {
            let header = read_header(Cursor::new(bytes), &options)?;
            let body = read_body(header.body, &header.hierarchy, None)?;
            Ok((header.hierarchy, body))
        })?;
        let (hierarchy, body) = read.map_err(|error: WellenError| error.to_string())?;
        let unit = hierarchy.timescale().map(|scale| (scale.factor, scale.unit.to_exponent()));
        match unit {
            Some((1, Some(-12))) => {
                Ok(Self { hierarchy, source: body.source, times: body.time_table, signals: HashMap::new() })
            }
            _ => Err("its unit of time is not 1 ps".to_owned()),
        }
    }

    fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    pub fn top(&self, ports: &[&str]) -> Option<ScopeRef> {
        let hierarchy = self.hierarchy();
        let mut level: Vec<ScopeRef> = hierarchy.scopes().collect();
        while !level.is_empty() {
            // Of two nested scopes the inner one is the module: the outer one has no instances of its own.
            let fits = |scope: &ScopeRef| ports.iter().all(|port| self.find(*scope, port).is_some());
            let inner = |scope: &ScopeRef| hierarchy[*scope].scopes(hierarchy).find(|inner| fits(inner));
            if let Some(scope) = level.iter().copied().find(fits) {
                return Some(inner(&scope).unwrap_or(scope));
            }
            level = level.iter().flat_map(|scope| hierarchy[*scope].scopes(hierarchy)).collect();
        }
        None
    }

    pub fn scope(&self, scope: ScopeRef, name: &str) -> Option<ScopeRef> {
        let hierarchy = self.hierarchy();
        hierarchy[scope].scopes(hierarchy).find(|inner| hierarchy[*inner].name(hierarchy) == name)
    }

    pub fn find(&self, scope: ScopeRef, name: &str) -> Option<Place> {
        let hierarchy = self.hierarchy();
        let var = hierarchy[scope].vars(hierarchy).find(|var| hierarchy[*var].name(hierarchy) == name)?;
        Some(Place {
            signal: hierarchy[var].signal_ref(),
            width: hierarchy[var].length(hierarchy)?,
            first: 0,
        })
    }

    /// A word of an array is `name[index]`; the bits of an array of bits are signals of one name.
    pub fn signals(&self, scope: ScopeRef) -> HashMap<String, Vec<Place>> {
        let hierarchy = self.hierarchy();
        let mut all: HashMap<String, Vec<Place>> = HashMap::new();
        // The reader makes a scope of an array of words.
        let inner = hierarchy[scope].scopes(hierarchy).map(|inner| (inner, hierarchy[inner].name(hierarchy)));
        for (scope, prefix) in inner.chain([(scope, "")]) {
            for var in hierarchy[scope].vars(hierarchy).map(|var| &hierarchy[var]) {
                let Some(width) = var.length(hierarchy) else { continue };
                let first = var.index().map_or(0, |index| index.lsb());
                let place =
                    Place { signal: var.signal_ref(), width, first: u32::try_from(first).unwrap_or(0) };
                all.entry(format!("{prefix}{}", var.name(hierarchy))).or_default().push(place);
            }
        }
        all
    }

    /// # Errors
    /// A damaged file.
    pub fn load(&mut self, signals: &[SignalRef]) -> Result<(), String> {
        let loaded = guarded(|| self.source.load_signals(signals, &self.hierarchy, false))?;
        self.signals.extend(loaded.into_iter().map(|signal| (signal.signal_ref(), signal)));
        Ok(())
    }

    /// Rising edges of any of `clocks`, which have to be loaded, from `from_ps` up to `to_ps`.
    pub fn edges(&self, clocks: &[SignalRef], from_ps: u64, to_ps: u64) -> Samples {
        let times = &self.times;
        let mut edges: Vec<u32> = Vec::new();
        for signal in clocks.iter().filter_map(|clock| self.signals.get(clock)) {
            let mut last = true;
            for (place, value) in signal.iter_changes() {
                let level = bit(&value, 0);
                if level && !last && (from_ps..to_ps).contains(&times[place as usize]) {
                    edges.push(place);
                }
                last = level;
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let time = |place: Option<&u32>| place.map_or(0, |place| times[*place as usize]);
        // The first time has none before it.
        edges.retain(|place| *place > 0);
        Samples {
            span_ps: (time(edges.first()), time(edges.last())),
            places: edges.iter().map(|place| place - 1).collect(),
        }
    }

    pub fn rises(&self, clock: SignalRef, samples: &Samples, words: &mut [u64]) {
        words.fill(0);
        let Some(signal) = self.signals.get(&clock) else { return };
        for (place, value) in signal.iter_changes().filter(|(place, value)| *place > 0 && bit(value, 0)) {
            let _ = value;
            if let Ok(sample) = samples.places.binary_search(&(place - 1)) {
                words[sample / 64] |= 1 << (sample % 64);
            }
        }
    }

    /// Fills in, for each `(bit, words)`, a bit per sample.
    ///
    /// # Errors
    /// A signal that is not loaded, begins after the first sample, or has values other than 0 and 1.
    pub fn bits(
        &self,
        signal: SignalRef,
        samples: &Samples,
        wanted: &mut [(u32, &mut [u64])],
    ) -> Result<(), String> {
        let found = self.signals.get(&signal).ok_or("a signal without values")?;
        let mut changes = found.iter_changes().peekable();
        let mut value: Option<SignalValueRef> = None;
        let mut levels = vec![false; wanted.len()];
        for (sample, place) in samples.places.iter().enumerate() {
            let mut changed = false;
            while let Some((_, next)) = changes.next_if(|(at, _)| at <= place) {
                (value, changed) = (Some(next), true);
            }
            let value = value.as_ref().ok_or("a signal without a value at the first edge")?;
            if changed {
                if !matches!(value, SignalValueRef::BitVec(bits) if bits.be_bytes().is_some()) {
                    return Err("a value that is neither 0 nor 1".to_owned());
                }
                levels.iter_mut().zip(wanted.iter()).for_each(|(level, (at, _))| *level = bit(value, *at));
            }
            for (level, (_, words)) in levels.iter().zip(wanted.iter_mut()) {
                words[sample / 64] |= u64::from(*level) << (sample % 64);
            }
        }
        Ok(())
    }
}

fn bit(value: &SignalValueRef, at: u32) -> bool {
    let SignalValueRef::BitVec(bits) = value else { return false };
    let Some(bytes) = bits.be_bytes() else { return false };
    let byte = bytes.len().checked_sub(1 + at as usize / 8).map(|place| bytes[place]);
    byte.is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}
