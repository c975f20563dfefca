//! The folder of a sweep: its points, and a file for each result, named by what the result depends on.

use super::space::Point;
use anyhow::{Context, Result, bail, ensure};
use ndp_files::{Child, OutputFile, TemporaryFolder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest report, and longest list of points.
const MOST_BYTES: u64 = 1 << 30;
/// Between two looks at a command that runs.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A result: a line of `results.jsonl`. It has no times, so that equal points have equal bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the point.
    pub key: String,
    /// Name of the command.
    pub command: String,
    /// Keys of configurations that the sweep sets.
    pub keys: BTreeMap<String, Value>,
    /// Options of the command that it sets.
    pub options: BTreeMap<String, Value>,
    /// What was measured; nothing if the point was refused.
    pub metrics: BTreeMap<String, Value>,
    /// Why the command does not take the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What a run printed, and how long it took.
#[derive(Debug, Serialize, Deserialize)]
struct Ran {
    seconds: f64,
    command: Vec<String>,
    output: Value,
}

/// The folder.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder at a path.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn result(&self, key: &str) -> PathBuf {
        self.0.join("results").join(format!("{key}.json"))
    }

    /// What a point printed, by its path in the folder.
    pub fn output(key: &str) -> String {
        format!("outputs/{key}.json")
    }

    /// Writes the list of points. Results that are there stay.
    pub fn begin(&self, points: &[Point]) -> Result<()> {
        for name in ["results", "outputs", "files"] {
            let path = self.file(name);
            std::fs::create_dir_all(&path).with_context(|| format!("cannot create '{}'", path.display()))?;
        }
        let lines: Result<Vec<String>, _> = points.iter().map(serde_json::to_string).collect();
        write(&self.file("points.jsonl"), &format!("{}\n", lines?.join("\n")))
    }

    /// The points.
    pub fn points(&self) -> Result<Vec<Point>> {
        let path = self.file("points.jsonl");
        let text = ndp_files::read_text(&path, MOST_BYTES).with_context(|| {
            format!("cannot read '{}' (`ndp sweep run` makes the folder of a sweep)", path.display())
        })?;
        let parsed: Result<Vec<Point>, _> = text.lines().map(serde_json::from_str).collect();
        parsed.with_context(|| format!("'{}' is no list of points", path.display()))
    }

    /// The result of a point, if it is there.
    pub fn outcome(&self, point: &Point) -> Result<Option<Outcome>> {
        let path = self.result(&point.key);
        if !path.exists() {
            return Ok(None);
        }
        let text = ndp_files::read_text(&path, MOST_BYTES)
            .with_context(|| format!("cannot read '{}'", path.display()))?;
        let outcome: Outcome = serde_json::from_str(&text)
            .with_context(|| format!("'{}' is no result; without it the point runs again", path.display()))?;
        ensure!(outcome.key == point.key, "'{}' is the result of another point", path.display());
        // The name of a command is no part of the key.
        Ok(Some(Outcome { command: point.command.clone(), ..outcome }))
    }

    /// Seconds that a point took.
    pub fn seconds(&self, key: &str) -> Option<f64> {
        let text = ndp_files::read_text(&self.file(&Self::output(key)), MOST_BYTES).ok()?;
        serde_json::from_str::<Ran>(&text).ok().map(|ran| ran.seconds)
    }

    /// Forgets the result of a point.
    pub fn forget(&self, point: &Point) -> Result<()> {
        let path = self.result(&point.key);
        std::fs::remove_file(&path).with_context(|| format!("cannot remove '{}'", path.display()))
    }

    /// Runs a point, unless its result is there, and stores what comes of it. Returns whether it ran.
    ///
    /// # Errors
    /// For a command that fails otherwise than by refusing its arguments, and for a metric that it does not print.
    pub fn run(&self, point: &Point) -> Result<bool> {
        if self.outcome(point)?.is_some() {
            return Ok(false);
        }
        let mut words = point.words.clone();
        for (index, (option, text)) in point.files.iter().enumerate() {
            let path = self.file("files").join(format!("{}-{index}.toml", point.key));
            write(&path, text)?;
            words.extend([option.clone(), path.display().to_string()]);
        }
        words.push("--json".to_owned());
        let line = format!("ndp {}", words.join(" "));
        let temporary = TemporaryFolder::create("sweep-").context("no temporary directory")?;
        let (out, err) = (temporary.path().join("out"), temporary.path().join("err"));
        let begin = Instant::now();
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = Child::spawn(
            command
                .args(&words)
                .stdin(std::process::Stdio::null())
                .stdout(File::create(&out)?)
                .stderr(File::create(&err)?),
        )?;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(BETWEEN_LOOKS),
            }
        };
        let seconds = begin.elapsed().as_secs_f64();
        let said = ndp_files::read_text(&err, MOST_BYTES)?;
        let said =
            said.lines().rfind(|line| line.starts_with("error")).unwrap_or("it printed no error").to_owned();
        let mut outcome = Outcome {
            key: point.key.clone(),
            command: point.command.clone(),
            keys: json_of(&point.keys)?,
            options: json_of(&point.options)?,
            metrics: BTreeMap::new(),
            refused: None,
        };
        let mut output = Value::Null;
        match status.code() {
            Some(0) => {
                let text = ndp_files::read_text(&out, MOST_BYTES)?;
                output = serde_json::from_str(&text).with_context(|| format!("`{line}` prints no JSON"))?;
                for (name, pointer) in &point.metrics {
                    let value =
                        output.pointer(pointer).filter(|value| !value.is_object() && !value.is_array());
                    let Some(value) = value else {
                        bail!("metric `{name}`: there is no value at \"{pointer}\" in what `{line}` prints");
                    };
                    outcome.metrics.insert(name.clone(), value.clone());
                }
            }
            // Without the path of the folder, so that equal points have equal bytes.
            Some(2) => outcome.refused = Some(said.replace(&format!("{}/", self.0.display()), "")),
            _ => bail!("`{line}` failed: {said}"),
        }
        let ran = Ran { seconds, command: words, output };
        write(&self.file(&Self::output(&point.key)), &serde_json::to_string(&ran)?)?;
        write(&self.result(&point.key), &format!("{}\n", serde_json::to_string(&outcome)?))?;
        Ok(true)
    }
}

fn json_of(chosen: &BTreeMap<String, toml::Value>) -> Result<BTreeMap<String, Value>> {
    chosen.iter().map(|(key, value)| Ok((key.clone(), serde_json::to_value(value)?))).collect()
}

/// Writes a file, whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<()> {
    Ok(OutputFile::create(path)?.finish(|out| out.write_all(text.as_bytes()))?)
}
