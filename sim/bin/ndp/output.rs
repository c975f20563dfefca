//! How results are shown: one struct of options for all commands, and the one place that prints and writes reports.

use crate::made;
use crate::verdict::Verdict;
use anyhow::{Context, Result};
use ndp_files::{FileSet, OutputFile};
use ndp_report::{Report, Screen, Terminal, WIDTH};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Forms of a report.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Write a page with all tables and charts, which needs no other file
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Write each table as TABLE.csv to this folder, which is made if it does not exist; schema.csv has unit and meaning of each number
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Print all figures and tables
    #[arg(long, short, conflicts_with = "json")]
    pub verbose: bool,
}

impl OutputArgs {
    /// With the files that are written.
    pub fn files(&self, files: FileSet) -> FileSet {
        files.optional("--html", self.html.as_ref())
    }

    /// Runs a job, and shows its report. The page's file is created first, so that a long run does not fail at its end.
    pub fn show(&self, job: impl FnOnce() -> Result<Report>) -> Result<Verdict> {
        let html = self.html.as_deref().map(OutputFile::create).transpose()?;
        let report = job()?.again(made::rerun());
        if let Some(file) = html {
            let page = report.page(&made::provenance())?;
            file.finish(|out| out.write_all(page.as_bytes()))?;
        }
        if let Some(folder) = &self.csv {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make '{}'", folder.display()))?;
            for (table, text) in report.csv()? {
                let file = OutputFile::create(&folder.join(format!("{table}.csv")))?;
                file.finish(|out| out.write_all(text.as_bytes()))?;
            }
        }
        if self.json {
            say!("{}", report.json()?);
        } else {
            let terminal = self.terminal();
            let Screen { text, styles } = report.text(terminal);
            ndp_files::print_styled(&text, if terminal.rich { &styles } else { &[] });
        }
        if report.failed() && self.json {
            note!("{}", report.failure());
        }
        // The result is shown even if a field is missing.
        report.check()?;
        Ok(if report.failed() { Verdict::Differed } else { Verdict::Agreed })
    }

    /// Whether there is a form with everything, and not only the first screen.
    pub fn is_whole(&self) -> bool {
        self.json || self.verbose || self.html.is_some() || self.csv.is_some()
    }

    fn terminal(&self) -> Terminal {
        let screen = std::io::stdout().is_terminal();
        let width =
            if screen { terminal_size::terminal_size().map(|(width, _)| width.0.into()) } else { None };
        let rich = screen && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Terminal { width: width.unwrap_or(WIDTH), rich, verbose: self.verbose }
    }
}
