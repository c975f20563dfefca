//! Slurm: job arrays for the points that have no result, submitted one after the other.

use super::engine::quoted;
use crate::prelude::*;
use ndp_files::NameRule;
use std::process::{Command, Output};

/// Default bound on the tasks of an array, which is Slurm's own default.
const MAX_ARRAY_SIZE: usize = 1001;
/// Largest number of bytes shown of a reason, from its end.
const MOST_REASON: usize = 4096;

/// Resources of the jobs.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options of --engine slurm")]
pub struct Options {
    /// Partition of the jobs
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Account to charge
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Time limit of a job, in Slurm's form: 30 (minutes), 2:00:00, 1-12 (days and hours)
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Memory of a job, in Slurm's form: 4G
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
}

impl Options {
    fn words(&self) -> Result<Vec<String>> {
        let Self { partition, account, time, memory } = self;
        let mut words = Vec::new();
        for (own, option, value) in [
            ("--partition", "--partition", partition),
            ("--account", "--account", account),
            ("--time", "--time", time),
            ("--memory", "--mem", memory),
        ] {
            let Some(value) = value else { continue };
            NameRule::Foreign.check(value).map_err(|error| refusal!("{own} {error}"))?;
            words.push(format!("{option}={value}"));
        }
        Ok(words)
    }

    pub fn are_given(&self) -> bool {
        [&self.partition, &self.account, &self.time, &self.memory].into_iter().any(Option::is_some)
    }
}

/// Bound on the tasks of an array from the configuration of the cluster.
fn max_array_size() -> usize {
    let asked = ndp_files::output(Command::new("scontrol").args(["show", "config"]));
    let text = asked.map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MaxArraySize")?.trim().strip_prefix('='));
    line.and_then(|size| size.trim().parse().ok()).map_or(MAX_ARRAY_SIZE, |size: usize| size.max(1))
}

/// Arguments that submit an array of tasks 0 to `tasks - 1`. Task 0 runs line `first + 1` of the list.
fn sbatch(
    options: &[String],
    [tasks, jobs, first]: [usize; 3],
    log: &str,
    script: &str,
) -> Result<Vec<String>> {
    let folder = std::env::current_dir()?;
    let folder = folder.to_str().context("the current folder has no name in UTF-8")?;
    let mut words: Vec<String> =
        ["sbatch", "--parsable", "--wait", "--job-name=ndp-sweep", "--cpus-per-task=1"]
            .map(str::to_owned)
            .into();
    words.extend([
        format!("--array=0-{}%{jobs}", tasks - 1),
        format!("--chdir={folder}"),
        format!("--output={log}"),
    ]);
    words.extend_from_slice(options);
    words.extend([script.to_owned(), first.to_string()]);
    Ok(words)
}

/// Writes slurm.sh and slurm-submit.sh, submits all arrays, and waits for each.
pub fn submit(path: &Path, list: &Path, tasks: usize, jobs: usize, options: &Options) -> Result<()> {
    let folder = path.canonicalize()?;
    let folder = folder.to_str().context("the folder has no name in UTF-8")?;
    // If the name of a log has a backslash, Slurm does not replace placeholders in it.
    ensure!(!folder.contains('\\'), "--out '{folder}' must have no backslash with --engine slurm");
    let log = format!("{}/slurm-%A_%a.log", folder.replace('%', "%%"));
    let script = format!("{folder}/slurm.sh");
    let text = format!(
        "#!/bin/bash\n# A task of the sweep: a line of the list. The argument is the number of the array's first line, from 0.\n\
         line=$((SLURM_ARRAY_TASK_ID + ${{1:-0}} + 1))\neval \"$(sed -n \"${{line}}p\" {})\"\n",
        quoted(list)?
    );
    write(Path::new(&script), &text)?;
    let (options, most) = (options.words()?, max_array_size());
    let arrays: Vec<Vec<String>> = (0..tasks)
        .step_by(most)
        .map(|first| sbatch(&options, [most.min(tasks - first), jobs, first], &log, &script))
        .collect::<Result<_>>()?;
    let lines: Result<Vec<String>, _> =
        arrays.iter().map(|words| shlex::try_join(words.iter().map(String::as_str))).collect();
    let submit = path.join("slurm-submit.sh");
    write(
        &submit,
        &format!("#!/bin/bash\n# Submits all arrays, one after the other.\n{}\n", lines?.join("\n")),
    )?;
    for (number, words) in arrays.iter().enumerate() {
        if arrays.len() > 1 {
            note!("array {} of {}", number + 1, arrays.len());
        }
        let ran = ndp_files::output(Command::new(&words[0]).args(&words[1..]));
        let Output { status, stdout: out, stderr: err } = ran.with_context(|| {
            format!(
                "cannot run sbatch; submit the jobs with 'bash {}' on a machine with Slurm",
                submit.display()
            )
        })?;
        // Slurm prints the number of an accepted job; the exit status is then that of the job.
        let taken = status.code().is_some() && out.first().is_some_and(u8::is_ascii_digit);
        if !taken {
            let last = String::from_utf8_lossy(&err[err.len().saturating_sub(MOST_REASON)..]);
            anyhow::bail!("sbatch accepted no jobs ({status}): {}", last.trim());
        }
    }
    Ok(())
}
