//! Wave files: which cycles, which levels, which format.
//!
//! Verilator writes value changes as VCD text into memory: that needs no compression library, and is the same in all
//! its versions. The text goes to a file as it is, or through [`super::fst`] into the far smaller FST. Times are in ps.
//! A failure to write is kept until the end, so that waves cannot change how a simulation runs.

use super::fst::FstWriter;
use ndp_files::{OutputFile, Result, bail, ensure, failure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// ```
/// use ndp_sim::ffi::WaveOptions;
/// let failing = WaveOptions { start_cycle: 900, stop_cycle: Some(1000), ..WaveOptions::new("fail.fst") };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveOptions {
    /// `.fst` or `.vcd` selects the format.
    pub path: PathBuf,
    pub start_cycle: u64,
    /// First cycle after the window; `None` for no end.
    pub stop_cycle: Option<u64>,
    /// Levels of modules, the top module being the first; `None` for all.
    pub depth: Option<u32>,
}

impl WaveOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), start_cycle: 0, stop_cycle: None, depth: None }
    }
}

#[derive(Debug)]
enum Format {
    Vcd(BufWriter<File>),
    Fst(Box<FstWriter>),
}

#[derive(Debug)]
pub(super) struct WaveSink {
    options: WaveOptions,
    period_ps: u64,
    /// Output under a temporary name; renamed when complete.
    output: OutputFile,
    format: Format,
    /// The first error; nothing is written after it.
    failure: Option<String>,
}

impl WaveSink {
    pub(super) const CHUNK: usize = 1 << 18;

    /// With two clocks: how long before an edge its inputs are shown, if the other clock's last edge is not nearer.
    pub(super) const SETTLED_PS: u64 = 10;

    /// `period_ps` is the period of `clk_i`.
    pub(super) fn create(options: &WaveOptions, period_ps: u64) -> Result<Self> {
        let (path, start) = (options.path.clone(), options.start_cycle);
        if let Some(stop) = options.stop_cycle
            && stop <= start
        {
            bail!("the wave window from cycle {start} up to cycle {stop} is empty");
        }
        ensure!(
            options.depth != Some(0),
            "a wave depth of 0 levels dumps nothing; leave the depth out for all levels"
        );
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        ensure!(
            matches!(extension, "fst" | "vcd"),
            "wave file `{}` must end in .fst or .vcd",
            path.display()
        );
        let mut output = OutputFile::create(&path)?;
        let format = if extension == "fst" {
            let file = output.open_seekable()?;
            Format::Fst(Box::new(FstWriter::new(BufWriter::new(file), start * period_ps)))
        } else {
            Format::Vcd(BufWriter::new(output.open()?))
        };
        Ok(Self { options: options.clone(), period_ps, output, format, failure: None })
    }

    /// Levels of modules; 0 for all, as in `shim.h`.
    pub(super) fn depth(&self) -> u32 {
        self.options.depth.unwrap_or(0)
    }

    pub(super) fn start_cycle(&self) -> u64 {
        self.options.start_cycle
    }

    pub(super) fn contains(&self, cycle: u64) -> bool {
        cycle >= self.options.start_cycle && self.options.stop_cycle.is_none_or(|stop| cycle < stop)
    }

    /// The falling edge, with the inputs for the rising one.
    pub(super) fn start_ps(&self, cycle: u64) -> u64 {
        cycle * self.period_ps
    }

    pub(super) fn edge_ps(&self, cycle: u64) -> u64 {
        cycle * self.period_ps + self.period_ps / 2
    }

    pub(super) fn take_dump(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) => self.take_text(text),
            None => self.failure = self.failure.take().or_else(|| Some("memory is exhausted".to_owned())),
        }
    }

    fn take_text(&mut self, text: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        let result = match &mut self.format {
            Format::Vcd(file) => file.write_all(text).map_err(|e| e.to_string()),
            Format::Fst(writer) => writer.take_text(text),
        };
        self.failure = result.err();
    }

    /// `cycle` is the number of simulated cycles, `last_ps` the time of the last dump.
    pub(super) fn finish(mut self, cycle: u64, last_ps: Option<u64>) -> Result<()> {
        let end = self.options.stop_cycle.map_or(cycle, |stop| stop.min(cycle));
        if end > self.options.start_cycle {
            // Gives the last value a duration in a viewer.
            let end_ps = self.start_ps(end).max(last_ps.map_or(0, |last| last + 1));
            self.take_text(format!("#{end_ps}\n").as_bytes());
        }
        if end <= self.options.start_cycle {
            let (path, start) = (self.options.path.display(), self.options.start_cycle);
            ndp_files::warn(format_args!(
                "warning: `{path}` shows nothing: its window begins in cycle {start}, the run ended in cycle {cycle}"
            ));
        }
        let failure = match (self.failure, self.format) {
            (Some(failure), _) => Some(failure),
            (None, Format::Vcd(mut file)) => file.flush().err().map(|e| e.to_string()),
            (None, Format::Fst(writer)) => writer.finish().err(),
        };
        let named = || self.output.commit().err().map(|error| error.root_cause().to_string());
        let path = self.options.path;
        failure
            .or_else(named)
            .map_or(Ok(()), |reason| Err(failure!("cannot write wave file `{}`: {reason}", path.display())))
    }
}
