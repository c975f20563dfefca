//! Options for the forms of reports, and the only place that prints and writes reports.

use crate::made;
use anyhow::{Context, Result};
use ndp_files::{FileSet, OutputFile};
use ndp_report::{Report, Screen, Terminal, WIDTH};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Writes the whole file, or nothing.
pub fn write(path: &Path, text: &str) -> Result<()> {
    OutputFile::create(path)?.finish(|out| out.write_all(text.as_bytes()))
}

/// An optional output file, created before the work starts so that a bad path is refused early.
pub struct Asked(Option<OutputFile>);

impl Asked {
    pub fn create(path: Option<&PathBuf>) -> Result<Self> {
        Ok(Self(path.map(|path| OutputFile::create(path)).transpose()?))
    }

    pub fn write(self, text: impl FnOnce() -> Result<String>) -> Result<()> {
        let text = if self.0.is_some() { text()? } else { String::new() };
        self.finish(|out| out.write_all(text.as_bytes()))
    }

    pub fn finish(self, job: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        self.0.map_or(Ok(()), |file| file.finish(job))
    }
}

// Forms of a report. A doc comment here would become the help of every command.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Print one JSON object instead of text; --json=FILE writes it to a file and prints the text
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub json: Option<Option<PathBuf>>,
    /// Write all tables and charts to this file as one HTML page that needs no other file
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Write each table as TABLE.csv to this folder, which is created if it does not exist; schema.csv gives unit and
    /// meaning of each number
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Print all figures and tables
    #[arg(long, short)]
    pub verbose: bool,
}

// The arguments of a command, and the forms of its report. The help text is the one of the arguments.
#[derive(clap::Args, Debug)]
pub struct Shown<A: clap::Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    pub form: OutputArgs,
}

impl<A: clap::Args> std::ops::Deref for Shown<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.args
    }
}

impl<A: clap::Args> Shown<A> {
    pub fn show(&self, job: fn(&Self) -> Result<Report>) -> Result<u8> {
        self.form.show(|| job(self))
    }
}

impl OutputArgs {
    pub fn files(&self, files: FileSet) -> FileSet {
        files.optional("--html", self.html.as_ref()).optional("--json", self.json_file())
    }

    /// Whether JSON replaces the text.
    pub fn prints_json(&self) -> bool {
        matches!(self.json, Some(None))
    }

    fn json_file(&self) -> Option<&PathBuf> {
        self.json.as_ref()?.as_ref()
    }

    /// Runs a job and shows its report. The files are created first, so that a long run does not fail at its end.
    /// Returns the exit code: 1 if a check failed, otherwise 0.
    pub fn show(&self, job: impl FnOnce() -> Result<Report>) -> Result<u8> {
        let html = Asked::create(self.html.as_ref())?;
        let json = Asked::create(self.json_file())?;
        let report = job()?.again(made::rerun());
        html.write(|| Ok(report.page(&made::provenance())?))?;
        json.write(|| Ok(report.json()? + "\n"))?;
        if let Some(folder) = &self.csv {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make '{}'", folder.display()))?;
            for (table, text) in report.csv()? {
                write(&folder.join(format!("{table}.csv")), &text)?;
            }
        }
        if self.prints_json() {
            say!("{}", report.json()?);
        } else {
            let terminal = self.terminal();
            let Screen { text, styles } = report.text(terminal);
            ndp_files::print_styled(&text, if terminal.rich { &styles } else { &[] });
        }
        if report.failed() && self.prints_json() {
            note!("{}", report.failure());
        }
        // Show the result even if a field is missing.
        report.check()?;
        Ok(report.failed().into())
    }

    /// Whether any form shows more than the first screen.
    pub fn is_whole(&self) -> bool {
        self.json.is_some() || self.verbose || self.html.is_some() || self.csv.is_some()
    }

    fn terminal(&self) -> Terminal {
        let screen = std::io::stdout().is_terminal();
        let width =
            if screen { terminal_size::terminal_size().map(|(width, _)| width.0.into()) } else { None };
        let rich = screen && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Terminal { width: width.unwrap_or(WIDTH), rich, verbose: self.verbose }
    }
}
